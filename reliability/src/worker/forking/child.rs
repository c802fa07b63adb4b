//! What a child of a fork does. It never returns: behind it lies its parent's story.

use core::pin::pin;
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fork::Fork;
use manyhands::aio::AsyncDatabase;
use manyhands::driver::ConnectionExt;
use manyhands::{Blob, Connection, Cursor, Database, Error, params};
use rustix::process::{Signal, getpid, kill_process};

use super::super::hand::Hand;
use super::super::{Arguments, say};
use super::{large, open};

/// What a child is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Exits in order.
    Exits,
    /// Is killed.
    Dies,
    /// Becomes another program.
    Executes,
    /// Uses all that it has inherited, and is refused; then opens the database itself, and drops the rest.
    Uses,
    /// Opens the database itself, beside what it has inherited.
    Opens,
    /// The same, then forks itself.
    Forks,
    /// Keeps what it has inherited until it is told, when its parent is gone; then as `Uses`.
    Lingers,
}

impl Deed {
    /// How it ends, as `waitpid` tells it.
    pub fn status(self) -> i32 {
        if self == Deed::Dies { Signal::KILL.as_raw() } else { 0 }
    }
}

/// What a child has of its parent.
pub struct Inherited<'a> {
    pub database: &'a Database,
    pub tasks: &'a AsyncDatabase,
    pub connections: Vec<&'a mut Connection>,
    pub cursor: &'a mut Cursor,
    pub blob: &'a mut Blob,
}

/// The file that tells a lingering child to go on.
pub const RELEASE: &str = "release";

/// How long it lingers at most.
const LINGER: Duration = Duration::from_secs(100);

/// Operations of each child.
const OPERATIONS: usize = 2;

const INSERT: &str = "INSERT INTO task VALUES (2)";

/// Does it, and ends.
pub fn live(deed: Deed, job: &Arguments, writer: i64, inherited: Option<&mut Inherited<'_>>) -> ! {
    let done = catch_unwind(AssertUnwindSafe(|| perform(deed, job, writer, inherited)));
    let code = match done {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            say(&format!("wrong {deed:?}: {error:#}"));
            1
        }
        Err(_) => 101,
    };
    std::process::exit(code)
}

fn perform(
    deed: Deed,
    job: &Arguments,
    writer: i64,
    mut inherited: Option<&mut Inherited<'_>>,
) -> Result<()> {
    let inherited = &mut inherited;
    match deed {
        Deed::Exits => Ok(()),
        Deed::Dies => kill_process(getpid(), Signal::KILL).context("die"),
        Deed::Executes => Err(Command::new("true").exec()).context("execute"),
        Deed::Uses => {
            use_all(inherited)?;
            let own = open(job, "child")?;
            drop_all(inherited, &own)?;
            write(&own, job, writer)
        }
        Deed::Opens => {
            write(&open(job, "child")?, job, writer)?;
            use_all(inherited)
        }
        Deed::Forks => fork_again(job, writer),
        Deed::Lingers => {
            let (release, end) = (job.database.with_file_name(RELEASE), Instant::now() + LINGER);
            while !release.exists() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(2));
            }
            use_all(inherited)?;
            let own = open(job, "child")?;
            drop_all(inherited, &own)?;
            write(&own, job, writer)?;
            say("forked Lingers");
            Ok(())
        }
    }
}

fn write(database: &Database, job: &Arguments, writer: i64) -> Result<()> {
    let mut hand = Hand::new(database, writer, job.seed)?;
    (0..OPERATIONS).for_each(|_| hand.next());
    Ok(())
}

/// A child that is a parent: its own child is refused what it has opened, and then both write.
fn fork_again(job: &Arguments, writer: i64) -> Result<()> {
    let database = open(job, "child")?;
    let mut hand = Hand::new(&database, writer, job.seed)?;
    hand.next();
    match fork::fork().context("fork")? {
        Fork::Child => {
            refused("a grandchild", hand.connection().execute(INSERT, &[]))?;
            refused("a grandchild", database.connect())?;
            drop((hand, database));
            write(&open(job, "grandchild")?, job, writer + 500)
        }
        Fork::Parent(child) => {
            hand.next();
            let status = fork::waitpid(child).context("wait")?;
            ensure!(status == 0, "a grandchild ended with {status}");
            hand.next();
            Ok(())
        }
    }
}

fn refused<T>(what: &str, result: Result<T, Error>) -> Result<()> {
    match result {
        Ok(_) => bail!("{what} was not refused"),
        Err(error) if error.is_forked() => Ok(()),
        Err(error) => bail!("{what}: not a clear error: {error}"),
    }
}

/// Puts own ones in the places of all that was opened before the fork: the old ones are dropped.
fn drop_all(inherited: &mut Option<&mut Inherited<'_>>, own: &Database) -> Result<()> {
    let Some(Inherited { connections, cursor, blob, .. }) = inherited else { return Ok(()) };
    let mut connection = own.connect()?;
    **cursor = connection.cursor("SELECT n FROM counter", &[])?;
    **blob = connection.open_blob(&large(), false)?;
    for connection in connections {
        **connection = own.connect()?;
    }
    Ok(())
}

/// Nothing that was opened before the fork can be used, and nothing hangs.
fn use_all(inherited: &mut Option<&mut Inherited<'_>>) -> Result<()> {
    let Some(Inherited { database, tasks, connections, cursor, blob }) = inherited else {
        return Ok(());
    };
    for connection in connections.iter_mut() {
        connection.interrupt_handle().interrupt();
        // Figures, of whatever.
        let _ = (connection.changes(), connection.total_changes(), connection.is_plain());
        refused("execute", connection.execute(INSERT, &[]))?;
        refused("query", connection.query("SELECT 1", &[]))?;
        refused("batch", connection.batch(&[(INSERT, params![])]))?;
        refused("a script", connection.execute_script(INSERT))?;
        refused("a cursor", connection.cursor("SELECT n FROM counter", &[]))?;
        refused("COMMIT", connection.execute("COMMIT", &[]))?;
        refused("ROLLBACK", connection.execute("ROLLBACK", &[]))?;
        refused("a turn", connection.begin_immediate().map(drop))?;
    }
    refused("a cursor's row", cursor.next_row())?;
    refused("a blob", blob.read_at(&mut [0], 0))?;
    refused("connect", database.connect())?;
    let _ = (database.statistics(), tasks.statistics());
    let mut task = pin!(tasks.execute(INSERT, &[]));
    match task.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => refused("a task", outcome),
        Poll::Pending => bail!("a task waits for ever"),
    }
}
