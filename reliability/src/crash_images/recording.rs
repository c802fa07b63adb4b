//! What processes did to the files of a directory: every change, sync and word, in one order.
//!
//! A recording is a directory of its own: `before/` has the files as they were, all of them safe;
//! `log` has the records of the preloaded library (`recorder/`). It can be kept, and examined again.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

#[path = "../../recorder/src/format.rs"]
mod format;

/// Files that mean nothing after a power cut: the recorder leaves them out.
const VOLATILE: [&str; 2] = ["-shm", "-hands"];

/// The contents of a directory, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// One event.
#[derive(Clone, Debug)]
pub enum Event {
    Write {
        inode: u64,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    Truncate {
        inode: u64,
        size: u64,
    },
    Create {
        inode: u64,
        name: String,
    },
    Unlink {
        name: String,
    },
    SyncBegin {
        actor: u64,
        inode: u64,
    },
    SyncEnd {
        actor: u64,
        inode: u64,
    },
    /// A line of a process, before anybody heard it.
    Said(String),
}

/// A recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The inode of the directory itself, whose sync is about names.
    pub directory_inode: u64,
    /// The files at the beginning, with their inodes.
    pub before: BTreeMap<String, (u64, Vec<u8>)>,
    pub events: Vec<Event>,
}

/// A recording that is being made.
#[derive(Debug)]
pub struct Recorder {
    /// The directory that is watched.
    directory: PathBuf,
    /// Where the recording lies.
    place: PathBuf,
}

impl Recorder {
    /// Takes the files of `directory` as they are; what is recorded will lie in `place`.
    pub fn start(directory: &Path, place: &Path) -> Result<Recorder> {
        let before = place.join("before");
        std::fs::create_dir_all(&before).context("make a directory for the recording")?;
        let mut inodes = format!(". {}\n", std::fs::metadata(directory)?.ino());
        for (name, bytes) in read_files(directory)? {
            let inode = std::fs::metadata(directory.join(&name))?.ino();
            inodes += &format!("{name} {inode}\n");
            std::fs::write(before.join(&name), bytes)?;
        }
        std::fs::write(place.join("inodes"), inodes)?;
        std::fs::write(place.join("log"), [])?;
        Ok(Recorder { directory: directory.to_owned(), place: place.to_owned() })
    }

    /// Where the records go.
    pub fn log(&self) -> PathBuf {
        self.place.join("log")
    }

    /// Reads what was recorded, and makes sure that it leads to the files that are there.
    pub fn finish(&self) -> Result<Recording> {
        let recording = Recording::read(&self.place)?;
        let (found, told) = (read_files(&self.directory)?, recording.after());
        for name in found.keys().chain(told.keys()) {
            let same = found.get(name) == told.get(name);
            ensure!(same, "the recorder missed something: {name} is not what its records lead to");
        }
        Ok(recording)
    }
}

/// The files of a directory that would survive a power cut.
pub fn read_files(directory: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in std::fs::read_dir(directory).context("list the directory")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !VOLATILE.iter().any(|end| name.ends_with(end)) {
            files.insert(name.clone(), std::fs::read(directory.join(&name))?);
        }
    }
    Ok(files)
}

impl Recording {
    /// Reads a recording.
    pub fn read(place: &Path) -> Result<Recording> {
        let (mut directory_inode, mut before) = (0, BTreeMap::new());
        for line in std::fs::read_to_string(place.join("inodes"))?.lines() {
            let (name, inode) = line.split_once(' ').context("a line of `inodes`")?;
            let inode = inode.parse().context("an inode")?;
            if name == "." {
                directory_inode = inode;
            } else {
                let bytes = std::fs::read(place.join("before").join(name))?;
                before.insert(name.to_owned(), (inode, bytes));
            }
        }
        let log = std::fs::read(place.join("log")).context("read the log")?;
        let mut events = Vec::new();
        let mut rest = log.as_slice();
        while !rest.is_empty() {
            rest = read_event(rest, &mut events).context("the log is damaged")?;
        }
        Ok(Recording { directory_inode, before, events })
    }

    /// The files at the end, had there been no power cut.
    fn after(&self) -> Files {
        let mut disk = super::disk::Disk::new(self);
        self.events.iter().for_each(|event| disk.apply(event));
        super::image::build(&disk, super::image::Mode::All, 0)
    }
}

/// Takes one record off, and returns the rest.
fn read_event<'a>(log: &'a [u8], events: &mut Vec<Event>) -> Option<&'a [u8]> {
    let (header, rest) = log.split_at_checked(format::HEADER_BYTES)?;
    let word = |at: usize| Some(u32::from_le_bytes(header[at..at + 4].try_into().ok()?));
    let number = |at: usize| Some(u64::from_le_bytes(header[at..at + 8].try_into().ok()?));
    if word(0)? != format::MAGIC {
        return None;
    }
    let (actor, inode, offset) = (number(8)?, number(16)?, number(24)?);
    let (bytes, rest) = rest.split_at_checked(usize::try_from(number(32)?).ok()?)?;
    let name = || {
        let path = PathBuf::from(String::from_utf8_lossy(bytes).into_owned());
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    match word(4)? {
        format::WRITE => events.push(Event::Write { inode, offset, bytes: bytes.into() }),
        format::TRUNCATE => events.push(Event::Truncate { inode, size: offset }),
        format::CREATE => events.push(Event::Create { inode, name: name()? }),
        format::UNLINK => events.push(Event::Unlink { name: name()? }),
        format::SYNC_BEGIN => events.push(Event::SyncBegin { actor, inode }),
        format::SYNC_END => events.push(Event::SyncEnd { actor, inode }),
        format::SAID => {
            let words = String::from_utf8_lossy(bytes);
            events.extend(words.lines().map(|line| Event::Said(line.to_owned())));
        }
        _ => return None,
    }
    Some(rest)
}
