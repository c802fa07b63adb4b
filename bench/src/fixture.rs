//! The tables of a measurement: created before it, checked after it, in the command's process.
//!
//! The invariant: what the tables hold is exactly what the clients were told. A row more is as wrong as a row less: the
//! client was told that its write failed.

use anyhow::{Context, Result, ensure};

use super::{
    engine::Tables,
    job::{Shape, Task},
    transactor::THINK_ROWS,
};

/// Rows that the counter's writers share.
pub const COUNTER_ROWS: i64 = 4;
/// Tables of `orm` that nobody writes.
pub const COLD_TABLES: [&str; 4] = ["cold_1", "cold_2", "cold_3", "cold_4"];
/// Rows of each.
pub const COLD_TABLE_ROWS: i64 = 10_000;
/// Rows of the table that the long transaction of `mixed` reads, some 20 MB.
pub const BIG_TABLE_ROWS: i64 = 200_000;

/// What each account of `transfer` holds at first.
const BALANCE: i64 = 1_000;

/// What the clients were told, all of them together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Acknowledged operations; of `web`, those that create.
    pub operations: u64,
    /// See [`super::job::Report::ids_read_back`].
    pub ids_read_back: i64,
    /// Was the long transaction acknowledged?
    pub is_long_job_committed: bool,
}

/// The tables of the task and their rows, as SQL of SQLite.
pub fn schema(task: &Task) -> String {
    let rows = "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)";
    match task {
        Task::Insert { .. }
        | Task::Transact { shape: Shape::Think { .. }, .. }
        | Task::EndlessReader { .. }
        | Task::Clients { .. }
        | Task::Physics { .. }
        | Task::Echo => rows.to_owned(),
        Task::Count { .. } | Task::Transact { shape: Shape::Count, .. } => counter("t"),
        Task::Transact { shape: Shape::Transfer { accounts, .. }, .. } => format!(
            "CREATE TABLE account(
                 id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, transfers INTEGER NOT NULL
             );
             {}",
            fill("account", *accounts, &format!("{BALANCE}, 0"))
        ),
        Task::Transact { shape: Shape::Orm, .. } => {
            let cold = COLD_TABLES.map(|table| {
                let rows = fill(table, COLD_TABLE_ROWS, "n, hex(randomblob(40))");
                format!(
                    "CREATE TABLE {table}(id INTEGER PRIMARY KEY, v INTEGER, text TEXT); {rows};"
                )
            });
            let item = "CREATE TABLE item(id INTEGER PRIMARY KEY, mark INTEGER NOT NULL)";
            format!("{} {item}; {}", cold.concat(), counter("counter"))
        }
        Task::Mixed { .. } => format!(
            "{rows};
             CREATE TABLE big(id INTEGER PRIMARY KEY, v INTEGER NOT NULL, text TEXT);
             CREATE TABLE result(total INTEGER NOT NULL);
             {}",
            fill("big", BIG_TABLE_ROWS, "n % 1000, hex(randomblob(40))")
        ),
        Task::Claim { jobs, .. } => format!(
            "CREATE TABLE jobs(id INTEGER PRIMARY KEY, owner INTEGER);
             {};
             CREATE INDEX free_job ON jobs(id) WHERE owner IS NULL",
            fill("jobs", *jobs, "NULL")
        ),
        Task::Web { .. } => "CREATE TABLE post(
                 id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, body TEXT NOT NULL
             )"
        .to_owned(),
        Task::Storm { .. } => "CREATE TABLE test(id INTEGER PRIMARY KEY AUTOINCREMENT)".to_owned(),
    }
}

fn counter(table: &str) -> String {
    let rows = fill(table, COUNTER_ROWS, "0");
    format!("CREATE TABLE {table}(id INTEGER PRIMARY KEY, a INTEGER NOT NULL); {rows}")
}

/// Rows with ids from 1; `values` may use the id as `n`.
fn fill(table: &str, rows: i64, values: &str) -> String {
    format!(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows})
         INSERT INTO {table} SELECT n, {values} FROM number"
    )
}

/// Do the tables hold what the clients were told, and are their files sound? The error says what is wrong.
pub fn verify(tables: &dyn Tables, task: &Task, told: &Told) -> Result<()> {
    for (what, expected) in expected(task, told)? {
        let stored = tables.number(what).context(what)?;
        ensure!(stored == expected, "{what}: {stored} in the file, {expected} acknowledged");
    }
    tables.check_integrity()
}

/// What the file is asked, and what it must answer.
fn expected(task: &Task, told: &Told) -> Result<Vec<(&'static str, i64)>> {
    let operations = i64::try_from(told.operations)?;
    Ok(match task {
        Task::Insert { .. }
        | Task::EndlessReader { .. }
        | Task::Clients { .. }
        | Task::Physics { .. }
        | Task::Echo => {
            vec![("SELECT count(*) FROM t", operations)]
        }
        // A job that two were told to have makes more claims than jobs; the sum tells who has which.
        Task::Claim { .. } => vec![
            ("SELECT count(*) FROM jobs WHERE owner IS NULL", 0),
            ("SELECT count(*) FROM jobs", operations),
            ("SELECT coalesce(sum(id * owner), 0) FROM jobs", told.ids_read_back),
        ],
        Task::Count { .. } | Task::Transact { shape: Shape::Count, .. } => {
            vec![("SELECT sum(a) FROM t", operations)]
        }
        Task::Transact { shape: Shape::Think { .. }, .. } => {
            vec![("SELECT count(*) FROM t", operations * THINK_ROWS)]
        }
        Task::Transact { shape: Shape::Transfer { accounts, .. }, .. } => vec![
            ("SELECT sum(balance) FROM account", accounts * BALANCE),
            ("SELECT sum(transfers) FROM account", 2 * operations),
        ],
        Task::Transact { shape: Shape::Orm, .. } => vec![
            ("SELECT count(*) FROM item", operations),
            ("SELECT sum(a) FROM counter", operations),
            ("SELECT coalesce(sum(id * mark), 0) FROM item", told.ids_read_back),
        ],
        Task::Mixed { .. } => vec![
            ("SELECT count(*) FROM t", operations),
            ("SELECT count(*) FROM result", i64::from(told.is_long_job_committed)),
            ("SELECT count(*) FROM result WHERE total <> (SELECT sum(v) FROM big)", 0),
        ],
        Task::Web { .. } => vec![
            ("SELECT count(*) FROM post", operations),
            ("SELECT coalesce(sum(id), 0) FROM post", told.ids_read_back),
        ],
        Task::Storm { .. } => vec![("SELECT count(*) FROM test", operations)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite_file::SqliteFile;
    use crate::think::{Think, ThinkKind};

    const NO_THINK: Think = Think { us: 0, kind: ThinkKind::Busy };

    fn transact(shape: Shape) -> Task {
        Task::Transact { threads: 1, shape, seconds: 1.0 }
    }

    fn check(task: &Task, sql: &str, told: Told, expected: Result<(), &str>) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let database = directory.path().join("check.db");
        let tables = SqliteFile::create(&database, &schema(task)).expect("a fresh file");
        let connection = rusqlite::Connection::open(&database).expect("just created");
        connection.execute_batch(sql).expect("plain SQL");
        let outcome = verify(&tables, task, &told).map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned));
    }

    fn operations(operations: u64) -> Told {
        Told { operations, ..Told::default() }
    }

    /// A lost row, a row that nobody was promised, and a lost update are all found.
    #[test]
    fn the_file_must_hold_exactly_what_was_acknowledged() {
        let insert = Task::Insert { threads: 1, value_bytes: 1, seconds: 1.0, rate: None };
        let less = "SELECT count(*) FROM t: 1 in the file, 2 acknowledged";
        let more = "SELECT count(*) FROM t: 3 in the file, 2 acknowledged";
        check(&insert, "INSERT INTO t(v) VALUES (1), (2)", operations(2), Ok(()));
        check(&insert, "INSERT INTO t(v) VALUES (1)", operations(2), Err(less));
        check(&insert, "INSERT INTO t(v) VALUES (1), (2), (3)", operations(2), Err(more));
        let lost = "SELECT sum(a) FROM t: 5 in the file, 20 acknowledged";
        for count in [Task::Count { threads: 1, seconds: 1.0 }, transact(Shape::Count)] {
            check(&count, "UPDATE t SET a = 5", operations(20), Ok(()));
            check(&count, "UPDATE t SET a = 5 WHERE id = 1", operations(20), Err(lost));
        }
        check(
            &Task::Storm { rounds: 1, python: None },
            "INSERT INTO test DEFAULT VALUES",
            operations(1),
            Ok(()),
        );
        let half = "SELECT count(*) FROM t: 1 in the file, 100 acknowledged";
        let think = transact(Shape::Think { think: NO_THINK });
        check(&think, "INSERT INTO t VALUES (1, 1)", operations(1), Err(half));
    }

    /// Money that appeared is found, and so are two transfers of which one overwrote the other.
    #[test]
    fn transfers_keep_the_sum_and_are_all_there() {
        let transfer = transact(Shape::Transfer { accounts: 10, think: NO_THINK });
        let update = |balance| {
            format!(
                "UPDATE account SET balance = {balance}, transfers = 1 WHERE id = 3;
                 UPDATE account SET balance = 1100, transfers = 1 WHERE id = 10"
            )
        };
        let appeared = "SELECT sum(balance) FROM account: 10100 in the file, 10000 acknowledged";
        let lost = "SELECT sum(transfers) FROM account: 2 in the file, 4 acknowledged";
        check(&transfer, &update(900), operations(1), Ok(()));
        check(&transfer, &update(1000), operations(1), Err(appeared));
        check(&transfer, &update(900), operations(2), Err(lost));
    }

    /// A client that was told the id of somebody else's row is found.
    #[test]
    fn ids_must_be_those_that_were_read_back() {
        let sql = "INSERT INTO item VALUES (1, 7), (2, 5); UPDATE counter SET a = 2 WHERE id = 1";
        let told = |ids_read_back| Told { ids_read_back, ..operations(2) };
        let swapped =
            "SELECT coalesce(sum(id * mark), 0) FROM item: 17 in the file, 19 acknowledged";
        check(&transact(Shape::Orm), sql, told(7 + 2 * 5), Ok(()));
        check(&transact(Shape::Orm), sql, told(2 * 7 + 5), Err(swapped));
    }

    /// A job that two workers were told to have, one that nobody has, and one that somebody else has are all found.
    #[test]
    fn each_job_is_claimed_by_whom_it_was_given() {
        let claim = Task::Claim { threads: 2, jobs: 3 };
        let told =
            |operations, ids_read_back| Told { operations, ids_read_back, ..Told::default() };
        let sql = "UPDATE jobs SET owner = 1; UPDATE jobs SET owner = 2 WHERE id = 3";
        check(&claim, sql, told(3, 1 + 2 + 3 * 2), Ok(()));
        let twice = "SELECT count(*) FROM jobs: 3 in the file, 4 acknowledged";
        check(&claim, sql, told(4, 1 + 2 + 3 * 2 + 3), Err(twice));
        let swapped =
            "SELECT coalesce(sum(id * owner), 0) FROM jobs: 9 in the file, 8 acknowledged";
        check(&claim, sql, told(3, 1 + 2 * 2 + 3), Err(swapped));
        let left = "SELECT count(*) FROM jobs WHERE owner IS NULL: 1 in the file, 0 acknowledged";
        check(&claim, "UPDATE jobs SET owner = 1 WHERE id < 3", told(2, 3), Err(left));
    }

    /// A post that the server said to have created is there, under the id that it told.
    #[test]
    fn posts_are_where_the_server_said() {
        let web = Task::Web { python: "python3".into(), workers: 1, clients: 1, seconds: 1.0 };
        let told =
            |operations, ids_read_back| Told { operations, ids_read_back, ..Told::default() };
        let sql = "INSERT INTO post VALUES (1, 'a', ''), (2, 'b', '')";
        check(&web, sql, told(2, 3), Ok(()));
        let lost = "SELECT count(*) FROM post: 2 in the file, 3 acknowledged";
        check(&web, sql, told(3, 6), Err(lost));
        let elsewhere = "SELECT coalesce(sum(id), 0) FROM post: 3 in the file, 4 acknowledged";
        check(&web, sql, told(2, 4), Err(elsewhere));
    }

    /// The long transaction is in the file if and only if it was acknowledged, and computed the right sum.
    #[test]
    fn the_long_job_is_all_or_nothing() {
        let mixed = Task::Mixed { threads: 1, long_job: Some(ThinkKind::Busy), seconds: 1.0 };
        let sql = "INSERT INTO result SELECT sum(v) FROM big";
        let told = |is_long_job_committed| Told { is_long_job_committed, ..Told::default() };
        check(&mixed, sql, told(true), Ok(()));
        check(&mixed, "", told(false), Ok(()));
        let unasked = "SELECT count(*) FROM result: 1 in the file, 0 acknowledged";
        check(&mixed, sql, told(false), Err(unasked));
        let wrong = "SELECT count(*) FROM result WHERE total <> (SELECT sum(v) FROM big): \
                     1 in the file, 0 acknowledged";
        check(&mixed, "INSERT INTO result VALUES (1)", told(true), Err(wrong));
    }
}
