//! What SQLite finds in an image.
//!
//! SQLite itself, without the engine: it recovers the WAL as any program would. The image lies in
//! memory, always in the same files, and the wal-index stays in this process: hundreds of images a
//! second.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use manyhands_sqlite::{Connection, OpenMode, Step, Value};

use super::recording::Files;
use crate::entry::Operation;
use crate::verdict::{Contents, ENTRIES, OWN_TABLES, Row};

/// A place for one image after the other.
#[derive(Debug)]
pub struct Witness {
    directory: PathBuf,
}

impl Witness {
    /// Images lie in `directory`.
    pub fn new(directory: &Path) -> Result<Witness> {
        std::fs::create_dir_all(directory).context("make a directory for images")?;
        Ok(Witness { directory: directory.to_owned() })
    }

    /// The database of the last image.
    pub fn database(&self) -> PathBuf {
        self.directory.join("app.db")
    }

    /// Puts an image there, and nothing else.
    pub fn place(&self, image: &Files) -> Result<()> {
        for entry in std::fs::read_dir(&self.directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !image.contains_key(&name) {
                std::fs::remove_file(self.directory.join(name))?;
            }
        }
        for (name, bytes) in image {
            let options = &mut std::fs::OpenOptions::new();
            let mut file =
                options.create(true).write(true).truncate(true).open(self.directory.join(name))?;
            file.write_all(bytes)?;
        }
        Ok(())
    }

    /// What SQLite finds; its error is a finding too, and stands where `integrity_check` would.
    pub fn look(&self) -> Contents {
        self.read().unwrap_or_else(|error| {
            let integrity = format!("cannot be read: {error:#}");
            Contents { integrity, ..Contents::default() }
        })
    }

    fn read(&self) -> Result<Contents> {
        let uri = format!("file:{}?vfs=unix-none", self.database().display());
        let connection = Connection::open(Path::new(&uri), OpenMode::ReadWrite, true)?;
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF")?;
        let integrity = connection.query_text("PRAGMA integrity_check")?;
        let mut contents = Contents { integrity, ..Contents::default() };
        for row in query(&connection, ENTRIES)? {
            let (operation, row) = entry(&row).with_context(|| format!("a row: {row:?}"))?;
            contents.rows.entry(operation).or_default().push(row);
        }
        for row in query(&connection, "SELECT id, n FROM counter")? {
            let (id, n) = number(&row, 0).zip(number(&row, 1)).context("a row of counter")?;
            contents.counters.insert(id, n);
        }
        let own: BTreeSet<Option<String>> =
            query(&connection, OWN_TABLES)?.iter().map(|row| text(row, 0)).collect();
        contents.own_tables = own.into_iter().flatten().collect();
        Ok(contents)
    }
}

fn query(connection: &Connection, sql: &str) -> Result<Vec<Vec<Value>>> {
    let mut statement = connection.prepare_one(sql)?;
    let mut rows = Vec::new();
    while statement.step()? == Step::Row {
        rows.push(statement.row());
    }
    Ok(rows)
}

fn number(row: &[Value], column: usize) -> Option<i64> {
    if let Some(Value::Integer(number)) = row.get(column) { Some(*number) } else { None }
}

fn text(row: &[Value], column: usize) -> Option<String> {
    if let Some(Value::Text(text)) = row.get(column) {
        Some(text.to_string_lossy().into_owned())
    } else {
        None
    }
}

/// A row of [`ENTRIES`].
fn entry(row: &[Value]) -> Option<(Operation, Row)> {
    let operation = Operation { writer: number(row, 0)?, sequence: number(row, 1)? };
    let payload = number(row, 6).map(|length| {
        let whole = number(row, 8) == Some(1);
        let letter = if whole { text(row, 7).unwrap_or_default() } else { "mixed".to_owned() };
        (length as usize, letter)
    });
    let id = (number(row, 3)?, number(row, 4)?);
    Some((operation, Row { part: number(row, 2)?, id, value: number(row, 5), payload }))
}
