//! SQL texts: small, about few rows, and often about the same ones. Parameters stand wherever values do.
//!
//! No text asks for the time or for random numbers, which differ by themselves.

use crate::random::Random;

/// The tables of each round.
pub const SCHEMA: &str = "
CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT COLLATE NOCASE DEFAULT 'x', c REAL NOT NULL DEFAULT 1.5,
  CHECK (a IS NOT 13));
CREATE INDEX tb ON t(b);
CREATE TABLE u(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE log(n INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT UNIQUE ON CONFLICT REPLACE);
CREATE TABLE child(id INTEGER PRIMARY KEY, parent REFERENCES t(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE s(x INT, y BLOB, z AS (x + 1)) STRICT;
CREATE VIEW w AS SELECT a, b FROM t WHERE id < 3;
CREATE TRIGGER after_update AFTER UPDATE OF a ON t BEGIN INSERT INTO log(what) VALUES ('t' || new.id || new.a); END;
CREATE TRIGGER no_seven BEFORE INSERT ON u WHEN new.k = 'seven' BEGIN SELECT RAISE(ABORT, 'no seven'); END;
INSERT INTO t VALUES (1, 'one', 'b1', 1.25), (2, x'000102', 'b2', -1), (3, NULL, 'b3', 3e10), (4, 44, 'b4', 4), (7, 'long text here', 'B7', 7);
INSERT INTO u VALUES ('a', 1), ('b', 'two'), ('c', x'ff');
INSERT INTO log(what) VALUES ('first'), ('second');
INSERT INTO child VALUES (1, 1), (2, 2);
INSERT INTO s VALUES (5, x'05');
";

pub const TRANSACTIONS: [&str; 22] = [
    "BEGIN",
    "BEGIN",
    "BEGIN",
    "BEGIN DEFERRED TRANSACTION",
    "BEGIN IMMEDIATE",
    "BEGIN IMMEDIATE",
    "BEGIN EXCLUSIVE",
    "COMMIT",
    "COMMIT",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ROLLBACK",
    "SAVEPOINT p",
    "SAVEPOINT p",
    "SAVEPOINT q",
    "RELEASE p",
    "RELEASE q",
    "ROLLBACK TO p",
    "ROLLBACK TO q",
    "ROLLBACK TO SAVEPOINT nowhere",
    "BEGIN; BEGIN",
];

/// A text for `exec`: mostly one statement, sometimes several, sometimes none.
pub fn text(random: &mut Random) -> String {
    match random.below(20) {
        0 => random.among(&["", "  ", ";", "-- a comment", "/* one */ ; ; ", ";;SELECT 1;"]).into(),
        1 | 2 => format!("{}; {}", statement(random), statement(random)),
        3 => format!("BEGIN; {}; {}; COMMIT", statement(random), statement(random)),
        _ => statement(random),
    }
}

pub fn statement(random: &mut Random) -> String {
    match random.below(100) {
        0..20 => insert(random),
        20..32 => update(random),
        32..38 => delete(random),
        38..66 => select(random),
        66..74 => calls(random),
        74..81 => schema(random),
        81..90 => pragma(random),
        90..96 => wrong(random),
        _ => special(random),
    }
}

fn value(random: &mut Random) -> String {
    match random.below(16) {
        0..3 => random.between(-2, 14).to_string(),
        3 => "NULL".into(),
        4 | 5 => format!("'v{}'", random.below(5)),
        6 => "x'0a0b00'".into(),
        // Half of the largest number: after the largest id, SQLite draws ids by chance.
        7 => "4611686018427387904".into(),
        8 => "1.5".into(),
        9 | 10 => "?".into(),
        11 => random.among(&["?1", "?2", "?3"]).into(),
        12 | 13 => random.among(&[":a", "@b", "$c", ":a"]).into(),
        14 => "(SELECT max(id) FROM t)".into(),
        _ => "'it''s'".into(),
    }
}

fn id(random: &mut Random) -> String {
    match random.below(6) {
        0 => value(random),
        1 => "?1".into(),
        _ => random.between(1, 9).to_string(),
    }
}

fn returning(random: &mut Random) -> &'static str {
    random.among(&[
        "",
        "",
        "",
        "",
        " RETURNING id",
        " RETURNING *",
        " RETURNING a AS x, b || 'r', typeof(a)",
    ])
}

fn insert(random: &mut Random) -> String {
    let verb = random.among(&[
        "INSERT",
        "INSERT",
        "INSERT",
        "INSERT OR REPLACE",
        "INSERT OR IGNORE",
        "INSERT OR FAIL",
        "INSERT OR ABORT",
        "INSERT OR ROLLBACK",
        "REPLACE",
    ]);
    let (one, two, key) = (value(random), value(random), id(random));
    match random.below(12) {
        0..4 => format!("{verb} INTO t(a, b) VALUES ({one}, {two}){}", returning(random)),
        4 | 5 => format!("{verb} INTO t(id, a) VALUES ({key}, {one}){}", returning(random)),
        6 => format!("{verb} INTO t(id, a) VALUES ({key}, {one}), ({key} + 1, 13)"),
        7 => format!("{verb} INTO u VALUES ({two}, {one})"),
        8 => format!("{verb} INTO log(what) VALUES ({one})"),
        9 => format!(
            "INSERT INTO t(id, a) VALUES ({key}, {one}) ON CONFLICT (id) DO UPDATE SET a = excluded.a{}",
            returning(random)
        ),
        10 => format!("{verb} INTO log(what) SELECT b FROM t WHERE id < {key}"),
        _ => random
            .among(&[
                "INSERT INTO child VALUES (NULL, 99)",
                "INSERT INTO s(x, y) VALUES ('no', 1)",
                "INSERT INTO s(x, y) VALUES (8, x'08')",
                "INSERT INTO u VALUES ('seven', 7)",
                "INSERT INTO t DEFAULT VALUES",
                "INSERT INTO o.t(a) VALUES ('other')",
                "INSERT INTO temp.tt VALUES ('temporary')",
            ])
            .into(),
    }
}

fn update(random: &mut Random) -> String {
    let verb = random.among(&["UPDATE", "UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE"]);
    let (one, key) = (value(random), id(random));
    match random.below(8) {
        0..4 => format!("{verb} t SET a = {one} WHERE id = {key}{}", returning(random)),
        4 => format!("{verb} t SET b = {one}, c = c + 1 WHERE b LIKE 'b%'"),
        5 => format!("{verb} t SET id = id + {key}"),
        6 => format!("{verb} u SET v = {one} WHERE k >= 'b'"),
        _ => format!("{verb} t SET a = u.v FROM u WHERE u.k = t.b OR t.id = {key}"),
    }
}

fn delete(random: &mut Random) -> String {
    let key = id(random);
    match random.below(5) {
        0..3 => format!("DELETE FROM t WHERE id = {key}{}", returning(random)),
        3 => format!("DELETE FROM u WHERE k = {key}"),
        _ => random
            .among(&["DELETE FROM log", "DELETE FROM t WHERE id > 5", "DELETE FROM child"])
            .into(),
    }
}

fn select(random: &mut Random) -> String {
    let (one, key) = (value(random), id(random));
    match random.below(12) {
        0 | 1 => format!("SELECT * FROM t WHERE id = {key}"),
        2 | 3 => "SELECT id, a, b AS named, c FROM t ORDER BY id".into(),
        4 => format!("SELECT {one}, {key} AS k, typeof({one})"),
        5 => format!("SELECT count(*), sum(id), group_concat(b) FROM t WHERE a IS NOT {one}"),
        _ => random
            .among(&[
                "SELECT * FROM w",
                "SELECT k, v FROM u",
                "SELECT n, what FROM log ORDER BY n DESC",
                "SELECT t.id, child.id FROM t LEFT JOIN child ON parent = t.id ORDER BY 1, 2",
                "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT i FROM r",
                "SELECT id, row_number() OVER (ORDER BY c) FROM t",
                "SELECT * FROM s",
                "SELECT changes(), total_changes(), last_insert_rowid()",
                "SELECT rowid, b FROM t ORDER BY b",
                "VALUES (1, 'x'), (2, NULL)",
                "SELECT json_array(1, a) FROM t WHERE id = 1",
                "SELECT type, name, tbl_name FROM sqlite_schema ORDER BY 2",
                "SELECT * FROM o.t",
                "SELECT zeroblob(3), 1e300 * 1e300, 'a' || char(0) || 'b', 5 / 0",
                "SELECT a FROM t WHERE 0",
                "SELECT value FROM json_each('[1,2,3]')",
            ])
            .into(),
    }
}

/// The application's functions and collations, whether or not they are there.
fn calls(random: &mut Random) -> String {
    let one = value(random);
    match random.below(5) {
        0 => format!("SELECT echo({one}), kinds({one}, 7)"),
        1 => format!("INSERT INTO t(a) VALUES (echo({one}))"),
        2 => format!("SELECT forms({})", random.below(10)),
        3 => format!("SELECT fail({}), 1", random.among(&[1, 5, 7, 18, 19, 25])),
        _ => random
            .among(&[
                "SELECT auxiliary('k') FROM t",
                "SELECT reenter(), id FROM t WHERE id < 3",
                "SELECT subtype(subtype(1))",
                "SELECT gather(id, c) FROM t",
                "SELECT gather(id) FROM t GROUP BY a IS NULL",
                "SELECT moving(id) OVER (ORDER BY id ROWS 1 PRECEDING) FROM t",
                "SELECT moving() FROM t WHERE 0",
                "SELECT b FROM t ORDER BY b COLLATE mine",
                "SELECT failtext(1)",
                "SELECT failtext(1, 2)",
                "UPDATE t SET a = echo(b) WHERE id < 3 RETURNING kinds(a)",
                "SELECT kinds(forms(8))",
                "CREATE INDEX IF NOT EXISTS mi ON t(b COLLATE mine)",
                "SELECT kinds(?1), ?1",
            ])
            .into(),
    }
}

fn schema(random: &mut Random) -> String {
    random
        .among(&[
            "CREATE TABLE n(x, y)",
            "CREATE TABLE IF NOT EXISTS n(x PRIMARY KEY, y)",
            "DROP TABLE IF EXISTS n",
            "DROP TABLE n",
            "CREATE TEMP TABLE IF NOT EXISTS tt(x)",
            "CREATE TABLE d AS SELECT id, a FROM t",
            "ALTER TABLE t ADD COLUMN e DEFAULT 5",
            "ALTER TABLE u RENAME COLUMN v TO v2",
            "ALTER TABLE u RENAME COLUMN v2 TO v",
            "CREATE UNIQUE INDEX IF NOT EXISTS tc ON t(c)",
            "DROP INDEX IF EXISTS tb",
            "CREATE TEMP TRIGGER IF NOT EXISTS tg AFTER INSERT ON t BEGIN SELECT 1; END",
            "DROP TRIGGER IF EXISTS after_update",
            "DROP VIEW w",
            "CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5(body)",
            "INSERT INTO f VALUES ('some words')",
            "SELECT rowid, body FROM f WHERE f MATCH 'words'",
            "ANALYZE",
            "REINDEX t",
        ])
        .into()
}

fn pragma(random: &mut Random) -> String {
    random
        .among(&[
            "PRAGMA user_version",
            "PRAGMA user_version = 5",
            "PRAGMA application_id = 77",
            "PRAGMA foreign_keys = ON",
            "PRAGMA foreign_keys",
            "PRAGMA journal_mode",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous",
            "PRAGMA synchronous = NORMAL",
            "PRAGMA synchronous = FULL",
            "PRAGMA busy_timeout",
            "PRAGMA busy_timeout = 1",
            "PRAGMA table_info(t)",
            "PRAGMA database_list",
            "PRAGMA query_only = 1",
            "PRAGMA query_only = 0",
            "PRAGMA recursive_triggers = 1",
            "PRAGMA cache_size = 10",
            "PRAGMA cache_size",
            "PRAGMA page_size",
            "PRAGMA page_count",
            "PRAGMA encoding",
            "PRAGMA integrity_check",
            "PRAGMA foreign_key_check",
            "PRAGMA foreign_key_list(child)",
            "PRAGMA defer_foreign_keys = 1",
            "PRAGMA ignore_check_constraints = 1",
            "PRAGMA read_uncommitted = 1",
            "PRAGMA wal_autocheckpoint",
            "PRAGMA temp_store = 2",
            "PRAGMA locking_mode",
            "PRAGMA schema_version",
            "PRAGMA auto_vacuum",
            "PRAGMA secure_delete",
            "PRAGMA nonsense",
            "PRAGMA optimize",
        ])
        .into()
}

fn wrong(random: &mut Random) -> String {
    random
        .among(&[
            "SELEC 1",
            "SELECT FROM",
            "SELECT 'unfinished",
            "SELECT * FROM none",
            "SELECT none FROM t",
            "INSERT INTO t(none) VALUES (1)",
            "INSERT INTO u VALUES (1)",
            "SELECT id FROM t, child",
            "UPDATE w SET a = 1",
            "CREATE TABLE t(x)",
            "SELECT no_function(1)",
            "SELECT ?0",
            "SELECT abs(-9223372036854775808)",
            "SELECT max(id, ) FROM t",
            "DROP TABLE sqlite_schema",
            "SELECT * FROM t ORDER BY 9",
            "INSERT INTO t(id) VALUES ('text')",
            "SELECT json('{bad')",
            "SELECT 1; SELEC 2",
            "CREATE TABLE x(a, a)",
        ])
        .into()
}

fn special(random: &mut Random) -> String {
    random
        .among(&[
            "ATTACH 'URI' AS o",
            "ATTACH ':memory:' AS o",
            "ATTACH 'OTHER' AS o",
            "ATTACH 'OTHER' AS o",
            "DETACH o",
            "DETACH main",
            "EXPLAIN QUERY PLAN SELECT * FROM t WHERE b = 'b1'",
            "EXPLAIN QUERY PLAN UPDATE t SET a = 1",
            "VACUUM",
            "VACUUM INTO 'COPY'",
        ])
        .into()
}
