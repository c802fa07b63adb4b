//! A leader's work: it executes what waits in the queue, batch by batch.
//!
//! A batch is one SQLite transaction. Its requests are executed in ticket order, then there is one
//! commit, with one sync, and only then is anybody answered. So what is acknowledged is durable, and
//! what is visible is durable.

use std::time::{Duration, Instant};

use manyhands_queue::{Deadline, Entry, Kind, Lead, Published, Stage, crash, planted};
use manyhands_sqlite::WalIndexHeader;

use crate::Error;
use crate::commit::executor::{Executed, Executor};
use crate::commit::external_writers::yield_to_external_writers;
use crate::commit::file::DatabaseFile;
use crate::commit::recent;
use crate::commit::recover;
use crate::commit::request::{self, Answer, Failure, Origin};
use crate::limits;

/// Leads until the own request is answered, or until the own turn has come: then the leadership is
/// returned.
///
/// # Errors
/// When batches cannot be executed now: the write lock cannot be had before the deadline, the
/// database cannot be read. The requests still wait.
pub(crate) fn serve(
    file: &DatabaseFile,
    mut lead: Lead,
    own: &mut Published,
    deadline: Deadline,
) -> Result<Option<Lead>, Error> {
    recover::resolve_orphan(file, &mut lead, deadline)?;
    loop {
        let Some(entry) = lead.next(None) else {
            if matches!(own.stage(), Stage::Waiting | Stage::MustLead) {
                // The own request waits, and the ring does not lead to it: it was damaged.
                lead.queue().retire();
            }
            break;
        };
        // Clients leave a queue that is no longer sound for a new one.
        if own.stage() == Stage::Answered || !lead.queue().is_sound() {
            break;
        }
        match entry.kind {
            Kind::Turn if lead.accept_turn(&entry, own) => return Ok(Some(lead)),
            Kind::Turn if lead.call(&entry) => {}
            Kind::Turn => break,
            Kind::Request => {
                let began = Instant::now();
                let Executing { executing, taken, held } =
                    execute_batch(file, &mut lead, &entry, deadline)?;
                // Where most of the time goes into commits, large batches are best: the answered clients are back before the
                // next batch begins. Where it goes into executing, the next leader should begin beside them.
                let commits_dominate = executing < began.elapsed() / 2;
                let goes_on = own.stage() != Stage::Answered;
                if commits_dominate || goes_on || file.has_external_connections() {
                    lead.wake_answered();
                }
                if file.has_external_connections() {
                    let mut executor = file.executor(lead.queue())?;
                    let connection = executor.get().connection();
                    yield_to_external_writers(file, lead.queue(), connection, taken, held);
                }
            }
        }
    }
    lead.release();
    Ok(None)
}

/// How a batch went.
#[derive(Debug, Default)]
struct Executing {
    /// How long it took without the commit.
    executing: Duration,
    /// The wal-index header as the write lock was taken, and how long it was held.
    taken: Option<WalIndexHeader>,
    held: Duration,
}

/// Executes one batch, whose first request is `first`.
fn execute_batch(
    file: &DatabaseFile,
    lead: &mut Lead,
    first: &Entry,
    deadline: Deadline,
) -> Result<Executing, Error> {
    let began = Instant::now();
    let mut guard = file.executor(lead.queue())?;
    let executor = guard.get();
    let mut bytes = Vec::new();
    lead.peek(first, &mut bytes);
    let Some(session) = request::decode_session(&bytes) else {
        // Not a request of ours: its owner, if there is one, executes it in its turn.
        lead.demand_turn(first);
        return Ok(Executing::default());
    };
    executor.adopt(session)?;
    let waiting = Instant::now();
    executor.begin(deadline).map_err(|error| file.describe_busy(error, waiting.elapsed()))?;
    let (locked, taken) = (Instant::now(), executor.before().copied());
    lead.begin_batch();
    crash::point("locked");

    let (executed, outcome) = execute_requests(executor, lead, &mut bytes);
    let executing = began.elapsed();
    let committed = match outcome {
        Batch::Spoiled(offender) => {
            let undone = executor.rollback();
            lead.demand_turn(&offender);
            let answered = planted("spoiled-is-committed");
            executed.iter().filter(|_| !answered).for_each(|entry| lead.put_back(entry));
            undone.map(|()| answered)
        }
        Batch::Whole if !lead.is_intact(&executed) => {
            // Another process may believe that it leads: its requests must not be given back while it executes them.
            executed.iter().for_each(|entry| lead.put_back(entry));
            executor.rollback().map(|()| false)
        }
        Batch::Whole => {
            crash::point("before-commit");
            executor.commit().map(|()| true)
        }
    };
    let held = locked.elapsed();
    match committed {
        Ok(committed) => {
            lead.end_batch(&executed, committed);
            if committed {
                lead.count_sync(executor.connection().take_sync_time());
                let (before, after) = (executor.before(), executor.connection().wal_index());
                // A batch that wrote nothing has committed nothing: a new commit is another program's.
                if executor.frames() != 0 || planted("note-of-nothing") {
                    recent::note_commit(lead, before.copied(), after, executor.written);
                }
                if executor.frames() >= limits::CHECKPOINT_FRAMES {
                    // Perhaps a checkpoint follows: answered clients must not wait for it.
                    lead.wake_answered();
                }
                let others = executed.len() > 1 || lead.next(None).is_some();
                let (connection, frames) = (executor.connection(), executor.frames());
                file.checkpoint.after_commit(file, lead.queue(), connection, frames, others);
            }
        }
        Err(error) => {
            resolve_failed_commit(file, executor, lead, &executed, &error);
            guard.discard();
        }
    }
    Ok(Executing { executing, taken, held })
}

/// How the requests of a batch ended.
enum Batch {
    /// All that were executed can be committed together.
    Whole,
    /// This request made the transaction unusable.
    Spoiled(Entry),
}

/// Executes requests in ticket order, until there is none, or the batch is large or old enough.
/// Returns those whose answers are ready.
///
/// Transactions are replayed for about as long as a commit takes. A client whose transaction was committed executes its next one
/// speculatively, which takes as long as its replay here. So half of the clients do that beside the next batch. If all did it
/// at once, they would wait for each other's processors, and the leader for theirs.
fn execute_requests(
    executor: &mut Executor,
    lead: &mut Lead,
    bytes: &mut Vec<u8>,
) -> (Vec<Entry>, Batch) {
    let began = Instant::now();
    let _calls = executor.connection().hold();
    let now = executor.before().copied();
    let mut executed = Vec::new();
    let mut answer = Vec::new();
    let mut from = None;
    while let Some(entry) = lead.next(from) {
        let full = executed.len() >= limits::BATCH_REQUESTS_MAX
            || executor.replaying > executor.commit_time.max(limits::REPLAY_TIME_MIN)
            || began.elapsed() >= limits::BATCH_TIME_MAX;
        if entry.kind == Kind::Turn || full {
            break;
        }
        from = Some(entry.ticket.next());
        if !lead.take(&entry, bytes) {
            continue;
        }
        let budget = match executed.is_empty() {
            true => limits::FIRST_REQUEST_TIME_MAX,
            false => limits::REQUEST_TIME_MAX,
        };
        let since = |origin: &Origin| {
            recent::written_since(lead.queue(), (origin.change, origin.checksum), now.as_ref())
        };
        if planted("execute-twice") {
            let _ = executor.execute(bytes, budget, since, &mut answer);
        }
        match executor.execute(bytes, budget, since, &mut answer) {
            Executed::Answered if lead.executed(&entry, bytes.len(), &answer) => {
                executed.push(entry);
            }
            // The queue file was damaged meanwhile: nobody knows whose request this was.
            Executed::Answered => return (executed, Batch::Spoiled(entry)),
            Executed::OtherSession => {
                lead.put_back(&entry);
                break;
            }
            Executed::NotHere => {
                lead.demand_turn(&entry);
                break;
            }
            Executed::Spoiled => return (executed, Batch::Spoiled(entry)),
        }
    }
    (executed, Batch::Whole)
}

/// The commit failed, or the rollback of a spoiled batch. Nobody was answered yet.
///
/// A failed sync is final: what the disk holds is unknown, and to sync again would lie. Everybody in
/// the batch gets the error. After any other error nothing was committed, and each request is
/// executed in its owner's turn, so that the one that caused it gets it alone.
fn resolve_failed_commit(
    file: &DatabaseFile,
    executor: &mut Executor,
    lead: &mut Lead,
    executed: &[Entry],
    error: &manyhands_sqlite::Error,
) {
    tracing::error!(%error, requests = executed.len(), "the commit of a batch failed");
    // The executor is thrown away next, and its transaction with it.
    let _ = executor.rollback();
    if error.code.is_failed_sync() {
        file.fail();
        let answer = Answer::Failed(Failure::new(0, None, error));
        for entry in executed {
            lead.replace_answer(entry, |room| {
                let mut bytes = Vec::new();
                // Every request leaves room for this; bytes that are no answer read as "unknown".
                let _ = request::encode_answer(&answer, room, &mut bytes);
                bytes
            });
        }
        lead.end_batch(executed, true);
    } else {
        executed.iter().for_each(|entry| lead.demand_turn(entry));
        lead.end_batch(executed, false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use manyhands_sqlite::vfs::{CommitObserver, CommitStage};

    use super::*;
    use crate::Database;
    use crate::commit::request::{Counts, Request, SessionSettings};
    use crate::fuzzing::request::publish;
    use crate::mutex::lock;
    use crate::row::Counted;
    use crate::statement::observe::Seen;

    /// How many batches three waiting transactions that insert so many rows make, if the last commit took so long.
    fn batches_of(rows: u32, commit_time: Duration) -> u64 {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path().join("app.db")).expect("opens");
        let mut connection = database.connect().expect("a connection");
        connection.execute("CREATE TABLE t (a)", &[]).expect("a table");
        let file = connection.file.clone().expect("it has a queue");
        let queue = file.queue();
        file.executor(&queue).expect("an executor").get().commit_time = commit_time;
        let origin = Origin { change: 0, checksum: 0, pinned: manyhands_sqlite::Pinned::now() };
        let mut request =
            Request::new(connection.session_settings, Counts::default(), Some(origin));
        let sql = format!(
            "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows})
             SELECT i FROM n"
        );
        request.push(&sql, 0, &[]);
        let seen = Seen { to_end: true, ..Seen::default() };
        request.statements[0].seen = Some((seen, Counted::default()));
        let mut bytes = Vec::new();
        request::encode(&request, &mut bytes).expect("it is small");
        let deadline = Deadline::after(Duration::from_secs(60));
        let mut waiting: Vec<Published> =
            (0..3).map(|_| publish(&queue, &bytes).expect("there is room")).collect();
        let before = queue.counters()[0];
        let lead = queue.try_lead("").expect("nobody else leads");
        let last = waiting.last_mut().expect("three");
        serve(&file, lead, last, deadline).expect("batches are executed");
        assert!(waiting.iter().all(|it| it.stage() == Stage::Answered));
        queue.counters()[0] - before
    }

    /// Notes what the commits of batches do.
    #[derive(Debug, Default)]
    struct Stages(Mutex<Vec<&'static str>>);

    impl CommitObserver for Stages {
        fn on_commit(&self, stage: CommitStage) {
            lock(&self.0).extend(match stage {
                CommitStage::Written => Some("written"),
                CommitStage::Synced => Some("synced"),
                _ => None,
            });
        }
    }

    /// What the commits do of waiting requests of which these are to be synced.
    fn stages_of(full: &[bool]) -> Vec<&'static str> {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path().join("app.db")).expect("opens");
        let mut connection = database.connect().expect("a connection");
        connection.execute("CREATE TABLE t (a)", &[]).expect("a table");
        let file = connection.file.clone().expect("it has a queue");
        let queue = file.queue();
        let stages = Arc::<Stages>::default();
        let observer = Arc::clone(&stages);
        let mut executor = file.executor(&queue).expect("an executor");
        executor.get().connection().observe_commits(observer).expect("observes");
        drop(executor);
        let publish_one = |&full: &bool| {
            let session = SessionSettings { full, ..connection.session_settings };
            let mut request = Request::new(session, Counts::default(), None);
            request.push("INSERT INTO t VALUES (1)", 0, &[]);
            let mut bytes = Vec::new();
            request::encode(&request, &mut bytes).expect("it is small");
            publish(&queue, &bytes).expect("there is room")
        };
        let mut waiting: Vec<Published> = full.iter().map(publish_one).collect();
        let deadline = Deadline::after(Duration::from_secs(60));
        let lead = queue.try_lead("").expect("nobody else leads");
        serve(&file, lead, waiting.last_mut().expect("some"), deadline).expect("executes them");
        assert!(waiting.iter().all(|it| it.stage() == Stage::Answered));
        let rows = connection.query("SELECT count(*) FROM t", &[]).expect("reads");
        assert_eq!(rows[0].get::<i64>(0).expect("a count"), full.len() as i64);
        core::mem::take(&mut *lock(&stages.0))
    }

    /// `PRAGMA synchronous` is each connection's own: who asked for FULL is answered after a sync, whoever leads, and
    /// whoever is before it in the queue; a batch of NORMAL ones is as cheap as SQLite's own commit.
    #[test]
    fn a_batch_is_synced_if_one_of_its_requests_asks_for_that() {
        let (normal, full) = (&["written"][..], &["written", "synced"][..]);
        assert_eq!(stages_of(&[false, false, false]), normal);
        assert_eq!(stages_of(&[true, true]), full);
        assert_eq!(stages_of(&[true, false, false]), full, "they are committed together");
        assert_eq!(stages_of(&[false, false, true]), [normal, full].concat());
        assert_eq!(stages_of(&[false, true, false, true]), [normal, full].concat());
    }

    /// Their owners execute the next ones meanwhile, beside the next batch.
    #[test]
    fn transactions_are_replayed_for_as_long_as_a_commit_takes() {
        assert!(batches_of(5_000, Duration::ZERO) > 1);
        assert_eq!(batches_of(1, Duration::from_secs(3600)), 1);
    }
}
