//! How a process joins the queue of a database file.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manyhands_queue::{Deadline, JoinError, JoinOptions, Queue};
use manyhands_sqlite as sqlite;

use crate::Error;
use crate::error::ErrorKind;
use crate::limits;
use crate::session::busy::BusyWait;

/// The SQLite connection with which the file was opened and switched to WAL mode.
#[derive(Debug)]
pub(crate) struct FirstConnection {
    pub(crate) connection: sqlite::Connection,
    /// Opened as those of users are, so that one of them can have it.
    pub(crate) is_plain: bool,
}

/// The connection that opens a file: one without a user, or a user's own.
#[derive(Debug)]
pub(crate) enum Opener<'a> {
    Gives(FirstConnection),
    Keeps(&'a sqlite::Connection),
}

impl Opener<'_> {
    pub(crate) fn connection(&self, timeout: Duration) -> &sqlite::Connection {
        match self {
            Opener::Gives(first) => {
                BusyWait::install(&first.connection, timeout);
                &first.connection
            }
            // It waits as its user wishes.
            Opener::Keeps(connection) => connection,
        }
    }

    pub(crate) fn given(self) -> Option<FirstConnection> {
        match self {
            Opener::Gives(first) => Some(first),
            Opener::Keeps(_) => None,
        }
    }
}

/// Joins the queue of the database at `path`, which is the file `found`. The first member switches the database to WAL
/// mode.
pub(crate) fn join(
    path: &Path,
    found: &std::fs::Metadata,
    connection: &sqlite::Connection,
    deadline: Deadline,
) -> Result<Arc<Queue>, Error> {
    let mut queue_path = path.as_os_str().to_owned();
    queue_path.push("-hands");
    let deadline = deadline.max(Deadline::after(limits::JOIN_PATIENCE));
    let options = JoinOptions {
        program: u64::from(sqlite::version_number().unsigned_abs()),
        mode: JoinOptions::mode_of_writers(found.mode()),
        owner: found.uid(),
        group: found.gid(),
        deadline,
    };
    let prepare = || {
        switch_to_wal(path, connection)?;
        refuse_another_name(path, found)
    };
    let prepare = || prepare().map_err(Box::new);
    let joined = Queue::join(Path::new(&queue_path), &options, prepare);
    joined.map_err(|error| match error {
        JoinError::Preparation(error) => *error,
        error => Error::new(ErrorKind::Join(error)),
    })
}

fn switch_to_wal(path: &Path, connection: &sqlite::Connection) -> Result<(), Error> {
    let mode = connection.query_text("PRAGMA main.journal_mode=WAL")?;
    if mode != "wal" {
        return Err(Error::refused(format!(
            "{} cannot be switched to WAL mode, it stays in mode {mode}: Manyhands needs a file on a \
             local disk",
            path.display()
        )));
    }
    Ok(())
}

/// Refuses a file that a process has open under another name: a hard link, or a mount of the file alone. Its -wal and -shm files
/// have that name, and two logs of one database destroy it. A process that has the file open by our name has the same -shm file
/// open, and has a lock there.
///
/// What can go wrong: a stock program that opens the file by another name later is not noticed.
fn refuse_another_name(path: &Path, found: &std::fs::Metadata) -> Result<(), Error> {
    let mut shared_memory = path.as_os_str().to_owned();
    shared_memory.push("-shm");
    let deadline = Deadline::after(limits::NAMES_PATIENCE);
    loop {
        let is_held = |file: &std::fs::Metadata, byte| {
            sqlite::locks::holder(file.dev(), file.ino(), byte).is_some()
        };
        if !is_held(found, sqlite::vfs::SHARED_LOCK_BYTE) {
            return Ok(());
        }
        let by_our_name = std::fs::metadata(&shared_memory).map_or(true, |file| {
            // What we do not have open we cannot ask about.
            !sqlite::locks::is_open(file.dev(), file.ino())
                || is_held(&file, sqlite::vfs::SHARED_MEMORY_LOCK_BYTE)
        });
        if by_our_name {
            return Ok(());
        }
        if deadline.has_passed() {
            return Err(Error::refused(format!(
                "{} is open under another name (a hard link, or a mount of the file alone), with another -wal file: \
                 both together would destroy it; open it by one name",
                path.display()
            )));
        }
        std::thread::sleep(limits::LOOK_EVERY);
    }
}
