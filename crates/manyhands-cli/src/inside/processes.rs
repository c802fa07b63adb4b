//! Who has the file open: members by the lock that witnesses their life, other SQLite programs by their open files.
//!
//! To look at all processes takes some milliseconds. So a member is looked for where it says that it is, and all are looked at only from time
//! to time: for a hundredth of the time at most.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    time::{Duration, Instant},
};

use manyhands_queue::{Onlooker, Seen, kernel_locks};

use super::state::Stock;
use crate::{
    carrier::{Content, Contents},
    process::{self, Process},
};

/// How often all processes are looked at, at most.
const SCAN_EVERY: Duration = Duration::from_secs(2);
/// And how many times as long as it takes.
const SCAN_SHARE: u32 = 100;

/// Device and inode number.
pub type FileId = (u64, u64);

/// A member's process.
#[derive(Clone, Debug, Default)]
pub struct Person {
    /// `None` for one that cannot be seen from here.
    pub process: Option<Process>,
    pub command: String,
    pub container: Option<String>,
}

impl Person {
    fn of(process: Process) -> Self {
        let (command, container) = (process.command_line(), process.container());
        Self { process: Some(process), command, container }
    }

    pub fn pid(&self) -> Option<i32> {
        self.process.map(|process| process.pid)
    }
}

/// Who was found so far.
#[derive(Default)]
pub struct Processes {
    members: HashMap<(u16, u64), Person>,
    stock: BTreeMap<Process, Option<Stock>>,
    /// When all may be looked at again.
    next_scan: Option<Instant>,
    contents: Contents,
}

impl Processes {
    /// Looks at who is there. `wal` is the -wal file.
    pub fn look(
        &mut self,
        members: &[Seen],
        queue: Option<FileId>,
        database: FileId,
        wal: Option<FileId>,
    ) {
        self.members.retain(|known, _| members.iter().any(|it| key(it) == *known));
        for member in members {
            if let Some(queue) = queue
                && !self.members.contains_key(&key(member))
                && let Some(found) = where_it_says(member, queue)
            {
                self.members.insert(key(member), Person::of(found));
            }
        }
        if self.next_scan.is_none_or(|next| Instant::now() >= next) {
            let began = Instant::now();
            self.scan(members, queue, database, wal);
            self.next_scan = Some(Instant::now() + SCAN_EVERY.max(began.elapsed() * SCAN_SHARE));
        }
    }

    /// Looks at all processes.
    fn scan(
        &mut self,
        members: &[Seen],
        queue: Option<FileId>,
        database: FileId,
        wal: Option<FileId>,
    ) {
        let own = i32::try_from(std::process::id()).ok();
        let all = process::all().unwrap_or_default();
        self.stock.retain(|known, _| all.contains(known));
        let lost: Vec<_> =
            members.iter().filter(|it| !self.members.contains_key(&key(it))).collect();
        for process in all.iter().copied().filter(|process| Some(process.pid) != own) {
            if let Some(queue) = queue.filter(|_| !lost.is_empty())
                && let Some(member) =
                    lost.iter().find(|it| numbers_of(process, queue).any(|n| n == it.member))
            {
                self.members.insert(key(member), Person::of(process));
            }
            let is_member = self.members.values().any(|it| it.process == Some(process));
            if is_member || !process.has_open(database.0, database.1) {
                self.stock.remove(&process);
            } else if !self.stock.contains_key(&process) {
                let stock = self.stock_of(process, queue, wal);
                self.stock.insert(process, stock);
            }
        }
    }

    /// What a program is that has the file open without the queue; `None` for one that shows no SQLite (a backup, say), and for one
    /// that has closed it: Manyhands keeps descriptors for a while.
    fn stock_of(
        &mut self,
        process: Process,
        queue: Option<FileId>,
        wal: Option<FileId>,
    ) -> Option<Stock> {
        let mapped = process.mappings().map(|it| it.programs).unwrap_or_default();
        let program = process.program();
        let mut found = Stock {
            pid: process.pid,
            command: process.command_line(),
            container: process.container(),
            library: None,
            date: None,
            is_guest: false,
        };
        // A library of that name first: a program may have SQLite, too, and not use it.
        let is_named = |path: &Path| path.to_string_lossy().contains("sqlite");
        let (named, others): (Vec<_>, Vec<_>) =
            mapped.into_iter().partition(|mapped| is_named(&mapped.path));
        for mapped in named.into_iter().chain(others) {
            match self.contents.read(&process.openable(&mapped)) {
                Ok(Content::Manyhands) => found.is_guest = true,
                Ok(Content::Sqlite { date, .. }) if found.library.is_none() => {
                    found.library = Some(mapped.path);
                    found.date = Some(date);
                }
                _ => {}
            }
        }
        let is_unseen = program.is_none();
        let uses_wal = || wal.is_some_and(|wal| process.has_open(wal.0, wal.1));
        // It may have joined since the members were read.
        let has_joined = || queue.is_some_and(|it| numbers_of(process, it).next().is_some());
        if found.is_guest && (has_joined() || found.library.is_none() && !uses_wal()) {
            return None;
        }
        (found.is_guest || found.library.is_some() || is_unseen).then_some(found)
    }

    pub fn member(&self, member: &Seen) -> Person {
        self.members.get(&key(member)).cloned().unwrap_or_default()
    }

    /// Other SQLite programs, in the order of their numbers.
    pub fn stock(&self) -> Vec<Stock> {
        self.stock.values().flatten().cloned().collect()
    }
}

fn key(member: &Seen) -> (u16, u64) {
    (member.member, member.joined_ns)
}

/// The member numbers whose locks a process holds in this queue file.
fn numbers_of(process: Process, queue: FileId) -> impl Iterator<Item = u16> {
    let pid = process.pid.unsigned_abs();
    let locks = kernel_locks::of_open_files(pid, Some(process::QUEUE_SUFFIX));
    let own = locks.into_iter().filter(move |lock| lock.inode == queue.1);
    own.filter_map(|lock| Onlooker::member_of_lock(lock.first))
}

/// The process with the number that the member knows as its own, unless that is another's here.
fn where_it_says(member: &Seen, queue: FileId) -> Option<Process> {
    let process = Process::with_pid(i32::try_from(member.pid).ok()?)?;
    numbers_of(process, queue).any(|number| number == member.member).then_some(process)
}
