//! Processes that have a database open through Manyhands, and do what a test says: this binary runs itself again, and the two talk in lines.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use manyhands::{Database, TransactionMode, params};
use rustix::process::{Pid, Signal, kill_process};

/// What takes longer than this on a loaded machine is lost.
pub const PATIENCE: Duration = Duration::from_secs(60);
const FILE: &str = "MANYHANDS_PLAYER_FILE";
const LABEL: &str = "MANYHANDS_PLAYER_LABEL";
/// What the player's own lines begin with; the test harness writes others.
const MARK: &str = "@@";

/// A process with one connection. It is killed when this is dropped.
pub struct Player {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Player {
    /// One that has opened the database.
    pub fn open(file: &Path, label: &str) -> Self {
        let player = Self::start(file, label);
        assert_eq!(player.hear(), "open");
        player
    }

    /// One that will say `open`.
    pub fn start(file: &Path, label: &str) -> Self {
        Self::start_by(Command::new(own()), file, label)
    }

    /// One in a table of processes of its own, as in a container.
    pub fn open_in_container(file: &Path, label: &str) -> Self {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child"]).arg(own());
        let player = Self::start_by(unshare, file, label);
        assert_eq!(player.hear(), "open", "this test makes a pid namespace: run it as root");
        player
    }

    fn start_by(mut command: Command, file: &Path, label: &str) -> Self {
        command.args(["player::entry", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(FILE, file).env(LABEL, label);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().expect("this binary starts");
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The harness may have begun the line.
                if let Some((_, said)) = line.split_once(MARK)
                    && sender.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self { child, stdin, lines }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a small number")
    }

    /// Has it do something, and does not wait: a statement, or `read` and one whose cursor stays open.
    pub fn begin(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").expect("it listens");
    }

    /// What it says next: `ok`, or an error.
    pub fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the process says a line")
    }

    /// Has it do something, which succeeds.
    pub fn does(&mut self, line: &str) {
        self.begin(line);
        assert_eq!(self.hear(), "ok", "{line}");
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is ours");
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own() -> PathBuf {
    std::env::current_exe().expect("a test is a file")
}

/// Looks until something is there.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "still not: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Not a test by itself: where a [`Player`] begins.
#[test]
fn entry() {
    let (Ok(file), Ok(label)) = (std::env::var(FILE), std::env::var(LABEL)) else { return };
    let database = Database::builder(&file)
        .label(&label)
        .timeout(PATIENCE * 2)
        .transaction_mode(TransactionMode::Immediate)
        .open()
        .expect("opens");
    let mut connection = database.connect().expect("a connection");
    connection.execute("SELECT count(*) FROM sqlite_schema", params![]).expect("reads");
    println!("{MARK}open");
    let mut cursors = Vec::new();
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let done = match line.split_once(' ') {
            Some(("read", sql)) => connection.cursor(sql, params![]).and_then(|mut cursor| {
                cursor.next_row()?;
                cursors.push(cursor);
                Ok(())
            }),
            Some(("storm", seconds)) => {
                let end =
                    Instant::now() + Duration::from_secs_f64(seconds.parse().expect("seconds"));
                let mut done = Ok(());
                while done.is_ok() && Instant::now() < end {
                    done = connection.execute("INSERT INTO t VALUES (1)", params![]).map(|_| ());
                }
                done
            }
            _ => connection.execute(&line, params![]).map(|_| ()),
        };
        match done {
            Ok(()) => println!("{MARK}ok"),
            Err(error) => println!("{MARK}error: {error}"),
        }
    }
}
