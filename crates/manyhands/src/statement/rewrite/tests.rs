//! The rewritten INSERT does what the original does: rows, ids, errors, defaults, triggers. Both run
//! on SQLite, on two databases that must stay equal, with the function answering what SQLite would.

mod corpus;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use manyhands_sqlite::{self as sqlite, Connection, Step, Value};
use proptest::prelude::*;

use super::{Rewritten, any_text, rewrite, runs_before_insert, table_of};

/// A statement, its values, whether it is rewritten, and whether it fails.
struct Case {
    sql: &'static str,
    values: Vec<Value>,
    rewritten: bool,
    fails: bool,
}

/// A database in memory with the function, and the id that it gives next.
struct Side {
    connection: Connection,
    next: Arc<AtomicI64>,
}

impl Side {
    fn new(setup: &str) -> Side {
        let connection = crate::statement::in_memory();
        let next = Arc::new(AtomicI64::new(0));
        let counter = Arc::clone(&next);
        connection
            .create_function("manyhands_new_rowid", Some(0), false, move |_| {
                Ok(Value::Integer(counter.fetch_add(1, Ordering::Relaxed)))
            })
            .expect("a function is made");
        connection.execute(setup).expect("the tables are made");
        Side { connection, next }
    }

    fn rewrite(&self, sql: &str) -> Option<Rewritten> {
        let rewritten = rewrite(sql, |schema, name| {
            table_of(&self.connection, schema, name).expect("the schema is read")
        })?;
        (!runs_before_insert(&self.connection, &rewritten.table)).then_some(rewritten)
    }

    /// Makes the function answer what SQLite would choose.
    fn follow(&self, insert: &Rewritten) {
        let Rewritten { table, rowid_name, .. } = insert;
        let highest = |sql: &str| self.connection.query_integer(sql).expect("a number");
        let table = table.replace('"', "\"\"");
        let mut last =
            highest(&format!("SELECT ifnull(max({rowid_name}), 0) FROM main.\"{table}\""));
        if highest("SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'") > 0 {
            let name = table.replace('\'', "''");
            last = last.max(highest(&format!(
                "SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = '{name}'"
            )));
        }
        self.next.store(last + 1, Ordering::Relaxed);
    }

    /// The names of the columns and the rows.
    fn run(&self, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, sqlite::Error> {
        let mut statement = self.connection.prepare_one(sql)?;
        statement.bind_all(values.iter().map(Value::as_ref))?;
        let columns = 0..statement.column_count();
        let mut rows = vec![columns.clone().map(|i| statement.column_name(i).into()).collect()];
        while statement.step()? == Step::Row {
            rows.push(columns.clone().map(|i| statement.column(i).to_owned()).collect());
        }
        Ok(rows)
    }

    /// All rows of all tables, and what the connection says of the last INSERT.
    fn dump(&self) -> Vec<Vec<Value>> {
        let tables = self
            .run(
                "SELECT name, schema FROM pragma_table_list WHERE schema IN ('main', 'temp')
                 AND type IN ('table', 'virtual') AND name NOT LIKE 'sqlite_%schema' ORDER BY 1, 2",
                &[],
            )
            .expect("the tables are listed");
        let mut all = vec![vec![
            Value::from(self.connection.last_insert_rowid()),
            Value::from(self.connection.changes()),
            Value::from(self.connection.total_changes()),
        ]];
        for table in &tables[1..] {
            let [Value::Text(name), Value::Text(schema)] = table.as_slice() else {
                panic!("a table has a name: {table:?}")
            };
            let name = name.to_string_lossy().replace('"', "\"\"");
            let schema = schema.to_string_lossy();
            // Of tables with rowids the rowid too.
            let rows = self
                .run(&format!("SELECT _rowid_, * FROM {schema}.\"{name}\" ORDER BY 1, 2"), &[])
                .or_else(|_| {
                    self.run(&format!("SELECT * FROM {schema}.\"{name}\" ORDER BY 1"), &[])
                });
            all.extend(rows.expect("a table is read"));
        }
        all
    }
}

#[test]
fn an_insert_does_what_it_did_before() {
    let (original, other) = (Side::new(corpus::SETUP), Side::new(corpus::SETUP));
    for Case { sql, values, rewritten, fails } in corpus::cases() {
        let insert = other.rewrite(sql);
        assert_eq!(insert.is_some(), rewritten, "{sql}");
        let mut used = sql;
        if let Some(insert) = &insert {
            other.follow(insert);
            used = &insert.sql;
        }
        let expected = original.run(sql, &values);
        assert_eq!(expected.is_err(), fails, "{sql}: {expected:?}");
        let before = other.next.load(Ordering::Relaxed);
        assert_eq!(other.run(used, &values), expected, "{sql}\nbecame {used}");
        assert_eq!(other.dump(), original.dump(), "{sql}\nbecame {used}");
        let parameters = |side: &Side, sql: &str| {
            side.connection.prepare_one(sql).map(|statement| statement.parameter_count())
        };
        assert_eq!(parameters(&other, used), parameters(&original, sql), "{sql}");
        let took = other.next.load(Ordering::Relaxed) - before;
        assert!(rewritten || took == 0, "{sql}\ntook an id");
    }
}

/// Two transactions with the same snapshot: what the whole module is for.
#[test]
fn two_that_read_the_same_take_different_ids() {
    let side = Side::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    side.next.store(100, Ordering::Relaxed);
    for expected in [100, 101] {
        let insert =
            side.rewrite("INSERT INTO t (a) VALUES ('x') RETURNING id").expect("an INSERT");
        side.connection.execute("BEGIN").expect("begins");
        let rows = side.run(&insert.sql, &[]).expect("inserts");
        assert_eq!(rows[1], [Value::Integer(expected)]);
        side.connection.execute("ROLLBACK").expect("rolls back");
    }
}

#[test]
fn the_text_changes_where_the_id_is_and_nowhere_else() {
    let side = Side::new(corpus::SETUP);
    let check = |sql: &str, expected: &str| {
        assert_eq!(side.rewrite(sql).expect("an INSERT").sql, expected);
    };
    check(
        "insert  into T(a) -- here\nvalues (?1 /* one */ ) returning  a||'x',ID ;",
        "insert  into T(a, \"id\") -- here\nvalues (?1 /* one */ , manyhands_new_rowid()) returning  \
         a||'x',ID ;",
    );
    check(
        "INSERT INTO t VALUES ( NULL,(1),2),(?3 -- three\n, 4, 5), (-6, 7, 8)",
        "INSERT INTO t VALUES ( manyhands_new_rowid(),(1),2),\
         (ifnull(?3, manyhands_new_rowid()) -- three\n, 4, 5), (-6, 7, 8)",
    );
    check(
        "INSERT INTO t DEFAULT /**/ VALUES RETURNING *",
        "INSERT INTO t (\"id\") VALUES (manyhands_new_rowid()) RETURNING *",
    );
    check(
        "INSERT INTO main.plain AS p VALUES (1, 2)",
        "INSERT INTO main.plain AS p (\"a\", \"b\", rowid) VALUES (1, 2, manyhands_new_rowid())",
    );
}

#[test]
fn what_is_no_such_insert_is_left_alone() {
    let side = Side::new(corpus::SETUP);
    for sql in [
        "",
        "-- nothing",
        "SELECT 1",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "EXPLAIN INSERT INTO t(a) VALUES (1)",
        "WITH c AS (SELECT 1) SELECT * FROM c",
        "WITH c AS (SELECT 1) DELETE FROM t",
        "INSERT INTO t(a) VALUES (1); SELECT 2",
        "INSERT INTO t(a) VALUES (1); INSERT INTO t(a) VALUES (2)",
        "INSERT INTO t(a) VALUES (1) -- \0 SQLite reads no further\n, (2)",
        "INSERT INTO t(a) VALUES (1); bad text",
        "INSERT INTO t(a) VALUES (1",
        "INSERT INTO nowhere(a) VALUES (1)",
        "INSERT INTO temp.t(a) VALUES (1)",
        "INSERT INTO other.t(a) VALUES (1)",
        "INSERT INTO sqlite_sequence VALUES ('t', 1)",
        "INSERT INTO t(a) DEFAULT VALUES",
        "INSERT INTO t(id, rowid, a) VALUES (NULL, NULL, 1)",
        "INSERT INTO t VALUES (NULL, 1)",
        "INSERT INTO t(a, b) VALUES (1)",
    ] {
        assert_eq!(side.rewrite(sql), None, "{sql}");
    }
    assert!(side.rewrite("INSERT INTO t(a) VALUES (1);; -- end").is_some());
}

/// As many rows as applications send at once.
#[test]
fn ten_thousand_rows_are_rewritten() {
    let (original, other) = (Side::new(corpus::SETUP), Side::new(corpus::SETUP));
    let sql = format!("INSERT INTO t(a) VALUES (0){}", ", ((1 + 2) * 3)".repeat(9_999));
    let insert = other.rewrite(&sql).expect("an INSERT");
    other.follow(&insert);
    assert_eq!(other.run(&insert.sql, &[]), original.run(&sql, &[]));
    assert_eq!(other.dump(), original.dump());
}

/// About as deep as SQLite's own parser goes.
#[test]
fn a_deep_expression_is_no_danger() {
    let side = Side::new(corpus::SETUP);
    let sql = format!("INSERT INTO t VALUES ({}1{}, 2, 3)", "(1+".repeat(800), ")".repeat(800));
    let insert = side.rewrite(&sql).expect("an INSERT");
    assert_eq!(side.run(&insert.sql, &[]), Ok(vec![vec![]]));
}

/// Words of which INSERTs are made, and some that do not belong.
fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        "INSERT REPLACE INTO OR IGNORE t plain T main . temp AS x ( ) ( ) , , ( ) a b id rowid \"id\" [a] \
         `b` 'a' VALUES VALUES DEFAULT NULL ? ?2 :n @n $n # 1 -2 3.5e1 0x1F 1_0 x'00' 'it''s' \"\" WITH \
         RECURSIVE SELECT FROM WHERE ON CONFLICT DO NOTHING UPDATE SET = == + - * / % || -> ->> << >> & | \
         ~ <> != NOT IN IS DISTINCT ISNULL NOTNULL LIKE GLOB REGEXP MATCH ESCAPE BETWEEN AND CASE WHEN THEN \
         ELSE END CAST COLLATE NOCASE EXISTS RAISE RETURNING OVER FILTER WINDOW PARTITION BY ORDER LIMIT \
         UNION ALL INDEXED ; -- /* */ é ' \" [ CURRENT_TIME WITHIN GROUP TRIGGER EXPLAIN NATURAL JOIN USING"
            .split_whitespace()
            .collect::<Vec<_>>(),
    )
}

fn head() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "INSERT INTO t ",
        "INSERT INTO t(a) VALUES (",
        "INSERT INTO t VALUES (NULL, 1, ",
        "INSERT INTO plain VALUES (1, 2), (",
        "INSERT INTO t(a) VALUES (1) ",
    ])
}

/// The fuzz target's deterministic cousin: texts that it kept, and words instead of coverage (below).
#[test]
fn any_text_is_taken() {
    let tables = any_text::Tables::new();
    crate::fuzzing::decisions::seeds("insert").iter().for_each(|text| tables.insert(text));
}

proptest! {
    /// Nonsense neither panics nor becomes SQL that SQLite understands where it did not before.
    #[test]
    fn any_words_are_taken(words in prop::collection::vec(word(), 0..25), head in head()) {
        let sql = head.to_string() + &words.join(" ");
        let side = Side::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); CREATE TABLE plain (a, b)");
        if let Some(insert) = side.rewrite(&sql) {
            let compiles = |sql: &str| side.connection.prepare_one(sql).is_ok();
            prop_assert_eq!(compiles(&insert.sql), compiles(&sql), "{} became {}", sql, insert.sql);
        }
        any_text::Tables::new().insert(sql.as_bytes());
    }
}
