//! Statements that their caller owns: what SQLite's own do, and beside each other.

use manyhands::{Code, Statement};
use manyhands_sqlite as sqlite;

use super::*;

/// What a program does with a statement.
#[derive(Clone, Copy, Debug)]
enum Act {
    Bind(usize, i64),
    Clear,
    Step,
    Reset,
}

/// What it is told: the values of a row, that there is none, or an error's code.
type Told = Result<Option<Vec<Value>>, Code>;

fn with_ours(setup: &str, sql: &str, acts: &[Act]) -> Vec<Told> {
    let stage = Stage::without_disk();
    let mut connection = connect(&stage.database());
    connection.execute_script(setup).expect(setup);
    let mut statement = connection.prepare(sql).expect(sql);
    let told = |error: Error| error.code().expect("SQLite's own error");
    let mut act = |act: &Act| match *act {
        Act::Bind(place, value) => statement.bind(place, value).map(|()| None),
        Act::Clear => statement.clear_bindings().map(|()| None),
        Act::Reset => {
            statement.reset();
            Ok(None)
        }
        Act::Step => statement.step(&mut connection).map(|row| {
            row.map(|row| {
                (0..row.columns().len()).map(|column| row.value(column).to_owned()).collect()
            })
        }),
    };
    acts.iter().map(|it| act(it).map_err(told)).collect()
}

fn with_stock(setup: &str, sql: &str, acts: &[Act]) -> Vec<Told> {
    let stage = Stage::without_disk();
    let mode = sqlite::OpenMode::ReadWriteCreate;
    let connection = sqlite::Connection::open(&stage.path(), mode, false).expect("opens");
    connection.execute(setup).expect(setup);
    let mut statement = connection.prepare_one(sql).expect(sql);
    let mut act = |act: &Act| match *act {
        Act::Bind(place, value) => statement.bind(place, ValueRef::Integer(value)).map(|()| None),
        Act::Clear => {
            let count = statement.parameter_count();
            (1..=count).try_for_each(|place| statement.bind(place, ValueRef::Null)).map(|()| None)
        }
        Act::Reset => {
            statement.reset();
            Ok(None)
        }
        Act::Step => {
            statement.step().map(|step| (step == sqlite::Step::Row).then(|| statement.row()))
        }
    };
    acts.iter().map(|it| act(it).map_err(|error| error.code)).collect()
}

/// Bound values stay, a statement that has ended begins anew, and an error ends it: as in SQLite.
#[test]
fn a_statement_is_stepped_as_sqlites_own() {
    use Act::{Bind, Clear, Reset, Step};
    const SETUP: &str =
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)";
    let check = |sql: &str, acts: &[Act]| {
        let (stock, ours) = (with_stock(SETUP, sql, acts), with_ours(SETUP, sql, acts));
        for ((act, expected), found) in acts.iter().zip(stock).zip(ours) {
            assert_eq!(found, expected, "{sql}: {act:?} of {acts:?}");
        }
    };
    let select = "SELECT a, b, ?2 FROM t WHERE a >= ?1";
    check(select, &[Step, Step]);
    check(select, &[Bind(1, 2), Step, Step, Step, Step, Step]);
    check(select, &[Bind(1, 3), Bind(2, 7), Step, Step, Reset, Bind(1, 2), Step, Reset, Step]);
    check(select, &[Bind(1, 1), Step, Reset, Bind(1, 3), Step, Clear, Step]);
    check(select, &[Bind(1, 1), Step, Bind(1, 2), Clear, Step]);
    check(select, &[Bind(0, 1), Bind(3, 1), Bind(2, 1), Bind(1, 3), Step]);
    let insert = "INSERT INTO t (a, b) VALUES (?1, ?2) RETURNING a, b";
    check(insert, &[Step, Step, Step, Step]);
    check(insert, &[Bind(1, 1), Step, Bind(1, 4), Step, Step, Step, Bind(1, 5), Step]);
    check("DELETE FROM t WHERE a <= ?1", &[Bind(1, 2), Step, Step, Reset, Bind(1, 3), Step]);
    check("UPDATE t SET b = abs(?1)", &[Bind(1, i64::MIN), Step, Bind(1, -1), Step]);
    check("SELECT abs(b - 20 + ?1) FROM t", &[Bind(1, i64::MIN), Step, Step, Step, Step, Step]);
    check("EXPLAIN QUERY PLAN SELECT a FROM t WHERE b = ?1", &[Reset, Clear]);
}

/// One that has shown its last row is reset: unlike SQLite's own, it takes new values at once.
#[test]
fn a_statement_that_has_ended_takes_values() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let mut find = connection.prepare("SELECT note FROM item WHERE id = ?1").expect("compiles");
    let mut found = Vec::new();
    for id in [1_i64, 4, 2] {
        find.bind(1, id).expect("it is not running");
        while let Some(row) = find.step(&mut connection).expect("steps") {
            found.push((id, row.get::<Option<String>>(0).expect("a note")));
        }
        assert!(!find.is_running());
    }
    assert_eq!(found, [(1, Some("lamp".to_string())), (2, None)]);
}

/// Several statements are open at once, two of them of one text, and the connection does other things between their steps.
#[test]
fn statements_are_open_beside_each_other() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let sql = "SELECT id FROM item WHERE id >= ?1 ORDER BY id";
    let mut statements: Vec<Statement> =
        (1..=2).map(|_| connection.prepare(sql).expect("compiles")).collect();
    let mut note =
        connection.prepare("INSERT INTO item (id, note) VALUES (?1, ?2)").expect("compiles");
    for (first, statement) in (1..).zip(&mut statements) {
        statement.bind(1, first).expect("a parameter");
    }
    let mut seen = Vec::new();
    for round in 0..3 {
        for statement in &mut statements {
            let row = statement.step(&mut connection).expect("steps");
            seen.push(row.map(|row| row.get::<i64>("id").expect("an id")));
        }
        note.execute(&mut connection, (100 + round, "x")).expect("inserts");
        assert_eq!(
            connection.execute("DELETE FROM item WHERE id >= 100", ()).expect("deletes").changes(),
            1
        );
    }
    assert_eq!(seen, [Some(1), Some(2), Some(2), Some(3), Some(3), None]);
    assert!(statements[0].is_running() && !statements[1].is_running());
    // A row stays until the next step, whatever the connection does.
    let row = statements[0].row().expect("the last one");
    assert_eq!(row.get::<i64>(0).expect("an id"), 3);
}

/// What a statement says of itself.
#[test]
fn a_statement_is_known_before_it_runs() {
    let stage = Stage::new();
    let mut connection = with_items(&stage);
    let sql = "SELECT id AS number, note, id + 1 FROM item WHERE id IN (:a, ?, @b, ?5, $c)";
    let statement = connection.prepare(sql).expect("compiles");
    let names: Vec<_> = statement.parameter_names().iter().map(Option::as_deref).collect();
    assert_eq!(names, [Some(":a"), None, Some("@b"), None, Some("?5"), Some("$c")]);
    assert_eq!(statement.columns(), ["number", "note", "id + 1"]);
    let types: Vec<_> = statement.declared_types().iter().map(Option::as_deref).collect();
    assert_eq!(types, [Some("INTEGER"), None, None]);
    assert!(statement.is_read_only() && !statement.is_running() && statement.row().is_none());
    let mut insert =
        connection.prepare("INSERT INTO item (note) VALUES (:note)").expect("compiles");
    assert!(!insert.is_read_only() && insert.columns().is_empty());
    insert.bind(":note", "by name").expect("a parameter");
    let unknown = insert.bind(":name", 1).expect_err("no parameter");
    assert_eq!(unknown.code(), Some(Code::RANGE));
    assert!(insert.step(&mut connection).expect("inserts").is_none());
    assert_eq!((insert.outcome().changes(), insert.outcome().last_insert_rowid()), (1, 4));
    connection.prepare("SELECT * FROM nowhere").expect_err("does not compile");
    refused(connection.prepare(" -- nothing"), &["no SQL statement"]);
    refused(connection.prepare("SELECT 1; SELECT 2"), &["more than one"]);
}

/// A text of several statements is prepared one after the other, each after what those before it have made.
#[test]
fn the_rest_of_a_text() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database());
    let script =
        "/* one */ CREATE TABLE t (a); INSERT INTO t VALUES (?1) ;; SELECT a FROM t -- end";
    let (mut rest, mut texts, mut shown) = (script, Vec::new(), Vec::new());
    while let Some((mut statement, after)) = connection.prepare_first(rest).expect("compiles") {
        texts.push(statement.sql().trim().to_string());
        if !statement.parameter_names().is_empty() {
            statement.bind(1, 7).expect("a parameter");
        }
        // Executed twice, and found again by its own text.
        for _ in 0..if texts.len() == 1 { 1 } else { 2 } {
            while let Some(row) = statement.step(&mut connection).expect("steps") {
                shown.push(row.get::<i64>(0).expect("a number"));
            }
        }
        rest = after;
    }
    assert_eq!(texts[0], "/* one */ CREATE TABLE t (a);");
    assert_eq!((texts.len(), &shown[..]), (3, &[7, 7, 7, 7][..]));
    let (first, rest) =
        connection.prepare_first("SELECT 1; nonsense").expect("compiles").expect("one");
    assert_eq!((first.sql(), rest), ("SELECT 1;", " nonsense"));
}

/// Another connection, of another database perhaps, is no place for it.
#[test]
fn a_statement_belongs_to_one_connection() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let (mut one, mut other) = (connect(&database), connect(&database));
    let mut statement = one.prepare("INSERT INTO item (note) VALUES ('x')").expect("compiles");
    for other in [&mut other, &mut connect(&database)] {
        assert_eq!(
            statement.step(other).map(drop).expect_err("not its own").code(),
            Some(Code(21))
        );
        statement.execute(other, ()).expect_err("not its own");
    }
    assert_eq!(stage::items(&mut one), 0);
    drop(one);
    let mut next = connect(&database);
    statement.execute(&mut next, ()).expect_err("its own is closed");
    assert_eq!(stage::items(&mut next), 0);
}

/// It is compiled again where the schema is another one, as SQLite does, with the columns of then.
#[test]
fn a_statement_follows_the_schema() {
    let stage = Stage::new();
    let (mut one, mut other) = (with_items(&stage), connect(&stage.database()));
    let mut all = one.prepare("SELECT * FROM item WHERE id = ?1").expect("compiles");
    all.bind(1, 1).expect("a parameter");
    assert_eq!(all.step(&mut one).expect("steps").expect("a row").columns(), ["id", "note"]);
    all.reset();
    other.execute("ALTER TABLE item ADD COLUMN size DEFAULT 7", ()).expect("a column more");
    let row = all.step(&mut one).expect("steps").expect("a row");
    assert_eq!(row.get::<i64>("size").expect("the new column"), 7);
    assert_eq!(all.columns(), ["id", "note", "size"]);
    other.execute("DROP TABLE item", ()).expect("nobody reads it but a drained cursor");
    all.reset();
    all.step(&mut one).map(drop).expect_err("there is no table");
}

/// In an optimistic transaction what a statement has shown counts as seen, and no more.
#[test]
fn what_a_statement_shows_is_seen() {
    let stage = Stage::new();
    let mut one = with_items(&stage);
    let mut other = connect(&stage.database());
    let mut find = one.prepare("SELECT id, note FROM item ORDER BY id").expect("compiles");
    let mut write = one.prepare("INSERT INTO item (note) VALUES (?1)").expect("compiles");
    for (changed, conflicts) in [(3, false), (1, true)] {
        let mut transaction = one.transaction().expect("begins");
        assert!(find.step(&mut transaction).expect("steps").is_some());
        write.execute(&mut transaction, ("new",)).expect("inserts");
        let sql = "UPDATE item SET note = coalesce(note, '') || 'x' WHERE id = ?1";
        other.execute(sql, (changed,)).expect("somebody else writes");
        assert_eq!(transaction.commit().is_err_and(|error| error.is_conflict()), conflicts);
        find.reset();
    }
}
