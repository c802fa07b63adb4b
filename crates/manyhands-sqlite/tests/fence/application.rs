//! What an application adds to a connection: functions, collations, a tracer, blobs. SQLite calls it back,
//! and owns what it was given.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use manyhands_sqlite::{
    Aggregate, BlobPlace, Code, Connection, Error, FunctionError, OpenMode, Step, Traced, Value,
    ValueRef, WindowAggregate,
};

fn memory() -> Connection {
    Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false).expect("opens")
}

/// Ten rows, `v` from 0 to 9, in groups of two.
fn numbers() -> Connection {
    let connection = memory();
    let sql = "CREATE TABLE number AS
               WITH RECURSIVE c(v) AS (VALUES (0) UNION ALL SELECT v + 1 FROM c WHERE v < 9)
               SELECT v / 2 AS g, v FROM c";
    connection.execute(sql).expect("a table");
    connection
}

/// Counts how many of a kind live.
#[derive(Clone, Default)]
struct Living(Arc<AtomicUsize>);

struct Life(Living);

impl Living {
    fn one(&self) -> Life {
        self.0.fetch_add(1, Relaxed);
        Life(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}

/// A sum that fails at the value 8, and cannot begin where `begins` is false.
struct Sum {
    states: Living,
    begins: bool,
    _life: Life,
}

fn integer(arguments: &[ValueRef<'_>]) -> Result<i64, FunctionError> {
    match arguments {
        [ValueRef::Integer(8)] => Err("eight is too much".into()),
        [ValueRef::Integer(number)] => Ok(*number),
        _ => panic!("{arguments:?}"),
    }
}

impl Aggregate for Sum {
    type State = (i64, Life);

    fn begin(&self) -> Result<(i64, Life), FunctionError> {
        if self.begins { Ok((0, self.states.one())) } else { Err("it cannot begin".into()) }
    }

    fn step(
        &self,
        state: &mut (i64, Life),
        arguments: &[ValueRef<'_>],
    ) -> Result<(), FunctionError> {
        state.0 += integer(arguments)?;
        Ok(())
    }

    fn finish(&self, state: Option<(i64, Life)>) -> Result<Value, FunctionError> {
        Ok(Value::Integer(state.map_or(-1, |state| state.0)))
    }
}

impl WindowAggregate for Sum {
    fn value(&self, state: Option<&mut (i64, Life)>) -> Result<Value, FunctionError> {
        Ok(state.map(|state| state.0).into())
    }

    fn inverse(
        &self,
        state: &mut (i64, Life),
        arguments: &[ValueRef<'_>],
    ) -> Result<(), FunctionError> {
        state.0 -= integer(arguments)?;
        Ok(())
    }
}

fn all(connection: &Connection, sql: &str) -> Result<Vec<Value>, Error> {
    let mut statement = connection.prepare_one(sql)?;
    let mut values = Vec::new();
    while statement.step()? == Step::Row {
        values.push(statement.column(0).to_owned());
    }
    Ok(values)
}

/// However a statement ends, no state of a group remains, and the function itself is given back when it is
/// replaced, removed, refused, or the connection closed.
#[test]
fn no_state_of_an_aggregate_remains() {
    let (functions, states) = (Living::default(), Living::default());
    let sum = |begins| Sum { states: states.clone(), begins, _life: functions.one() };
    let connection = numbers();
    connection.create_aggregate("total_of", Some(1), sum(true)).expect("a function");
    let sums = all(&connection, "SELECT total_of(v) FROM number WHERE v < 8 GROUP BY g");
    assert_eq!(sums, Ok([1, 5, 9, 13].map(Value::Integer).to_vec()));
    assert_eq!(
        all(&connection, "SELECT total_of(v) FROM number WHERE v > 99"),
        Ok(vec![Value::Integer(-1)]),
        "no row came"
    );
    let failed = all(&connection, "SELECT total_of(v) FROM number").expect_err("at 8");
    assert_eq!((failed.message.as_str(), failed.code), ("eight is too much", Code::ERROR));
    assert_eq!(states.count(), 0, "after an error");

    let mut statement = connection
        .prepare_one(
            "SELECT total_of(v), total_of(v + 100) FROM number WHERE v <> 8 GROUP BY v % 3",
        )
        .expect("compiles");
    assert_eq!(statement.step(), Ok(Step::Row));
    drop(statement);
    assert_eq!(states.count(), 0, "after a statement that was dropped");
    // Stopped while a group is open: two states, of which none was asked for its result.
    let interrupts = connection.interrupt_handle();
    connection
        .create_function("stop", Some(0), false, move |_| {
            interrupts.interrupt();
            Ok(Value::Null)
        })
        .expect("a function");
    let error = all(&connection, "SELECT total_of(v), total_of(v), stop() FROM number WHERE v < 8");
    assert!(error.expect_err("stopped").code.is_interrupt());
    assert_eq!(states.count(), 0, "after an interrupt");
    // Its handle keeps the connection open.
    connection.remove_function("stop", Some(0)).expect("removed");

    connection.create_aggregate("total_of", Some(1), sum(false)).expect("replaced");
    assert_eq!(functions.count(), 1);
    let error = all(&connection, "SELECT total_of(v) FROM number").expect_err("cannot begin");
    assert_eq!(error.message, "it cannot begin");
    connection.remove_function("total_of", Some(1)).expect("removed");
    assert_eq!(functions.count(), 0);
    all(&connection, "SELECT total_of(v) FROM number").expect_err("no such function");
    connection
        .create_aggregate("total_of", Some(20_000), sum(true))
        .expect_err("too many arguments");
    assert_eq!(functions.count(), 0, "after a refusal");
    connection.create_aggregate("total_of", None, sum(true)).expect("a function");
    drop(connection);
    assert_eq!((functions.count(), states.count()), (0, 0));
}

#[test]
fn a_window_function_takes_rows_in_and_out() {
    let (functions, states) = (Living::default(), Living::default());
    let connection = numbers();
    let sum = Sum { states: states.clone(), begins: true, _life: functions.one() };
    connection.create_window_function("total_of", Some(1), sum).expect("a function");
    let over = |frame: &str| {
        format!("SELECT total_of(v) OVER (ORDER BY v {frame}) FROM number WHERE v < 5")
    };
    assert_eq!(
        all(&connection, &over("ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING")),
        Ok([1, 3, 6, 9, 7].map(Value::Integer).to_vec())
    );
    let before = all(&connection, &over("ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING"));
    let sums = [0, 1, 3, 5].map(Value::Integer);
    assert_eq!(before, Ok([&[Value::Null][..], &sums].concat()), "at first there is no row");
    let plain = all(&connection, "SELECT total_of(v) FROM number WHERE v < 5");
    assert_eq!(plain, Ok(vec![Value::Integer(10)]));
    let sql = "SELECT total_of(v) OVER (ORDER BY v ROWS 1 PRECEDING) FROM number";
    all(&connection, sql).expect_err("at 8");
    assert_eq!(states.count(), 0);
}

#[test]
fn a_function_fails_as_it_says() {
    let connection = memory();
    let fail = |name: &'static str, error: FunctionError| {
        connection
            .create_function(name, None, false, move |_| Err(error.clone()))
            .expect("a function");
        all(&connection, &format!("SELECT {name}()")).expect_err("it fails")
    };
    assert_eq!(fail("f", FunctionError::TooBig).message, "string or blob too big");
    assert_eq!(fail("f", FunctionError::NoMemory).code.name(), "SQLITE_NOMEM");
    assert_eq!(fail("f", "sorry".into()).message, "sorry");
    connection.create_function("f", None, false, |_| panic!("on purpose")).expect("a function");
    let error = all(&connection, "SELECT f(1, 2)").expect_err("it panics");
    assert_eq!(error.message, "the function panicked");
    connection
        .create_function("f", Some(1), false, |values| Ok(values[0].to_owned()))
        .expect("a function");
    let sql = "SELECT f(x'') IS x'' AND f('') IS '' AND f(NULL) IS NULL AND f(1.5) = 1.5";
    assert_eq!(connection.query_integer(sql), Ok(1), "any value goes in and out");
}

#[test]
fn a_collation_orders_until_it_is_removed() {
    let collations = Living::default();
    let connection = memory();
    let life = collations.one();
    let backwards = move |left: &[u8], right: &[u8]| -> Ordering {
        let _ = &life;
        right.cmp(left)
    };
    connection.create_collation("backwards", backwards).expect("a collation");
    let sql = "SELECT column1 FROM (VALUES ('a'), ('c'), ('b')) ORDER BY 1 COLLATE backwards";
    assert_eq!(all(&connection, sql), Ok(["c", "b", "a"].map(Value::from).to_vec()));
    {
        let mut running = connection.prepare_one(sql).expect("compiles");
        running.step().expect("a row");
        let life = collations.one();
        let refused = connection.create_collation("backwards", move |_, _| {
            let _ = &life;
            Ordering::Equal
        });
        assert!(refused.expect_err("it is in use").code.is_busy());
        assert_eq!(collations.count(), 1, "what was refused is dropped");
    }
    connection.remove_collation("backwards").expect("removed");
    assert_eq!(collations.count(), 0);
    let error = all(&connection, sql).expect_err("there is none");
    assert_eq!(error.message, "no such collation sequence: backwards");
}

#[test]
fn a_tracer_is_told_of_statements_and_triggers() {
    let connection = numbers();
    connection
        .execute("CREATE TABLE log (v); CREATE TRIGGER note AFTER INSERT ON number BEGIN INSERT INTO log VALUES (new.v); END")
        .expect("a trigger");
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    connection.set_tracer(Some(move |traced: &Traced<'_>| {
        telling.lock().expect("no panic").push((traced.sql.to_string(), traced.expanded.clone()));
    }));
    let mut insert =
        connection.prepare_one("INSERT INTO number VALUES (?1, ?2)").expect("compiles");
    insert.bind_all([ValueRef::Integer(7), ValueRef::Text(b"it's")].into_iter()).expect("binds");
    insert.step().expect("runs");
    connection.set_tracer(None::<fn(&Traced<'_>)>);
    connection.execute("DELETE FROM number").expect("not told");
    let expanded = || Some("INSERT INTO number VALUES (7, 'it''s')".to_string());
    assert_eq!(
        *told.lock().expect("no panic"),
        [
            ("INSERT INTO number VALUES (?1, ?2)".to_string(), expanded()),
            ("-- TRIGGER note".to_string(), expanded()),
            ("-- INSERT INTO log VALUES (new.v)".to_string(), expanded()),
        ]
    );
}

#[test]
fn a_blob_is_read_and_written_in_pieces() {
    let connection = memory();
    connection
        .execute("CREATE TABLE t (b); INSERT INTO t VALUES ('0123456789'), (x'FF'), (3)")
        .expect("rows");
    let at =
        |rowid| BlobPlace { schema: "main".into(), table: "t".into(), column: "b".into(), rowid };
    let mut blob = connection.open_blob(&at(1), true).expect("opens");
    assert_eq!(blob.len(), 10);
    let mut piece = [0; 3];
    blob.write(4, b"xyz").expect("fits");
    blob.read(3, &mut piece).expect("is there");
    assert_eq!(&piece, b"3xy");
    assert_eq!(blob.write(8, b"xyz").expect_err("too long").code, Code::ERROR);
    blob.reopen(2).expect("another row");
    assert_eq!(blob.len(), 1);
    blob.close().expect("closes");
    assert_eq!(connection.query_text("SELECT b FROM t").as_deref(), Ok("0123xyz789"));

    let mut reading = connection.open_blob(&at(1), false).expect("opens");
    assert_eq!(reading.write(0, b"x").expect_err("for reading").code.name(), "SQLITE_READONLY");
    connection.execute("UPDATE t SET b = 'other' WHERE rowid = 1").expect("updates");
    assert_eq!(reading.read(0, &mut piece).expect_err("expired").code, Code::ABORT);
    for (place, word) in [(at(9), "no such rowid: 9"), (at(3), "cannot open value of type integer")]
    {
        let error = connection.open_blob(&place, false).expect_err("no such blob");
        assert!(error.message.contains(word), "{error}");
    }
}

#[test]
fn each_code_has_the_name_of_its_family() {
    let mut numbers = std::collections::BTreeSet::new();
    for (code, name) in Code::all() {
        assert!(numbers.insert(code.0), "{name} has the number of another");
        assert!(name.starts_with(Code(code.primary()).name()), "{name}");
        assert_eq!(code.name(), name);
    }
    assert_eq!(Code(8 | 99 << 8).name(), "SQLITE_READONLY", "one that is not known");
    assert_eq!(Code(9999 << 8 | 200).name(), "SQLITE_UNKNOWN");
}
