//! The keeper: a process that starts PostgreSQL's server, waits until its own stdin ends, stops the server and removes
//! its files. The command may end in any way, kill -9 included: its pipe ends with it.
//!
//! One JSON line on stdout, a [`Message`], says how the start went.

use std::{
    io::{self, Read, Write},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use postgres::NoTls;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::{client::config, server::SUPERUSER};

/// The hidden subcommand.
pub const KEEPER: &str = "keep-postgres";

/// Its default of 100 is too few for the workloads with 256 threads or 1,000 processes.
const CONNECTIONS_MAX: u32 = 1_100;

/// How long a start may take: a server without any tables is there within a second.
const START_MAX: Duration = Duration::from_secs(60);
/// How long a stop may take before it is no longer a polite one: it writes a checkpoint.
const STOP_MAX: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(20);

/// What the keeper is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// Where `initdb` and `postgres` are.
    pub programs: PathBuf,
    /// Where to make the directory of the server's files.
    pub directory: PathBuf,
    /// Who runs the server, if this process is root.
    pub user: Option<User>,
}

/// A user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

/// What the keeper says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub enum Message {
    /// The server accepts connections.
    Ready {
        /// The directory of its socket.
        sockets: PathBuf,
        /// The number of its first process.
        postmaster: u32,
    },
    /// It could not be started.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Runs the keeper.
pub fn keep(assignment: &str) -> ExitCode {
    let started = serde_json::from_str(assignment)
        .context("the keeper is started by bench only")
        .and_then(|assignment: Assignment| Kept::start(&assignment));
    let (message, kept) = match started {
        Ok(kept) => {
            let sockets = kept.sockets.path().to_owned();
            (Message::Ready { sockets, postmaster: kept.server.id() }, Some(kept))
        }
        Err(error) => (Message::Failed { reason: format!("{error:#}") }, None),
    };
    let Ok(line) = serde_json::to_string(&message) else { return ExitCode::FAILURE };
    // If nobody listens any more, stdin has ended, too.
    let _ = writeln!(io::stdout(), "{line}");
    match kept {
        None => ExitCode::FAILURE,
        Some(kept) => {
            // Nothing is ever said here; this is how the end of the command is heard.
            let _ = io::stdin().lock().read_to_end(&mut Vec::new());
            drop(kept);
            ExitCode::SUCCESS
        }
    }
}

/// A server and its files; dropped, both are gone.
struct Kept {
    server: Child,
    sockets: TempDir,
    /// Removed after the server has ended.
    files: TempDir,
}

impl Kept {
    fn start(assignment: &Assignment) -> Result<Self> {
        let directory = |parent: &Path| -> Result<TempDir> {
            let made = tempfile::Builder::new().prefix("manyhands-postgres-").tempdir_in(parent)?;
            if let Some(user) = assignment.user {
                chown(made.path(), Some(user.uid), Some(user.gid))
                    .context("give a directory to the user that runs PostgreSQL")?;
            }
            Ok(made)
        };
        let files = directory(&assignment.directory)?;
        // The path of a socket is short.
        let sockets = directory(&std::env::temp_dir())?;
        let program = |name: &str| {
            let mut command = Command::new(assignment.programs.join(name));
            command.current_dir(sockets.path()).stdin(Stdio::null());
            if let Some(user) = assignment.user {
                command.uid(user.uid).gid(user.gid);
            }
            command
        };
        let data = files.path().join("data");
        let made = program("initdb")
            .args(["--username", SUPERUSER, "--auth", "trust", "--encoding", "UTF8"])
            // Nothing of it is measured.
            .args(["--locale", "C", "--no-sync", "--pgdata"])
            .arg(&data)
            .output()
            .context("start initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr).trim());
        let log = std::fs::File::create(files.path().join("log")).context("create the log")?;
        let server = program("postgres")
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(sockets.path())
            .args(["-c", "listen_addresses=", "-c"])
            .arg(format!("max_connections={CONNECTIONS_MAX}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("start postgres")?;
        // From here on, whatever fails stops it.
        let mut kept = Self { server, sockets, files };
        kept.wait_until_ready()?;
        Ok(kept)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let config = config(&self.sockets.path().join("postgres")).context("the socket's place")?;
        let began = Instant::now();
        while let Err(error) = config.connect(NoTls) {
            if let Some(status) = self.server.try_wait()? {
                let log = std::fs::read_to_string(self.files.path().join("log"));
                bail!("postgres ended with {status}: {}", log.unwrap_or_default().trim());
            }
            ensure!(began.elapsed() < START_MAX, "postgres accepts no connection: {error}");
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Asks the server to end, and waits for it.
    fn ends_after(&mut self, signal: Signal, wait_max: Duration) -> bool {
        // It fails only for a process that is gone already, and this one has not been waited for.
        let _ = kill_process(Pid::from_child(&self.server), signal);
        let began = Instant::now();
        while began.elapsed() < wait_max {
            // An error means that there is nothing to wait for.
            if self.server.try_wait().map_or(true, |status| status.is_some()) {
                return true;
            }
            thread::sleep(TICK);
        }
        false
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Its manual: SIGINT disconnects the clients and ends, SIGQUIT ends at once.
        if !self.ends_after(Signal::INT, STOP_MAX) && !self.ends_after(Signal::QUIT, STOP_MAX) {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }
}
