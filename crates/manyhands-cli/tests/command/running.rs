//! A command under `manyhands run`, of which a test waits for what is told.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use crate::MANYHANDS;

/// What takes longer than this on a loaded machine is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run whose command waits for the end of its input.
pub struct Running {
    pub child: Child,
    input: Option<ChildStdin>,
    told: Receiver<String>,
}

/// How it ended.
pub struct Ended {
    pub status: ExitStatus,
    pub output: String,
    /// What nobody had waited for.
    pub rest: String,
}

/// `manyhands run` with a library and more arguments.
pub fn run<Word: AsRef<OsStr>>(library: &Path, arguments: &[Word]) -> Command {
    let mut command = Command::new(MANYHANDS);
    command.arg("run").arg("--library").arg(library).args(arguments);
    command
}

/// Runs it to its end, with nothing to read.
pub fn ended(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().expect("the command starts");
    Ended {
        status: output.status,
        output: String::from_utf8_lossy(&output.stdout).into_owned(),
        rest: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the command starts");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, told) = channel();
        thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Self { input: child.stdin.take(), child, told }
    }

    /// All that is told up to a line with this in it.
    pub fn told(&self, last: &str) -> String {
        let mut told = String::new();
        loop {
            let line = self.told.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("{error} before {last:?}:\n{told}"));
            told += &line;
            told.push('\n');
            if line.contains(last) {
                return told;
            }
        }
    }

    /// A line that the command itself says.
    pub fn first_line(&mut self) -> String {
        let mut line = Vec::new();
        let output = self.child.stdout.as_mut().expect("it is piped");
        // Byte by byte, so that what follows is still there.
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            output.read_exact(&mut byte).expect("a line");
            line.extend(byte);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Ends the command's input and waits.
    pub fn end(mut self) -> Ended {
        drop(self.input.take());
        let mut output = String::new();
        self.child.stdout.take().expect("it is piped").read_to_string(&mut output).expect("text");
        let status = self.child.wait().expect("it is ours");
        let rest: Vec<String> = self.told.iter().collect();
        Ended { status, output, rest: rest.join("\n") }
    }
}
