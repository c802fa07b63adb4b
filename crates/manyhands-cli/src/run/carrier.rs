//! A carrier is a program or library with SQLite inside, whatever its name and whether or not it is stripped.
//!
//! SQLite's schema statement and its source id are texts that each build of it needs. A file that has both has SQLite; if
//! it has a sentence of Manyhands as well, its SQLite is ours.

use std::{
    collections::HashMap,
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use memchr::memmem::Finder;

/// With this SQLite reads the schema of any database: the start, which is the same since version 3.0.
const SCHEMA: &str = "CREATE TABLE x(type text,name text,tbl_name text,rootpage int";
/// From an error that every build of Manyhands can give.
const OURS: &str = "SQLite's WAL mode and Manyhands need a local disk";
/// A piece of a file that is looked at in one go.
const PIECE_BYTES: usize = 1 << 20;
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

/// What files contain: each is read once as long as it does not change.
#[derive(Default)]
pub struct Carriers {
    known: HashMap<Identity, Content>,
    reading: Duration,
}

/// A file and its state.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_ns: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed_ns: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl Carriers {
    /// How long files were read in all.
    pub fn reading(&self) -> Duration {
        self.reading
    }

    /// # Errors
    /// The file cannot be read, and says nothing of itself.
    pub fn content(&mut self, path: &Path) -> io::Result<Content> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Content::NoSqlite);
        }
        let identity = Identity::of(&metadata);
        if let Some(content) = self.known.get(&identity) {
            return Ok(content.clone());
        }
        let began = Instant::now();
        let content = content_of(file.take(FILE_BYTES_MAX))?;
        self.reading += began.elapsed();
        self.known.insert(identity, content.clone());
        Ok(content)
    }
}

/// The texts are looked for in pieces that overlap.
fn content_of(mut file: impl Read) -> io::Result<Content> {
    let schema = Finder::new(SCHEMA);
    let ours = Finder::new(OURS);
    let drivers = DRIVERS.map(|(text, driver)| (Finder::new(text), driver));
    let (mut has_schema, mut date, mut driver) = (false, None, None);
    let mut piece = Vec::with_capacity(OVERLAP_BYTES + PIECE_BYTES);
    loop {
        let kept = piece.len().saturating_sub(OVERLAP_BYTES);
        piece.drain(..kept);
        let read = file.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if read == 0 {
            break;
        }
        if ours.find(&piece).is_some() {
            return Ok(Content::Manyhands);
        }
        has_schema = has_schema || schema.find(&piece).is_some();
        date = date.or_else(|| source_date(&piece));
        driver = driver.or_else(|| {
            let mut found = drivers.iter().filter(|(text, _)| text.find(&piece).is_some());
            found.next().map(|(_, driver)| *driver)
        });
    }
    Ok(match date {
        Some(date) if has_schema => Content::Sqlite { date, driver },
        _ => Content::NoSqlite,
    })
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
    let mut starts = memchr::memmem::find_iter(piece, "20");
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
        for shift in [0, 1, PIECE_BYTES - 200, PIECE_BYTES - 30, PIECE_BYTES - 1] {
            let mut file = vec![b'2'; shift];
            texts.iter().for_each(|text| {
                file.extend(text.as_bytes());
                file.push(0);
            });
            assert_eq!(&content_of(file.as_slice()).expect("in memory"), expected, "{shift}");
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
        let mut carriers = Carriers::default();
        assert_eq!(carriers.content(&own).expect("readable"), Content::Manyhands);
        assert_eq!(carriers.content(Path::new("/bin/sh")).expect("readable"), Content::NoSqlite);
        assert!(carriers.content(Path::new("/nonexistent")).is_err());
    }
}
