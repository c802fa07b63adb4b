//! An onlooker: a process that looks at the queue of a file for a person, and is no member. It takes no lock, is in nobody's way, and
//! changes nothing but the word by which a member is cancelled.
//!
//! What it sees is of many moments: each answer may be over when it is told.

use core::ptr::NonNull;
use core::time::Duration;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use manyhands_sigbus::{FaultGuard, Healing};

use crate::block;
use crate::clock::now_ns;
use crate::counts::Counts;
use crate::figures::Figures;
use crate::layout::{FILE_BYTES, LAYOUT, MAGIC, MEMBERS, RING, Shared, layout, place_of_slot};
use crate::leader::LeaderWord;
use crate::member;
use crate::queue::Kind;
use crate::region::map;
use crate::slot::SlotState;
use crate::sync::Ordering;
use crate::ticket::{self, Ticket};
use crate::told::Told;

/// Why there is nothing to be seen.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no queue file: nobody has the database open through Manyhands.
    #[error("no process has it open through Manyhands")]
    Nobody,
    /// Another version draws the file otherwise.
    #[error(
        "it is in use by another version of Manyhands (queue layout {layout}, here it is {LAYOUT}): look with that version"
    )]
    OtherVersion {
        /// Its number.
        layout: u64,
    },
    /// It is damaged, or is just being built.
    #[error("its queue file is damaged, or is just being built")]
    Damaged,
    /// The operating system refused.
    #[error("cannot look at the queue file: {0}")]
    System(#[from] io::Error),
}

/// A queue, seen from outside.
#[derive(Debug)]
pub struct Onlooker {
    shared: NonNull<Shared>,
    guard: Option<FaultGuard>,
    file: File,
    path: PathBuf,
}

// SAFETY: the mapping is shared between processes by design: all of it is atomics.
unsafe impl Send for Onlooker {}

/// A member that lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub member: u16,
    /// Its process id, as its own pid namespace counts.
    pub pid: u32,
    /// The label that it gave itself last when it opened the database.
    pub label: String,
    /// When it joined, by a clock of the machine's: with its number it is known again.
    pub joined_ns: u64,
    /// For how long it has been one.
    pub age: Duration,
    /// What it has done.
    pub counts: Counts,
    /// How often it was cancelled.
    pub cancels: u32,
    /// How many operations have ended for that.
    pub cancelled: u32,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its number.
    pub member: u16,
    /// The label of the connection that leads.
    pub label: String,
    /// For how long it has been leading.
    pub age: Duration,
    /// What it executes itself, or executed last; `None` while it executes the requests of others.
    pub statement: Option<Told>,
}

/// A request or turn in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its place.
    pub ticket: Ticket,
    /// Whose it is.
    pub member: u16,
    /// What is asked for.
    pub kind: Kind,
    /// Where it stands.
    pub state: SlotState,
    /// For how long it has been there.
    pub age: Duration,
    /// The label of its connection.
    pub label: String,
    /// The request's bytes; none of a turn, or of one that has just gone.
    pub request: Vec<u8>,
}

impl Onlooker {
    /// Looks at the queue file `path`.
    ///
    /// # Errors
    /// See [`LookError`].
    pub fn open(path: &Path) -> Result<Onlooker, LookError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LookError::Nobody),
            file => file?,
        };
        let mut words = [0; 24];
        let is_whole = file.read_exact_at(&mut words, 0).is_ok();
        let word = |at: usize| {
            u64::from_ne_bytes(words[at..at + 8].try_into().expect("eight bytes of a fixed array"))
        };
        if !is_whole || word(0) != MAGIC {
            // What is left of members that are gone is no damage.
            let lives = member::any_other_lives(&file)?;
            return Err(if lives { LookError::Damaged } else { LookError::Nobody });
        }
        if !member::any_other_lives(&file)? {
            return Err(LookError::Nobody);
        }
        if word(8) != layout() {
            return Err(LookError::OtherVersion { layout: word(8) });
        }
        if file.metadata()?.len() < FILE_BYTES as u64 {
            return Err(LookError::Damaged);
        }
        manyhands_sigbus::install();
        let shared = map(&file, path)?;
        // SAFETY: the mapping is this onlooker's, and its users hold atomics, for which any bits are valid.
        let guard = unsafe {
            manyhands_sigbus::guard(shared.as_ptr() as usize, FILE_BYTES, Healing::Mapping)
        };
        Ok(Onlooker { shared, guard, file, path: path.to_path_buf() })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping has the size and alignment of `Shared`, any bits are valid atomics, and it lives until `drop`.
        unsafe { self.shared.as_ref() }
    }

    /// Device and inode number of the queue file.
    ///
    /// # Errors
    /// As the operating system fails.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let found = self.file.metadata()?;
        Ok((found.dev(), found.ino()))
    }

    /// False when its members have left it, for a new one or for good.
    pub fn is_current(&self) -> bool {
        let identity = &self.shared().header.identity.0;
        let is_sound = identity.magic.load(Ordering::Relaxed) == MAGIC
            && identity.retired.load(Ordering::Relaxed) == 0;
        let is_here = self.identity().is_ok_and(|own| {
            std::fs::symlink_metadata(&self.path)
                .is_ok_and(|found| (found.dev(), found.ino()) == own)
        });
        is_sound && is_here
    }

    /// SQLite's version number, as the members have it.
    pub fn program(&self) -> u64 {
        self.shared().header.identity.0.program.load(Ordering::Relaxed)
    }

    /// The number of this drawing of the file.
    pub fn layout(&self) -> u64 {
        layout()
    }

    /// The number of the member whose life a lock on this byte of the queue file witnesses.
    pub fn member_of_lock(byte: i64) -> Option<u16> {
        member::member_of_byte(byte)
    }

    /// True while the process of a member lives.
    pub fn lives(&self, member: u16) -> bool {
        member::lives(&self.file, member).unwrap_or(false)
    }

    /// The members that live.
    pub fn members(&self) -> Vec<Seen> {
        let shared = self.shared();
        let ready = shared.header.ready.0.members.load(Ordering::Acquire);
        let ready = usize::try_from(ready).unwrap_or(MEMBERS).min(MEMBERS) as u16;
        let now = now_ns();
        let seen = (0..ready).filter_map(|member| {
            let record = &shared.members.0[usize::from(member)];
            let pid = u32::try_from(record.pid.load(Ordering::Relaxed)).ok()?;
            if pid == 0 || !self.lives(member) {
                return None;
            }
            let joined_ns = record.joined_ns.load(Ordering::Relaxed);
            Some(Seen {
                member,
                pid,
                label: record.label.read_text(),
                joined_ns,
                age: Duration::from_nanos(now.saturating_sub(joined_ns)),
                counts: Counts::of(shared, member),
                cancels: record.cancels.load(Ordering::Relaxed),
                cancelled: record.cancelled.load(Ordering::Relaxed),
            })
        });
        seen.collect()
    }

    /// Who leads; `None` when nobody does.
    pub fn leader(&self) -> Option<Leader> {
        let record = &self.shared().header.leader;
        let word = LeaderWord::of(record.word.load(Ordering::Acquire));
        let member = word.holder()?;
        let since_ns = record.since_ns.load(Ordering::Relaxed);
        let told = self.shared().header.holding.0.read();
        Some(Leader {
            member,
            label: record.label.read_text(),
            age: Duration::from_nanos(now_ns().saturating_sub(since_ns)),
            statement: told.filter(|told| told.owner == word.epoch()),
        })
    }

    /// How many leaders there have been.
    pub fn leaders(&self) -> u64 {
        LeaderWord::of(self.shared().header.leader.word.load(Ordering::Acquire)).epoch()
    }

    /// What is in the queue, in order: first what a leader has in hand.
    pub fn waiting(&self) -> Vec<Waiting> {
        let shared = self.shared();
        let (mut ticket, now) = (ticket::head(shared), now_ns());
        let mut waiting = Vec::new();
        for _ in 0..RING {
            if !ticket::was_drawn(shared, ticket) {
                break;
            }
            waiting.extend(self.waiting_at(ticket, now));
            ticket = ticket.next();
        }
        waiting
    }

    fn waiting_at(&self, ticket: Ticket, now: u64) -> Option<Waiting> {
        let shared = self.shared();
        let number = ticket::slot_at(shared, ticket)?;
        let slot = &shared.slots.0[place_of_slot(number)];
        let word = slot.load().filter(|word| word.ticket == ticket)?;
        if !matches!(word.state, SlotState::Pending | SlotState::Taken | SlotState::Executed) {
            return None;
        }
        let mut request = Vec::new();
        let kind = Kind::from_bits(slot.kind.load(Ordering::Relaxed));
        if kind == Kind::Turn || block::read(shared, number, word.member, &mut request).is_none() {
            request.clear();
        }
        let age = now.saturating_sub(slot.published_ns.load(Ordering::Relaxed));
        Some(Waiting {
            ticket,
            member: word.member,
            kind,
            state: word.state,
            age: Duration::from_nanos(age),
            label: slot.label.read_text(),
            request,
        })
    }

    /// What leaders have counted.
    pub fn figures(&self) -> Figures {
        Figures::of(self.shared())
    }

    /// The statement of the last conflict, and the number of the member that had it.
    pub fn conflict(&self) -> Option<(u16, Told)> {
        let told = self.shared().header.conflicting.0.read()?;
        Some((u16::try_from(told.owner).ok()?, told))
    }

    /// How many bytes of the WAL a reader kept from being reused at the last checkpoint, and for how long; `None` without such
    /// a reader.
    pub fn starvation(&self) -> Option<(u64, Duration)> {
        let held = &self.shared().header.checkpoint_starvation.0;
        let bytes = held.bytes.load(Ordering::Relaxed);
        let age = now_ns().saturating_sub(held.since_ns.load(Ordering::Relaxed));
        (bytes != 0).then(|| (bytes, Duration::from_nanos(age)))
    }

    /// Ends what the connections of a member wait for or execute.
    pub fn cancel(&self, member: u16) {
        if let Some(record) = self.shared().members.0.get(usize::from(member)) {
            record.cancels.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        drop(self.guard.take());
        // SAFETY: the mapping was made by `map` with this length, and nobody can use it any more.
        unsafe { libc::munmap(self.shared.as_ptr().cast(), FILE_BYTES) };
    }
}
