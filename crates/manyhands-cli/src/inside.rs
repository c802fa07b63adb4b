//! What goes on in a database file, seen from outside: by the queue file, the wal-index, the kernel's locks and /proc. Nothing is opened
//! through SQLite, and no lock is taken: who looks is in nobody's way, also where everybody waits.

pub mod state;

pub mod processes;

pub mod wal;

mod rates;

pub mod files;

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use manyhands::driver::statements_of_request;
use manyhands_queue::{Kind, LookError, Onlooker, Seen, SlotState};

use processes::{FileId, Processes};
use rates::History;
use state::{Asks, Conflict, Does, Leader, Member, Party, Stands, State, Waiting};
use wal::{WalLook, beside, party_of};

use crate::process::{Process, QUEUE_SUFFIX};

/// Looks at one file again and again.
pub struct Inside {
    path: PathBuf,
    onlooker: Option<Onlooker>,
    processes: Processes,
    wal: WalLook,
    history: History,
}

impl Inside {
    /// # Errors
    /// There is no such file.
    pub fn of(path: &Path) -> Result<Self> {
        let path = path.canonicalize().with_context(|| format!("open {}", path.display()))?;
        let (processes, wal, history) = Default::default();
        Ok(Self { path, onlooker: None, processes, wal, history })
    }

    /// Cancels what a member waits for and executes; says what comes of it.
    pub fn cancel(&self, member: u16) -> String {
        match &self.onlooker {
            Some(onlooker) => {
                onlooker.cancel(member);
                "cancelled: what it executes ends at its next step, what waits within 150 ms"
                    .to_owned()
            }
            None => "it has gone".to_owned(),
        }
    }

    /// How many operations of a member have ended since they were cancelled.
    pub fn cancelled(&self, member: u16) -> u32 {
        let members = self.onlooker.as_ref().map(Onlooker::members).unwrap_or_default();
        members.iter().find(|it| it.member == member).map_or(0, |it| it.cancelled)
    }

    fn look_for_queue(&mut self) -> Option<String> {
        if self.onlooker.as_ref().is_some_and(Onlooker::is_current) {
            return None;
        }
        self.history.forget();
        let opened = Onlooker::open(&beside(&self.path, QUEUE_SUFFIX));
        let note = match &opened {
            Err(LookError::System(error))
                if error.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Some(format!(
                    "{}: look as the user whose processes have it open, or as root",
                    LookError::System(std::io::ErrorKind::PermissionDenied.into())
                ))
            }
            opened => opened.as_ref().err().map(ToString::to_string),
        };
        self.onlooker = opened.ok();
        note
    }

    /// What goes on now.
    ///
    /// # Errors
    /// The file is gone.
    pub fn look(&mut self) -> Result<State> {
        let found = self.path.metadata().with_context(|| format!("{}", self.path.display()))?;
        let database: FileId = (found.dev(), found.ino());
        let note = self.look_for_queue();
        let mut state = State { file: self.path.clone(), note, ..State::default() };
        let members = self.onlooker.as_ref().map(Onlooker::members).unwrap_or_default();
        let queue = self.onlooker.as_ref().and_then(|it| it.identity().ok());
        let id = |it: std::fs::Metadata| (it.dev(), it.ino());
        let wal = beside(&self.path, "-wal").metadata().ok().map(id);
        self.processes.look(&members, queue, database, wal);
        let people: Vec<_> = members.iter().map(|it| (it, self.processes.member(it))).collect();
        let ours: Vec<Process> = people.iter().filter_map(|(_, person)| person.process).collect();
        let party = |process: Process| {
            let person = people.iter().find(|(_, person)| person.process == Some(process));
            Party {
                pid: Some(process.pid),
                label: person.map(|(seen, _)| seen.label.clone()).unwrap_or_default(),
                command: person.map(|(_, person)| person.command.clone()).unwrap_or_default(),
                is_stock: false,
            }
        };
        let looked = self.wal.look(&self.path, &ours, party);
        state.wal = looked.wal;
        // A leader of ours is told below, with more.
        let foreign = looked.write_lock.filter(|lock| !lock.is_of_open_file);
        state.write_lock =
            foreign.map(|lock| party_of(&lock, lock.inode, lock.first, &ours, party));
        state.stock = self.processes.stock();
        let Some(onlooker) = &self.onlooker else { return Ok(state) };
        let starvation = onlooker.starvation();
        state.wal.kept_bytes = starvation.map_or(0, |(bytes, _)| bytes);
        if let (Some((_, age)), Some(oldest)) = (starvation, state.wal.readers.first_mut()) {
            oldest.age_s = oldest.age_s.max(age.as_secs_f64());
        }
        let happened = self.history.add(onlooker.figures(), looked.change, &members);
        (state.seconds, state.rates, state.waits) =
            (happened.seconds, happened.rates, happened.waits);
        let pid = |number: u16| {
            people.iter().find(|(seen, _)| seen.member == number).and_then(|(_, it)| it.pid())
        };
        let waiting = onlooker.waiting();
        state.queue = waiting.iter().enumerate().map(|(at, it)| told(at, it, pid)).collect();
        state.leader = leader(onlooker, &people, &state.queue);
        state.conflict = onlooker.conflict().map(|(number, told)| Conflict {
            pid: pid(number),
            ago_s: told.ended_for.unwrap_or_default().as_secs_f64(),
            statement: told.text,
        });
        let leads = onlooker.leader().map(|it| it.member);
        state.members = people
            .iter()
            .map(|(seen, person)| {
                let own: Vec<_> = waiting.iter().filter(|it| it.member == seen.member).collect();
                Member {
                    member: seen.member,
                    pid: person.pid(),
                    own_pid: seen.pid,
                    label: seen.label.clone(),
                    command: person.command.clone(),
                    container: person.container.clone(),
                    age_s: seen.age.as_secs_f64(),
                    commits: seen.counts.commits,
                    commits_per_s: happened
                        .commits_per_s
                        .get(&(seen.member, seen.joined_ns))
                        .copied()
                        .unwrap_or_default(),
                    conflicts: seen.counts.conflicts,
                    waiting: own.len(),
                    waits_s: own.first().map(|it| it.age.as_secs_f64()),
                    leads: leads == Some(seen.member),
                }
            })
            .collect();
        Ok(state)
    }
}

/// One place of the queue.
fn told(
    at: usize,
    waiting: &manyhands_queue::Waiting,
    pid: impl Fn(u16) -> Option<i32>,
) -> Waiting {
    let statements = statements_of_request(&waiting.request);
    Waiting {
        place: at + 1,
        pid: pid(waiting.member),
        label: waiting.label.clone(),
        asks: if waiting.kind == Kind::Turn { Asks::Turn } else { Asks::Request },
        state: match waiting.state {
            SlotState::Taken => Stands::Executes,
            SlotState::Executed => Stands::Executed,
            _ => Stands::Waits,
        },
        waits_s: waiting.age.as_secs_f64(),
        statements: statements.len(),
        statement: statements.into_iter().next(),
    }
}

/// Who leads, and what it does: its own statement, or what it has in hand of the queue.
fn leader(
    onlooker: &Onlooker,
    people: &[(&Seen, processes::Person)],
    queue: &[Waiting],
) -> Option<Leader> {
    let leader = onlooker.leader()?;
    let person = people.iter().find(|(seen, _)| seen.member == leader.member);
    let person = person.map(|(_, person)| person.clone()).unwrap_or_default();
    let mut in_hand = queue.iter().filter(|it| it.state != Stands::Waits);
    let batch = in_hand.clone().find(|it| it.state == Stands::Executes).or(in_hand.next());
    let idle = leader.statement.as_ref().and_then(|told| told.ended_for);
    let (does, statement) = match (batch, leader.statement) {
        (Some(batch), _) => (Does::Batch, batch.statement.clone()),
        (None, Some(told)) if idle.is_some() => (Does::Idle, Some(told.text)),
        (None, Some(told)) => (Does::Statement, Some(told.text)),
        (None, None) => (Does::Nothing, None),
    };
    Some(Leader {
        pid: person.pid(),
        label: leader.label,
        is_stopped: person.process.is_some_and(Process::is_stopped),
        command: person.command,
        held_s: leader.age.as_secs_f64(),
        does,
        statement,
        idle_s: idle.filter(|_| does == Does::Idle).map(|it| it.as_secs_f64()),
    })
}
