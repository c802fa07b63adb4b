//! The scripts: small stories in SQL, each about one thing that could come out differently.
//!
//! All begin with `t (id INTEGER PRIMARY KEY, a, b)` of three rows in the main database, and with
//! `{DIR}/other.db`, which has `o (id INTEGER PRIMARY KEY, a)`.

use manyhands::{Text, Value, params};

use super::{Script, script};

/// Asks SQL functions what the session's own methods are asked too.
const COUNTS: &str = "SELECT changes(), total_changes(), last_insert_rowid()";

pub fn all() -> Vec<Script> {
    let groups =
        [values(), counts(), returning(), tables(), constraints(), conflicts(), triggers()];
    let more = [foreign_keys(), virtual_tables(), run_time(), compile_time(), schema()];
    let rest = [elsewhere(), transactions()];
    groups.into_iter().chain(more).chain(rest).flatten().collect()
}

fn values() -> Vec<Script> {
    let round_trip = |name, value: Value| {
        script(name)
            .with("INSERT INTO t VALUES (10, ?1, typeof(?1))", std::slice::from_ref(&value))
            .with("SELECT a, typeof(a), b FROM t WHERE a IS ?1", std::slice::from_ref(&value))
            .with("UPDATE t SET b = ?1 WHERE id = 2 RETURNING b", &[value])
    };
    vec![
        round_trip("a small integer", Value::Integer(7)),
        round_trip("the largest integer", Value::Integer(i64::MAX)),
        round_trip("the smallest integer", Value::Integer(i64::MIN)),
        round_trip("a real", Value::Real(1.5e300)),
        round_trip("minus zero", Value::Real(-0.0)),
        round_trip("a denormal", Value::Real(5e-324)),
        round_trip("infinity", Value::Real(f64::INFINITY)),
        round_trip("minus infinity", Value::Real(f64::NEG_INFINITY)),
        round_trip("NaN, which SQLite stores as NULL", Value::Real(f64::NAN)),
        round_trip("NULL", Value::Null),
        round_trip("empty text", Value::from("")),
        round_trip("text", Value::from("péché 文字")),
        round_trip("text with a zero byte", Value::from("a\0b")),
        round_trip("text that is not UTF-8", Value::Text(Text::from_bytes(vec![0xFF, 0x41, 0x80]))),
        round_trip("an empty blob", Value::Blob(vec![])),
        round_trip("a blob of 1 KB", Value::Blob(vec![0xA5; 1024])),
        round_trip("text just too long for a slot", Value::from("x".repeat(1900))),
        round_trip("a blob that fits a slot, whose echo does not", Value::Blob(vec![3; 1000])),
        round_trip("a blob of 10 MB", Value::Blob((0..10_000_000).map(|i| i as u8).collect())),
        script("all five types in one row, and named and numbered parameters")
            .with(
                "INSERT INTO t VALUES (?1, :name, @other)",
                params![50, "named", Value::Blob(vec![1, 2])],
            )
            .with("INSERT INTO t VALUES (?3, ?2, ?1)", params![1.25, None::<i64>, 60])
            .with("INSERT INTO t (a) VALUES ($a)", params!["dollar"])
            .sql("SELECT * FROM t"),
        script("affinity changes what is stored")
            .sql("CREATE TABLE f (i INTEGER, r REAL, x TEXT, n NUMERIC, b BLOB)")
            .with(
                "INSERT INTO f VALUES (?1, ?2, ?3, ?4, ?5) RETURNING *",
                params!["12", 3, 4.5, "1e3", "b"],
            )
            .with(
                "INSERT INTO f VALUES (?1, ?2, ?3, ?4, ?5) RETURNING *",
                params!["12x", "3.0", 4, "0x10", 7],
            )
            .sql("SELECT *, typeof(i), typeof(r), typeof(x), typeof(n), typeof(b) FROM f"),
        script("what only has its type in common")
            .types("INSERT INTO t (a, b) VALUES (random(), datetime('now')) RETURNING a, b")
            .types(
                "UPDATE t SET a = randomblob(9), b = julianday('now') WHERE id = 1 RETURNING a, b",
            )
            .sql("DELETE FROM t WHERE id NOT IN (2, 3)"),
    ]
}

fn counts() -> Vec<Script> {
    vec![
        script("changes() and its kin after each kind of statement")
            .sql(COUNTS)
            .sql("INSERT INTO t (a) VALUES ('x'), ('y')")
            .sql(COUNTS)
            .sql("UPDATE t SET b = 0 WHERE id > 1")
            .sql(COUNTS)
            .sql("DELETE FROM t WHERE id = 99")
            .sql(COUNTS)
            .sql("DELETE FROM t")
            .sql(COUNTS),
        script("changes() inside a statement tells of the one before")
            .sql("UPDATE t SET b = 9 WHERE id < 3")
            .sql("UPDATE t SET b = changes() WHERE id = 1 RETURNING b")
            .sql("INSERT INTO t (a, b) VALUES (total_changes(), last_insert_rowid()) RETURNING *")
            .sql("INSERT INTO t (a, b) VALUES (changes(), last_insert_rowid()) RETURNING *"),
        script("counts after statements that fail")
            .sql("INSERT INTO t (a) VALUES ('x'), ('y')")
            .sql("INSERT INTO t VALUES (1, 'again', 0)")
            .sql(COUNTS)
            .sql("UPDATE t SET b = 1 WHERE id = 1")
            .sql("INSERT INTO t VALUES (20, 'new', 0), (1, 'again', 0)")
            .sql(COUNTS)
            .sql("UPDATE t SET b = 1 WHERE id < 3")
            .sql("INSERT OR FAIL INTO t VALUES (30, 'new', 0), (1, 'again', 0)")
            .sql(COUNTS)
            .sql("SELECT * FROM t"),
        script("counts after statements that count nothing")
            .sql("INSERT INTO t (a) VALUES ('x'), ('y')")
            .sql("CREATE TABLE u (a)")
            .sql(COUNTS)
            .sql("PRAGMA user_version = 3")
            .sql(COUNTS)
            .sql("SELECT 1")
            .sql("EXPLAIN DELETE FROM missing")
            .sql(COUNTS)
            .sql("CREATE TEMP TABLE p (a)")
            .sql(COUNTS),
        script("counts after BEGIN and COMMIT")
            .sql("INSERT INTO t (a) VALUES ('x'), ('y')")
            .sql("BEGIN IMMEDIATE")
            .sql(COUNTS)
            .sql("INSERT INTO t (a) VALUES ('z')")
            .sql(COUNTS)
            .sql("COMMIT")
            .sql(COUNTS),
        script("last_insert_rowid() over two tables and a failure")
            .sql("CREATE TABLE u (id INTEGER PRIMARY KEY, a UNIQUE)")
            .sql("INSERT INTO u VALUES (100, 'a')")
            .sql("INSERT INTO t (a) VALUES (last_insert_rowid())")
            .sql("INSERT INTO u (a) VALUES ('a')")
            .sql("INSERT INTO u (a) VALUES ('b'), ('c'), ('a')")
            .sql("SELECT last_insert_rowid()")
            .sql("UPDATE t SET id = 500 WHERE id = 1")
            .sql("SELECT last_insert_rowid()")
            .sql("INSERT OR IGNORE INTO u (a) VALUES ('a')")
            .sql("SELECT last_insert_rowid(), changes()"),
        script("DELETE of all rows counts them")
            .sql("DELETE FROM t")
            .sql("DELETE FROM t")
            .sql("SELECT changes(), total_changes()"),
    ]
}

fn returning() -> Vec<Script> {
    const MANY: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) ";
    vec![
        script("RETURNING of few rows")
            .sql("INSERT INTO t (a) VALUES ('x'), (2.5), (NULL) RETURNING id, a, typeof(a) AS kind")
            .sql("UPDATE t SET a = a || '!' WHERE id < 3 RETURNING *")
            .sql("DELETE FROM t WHERE id > 4 RETURNING id")
            .sql("DELETE FROM t WHERE id > 400 RETURNING id"),
        script("RETURNING of more rows than a slot holds")
            .with(&format!("INSERT INTO t (a) {MANY}SELECT i FROM n RETURNING id, a"), params![2000])
            .sql(COUNTS)
            .sql("UPDATE t SET b = a WHERE id > 1000 RETURNING id"),
        script("RETURNING at the edge of a slot")
            .with("INSERT INTO t (a) VALUES (?1) RETURNING a", params!["x".repeat(800)])
            .with("INSERT INTO t (a) VALUES (?1) RETURNING a", params!["x".repeat(890)])
            .with("INSERT INTO t (a) VALUES (?1) RETURNING a", params!["x".repeat(900)])
            .with("INSERT INTO t (a) VALUES (?1) RETURNING a", params!["x".repeat(930)])
            .sql("INSERT INTO t (a) VALUES ('s') RETURNING zeroblob(1800)")
            .sql("INSERT INTO t (a) VALUES ('s') RETURNING zeroblob(1860)")
            .sql("INSERT INTO t (a) VALUES ('s') RETURNING zeroblob(1900)")
            .sql(COUNTS),
        script("RETURNING that fails when it is computed")
            .sql("INSERT INTO t (a) VALUES ('x') RETURNING abs(-9223372036854775808)")
            .sql(COUNTS)
            .sql("SELECT * FROM t"),
        script("UPSERT")
            .sql("INSERT INTO t VALUES (1, 'A', 1) ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING *")
            .sql("INSERT INTO t VALUES (1, 'B', 1), (9, 'C', 1) ON CONFLICT DO NOTHING")
            .sql(COUNTS)
            .sql("INSERT INTO t VALUES (1, 'D', 1) ON CONFLICT (id) DO UPDATE SET b = b + 1 WHERE b > 5")
            .sql(COUNTS)
            .sql("INSERT INTO t VALUES (1, 'D', 1) ON CONFLICT (a) DO NOTHING"),
        script("an error message too long for a slot")
            .sql(&format!("CREATE TABLE w (a CONSTRAINT {} CHECK (a > 0))", "n".repeat(2500)))
            .sql("INSERT INTO w VALUES (-1)")
            .sql("INSERT INTO w VALUES (1)"),
    ]
}

fn tables() -> Vec<Script> {
    vec![
        script("WITHOUT ROWID")
            .sql("CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID")
            .sql("INSERT INTO w VALUES ('b', 1), ('a', 2)")
            .sql(COUNTS)
            .sql("INSERT INTO w VALUES ('a', 3)")
            .sql("INSERT INTO w VALUES (NULL, 3)")
            .sql("REPLACE INTO w VALUES ('a', 3)"),
        script("AUTOINCREMENT never gives a number again")
            .sql("CREATE TABLE s (id INTEGER PRIMARY KEY AUTOINCREMENT, a)")
            .sql("INSERT INTO s (a) VALUES ('x'), ('y')")
            .sql("DELETE FROM s")
            .sql("INSERT INTO s (a) VALUES ('z') RETURNING id")
            .sql("INSERT INTO s VALUES (9223372036854775807, 'last')")
            .sql("INSERT INTO s (a) VALUES ('full')"),
        script("generated columns")
            .sql("CREATE TABLE g (a, b AS (a * 2), c AS (a || 'x') STORED UNIQUE)")
            .sql("INSERT INTO g (a) VALUES (1), (2) RETURNING *")
            .sql("UPDATE g SET a = 2")
            .sql("INSERT INTO g (a, b) VALUES (1, 2)")
            .sql("SELECT * FROM g"),
        script("STRICT tables")
            .sql("CREATE TABLE s (i INT, r REAL, x TEXT, b BLOB, y ANY) STRICT")
            .with("INSERT INTO s VALUES (?1, ?2, ?3, ?4, ?5)", params![1, 2, "x", vec![1_u8], "any"])
            .with("INSERT INTO s (i) VALUES (?1)", params!["no number"])
            .with("INSERT INTO s (x) VALUES (?1)", params![vec![1_u8]])
            .with("INSERT INTO s (b) VALUES (?1)", params!["text"])
            .sql("UPDATE s SET r = 'half'"),
        script("DEFAULT and its expressions")
            .sql("CREATE TABLE d (a DEFAULT 5, b DEFAULT (abs(-3)), c DEFAULT 'x', d DEFAULT (changes()))")
            .sql("INSERT INTO d DEFAULT VALUES RETURNING a, b, c")
            .sql("INSERT INTO d (a) VALUES (1), (2)")
            .sql("INSERT INTO d (a) VALUES (3) RETURNING *"),
        script("collations, expression and partial indexes")
            .sql("CREATE TABLE c (a TEXT COLLATE NOCASE, b)")
            .sql("CREATE UNIQUE INDEX c_a ON c (a)")
            .sql("CREATE UNIQUE INDEX c_b ON c (abs(b)) WHERE b != 0")
            .sql("INSERT INTO c VALUES ('x', 1)")
            .sql("INSERT INTO c VALUES ('X', 2)")
            .sql("INSERT INTO c VALUES ('y', -1)")
            .sql("INSERT INTO c VALUES ('z', 0), ('u', 0)"),
        script("rowid tables without a primary key")
            .sql("CREATE TABLE r (a)")
            .sql("INSERT INTO r (rowid, a) VALUES (77, 'x')")
            .sql("INSERT INTO r (a) VALUES ('y') RETURNING rowid, *")
            .sql("UPDATE r SET rowid = 78 WHERE a = 'x'"),
    ]
}

fn constraints() -> Vec<Script> {
    let two_rows = |name, column: &str, good: &str, bad: &str| {
        script(name)
            .sql(&format!("CREATE TABLE k (id INTEGER PRIMARY KEY, a {column})"))
            .sql(&format!("INSERT INTO k (a) VALUES ({good})"))
            .sql(&format!("INSERT INTO k (a) VALUES ({bad})"))
            .sql(&format!("UPDATE k SET a = {bad}, id = id + 1"))
            .sql("SELECT * FROM k")
    };
    vec![
        two_rows("CHECK", "CHECK (a > 0)", "1", "-1"),
        two_rows("CHECK with a name", "CONSTRAINT positive CHECK (a > 0)", "1", "-1"),
        two_rows("NOT NULL", "NOT NULL", "1", "NULL"),
        two_rows("UNIQUE", "UNIQUE", "1, 2), (2, 3", "1"),
        two_rows("UNIQUE violated", "UNIQUE", "1", "1"),
        script("PRIMARY KEY of a rowid table and of another one")
            .sql("INSERT INTO t VALUES (1, 'x', 0)")
            .sql("INSERT INTO t VALUES ('no number', 'x', 0)")
            .sql("CREATE TABLE p (a, b, PRIMARY KEY (a, b))")
            .sql("INSERT INTO p VALUES (1, 2), (1, 2)")
            .sql("INSERT INTO p VALUES (1, 2)")
            .sql("SELECT count(*) FROM p"),
        script("INSERT … SELECT that fails half way leaves nothing")
            .sql("CREATE TABLE h (a CHECK (a < 50))")
            .sql("INSERT INTO h WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n")
            .sql("SELECT count(*) FROM h")
            .sql(COUNTS),
        script("UPDATE that violates on the way and UPDATE that does not")
            .sql("UPDATE t SET id = id + 1")
            .sql("UPDATE t SET id = id - 1")
            .sql("UPDATE t SET id = 5 - id")
            .sql("SELECT * FROM t"),
    ]
}

fn conflicts() -> Vec<Script> {
    let clause = |name, clause: &str| {
        script(name)
            .sql("CREATE TABLE c (id INTEGER PRIMARY KEY, a UNIQUE, b NOT NULL DEFAULT 7, d CHECK (d > 0))")
            .sql("INSERT INTO c VALUES (1, 'x', 1, 1)")
            .sql(&format!("INSERT OR {clause} INTO c VALUES (5, 'y', 1, 1), (6, 'x', 1, 1), (7, 'z', 1, 1)"))
            .sql(COUNTS)
            .sql(&format!("INSERT OR {clause} INTO c VALUES (15, 'n', NULL, 1), (16, 'm', 1, 1)"))
            .sql(&format!("INSERT OR {clause} INTO c VALUES (25, 'q', 1, -1), (26, 'r', 1, 1)"))
            .sql(&format!("UPDATE OR {clause} c SET a = 'same'"))
            .sql(COUNTS)
            .sql("SELECT * FROM c")
    };
    vec![
        clause("OR IGNORE", "IGNORE"),
        clause("OR REPLACE", "REPLACE"),
        clause("OR FAIL", "FAIL"),
        clause("OR ABORT", "ABORT"),
        clause("OR ROLLBACK", "ROLLBACK"),
        script("ON CONFLICT in the table")
            .sql("CREATE TABLE c (a UNIQUE ON CONFLICT REPLACE, b NOT NULL ON CONFLICT IGNORE, d UNIQUE ON CONFLICT ROLLBACK)")
            .sql("INSERT INTO c VALUES (1, 1, 1), (1, 2, 2), (2, NULL, 3)")
            .sql("SELECT * FROM c")
            .sql("INSERT INTO c VALUES (3, 3, 2)")
            .sql("INSERT INTO c VALUES (4, 4, 4)"),
        script("REPLACE fires no delete trigger, or does")
            .sql("CREATE TABLE log (a)")
            .sql("CREATE TRIGGER gone AFTER DELETE ON t BEGIN INSERT INTO log VALUES (old.a); END")
            .sql("REPLACE INTO t VALUES (1, 'new', 0)")
            .sql("PRAGMA recursive_triggers = ON")
            .sql("REPLACE INTO t VALUES (2, 'new', 0)")
            .sql(COUNTS)
            .sql("SELECT * FROM log"),
    ]
}

fn triggers() -> Vec<Script> {
    let raise = |name, raise: &str| {
        script(name)
            .sql(&format!(
                "CREATE TRIGGER guard BEFORE INSERT ON t WHEN new.b < 0 BEGIN SELECT RAISE({raise}); END"
            ))
            .sql("INSERT INTO t VALUES (10, 'good', 1), (11, 'bad', -1), (12, 'good', 1)")
            .sql(COUNTS)
            .sql("INSERT INTO t VALUES (20, 'good', 1)")
            .sql(COUNTS)
            .sql("SELECT * FROM t")
    };
    vec![
        raise("RAISE(IGNORE)", "IGNORE"),
        raise("RAISE(ABORT)", "ABORT, 'no negative numbers'"),
        raise("RAISE(FAIL)", "FAIL, 'no negative numbers'"),
        raise("RAISE(ROLLBACK)", "ROLLBACK, 'no negative numbers'"),
        raise("RAISE with a computed message", "ABORT, 'not ' || new.b"),
        script("triggers count in total_changes() only")
            .sql("CREATE TABLE log (id INTEGER PRIMARY KEY, a)")
            .sql("CREATE TRIGGER logging AFTER UPDATE ON t BEGIN INSERT INTO log (a) VALUES (new.a), (old.a); END")
            .sql("UPDATE t SET a = 'x' WHERE id < 3")
            .sql(COUNTS),
        script("last_insert_rowid() inside and after a trigger")
            .sql("CREATE TABLE log (id INTEGER PRIMARY KEY, a)")
            .sql("INSERT INTO log VALUES (900, 'start')")
            .sql("CREATE TRIGGER logging AFTER INSERT ON t BEGIN INSERT INTO log (a) VALUES (last_insert_rowid()); UPDATE t SET b = last_insert_rowid() WHERE id = new.id; END")
            .sql("INSERT INTO t (a) VALUES ('x')")
            .sql(COUNTS)
            .sql("SELECT * FROM t, log"),
        script("recursive triggers on and off")
            .sql("CREATE TRIGGER down AFTER INSERT ON t WHEN new.b > 0 BEGIN INSERT INTO t (a, b) VALUES ('down', new.b - 1); END")
            .sql("INSERT INTO t (a, b) VALUES ('top', 5)")
            .sql("SELECT count(*) FROM t")
            .sql("PRAGMA recursive_triggers = ON")
            .sql("INSERT INTO t (a, b) VALUES ('top', 5)")
            .sql("SELECT count(*) FROM t")
            .sql("PRAGMA recursive_triggers")
            .sql("PRAGMA recursive_triggers = 0")
            .sql("INSERT INTO t (a, b) VALUES ('top', 5)"),
        script("too deep recursion of triggers")
            .sql("CREATE TRIGGER forever AFTER INSERT ON t BEGIN INSERT INTO t (a) VALUES ('more'); END")
            .sql("PRAGMA recursive_triggers = ON")
            .sql("INSERT INTO t (a) VALUES ('x')")
            .sql("SELECT count(*) FROM t"),
        script("INSTEAD OF triggers on a view")
            .sql("CREATE VIEW v AS SELECT id, a FROM t")
            .sql("INSERT INTO v VALUES (9, 'x')")
            .sql("CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN INSERT INTO t (a) VALUES (new.a || '!'); END")
            .sql("CREATE TRIGGER vd INSTEAD OF DELETE ON v BEGIN DELETE FROM t WHERE id = old.id; END")
            .sql("INSERT INTO v VALUES (9, 'x'), (10, 'y') RETURNING *")
            .sql(COUNTS)
            .sql("DELETE FROM v WHERE id = 1")
            .sql("SELECT * FROM v"),
        script("a trigger that calls session functions")
            .sql("CREATE TRIGGER tell AFTER INSERT ON t BEGIN UPDATE t SET b = changes() || '/' || total_changes() WHERE id = new.id; END")
            .sql("UPDATE t SET b = 0")
            .sql("INSERT INTO t (a) VALUES ('x')")
            .sql("SELECT b FROM t")
            .sql("INSERT INTO t (a) VALUES ('y')")
            .sql("SELECT b FROM t"),
        script("changes() in a trigger, where the same number was counted before")
            .sql("BEGIN IMMEDIATE")
            .sql("UPDATE t SET b = 0 WHERE id = 1")
            .sql("COMMIT")
            .sql("CREATE TABLE log (a)")
            .sql("CREATE TRIGGER tell AFTER INSERT ON t BEGIN INSERT INTO log VALUES ('row'); INSERT INTO log VALUES (changes()); END")
            .sql("UPDATE t SET b = 1")
            .sql("INSERT INTO t (a) VALUES ('x')")
            .sql("SELECT a FROM log"),
        script("a trigger whose table is gone")
            .sql("CREATE TRIGGER lost AFTER INSERT ON t BEGIN INSERT INTO missing VALUES (1); END")
            .sql("INSERT INTO t (a) VALUES ('x')")
            .sql("UPDATE t SET a = 'y'"),
    ]
}

fn foreign_keys() -> Vec<Script> {
    let family = |name, clause: &str| {
        script(name)
            .sql("PRAGMA foreign_keys = ON")
            .sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
            .sql(&format!(
                "CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent {clause})"
            ))
            .sql("INSERT INTO parent VALUES (1), (2)")
            .sql("INSERT INTO child VALUES (10, 1), (11, 1), (12, NULL)")
            .sql("INSERT INTO child VALUES (20, 99)")
            .sql(COUNTS)
            .sql("DELETE FROM parent WHERE id = 1")
            .sql(COUNTS)
            .sql("UPDATE parent SET id = 7 WHERE id = 2")
            .sql("SELECT * FROM child")
    };
    vec![
        family("foreign keys", ""),
        family("ON DELETE CASCADE", "ON DELETE CASCADE"),
        family("ON DELETE SET NULL", "ON DELETE SET NULL ON UPDATE CASCADE"),
        family("ON DELETE RESTRICT", "ON DELETE RESTRICT"),
        family("deferred foreign keys, statement by statement", "DEFERRABLE INITIALLY DEFERRED"),
        script("foreign keys off")
            .sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
            .sql("CREATE TABLE child (p REFERENCES parent)")
            .sql("INSERT INTO child VALUES (99)")
            .sql("PRAGMA foreign_keys")
            .sql("PRAGMA foreign_keys = ON")
            .sql("INSERT INTO child VALUES (98)")
            .sql("PRAGMA foreign_keys = OFF")
            .sql("INSERT INTO child VALUES (97)"),
        script("deferred foreign keys in a transaction")
            .sql("PRAGMA foreign_keys = ON")
            .sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
            .sql("CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
            .sql("BEGIN")
            .sql("INSERT INTO child VALUES (5)")
            .sql("INSERT INTO parent VALUES (5)")
            .sql("COMMIT")
            .sql("BEGIN")
            .sql("INSERT INTO child VALUES (6)")
            .sql("COMMIT")
            .sql("SELECT count(*) FROM child")
            .sql("INSERT INTO parent VALUES (6)")
            .sql("COMMIT")
            .sql("BEGIN")
            .sql("INSERT INTO child VALUES (7)")
            .sql("ROLLBACK"),
        script("PRAGMA defer_foreign_keys")
            .sql("PRAGMA foreign_keys = ON")
            .sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
            .sql("CREATE TABLE child (p REFERENCES parent)")
            .sql("PRAGMA defer_foreign_keys = ON")
            .sql("INSERT INTO child VALUES (6)")
            .sql("INSERT INTO child VALUES (6)")
            .sql("BEGIN")
            .sql("PRAGMA defer_foreign_keys = ON")
            .sql("INSERT INTO child VALUES (6)")
            .sql("INSERT INTO parent VALUES (6)")
            .sql("COMMIT")
            .sql("INSERT INTO child VALUES (7)"),
    ]
}

fn virtual_tables() -> Vec<Script> {
    vec![
        script("FTS5")
            .sql("CREATE VIRTUAL TABLE f USING fts5(body)")
            .sql("INSERT INTO f VALUES ('many hands make light work'), ('one hand')")
            .sql("SELECT changes(), last_insert_rowid()")
            .sql("UPDATE f SET body = 'no hands' WHERE rowid = 2")
            .sql("SELECT rowid, body FROM f WHERE f MATCH 'hands' ORDER BY rank")
            .sql("INSERT INTO f (f) VALUES ('integrity-check')")
            .sql("INSERT INTO f (f) VALUES ('optimize')")
            .sql("INSERT INTO f (f) VALUES ('no such command')")
            .sql("DELETE FROM f WHERE f MATCH 'light'")
            .sql("SELECT * FROM f WHERE f MATCH '\"'"),
        script("FTS5 kept up by triggers")
            .sql("CREATE VIRTUAL TABLE f USING fts5(a, content='t', content_rowid='id')")
            .sql("CREATE TRIGGER f_i AFTER INSERT ON t BEGIN INSERT INTO f (rowid, a) VALUES (new.id, new.a); END")
            .sql("CREATE TRIGGER f_d AFTER DELETE ON t BEGIN INSERT INTO f (f, rowid, a) VALUES ('delete', old.id, old.a); END")
            .sql("INSERT INTO f (f) VALUES ('rebuild')")
            .sql("INSERT INTO t (a) VALUES ('four'), ('five')")
            .sql("SELECT changes(), last_insert_rowid()")
            .sql("DELETE FROM t WHERE id = 2")
            .sql("SELECT changes(), last_insert_rowid()")
            .sql("SELECT rowid FROM f WHERE f MATCH 'four OR two'"),
        script("R-Tree")
            .sql("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1)")
            .sql("INSERT INTO r VALUES (1, 0, 1, 0, 1), (2, 5, 6, 5, 6)")
            .sql(COUNTS)
            .sql("INSERT INTO r VALUES (1, 0, 1, 0, 1)")
            .sql("INSERT INTO r VALUES (3, 9, 1, 0, 1)")
            .sql("UPDATE r SET x1 = 3 WHERE id = 1")
            .sql("SELECT * FROM r WHERE x0 < 2")
            .sql("DELETE FROM r WHERE id = 2"),
        script("an unknown module")
            .sql("CREATE VIRTUAL TABLE u USING no_such_module(a)")
            .sql("SELECT count(*) FROM t"),
    ]
}

fn run_time() -> Vec<Script> {
    vec![
        script("errors of expressions at run time")
            .sql("INSERT INTO t (a) VALUES (abs(-9223372036854775808))")
            .sql("UPDATE t SET a = json('x')")
            .sql("UPDATE t SET a = CASE id WHEN 3 THEN json('x') ELSE 'changed' END")
            .sql("SELECT abs(-9223372036854775808)")
            .sql("INSERT INTO t (a) SELECT zeroblob(2000000000)")
            .sql("UPDATE t SET a = (SELECT a FROM t WHERE a LIKE 'x' ESCAPE 'too long')")
            .sql(COUNTS)
            .sql("SELECT * FROM t"),
        script("an expression error after rows were written, OR FAIL and OR ROLLBACK")
            .sql("UPDATE OR FAIL t SET b = CASE id WHEN 3 THEN json('x') ELSE 'changed' END")
            .sql("SELECT * FROM t")
            .sql("UPDATE OR ROLLBACK t SET b = CASE id WHEN 3 THEN json('x') ELSE 'changed' END")
            .sql("SELECT * FROM t"),
        script("JSON, window functions, common tables, dates")
            .sql("INSERT INTO t (a) VALUES (jsonb('{\"k\": [1, 2]}')) RETURNING json(a)")
            .sql("UPDATE t SET b = json_set('{}', '$.id', id)")
            .sql("INSERT INTO t (a, b) SELECT row_number() OVER (ORDER BY id), date('2024-02-30') FROM t")
            .sql("WITH big AS (SELECT id FROM t WHERE id > 2) DELETE FROM t WHERE id IN big RETURNING id")
            .sql("UPDATE t SET a = o.x FROM (SELECT 1 AS i, 'joined' AS x) AS o WHERE o.i = t.id"),
        script("a statement of some size")
            .sql(&format!("INSERT INTO t (a) VALUES ({}0)", "1 + ".repeat(400)))
            .sql(&format!("INSERT INTO t (a) VALUES ('{}')", "y".repeat(5000)))
            .sql(&format!("INSERT INTO t (a) VALUES ({}0)", "1 + ".repeat(2000))),
        script("a statement that takes longer than a batch waits")
            .sql("INSERT INTO t (a) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000) SELECT count(*) FROM n")
            .sql(COUNTS),
    ]
}

fn compile_time() -> Vec<Script> {
    vec![
        script("syntax errors")
            .sql("INSRT INTO t VALUES (1)")
            .sql("INSERT INTO t VALUES (")
            .sql("INSERT INTO t VALUES (1, 2, 3, 4)")
            .sql("SELECT 'open")
            .sql("UPDATE t SET"),
        script("unknown names")
            .sql("INSERT INTO missing VALUES (1)")
            .sql("UPDATE t SET missing = 1")
            .sql("DELETE FROM t WHERE missing = 1")
            .sql("INSERT INTO t (a) VALUES (missing(1))")
            .sql("INSERT INTO nowhere.t (a) VALUES (1)")
            .sql("SELECT abs(1, 2)"),
        script("a wrong number of values")
            .with("INSERT INTO t (a) VALUES (?1)", params![])
            .with("INSERT INTO t (a) VALUES (?1)", params![1, 2])
            .with("INSERT INTO t (a) VALUES (?1)", params![1])
            .with("SELECT ?1", params![])
            .with("SELECT 1", params![1]),
        script("comments, and a semicolon at the end")
            .sql("/* one */ INSERT INTO t (a) VALUES ('--') -- end")
            .sql("INSERT INTO t (a) VALUES ('x');")
            .sql("INSERT INTO t (a) VALUES ('x'); -- and no more")
            .sql("-- first\nSELECT 1 AS one"),
        script("EXPLAIN tells the plan of the schema as it is now")
            .sql("CREATE TABLE explained (a, b)")
            .sql("EXPLAIN QUERY PLAN SELECT b FROM explained WHERE a = 1")
            .sql("CREATE INDEX explained_a ON explained (a)")
            .sql("EXPLAIN QUERY PLAN SELECT b FROM explained WHERE a = 1")
            .sql("EXPLAIN SELECT b FROM explained WHERE a = 1")
            .sql("DROP INDEX explained_a")
            .sql("EXPLAIN QUERY PLAN SELECT b FROM explained WHERE a = 1"),
        script("EXPLAIN writes nothing")
            .sql("EXPLAIN QUERY PLAN SELECT * FROM t")
            .sql("EXPLAIN QUERY PLAN DELETE FROM t")
            .sql("SELECT count(*) FROM t"),
        script("tables that no statement may write")
            .sql("INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 0, '')")
            .sql("DELETE FROM sqlite_master")
            .sql("DROP TABLE sqlite_schema")
            .sql("CREATE TABLE sqlite_mine (a)"),
        script("load_extension is off")
            .sql("SELECT load_extension('nothing')")
            .sql("INSERT INTO t (a) VALUES (load_extension('nothing'))"),
    ]
}

fn schema() -> Vec<Script> {
    vec![
        script("CREATE, ALTER and DROP")
            .sql("CREATE TABLE u (a)")
            .sql("CREATE TABLE u (a)")
            .sql("CREATE TABLE IF NOT EXISTS u (a)")
            .sql("INSERT INTO u VALUES (1)")
            .sql("ALTER TABLE u ADD COLUMN b DEFAULT 5")
            .sql("SELECT * FROM u")
            .sql("INSERT INTO u VALUES (2)")
            .sql("ALTER TABLE u RENAME COLUMN b TO c")
            .sql("ALTER TABLE u RENAME TO v")
            .sql("INSERT INTO u VALUES (1, 2)")
            .sql("INSERT INTO v VALUES (1, 2) RETURNING *")
            .sql("ALTER TABLE v DROP COLUMN a")
            .sql("INSERT INTO v VALUES (1, 2)")
            .sql("INSERT INTO v VALUES (3)")
            .sql("DROP TABLE v")
            .sql("INSERT INTO v VALUES (3)")
            .sql("DROP TABLE v")
            .sql("DROP TABLE IF EXISTS v"),
        script("the same text means another table after a change")
            .sql("INSERT INTO t (a) VALUES ('before') RETURNING *")
            .sql("ALTER TABLE t ADD COLUMN c DEFAULT 'new'")
            .sql("INSERT INTO t (a) VALUES ('before') RETURNING *")
            .sql("SELECT * FROM t WHERE id = 1")
            .sql("DROP TABLE t")
            .sql("CREATE TABLE t (z, a)")
            .sql("INSERT INTO t (a) VALUES ('before') RETURNING *"),
        script("CREATE TABLE AS, indexes, views")
            .sql("CREATE TABLE copy AS SELECT * FROM t")
            .sql(COUNTS)
            .sql("CREATE UNIQUE INDEX copy_a ON copy (a)")
            .sql("INSERT INTO copy VALUES (4, 'one', 4)")
            .sql("CREATE UNIQUE INDEX copy_x ON copy (typeof(a))")
            .sql("CREATE VIEW w AS SELECT missing FROM t")
            .sql("SELECT * FROM w")
            .sql("DELETE FROM copy WHERE a = 'one'")
            .sql("DROP INDEX copy_a")
            .sql("DROP VIEW w"),
        script("REINDEX and ANALYZE")
            .sql("CREATE INDEX t_a ON t (a)")
            .sql("REINDEX")
            .sql("REINDEX t_a")
            .sql("REINDEX missing")
            .sql("ANALYZE")
            .sql("SELECT * FROM sqlite_stat1 WHERE tbl = 't'"),
        script("VACUUM")
            .sql("DELETE FROM t WHERE id = 2")
            .sql("VACUUM")
            .sql("SELECT * FROM t")
            .sql("VACUUM INTO '{DIR}/copy.db'")
            .sql("VACUUM missing"),
        script("PRAGMA that asks and PRAGMA that writes")
            .sql("PRAGMA user_version")
            .sql("PRAGMA user_version = 42")
            .sql("PRAGMA user_version")
            .sql("PRAGMA application_id = 7")
            .sql("PRAGMA table_info(t)")
            .sql("PRAGMA integrity_check")
            .sql("PRAGMA quick_check(t)")
            .sql("PRAGMA journal_mode")
            .sql("PRAGMA journal_mode = WAL")
            .sql("PRAGMA no_such_pragma")
            .sql("PRAGMA cache_size = -3000")
            .sql("PRAGMA cache_size")
            .sql("PRAGMA page_count")
            .sql("PRAGMA encoding")
            .sql("PRAGMA synchronous")
            .sql("PRAGMA synchronous = OFF")
            .sql("PRAGMA synchronous")
            .sql("PRAGMA synchronous = Normal")
            .sql("PRAGMA synchronous")
            .sql("PRAGMA main.synchronous(EXTRA)")
            .sql("PRAGMA main.synchronous")
            .sql("PRAGMA synchronous = 7")
            .sql("PRAGMA synchronous")
            .sql("PRAGMA temp.synchronous = FULL")
            .sql("PRAGMA nothing.synchronous = FULL")
            .sql("INSERT INTO t (a) VALUES ('at the last level')")
            .sql("PRAGMA synchronous = FULL")
            .sql("PRAGMA locking_mode")
            .sql("PRAGMA optimize")
            .sql("SELECT name FROM pragma_table_info('t')"),
        script("PRAGMAs that change what a write does")
            .sql("CREATE TABLE c (a CHECK (a > 0))")
            .sql("PRAGMA ignore_check_constraints = ON")
            .sql("INSERT INTO c VALUES (-1)")
            .sql("PRAGMA ignore_check_constraints = OFF")
            .sql("INSERT INTO c VALUES (-2)")
            .sql("DELETE FROM c")
            .sql("PRAGMA case_sensitive_like = ON")
            .sql("DELETE FROM t WHERE a LIKE 'ONE'")
            .sql("PRAGMA query_only = ON")
            .sql("DELETE FROM t")
            .sql("PRAGMA query_only = OFF")
            .sql("UPDATE t SET b = 0"),
        script("PRAGMAs that change names and order")
            .sql("PRAGMA full_column_names = ON")
            .sql("PRAGMA short_column_names = OFF")
            .sql("SELECT t.a FROM t")
            .sql("UPDATE t SET b = 5 RETURNING a")
            .sql("PRAGMA count_changes = ON")
            .sql("UPDATE t SET b = 6")
            .sql("INSERT INTO t (a) VALUES (1)"),
        script("PRAGMA writable_schema")
            .sql("PRAGMA writable_schema = ON")
            .sql("UPDATE sqlite_schema SET sql = 'CREATE TABLE t (id INTEGER PRIMARY KEY, a, renamed)' WHERE name = 't'")
            .sql("PRAGMA writable_schema = RESET")
            .sql("SELECT renamed FROM t"),
        script("ordinary double-quoted and odd names")
            .sql("CREATE TABLE \"odd \"\"name\" (\"a b\", [c d], `e`)")
            .sql("INSERT INTO \"odd \"\"name\" VALUES (1, 2, 3) RETURNING *")
            .sql("INSERT INTO t (a) VALUES (\"one\")"),
    ]
}

fn elsewhere() -> Vec<Script> {
    vec![
        script("temp tables")
            .sql("CREATE TEMP TABLE p (id INTEGER PRIMARY KEY, a)")
            .sql("INSERT INTO p (a) VALUES ('x'), ('y')")
            .sql(COUNTS)
            .sql("INSERT INTO t (a) SELECT a FROM p RETURNING *")
            .sql(COUNTS)
            .sql("INSERT INTO p SELECT id, a FROM t")
            .sql("UPDATE t SET b = (SELECT max(id) FROM p)")
            .sql("DROP TABLE p")
            .sql("INSERT INTO p (a) VALUES ('x')"),
        script("a temp table hides a table of the main database")
            .sql("INSERT INTO t (a) VALUES ('main')")
            .sql("CREATE TEMP TABLE t (a)")
            .sql("INSERT INTO t (a) VALUES ('temp')")
            .sql("INSERT INTO main.t (a) VALUES ('main again')")
            .sql("SELECT * FROM t")
            .sql("DROP TABLE t")
            .sql("INSERT INTO t (a) VALUES ('temp')")
            .sql("SELECT * FROM t"),
        script("a temp trigger on a table of the main database")
            .sql("INSERT INTO t (a) VALUES ('before')")
            .sql("CREATE TEMP TABLE log (a)")
            .sql("CREATE TEMP TRIGGER spy AFTER INSERT ON main.t BEGIN INSERT INTO log VALUES (new.a); END")
            .sql("INSERT INTO t (a) VALUES ('before')")
            .sql("INSERT INTO t (a) VALUES ('after')")
            .sql(COUNTS)
            .sql("SELECT * FROM log")
            .sql("DROP TRIGGER spy")
            .sql("INSERT INTO t (a) VALUES ('unseen')")
            .sql("SELECT * FROM log"),
        script("a temp view")
            .sql("CREATE TEMP VIEW w AS SELECT a FROM t WHERE id < 3")
            .sql("INSERT INTO t (a) SELECT a || '2' FROM w")
            .sql("SELECT * FROM w"),
        script("an attached database, written alone and together with main")
            .sql("ATTACH '{DIR}/other.db' AS other")
            .sql("INSERT INTO other.o (a) VALUES ('x')")
            .sql(COUNTS)
            .sql("INSERT INTO o (a) SELECT a FROM t")
            .sql("INSERT INTO t (a) SELECT a FROM o")
            .sql("BEGIN IMMEDIATE")
            .sql("INSERT INTO o (a) VALUES ('both')")
            .sql("INSERT INTO t (a) VALUES ('both')")
            .sql("COMMIT")
            .sql("BEGIN")
            .sql("INSERT INTO o (a) VALUES ('neither')")
            .sql("INSERT INTO t (a) VALUES ('neither')")
            .sql("ROLLBACK")
            .sql("DETACH other")
            .sql("INSERT INTO o (a) VALUES ('gone')"),
        script("schema changes in an attached database")
            .sql("ATTACH '{DIR}/other.db' AS other")
            .sql("CREATE TABLE other.u (a)")
            .sql("INSERT INTO u VALUES (1)")
            .sql("CREATE TRIGGER other.lift AFTER INSERT ON u BEGIN INSERT INTO o (a) VALUES (new.a); END")
            .sql("INSERT INTO u VALUES (2)")
            .sql("PRAGMA other.user_version = 6")
            .sql("DROP TABLE other.u")
            .sql("ATTACH '{DIR}/other.db' AS other")
            .sql("DETACH missing"),
        script("an attached memory database")
            .sql("ATTACH ':memory:' AS scratch")
            .sql("CREATE TABLE scratch.s (a)")
            .sql("INSERT INTO s SELECT a FROM t")
            .sql("INSERT INTO t (a) SELECT a || '!' FROM s")
            .sql(COUNTS)
            .sql("DETACH scratch"),
        script("an attached database in another journal mode")
            .sql("ATTACH '{DIR}/rollback.db' AS other")
            .sql("CREATE TABLE other.u (a)")
            .sql("INSERT INTO u SELECT a FROM t RETURNING a")
            .sql("PRAGMA other.journal_mode")
            .sql("BEGIN")
            .sql("INSERT INTO u VALUES (1)")
            .sql("INSERT INTO t (a) VALUES (1)")
            .sql("COMMIT")
            .sql("SELECT count(*) FROM u"),
        script("an attached database that cannot be opened")
            .sql("ATTACH '{DIR}/no/such/directory.db' AS other")
            .sql("INSERT INTO other.o VALUES (1)"),
    ]
}

fn transactions() -> Vec<Script> {
    vec![
        script("BEGIN, COMMIT, ROLLBACK and their misuse")
            .sql("COMMIT")
            .sql("ROLLBACK")
            .sql("BEGIN")
            .sql("BEGIN")
            .sql("INSERT INTO t (a) VALUES ('kept')")
            .sql("COMMIT")
            .sql("BEGIN EXCLUSIVE")
            .sql("INSERT INTO t (a) VALUES ('lost')")
            .sql("ROLLBACK")
            .sql(COUNTS)
            .sql("END"),
        script("savepoints")
            .sql("SAVEPOINT one")
            .sql("INSERT INTO t (a) VALUES ('kept')")
            .sql("SAVEPOINT two")
            .sql("INSERT INTO t (a) VALUES ('lost')")
            .sql("ROLLBACK TO two")
            .sql("RELEASE two")
            .sql("INSERT INTO t VALUES (1, 'again', 0)")
            .sql("RELEASE missing")
            .sql("RELEASE one")
            .sql("SELECT * FROM t"),
        script("a read transaction that writes in the end")
            .sql("BEGIN")
            .sql("SELECT count(*) FROM t")
            .sql("DELETE FROM t WHERE id = 1")
            .sql("SELECT count(*) FROM t")
            .sql("COMMIT"),
        script("OR ROLLBACK ends the transaction")
            .sql("BEGIN IMMEDIATE")
            .sql("INSERT INTO t (a) VALUES ('lost')")
            .sql("INSERT OR ROLLBACK INTO t VALUES (1, 'again', 0)")
            .sql("COMMIT")
            .sql("SELECT * FROM t"),
        script("RAISE(ROLLBACK) ends the transaction")
            .sql("CREATE TRIGGER guard BEFORE DELETE ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END")
            .sql("BEGIN")
            .sql("INSERT INTO t (a) VALUES ('lost')")
            .sql("DELETE FROM t WHERE id = 1")
            .sql("INSERT INTO t (a) VALUES ('kept')")
            .sql("COMMIT"),
        script("DDL inside a transaction, rolled back")
            .sql("BEGIN")
            .sql("CREATE TABLE u (a)")
            .sql("INSERT INTO u VALUES (1)")
            .sql("ROLLBACK")
            .sql("INSERT INTO u VALUES (1)")
            .sql("CREATE TABLE u (b)")
            .sql("INSERT INTO u VALUES (1) RETURNING *"),
        script("statements that a transaction forbids")
            .sql("BEGIN")
            .sql("VACUUM")
            .sql("ATTACH '{DIR}/other.db' AS other")
            .sql("INSERT INTO other.o (a) VALUES (1)")
            .sql("DETACH other")
            .sql("PRAGMA foreign_keys = ON")
            .sql("PRAGMA foreign_keys")
            .sql("COMMIT")
            .sql("PRAGMA foreign_keys"),
    ]
}
