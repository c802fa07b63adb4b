//! Speculative transactions of many threads and processes race for promotion, beside stock writers and a checkpointer.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use manyhands_sqlite::{
    CheckpointMode, Connection, OpenMode, Progress, Promotion, Statement, Step, ValueRef,
};

use super::text;
use crate::sqlite_copy::{self, SqliteCopy, other_process};

const TEST: &str = "speculative_vfs::race::transfers_are_never_lost_or_torn";
/// Set to run longer: the seconds of the race.
const SECONDS: &str = "FENCE_RACE_SECONDS";
const SECONDS_DEFAULT: u64 = 5;
/// Set by this test for its workers: the path, their number and the first seed.
const WORKER: &str = "FENCE_RACE_WORKER";
const PROCESSES: u64 = 3;
const FORKING_THREADS: u64 = 2;
const ACCOUNTS: usize = 60;
const BALANCE: i64 = 100;
const PROMOTION_WAIT_MAX: Duration = Duration::from_millis(3);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What came of the transactions of some workers.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    promoted: i64,
    replayed: i64,
    conflicts: i64,
    abandoned: i64,
    stock: i64,
    /// Rows that committed transactions have added to the table `log`.
    rows: i64,
}

impl Counts {
    fn fields(&mut self) -> [&mut i64; 6] {
        let Counts { promoted, replayed, conflicts, abandoned, stock, rows } = self;
        [promoted, replayed, conflicts, abandoned, stock, rows]
    }

    fn add(&mut self, mut other: Counts) {
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum += *more;
        }
    }
}

/// The balances as the holder of the write lock knows them, in memory that all processes share.
struct Truth {
    words: &'static [AtomicI64],
}

impl Truth {
    fn open(path: &Path) -> Truth {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .expect("opens");
        let bytes = (ACCOUNTS + 1) * 8;
        file.set_len(bytes as u64).expect("grows");
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let flags = rustix::mm::MapFlags::SHARED;
        // SAFETY: a new mapping of a file of this length.
        let address =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, flags, &file, 0) }
                .expect("maps");
        // SAFETY: mapped for ever, zero at first, and only used as atomics.
        let words = unsafe { std::slice::from_raw_parts(address.cast(), ACCOUNTS + 1) };
        Truth { words }
    }

    /// Says a transfer of 5 that is about to be committed. The caller holds the write lock, and has read
    /// these balances: they are the newest, and nobody else believes that he holds it.
    fn tell(&self, from: (usize, i64), to: (usize, i64), who: &str) {
        let holder = &self.words[0];
        assert_eq!(holder.swap(1, SeqCst), 0, "{who}: two hold the write lock");
        for (account, balance) in [from, to] {
            assert_eq!(self.words[account].load(SeqCst), balance, "{who}: {account} is stale");
        }
        self.words[from.0].store(from.1 - 5, SeqCst);
        self.words[to.0].store(to.1 + 5, SeqCst);
        assert_eq!(holder.swap(0, SeqCst), 1, "{who}: two hold the write lock");
    }
}

/// A repeatable sequence of numbers.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn two_accounts(&mut self) -> (usize, usize) {
        let from = self.below(ACCOUNTS as u64) as usize;
        let to = (from + 1 + self.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
        (from + 1, to + 1)
    }

    fn dawdle(&mut self) {
        if self.below(2) == 0 {
            std::thread::sleep(Duration::from_micros(self.below(200)));
        }
    }
}

/// A connection and its statements.
struct Hands {
    connection: Connection,
    read: Statement,
    change: Statement,
    log: Statement,
}

impl Hands {
    fn open(path: &Path) -> Hands {
        let connection = Connection::open(path, OpenMode::ReadWrite, false).expect("opens");
        connection
            .execute("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=OFF; PRAGMA cache_spill=OFF")
            .expect("set");
        let begun = Instant::now();
        connection.set_busy_handler(Some(move |_| {
            std::thread::sleep(Duration::from_micros(50));
            let patient = begun.elapsed() < WAIT_MAX + duration();
            if patient { Progress::Continue } else { Progress::Stop }
        }));
        let statement = |sql| connection.prepare_one(sql).expect("compiles");
        let read = statement("SELECT balance FROM account WHERE id = ?");
        let change = statement("UPDATE account SET balance = balance + ?2 WHERE id = ?1");
        let log = statement("INSERT INTO log (filler) VALUES (zeroblob(?))");
        Hands { connection, read, change, log }
    }

    fn balance(&mut self, account: usize) -> i64 {
        self.read.bind(1, ValueRef::Integer(account as i64)).expect("binds");
        assert_eq!(self.read.step().expect("reads"), Step::Row);
        let ValueRef::Integer(balance) = self.read.column(0) else { panic!("no number") };
        self.read.reset();
        balance
    }

    fn transfer(&mut self, from: usize, to: usize) {
        for (account, amount) in [(from, -5), (to, 5)] {
            self.change.bind(1, ValueRef::Integer(account as i64)).expect("binds");
            self.change.bind(2, ValueRef::Integer(amount)).expect("binds");
            assert_eq!(self.change.step().expect("writes"), Step::Done);
            self.change.reset();
        }
        self.log.bind(1, ValueRef::Integer(100)).expect("binds");
        assert_eq!(self.log.step().expect("writes"), Step::Done);
        self.log.reset();
    }

    /// Whether it was promoted. It does not wait long: the checkpointer that wants to restart the WAL
    /// holds the write lock, and waits for the speculative transaction's read lock.
    fn is_promoted(&self) -> bool {
        let begun = Instant::now();
        loop {
            match self.connection.promote() {
                Promotion::Promoted => return true,
                Promotion::Stale => return false,
                Promotion::Busy if begun.elapsed() > PROMOTION_WAIT_MAX => return false,
                Promotion::Busy => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }
}

/// Speculative transactions, promotes or else reads again under the real lock and compares.
fn fork_and_promote(path: &Path, truth: &Truth, seed: u64, until: Instant) -> Counts {
    let who = format!("seed {seed}");
    let (mut dice, mut counts) = (Dice::new(seed), Counts::default());
    let mut hands = Hands::open(path);
    while Instant::now() < until {
        if dice.below(100) == 0 {
            hands = Hands::open(path);
        }
        let (from, to) = dice.two_accounts();
        hands.connection.arm_speculation(true);
        hands.connection.execute("BEGIN").expect("begins");
        let seen = (hands.balance(from), hands.balance(to));
        dice.dawdle();
        hands.transfer(from, to);
        let status = hands.connection.speculation_status();
        assert!(status.speculating && !status.overflowed, "{who}: {status:?}");
        dice.dawdle();
        assert_eq!(hands.balance(from), seen.0 - 5, "{who}: its own write");
        if dice.below(10) == 0 {
            hands.connection.execute("ROLLBACK").expect("rolls back");
            counts.abandoned += 1;
            continue;
        }
        if hands.is_promoted() {
            truth.tell((from, seen.0), (to, seen.1), &who);
            hands.connection.execute("COMMIT").expect("commits");
            counts.promoted += 1;
            counts.rows += 1;
            continue;
        }
        hands.connection.execute("ROLLBACK").expect("rolls back");
        hands.connection.arm_speculation(false);
        hands.connection.execute("BEGIN IMMEDIATE").expect("its turn");
        let now = (hands.balance(from), hands.balance(to));
        if now == seen {
            truth.tell((from, seen.0), (to, seen.1), &who);
            hands.transfer(from, to);
            hands.connection.execute("COMMIT").expect("commits");
            counts.replayed += 1;
            counts.rows += 1;
        } else {
            hands.connection.execute("ROLLBACK").expect("rolls back");
            counts.conflicts += 1;
        }
    }
    counts
}

/// A stock copy of SQLite in the same process; now and then it appends frames that it takes back.
fn write_as_stock(path: &Path, truth: &Truth, seed: u64, until: Instant) -> Counts {
    let who = format!("stock, seed {seed}");
    let (mut dice, mut counts) = (Dice::new(seed), Counts::default());
    let host = SqliteCopy::host().open(path);
    host.execute("pragma wal_autocheckpoint=0; pragma synchronous=off; pragma cache_size=10")
        .expect("set");
    let balance = |host: &sqlite_copy::Connection, account: usize| -> i64 {
        let sql = format!("select balance from account where id = {account}");
        host.execute(&sql).expect("reads")[0].parse().expect("a number")
    };
    while Instant::now() < until {
        std::thread::sleep(Duration::from_micros(dice.below(3_000)));
        let begun = Instant::now();
        while let Err(message) = host.execute("begin immediate") {
            assert!(message.contains("locked"), "{who}: {message}");
            assert!(begun.elapsed() < WAIT_MAX, "{who}: the write lock is lost");
            std::thread::sleep(Duration::from_micros(50));
        }
        let rows = if dice.below(4) == 0 { 60 } else { 1 };
        host.execute(&format!(
            "with s(x) as (select 1 union all select x + 1 from s where x < {rows})
             insert into log (filler) select zeroblob(400) from s"
        ))
        .expect("writes");
        if dice.below(3) == 0 {
            host.execute("rollback").expect("rolls back");
            continue;
        }
        let (from, to) = dice.two_accounts();
        truth.tell((from, balance(&host, from)), (to, balance(&host, to)), &who);
        host.execute(&format!(
            "update account set balance = balance - 5 where id = {from};
             update account set balance = balance + 5 where id = {to}; commit"
        ))
        .expect("commits");
        counts.stock += 1;
        counts.rows += rows;
    }
    counts
}

fn duration() -> Duration {
    let seconds = std::env::var(SECONDS).ok().map(|it| it.parse().expect("a number of seconds"));
    Duration::from_secs(seconds.unwrap_or(SECONDS_DEFAULT))
}

fn work(path: &Path, seed: u64) -> Counts {
    let truth = Truth::open(&path.with_extension("truth"));
    let until = Instant::now() + duration();
    let mut counts = Counts::default();
    std::thread::scope(|scope| {
        let truth = &truth;
        let mut threads: Vec<_> = (0..FORKING_THREADS)
            .map(|thread| scope.spawn(move || fork_and_promote(path, truth, seed + thread, until)))
            .collect();
        threads.push(scope.spawn(move || write_as_stock(path, truth, seed + 99, until)));
        for thread in threads {
            counts.add(thread.join().expect("a thread's story"));
        }
    });
    counts
}

fn spawn_worker(path: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("a test knows its binary"))
        .args([TEST, "--exact", "--nocapture", "--test-threads=1"])
        .env(WORKER, format!("{seed} {}", path.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test binary starts again")
}

/// The invariant of the speculative transaction: whatever is promoted was true when it committed. Threads of several
/// processes transfer between accounts; whoever holds the write lock checks what it has read against a
/// common truth, and says what it commits. Stock writers append and take back frames meanwhile, and the
/// checkpointer copies and restarts the WAL.
#[test]
fn transfers_are_never_lost_or_torn() {
    if let Ok(worker) = std::env::var(WORKER) {
        let (seed, path) = worker.split_once(' ').expect("a seed and a path");
        let mut counts = work(Path::new(path), seed.parse().expect("a number"));
        println!("\ncounts {:?}", counts.fields());
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path: PathBuf = directory.path().join("race.db");
    let keeper = Connection::open(&path, OpenMode::ReadWriteCreate, false).expect("opens");
    keeper
        .execute(&format!(
            "PRAGMA page_size=512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
             CREATE TABLE account (id INTEGER PRIMARY KEY, balance, filler);
             CREATE TABLE log (id INTEGER PRIMARY KEY, filler);
             WITH s(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM s WHERE x < {ACCOUNTS})
             INSERT INTO account SELECT x, {BALANCE}, zeroblob(200) FROM s"
        ))
        .expect("accounts");
    let truth = Truth::open(&path.with_extension("truth"));
    truth.words[1..].iter().for_each(|word| word.store(BALANCE, SeqCst));

    let seed = u64::from(std::process::id()) * 1_000;
    let mut workers: Vec<_> =
        (0..PROCESSES).map(|process| spawn_worker(&path, seed + 100 * process)).collect();
    keeper.set_busy_handler(Some(|tries| {
        std::thread::sleep(Duration::from_micros(50));
        if tries < 400 { Progress::Continue } else { Progress::Stop }
    }));
    let (mut checkpoints, mut restarts, mut turn) = (0, 0, 0_u64);
    let until = Instant::now() + duration() + WAIT_MAX;
    while workers.iter_mut().any(|it| it.try_wait().expect("a child of ours").is_none()) {
        assert!(Instant::now() < until, "the workers do not end");
        turn += 1;
        let mode =
            if turn.is_multiple_of(7) { CheckpointMode::Restart } else { CheckpointMode::Passive };
        match keeper.checkpoint(mode) {
            Ok(_) if mode == CheckpointMode::Restart => restarts += 1,
            Ok(_) => checkpoints += 1,
            Err(error) => assert!(error.code.is_busy(), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(4));
    }

    let mut counts = Counts::default();
    for worker in workers {
        let output = worker.wait_with_output().expect("a child of ours");
        let told = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {told}\n{complaint}");
        let line = told.lines().find_map(|line| line.strip_prefix("counts ")).expect("its counts");
        let mut one = Counts::default();
        let numbers =
            line.trim_matches(['[', ']']).split(", ").map(|it| it.parse().expect("a number"));
        one.fields().into_iter().zip(numbers).for_each(|(field, number)| *field = number);
        counts.add(one);
    }
    println!("seed {seed}: {counts:?}, {checkpoints} passive checkpoints, {restarts} restarts");
    let fresh = Connection::open(&path, OpenMode::ReadWrite, false).expect("opens");
    for (account, word) in truth.words.iter().enumerate().skip(1) {
        let sql = format!("SELECT balance FROM account WHERE id = {account}");
        assert_eq!(fresh.query_integer(&sql), Ok(word.load(SeqCst)), "seed {seed}: {account}");
    }
    let sum = fresh.query_integer("SELECT sum(balance) FROM account").expect("reads");
    assert_eq!(sum, ACCOUNTS as i64 * BALANCE, "seed {seed}");
    let rows = fresh.query_integer("SELECT count(*) FROM log").expect("reads");
    assert_eq!(rows, counts.rows, "seed {seed}: no commit is lost, none is there twice");
    assert_eq!(text(&fresh, "PRAGMA integrity_check"), "ok", "seed {seed}");
    let seen = other_process(&path, "pragma integrity_check; select count(*) from log");
    assert_eq!(seen, Ok(vec!["ok".into(), rows.to_string()]), "seed {seed}");
    for (count, what) in [
        (counts.promoted, "promotion"),
        (counts.replayed, "replay"),
        (counts.conflicts, "conflict"),
        (counts.stock, "stock commit"),
        (restarts, "restart"),
    ] {
        assert_ne!(count, 0, "seed {seed}: not one {what}: this proves nothing");
    }
}
