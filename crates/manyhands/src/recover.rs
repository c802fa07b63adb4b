//! After a leader's death: was its batch committed?
//!
//! SQLite itself knows: a transaction is committed when the wal-index header covers its commit
//! frame. The dead leader told the queue how far it had come (see `manyhands_sqlite::vfs`):
//!
//! * It *sealed* the batch: the commit could no longer fail.
//! * It *announced* the commit frame and did not seal. It died before the memory barrier between the
//!   two copies of the wal-index header. Either it had not begun to write the first copy: then nobody
//!   ever saw the frame, and the next writer overwrites it. Or it died in the few nanoseconds between
//!   the first copy and the seal: then the two copies differ, and whoever next used the database
//!   recovered the wal-index from the file, frame included. So the batch is committed exactly if the
//!   header covers the place, and the very frame, checksum included, is there. (Another program would
//!   have to write the same pages, byte for byte, in the same place to deceive this.) If another
//!   program has restarted the WAL in the few milliseconds since, the frame is gone: then the header's
//!   change counter may still tell that nobody recovered anything, so that the frame was never seen. If
//!   it does not, the owners are told that the outcome is unknown, for a guess could apply a write twice.
//! * It announced nothing: there was no commit frame.
//!
//! A frame that was written and never published is still in the file, and the next recovery would find
//! it: after the death of all processes, or of one that was about to restart the WAL. So before anybody
//! is told that the batch is not committed, its frame is erased. And the WAL is synced before the
//! answer, whatever it is: the dead leader may not have come to that.

use std::time::Instant;

use manyhands_queue::{CommitFrame, Deadline, Fate, Inheritance, Lead, Unresolved, planted};
use manyhands_sqlite::{Connection, WalIndexHeader};

use crate::Error;
use crate::database::DatabaseFile;

/// Settles what the last leader left, if it left something.
///
/// # Errors
/// When the database cannot be looked at: then the batch stays for the next leader.
pub(crate) fn settle(
    file: &DatabaseFile,
    lead: &mut Lead,
    deadline: Deadline,
) -> Result<(), Error> {
    if lead.inheritance() == Inheritance::Nothing {
        return Ok(());
    }
    let fate = match lead.unresolved() {
        Unresolved::Sealed if planted("sealed-is-lost") => Fate::NotCommitted,
        Unresolved::Sealed => Fate::Committed,
        Unresolved::Unannounced if planted("unannounced-is-committed") => Fate::Committed,
        Unresolved::Unannounced => Fate::NotCommitted,
        Unresolved::Announced(_) if planted("announced-is-committed") => Fate::Committed,
        Unresolved::Announced(_) if planted("announced-is-lost") => Fate::NotCommitted,
        Unresolved::Announced(frame) => look(file, lead, &frame, deadline)?,
    };
    tracing::info!(?fate, "settled the batch of a leader that died");
    lead.resolve(fate);
    Ok(())
}

/// Looks for the frame while holding the write lock, so that nothing moves meanwhile, and makes final what
/// it finds. Taking the lock makes SQLite recover the wal-index first, if it is torn.
fn look(
    file: &DatabaseFile,
    lead: &Lead,
    frame: &CommitFrame,
    deadline: Deadline,
) -> Result<Fate, Error> {
    let mut executor = file.executor(lead.queue())?;
    let executor = executor.get();
    let began = Instant::now();
    executor.begin(deadline).map_err(|error| file.describe_busy(error, began.elapsed()))?;
    let header = executor.connection().wal_index();
    let found = match executor.connection().wal_frame_header(frame.offset) {
        Ok(found) => found,
        Err(error) => {
            executor.rollback()?;
            return Err(error.into());
        }
    };
    let fate = header.map_or(Fate::Unknown, |header| fate(frame, &header, found));
    let erase =
        fate == Fate::NotCommitted && found == Some(frame.header) && !planted("left-frame-stays");
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

/// More commits than another program can make between a leader's death and its successor's look.
const CHANGES_SINCE_DEATH_MAX: u32 = 20_000;

/// The rule above, for an announced frame that was not sealed.
fn fate(frame: &CommitFrame, header: &WalIndexHeader, found: Option<[u8; 24]>) -> Fate {
    let covered =
        header.frame_at(frame.offset).is_some_and(|number| number <= u64::from(header.frame_last));
    if frame.header[8..16] != header.salt {
        // The WAL was restarted since. A recovery starts the change counter at 0: if the counter is
        // past a number that nobody can have reached since, there was none, and the frame was lost.
        let recovered = header.change <= frame.change || frame.change < CHANGES_SINCE_DEATH_MAX;
        let known = !recovered || planted("restart-is-lost");
        if known { Fate::NotCommitted } else { Fate::Unknown }
    } else if (covered || planted("written-is-committed"))
        && (found == Some(frame.header) || planted("covered-is-committed"))
    {
        Fate::Committed
    } else {
        Fate::NotCommitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn frame() -> CommitFrame {
        let mut header = [9; 24];
        header[8..16].copy_from_slice(&SALT);
        CommitFrame { offset: 32 + 4 * (4096 + 24), header, change: 17 }
    }

    fn index(change: u32, frame_last: u32, salt: [u8; 8]) -> WalIndexHeader {
        WalIndexHeader { change, page_bytes: 4096, frame_last, salt, checksum: 0 }
    }

    /// The leader died at each place between the announcement and the seal; then nobody, a recovery,
    /// or another program's commits came.
    #[test]
    fn the_fate_of_an_announced_frame() {
        let check = |header: WalIndexHeader, found, expected| {
            assert_eq!(fate(&frame(), &header, found), expected, "{header:?} {found:?}");
        };
        let same = Some(frame().header);
        // Not published, nobody wrote since.
        check(index(17, 4, SALT), same, Fate::NotCommitted);
        // Published half; a recovery found the frame.
        check(index(0, 5, SALT), same, Fate::Committed);
        // The same, and other programs have committed a lot since.
        check(index(30, 9, SALT), same, Fate::Committed);
        // Not published; another program wrote something else there.
        check(index(18, 5, SALT), Some([7; 24]), Fate::NotCommitted);
        // A recovery found only older frames.
        check(index(0, 4, SALT), same, Fate::NotCommitted);
        check(index(0, 5, SALT), None, Fate::NotCommitted);
        // Another program has restarted the WAL, and the counter tells nothing yet.
        check(index(18, 5, [0; 8]), same, Fate::Unknown);
        // The same, and the counter tells that there was no recovery.
        let old = CommitFrame { change: 50_000, ..frame() };
        assert_eq!(fate(&old, &index(50_003, 5, [0; 8]), same), Fate::NotCommitted);
        // The same, and there was one.
        assert_eq!(fate(&old, &index(3, 5, [0; 8]), same), Fate::Unknown);
    }
}
