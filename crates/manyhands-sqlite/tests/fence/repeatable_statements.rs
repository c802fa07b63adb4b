//! A transaction's statements are run again on another connection, and must give exactly the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use manyhands_sqlite::{Connection, Error, OpenMode, Pinned, Setting, Statement, Step, Value, pin};

const PINNED: Pinned = Pinned { time_ms: 211_845_067_200_123, seed: 7, statement: 0 };

const HUNDRED: &str = "with recursive n(i) as (select 1 union all select i + 1 from n limit 100)";

fn memory() -> Connection {
    Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false).expect("a connection")
}

fn repeatable() -> Connection {
    let connection = memory();
    connection.make_repeatable().expect("the functions are replaced");
    connection
}

fn row(statement: &mut Statement) -> Vec<Value> {
    (0..statement.column_count()).map(|index| statement.column(index).to_owned()).collect()
}

fn rows(connection: &Connection, sql: &str) -> Result<Vec<Vec<Value>>, Error> {
    let mut statement = connection.prepare_one(sql)?;
    let mut rows = Vec::new();
    while statement.step()? == Step::Row {
        rows.push(row(&mut statement));
    }
    Ok(rows)
}

fn random(connection: &Connection) -> i64 {
    connection.query_integer("select random()").expect("a number")
}

fn now(connection: &Connection) -> String {
    connection.query_text("select strftime('%Y-%m-%d %H:%M:%f', 'now')").expect("a time")
}

/// Every way for a statement to ask the time or to roll the dice: the same under the same pin, on
/// whichever connection; without one it moves.
#[test]
fn what_a_statement_asks_is_the_same_under_the_same_pin() {
    let queries = [
        "select datetime('now')",
        "select current_timestamp, current_date, current_time",
        "select strftime('%f', 'now'), unixepoch('now', 'subsec'), strftime('%s')",
        "select julianday('now'), julianday()",
        "select random(), random()",
        "select randomblob(16), hex(randomblob(3)), randomblob(1000)",
        &format!("{HUNDRED} select i from n order by random()"),
        &format!("{HUNDRED} select i, random() from n where random() > 0"),
        "select abs(random()) % 10, max(random(), 0) from (values(1), (2), (3))",
    ];
    for sql in queries {
        let pinned = |pinned| {
            let connection = repeatable();
            let _guard = pin(pinned);
            rows(&connection, sql).expect("a query")
        };
        let first = pinned(PINNED);
        assert_eq!(pinned(PINNED), first, "{sql}");
        let other =
            Pinned { time_ms: PINNED.time_ms + 40 * 86_400_000 + 1_001, seed: 8, statement: 0 };
        assert_ne!(pinned(other), first, "{sql}");
        let free = rows(&repeatable(), sql).expect("a query");
        assert_ne!(free, first, "{sql}");
    }
}

/// Schemas ask too: defaults, checks, triggers and views, of a file that one trusts and of one that
/// one does not.
#[test]
fn a_schema_that_asks_repeats_too() {
    const SCHEMA: &str = "
        create table t(
            id integer primary key, a default (random()), b default current_timestamp,
            c default (hex(randomblob(8))), check (random() is not null)
        );
        create table log(a, b);
        create trigger tell after insert on t
            begin insert into log values (random(), julianday('now')); end;
        create view v as select *, random() as r, datetime('now') as at from t order by random();";
    let run = |trusted| {
        let connection = repeatable();
        connection.set(Setting::TrustedSchema, trusted);
        connection.execute(SCHEMA).expect("a schema");
        let guard = pin(PINNED);
        connection.execute("insert into t(id) values (1), (2), (3)").expect("three rows");
        connection.execute("insert into t default values").expect("a row");
        let view = rows(&connection, "select * from v").expect("the view");
        drop(guard);
        (view, rows(&connection, "select * from t join log using (a)").expect("no row"), {
            rows(&connection, "select t.*, log.* from t, log").expect("the tables")
        })
    };
    let trusting = run(true);
    assert_eq!(trusting.0.len(), 4);
    assert_eq!(trusting.1, Vec::<Vec<Value>>::new(), "no draw is shown twice");
    assert_eq!(run(true), trusting);
    assert_eq!(run(false), trusting);
}

/// Without a pin a connection that was made repeatable is as any other: its time is the real one and
/// goes on, and its dice never fall twice the same.
#[test]
fn without_a_pin_the_clock_moves_and_the_dice_roll() {
    let (one, two) = (repeatable(), repeatable());
    assert_ne!(random(&one), random(&two));
    assert_ne!(random(&one), random(&one));
    let before = now(&one);
    assert!((0..1_000_000).any(|_| now(&two) > before), "the clock stands still");
    let unix_s = one.query_integer("select unixepoch('now')").expect("a time");
    let real_s =
        i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs())
            .expect("before the sun burns out");
    assert!((unix_s - real_s).abs() < 60);

    // The real time is known under a pin too, and no two seeds are the same.
    let _guard = pin(PINNED);
    let (first, second) = (Pinned::now(), Pinned::now());
    assert!((first.time_ms / 1_000 - 210_866_760_000 - real_s).abs() < 60);
    assert_ne!(first.seed, second.seed);
}

/// A statement's closure panics, and the thread goes on with other work: it is not pinned any more.
#[test]
fn a_panic_lifts_its_pin_and_no_other() {
    let connection = repeatable();
    let outer = pin(PINNED);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = pin(Pinned { seed: 8, time_ms: 0, statement: 0 });
        assert_eq!(now(&connection), "-4713-11-24 12:00:00.000");
        std::panic::resume_unwind(Box::new("the application's own"));
    }));
    assert!(panicked.is_err());
    assert_eq!(now(&connection), "2001-01-01 00:00:00.123");
    drop(outer);
    assert_ne!(now(&connection), "2001-01-01 00:00:00.123");
    assert_ne!(random(&connection), random(&connection));
}

/// The executor's thread replays, while the application's threads go on. A pin belongs to the thread
/// that steps, not to the connection nor to the thread that compiled.
#[test]
fn a_pin_rules_its_own_thread_only() {
    let connection = repeatable();
    let _guard = pin(PINNED);
    let mut statement = connection.prepare_one("select random(), julianday('now')").expect("sql");
    let step = |statement: &mut Statement| {
        statement.reset();
        assert_eq!(statement.step().expect("a step"), Step::Row);
        row(statement)
    };
    let here = step(&mut statement);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let free = step(&mut statement);
            let _guard = pin(PINNED);
            (free, step(&mut statement))
        });
        let (free, pinned) = thread.join().expect("the thread ends");
        assert_ne!(free[0], here[0]);
        assert_ne!(free[1], here[1]);
        assert_eq!(pinned, here);
    });
}

/// A statement runs inside another, and a careless owner drops the outer guard first: the one that
/// lives rules, with dice that go on, and in the end none does.
#[test]
fn pins_nest_and_may_end_in_any_order() {
    let connection = repeatable();
    let draws = |count| -> Vec<i64> { (0..count).map(|_| random(&connection)).collect() };
    let alone = |pinned, count| {
        let _guard = pin(pinned);
        draws(count)
    };
    let inner = Pinned { seed: 8, ..PINNED };
    let (of_outer, of_inner) = (alone(PINNED, 4), alone(inner, 4));

    let first = pin(PINNED);
    assert_eq!(draws(2), of_outer[..2]);
    assert_eq!(alone(inner, 4), of_inner);
    assert_eq!(draws(2), of_outer[2..]);
    let second = pin(inner);
    assert_eq!(draws(2), of_inner[..2]);
    drop(first);
    assert_eq!(draws(2), of_inner[2..]);
    drop(second);
    assert_ne!(now(&connection), "2001-01-01 00:00:00.123");
}

/// The application reads a query row by row, and runs others in between. Its replay reads all rows at
/// once, and sees the same. SQLite asks the clock at each step anew, so each needs the pin.
#[test]
fn a_cursor_that_is_read_slowly_repeats_at_once() {
    let connection = repeatable();
    let sql =
        "with n(i) as (values(1), (2), (3)) select i, random(), julianday('now', i || ' days')
               from n";
    let at_once = {
        let _guard = pin(PINNED);
        rows(&connection, sql).expect("a query")
    };
    let mut cursor = connection.prepare_one(sql).expect("a statement");
    let mut slowly = Vec::new();
    let mut paused = pin(PINNED).pause();
    loop {
        let guard = paused.resume();
        let step = cursor.step().expect("a step");
        paused = guard.pause();
        if step == Step::Done {
            break;
        }
        slowly.push(row(&mut cursor));
        random(&connection);
    }
    assert_eq!(slowly, at_once);
}

/// Primary keys are drawn from the dice: a thousand draws are a thousand keys, evenly spread.
#[test]
fn a_thousand_draws_are_well_spread() {
    let sql = HUNDRED.replace("100", "1000") + " select random() from n";
    let draw = |pinned| -> Vec<i64> {
        let _guard = pin(pinned);
        let rows = rows(&repeatable(), &sql).expect("a query");
        rows.into_iter()
            .map(|row| match row[..] {
                [Value::Integer(number)] => number,
                _ => panic!("random() gave {row:?}"),
            })
            .collect()
    };
    let draws = draw(PINNED);
    assert_eq!(draw(PINNED), draws);
    // As many again by neighbours: the next statements, the next seed, the next millisecond.
    let neighbours = [
        draw(PINNED.for_statement(1)),
        draw(PINNED.for_statement(2)),
        draw(Pinned { seed: PINNED.seed + 1, ..PINNED }),
        draw(Pinned { time_ms: PINNED.time_ms + 1, ..PINNED }),
    ];
    let mut all: Vec<i64> = neighbours.into_iter().flatten().chain(draws.clone()).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 5_000);
    for bit in 0..63 {
        let set = draws.iter().filter(|draw| draw.unsigned_abs() >> bit & 1 == 1).count();
        assert!((400..=600).contains(&set), "bit {bit} is set in {set} of 1000");
    }
    let negative = draws.iter().filter(|draw| **draw < 0).count();
    assert!((400..=600).contains(&negative), "{negative} of 1000 are negative");
}

/// Two releases of Manyhands share a file, and one replays the other's log: what a pin gives must not
/// change with a dependency. The numbers are those of another implementation of ChaCha20.
#[test]
fn what_a_pin_gives_is_for_ever() {
    let connection = repeatable();
    let text = |sql| connection.query_text(sql).expect("a text");
    let _guard = pin(PINNED);
    assert_eq!(random(&connection), -7_641_999_098_568_813_577);
    assert_eq!(text("select hex(randomblob(9))"), "A340032BF25542D28E");
    assert_eq!(random(&connection), -7_423_327_838_072_205_837);
    assert_eq!(text("select hex(substr(randomblob(400), -4))"), "6C0F0633");
    let _guard = pin(PINNED.for_statement(3));
    assert_eq!(random(&connection), 5_332_073_396_159_727_679);
}

/// A table that has used the largest rowid gets its next ones by chance, from a generator of SQLite's
/// that nobody can pin. Whoever replays such an insert must compare the rowids.
#[test]
fn rowids_beyond_the_largest_do_not_repeat() {
    let insert = || {
        let connection = repeatable();
        connection
            .execute("create table t(a); insert into t(rowid) values (9223372036854775807)")
            .expect("the last row that fits");
        let _guard = pin(PINNED);
        connection.execute("insert into t values (1)").expect("a row in between");
        connection.last_insert_rowid()
    };
    assert_ne!(insert(), insert());
}

/// Replacing functions under a running statement is refused, as SQLite refuses it.
#[test]
fn a_connection_is_made_repeatable_before_its_statements_run() {
    let connection = memory();
    let mut running = connection.prepare_one("values (1), (2)").expect("a statement");
    assert_eq!(running.step().expect("a step"), Step::Row);
    assert!(connection.make_repeatable().is_err_and(|error| error.code.is_busy()));
    running.reset();
    connection.make_repeatable().expect("the functions are replaced");
}

/// An application must not notice that its functions are replaced.
#[test]
fn the_functions_are_as_sqlites_own() {
    fn check(sql: &str, expected: Result<i64, &str>) {
        for connection in [memory(), repeatable()] {
            let answer = connection.query_integer(sql).map_err(|error| error.message);
            assert_eq!(
                answer.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|it| *it)
            );
        }
    }
    check("select length(randomblob(16))", Ok(16));
    check("select length(randomblob(1))", Ok(1));
    check("select length(randomblob(0))", Ok(1));
    check("select length(randomblob(-5))", Ok(1));
    check("select length(randomblob(null))", Ok(1));
    check("select length(randomblob('17 bytes'))", Ok(17));
    check("select length(randomblob(2.9))", Ok(2));
    check("select typeof(randomblob(2)) = 'blob' and typeof(random()) = 'integer'", Ok(1));
    check("select length(randomblob(1000000001))", Err("string or blob too big"));
    check("select length(randomblob(9223372036854775807))", Err("string or blob too big"));
    check("select random(1)", Err("wrong number of arguments to function random()"));
    check("select randomblob()", Err("wrong number of arguments to function randomblob()"));
    check("select randomblob(1, 2)", Err("wrong number of arguments to function randomblob()"));
    check("select count(distinct random()) from (values(1), (2), (3))", Ok(3));
    // SQLITE_INNOCUOUS and not SQLITE_DETERMINISTIC.
    let flags = "select cast(group_concat(distinct flags & 0x200800) as int) = 0x200000
                 from pragma_function_list where name in ('random', 'randomblob')";
    check(flags, Ok(1));
    for connection in [memory(), repeatable()] {
        let error = "non-deterministic functions prohibited in index expressions";
        let index = connection.execute("create table t(a); create index i on t(random())");
        assert_eq!(index.expect_err("no such index").message, error);
    }
}
