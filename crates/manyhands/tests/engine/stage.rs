//! What the tests stand on: a directory with a database, a deadline for everything, and actors:
//! other processes, which are this binary again with a part to play.
//!
//! An actor prints lines that begin with `@`, which the test reads with a deadline, and ends when its
//! standard input does.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use manyhands::{Connection, Database, Error, Value, params};
use tempfile::TempDir;

/// How long anything here may take before it counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How long a call waits whose timeout a test is about.
pub const SHORT: Duration = Duration::from_millis(200);

/// A directory with a database in it.
pub struct Stage {
    directory: TempDir,
}

impl Stage {
    pub fn new() -> Stage {
        Stage { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    /// One whose files never reach a disk, where there is such a place: for tests about other things.
    pub fn without_disk() -> Stage {
        match tempfile::tempdir_in("/dev/shm") {
            Ok(directory) => Stage { directory },
            Err(_) => Stage::new(),
        }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self) -> PathBuf {
        self.directory().join("app.db")
    }

    /// The path of a file that lies beside the database: `-wal`, `-shm`, `-hands`.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        self.directory().join(format!("app.db{suffix}"))
    }

    pub fn database(&self) -> Database {
        Database::open(self.path()).expect("the database opens")
    }

    /// The database with one table, `item (id INTEGER PRIMARY KEY, note)`.
    pub fn database_with_items(&self) -> Database {
        let database = self.database();
        execute(&mut connect(&database), ITEM);
        database
    }
}

pub const ITEM: &str = "CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, note)";
pub const INSERT: &str = "INSERT INTO item (note) VALUES ('n')";

pub fn connect(database: &Database) -> Connection {
    database.connect().expect("a connection")
}

pub fn execute(connection: &mut Connection, sql: &str) {
    if let Err(error) = connection.execute(sql, params![]) {
        panic!("{sql}: {error}");
    }
}

/// The first column of the first row.
pub fn number(connection: &mut Connection, sql: &str) -> i64 {
    let rows = connection.query(sql, params![]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match rows[0].values()[0] {
        Value::Integer(number) => number,
        ref other => panic!("{sql}: {other:?}"),
    }
}

pub fn items(connection: &mut Connection) -> i64 {
    number(connection, "SELECT count(*) FROM item")
}

/// The error that was expected, whose text contains all of `words`.
pub fn refused<T: std::fmt::Debug>(result: Result<T, Error>, words: &[&str]) -> Error {
    let error = result.expect_err("this should have been refused");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    error
}

/// What the sqlite3 shell answers.
pub fn shell(path: &Path, sql: &str) -> String {
    let done = Command::new("sqlite3").arg(path).arg(sql).output().expect("the sqlite3 shell runs");
    assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_string()
}

pub fn assert_sound(path: &Path) {
    assert_eq!(shell(path, "PRAGMA integrity_check"), "ok");
}

/// Runs `work` on another thread, and fails if it takes longer than [`PATIENCE`].
pub fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // Nobody listens any more when the deadline has passed.
        let _ = done.send(work());
    });
    match wait.recv_timeout(PATIENCE) {
        Ok(result) => {
            thread.join().expect("it has sent its result");
            result
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: not done after {PATIENCE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}

/// A call that began then has waited for a timeout of [`SHORT`], and not for much longer.
pub fn assert_waited(began: Instant) {
    let waited = began.elapsed();
    assert!(waited >= SHORT && waited < SHORT * 20, "it waited for {waited:?}");
}

/// Looks again and again until `condition` holds, and fails after [`PATIENCE`].
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

/// Another process. Killed if the test ends before it does.
pub struct Actor {
    child: Child,
    lines: Receiver<String>,
}

/// Copies this binary, to be executed there. By another process: one that another test starts meanwhile would inherit the
/// file as open for writing, and it could not be executed.
pub fn copy_this_binary(to: &Path) {
    let me = std::env::current_exe().expect("this binary");
    let copied = Command::new("cp").arg(me).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

impl Actor {
    /// Starts this binary again to play `part` with `path`.
    pub fn start(part: &str, path: &Path) -> Actor {
        let me = std::env::current_exe().expect("this binary");
        Actor::start_by(Command::new(me), part, path)
    }

    /// The same, by a command that ends in this binary.
    pub fn start_by(mut command: Command, part: &str, path: &Path) -> Actor {
        command
            .args(["--exact", "stage::an_actor_plays_its_part", "--nocapture", "--test-threads=1"])
            .env("ENGINE_PART", part)
            .env("ENGINE_PATH", path);
        Actor::spawn(command)
    }

    /// Starts the sqlite3 shell on `path`.
    pub fn sqlite(path: &Path) -> Actor {
        let mut shell = Command::new("sqlite3");
        shell.arg(path);
        Actor::spawn(shell)
    }

    /// Starts a program whose lines on standard output the test reads.
    fn spawn(mut command: Command) -> Actor {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = child.stdout.take().expect("piped");
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // libtest prints without an end of line before the first.
                let line = line.split_once('@').map_or(String::new(), |(_, line)| line.to_string());
                if !line.is_empty() && send.send(line).is_err() {
                    break;
                }
            }
        });
        Actor { child, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that the actor says.
    pub fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the actor says something")
    }

    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("piped, and still open");
        writeln!(input, "{line}").expect("the actor listens");
    }

    /// Lets the actor end, and waits for it.
    pub fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        let mut status = None;
        until("the actor ends", || {
            status = self.child.try_wait().expect("a child of this process");
            status.is_some()
        });
        status.expect("it ended")
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn say(line: &str) {
    println!("@{line}");
}

/// Waits until the test says something, or lets this actor end.
pub fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("standard input");
    line.trim().to_string()
}

/// Nothing to see without a part: this is where the processes that other tests start come in.
#[test]
fn an_actor_plays_its_part() {
    let Ok(part) = std::env::var("ENGINE_PART") else { return };
    let path = PathBuf::from(std::env::var("ENGINE_PATH").expect("a part comes with a path"));
    match part.as_str() {
        "hold the turn" => crate::waiting::hold_the_turn(&path),
        "read endlessly" => crate::endless_reader::read_endlessly(&path),
        "hold back and lead" => crate::endless_reader::hold_back_and_lead(&path),
        "keep it open" => crate::surroundings::keep_it_open(&path),
        "open at once" => crate::surroundings::open_at_once(&path),
        "open without waiting" => crate::opening::open_without_waiting(&path),
        "count descriptors" => crate::opening::count_descriptors(&path),
        "write for the group" => crate::opening::write_for_the_group(&path),
        "make it first" => crate::opening::make_it_first(&path),
        "open many" => crate::opening::open_many(&path),
        "add ones" => crate::disposable::add_ones(&path),
        "write without /proc" => crate::containers::write_without_proc(&path),
        "open in turn" => crate::opening::open_in_turn(&path),
        "open as nobody" => crate::surroundings::open_as_nobody(&path),
        "time out" => crate::surroundings::time_out(&path),
        "fill the disk" => crate::surroundings::fill_the_disk(&path),
        "load" => crate::isolation::large::load(&path),
        #[cfg(feature = "tokio")]
        "insert from tasks" => crate::tasks::insert_from_tasks(&path),
        #[cfg(feature = "tokio")]
        "mix tasks" => crate::tasks::mix_tasks(&path),
        other => panic!("no such part: {other}"),
    }
}
