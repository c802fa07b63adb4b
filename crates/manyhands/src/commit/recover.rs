//! Resolving an orphaned batch: a leader has died. Was its batch committed?
//!
//! SQLite itself knows: a transaction is committed when the wal-index header covers its commit
//! frame. The dead leader told the queue how far it had come (see `manyhands_sqlite::vfs`):
//!
//! * **Sealed**: both copies of the wal-index header had the commit, while the leader held the write lock. Nothing can undo it.
//! * **Announced, and not sealed**: the batch is committed exactly if the header covers the place of the commit frame, and that very
//!   frame, checksum included, is there. There are three possibilities:
//!   1. The leader had not begun to write the header. Nobody ever saw the frame, and the next writer overwrites it.
//!   2. The leader died in the few nanoseconds between the two copies. A new reader recovers the wal-index from the file, frame
//!      included; but a connection that was reading already may have taken the write lock before, and overwritten the frame.
//!   3. Both copies were written.
//!
//!   If the leader had not begun to *publish*, only a recovery can have made the header cover the frame, and a recovery starts the
//!   header's change counter again; or another program has executed the same, and written the same frame. If another program has restarted
//!   the WAL in the few milliseconds since, the frame is gone, and the counter may tell that there was no recovery. Where it does
//!   not, the owners are told that the outcome is unknown: a guess could apply a write twice, or lose it. (One case looks like a restart, and
//!   is none: the dead leader began the file, as the first writer does. Then its salt is in the file, and not in the wal-index, where a
//!   recovery would have put it, so nobody ever saw the frame.)
//! * **Nothing announced**: there was no commit frame. But the leader's word may have been overwritten: then the leader lives, holds
//!   SQLite's write lock, and may yet commit. So only the holder of the write lock looks. If the queue is no longer sound, the
//!   leader's process may have lost the shared memory before it announced (`sigbus` in the queue): then nobody knows.
//!
//! A frame that was written and never published is still in the file, and the next recovery would find it: after the death of all
//! processes, or of a process that was about to restart the WAL. So the frame is erased before anybody is told that the batch is not
//! committed. And the WAL is synced before any answer, since the dead leader may not have done so.

use std::time::Instant;

use manyhands_queue::{CommitFrame, Deadline, Fate, Lead, Orphan, Unresolved, planted};
use manyhands_sqlite::{Connection, WalIndexHeader};

use crate::Error;
use crate::commit::executor::Executor;
use crate::commit::file::DatabaseFile;

/// Resolves the batch that the last leader left, if it left one.
///
/// # Errors
/// When the database cannot be looked at: then the batch stays for the next leader.
pub(crate) fn resolve_orphan(
    file: &DatabaseFile,
    lead: &mut Lead,
    deadline: Deadline,
) -> Result<(), Error> {
    if lead.orphan() == Orphan::Nothing {
        return Ok(());
    }
    let fate = match lead.unresolved() {
        Unresolved::Sealed if planted("sealed-is-lost") => Fate::NotCommitted,
        Unresolved::Sealed => Fate::Committed,
        Unresolved::Unannounced if planted("unannounced-is-committed") => Fate::Committed,
        Unresolved::Announced { .. } if planted("announced-is-committed") => Fate::Committed,
        Unresolved::Announced { .. } if planted("announced-is-lost") => Fate::NotCommitted,
        Unresolved::Unannounced | Unresolved::Announced { .. } => look(file, lead, deadline)?,
    };
    tracing::info!(?fate, "settled the batch of a leader that died");
    lead.resolve(fate);
    Ok(())
}

/// Looks while holding the write lock, so that nothing moves meanwhile.
fn look(file: &DatabaseFile, lead: &Lead, deadline: Deadline) -> Result<Fate, Error> {
    let mut executor = file.executor(lead.queue())?;
    let executor = executor.get();
    let began = Instant::now();
    executor.begin(deadline).map_err(|error| file.describe_busy(error, began.elapsed()))?;
    let fate = match lead.unresolved() {
        Unresolved::Sealed => Fate::Committed,
        Unresolved::Unannounced if lead.queue().is_sound() => Fate::NotCommitted,
        Unresolved::Unannounced => Fate::Unknown,
        Unresolved::Announced { frame, publishing } => {
            return look_for(file, executor, &frame, publishing);
        }
    };
    executor.rollback()?;
    Ok(fate)
}

/// Looks for the frame, and makes final what it finds. Taking the write lock, which the caller holds, has made
/// SQLite recover the wal-index, if it was torn.
fn look_for(
    file: &DatabaseFile,
    executor: &mut Executor,
    frame: &CommitFrame,
    publishing: bool,
) -> Result<Fate, Error> {
    let header = executor.connection().wal_index();
    let found = match Found::read(executor.connection(), frame) {
        Ok(found) => found,
        Err(error) => {
            executor.rollback()?;
            return Err(error.into());
        }
    };
    let fate = header.map_or(Fate::Unknown, |header| fate(frame, publishing, &header, &found));
    let is_left = header.is_some_and(|header| found.has(frame) && !covers(&header, frame));
    let erase = fate == Fate::NotCommitted && is_left && !planted("left-frame-stays");
    let made_final = make_final(executor.connection(), erase.then_some(frame));
    executor.rollback()?;
    match made_final {
        Ok(()) => Ok(fate),
        Err(error) if error.code.is_failed_sync() => {
            file.fail();
            Ok(Fate::Unknown)
        }
        Err(error) => Err(error.into()),
    }
}

/// Lets no recovery and no power cut change what was found.
fn make_final(
    connection: &Connection,
    erase: Option<&CommitFrame>,
) -> Result<(), manyhands_sqlite::Error> {
    if let Some(frame) = erase {
        connection.erase_wal_frame(frame.offset)?;
    }
    connection.sync_wal()
}

/// What the -wal file holds.
#[derive(Debug)]
pub(crate) struct Found {
    /// The header of the frame at the announced place.
    pub(crate) header: Option<[u8; 24]>,
    /// The salt with which the file begins.
    pub(crate) salt: Option<[u8; 8]>,
}

impl Found {
    fn read(
        connection: &Connection,
        frame: &CommitFrame,
    ) -> Result<Found, manyhands_sqlite::Error> {
        let header = connection.wal_frame_header(frame.offset)?;
        // https://sqlite.org/fileformat2.html#the_write_ahead_log: the salt of the file is at 16.
        let begin = connection.wal_frame_header(0)?;
        let salt = begin.and_then(|begin| begin[16..24].try_into().ok());
        Ok(Found { header, salt })
    }

    fn has(&self, frame: &CommitFrame) -> bool {
        self.header == Some(frame.header)
    }
}

/// True when the frame's place belongs to a commit that everybody can see.
fn covers(header: &WalIndexHeader, frame: &CommitFrame) -> bool {
    let number = header.frame_at(frame.offset);
    frame.header[8..16] == header.salt
        && number.is_some_and(|number| number <= u64::from(header.frame_last))
}

/// More commits than another program can make between a leader's death and the next leader's look.
const CHANGES_SINCE_DEATH_MAX: u32 = 20_000;

/// The rule above, for an announced frame that was not sealed.
pub(crate) fn fate(
    frame: &CommitFrame,
    publishing: bool,
    header: &WalIndexHeader,
    found: &Found,
) -> Fate {
    // A recovery starts the change counter at 0. If the counter is past a number that nobody can have reached since,
    // there was none, and a frame that was not published was never seen.
    let was_recovered = header.change <= frame.change;
    let never_seen = !publishing && !was_recovered && frame.change >= CHANGES_SINCE_DEATH_MAX;
    let salt = &frame.header[8..16];
    if salt != header.salt {
        // The WAL was restarted since, or the leader began the file.
        let began = found.salt.is_some_and(|begins| salt == begins) && !follows(&header.salt, salt);
        let known = never_seen || !publishing && began || planted("restart-is-lost");
        if known { Fate::NotCommitted } else { Fate::Unknown }
    } else if (covers(header, frame) || planted("written-is-committed"))
        && (found.has(frame) || planted("covered-is-committed"))
    {
        match publishing || was_recovered || planted("the-same-is-committed") {
            true => Fate::Committed,
            false if never_seen => Fate::NotCommitted,
            false => Fate::Unknown,
        }
    } else {
        Fate::NotCommitted
    }
}

/// True when a restart of a WAL with salt `before` gave the wal-index `salt`: the first of the two numbers is one
/// more (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.4). The file follows a moment later, and if
/// who restarts dies in it, the next one restarts again.
fn follows(salt: &[u8], before: &[u8]) -> bool {
    const RESTARTS_MAX: u32 = 1000;
    let number = |salt: &[u8]| salt.first_chunk().map_or(0, |number| u32::from_be_bytes(*number));
    (1..=RESTARTS_MAX).contains(&number(salt).wrapping_sub(number(before)))
}

#[cfg(test)]
pub(crate) mod tests {
    use core::time::Duration;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    use manyhands_queue::{Entry, Kind, Published, Queue, Stage};
    use manyhands_sqlite::OpenMode;

    use super::*;
    use crate::Database;

    const SALT: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn frame() -> CommitFrame {
        let mut header = [9; 24];
        header[8..16].copy_from_slice(&SALT);
        CommitFrame { offset: 32 + 4 * (4096 + 24), header, change: 17 }
    }

    fn index(change: u32, frame_last: u32, salt: [u8; 8]) -> WalIndexHeader {
        WalIndexHeader { change, page_bytes: 4096, frame_last, page_count: 1, salt, checksum: 0 }
    }

    /// The leader died at each place between the announcement and the seal; then nobody, a recovery,
    /// or another program's commits came.
    #[test]
    fn the_fate_of_an_announced_frame() {
        let check = |index: WalIndexHeader, header, expected| {
            let found = Found { header, salt: Some(index.salt) };
            assert_eq!(fate(&frame(), false, &index, &found), expected, "{index:?} {found:?}");
        };
        let same = Some(frame().header);
        // Not published, nobody wrote since.
        check(index(17, 4, SALT), same, Fate::NotCommitted);
        // Published half; a recovery found the frame.
        check(index(0, 5, SALT), same, Fate::Committed);
        // The same, and other programs have committed since.
        check(index(12, 9, SALT), same, Fate::Committed);
        // The same, and they have committed a lot; or another program has written the same frame.
        check(index(18, 5, SALT), same, Fate::Unknown);
        // Not published, or half; another connection wrote something else there.
        check(index(18, 5, SALT), Some([7; 24]), Fate::NotCommitted);
        // A recovery found only older frames.
        check(index(0, 4, SALT), same, Fate::NotCommitted);
        check(index(0, 5, SALT), None, Fate::NotCommitted);
        // Another program has restarted the WAL, and the counter tells nothing yet.
        check(index(18, 5, [0; 8]), same, Fate::Unknown);
        // The same, and the counter tells that there was no recovery.
        let old = CommitFrame { change: 50_000, ..frame() };
        let found = Found { header: same, salt: Some([0; 8]) };
        assert_eq!(fate(&old, false, &index(50_003, 5, [0; 8]), &found), Fate::NotCommitted);
        // It tells that another program has written the same frame.
        assert_eq!(fate(&old, false, &index(50_003, 5, SALT), &found), Fate::NotCommitted);
        // The same, and there was one.
        assert_eq!(fate(&old, false, &index(3, 5, [0; 8]), &found), Fate::Unknown);
        // It was published, or as good as: then others needed no recovery to see it.
        assert_eq!(fate(&old, true, &index(50_003, 5, [0; 8]), &found), Fate::Unknown);
        assert_eq!(fate(&frame(), true, &index(18, 5, SALT), &found), Fate::Committed);
        assert_eq!(fate(&frame(), true, &index(17, 4, SALT), &found), Fate::NotCommitted);
        // The leader began the file, and nobody has seen it. Its batch was called unknown: it was taken for a
        // restart. Found by `reliability nth-call`, with `fdatasync:KILL:3:once`.
        let began = Found { header: same, salt: Some(SALT) };
        assert_eq!(fate(&frame(), false, &index(2, 0, [0; 8]), &began), Fate::NotCommitted);
        // A recovery had found the frame, and who then restarted the WAL died before the file said so.
        let restarted = [1, 2, 3, 5, 0, 0, 0, 0];
        assert_eq!(fate(&frame(), false, &index(0, 0, restarted), &began), Fate::Unknown);
    }

    fn soon() -> Deadline {
        Deadline::after(Duration::from_secs(5))
    }

    /// A leader that has executed a request and not committed it, the request, and as the leader sees it.
    pub(crate) fn lead_with_a_batch(queue: &Arc<Queue>) -> (Lead, Published, Entry) {
        let mut lead = queue.try_lead("leader").expect("nobody leads");
        lead.begin_batch();
        let mut claim = queue.claim(soon()).expect("a slot");
        assert!(claim.write(b"a request", 8));
        let published = claim.publish(Kind::Request, "").expect("there is room");
        let entry = lead.next(None).expect("it waits");
        assert!(lead.take(&entry, &mut Vec::new()) && lead.executed(&entry, 9, b"done"));
        (lead, published, entry)
    }

    /// Rubbish over the leader's word named a member that nobody is, while the leader committed. Its successor
    /// found that no commit was announced, and executed the batch, too. Now it waits for SQLite's write
    /// lock, which such a leader holds.
    #[test]
    fn a_leader_that_only_seems_dead_commits_first() {
        const LEADER_WORD_AT: u64 = 192;
        const BY_NOBODY: u64 = 9 << 24 | 4001 << 8;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.db");
        let database = Database::open(&path).expect("opens");
        database.enter().expect("the file is made");
        let file = database.file().expect("it has a queue");
        let queue = file.queue();
        let committing = Connection::open(&path, OpenMode::ReadWrite, false).expect("opens");
        committing.execute("BEGIN IMMEDIATE").expect("the write lock is free");
        let (lead, published, _) = lead_with_a_batch(&queue);
        let memory = File::options().write(true).open(directory.path().join("app.db-hands"));
        let memory = memory.expect("the queue file");
        memory.write_all_at(&BY_NOBODY.to_ne_bytes(), LEADER_WORD_AT).expect("writes");
        let mut successor = queue.try_take_over("successor").expect("the leader seems dead");
        std::thread::scope(|scope| {
            let settling = scope.spawn(|| resolve_orphan(file, &mut successor, soon()));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!settling.is_finished());
            queue.seal();
            committing.execute("ROLLBACK").expect("gives the write lock back");
            settling.join().expect("no panic").expect("settled");
        });
        assert_eq!(published.stage(), Stage::Answered);
        drop(lead);
    }

    /// The file was truncated while a leader committed: what it announced went into memory of its own. When
    /// it had left, its successor found nothing announced, and executed the batch, too.
    #[test]
    fn of_a_queue_that_is_not_sound_nobody_knows() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path().join("app.db")).expect("opens");
        database.enter().expect("the file is made");
        let file = database.file().expect("it has a queue");
        let queue = file.queue();
        let (lead, published, _) = lead_with_a_batch(&queue);
        queue.retire();
        drop(lead);
        let mut successor = queue.try_take_over("successor").expect("a batch was left");
        resolve_orphan(file, &mut successor, soon()).expect("settled");
        assert_eq!(published.into_answer().expect("answered"), b"");
    }
}
