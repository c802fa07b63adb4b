//! Stories that need a process of their own: replaced system calls, forks and lost locks stay in
//! it.

use std::ffi::c_int;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any story takes on a busy machine; a story that hangs is killed and fails.
const STORY_SECONDS_MAX: u64 = 25;
/// After this a forked child ends itself, whoever waits for it.
const CHILD_SECONDS_MAX: u32 = 10;

const STORY: &str = "FENCE_STORY";

/// Runs the story of the test of this name (with its module) in a process of its own.
pub fn tell(test: &str, story: impl FnOnce()) {
    if std::env::var_os(STORY).is_some_and(|name| name == test) {
        return story();
    }
    let binary = std::env::current_exe().expect("a test knows its binary");
    let process = Command::new(binary)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(STORY, test)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test binary starts again");
    let pid = process.id().cast_signed();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(process.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(Duration::from_secs(STORY_SECONDS_MAX)) else {
        kill(pid);
        panic!("{test}: not finished after {STORY_SECONDS_MAX} s");
    };
    let output = output.expect("the story's output can be read");
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {}\n{told}\n{complaint}", output.status);
    assert!(told.contains("1 passed"), "{test} is not the name of a test:\n{told}");
}

/// A forked child of a story.
pub struct Child {
    pid: c_int,
}

impl Child {
    /// Forks; the child runs `story`, with a deadline, and ends, with status 101 if it panicked.
    pub fn fork(story: impl FnOnce()) -> Self {
        // SAFETY: the child runs test code only, and `manyhands_sqlite::locks` is there to be
        // tested for it.
        let pid = unsafe { libc::fork() };
        assert_ne!(pid, -1, "fork failed");
        if pid == 0 {
            // SAFETY: an integer.
            unsafe { libc::alarm(CHILD_SECONDS_MAX) };
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(story));
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) };
        }
        Self { pid }
    }

    /// Waits until the child has ended, and fails unless it ended well.
    pub fn join(self) {
        let status = wait_for(self.pid);
        assert!(!libc::WIFSIGNALED(status), "child ended by signal {}", libc::WTERMSIG(status));
        assert_eq!(libc::WEXITSTATUS(status), 0, "the child's story failed");
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(self) {
        kill(self.pid);
        assert!(libc::WIFSIGNALED(wait_for(self.pid)));
    }
}

fn wait_for(pid: c_int) -> c_int {
    let mut status = 0;
    // SAFETY: the child is ours and waited for once; its alarm bounds the wait.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn kill(pid: c_int) {
    // SAFETY: a child of ours that has not been waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// A signal from one process to another: each `give` ends one `take`.
pub struct Signal {
    reader: std::io::PipeReader,
    writer: std::io::PipeWriter,
}

impl Signal {
    pub fn new() -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        Self { reader, writer }
    }

    pub fn give(&self) {
        std::io::Write::write_all(&mut &self.writer, b"!").expect("the pipe takes a byte");
    }

    /// Waits for a `give`; the children's alarms and the story's deadline bound the wait.
    pub fn take(&self) {
        std::io::Read::read_exact(&mut &self.reader, &mut [0]).expect("the other side gives");
    }
}
