//! The server of a run, as the command sees it: found, started, connected to. A keeper process starts and stops it.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use postgres::{Client, NoTls};

use super::{
    client::config,
    keeper::{Assignment, KEEPER, Message, User},
    processes::Processes,
};

/// The role that `initdb` is told to make; everybody who reaches the socket is it.
pub const SUPERUSER: &str = "bench";

/// Where Debian and its descendants install the server's programs, one directory per version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The server's programs.
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// The newest ones.
    pub fn find() -> Result<Self> {
        let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
        let newest = versions
            .filter_map(|entry| {
                let version: u32 = entry.file_name().to_str()?.parse().ok()?;
                let directory = entry.path().join("bin");
                has_programs(&directory).then_some((version, directory))
            })
            .max();
        let elsewhere = || {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path).find(|directory| has_programs(directory))
        };
        newest
            .map(|(_, directory)| directory)
            .or_else(elsewhere)
            .map(|directory| Self { directory })
            .context("PostgreSQL is not installed: sudo apt-get install postgresql")
    }

    /// `PostgreSQL 15.18`.
    pub fn version(&self) -> Result<String> {
        let output = Command::new(self.directory.join("postgres"))
            .arg("--version")
            .output()
            .context("ask postgres for its version")?;
        let text = String::from_utf8_lossy(&output.stdout);
        // postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)
        let number = text.split_whitespace().nth(2).context("postgres tells no version")?;
        Ok(format!("PostgreSQL {number}"))
    }
}

fn has_programs(directory: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| directory.join(program).is_file())
}

/// A running server. Its keeper stops it and removes its directories when this is dropped, and when this process ends in
/// whatever way: that is the end of the keeper's stdin.
pub struct Server {
    keeper: Child,
    sockets: PathBuf,
    processes: Processes,
    databases: AtomicU64,
}

impl Server {
    /// Starts a server on new files in a directory of its own below `directory`.
    pub fn start(directory: &Path) -> Result<Self> {
        let programs = Programs::find()?;
        let directory = directory.canonicalize().context("find the directory")?;
        let assignment = Assignment { programs: programs.directory, directory, user: user()? };
        let program = std::env::current_exe().context("find this program")?;
        let mut keeper = Command::new(program)
            .args([KEEPER, &serde_json::to_string(&assignment)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C ends the command, whose end the keeper sees; it still has to stop the server.
            .process_group(0)
            .spawn()
            .context("start the server's keeper")?;
        let stdout = keeper.stdout.take().context("the keeper has a stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("listen to the keeper")?;
        let told: Message =
            serde_json::from_str(&line).with_context(|| format!("the keeper said {line:?}"))?;
        match told {
            Message::Failed { reason } => {
                let _ = keeper.wait();
                Err(anyhow!("{reason}"))
            }
            Message::Ready { sockets, postmaster } => Ok(Self {
                keeper,
                sockets,
                processes: Processes { postmaster },
                databases: AtomicU64::new(0),
            }),
        }
    }

    /// Where its socket is.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// Its processes.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// A name that no database had yet.
    pub fn next_database(&self) -> String {
        format!("bench_{}", self.databases.fetch_add(1, Ordering::Relaxed))
    }

    /// Connects to a database.
    pub fn connect(&self, database: &str) -> Result<Client> {
        let config = config(&self.sockets.join(database)).context("the place of a database")?;
        config.connect(NoTls).with_context(|| format!("connect to the database {database}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Can the user that runs the server reach this directory? The error says what to do.
pub fn can_reach(directory: &Path) -> Result<()> {
    let Some(user) = user()? else { return Ok(()) };
    let directory = directory.canonicalize().context("find the directory")?;
    let reached = Command::new("test")
        .arg("-x")
        .arg(&directory)
        .current_dir("/")
        .uid(user.uid)
        .gid(user.gid)
        .status()
        .context("ask whether the directory can be reached")?;
    ensure!(
        reached.success(),
        "its user, number {}, cannot reach {}: choose another with --directory",
        user.uid,
        directory.display()
    );
    Ok(())
}

/// Who runs the server, if this process cannot.
fn user() -> Result<Option<User>> {
    rustix::process::geteuid().is_root().then(unprivileged_user).transpose()
}

/// The server refuses to run as root: the package's own user runs it, or nobody.
fn unprivileged_user() -> Result<User> {
    let users = fs::read_to_string("/etc/passwd").context("read the users of this machine")?;
    match ["postgres", "nobody"].into_iter().find_map(|name| user_named(&users, name)) {
        Some(user) => {
            ensure!(user.uid != 0, "the user that should run PostgreSQL is root");
            Ok(user)
        }
        None => {
            bail!("PostgreSQL does not run as root, and there is neither user postgres nor nobody")
        }
    }
}

fn user_named(users: &str, name: &str) -> Option<User> {
    let mut fields = users
        .lines()
        .map(|line| line.split(':'))
        .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?
        .skip(1);
    Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of root's own is out of reach for the server, and the user is told so before anything runs.
    #[test]
    fn a_directory_out_of_reach() {
        let outer = tempfile::tempdir().expect("a temporary directory");
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).expect("it is ours");
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(outer.path(), owner_only).expect("it is ours");
        let reached = can_reach(&inner).map_err(|error| error.to_string());
        match user().expect("this machine has users") {
            None => assert_eq!(reached, Ok(())),
            Some(_) => assert!(reached.is_err_and(|told| told.contains("--directory"))),
        }
    }

    /// The format of passwd(5).
    #[test]
    fn users() {
        let users = "root:x:0:0:root:/root:/bin/bash\npostgres:x:101:104::/var/lib:/bin/bash\n";
        assert_eq!(user_named(users, "postgres"), Some(User { uid: 101, gid: 104 }));
        assert_eq!(user_named(users, "nobody"), None);
    }
}
