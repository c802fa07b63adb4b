//! When nothing can undo a commit any more. It was said to be so at the memory barrier between the two copies of
//! the wal-index header. A leader died there, its successor answered its batch as committed, and then a connection
//! that had begun to read before took the write lock: it went by the first copy, and overwrote the frames.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use manyhands_sqlite::vfs::{CommitObserver, CommitStage};
use manyhands_sqlite::{Connection, OpenMode, Step};

/// Bytes of one copy of the header (<https://sqlite.org/walformat.html>, 2.1).
const HEADER_BYTES: usize = 48;

/// The -shm file. It stays open: to close it would take from this process the locks of other copies of SQLite.
struct Index(File);

impl Index {
    fn of(database: &Path) -> Index {
        let path = format!("{}-shm", database.display());
        Index(File::options().read(true).write(true).open(path).expect("the wal-index"))
    }

    fn copies(&self) -> [[u8; HEADER_BYTES]; 2] {
        [0, 1].map(|number| {
            let mut copy = [0; HEADER_BYTES];
            self.0.read_exact_at(&mut copy, number * HEADER_BYTES as u64).expect("reads");
            copy
        })
    }
}

/// What the wal-index was at each stage of the commits.
struct Watcher {
    index: Index,
    seen: Mutex<Vec<(CommitStage, [[u8; HEADER_BYTES]; 2])>>,
}

impl Watcher {
    /// Watches the commits of this connection, which has the database open in WAL mode.
    fn of(writer: &Connection, database: &Path) -> Arc<Watcher> {
        let watcher = Arc::new(Watcher { index: Index::of(database), seen: Mutex::default() });
        let observer: Arc<dyn CommitObserver> = Arc::<Watcher>::clone(&watcher);
        writer.observe_commits(observer).expect("observed");
        watcher
    }
}

impl CommitObserver for Watcher {
    fn on_commit(&self, stage: CommitStage) {
        self.seen.lock().expect("no panic").push((stage, self.index.copies()));
    }
}

fn open(database: &Path) -> Connection {
    let connection = Connection::open(database, OpenMode::ReadWriteCreate, false).expect("opens");
    connection.execute("PRAGMA wal_autocheckpoint=0").expect("set");
    connection
}

#[test]
fn a_commit_is_sealed_when_both_copies_have_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("app.db");
    let writer = open(&database);
    writer.execute("PRAGMA journal_mode=WAL; CREATE TABLE t (n)").expect("made");
    let watcher = Watcher::of(&writer, &database);
    let before = watcher.index.copies();
    writer.execute("INSERT INTO t VALUES (1)").expect("written");
    let after = watcher.index.copies();
    assert_ne!(before, after);
    assert_eq!(after[0], after[1]);
    let seen = watcher.seen.lock().expect("no panic");
    let at = |stage| seen.iter().find(|(at, _)| *at == stage).expect("told").1;
    assert_eq!(at(CommitStage::Synced), before);
    assert_eq!(at(CommitStage::HalfPublished), [before[0], after[1]]);
    assert_eq!(at(CommitStage::Sealed), after);
    assert_eq!(seen.last().expect("told").0, CommitStage::Sealed);
}

/// Why it is not sealed earlier: what SQLite makes of a commit whose writer died between the copies.
#[test]
fn who_reads_already_may_overwrite_a_commit_that_is_half_published() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("app.db");
    let (writer, reader) = (open(&database), open(&database));
    writer.execute("PRAGMA journal_mode=WAL; CREATE TABLE t (n)").expect("made");
    let index = Index::of(&database);
    let [first, _] = index.copies();
    let mut reads = reader.prepare_one("SELECT n FROM t UNION ALL SELECT 2").expect("compiled");
    assert_eq!(reads.step().expect("reads"), Step::Row);
    writer.execute("INSERT INTO t VALUES ('half published')").expect("written");
    index.0.write_all_at(&first, 0).expect("as if it had died before");
    reader.execute("INSERT INTO t VALUES ('later')").expect("written");
    reads.reset();
    let there = "SELECT count(*) FROM t WHERE n = 'half published'";
    assert_eq!(open(&database).query_integer(there), Ok(0));
}

/// A batch that was larger than the page cache had written some frames twice. SQLite then writes their headers
/// without checksum first, and so the commit frame was announced: when the leader died then, the batch was called
/// unknown.
#[test]
fn the_header_that_is_announced_is_that_of_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("app.db");
    let writer = open(&database);
    writer
        .execute("PRAGMA journal_mode=WAL; PRAGMA cache_size=10; CREATE TABLE t (b)")
        .expect("made");
    let watcher = Watcher::of(&writer, &database);
    writer
        .execute(
            "BEGIN; INSERT INTO t WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < 300)
             SELECT zeroblob(1000) FROM s; UPDATE t SET b = zeroblob(999); COMMIT",
        )
        .expect("written");
    let seen = watcher.seen.lock().expect("no panic");
    let frames = seen.iter().filter_map(|(stage, _)| match stage {
        CommitStage::Announced(frame) => Some(*frame),
        _ => None,
    });
    let [frame] = frames.collect::<Vec<_>>()[..] else { panic!("one commit, one frame: {seen:?}") };
    assert_eq!(writer.wal_frame_header(frame.offset), Ok(Some(frame.header)));
    assert_eq!(seen.last().expect("told").0, CommitStage::Sealed);
}
