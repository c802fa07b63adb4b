//! One attack after the other on a queue file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use fastrand::Rng;
use manyhands_queue::{Deadline, JoinOptions, Kind as Wanted, Published, Queue};
use serde::Serialize;

/// Bytes of a queue file, and where its slots lie: `crates/manyhands-queue/src/layout.rs`.
const FILE_BYTES: u64 = 8_372_224;
const RING_AT: u64 = 4096;
const SLOTS_AT: u64 = 376_832;
const SLOT_BYTES: u64 = 2048;
/// The slots that a small crew uses.
const SLOTS_USED: u64 = 12;

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// Random bytes, or zeros, at random places.
    Garbage,
    /// The file ends earlier.
    Truncate,
    /// The file ends later.
    Extend,
    /// The file is deleted.
    Delete,
    /// The file is another: rubbish, an empty one, a second name.
    Replace,
    /// Record locks, for a while.
    Lock,
    /// Requests of a member that means no good.
    Request,
    /// The leader's place is taken and held.
    Lead,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Who attacks.
pub struct Attacker {
    database: PathBuf,
    queue_file: PathBuf,
    dice: Rng,
    aimed: bool,
}

/// Statements that a request may not do, that never end, that are too large.
const STATEMENTS: &[&str] = &[
    "SELECT load_extension('/nowhere')",
    "ATTACH '/nowhere' AS stolen",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = OFF",
    "DROP TABLE entry",
    "DELETE FROM sqlite_schema",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "SAVEPOINT request",
    "VACUUM",
    "INSERT OR ROLLBACK INTO counter VALUES (1, 1)",
    "SELECT zeroblob(1000000000)",
    "SELECT length(randomblob(900000000))",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c",
    "not SQL",
];

/// A request as the library encodes it; the names are those of `crates/manyhands/src/commit/request.rs`.
#[derive(Serialize)]
struct Request<'a> {
    session: (bool, bool, bool, u32),
    before: (i64, i64, i64),
    texts: Vec<&'a str>,
    statements: Vec<Statement>,
    origin: Option<()>,
}

#[derive(Serialize)]
struct Statement {
    text: u32,
    columns: u32,
    values: Vec<()>,
    seen: Option<()>,
    reads_only: Option<u64>,
    ids: Vec<i64>,
}

impl Attacker {
    pub fn new(database: &Path, dice: Rng, aimed: bool) -> Attacker {
        let mut queue_file = database.as_os_str().to_owned();
        queue_file.push("-hands");
        let database = database.to_owned();
        Attacker { database, queue_file: queue_file.into(), dice, aimed }
    }

    /// Attacks once, and pauses.
    pub fn attack(&mut self, only: Option<Kind>) -> Result<Kind> {
        let kind = only.unwrap_or_else(|| {
            let kinds = Kind::value_variants();
            // Garbage half of the time: there are more ways to do it.
            let chosen = self.dice.usize(..2 * kinds.len());
            *kinds.get(chosen).unwrap_or(&Kind::Garbage)
        });
        match kind {
            Kind::Garbage => self.write_garbage(),
            Kind::Truncate => self.set_length(0..FILE_BYTES),
            Kind::Extend => self.set_length(FILE_BYTES..1 << 40),
            Kind::Delete => drop(std::fs::remove_file(&self.queue_file)),
            Kind::Replace => self.replace()?,
            Kind::Lock => self.lock()?,
            Kind::Request => self.send_requests(),
            Kind::Lead => self.lead(),
        }
        self.pause(30);
        Ok(kind)
    }

    /// What was left in the writers' way is taken away.
    pub fn leave(self) {
        let _ = std::fs::remove_file(&self.queue_file);
    }

    fn pause(&mut self, ms_max: u64) {
        std::thread::sleep(Duration::from_micros(self.dice.u64(..ms_max * 1000)));
    }

    /// The file, if there is one.
    fn open(&self) -> Option<File> {
        OpenOptions::new().read(true).write(true).open(&self.queue_file).ok()
    }

    fn write_garbage(&mut self) {
        let Some(file) = self.open() else { return };
        for _ in 0..self.dice.u64(1..40) {
            let slots_end = SLOTS_AT + SLOTS_USED * SLOT_BYTES;
            let at = match self.dice.u8(..8) {
                0 | 1 => self.dice.u64(..448),
                2 => self.dice.u64(RING_AT..SLOTS_AT),
                3..6 => self.dice.u64(SLOTS_AT..slots_end),
                _ => self.dice.u64(..FILE_BYTES - 256),
            };
            let bytes = if self.aimed { self.aim(&file, at) } else { self.blind() };
            let at = if self.aimed { at / 8 * 8 } else { at };
            let _ = file.write_all_at(&bytes, at);
            if self.dice.bool() {
                self.pause(2);
            }
        }
    }

    /// Random bytes, or zeros. Not fewer than sixteen: a single one may by chance be what a member writes.
    fn blind(&mut self) -> Vec<u8> {
        let count = self.dice.usize(16..200);
        if self.dice.u8(..4) == 0 {
            return vec![0; count];
        }
        std::iter::repeat_with(|| self.dice.u8(..)).take(count).collect()
    }

    /// A word that differs a little from the one that is there, or one of another place.
    fn aim(&mut self, file: &File, at: u64) -> Vec<u8> {
        let from = if self.dice.bool() { at / 8 * 8 } else { self.dice.u64(..FILE_BYTES / 8) * 8 };
        let mut word = [0; 8];
        let _ = file.read_exact_at(&mut word, from);
        let word = u64::from_ne_bytes(word);
        let word = match self.dice.u8(..4) {
            0 => word.wrapping_add(1),
            1 => word.wrapping_sub(1),
            2 => word ^ 1 << self.dice.u8(..64),
            _ => word,
        };
        word.to_ne_bytes().to_vec()
    }

    fn set_length(&mut self, lengths: std::ops::Range<u64>) {
        if let Some(file) = self.open() {
            let _ = file.set_len(self.dice.u64(lengths));
        }
    }

    /// Another file under the name, for a moment, where it cannot stay; rubbish may stay.
    fn replace(&mut self) -> Result<()> {
        let other = self.queue_file.with_extension("db-rubbish");
        let owner = self.database.metadata().context("look at the database")?;
        let (mode, bytes, stays) = match self.dice.u8(..5) {
            0 => (owner.mode() & 0o777, 0, true),
            1 => (owner.mode() & 0o777, self.dice.usize(1..5000), true),
            2 => (owner.mode() & 0o777, FILE_BYTES as usize, true),
            // Wider than the database's.
            3 => (0o666, 0, false),
            _ => {
                let _ = std::fs::remove_file(&self.queue_file);
                let _ = std::fs::hard_link(&self.database, &self.queue_file);
                self.pause(30);
                // Only if it is still ours: a writer may have made a new one.
                let same = self.queue_file.metadata().is_ok_and(|it| it.ino() == owner.ino());
                if same {
                    let _ = std::fs::remove_file(&self.queue_file);
                }
                return Ok(());
            }
        };
        let _ = std::fs::remove_file(&other);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&other)?;
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode)).context("chmod")?;
        let rubbish: Vec<u8> = std::iter::repeat_with(|| self.dice.u8(..)).take(bytes).collect();
        file.write_all_at(&rubbish, 0).context("write rubbish")?;
        std::fs::rename(&other, &self.queue_file).context("replace the queue file")?;
        if !stays {
            self.pause(30);
            let _ = std::fs::remove_file(&self.queue_file);
        }
        Ok(())
    }

    /// Locks of the whole file, or of random bytes of it and of where the members' bytes are.
    fn lock(&mut self) -> Result<()> {
        let Some(file) = self.open() else { return Ok(()) };
        let held = Duration::from_millis(self.dice.u64(20..400));
        if self.dice.bool() {
            let operation = match self.dice.bool() {
                true => rustix::fs::FlockOperation::NonBlockingLockExclusive,
                false => rustix::fs::FlockOperation::NonBlockingLockShared,
            };
            let _ = rustix::fs::fcntl_lock(&file, operation);
            std::thread::sleep(held);
            return Ok(());
        }
        let mut locker = self.lock_bytes(held)?;
        locker.wait().context("wait for the process that locks")?;
        Ok(())
    }

    /// Python has the call for single bytes; here it would need unsafe code.
    fn lock_bytes(&mut self, held: Duration) -> Result<Child> {
        let script = "import fcntl, sys, time\n\
             file = open(sys.argv[1], 'r+b')\n\
             for at in sys.argv[3:]:\n\
             \x20   try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(at))\n\
             \x20   except OSError: pass\n\
             time.sleep(float(sys.argv[2]))";
        let places = (0..200).map(|_| match self.dice.u8(..3) {
            0 => self.dice.u64(..FILE_BYTES),
            // Far behind the end: see `member.rs`.
            _ => (1 << 40) + self.dice.u64(..64),
        });
        let places: Vec<String> = places.map(|place| place.to_string()).collect();
        Command::new("python3")
            .args(["-c", script])
            .arg(&self.queue_file)
            .arg(held.as_secs_f64().to_string())
            .args(places)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start python3")
    }

    /// Joins as a writer would. Another process of this machine may have spoiled the file.
    fn join(&self) -> Option<Arc<Queue>> {
        let owner = self.database.metadata().ok()?;
        let digits = manyhands_sqlite::version().split('.').map(|part| part.parse::<u64>());
        let program = digits.fold(0, |number, part| number * 1000 + part.unwrap_or(0));
        let options = JoinOptions {
            program,
            mode: JoinOptions::mode_of_writers(owner.mode()),
            owner: owner.uid(),
            group: owner.gid(),
            deadline: Deadline::after(Duration::from_millis(200)),
        };
        Queue::join(&self.queue_file, &options, || Ok::<(), std::convert::Infallible>(())).ok()
    }

    fn send_requests(&mut self) {
        let Some(queue) = self.join() else { return };
        let mut sent: Vec<Published> = Vec::new();
        for _ in 0..self.dice.usize(1..6) {
            let bytes = self.forge();
            let claim = queue.claim(Deadline::after(Duration::from_millis(100)));
            let Some(mut claim) = claim else { continue };
            if claim.write(&bytes, 0) {
                sent.extend(claim.publish(Wanted::Request, "attacker").ok());
            }
        }
        self.pause(120);
    }

    fn forge(&mut self) -> Vec<u8> {
        if self.dice.u8(..4) == 0 {
            let count = self.dice.usize(..20_000);
            return std::iter::repeat_with(|| self.dice.u8(..)).take(count).collect();
        }
        let statement = || Statement {
            text: 0,
            columns: 0,
            values: vec![],
            seen: None,
            reads_only: None,
            ids: vec![],
        };
        let request = Request {
            session: (false, false, true, manyhands_sqlite::zone_digest()),
            before: (0, 0, 0),
            texts: vec![STATEMENTS[self.dice.usize(..STATEMENTS.len())]],
            statements: vec![statement()],
            origin: None,
        };
        let mut bytes = postcard::to_stdvec(&request).expect("a request has bytes");
        // A length that is not there.
        if self.dice.u8(..4) == 0 {
            let at = self.dice.usize(..bytes.len());
            bytes[at] = 0xFF;
        }
        bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// As a process that was stopped while it led.
    fn lead(&mut self) {
        let Some(queue) = self.join() else { return };
        for _ in 0..2000 {
            let Some(mut lead) = queue.try_lead("attacker") else {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            };
            let batch = self.dice.bool();
            if batch && lead.orphan() == manyhands_queue::Orphan::Nothing {
                lead.begin_batch();
            }
            self.pause(300);
            return;
        }
    }
}
