//! A leader that is sent requests which no client of ours would send; only for tests and fuzzing.
//!
//! Whoever can write the queue file can put any bytes into a slot. Here they come by the real way: into
//! claimed slots, published, and served by a leader, with a request of somebody honest behind them. What
//! must hold whatever the bytes are:
//!
//! * the honest request is executed, once, and its answer is the usual one;
//! * what a request may not do (ATTACH, PRAGMA, the schema, transaction control, extensions) is not done;
//! * every answer is one that its owner can read;
//! * nothing panics, and nobody waits longer than the time that a request is given.
//!
//! Shared by a test below and the fuzz target `fuzz/fuzz_targets/request.rs`.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manyhands_queue::{Deadline, Kind, Published, Queue, Stage};
use manyhands_sqlite::{self as sqlite, Pinned, Value};

use crate::commit::batch;
use crate::commit::file::DatabaseFile;
use crate::commit::request::{
    self, Answer, Counts, Origin, Request, SessionSettings, StatementRequest,
};
use crate::fuzzing::decisions::Decisions;
use crate::row::Counted;
use crate::statement::observe::Seen;
use crate::{Connection, Database, params};

/// Requests before the honest one, at most.
const FORGED_MAX: usize = 4;
/// Statements in a forged request, at most.
const STATEMENTS_MAX: usize = 4;
/// How often the leader's place is taken before an honest request without an answer is a finding.
const LEADS_MAX: usize = 3 * FORGED_MAX;
/// After so many rounds the whole database is looked at.
const ROUNDS_BETWEEN_CHECKS: u64 = 256;
/// Rows of the table that requests fill, at most: of more, its product with itself takes most of the time.
const ROWS_MAX: i64 = 40;

/// What a request may do.
const ALLOWED: &[&str] = &[
    "INSERT INTO t (a, b) VALUES (?1, ?2)",
    "INSERT INTO t VALUES (?1, ?2, ?3) RETURNING *",
    "INSERT OR REPLACE INTO t VALUES (1, 2, 3)",
    "INSERT OR FAIL INTO t SELECT id + 100, a, b FROM t LIMIT 9",
    "INSERT OR ROLLBACK INTO t VALUES (1, 2, 3)",
    "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT INTO t DEFAULT VALUES",
    "UPDATE t SET a = ?1, b = b + 1 WHERE id = ?2 RETURNING a, b",
    "UPDATE t SET a = changes() + total_changes() + last_insert_rowid()",
    "DELETE FROM t WHERE id > 40",
    "DELETE FROM t RETURNING id",
    "INSERT INTO positive VALUES (-1)",
    "INSERT INTO child VALUES (?1, 77)",
    "INSERT INTO words VALUES (hex(?1))",
    "SELECT * FROM t, t AS u ORDER BY 1, 4",
    "SELECT CURRENT_TIMESTAMP, random(), datetime('now', 'localtime')",
    "SELECT ?1, ?2, ?99",
    "SELECT * FROM nowhere",
    "SELECT",
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 900) SELECT max(x) FROM c",
    "SELECT hex(zeroblob(2000))",
    "INSERT INTO t (a) VALUES (zeroblob(9000))",
    "INSERT INTO t (a) SELECT value FROM json_each(?1)",
    "EXPLAIN INSERT INTO t (a) VALUES (1)",
    "UPDATE t SET id = 9223372036854775807 WHERE id = (SELECT max(id) FROM t)",
];

/// What none may do: it is not answered as done, whatever comes with it.
const DENIED: &[&str] = &[
    "ATTACH 'stolen.db' AS stolen",
    "ATTACH ':memory:' AS stolen",
    "DETACH main",
    "SELECT load_extension('nowhere')",
    "SELECT LOAD_EXTENSION('nowhere', 'entry')",
    "INSERT INTO t (a) VALUES (load_extension('nowhere'))",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode",
    "PRAGMA synchronous = OFF",
    "PRAGMA query_only = ON",
    "PRAGMA user_version = 7",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA cache_size = -2000000",
    "PRAGMA data_store_directory = '/'",
    "PRAGMA temp_store_directory = '/'",
    "PRAGMA mmap_size = 1099511627776",
    "PRAGMA hard_heap_limit = 1",
    "PRAGMA page_size = 512",
    "SELECT * FROM pragma_optimize",
    "SELECT * FROM pragma_table_info('t')",
    "CREATE TABLE stolen (a)",
    "CREATE TEMP TABLE stolen (a)",
    "CREATE TEMP TRIGGER stolen AFTER INSERT ON honest BEGIN DELETE FROM honest; END",
    "CREATE TRIGGER stolen AFTER INSERT ON honest BEGIN DELETE FROM honest; END",
    "CREATE VIEW stolen AS SELECT 1",
    "CREATE INDEX stolen ON t (a)",
    "CREATE VIRTUAL TABLE stolen USING fts5(a)",
    "DROP TABLE honest",
    "ALTER TABLE honest RENAME TO stolen",
    "REINDEX",
    "ANALYZE",
    "VACUUM",
    "VACUUM INTO 'stolen.db'",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT \"manyhands transaction\"",
    "RELEASE \"manyhands transaction\"",
    "ROLLBACK TO \"manyhands transaction\"",
    "RELEASE request",
    "ROLLBACK TO request",
    "SAVEPOINT \"MANYHANDS transaction\"",
    "UPDATE sqlite_schema SET sql = 'stolen'",
    "DELETE FROM sqlite_schema",
    "INSERT INTO sqlite_schema VALUES ('table', 'stolen', 'stolen', 2, 'CREATE TABLE stolen (a)')",
];

/// A process whose neighbours send it anything.
#[derive(Debug)]
pub struct Leader {
    directory: PathBuf,
    database: Database,
    connection: Connection,
    schema: Value,
    /// Rows of the table `honest`.
    acknowledged: i64,
    rounds: u64,
}

/// A request in the queue.
struct Forged {
    published: Published,
    /// It has a statement that none may execute.
    denied: bool,
}

impl Leader {
    /// Makes a database in an empty directory.
    pub fn new(directory: &Path) -> Leader {
        let database = Database::open(directory.join("app.db")).expect("an empty directory");
        let mut connection = database.connect().expect("a connection");
        connection
            .execute_script(
                "CREATE TABLE honest (id INTEGER PRIMARY KEY);
                 CREATE TABLE t (id INTEGER PRIMARY KEY, a, b UNIQUE);
                 CREATE TABLE positive (n CHECK (n > 0));
                 CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (id, parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 CREATE VIRTUAL TABLE words USING fts5 (word);
                 CREATE TRIGGER busy AFTER DELETE ON t WHEN old.id = 7
                   BEGIN SELECT raise(ROLLBACK, 'not this one'); END;",
            )
            .expect("the schema");
        let schema = schema(&mut connection);
        let directory = directory.to_owned();
        Leader { directory, database, connection, schema, acknowledged: 0, rounds: 0 }
    }

    /// One round: `bytes` decide what the neighbours send.
    ///
    /// # Panics
    /// When something does not hold that must.
    pub fn serve(&mut self, bytes: &[u8]) {
        self.rounds += 1;
        let file = self.connection.file.clone().expect("it has a queue");
        let queue = file.queue();
        assert!(queue.is_sound(), "no request retires a queue");
        let mut forged = self.forge(&queue, bytes);
        let session = self.connection.session_settings;
        let mut request = Request::new(session, Counts::default(), None);
        let sql = "INSERT INTO honest VALUES (?1)";
        let values = [Value::Integer(self.acknowledged + 1)];
        request.push(sql, crate::statement::prepared::columns_digest(&[]), &values);
        let mut bytes = Vec::new();
        request::encode(&request, &mut bytes).expect("it is small");
        let mut own = publish(&queue, &bytes).expect("there is room");
        if lead_until_answered(&file, &queue, &mut own, &mut forged) {
            let answer = own.into_answer().and_then(|bytes| request::decode_answer(&bytes));
            let Some(Answer::Done(done)) = answer else { panic!("the honest request: {answer:?}") };
            assert_eq!((done.len(), done[0].counts.changes), (1, 1));
        } else {
            let done = self.connection.execute(sql, &values).expect("its own connection can");
            assert_eq!(done.changes(), 1);
        }
        self.acknowledged += 1;
        forged.into_iter().for_each(examine);
        self.check();
    }

    /// Publishes what `bytes` decide, and tells which of it must not be done.
    fn forge(&self, queue: &Arc<Queue>, bytes: &[u8]) -> Vec<Forged> {
        let mut decisions = Decisions(bytes);
        let mut forged = Vec::new();
        while forged.len() < FORGED_MAX && !decisions.is_over() {
            let (mut request, mut denied) = (Vec::new(), false);
            if decisions.byte().is_multiple_of(8) {
                let count = decisions.below(2000);
                request.extend_from_slice(decisions.take(count));
                request::seal(&mut request);
            } else {
                denied = invent(self.connection.session_settings, &mut decisions, &mut request);
                for _ in 0..decisions.byte().saturating_sub(230) / 5 {
                    denied = false;
                    damage(&mut request, &mut decisions);
                }
            }
            if let Some(published) = publish(queue, &request) {
                forged.push(Forged { published, denied });
            }
        }
        forged
    }

    /// Nothing happened that must not.
    fn check(&mut self) {
        let files = std::fs::read_dir(&self.directory).expect("the directory");
        for file in files {
            let name = file.expect("an entry").file_name();
            let known = ["app.db", "app.db-wal", "app.db-shm", "app.db-hands"];
            assert!(known.iter().any(|known| name == *known), "a new file: {name:?}");
        }
        assert!(!Path::new("stolen.db").exists());
        let rows =
            self.connection.query("SELECT count(*) FROM t", params![]).expect("it can be read");
        if rows[0].get::<i64>(0).expect("a number") > ROWS_MAX {
            self.connection
                .execute("DELETE FROM t WHERE id <> 7", params![])
                .expect("no trigger objects");
        }
        if !self.rounds.is_multiple_of(ROUNDS_BETWEEN_CHECKS) {
            return;
        }
        assert_eq!(schema(&mut self.connection), self.schema);
        let mut connection = self.database.connect().expect("a connection");
        let mut ask = |sql| connection.query(sql, params![]).expect("it can be read");
        let honest = ask("SELECT count(*), max(id) FROM honest");
        let honest = (honest[0].get::<i64>(0), honest[0].get::<i64>(1));
        assert_eq!(
            (honest.0.ok(), honest.1.ok()),
            (Some(self.acknowledged), Some(self.acknowledged))
        );
        // A new connection: SQLite's check of a full-text index takes what others have written since the
        // connection last looked for damage.
        let path = self.directory.join("app.db");
        let fresh = sqlite::Connection::open(&path, sqlite::OpenMode::ReadWrite, false);
        let integrity = fresh.and_then(|fresh| fresh.query_text("PRAGMA integrity_check"));
        assert_eq!(integrity.as_deref(), Ok("ok"));
    }
}

fn schema(connection: &mut Connection) -> Value {
    let sql = "SELECT json_group_array(json_array(type, name, sql)) FROM sqlite_schema";
    let rows = connection.query(sql, params![]).expect("the schema can be read");
    rows[0].values()[0].clone()
}

/// Into the queue, as its bytes are; `None` when they are too many.
pub(crate) fn publish(queue: &Arc<Queue>, request: &[u8]) -> Option<Published> {
    let mut claim = queue.claim(Deadline::after(Duration::from_secs(1)))?;
    claim.write(request, 0).then(|| claim.publish(Kind::Request, "forged").ok())?
}

/// Leads until the own request is answered: true, or sent back to its owner: false. Who forged a request
/// that is sent back has gone.
fn lead_until_answered(
    file: &DatabaseFile,
    queue: &Arc<Queue>,
    own: &mut Published,
    forged: &mut [Forged],
) -> bool {
    for _ in 0..LEADS_MAX {
        let lead = queue.try_lead("leader").expect("nobody else leads");
        let deadline = Deadline::after(Duration::from_secs(10));
        if let Some(lead) = batch::serve(file, lead, own, deadline).expect("batches are executed") {
            // Its statement was compiled under settings that a neighbour had changed, for example.
            lead.release();
            return false;
        }
        if own.stage() == Stage::Answered {
            return true;
        }
        let mut sent_back = forged.iter_mut().filter(|it| it.published.stage() == Stage::MustLead);
        assert!(sent_back.next().is_some_and(|it| it.published.withdraw()), "in whose way?");
    }
    panic!("the honest request has no answer");
}

/// What became of a forged request.
fn examine(forged: Forged) {
    let Forged { published, denied } = forged;
    if published.stage() != Stage::Answered {
        return;
    }
    let bytes = published.into_answer().expect("it is answered");
    let answer = request::decode_answer(&bytes).expect("an answer can be read");
    let done = matches!(answer, Answer::Done(_) | Answer::Replayed(_));
    assert!(!(done && denied), "a request did what none may: {answer:?}");
}

/// A request of statements out of the lists above. True when it has one that none may execute.
fn invent(own: SessionSettings, decisions: &mut Decisions<'_>, bytes: &mut Vec<u8>) -> bool {
    let mut session = own;
    match decisions.byte() {
        0..=7 => session.foreign_keys = !session.foreign_keys,
        8..=15 => session.recursive_triggers = !session.recursive_triggers,
        16..=23 => session.full = !session.full,
        24..=27 => session.zone = session.zone.wrapping_add(1),
        _ => {}
    }
    let before = Counts {
        changes: decisions.number(),
        total_changes: decisions.number(),
        last_insert_rowid: decisions.number(),
    };
    let replayed = decisions.byte().is_multiple_of(2);
    let origin = replayed.then(|| Origin {
        change: decisions.number() as u32,
        checksum: decisions.number() as u64,
        pinned: Pinned {
            time_ms: decisions.number(),
            seed: decisions.number() as u64,
            statement: 0,
        },
    });
    let count = usize::from(decisions.byte()) % STATEMENTS_MAX + 1;
    let statements: Vec<(String, Vec<Value>)> = (0..count)
        .map(|_| {
            let list = if decisions.byte().is_multiple_of(4) { DENIED } else { ALLOWED };
            let sql = match decisions.byte() {
                0 => nested(decisions),
                chosen => list[usize::from(chosen) % list.len()].to_owned(),
            };
            let values = (0..decisions.byte() % 4).map(|_| decisions.value()).collect();
            (sql, values)
        })
        .collect();
    let mut request = Request::new(session, before, origin);
    for (sql, values) in &statements {
        request.push(sql, crate::statement::prepared::columns_digest(&[]), values);
        let last = request.statements.last_mut().expect("just pushed");
        if replayed {
            let seen = Seen {
                rows: decisions.number() as u64,
                to_end: decisions.byte().is_multiple_of(2),
                digest: None,
                error: decisions.byte().is_multiple_of(8).then_some(decisions.number() as i32),
            };
            let counted = Counted {
                changes: decisions.number(),
                last_insert_rowid: decisions.number(),
                asked: decisions.byte(),
            };
            last.seen = Some((seen, counted));
            last.reads_only = decisions.byte().is_multiple_of(8).then(|| decisions.number() as u64);
            last.ids = (0..decisions.byte() % 3).map(|_| decisions.number()).collect();
        }
        match decisions.byte() {
            0 => last.text = decisions.number() as u32,
            1 => last.columns = decisions.number() as u32,
            2 => last.seen = None,
            3 => last.values = decisions.number() as u32..decisions.number() as u32,
            _ => {}
        }
    }
    if request::encode(&request, bytes).is_none() {
        bytes.clear();
    }
    request.statements.iter().any(|statement| {
        let is_denied = request.sql(statement).is_some_and(|sql| DENIED.contains(&sql));
        is_denied && request.values(statement).is_some() && is_executed(statement)
    })
}

/// False when the statement's owner says that it has not looked, or that its tables are unchanged, or that it
/// failed. A leader answers that this is so, and has done nothing: not even refused what is refused when it is
/// stepped, as VACUUM and a PRAGMA as a table are. The fuzzer found it.
fn is_executed(statement: &StatementRequest) -> bool {
    let was_done = |seen: &Seen| seen.to_end && seen.error.is_none();
    statement.reads_only.is_none() && statement.seen.as_ref().is_none_or(|(seen, _)| was_done(seen))
}

/// An expression in many parentheses.
fn nested(decisions: &mut Decisions<'_>) -> String {
    let depth = decisions.below(12_000);
    format!("INSERT INTO t (a) VALUES ({}1{})", "(".repeat(depth), ")".repeat(depth))
}

/// Changes, drops or adds a byte, and mostly makes the checksum right again.
fn damage(request: &mut Vec<u8>, decisions: &mut Decisions<'_>) {
    if decisions.byte() < 230 {
        request.truncate(request.len().saturating_sub(8));
        damage_bytes(request, decisions);
        request::seal(request);
    } else {
        damage_bytes(request, decisions);
    }
}

fn damage_bytes(request: &mut Vec<u8>, decisions: &mut Decisions<'_>) {
    let at = decisions.below(request.len().max(1));
    match (decisions.byte() % 4, request.get_mut(at)) {
        (0, Some(_)) => request.truncate(at),
        (1, Some(_)) => drop(request.remove(at)),
        (2, Some(byte)) => *byte = 0xFF,
        (_, Some(byte)) => *byte ^= 1 << (decisions.byte() % 8),
        (_, None) => request.push(decisions.byte()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    /// The fuzz target's deterministic cousin: the same work, with a seed instead of coverage.
    ///
    /// `MANYHANDS_SEED=n cargo test -p manyhands --lib request` takes another seed.
    #[test]
    fn no_request_harms_its_neighbours() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut leader = Leader::new(directory.path());
        crate::fuzzing::decisions::seeds("request").iter().for_each(|bytes| leader.serve(bytes));
        crate::fuzzing::decisions::each(2_000, 400, |bytes| leader.serve(bytes));
    }

    /// One request with `sql` comes first, as from another process. What became of it, and how long it took.
    fn serve_one(sql: &str) -> (Stage, Duration) {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::new(directory.path());
        let file = leader.connection.file.clone().expect("it has a queue");
        let queue = file.queue();
        let mut request = Request::new(leader.connection.session_settings, Counts::default(), None);
        request.push(sql, crate::statement::prepared::columns_digest(&["x".to_owned()]), &[]);
        let mut bytes = Vec::new();
        request::encode(&request, &mut bytes).expect("it is small");
        let foreign = publish(&queue, &bytes).expect("there is room");
        let mut own = publish(&queue, &[]).expect("there is room");
        let lead = queue.try_lead("leader").expect("nobody else leads");
        let began = std::time::Instant::now();
        let deadline = Deadline::after(Duration::from_secs(60));
        batch::serve(&file, lead, &mut own, deadline).expect("batches are executed");
        (foreign.stage(), began.elapsed())
    }

    /// The first request of a batch had no limit, since nobody waits for its commit but its owner. But the
    /// leader's own caller waits, and all behind it: one endless statement, forged or not, held everybody
    /// for ever. It goes to its owner's turn, who can interrupt it.
    #[test]
    fn an_endless_request_does_not_hold_the_leader() {
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                       SELECT max(x) AS x FROM c";
        let (stage, took) = serve_one(endless);
        assert_eq!(stage, Stage::MustLead);
        assert!(took < 10 * limits::FIRST_REQUEST_TIME_MAX, "{took:?}");
    }

    /// All rows of a request were fetched before anybody asked whether they fit into an answer: a SELECT
    /// without an end took all memory.
    #[test]
    fn rows_that_fit_into_no_answer_are_not_collected() {
        let rows =
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c";
        let (stage, took) = serve_one(rows);
        assert_eq!(stage, Stage::MustLead);
        assert!(
            took < limits::FIRST_REQUEST_TIME_MAX / 2,
            "{took:?}: it ran until its time was over"
        );
    }

    /// A request of fifty bytes could make the leader allocate a gigabyte, SQLite's own limit.
    #[test]
    fn a_huge_value_is_made_by_its_owner() {
        for sql in [
            "INSERT INTO t (a) VALUES (zeroblob(900000000)) RETURNING 1 AS x",
            "SELECT length(randomblob(500000000)) AS x",
            "SELECT length(printf('%.*c', 500000000, 'x')) AS x",
        ] {
            assert_eq!(serve_one(sql).0, Stage::MustLead, "{sql}");
        }
        let small = "SELECT length(randomblob(1000000)) AS x";
        assert_eq!(serve_one(small).0, Stage::Answered);
    }
}
