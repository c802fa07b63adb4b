//! Random programs of several connections in one thread, step by step beside stock SQLite: each of them gets the rows, codes,
//! counts and rowids that SQLite gives, and leaves the same database, in transactions of mode Auto.
//!
//! Where two want to write, Manyhands may let one go on that SQLite refuses, never the other way round. Then SQLite does
//! the same as if it had begun at that moment (`stock.rs`), and both go on side by side.
//!
//! `RANDOM_PROGRAMS=10000` plays so many of each kind, `RANDOM_SEED=77` begins with that one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manyhands::driver::ConnectionExt;
use manyhands::{Code, Connection, Cursor, Database, TransactionMode, params};

use crate::stage::{Stage, in_time};
use statements::{Dice, Kind, OF_CURSOR, SCHEMA, SCHEMA_OTHER, statement};
use stock::{Stock, outcome, row, says_busy};

mod statements;
mod stock;

/// How the connections of a program work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// With a timeout of 0: SQLite's own transactions.
    Impatient,
    /// In transactions of mode Auto.
    Auto,
    /// The same, and what cannot fail is deferred: counts and ids are asked for now and then. Two never write at once:
    /// Manyhands would execute theirs in another order.
    Deferring,
}

/// How many programs of each kind are played, unless `RANDOM_PROGRAMS` says otherwise.
const PROGRAMS: u64 = 150;

/// How many steps a program has.
const STEPS: usize = 60;

/// What a connection waits for in vain: who it waits for is in the same thread.
const TIMEOUT: Duration = Duration::from_millis(1);

/// A connection of both.
struct Pair {
    stock: Stock,
    here: Connection,
    cursor: Option<Cursor>,
    attaches: bool,
    /// Only this connection can execute its statements again: it leaves its snapshot for that.
    is_of_its_own: bool,
    /// It was told that it comes too late.
    is_late: bool,
}

struct Program {
    way: Way,
    pairs: Vec<Pair>,
    trace: String,
    directory: [PathBuf; 2],
}

/// What differs.
type Checked = Result<(), String>;

fn play(way: Way, seed: u64) -> Checked {
    let mut dice = Dice(seed.wrapping_mul(3).wrapping_add(way as u64));
    let (of_stock, of_here) = (Stage::without_disk(), Stage::without_disk());
    for (path, schema) in [of_stock.path(), of_here.path()].iter().map(|it| (it, SCHEMA)).chain(
        [of_stock.beside("-other"), of_here.beside("-other")].iter().map(|it| (it, SCHEMA_OTHER)),
    ) {
        let made = Stock::open(path).sqlite;
        made.execute("PRAGMA journal_mode = WAL").expect("WAL mode");
        made.execute(schema).expect("the schema");
    }
    let timeout = if way == Way::Impatient { Duration::ZERO } else { TIMEOUT };
    let builder = Database::builder(of_here.path()).timeout(timeout);
    let database = builder.transaction_mode(TransactionMode::Auto).open().expect("opens");
    let pairs = (0..2 + dice.below(3)).map(|index| {
        let mut here = database.connect().expect("a connection");
        here.defer_writes(way == Way::Deferring);
        let stock = Stock::open(&of_stock.path());
        Pair {
            stock,
            here,
            cursor: None,
            attaches: index == 0,
            is_of_its_own: false,
            is_late: false,
        }
    });
    let mut program = Program {
        way,
        pairs: pairs.collect(),
        trace: String::new(),
        directory: [of_stock.beside("-other"), of_here.beside("-other")],
    };
    let played = program.play(&mut dice);
    let trace = core::mem::take(&mut program.trace);
    drop(program);
    drop(database);
    let (expected, found) = (dump(of_stock.directory()), dump(of_here.directory()));
    let same = if expected == found { Ok(()) } else { Err(format!("{expected}\n{found}")) };
    played.and(same).map_err(|what| {
        format!("{trace}\n{what}\nRANDOM_SEED={seed} RANDOM_PROGRAMS=1 plays this one ({way:?})")
    })
}

/// All that the databases of a directory hold.
fn dump(directory: &Path) -> String {
    let mut text = String::new();
    for name in ["app.db", "app.db-other"] {
        let mut stock = Stock::open(&directory.join(name));
        let tables = "SELECT group_concat(name, '/') FROM (SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name)";
        let tables = stock.sqlite.query_text(tables).expect("a list");
        let all = tables.split('/').map(|table| format!("SELECT * FROM {table}"));
        let more = [
            "SELECT type, name, sql FROM sqlite_schema ORDER BY name",
            "PRAGMA user_version",
            "PRAGMA integrity_check",
        ];
        for sql in all.chain(more.map(str::to_owned)) {
            let _ = writeln!(text, "{name}: {sql}: {}", stock.execute(&sql));
        }
    }
    text
}

impl Program {
    fn play(&mut self, dice: &mut Dice) -> Checked {
        for _ in 0..STEPS {
            let who = dice.below(self.pairs.len());
            self.step(dice, who)?;
        }
        for who in 0..self.pairs.len() {
            self.fetch(who, usize::MAX)?;
            self.close_cursor(who);
            if !self.pairs[who].stock.sqlite.is_autocommit() {
                let end = if dice.happens(70) { "COMMIT" } else { "ROLLBACK" };
                self.execute(dice, who, Kind::Moves, end)?;
            }
            if !self.pairs[who].stock.sqlite.is_autocommit() {
                self.execute(dice, who, Kind::Moves, "ROLLBACK")?;
            }
        }
        Ok(())
    }

    fn step(&mut self, dice: &mut Dice, who: usize) -> Checked {
        let pair = &self.pairs[who];
        match dice.below(12) {
            0 if !pair.stock.has_cursor() => self.open_cursor(who),
            1 | 2 if pair.stock.has_cursor() => self.fetch(who, 1 + dice.below(3)),
            3 if pair.stock.has_cursor() => {
                self.close_cursor(who);
                Ok(())
            }
            _ => {
                let inside = !pair.stock.sqlite.is_autocommit();
                let (kind, sql) = statement(dice, inside, pair.attaches);
                if self.comes_at_a_bad_time(who, kind, &sql) {
                    return Ok(());
                }
                self.execute(dice, who, kind, &sql)
            }
        }
    }

    /// Beside a transaction that writes and defers, only reads are the same in whatever order. A transaction that reads is
    /// no obstacle.
    fn comes_at_a_bad_time(&self, who: usize, kind: Kind, sql: &str) -> bool {
        let others_write = self
            .pairs
            .iter()
            .enumerate()
            .any(|(index, it)| index != who && it.stock.sqlite.writes());
        let pair = &self.pairs[who];
        let reads = !pair.stock.sqlite.is_autocommit() && !pair.here.holds_turn();
        if kind == Kind::Attaches
            && (sql.starts_with("INSERT") && (others_write || reads)
                || sql.starts_with("DETACH") && pair.here.holds_turn())
        {
            // A transaction takes the turns and locks of all databases, where SQLite takes one lock.
            return true;
        }
        if sql == "PRAGMA defer_foreign_keys = ON" && pair.stock.sqlite.is_autocommit() {
            // The next read turns it off, and Manyhands reads the schema by itself.
            return true;
        }
        if kind == Kind::Schema && others_write {
            // It fails or waits, by the schema that the connection has read last.
            return true;
        }
        let reads = matches!(kind, Kind::Reads | Kind::Moves) || sql == "BEGIN";
        if kind == Kind::Schema
            && sql.contains("EXISTS")
            && !self.pairs[who].stock.sqlite.is_autocommit()
        {
            // It takes SQLite's lock or none, by the schema that the connection has read last.
            return true;
        }
        self.way == Way::Deferring && others_write && !reads
    }

    fn open_cursor(&mut self, who: usize) -> Checked {
        let pair = &mut self.pairs[who];
        let opened = pair.here.cursor(OF_CURSOR, params![]);
        self.follow_turn(who, Kind::Reads)?;
        let pair = &mut self.pairs[who];
        let expected = pair.stock.open_cursor();
        let found = match opened {
            Ok(cursor) => {
                pair.cursor = Some(cursor);
                "ok".to_owned()
            }
            Err(error) => text_of(&error),
        };
        if self.may_only_end(who, Kind::Reads, OF_CURSOR, &expected, &found) {
            return Ok(());
        }
        self.compare(who, OF_CURSOR, &expected, &found)?;
        self.compare_turns(who)?;
        // Its snapshot begins with the first row.
        self.fetch(who, 1)
    }

    fn fetch(&mut self, who: usize, rows_max: usize) -> Checked {
        let pair = &mut self.pairs[who];
        let Some(cursor) = &mut pair.cursor else { return Ok(()) };
        let expected = pair.stock.fetch(rows_max);
        let mut rows = Vec::new();
        while rows.len() < rows_max {
            match cursor.next_row() {
                Ok(Some(next)) => rows.push(row(next.values())),
                Ok(None) => break,
                Err(error) => {
                    rows.push(text_of(&error));
                    break;
                }
            }
        }
        let found = outcome(Ok(rows));
        self.compare(who, "next rows", &expected, &found)?;
        if found.contains("SQLITE_") {
            self.close_cursor(who);
        }
        Ok(())
    }

    fn close_cursor(&mut self, who: usize) {
        let pair = &mut self.pairs[who];
        pair.stock.close_cursor();
        pair.cursor = None;
    }

    fn execute(&mut self, dice: &mut Dice, who: usize, kind: Kind, sql: &str) -> Checked {
        let inside = !self.pairs[who].stock.sqlite.is_autocommit();
        let changes_what_is_shown = kind == Kind::Schema
            || sql.starts_with("DROP")
            || sql.contains("calm") && kind == Kind::Writes;
        if kind != Kind::Reads && (!inside || changes_what_is_shown) {
            // What a cursor shows then SQLite leaves open; and outside a transaction SQLite stays on the snapshot of the
            // cursor, where Manyhands reads that to its end.
            self.close_cursor(who);
        }
        let [of_stock, of_here] = &self.directory;
        let place = |path: &Path| sql.replace("{OTHER}", path.to_str().expect("plain letters"));
        let (sql_of_stock, sql_of_here) = (place(of_stock), place(of_here));
        let way = self.way;
        let pair = &mut self.pairs[who];
        let held = pair.here.holds_turn();
        if way != Way::Impatient && !held && inside && matches!(sql, "COMMIT" | "ROLLBACK") {
            // A transaction that holds no turn reads its cursors to their end before it ends.
            pair.stock.read_ahead();
        }
        let done = pair.here.execute(&sql_of_here, params![]);
        // What it reads in its turn may be newer than the snapshot that it had.
        self.follow_turn(who, kind)?;
        let pair = &mut self.pairs[who];
        let expected = pair.stock.execute(&sql_of_stock);
        if way != Way::Impatient && !held && inside && pair.stock.sqlite.is_autocommit() {
            pair.stock.read_ahead();
        }
        let found = match &done {
            Ok(done) => outcome(Ok(done.rows.iter().map(|it| row(it.values())).collect())),
            Err(error) => text_of(error),
        };
        let (expected, found) = if sql.contains("wal_checkpoint") {
            // How many frames there are is an affair of the file.
            (
                expected.split(' ').next().unwrap_or_default().to_owned(),
                found.split(' ').next().unwrap_or_default().to_owned(),
            )
        } else {
            (expected, found)
        };
        let mut expected = expected;
        let goes_on = says_busy(&expected) && !says_busy(&found);
        if goes_on {
            let _ = writeln!(self.trace, "{who}: {sql}: {expected}, and not so here");
            expected = pair.stock.execute_now(&sql_of_stock)?;
        }
        if expected == outcome(Err((Code::BUSY, "")))
            && found == outcome(Err((Code::BUSY_SNAPSHOT, "")))
        {
            // Both hold: another one has the lock, and has committed before. That it is too late is more to know.
            expected.clone_from(&found);
        }
        if self.may_only_end(who, kind, sql, &expected, &found) {
            return Ok(());
        }
        self.compare(who, sql, &expected, &found)?;
        let pair = &mut self.pairs[who];
        if way == Way::Deferring {
            if let Ok(done) = &done
                && dice.happens(20)
                && kind == Kind::Writes
            {
                let changes = pair.here.changes_of(done).expect("the turn is free").cast_signed();
                let rowid = pair.here.last_insert_rowid_of(done).expect("the turn is free");
                let (expected_changes, _, expected_rowid, _) = pair.stock.session();
                if (changes, rowid) != (expected_changes, expected_rowid) {
                    return Err(format!(
                        "SQLite counts {expected_changes}, rowid {expected_rowid}; here {changes}, {rowid}"
                    ));
                }
            }
            if dice.happens(80) && !pair.here.is_autocommit() {
                return self.compare_turns(who);
            }
            pair.here.execute_deferred_in_turn().expect("the turn is free");
        }
        let session = (
            pair.here.changes(),
            pair.here.total_changes(),
            pair.here.last_insert_rowid(),
            pair.here.is_autocommit(),
        );
        let (expected, found) = (format!("{:?}", pair.stock.session()), format!("{session:?}"));
        self.compare(who, "changes, in all, rowid, autocommit", &expected, &found)?;
        if goes_on {
            self.follow_turn(who, Kind::Reads)?;
        }
        self.compare_turns(who)
    }

    /// A transaction that only its own connection could execute again, and that was told that it comes too late, can be ended, and
    /// nothing else.
    fn may_only_end(
        &mut self,
        who: usize,
        kind: Kind,
        sql: &str,
        expected: &str,
        found: &str,
    ) -> bool {
        let pair = &mut self.pairs[who];
        let late = outcome(Err((Code::BUSY_SNAPSHOT, "")));
        let ends = pair.is_of_its_own && pair.is_late && found == late && expected != late;
        pair.is_late = !ends && (pair.is_late || found == late) && !pair.here.is_autocommit();
        pair.is_of_its_own |= matches!(kind, Kind::Holds | Kind::Temporary | Kind::Attaches)
            || sql.starts_with("PRAGMA")
            || found.contains("SQLITE_ERROR");
        if ends {
            self.close_cursor(who);
            let pair = &mut self.pairs[who];
            pair.stock.execute("ROLLBACK");
            pair.here.execute("ROLLBACK", params![]).expect("rolls back");
        }
        ends
    }

    /// Who holds the turn before it has written anything has read what those like it have written then: SQLite's connection
    /// takes its lock.
    fn follow_turn(&mut self, who: usize, kind: Kind) -> Checked {
        let pair = &mut self.pairs[who];
        let writes = pair.stock.sqlite.writes() || pair.stock.sqlite.is_autocommit();
        let may_be_predicted = matches!(kind, Kind::Reads | Kind::Temporary | Kind::Attaches);
        if self.way != Way::Impatient && pair.here.holds_turn() && !writes && may_be_predicted {
            self.trace.push_str("  the turn was taken early\n");
            pair.stock.lock_now()?;
        }
        Ok(())
    }

    /// Who holds the turn has written, and the other way round.
    fn compare_turns(&mut self, who: usize) -> Checked {
        let pair = &mut self.pairs[who];
        let holds = pair.here.holds_turn();
        if self.way == Way::Impatient {
            return Ok(());
        }
        if holds && !pair.stock.sqlite.writes() {
            return Err("it holds the turn, and SQLite no lock".to_owned());
        }
        if pair.stock.writes_main() && !holds && self.way == Way::Auto {
            return Err("SQLite holds the lock, and it does not hold the turn".to_owned());
        }
        Ok(())
    }

    fn compare(&mut self, who: usize, what: &str, expected: &str, found: &str) -> Checked {
        let _ = writeln!(self.trace, "{who}: {what}: {expected}");
        if expected == found {
            return Ok(());
        }
        Err(format!("  SQLite: {expected}\n  here:   {found}"))
    }
}

fn text_of(error: &manyhands::Error) -> String {
    match error.nearest_code() {
        Some(code) => outcome(Err((code, error.sqlite_message().unwrap_or_default()))),
        None => format!("refused: {error}"),
    }
}

/// The last lines of a trace.
fn tail_of(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    lines[lines.len().saturating_sub(6)..].join("\n")
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn play_all(way: Way) {
    in_time(move || {
        let first = number_from("RANDOM_SEED").unwrap_or(1);
        let count = number_from("RANDOM_PROGRAMS").unwrap_or(PROGRAMS);
        let found: Vec<String> =
            (first..first + count).filter_map(|seed| play(way, seed).err()).collect();
        let ends = found.iter().map(|it| tail_of(it)).collect::<Vec<_>>().join("\n\n");
        let example = found.first().map_or("", String::as_str);
        assert!(
            found.is_empty(),
            "{} of {count} differ:\n{ends}\n\nThe first one:\n{example}",
            found.len()
        );
    });
}

#[test]
fn without_a_timeout_random_programs_are_like_sqlite() {
    play_all(Way::Impatient);
}

#[test]
fn in_mode_auto_random_programs_are_like_sqlite() {
    play_all(Way::Auto);
}

#[test]
fn with_deferred_writes_random_programs_are_like_sqlite() {
    play_all(Way::Deferring);
}
