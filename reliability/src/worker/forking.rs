//! A process that forks in every state: while a thread of its own stands at a crash point, in the middle of its
//! transactions, with cursors and blobs open, while databases are attached and detached, while tasks write.
//!
//! Each time several children are made, all in the same state (see `child`). Meanwhile this process goes on: its
//! threads write, what was open at a fork is committed or read to its end, and it says `reached POINT` of each
//! state in which it has forked, `forked DEED` of each child that ended well, `lingers PID` of the one that stays,
//! and `round` when there is nothing left to do but to end, or, at `go`, to wait with its locks for its death:
//! then it says `holding`. `wrong TEXT` is a finding.

mod child;
mod moments;

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context as TaskContext, Poll, Waker};
use core::time::Duration;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use fork::Fork;
use manyhands::aio::AsyncDatabase;
use manyhands::{BlobPlace, Connection, Database, Error, params};
use rustix::process::{Pid, Signal, kill_process};

pub use self::child::RELEASE;
use self::child::{Deed, Inherited};
use self::moments::Moments;
use super::hand::Hand;
use super::{Arguments, Orders, say};

/// How long a child may take: longer than it waits for its turn.
const CHILD_PATIENCE: Duration = Duration::from_secs(90);

/// So long all points are waited for.
const ROUND: Duration = Duration::from_secs(60);

/// How long the states of the connections last, when nobody arrives at a point; when a death is waited for, longer
/// than its discovery takes.
const STATE: Duration = Duration::from_millis(20);
const DEATH: Duration = Duration::from_millis(300);

/// How often it forks while everybody works, and in its own turn.
const ANYWHERE: u32 = 4;
const TURNS: u32 = 2;

/// Points that are passed when another process dies.
const BY_A_DEATH: [&str; 2] = ["recovering", "recovered"];

const TASKS: usize = 8;
const TABLES: &str = "CREATE TABLE IF NOT EXISTS task (n);
    CREATE TABLE IF NOT EXISTS large (id INTEGER PRIMARY KEY, content BLOB);
    INSERT OR IGNORE INTO large VALUES (1, zeroblob(20000)), (2, x'00')";

/// What the thread that forks has open.
struct Inventory {
    database: Database,
    tasks: AsyncDatabase,
    idle: Connection,
    /// Of transactions before their first write, after it, and in their turn.
    before: Hand,
    after: Hand,
    turn: Hand,
}

/// What all threads of this process know.
struct Stage<'a> {
    job: &'a Arguments,
    orders: &'a Orders,
    /// There while the database is open, and locked while it is used.
    inventory: Mutex<Option<Inventory>>,
    is_closed: AtomicBool,
}

/// A child.
struct Forked {
    pid: i32,
    deed: Deed,
    point: &'static str,
    since: Instant,
}

/// The thread that forks.
struct Forker<'a> {
    job: &'a Arguments,
    moments: Moments,
    dice: Rng,
    began: Instant,
    children: Vec<Forked>,
    count: i64,
    anywhere: u32,
    turns: u32,
    /// What is left to do once.
    once: Vec<Deed>,
    said_round: bool,
}

/// Does the job.
pub fn run(job: &Arguments, orders: &Orders) -> Result<()> {
    let moments = Moments::draw(job.seed);
    let stage =
        Stage { job, orders, inventory: Mutex::new(None), is_closed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let forker = scope.spawn(|| Forker::new(job, moments).work(&stage));
        let worked = work(&stage);
        stage.is_closed.store(true, Ordering::Release);
        forker.join().expect("the thread that forks panicked");
        worked
    })?;
    say("end");
    Ok(())
}

fn open(job: &Arguments, label: &str) -> Result<Database> {
    let timeout = Duration::from_millis(job.timeout_ms);
    let builder = Database::builder(&job.database).timeout(timeout).label(label);
    builder.open().context("open the database")
}

fn lock<'a>(inventory: &'a Mutex<Option<Inventory>>) -> MutexGuard<'a, Option<Inventory>> {
    inventory.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All but the forks.
fn work(stage: &Stage<'_>) -> Result<()> {
    let Stage { job, orders, .. } = *stage;
    let database = open(job, "forker")?;
    let mut idle = database.connect()?;
    idle.execute_script(TABLES)?;
    let hand = |writer| Hand::new(&database, job.number * 100 + writer, job.seed);
    let (before, after, turn) = (hand(10)?, hand(11)?, hand(12)?);
    let tasks = database.tokio()?;
    let mine = Inventory { database: database.clone(), tasks, idle, before, after, turn };
    *lock(&stage.inventory) = Some(mine);
    say("ready");
    std::thread::scope(|scope| {
        let hands = (0..job.threads).map(|thread| {
            let database = &database;
            scope.spawn(move || super::write(database, job, thread, orders))
        });
        let mut threads: Vec<_> = hands.collect();
        threads.push(scope.spawn(|| spawn_tasks(&database, orders)));
        threads.push(scope.spawn(|| come_and_go(&database, &job.database, orders)));
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.expect("a thread beside the forks panicked"))
    })?;
    // This thread is the last to let go of it.
    drop(lock(&stage.inventory).take());
    drop(database);
    Ok(())
}

/// Holds the turn, and reads, until `go`.
fn hold(Inventory { idle, turn, .. }: &mut Inventory, orders: &Orders) {
    let mut cursor = idle.cursor("SELECT n FROM counter", &[]);
    let _ = cursor.as_mut().map(|cursor| cursor.next_row());
    turn.pair_with("BEGIN IMMEDIATE", true, |_| {
        say("holding");
        let _ = orders.wait_for_go();
    });
}

/// Writes in several tasks at once. Nobody else writes to their table.
fn spawn_tasks(database: &Database, orders: &Orders) -> Result<()> {
    type Task<'a> = Pin<Box<dyn Future<Output = Result<manyhands::Outcome, Error>> + 'a>>;
    let tasks = database.tokio()?;
    let begin = || -> Task<'_> { Box::pin(tasks.execute("INSERT INTO task VALUES (1)", &[])) };
    let (mut running, mut acked): (Vec<Task<'_>>, i64) = ((0..TASKS).map(|_| begin()).collect(), 0);
    let mut context = TaskContext::from_waker(Waker::noop());
    while let Some(mut task) = running.pop() {
        match task.as_mut().poll(&mut context) {
            Poll::Pending => running.insert(0, task),
            Poll::Ready(outcome) => {
                outcome.context("a task")?;
                acked += 1;
                if !orders.is_stopped() {
                    running.insert(0, begin());
                }
            }
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    let rows = count(&mut database.connect()?, "task")?;
    ensure!(rows == acked, "tasks have inserted {acked} rows, and {rows} are there");
    Ok(())
}

/// Attaches and detaches a database, opens and closes another one. Nobody else writes to them.
fn come_and_go(database: &Database, path: &Path, orders: &Orders) -> Result<()> {
    let [attached, other] = ["attached.db", "other.db"].map(|name| path.with_file_name(name));
    for path in [&attached, &other] {
        Database::open(path)?.connect()?.execute("CREATE TABLE visit (n)", &[])?;
    }
    let mut times = 0;
    while !orders.is_stopped() {
        let mut connection = database.connect()?;
        connection.execute("ATTACH ?1 AS other", params![attached.display().to_string()])?;
        connection.execute("INSERT INTO other.visit VALUES (1)", &[])?;
        connection.execute("DETACH other", &[])?;
        drop(connection);
        Database::open(&other)?.connect()?.execute("INSERT INTO visit VALUES (1)", &[])?;
        times += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    for path in [&attached, &other] {
        let rows = count(&mut Database::open(path)?.connect()?, "visit")?;
        ensure!(rows == times, "{times} visits, and {rows} rows in {}", path.display());
    }
    Ok(())
}

fn large() -> BlobPlace {
    let (schema, table, column) = ("main".into(), "large".into(), "content".into());
    BlobPlace { schema, table, column, rowid: 1 }
}

fn count(connection: &mut Connection, table: &str) -> Result<i64> {
    let rows = connection.query(&format!("SELECT count(*) FROM {table}"), &[])?;
    Ok(rows[0].get(0)?)
}

impl<'a> Forker<'a> {
    fn new(job: &'a Arguments, moments: Moments) -> Forker<'a> {
        Forker {
            job,
            moments,
            dice: Rng::with_seed(!job.seed),
            began: Instant::now(),
            children: Vec::new(),
            count: 0,
            anywhere: 0,
            turns: 0,
            once: vec![Deed::Forks, Deed::Lingers],
            said_round: false,
        }
    }

    fn work(mut self, stage: &Stage<'_>) {
        while !stage.is_closed.load(Ordering::Acquire) {
            match &mut *lock(&stage.inventory) {
                Some(inventory) if self.said_round => {
                    if stage.orders.is_told_to_go() {
                        hold(inventory, stage.orders);
                    }
                }
                Some(inventory) => {
                    if let Err(error) = self.fork_amid(inventory) {
                        say(&format!("wrong {error:#}"));
                    }
                }
                None => self.fork_beside(),
            }
            self.bury();
            self.say_round();
            if self.said_round {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        while !self.children.is_empty() {
            self.bury();
        }
    }

    /// Forks while somebody opens the database, or closes it.
    fn fork_beside(&mut self) {
        if let Some(arrival) = self.moments.next(STATE) {
            self.fork_all(arrival.point, None);
        }
    }

    /// Forks in the middle of own transactions.
    fn fork_amid(&mut self, inventory: &mut Inventory) -> Result<()> {
        let Inventory { database, tasks, idle, before, after, turn } = inventory;
        let mut cursor = idle.cursor("SELECT n FROM counter ORDER BY id", &[])?;
        let first = cursor.next_row()?;
        ensure!(first.is_some(), "the counters are gone");
        let mut blob = idle.open_blob(&large(), false)?;
        let (shown, opened) = (&mut cursor, &mut blob);
        let in_its_turn = self.turns < TURNS && self.dice.u32(..10) == 0;
        if in_its_turn {
            self.turns += 1;
            turn.pair_with("BEGIN IMMEDIATE", true, |turn| {
                let connections = vec![idle, turn.connection()];
                let inherited =
                    &mut Inherited { database, tasks, connections, cursor: shown, blob: opened };
                self.fork_all("in its turn", Some(inherited));
            });
        } else {
            before.pair_with("BEGIN CONCURRENT", false, |before| {
                after.pair_with("BEGIN CONCURRENT", true, |after| {
                    let connections = vec![idle, before.connection(), after.connection()];
                    let inherited = &mut Inherited {
                        database,
                        tasks,
                        connections,
                        cursor: shown,
                        blob: opened,
                    };
                    let only_deaths =
                        self.moments.left().iter().all(|point| BY_A_DEATH.contains(point));
                    let is_last = only_deaths && self.anywhere == ANYWHERE;
                    if let Some(arrival) = self.moments.next(if is_last { DEATH } else { STATE }) {
                        self.fork_all(arrival.point, Some(inherited));
                    } else if self.anywhere < ANYWHERE {
                        self.anywhere += 1;
                        self.fork_all("anywhere", Some(inherited));
                    }
                });
            });
        }
        let rest = core::iter::from_fn(|| cursor.next_row().transpose());
        let rest = rest.collect::<Result<Vec<_>, Error>>().context("the cursor after a fork")?;
        ensure!(rest.len() == 4, "the cursor had {} rows more after a fork", rest.len());
        blob.read_at(&mut [0; 100], 10_000).context("the blob after a fork")
    }

    /// Makes the children, all in one state.
    fn fork_all(&mut self, point: &'static str, mut inherited: Option<&mut Inherited<'_>>) {
        let end = *self.dice.choice(&[Deed::Exits, Deed::Dies, Deed::Executes]).expect("some");
        let mut deeds = vec![end, Deed::Uses, Deed::Opens];
        if inherited.is_some() && self.dice.u8(..4) == 0 {
            deeds.extend(self.once.pop());
        }
        for deed in deeds {
            self.count += 1;
            let writer = 10_000 + self.job.number * 1_000 + self.count;
            match fork::fork() {
                Ok(Fork::Child) => child::live(deed, self.job, writer, inherited.take()),
                Ok(Fork::Parent(pid)) if deed == Deed::Lingers => say(&format!("lingers {pid}")),
                Ok(Fork::Parent(pid)) => {
                    self.children.push(Forked { pid, deed, point, since: Instant::now() });
                }
                Err(error) => say(&format!("wrong fork: {error}")),
            }
        }
        say(&format!("reached {point}"));
    }

    /// Takes note of children that have ended.
    fn bury(&mut self) {
        self.children.retain(|Forked { pid, deed, point, since }| {
            let status = match fork::waitpid_nohang(*pid) {
                Ok(status) => status,
                Err(error) => {
                    say(&format!("wrong wait for a child: {error}"));
                    return false;
                }
            };
            match status {
                Some(status) if status == deed.status() => say(&format!("forked {deed:?}")),
                Some(status) => say(&format!("wrong {deed:?} at {point} ended with {status}")),
                None if since.elapsed() > CHILD_PATIENCE => {
                    say(&format!("wrong {deed:?} at {point} hangs"));
                    let _ = Pid::from_raw(*pid).map(|pid| kill_process(pid, Signal::KILL));
                    let _ = fork::waitpid(*pid);
                }
                None => return true,
            }
            false
        });
    }

    /// Says once that it has forked everywhere, or waited long enough, and that no child is left to wait for.
    fn say_round(&mut self) {
        let left = self.moments.left();
        let is_late = self.began.elapsed() > ROUND;
        let everywhere = left.is_empty()
            && (self.anywhere, self.turns) == (ANYWHERE, TURNS)
            && self.once.is_empty();
        if !self.said_round && (everywhere || is_late) && self.children.is_empty() {
            self.said_round = true;
            say(&format!("round {}", left.join(" ")));
        }
    }
}
