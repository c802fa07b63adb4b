//! What SQLite alone does, one connection of it.
//!
//! Where Manyhands lets a transaction go on that SQLite refuses with `SQLITE_BUSY_SNAPSHOT`, it says that all which
//! the transaction was shown is still so. Then this connection begins its transaction again and executes all of it once
//! more: that must show the same.

use std::collections::VecDeque;
use std::path::Path;

use manyhands_sqlite as sqlite;
use sqlite::{Code, OpenMode, Statement, Step, Transaction, Value};

use super::statements::OF_CURSOR;

pub struct Stock {
    pub sqlite: sqlite::Connection,
    cursor: Option<StockCursor>,
    /// What the open transaction has done, with what came of it.
    log: Vec<(Done, String)>,
    /// How much more it has counted in all, for what it has executed again.
    counted_again: i64,
}

#[derive(Clone)]
enum Done {
    Executed(String),
    /// So many rows of a cursor.
    Fetched(usize),
}

/// A cursor, with the rows that were fetched ahead.
struct StockCursor {
    statement: Option<Statement>,
    ahead: VecDeque<String>,
}

/// What came of a statement, as text.
pub fn outcome(rows: Result<Vec<String>, (Code, &str)>) -> String {
    match rows {
        Ok(rows) => format!("ok [{}]", rows.join("; ")),
        // The text of these is Manyhands' own.
        Err((code, _)) if is_busy(code) => format!("{} {}", code.0, code.name()),
        Err((code, message)) => format!("{} {}: {message}", code.0, code.name()),
    }
}

pub fn is_busy(code: Code) -> bool {
    code.primary() == Code::BUSY.0
}

/// Of an outcome as text.
pub fn says_busy(outcome: &str) -> bool {
    outcome.contains("SQLITE_BUSY")
}

pub fn row(values: &[Value]) -> String {
    format!("{values:?}")
}

impl Stock {
    pub fn open(path: &Path) -> Stock {
        let sqlite = sqlite::Connection::open(path, OpenMode::ReadWriteCreate, false);
        let sqlite = sqlite.expect("stock SQLite opens");
        // SQLite's own default, which the bundled build changes.
        sqlite.set(sqlite::Setting::ForeignKeys, false);
        Stock { sqlite, cursor: None, log: Vec::new(), counted_again: 0 }
    }

    /// Changes, all changes, the last rowid, whether no transaction is open.
    pub fn session(&self) -> (i64, i64, i64, bool) {
        let total = self.sqlite.total_changes() - self.counted_again;
        let sqlite = &self.sqlite;
        (sqlite.changes(), total, sqlite.last_insert_rowid(), sqlite.is_autocommit())
    }

    pub fn writes_main(&self) -> bool {
        self.sqlite.transaction() == Transaction::Write
    }

    fn run(&self, sql: &str) -> String {
        let run = || {
            let mut statement = self.sqlite.prepare_one(sql)?;
            let mut rows = Vec::new();
            while statement.step()? == Step::Row {
                rows.push(row(&statement.row()));
            }
            Ok(rows)
        };
        match run() {
            Ok(rows) => outcome(Ok(rows)),
            Err(sqlite::Error { code, message }) => outcome(Err((code, &message))),
        }
    }

    pub fn execute(&mut self, sql: &str) -> String {
        let outcome = self.run(sql);
        if !says_busy(&outcome) {
            self.note(Done::Executed(sql.to_owned()), &outcome);
        }
        outcome
    }

    fn note(&mut self, done: Done, outcome: &str) {
        if self.sqlite.is_autocommit() {
            self.log.clear();
        } else {
            self.log.push((done, outcome.to_owned()));
        }
    }

    /// Does what was refused in a transaction that begins now, as all that was shown before would be shown in it.
    ///
    /// # Errors
    /// What would not.
    pub fn execute_now(&mut self, sql: &str) -> Result<String, String> {
        self.read_ahead();
        if !self.sqlite.is_autocommit() {
            self.begin_again(None)?;
        }
        Ok(self.execute(sql))
    }

    /// Takes the lock, as Manyhands has taken the turn before it reads.
    pub fn lock_now(&mut self) -> Result<(), String> {
        self.read_ahead();
        self.begin_again(Some("BEGIN IMMEDIATE"))?;
        if !self.writes_main() {
            let version = self.sqlite.query_integer("PRAGMA user_version").expect("a number");
            let locked = self.run(&format!("PRAGMA user_version = {version}"));
            if says_busy(&locked) {
                return Err(format!("it has taken the turn beside a writer: {locked}"));
            }
        }
        Ok(())
    }

    fn begin_again(&mut self, begin: Option<&str>) -> Result<(), String> {
        let total = self.sqlite.total_changes();
        self.run("ROLLBACK");
        let (mut cursor, mut opened) = (None, false);
        for (index, (done, shown)) in self.log.iter().enumerate() {
            let now = match done {
                Done::Executed(sql) if sql == "BEGIN" && index == 0 => {
                    self.run(begin.unwrap_or(sql))
                }
                // What the last statement has changed, which may have been one that was refused.
                Done::Executed(sql) if sql.contains("changes()") => continue,
                Done::Executed(sql) if is_undone(sql) => self.run(sql),
                Done::Executed(_) => continue,
                Done::Fetched(0) => {
                    (cursor, opened) = (self.sqlite.prepare_one(OF_CURSOR).ok(), true);
                    continue;
                }
                // It was opened before the transaction began.
                Done::Fetched(_) if !opened => continue,
                Done::Fetched(rows_max) => {
                    let rows = cursor.as_mut().map(|it| fetch(it, *rows_max)).unwrap_or_default();
                    if rows.len() < *rows_max {
                        cursor = None;
                    }
                    outcome(Ok(rows))
                }
            };
            if now != *shown {
                let what = if let Done::Executed(sql) = done { sql } else { OF_CURSOR };
                return Err(format!(
                    "it goes on, but {what}\n  showed {shown}\n  and shows  {now}"
                ));
            }
        }
        self.counted_again += self.sqlite.total_changes() - total;
        Ok(())
    }

    pub fn open_cursor(&mut self) -> String {
        self.cursor = None;
        match self.sqlite.prepare_one(OF_CURSOR) {
            Ok(statement) => {
                let ahead = VecDeque::new();
                self.cursor = Some(StockCursor { statement: Some(statement), ahead });
                self.note(Done::Fetched(0), "ok");
                "ok".to_owned()
            }
            Err(error) => outcome(Err((error.code, &error.message))),
        }
    }

    pub fn fetch(&mut self, rows_max: usize) -> String {
        let Some(cursor) = &mut self.cursor else { return "no cursor".to_owned() };
        let mut rows: Vec<String> = Vec::new();
        while rows.len() < rows_max
            && let Some(row) = cursor.ahead.pop_front()
        {
            rows.push(row);
        }
        if let Some(statement) = &mut cursor.statement {
            let more = fetch(statement, rows_max - rows.len());
            if more.len() < rows_max - rows.len() {
                cursor.statement = None;
            }
            rows.extend(more);
        }
        let outcome = outcome(Ok(rows));
        self.note(Done::Fetched(rows_max), &outcome);
        outcome
    }

    pub fn close_cursor(&mut self) {
        self.cursor = None;
    }

    pub fn has_cursor(&self) -> bool {
        self.cursor.is_some()
    }

    /// Reads the cursor to its end, for later.
    pub fn read_ahead(&mut self) {
        if let Some(cursor) = &mut self.cursor
            && let Some(mut statement) = cursor.statement.take()
        {
            cursor.ahead.extend(fetch(&mut statement, usize::MAX));
        }
    }
}

/// True for what ROLLBACK undoes.
fn is_undone(sql: &str) -> bool {
    let stays = sql.starts_with("ATTACH") || sql.starts_with("DETACH") || sql.starts_with("PRAGMA");
    !stays || sql.starts_with("PRAGMA defer_foreign_keys") || sql.contains("user_version")
}

/// Up to so many rows. An error counts as the last of them.
fn fetch(statement: &mut Statement, rows_max: usize) -> Vec<String> {
    let mut rows = Vec::new();
    while rows.len() < rows_max {
        match statement.step() {
            Ok(Step::Row) => rows.push(row(&statement.row())),
            Ok(Step::Done) => break,
            Err(error) => {
                rows.push(outcome(Err((error.code, &error.message))));
                break;
            }
        }
    }
    rows
}
