//! The statements of the comparison, in their order: each finds what those before it left.

use manyhands_sqlite::Value;

use super::Case;

pub(super) const SETUP: &str = r#"
    CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);
    CREATE TABLE last (a TEXT DEFAULT 'none', b REAL DEFAULT 2.5, id INTEGER PRIMARY KEY);
    CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, a UNIQUE);
    CREATE TABLE plain (a, b);
    CREATE TABLE strict (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, x ANY) STRICT;
    CREATE TABLE computed (a INT, id INTEGER PRIMARY KEY, v AS (a + id), s AS (id * 2) STORED, b);
    CREATE TABLE computed_plain (g AS (a * 2), a, b);
    CREATE TABLE named (rowid TEXT, oid INTEGER);
    CREATE TABLE shadow (rowid INTEGER, id INTEGER PRIMARY KEY);
    CREATE TABLE checked (id INTEGER PRIMARY KEY CHECK (id < 1000), a UNIQUE CHECK (a <> 'bad'),
                          b NOT NULL DEFAULT 'd' CHECK (b <> id));
    CREATE TABLE "odd ""name" ("the id" INTEGER PRIMARY KEY, "a,b)" TEXT, 'select' TEXT);
    CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, times DEFAULT 1);
    CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES parent);
    CREATE TABLE log (what, id);
    CREATE TABLE single (a);
    INSERT INTO single VALUES (1);
    CREATE INDEX t_a ON t(a);
    CREATE TABLE watched (id INTEGER PRIMARY KEY, a);
    CREATE TRIGGER after_watched AFTER INSERT ON watched BEGIN
        INSERT INTO log VALUES ('after ' || NEW.a, NEW.id);
        SELECT RAISE(ABORT, 'not this') WHERE NEW.a = 'raise';
        SELECT RAISE(IGNORE) WHERE NEW.a = 'ignore';
    END;
    CREATE TABLE before (id INTEGER PRIMARY KEY, a);
    CREATE TRIGGER before_before BEFORE INSERT ON before BEGIN
        INSERT INTO log VALUES ('before ' || NEW.a, NEW.id);
    END;
    CREATE TABLE keyed (k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    CREATE TABLE descending (id INTEGER PRIMARY KEY DESC, a);
    CREATE VIEW seen AS SELECT * FROM t;
    CREATE TRIGGER into_seen INSTEAD OF INSERT ON seen BEGIN
        INSERT INTO t(a) VALUES (NEW.a);
    END;
    CREATE VIRTUAL TABLE words USING fts5(w);
    CREATE TEMP TABLE scratch (id INTEGER PRIMARY KEY, a);
    PRAGMA foreign_keys = ON;
"#;

/// A statement that is rewritten.
fn new(sql: &'static str) -> Case {
    Case { sql, values: Vec::new(), rewritten: true, fails: false }
}

/// A statement that stays as it is.
fn same(sql: &'static str) -> Case {
    Case { rewritten: false, ..new(sql) }
}

impl Case {
    fn with<const COUNT: usize>(self, values: [Value; COUNT]) -> Case {
        Case { values: values.to_vec(), ..self }
    }

    fn fails(self) -> Case {
        Case { fails: true, ..self }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = places_of_the_id();
    all.extend(forms());
    all.extend(parameters());
    all.extend(expressions());
    all.extend(failures());
    all.extend(kinds_of_tables());
    all
}

fn places_of_the_id() -> Vec<Case> {
    vec![
        new("INSERT INTO t(a, b) VALUES (1, 2)"),
        new("INSERT INTO t(a) VALUES (1), (2), (3)"),
        new("INSERT INTO t(b) VALUES ((1 + 2) * 3)"),
        new("INSERT INTO t VALUES (NULL, 'x', 'y')"),
        new("INSERT INTO t VALUES (NULL, 'x', 'y'), (NULL, 'z', 'w')"),
        new("INSERT INTO t VALUES ((NULL), 'x', 'y')"),
        new("INSERT INTO t VALUES (NULLIF(1, 1), 'x', 'y')"),
        new("INSERT INTO t VALUES (20 + 1, 'x', 'y')"),
        new("INSERT INTO t VALUES (NULL, 1, 1), (15, 'explicit', 1), (16 + 0, 'expression', 1)"),
        same("INSERT INTO t VALUES (40, 'x', 'y')"),
        same("INSERT INTO t VALUES (-41, 'x', 'y'), (+42, 'x', 'y'), ('43', 0, 0), (0x2C, 0, 0)"),
        same("INSERT INTO t(a, id) VALUES ('x', 45.0)"),
        new("INSERT INTO t(a, id) VALUES ('x', NULL)"),
        new("INSERT INTO t(a, ID, b) VALUES ('x', null, 'y'), ('z', Null, 'w')"),
        new("INSERT INTO t(a, rowid) VALUES ('x', NULL)"),
        new("INSERT INTO t(OID, a) VALUES (NULL, 'x')"),
        new("INSERT INTO t(\"_rowid_\", a) VALUES (abs(-60), 'x')"),
        new("INSERT INTO t DEFAULT VALUES"),
        new("INSERT INTO t DEFAULT VALUES RETURNING id, a IS NULL"),
        new("INSERT INTO last VALUES ('a', 1, NULL)"),
        new("INSERT INTO last(a) VALUES ('a')"),
        new("INSERT INTO last DEFAULT VALUES"),
        new("INSERT INTO plain VALUES (1, 2)"),
        new("INSERT INTO plain(b) VALUES (1), (2)"),
        new("INSERT INTO plain(rowid, b) VALUES (NULL, 1)"),
        same("INSERT INTO plain(rowid, b) VALUES (77, 1)"),
        new("INSERT INTO plain DEFAULT VALUES"),
    ]
}

fn forms() -> Vec<Case> {
    vec![
        new("REPLACE INTO t VALUES (NULL, 'r', 1)"),
        new("replace into auto(a) values ('one'), ('two')"),
        new("REPLACE INTO auto(a) VALUES ('one')"),
        new("INSERT OR IGNORE INTO auto(a) VALUES ('two') RETURNING id"),
        new("INSERT OR IGNORE INTO auto(a) VALUES ('three'), ('two')"),
        new("INSERT OR REPLACE INTO auto VALUES (NULL, 'two')"),
        new("INSERT OR FAIL INTO auto(a) VALUES ('four'), ('four'), ('five')").fails(),
        new("INSERT OR ABORT INTO auto(a) VALUES ('six'), ('six')").fails(),
        new("INSERT OR ROLLBACK INTO auto(a) VALUES ('six'), ('six')").fails(),
        new("INSERT INTO parent(name) VALUES ('Ann') ON CONFLICT DO NOTHING"),
        new("INSERT INTO parent(name) VALUES ('ann') ON CONFLICT DO NOTHING RETURNING id"),
        new("INSERT INTO parent(name) VALUES ('ANN') ON CONFLICT (name) DO UPDATE \
             SET times = times + 1, name = excluded.name || '!' WHERE times < 5 RETURNING *"),
        new("INSERT INTO parent AS p (name, times) VALUES ('Bob', 3) ON CONFLICT (id) DO NOTHING \
             ON CONFLICT (name) DO UPDATE SET (times, name) = (p.times, p.name) RETURNING id"),
        new("INSERT INTO parent AS p (name) VALUES ('bob') ON CONFLICT (name) WHERE 1 DO UPDATE \
             SET times = p.times * 10 RETURNING times, (SELECT count(*) FROM parent)"),
        new("INSERT INTO parent(name) VALUES ('Eve') ON CONFLICT DO UPDATE SET times = 0"),
        new("INSERT INTO t(a) VALUES ('r') RETURNING *"),
        new(
            "INSERT INTO t(a) VALUES ('r') RETURNING a||'x',   a || 'x', id+1 AS next, \"b\", [a] q",
        ),
        new("WITH c(n) AS (SELECT 7), d AS MATERIALIZED (SELECT 8 AS m) \
             INSERT INTO t(a, b) VALUES ((SELECT n FROM c), (SELECT m FROM d))"),
        new("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 9) \
             INSERT OR IGNORE INTO t VALUES (NULL, (SELECT sum(n) FROM c), 0) RETURNING id, a"),
        new("WITH replace(x) AS (VALUES (1), (2)), \"into\" AS (SELECT 3) REPLACE INTO t(a) \
             VALUES ((SELECT max(x) FROM replace))"),
        new("INSERT INTO main.t(a) VALUES ('schema')"),
        new("INSERT INTO \"MAIN\".[t](`a`) VALUES ('quotes')"),
        new("INSERT INTO 'main'.'t'('a') VALUES ('strings')"),
        new("INSERT INTO main.t AS x (a) VALUES ('alias') RETURNING id, a"),
        new("INSERT INTO t AS \"values\" VALUES (NULL, 1, 2) RETURNING id"),
        new("INSERT INTO \"odd \"\"name\" VALUES (NULL, ')', '(')"),
        new("INSERT INTO \"odd \"\"name\"(\"a,b)\", 'select') VALUES ('),(', ',')"),
        new("INSERT INTO \"odd \"\"name\"(`the id`, 'select') VALUES (NULL, ',')"),
        new("INSERT INTO \"odd \"\"name\" DEFAULT VALUES RETURNING \"the id\""),
        new("/* VALUES ( */ INSERT -- INTO\n INTO/**/t/*(*/(a -- )\n) VALUES /*(1)*/ ('c' /*,*/);"),
        new("INSERT INTO t(a) VALUES ('semicolon') ; -- end\n"),
        same("INSERT INTO t(a) SELECT 1"),
        same("INSERT INTO t(a) SELECT a FROM t WHERE id < 4 ORDER BY id"),
        same("INSERT INTO t(a) SELECT * FROM (VALUES (1), (2))"),
        same("INSERT INTO t(a) VALUES (1) UNION ALL VALUES (2)"),
        same("INSERT INTO t(a) WITH c AS (SELECT 1) VALUES (2)"),
        same("EXPLAIN QUERY PLAN DELETE FROM t"),
    ]
}

fn parameters() -> Vec<Case> {
    let four = || [1.into(), "two".into(), Value::Null, 4.5.into()];
    vec![
        new("INSERT INTO t(a, b) VALUES (?, ?)").with([1.into(), 2.into()]),
        new("INSERT INTO t VALUES (?, ?, ?)").with([Value::Null, 1.into(), 2.into()]),
        new("INSERT INTO t VALUES (?, ?, ?)").with([300.into(), 1.into(), 2.into()]),
        new("INSERT INTO t VALUES (?, ?, ?)").with(["301".into(), 1.into(), 2.into()]),
        new("INSERT INTO t VALUES (?, ?, ?)").with([302.0.into(), 1.into(), 2.into()]),
        new("INSERT INTO t VALUES (?, ?, ?)").with(["text".into(), 1.into(), 2.into()]).fails(),
        new("INSERT INTO t VALUES (?, ?, ?)").with([302.5.into(), 1.into(), 2.into()]).fails(),
        new("INSERT INTO t VALUES (?, ?, ?)").with([b"303".into(), 1.into(), 2.into()]).fails(),
        new("INSERT INTO t VALUES (?, ?, ?)").with(["".into(), 1.into(), 2.into()]).fails(),
        new("INSERT INTO t VALUES (?3, ?1, ?4), (NULL, ?2, ?)").with([
            1.into(),
            "two".into(),
            Value::Null,
            4.into(),
            5.into(),
        ]),
        new("INSERT INTO t(a, b) VALUES (?4, ?2) RETURNING ?1, ?3").with(four()),
        new("INSERT INTO t(a, b) VALUES (:n, @n), ($n, :n) RETURNING ?").with(four()),
        new("INSERT INTO t(id, a, b) VALUES (:id, ?4, :a) RETURNING :id, id").with([
            Value::Null,
            1.into(),
            2.into(),
            3.into(),
            4.into(),
        ]),
        new(
            "INSERT INTO parent(id, name) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET times = ? \
             RETURNING ?",
        )
        .with([Value::Null, "Ann!".into(), 9.into(), "x".into()]),
        new("WITH c AS (SELECT ? AS n) INSERT INTO t(a, b) VALUES ((SELECT n FROM c), ?)")
            .with([1.into(), 2.into()]),
        new("INSERT INTO plain VALUES (?2, ?1), (?, ?)").with(four()),
    ]
}

fn expressions() -> Vec<Case> {
    vec![
        new("INSERT INTO t(a, b) VALUES ('it''s', x'00FF'), (\"quoted\", X''), ('--', '/*')"),
        new("INSERT INTO t(a, b) VALUES (1e3, .5), (5., 1.5e-3), (0xFF, 9223372036854775807)"),
        new(
            "INSERT INTO t(a, b) VALUES (-9223372036854775808, 9223372036854775808), (1_000, 1_0.5)",
        ),
        new("INSERT INTO t(a, b) VALUES (1 + 2 * 3 - -4 % 5, (1 + 2) * (3 - 4) / 5.0)"),
        new("INSERT INTO t(a, b) VALUES (1 << 4 | 6 & ~1, 1 || 2 || '3' < 5 OR NOT 1 AND 0)"),
        new("INSERT INTO t(a, b) VALUES ('a' COLLATE NOCASE = 'A', CAST('12abc' AS INTEGER) + 1)"),
        new("INSERT INTO t(a, b) VALUES (CAST(3 AS VARCHAR(10, 2)), CAST('7' AS NUMERIC))"),
        new("INSERT INTO t(a, b) VALUES ('{\"k\":[1,2]}' -> 'k', '{\"k\":[1,2]}' ->> '$.k[1]')"),
        new("INSERT INTO t(a, b) VALUES (1 IS NOT DISTINCT FROM 1, NULL IS DISTINCT FROM 1)"),
        new("INSERT INTO t(a, b) VALUES ((1, 2) < (1, 3), (1, 'x') IN ((1, 'x'), (2, 'y')))"),
        new("INSERT INTO t(a, b) VALUES (NULL ISNULL, 1 NOTNULL), (NULL NOT NULL, 1 IS NOT NULL)"),
        new(
            "INSERT INTO t(a, b) VALUES (CASE WHEN 1 THEN 'a' ELSE 'b' END, CASE 2 WHEN 2 THEN 3 END)",
        ),
        new("INSERT INTO t(a, b) VALUES ('abc' LIKE 'A%' ESCAPE '\\', 'abc' NOT GLOB 'a*')"),
        new("INSERT INTO t(a, b) VALUES (5 BETWEEN 1 AND 9 AND 1, 5 NOT BETWEEN (6) AND 7)"),
        new(
            "INSERT INTO t(a, b) VALUES (2 IN (1, 2, 3), 2 NOT IN (SELECT 2)), (1 IN (), 1 IN single)",
        ),
        new("INSERT INTO t(a, b) VALUES (EXISTS (SELECT 1), NOT EXISTS (SELECT 1 WHERE 0))"),
        new(
            "INSERT INTO t(a, b) VALUES ((SELECT count(DISTINCT a) FILTER (WHERE a > 0) FROM plain), 1)",
        ),
        new(
            "INSERT INTO t(a, b) VALUES ((SELECT group_concat(r, ',') FROM (SELECT rank() OVER w AS r \
             FROM plain WINDOW w AS (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND \
             UNBOUNDED FOLLOWING EXCLUDE TIES))), 1)",
        ),
        new(
            "INSERT INTO t(a, b) VALUES ((SELECT sum(b) OVER (ORDER BY b DESC NULLS LAST) FROM plain \
             LIMIT 1 OFFSET 1), (SELECT group_concat(a, '-' ORDER BY a DESC) FROM plain))",
        ),
        new("INSERT INTO t(a, b) VALUES ((SELECT x.a FROM plain x LEFT JOIN t AS y ON x.a = y.id \
             NATURAL JOIN single CROSS JOIN (SELECT 1 AS a) USING (a)), 1)"),
        new(
            "INSERT INTO t(a, b) VALUES ((SELECT count(*) FROM json_each('[1,2]') AS j JOIN single ON j.value = a), 1)",
        ),
        new(
            "INSERT INTO t(a, b) VALUES ((VALUES (1), (2)), (SELECT 1 UNION SELECT 2 EXCEPT SELECT 1))",
        ),
        new("INSERT INTO t(a, b) VALUES ((SELECT a FROM t INDEXED BY t_a WHERE a = 1), 1)"),
        new(
            "INSERT INTO t(a, b) VALUES ((SELECT a FROM t NOT INDEXED WHERE id = 1), true), (FALSE, 1 IS TRUE)",
        ),
        new(
            "INSERT INTO t(a, b) VALUES (last_insert_rowid(), coalesce(NULL, printf('%d,%s', 1, ')')))",
        ),
        new("INSERT INTO t(a, b) VALUES ((((1))), - - 1), (+ 'x', ~ -1), (NOT NOT 1, 5 - -5)"),
        new(
            "INSERT INTO t(a, b) VALUES ('ü€😀', 'line\nbreak'), (char(0x1F600), typeof(CURRENT_TIME))",
        ),
        new("INSERT INTO t(a, b) VALUES (1 == 1, 1 <> 2 != 3), (1 = 1 >= 0, 8 >> 1 <= 4)"),
        new(
            "INSERT INTO t VALUES ((SELECT NULL), 'sub', 1), ((SELECT max(id) + 5 FROM t), 'max', 1)",
        ),
        new("INSERT INTO t VALUES (CASE WHEN 0 THEN 1 END, ifnull(NULL, 'x'), iif(1, ',', ')'))"),
        new("INSERT INTO t VALUES (NULL COLLATE NOCASE, 1, 2)"),
        new("INSERT INTO t VALUES (CAST(NULL AS INTEGER), 1, 2), (- NULL, 3, 4)"),
    ]
}

fn failures() -> Vec<Case> {
    vec![
        new("INSERT INTO checked(a) VALUES ('ok')"),
        new("INSERT INTO checked(a) VALUES ('ok')").fails(),
        new("INSERT INTO checked(a) VALUES ('bad')").fails(),
        new("INSERT INTO checked(a, b) VALUES ('x', NULL)").fails(),
        new("INSERT OR IGNORE INTO checked(a, b) VALUES ('x', NULL)"),
        new("INSERT OR REPLACE INTO checked(a, b) VALUES ('x', NULL)"),
        new("INSERT INTO checked(a, b) VALUES ('id', 3)").fails(),
        new("INSERT OR REPLACE INTO checked(a) VALUES ('ok') RETURNING *"),
        same("INSERT INTO checked(id, a) VALUES (5000, 'far')").fails(),
        new("INSERT INTO child(parent) VALUES (1)"),
        new("INSERT INTO child(parent) VALUES (12345)").fails(),
        new("INSERT INTO strict(n) VALUES (1)"),
        new("INSERT INTO strict(n) VALUES ('text')").fails(),
        new("INSERT INTO strict VALUES (?, 1, ?)").with([Value::Null, b"any".into()]),
        new("INSERT INTO strict VALUES (?, 1, 1)").with(["77".into()]),
        new("INSERT INTO strict VALUES (?, 1, 1)").with(["seven".into()]).fails(),
        new("INSERT INTO strict VALUES (NULL, NULL, 1)").fails(),
        new("INSERT INTO strict DEFAULT VALUES").fails(),
        new("INSERT INTO t(a) VALUES (abs(-9223372036854775808))").fails(),
        new("INSERT INTO t(a) VALUES (json('not json'))").fails(),
        new("INSERT INTO t(a) VALUES (no_such_function())").fails(),
        new("INSERT INTO t(no_such_column) VALUES (1)").fails(),
        same("INSERT INTO t(a) VALUES (1, 2)").fails(),
        same("INSERT INTO t VALUES (1), (2, 3)").fails(),
        same("INSERT INTO no_such_table VALUES (1)").fails(),
        same("INSERT INTO t(a) VALUES (1) RETURNIN id").fails(),
    ]
}

fn kinds_of_tables() -> Vec<Case> {
    vec![
        new("INSERT INTO computed VALUES (5, NULL, 'b')"),
        new("INSERT INTO computed(b) VALUES ('b') RETURNING id, v, s"),
        new(
            "INSERT INTO computed(a, id, b) VALUES (1, NULL, 'b'), (2, 400, 'b'), (3, 390 + 9, 'c')",
        ),
        new("INSERT INTO computed DEFAULT VALUES RETURNING *"),
        new("INSERT INTO computed(v) VALUES (1)").fails(),
        new("INSERT INTO computed_plain VALUES (1, 2)"),
        new("INSERT INTO computed_plain(b) VALUES (2) RETURNING g, rowid"),
        new("INSERT INTO named VALUES ('x', 1), (NULL, NULL)"),
        new("INSERT INTO named(rowid) VALUES (NULL)"),
        new("INSERT INTO named(oid, _rowid_) VALUES (NULL, NULL) RETURNING _rowid_, oid"),
        new("INSERT INTO shadow(rowid) VALUES (NULL), (99)"),
        new("INSERT INTO shadow VALUES (1, NULL)"),
        new("INSERT INTO shadow(oid) VALUES (NULL)"),
        new("INSERT INTO descending(a) VALUES (1)"),
        new("INSERT INTO descending VALUES (NULL, 1), (5, 2)"),
        new("INSERT INTO auto(a) VALUES ('seq')"),
        same("INSERT INTO auto VALUES (500, 'jump')"),
        same("DELETE FROM auto WHERE id >= 500"),
        new("INSERT INTO auto(a) VALUES ('after the jump') RETURNING id"),
        new("INSERT INTO auto VALUES (NULL, 'again'), (450, 'below'), (NULL, 'more')"),
        new("INSERT INTO auto DEFAULT VALUES"),
        new("INSERT INTO watched(a) VALUES ('one'), ('two')"),
        new("INSERT INTO watched VALUES (NULL, 'three') RETURNING id"),
        new("INSERT INTO watched(a) VALUES ('raise')").fails(),
        new("INSERT INTO watched(a) VALUES ('ignore')"),
        new("INSERT INTO log VALUES ('direct', 1)"),
        same("INSERT INTO before(a) VALUES ('x')"),
        same("INSERT INTO keyed VALUES ('k', 1)"),
        same("INSERT INTO seen(a) VALUES ('through the view')"),
        same("INSERT INTO words VALUES ('some words')"),
        same("INSERT INTO scratch(a) VALUES ('temp')"),
        same("INSERT INTO temp.scratch(a) VALUES ('temp')"),
        same("INSERT INTO sqlite_sequence VALUES ('u', 5)"),
        same("UPDATE t SET a = 0 WHERE id = 1 RETURNING id"),
        same("DELETE FROM t WHERE id = 2"),
        same("SELECT count(*) FROM t"),
    ]
}
