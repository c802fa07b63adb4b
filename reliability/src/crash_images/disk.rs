//! A file system as far as a power cut is concerned: what is safe, and what is on its way.
//!
//! A sync makes safe what was written to that file before it *began*, when it has succeeded. A new or a
//! deleted name is safe when the directory was synced; what is in a file has nothing to do with that.
//! File systems are kinder than this; programs must not count on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::recording::{Event, Recording};

/// A change of a file's content.
#[derive(Clone, Debug)]
pub enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    Size(u64),
}

/// A change of the directory.
#[derive(Clone, Debug)]
pub enum Naming {
    Link(String, usize),
    Unlink(String),
}

/// Changes of one thing, those on their way in order.
#[derive(Clone, Debug)]
pub struct Unsafe<T> {
    /// With the number of the event.
    pub pending: Vec<(usize, T)>,
    /// How many of them each sync that has begun is about.
    syncs: HashMap<u64, usize>,
}

impl<T> Unsafe<T> {
    fn new() -> Unsafe<T> {
        Unsafe { pending: Vec::new(), syncs: HashMap::new() }
    }

    fn begin(&mut self, actor: u64) {
        self.syncs.insert(actor, self.pending.len());
    }

    /// What is safe from now on.
    fn end(&mut self, actor: u64) -> Vec<(usize, T)> {
        let count = self.syncs.remove(&actor).unwrap_or(0);
        for others in self.syncs.values_mut() {
            *others = others.saturating_sub(count);
        }
        self.pending.drain(..count).collect()
    }
}

/// A file, whatever its names.
#[derive(Clone, Debug)]
pub struct File {
    pub safe: Vec<u8>,
    pub changes: Unsafe<Change>,
}

/// The file system.
#[derive(Clone, Debug)]
pub struct Disk {
    directory_inode: u64,
    pub files: Vec<File>,
    /// Inode numbers are used again; places in `files` are not.
    by_inode: HashMap<u64, usize>,
    pub safe_names: BTreeMap<String, usize>,
    pub namings: Unsafe<Naming>,
    /// Events so far.
    count: usize,
}

impl Disk {
    /// The beginning of a recording: everything is safe.
    pub fn new(recording: &Recording) -> Disk {
        let mut disk = Disk {
            directory_inode: recording.directory_inode,
            files: Vec::new(),
            by_inode: HashMap::new(),
            safe_names: BTreeMap::new(),
            namings: Unsafe::new(),
            count: 0,
        };
        for (name, (inode, bytes)) in &recording.before {
            let file = disk.add(*inode, bytes.clone());
            disk.safe_names.insert(name.clone(), file);
        }
        disk
    }

    fn add(&mut self, inode: u64, safe: Vec<u8>) -> usize {
        self.files.push(File { safe, changes: Unsafe::new() });
        self.by_inode.insert(inode, self.files.len() - 1);
        self.files.len() - 1
    }

    /// One event later.
    pub fn apply(&mut self, event: &Event) {
        self.count += 1;
        let now = self.count;
        match event {
            Event::Write { inode, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: Arc::clone(bytes) };
                self.file(*inode).changes.pending.push((now, change));
            }
            Event::Truncate { inode, size } => {
                self.file(*inode).changes.pending.push((now, Change::Size(*size)));
            }
            Event::Create { inode, name } => {
                let file = self.add(*inode, Vec::new());
                self.namings.pending.push((now, Naming::Link(name.clone(), file)));
            }
            Event::Unlink { name } => {
                self.namings.pending.push((now, Naming::Unlink(name.clone())));
            }
            Event::SyncBegin { actor, inode } if *inode == self.directory_inode => {
                self.namings.begin(*actor);
            }
            Event::SyncEnd { actor, inode } if *inode == self.directory_inode => {
                for (_, naming) in self.namings.end(*actor) {
                    name(&mut self.safe_names, &naming);
                }
            }
            Event::SyncBegin { actor, inode } => self.file(*inode).changes.begin(*actor),
            Event::SyncEnd { actor, inode } => {
                let file = self.file(*inode);
                for (_, made_safe) in file.changes.end(*actor) {
                    change(&mut file.safe, &made_safe);
                }
            }
            Event::Said(_) => {}
        }
    }

    fn file(&mut self, inode: u64) -> &mut File {
        let place = self.by_inode.get(&inode).expect("a file is made before it is changed");
        &mut self.files[*place]
    }

    /// Nothing is on its way: every cut here leaves the same.
    pub fn is_all_safe(&self) -> bool {
        self.namings.pending.is_empty()
            && self.files.iter().all(|file| file.changes.pending.is_empty())
    }
}

/// Applies a change to a content.
pub fn change(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Size(size) => content.resize(*size as usize, 0),
        Change::Write { offset, bytes } => {
            let (start, end) = (*offset as usize, *offset as usize + bytes.len());
            if content.len() < end {
                content.resize(end, 0);
            }
            content[start..end].copy_from_slice(bytes);
        }
    }
}

/// Applies a naming to a directory.
pub fn name(names: &mut BTreeMap<String, usize>, naming: &Naming) {
    match naming {
        Naming::Link(name, file) => drop(names.insert(name.clone(), *file)),
        Naming::Unlink(name) => drop(names.remove(name)),
    }
}
