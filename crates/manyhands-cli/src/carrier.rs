//! A carrier is a program or library with SQLite inside, whatever its name and whether or not it is stripped.
//!
//! SQLite's schema statement and its source id are texts that each build of it needs. A file that has both has SQLite; if
//! it has a sentence of Manyhands as well, its SQLite is ours.

use std::{
    collections::{HashMap, VecDeque},
    fs::{File, Metadata},
    io::{self, Read, Seek},
    os::unix::fs::MetadataExt,
    path::Path,
};

use memchr::memmem;

/// With this SQLite reads the schema of any database: the start, which is the same since version 3.0.
const SCHEMA: &str = "CREATE TABLE x(type text,name text,tbl_name text,rootpage int";
/// From an error that every build of Manyhands can give.
const OURS: &str = "SQLite's WAL mode and Manyhands need a local disk";
/// A piece of a file that is looked at in one go.
const PIECE_BYTES: u64 = 1 << 20;
/// As much of a piece as is looked at again with the next: no text that is looked for is longer.
const OVERLAP_BYTES: usize = 128;
/// Files are read to here: browsers, the largest programs with SQLite inside, have half of it.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Texts that tell which driver a program was built with.
const DRIVERS: [(&str, Driver); 6] = [
    ("github.com/mattn/go-sqlite3", Driver::GoMattn),
    ("modernc.org/sqlite", Driver::GoWithoutC),
    ("github.com/ncruces/go-sqlite3", Driver::GoWithoutC),
    ("rusqlite-", Driver::Rust),
    ("libsqlite3-sys", Driver::Rust),
    ("sqlx-sqlite", Driver::Rust),
];

/// Drivers that are compiled into a program under whose name nobody would look for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    GoMattn,
    /// Translated from C to Go or WebAssembly: no library can be put in its place.
    GoWithoutC,
    Rust,
}

/// What is inside a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    #[default]
    NoSqlite,
    Sqlite {
        /// Of SQLite's source id.
        date: String,
        driver: Option<Driver>,
    },
    /// Manyhands with its own SQLite: this library, the Python package, a program in Rust.
    Manyhands,
}

/// What files contain: each is read once as long as it does not change, a piece at a time.
#[derive(Default)]
pub struct Contents {
    known: HashMap<FileId, Content>,
    unread: VecDeque<Reading>,
}

/// A file and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Contents {
    /// Opens a file, whose name may be gone in a moment, to read it later.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(&mut self, path: &Path) -> io::Result<FileId> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let id = FileId::of(&metadata);
        let is_known =
            self.known.contains_key(&id) || self.unread.iter().any(|unread| unread.id == id);
        if !is_known && metadata.is_file() {
            self.unread.push_back(Reading::new(id, file));
        } else if !is_known {
            self.known.insert(id, Content::NoSqlite);
        }
        Ok(id)
    }

    /// `None` until the file has been read.
    pub fn get(&self, id: FileId) -> Option<&Content> {
        self.known.get(&id)
    }

    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Reads one piece of one file.
    pub fn read_on(&mut self) {
        let Some(reading) = self.unread.front_mut() else { return };
        // A file that cannot be read to its end shows what it has shown.
        if let Some(content) = reading.read_on().unwrap_or(Some(Content::NoSqlite)) {
            self.known.insert(reading.id, content);
            self.unread.pop_front();
        }
    }

    /// Reads a file to its end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self, path: &Path) -> io::Result<Content> {
        let id = self.open(path)?;
        while self.get(id).is_none() {
            self.read_on();
        }
        Ok(self.get(id).cloned().unwrap_or_default())
    }
}

/// A file that is being read in pieces that overlap: first for the schema statement alone, since most files have none.
struct Reading {
    id: FileId,
    file: File,
    has_schema: bool,
    is_ours: bool,
    date: Option<String>,
    driver: Option<Driver>,
    piece: Vec<u8>,
    read_bytes: u64,
}

impl Reading {
    fn new(id: FileId, file: File) -> Self {
        let (has_schema, is_ours, date, driver, piece, read_bytes) = Default::default();
        Self { id, file, has_schema, is_ours, date, driver, piece, read_bytes }
    }

    /// The content at the end of the file.
    fn read_on(&mut self) -> io::Result<Option<Content>> {
        let kept = self.piece.len().saturating_sub(OVERLAP_BYTES);
        self.piece.drain(..kept);
        let wanted = PIECE_BYTES.min(FILE_BYTES_MAX.saturating_sub(self.read_bytes));
        let read = self.file.by_ref().take(wanted).read_to_end(&mut self.piece)?;
        self.read_bytes += wanted;
        if self.has_schema {
            self.look_for_details();
        } else if find(&self.piece, SCHEMA).is_some() {
            self.has_schema = true;
            self.file.rewind()?;
            self.read_bytes = 0;
            self.piece.clear();
            return Ok(None);
        }
        Ok((read == 0).then(|| self.content()))
    }

    fn look_for_details(&mut self) {
        let piece = &self.piece;
        self.is_ours |= find(piece, OURS).is_some();
        self.date = self.date.take().or_else(|| source_date(piece));
        self.driver = self.driver.or_else(|| {
            let mut drivers = DRIVERS.iter().filter(|(text, _)| find(piece, text).is_some());
            drivers.next().map(|(_, driver)| *driver)
        });
    }

    fn content(&mut self) -> Content {
        match self.date.take() {
            _ if self.is_ours => Content::Manyhands,
            Some(date) if self.has_schema => Content::Sqlite { date, driver: self.driver },
            _ => Content::NoSqlite,
        }
    }
}

fn find(piece: &[u8], text: &str) -> Option<usize> {
    memmem::find(piece, text.as_bytes())
}

/// The date of a source id: `2022-12-28 14:03:47 df5c253c…`, with 64 digits of a hash, 40 in versions before 3.21. Vendors
/// that change SQLite overwrite the end of the hash.
fn source_date(piece: &[u8]) -> Option<String> {
    const SHAPE: &[u8] = b"dddd-dd-dd dd:dd:dd hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh";
    let is_shaped = |candidate: &[u8]| {
        candidate.iter().zip(SHAPE).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'h' => byte.is_ascii_hexdigit(),
            other => byte == other,
        })
    };
    let mut starts = memmem::find_iter(piece, "20");
    let start =
        starts.find(|start| piece.get(*start..start + SHAPE.len()).is_some_and(is_shaped))?;
    Some(String::from_utf8_lossy(&piece[start..start + "dddd-dd-dd".len()]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE_ID: &str =
        "2022-12-28 14:03:47 df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f3alt1";

    fn check(texts: &[&str], expected: &Content) {
        // The border between two pieces, and each place around it.
        let piece_bytes = usize::try_from(PIECE_BYTES).expect("a megabyte");
        for shift in [0, 1, piece_bytes - 200, piece_bytes - 30, piece_bytes - 1] {
            let mut bytes = vec![b'2'; shift];
            texts.iter().for_each(|text| {
                bytes.extend(text.as_bytes());
                bytes.push(0);
            });
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), bytes).expect("writable");
            let content = Contents::default().read(file.path()).expect("readable");
            assert_eq!(&content, expected, "{shift}");
        }
    }

    /// A file that only speaks of SQLite is no carrier, and one with our engine is ours.
    #[test]
    fn texts_that_make_a_carrier() {
        let sqlite = |driver| Content::Sqlite { date: "2022-12-28".into(), driver };
        check(&[], &Content::NoSqlite);
        check(&[SCHEMA], &Content::NoSqlite);
        check(&[SOURCE_ID], &Content::NoSqlite);
        check(&[SCHEMA, SOURCE_ID], &sqlite(None));
        check(&[SOURCE_ID, "modernc.org/sqlite", SCHEMA], &sqlite(Some(Driver::GoWithoutC)));
        check(&[SCHEMA, SOURCE_ID, OURS], &Content::Manyhands);
    }

    /// No text is longer than what two pieces have in common.
    #[test]
    fn the_overlap_is_long_enough() {
        let longest =
            DRIVERS.iter().map(|(text, _)| text.len()).chain([SCHEMA.len(), OURS.len()]).max();
        assert!(longest.is_some_and(|bytes| bytes < OVERLAP_BYTES));
    }

    /// The sentence by which our own files are known is one that the engine says.
    #[test]
    fn the_engine_says_the_sentence() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manyhands-queue/src/join.rs");
        assert!(std::fs::read_to_string(source).is_ok_and(|text| text.contains(OURS)));
        let own = std::env::current_exe().expect("a test is a file");
        let mut contents = Contents::default();
        assert_eq!(contents.read(&own).expect("readable"), Content::Manyhands);
        assert_eq!(contents.read(Path::new("/bin/sh")).expect("readable"), Content::NoSqlite);
        assert!(contents.read(Path::new("/nonexistent")).is_err());
    }
}
