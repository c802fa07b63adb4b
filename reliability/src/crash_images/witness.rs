//! What SQLite finds in an image.
//!
//! SQLite itself, without the engine: it recovers the WAL as any program would. The image lies in
//! memory, always in the same files, and the wal-index stays in this process: a thousand images a
//! second.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use manyhands_sqlite::{Connection, OpenMode, Setting, Statement, Step, Value, ValueRef};

use super::recording::Files;
use crate::entry::Operation;
use crate::verdict::{Contents, OWN_TABLES, Row};

/// The rows. What [`Contents`] has of a payload is found out here: SQLite's functions go through a text letter
/// by letter.
const ENTRIES: &str =
    "SELECT writer, sequence, part, high, low, value, payload FROM entry NOT INDEXED";

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
            // The pages that the file has in memory are written over: to give them back and get others is what
            // takes most of the time.
            let options = options.create(true).write(true).truncate(false);
            let mut file = options.open(self.directory.join(name))?;
            file.write_all(bytes)?;
            file.set_len(bytes.len() as u64)?;
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
        // Nobody looks at what a checkpoint would leave.
        connection.set(Setting::NoCheckpointOnClose, true);
        connection.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=OFF")?;
        let integrity = connection.query_text("PRAGMA integrity_check")?;
        let mut contents = Contents { integrity, ..Contents::default() };
        let mut entries = connection.prepare_one(ENTRIES)?;
        while entries.step()? == Step::Row {
            let (operation, row) =
                entry(&mut entries).with_context(|| format!("a row: {:?}", entries.row()))?;
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
fn entry(row: &mut Statement) -> Option<(Operation, Row)> {
    let number = |column| match row.column(column) {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    };
    let operation = Operation { writer: number(0)?, sequence: number(1)? };
    let (part, id, value) = (number(2)?, (number(3)?, number(4)?), number(5));
    let payload = match row.column(6) {
        ValueRef::Null => None,
        ValueRef::Text(bytes) => Some((bytes.len(), letter(bytes))),
        other => Some((0, format!("{other:?}"))),
    };
    Some((operation, Row { part, id, value, payload }))
}

/// The letter that a text consists of.
fn letter(text: &[u8]) -> String {
    match text.first() {
        Some(first) if text.iter().any(|byte| byte != first) => "mixed".to_owned(),
        first => first.copied().map(char::from).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Result;

    use super::Witness;
    use crate::{shell, verdict};

    /// Whoever reads the images is no other than the shell, which reads a sample of them: of payloads, too, whose
    /// length and letter they find out in ways of their own. A text with one wrong letter is told.
    #[test]
    fn the_shell_finds_the_same() -> Result<()> {
        let place = tempfile::tempdir()?;
        let witness = Witness::new(place.path())?;
        shell::create(&witness.database())?;
        let payloads =
            ["NULL", "''", "'a'", "'aaaa'", "'aaba'", "'baaa'", "printf('%.9000c', 'z')"];
        for (sequence, payload) in payloads.iter().enumerate() {
            let values = format!("(100, {sequence}, 0, 7, -8, NULL, {payload})");
            shell::run(&witness.database(), &[&format!("INSERT INTO entry VALUES {values}")])?;
        }
        shell::run(&witness.database(), &["CREATE TABLE own_100 (sequence_4)"])?;
        let found = witness.look();
        assert_eq!(found, verdict::read(&witness.database())?);
        let found = found.rows.into_values().flatten().map(|row| row.payload);
        let is_mixed = |payload: &Option<(usize, String)>| {
            payload.as_ref().is_some_and(|(_, letter)| letter == "mixed")
        };
        assert_eq!(found.filter(is_mixed).count(), 2);
        Ok(())
    }

    /// An image lies where another one lay: nothing of that is left, neither bytes nor files.
    #[test]
    fn an_image_leaves_nothing_of_the_one_before() -> Result<()> {
        let place = tempfile::tempdir()?;
        let witness = Witness::new(place.path())?;
        let long = ("app.db".to_owned(), vec![1; 10_000]);
        let other = ("app.db-wal".to_owned(), vec![2; 10_000]);
        witness.place(&[long, other].into())?;
        let short = [("app.db".to_owned(), vec![3; 5_000])].into();
        witness.place(&short)?;
        assert_eq!(crate::crash_images::recording::read_files(place.path())?, short);
        Ok(())
    }
}
