//! Transactions side by side, told as text: one line, one statement.
//!
//! ```text
//! A BEGIN
//! A SELECT * FROM test                        -> 1|10, 2|20
//! B UPDATE test SET value = 11 WHERE id = 1
//! A DELETE FROM test WHERE value > 5 #        -> 2 changed
//! A COMMIT                                    -> conflict at 1
//! table                                       -> 1|11, 2|20
//! ```
//!
//! A, B, C and D are connections of one process, S is Debian's sqlite3 shell. What comes back stands behind
//! `->`; nothing there means success without a row. With `#` the number of changed rows is asked for.
//! Several statements with `;` between them are a batch. A statement that ends in `...` is not waited
//! for: its answer comes in a later line without a statement. `table` is what the shell finds at last.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use manyhands::{Connection, Database, Error, Outcome, Row, Value};

use crate::stage::{PATIENCE, Stage, connect, shell};

/// The table of the Hermitage tests.
pub const TEST: &str = "
    CREATE TABLE test (id INTEGER PRIMARY KEY, value INTEGER);
    INSERT INTO test VALUES (1, 10), (2, 20);";

/// The stage's database. Nobody here waits long for anybody: what does wait is a mistake that shows soon.
pub fn open(stage: &Stage, foreign_keys: bool) -> Database {
    let builder = Database::builder(stage.path()).timeout(Duration::from_secs(5));
    builder.foreign_keys(foreign_keys).open().expect("the database opens")
}

/// Plays `story` on a new database with [`TEST`].
pub fn play(story: &str) {
    play_on(TEST, story);
}

/// Plays `story` on a new database with `setup`, and compares every answer. Foreign keys are enforced.
pub fn play_on(setup: &str, story: &str) {
    let stage = Stage::without_disk();
    let database = open(&stage, setup.contains("REFERENCES"));
    connect(&database).execute_script(setup).expect("the setup");
    let mut parties = BTreeMap::new();
    let mut report = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (said, expected) = line.split_once("->").unwrap_or((line, ""));
        let (said, expected) = (said.trim(), expected.trim());
        let (who, sql) = said.split_once(' ').unwrap_or((said, ""));
        let answer = if who == "table" {
            let rows = shell(&stage.path(), "SELECT * FROM test ORDER BY 1");
            rows.lines().collect::<Vec<_>>().join(", ")
        } else {
            let party: &mut Party = parties
                .entry(who.to_string())
                .or_insert_with(|| Party::enter(who, &database, &stage));
            match sql.strip_suffix("...") {
                Some(sql) => {
                    party.ask(sql.trim());
                    String::new()
                }
                None if sql.is_empty() => party.answer(),
                None => {
                    party.ask(sql);
                    party.answer()
                }
            }
        };
        let _ = writeln!(report, "    {said} -> {answer}");
        assert_eq!(answer, expected, "what came back for {line:?}; so far:\n{report}");
    }
    parties.into_values().for_each(Party::leave);
    assert_eq!(shell(&stage.path(), "PRAGMA integrity_check"), "ok");
}

/// Someone with a connection, who takes one statement at a time.
enum Party {
    Ours { ask: Sender<String>, answers: Receiver<String>, thread: JoinHandle<()> },
    Stock(StockShell),
}

impl Party {
    fn enter(who: &str, database: &Database, stage: &Stage) -> Party {
        match who {
            "S" => Party::Stock(StockShell::start(&stage.path())),
            "A" | "B" | "C" | "D" => {
                let (ask, asked) = channel::<String>();
                let (answer, answers) = channel();
                let mut connection = connect(database);
                let thread = std::thread::spawn(move || {
                    for sql in asked {
                        if answer.send(respond(&mut connection, &sql)).is_err() {
                            break;
                        }
                    }
                });
                Party::Ours { ask, answers, thread }
            }
            other => panic!("no such party: {other}"),
        }
    }

    /// Its connection is closed when this returns: the last one locks the whole file for a moment, as SQLite does.
    fn leave(self) {
        if let Party::Ours { ask, answers, thread } = self {
            drop((ask, answers));
            thread.join().expect("no panic");
        }
    }

    fn ask(&mut self, sql: &str) {
        match self {
            Party::Ours { ask, .. } => ask.send(sql.to_string()).expect("its thread runs"),
            Party::Stock(shell) => shell.ask(sql),
        }
    }

    fn answer(&mut self) -> String {
        match self {
            Party::Ours { answers, .. } => answers.recv_timeout(PATIENCE).expect("it answers"),
            Party::Stock(shell) => shell.answer(),
        }
    }
}

/// What a connection of ours answers.
fn respond(connection: &mut Connection, sql: &str) -> String {
    let rows = |outcome: &Outcome| show(&outcome.rows);
    if sql.contains(';') {
        let batch: Vec<(&str, &[Value])> =
            sql.split(';').map(|sql| (sql.trim(), &[] as &[Value])).collect();
        return match connection.batch(&batch) {
            Ok(outcomes) => {
                let rows: Vec<_> = outcomes.iter().map(rows).filter(|it| !it.is_empty()).collect();
                rows.join("; ")
            }
            Err(error) => failed(&error),
        };
    }
    let (sql, asks) = match sql.strip_suffix('#') {
        Some(sql) => (sql.trim(), true),
        None => (sql, false),
    };
    match connection.execute(sql, &[]) {
        // Not asked for is not seen.
        Ok(outcome) if asks => format!("{} changed", outcome.changes()),
        Ok(outcome) => rows(&outcome),
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> String {
    match (error.conflict(), error.code()) {
        (Some(conflict), _) => format!("conflict at {}", conflict.number),
        (None, Some(code)) => format!("error {}", code.primary()),
        (None, None) => error.to_string(),
    }
}

/// Rows, as the shell writes them.
pub fn show(rows: &[Row]) -> String {
    let show = |value: &Value| match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => text.to_string_lossy().into_owned(),
        Value::Blob(bytes) => bytes.escape_ascii().to_string(),
    };
    let row = |row: &Row| row.values().iter().map(show).collect::<Vec<_>>().join("|");
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// A sqlite3 shell that stays, and keeps its transaction from one statement to the next.
pub struct StockShell {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// What the shell prints behind each answer.
const DONE: &str = "that was all";

impl StockShell {
    pub fn start(path: &Path) -> StockShell {
        // Its errors among its answers, where they came.
        let mut process = Command::new("sh")
            .args(["-c", "exec sqlite3 -batch -noheader -list \"$0\" 2>&1"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the sqlite3 shell starts");
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut shell = StockShell { process, input, lines };
        shell.ask(".timeout 5000");
        assert_eq!(shell.answer(), "");
        shell
    }

    pub fn ask(&mut self, sql: &str) {
        let end = if sql.starts_with('.') { "" } else { ";" };
        writeln!(self.input, "{sql}{end}\n.print {DONE}").expect("the shell listens");
    }

    pub fn answer(&self) -> String {
        let mut rows = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the shell answers");
            if line == DONE {
                return rows.join(", ");
            }
            let code = line.rsplit_once('(').and_then(|(_, end)| end.strip_suffix(')'));
            match code {
                Some(code) if line.contains("error near line") => {
                    rows.push(format!("error {code}"))
                }
                _ => rows.push(line),
            }
        }
    }
}

impl Drop for StockShell {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A line that the table does not confirm, and an answer that does not come, must be noticed.
#[test]
fn a_wrong_story_is_refused() {
    for wrong in [
        "A SELECT value FROM test WHERE id = 1 -> 11",
        "A INSERT INTO test VALUES (1, 1)",
        "S INSERT INTO test VALUES (1, 1)",
        "A UPDATE test SET value = 1 # -> 1 changed",
        "S SELECT count(*) FROM test -> 3",
        "table -> 1|10",
    ] {
        let told = std::panic::catch_unwind(|| play(wrong));
        assert!(told.is_err(), "{wrong}");
    }
    play(
        "
        A SELECT value FROM test WHERE id = 1         -> 10
        A INSERT INTO test VALUES (1, 1)              -> error 19
        S INSERT INTO test VALUES (1, 1)              -> error 19
        S BEGIN IMMEDIATE
        A UPDATE test SET value = value + 1; SELECT count(*) FROM test ...
        S UPDATE test SET value = 5 WHERE id = 2
        S COMMIT
        A                                             -> 2
        A UPDATE test SET value = value + 1 #         -> 2 changed
        table                                         -> 1|12, 2|7",
    );
}
