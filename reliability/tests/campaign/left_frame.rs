//! A leader was killed after its commit frame was on the disk and before the commit was published. Its
//! successor found the batch not committed, and everybody was free to tell that to his caller. When then
//! all processes were killed, the next one to open the file recovered the WAL, the frame with it: a write
//! was there of which had been said that "nothing was written". Found by the model.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::Beside;

struct Worker {
    process: Child,
    words: BufReader<ChildStdout>,
}

impl Worker {
    fn start(database: &Path, act: &str, number: &str, crash: &str) -> Worker {
        let mut process = Command::new(env!("CARGO_BIN_EXE_reliability"))
            .args(["worker", "--act", act, "--number", number, "--seed", "1", "--database"])
            .arg(database)
            .env("MANYHANDS_CRASH", crash)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker starts");
        let words = BufReader::new(process.stdout.take().expect("a pipe"));
        Worker { process, words }
    }

    fn wait_until_ready(&mut self) {
        let mut line = String::new();
        while !line.starts_with("ready") {
            line.clear();
            assert!(self.words.read_line(&mut line).expect("a line") > 0, "a worker ended");
        }
    }

    /// How many writes it has acknowledged when it is over.
    fn acknowledged(mut self) -> usize {
        let reader = std::thread::spawn(move || {
            let lines = self.words.lines().map_while(Result::ok);
            lines.filter(|line| line.starts_with("ack ")).count()
        });
        let end = Instant::now() + Duration::from_secs(60);
        while self.process.try_wait().expect("a child").is_none() {
            if Instant::now() > end {
                self.process.kill().expect("it can be killed");
                panic!("a worker did not come to its crash point");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        reader.join().expect("it reads to the end")
    }
}

#[test]
fn a_batch_that_was_refused_does_not_come_back() {
    let _beside = Beside::others();
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("app.db");
    let mut expected = Worker::start(&database, "open", "9", "recovered:1").acknowledged();
    // One writer each, so that nobody has an answer that it has not told yet. The heir is there when the leader dies:
    // where nobody is, there is nothing to succeed to.
    let mut heir = Worker::start(&database, "storm", "2", "recovered:1");
    heir.wait_until_ready();
    let leader = Worker::start(&database, "storm", "1", "synced:20");
    expected += leader.acknowledged() + heir.acknowledged();
    let count = Command::new("sqlite3")
        .arg(&database)
        .arg("SELECT count(*) FROM entry")
        .output()
        .expect("the sqlite3 shell runs");
    let count = String::from_utf8_lossy(&count.stdout).trim().to_owned();
    assert_eq!(count, expected.to_string(), "rows, and writes that were acknowledged");
}
