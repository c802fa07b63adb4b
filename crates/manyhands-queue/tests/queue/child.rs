//! Other processes: this binary runs itself again in a role, and the two talk in lines.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::LONG;

const ROLE: &str = "MANYHANDS_QUEUE_ROLE";
const QUEUE: &str = "MANYHANDS_QUEUE_FILE";
/// What the test's own lines begin with; the test harness writes others.
const MARK: &str = "@@";

/// A process in a role. It is killed when this is dropped.
pub struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    pub fn start(role: &str, queue: &Path) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child::entry", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(QUEUE, queue)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The harness may have begun the line.
                if let Some((_, said)) = line.split_once(MARK)
                    && sender.send(said.to_string()).is_err()
                {
                    return;
                }
            }
        });
        Process { child, stdin, lines }
    }

    /// The next line that the process says.
    pub fn hear(&self) -> String {
        self.lines.recv_timeout(LONG).expect("the process says a line")
    }

    pub fn expect(&self, line: &str) {
        assert_eq!(self.hear(), line);
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// kill -9, and its end.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for a death by SIGKILL that the process brought on itself.
    pub fn wait_killed(mut self) {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
    }

    /// Waits for an end in order.
    pub fn wait_ok(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says a line to the process that started this one.
pub fn tell(line: &str) {
    println!("{MARK}{line}");
}

/// The next line from the process that started this one.
pub fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

/// Dies as a process does that the kernel kills.
pub fn die() -> ! {
    kill_process(rustix::process::getpid(), Signal::KILL).unwrap();
    unreachable!("SIGKILL cannot be survived");
}

/// Not a test by itself: where a [`Process`] begins.
#[test]
fn entry() {
    let (Ok(role), Ok(queue)) = (std::env::var(ROLE), std::env::var(QUEUE)) else { return };
    let (role, word) = role.split_once(':').unwrap_or((&role, ""));
    let queue = PathBuf::from(queue);
    match role {
        "member" => crate::joining::member(&queue),
        "visitor" => crate::joining::visitor(&queue),
        "leader" => crate::joining::leader(&queue),
        "nobody" => crate::file::nobody(&queue),
        "publisher" => crate::order::publisher(&queue),
        "dying-leader" => crate::succession::dying_leader(&queue, word),
        "blocks" => crate::blocks::holder(&queue),
        "noting-leader" => crate::recent::noting_leader(&queue),
        "reserver" => crate::ids::reserver(&queue),
        "turn" => crate::turns::owner(&queue),
        "clients" => crate::crowd::clients(&queue),
        "forking" => crate::forked::forking(&queue, word),
        "truncated" => crate::truncated::member(&queue, word),
        role => panic!("no role {role}"),
    }
}
