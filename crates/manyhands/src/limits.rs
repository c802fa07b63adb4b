//! Every bound of the engine, and its reason.

use core::time::Duration;

use manyhands_queue::QUANTUM_NS;

/// How long a write waits for its turn before it fails, unless the application says otherwise: what Python's `sqlite3`, Django,
/// Rails and others have chosen for SQLite, and what programs are written for. In a queue it is plenty: only a stuck
/// writer makes it pass.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a write waits at most for a turn that only its own thread can give back: SQLite's usual timeout. A signal handler
/// of the application's is all that could end that wait.
pub(crate) const OWN_THREAD_PATIENCE: Duration = Duration::from_secs(5);

/// How much of a statement an error tells, in characters.
pub(crate) const STATEMENT_TOLD_MAX: usize = 200;

/// How long a process waits for others that open or close the same database at the same moment, whatever its
/// timeout: SQLite alone would neither wait there nor fail. Each of them takes some milliseconds, and the first one as
/// long as another program makes it wait for the switch to WAL mode.
pub(crate) const JOIN_PATIENCE: Duration = Duration::from_secs(10);

/// How long a database may look as if it were open under another name before that is believed: a process that opens or closes it holds
/// one of two locks without the other for a moment.
pub(crate) const NAMES_PATIENCE: Duration = Duration::from_secs(1);

/// Requests that one batch executes at most. At 3 us each a batch then takes as long as some syncs:
/// a larger one would only make everybody in it wait.
pub(crate) const BATCH_REQUESTS_MAX: usize = 1024;
// A batch keeps the slots of its requests until it has committed: it must end before it waits for more.
const _: () = assert!(BATCH_REQUESTS_MAX < manyhands_queue::SLOTS);

/// How long a batch goes on taking requests, counted from its first.
pub(crate) const BATCH_TIME_MAX: Duration = Duration::from_millis(20);

/// How long a batch replays transactions at least, also where a commit takes less: to let the next leader
/// begin costs some 50 us.
pub(crate) const REPLAY_TIME_MIN: Duration = Duration::from_micros(250);

/// How long one request of a batch may run while others, executed before it, wait for the commit.
/// After it the request is executed alone, in its owner's turn.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_millis(20);

/// The same for the first request of a batch, which nobody's commit waits for, but everybody's turn: the
/// leader's own caller and all behind it. What takes longer is begun again in its owner's turn, at a cost
/// that is at most this, and its owner can interrupt it there.
pub(crate) const FIRST_REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

/// The largest text, BLOB or row that a leader makes for somebody else. What is larger is made by its
/// owner, in its turn: fifty bytes of SQL can ask for a gigabyte.
pub(crate) const REQUEST_VALUE_BYTES_MAX: i32 = 16 << 20;

/// How many virtual machine instructions pass between two looks at the clock: some 20 us.
pub(crate) const INSTRUCTIONS_PER_LOOK: u32 = 2000;

/// How long a waiter near the head sleeps before it asks whether the leader lives. Death is rare, and
/// a look costs a system call.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// The same, for a waiter far from the head: with a thousand of them, looking more often would take
/// the processor from the leader.
pub(crate) const PATIENCE_FAR: Duration = Duration::from_millis(150);
/// How often a waiting connection asks its owner whether to give up. SQLite's own handler sleeps 1 ms first
/// (`sqliteDefaultBusyCallback` in its `src/main.c`).
pub(crate) const GIVE_UP_STEP: Duration = Duration::from_millis(1);

/// Up to how many tickets from the head a waiter is near it.
pub(crate) const NEAR: u64 = 16;

/// How long a connection sleeps before it tries again for a lock that another SQLite program holds:
/// shorter than the program's own transaction, longer than a scheduler's tick at idle.
pub(crate) const BUSY_SLEEP: Duration = Duration::from_micros(200);

/// How many tries for the write lock follow each other before a leader sleeps for a moment ([`YIELD_STEP`]), and for how long
/// in its wait: a program that writes one commit after the other leaves the lock free for some microseconds between two of
/// them. A leader that shares a processor with that program meets such a moment when it wakes up.
pub(crate) const BUSY_TRIES: u32 = 32;
/// See [`BUSY_TRIES`].
pub(crate) const BUSY_TRIES_FOR: Duration = Duration::from_millis(50);

/// The largest values that a statement is deferred with until its transaction commits.
pub(crate) const INFALLIBLE_BYTES_MAX: usize = 64 << 10;

/// How many statements a transaction defers at most: a transaction with more loads in bulk, and may then need its turn.
pub(crate) const DEFERRED_WRITES_MAX: usize = 1000;

/// How soon a connection must want its next turn to count as one that comes back at once: to wake somebody else takes as long.
pub(crate) const COMEBACK: Duration = Duration::from_micros(50);

/// How often at most a connection must have come back at once before it is believed again that it does.
pub(crate) const COMEBACK_DOUBT_MAX: u32 = 64;
/// How long a connection that never waits waits for a place that is only reserved: a quantum, and a wake-up.
pub(crate) const RESERVATION_PATIENCE: Duration = Duration::from_nanos(5 * QUANTUM_NS);

/// WAL frames after which the leader checkpoints: SQLite's own default. With four times as many, every
/// load from 1 to 256 threads was slower: a file that grows costs more to sync than one that is
/// overwritten, and each checkpoint made everybody wait four times as long.
pub(crate) const CHECKPOINT_FRAMES: u32 = 1000;

/// How many frames the leader copies while others wait: that takes about as long as a commit.
pub(crate) const CHECKPOINT_FRAMES_SHORT: u32 = 100;

/// A reader that keeps fewer bytes of the WAL than this from being reused is not worth a line in the log.
pub(crate) const WAL_BYTES_NOTABLE: u64 = 64 << 20;

/// How long a writer that waits for a reader sleeps at first, and at most, before it looks again whether the
/// reader has ended: a reader that ends wakes nobody.
pub(crate) const WAL_PAUSE_MIN: Duration = Duration::from_millis(1);
/// See [`WAL_PAUSE_MIN`].
pub(crate) const WAL_PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long after its deadline a client tries to learn the fate of its write, which a dead leader had in hand,
/// while another SQLite program holds the write lock. Longer than such a program's usual transaction: then
/// the outcome is called unknown, for its whole batch.
pub(crate) const FATE_TIME_MAX: Duration = Duration::from_secs(5);

/// How often it is looked whether other SQLite programs have the database open, and whether the
/// database and the queue file are still where they were.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How often a connection to a database without a queue looks whether there is something to join.
pub(crate) const LOOK_INSIDE_EVERY: Duration = Duration::from_millis(20);

/// How long ago the database was last seen in its place when closing looks again. One that was deleted or
/// replaced later than that, and just before the last connection to it was closed, keeps its disk space until the
/// process opens another, or ends.
pub(crate) const LOOK_BEFORE_CLOSING: Duration = Duration::from_secs(1);

/// How long the leaders of a process hold the write lock, batch after batch, before they leave it free for other SQLite
/// programs that have the database open: less than such a program sleeps when it has met the lock for the first time.
pub(crate) const YIELD_QUANTUM: Duration = Duration::from_micros(450);

/// Which part of that time it is left free while nobody else is known to write: a program that polls, some 58 times in its
/// usual five seconds, must succeed with one in five tries for all of its writes to.
pub(crate) const YIELD_DIVISOR: u32 = 4;

/// How long it is left free for a program that writes one commit after the other, as a multiple of the time in which it was
/// held: between batches it is free as well, and that program asleep.
pub(crate) const YIELD_SHARE: f32 = 2.5;

/// How long it is left free at least for a program that has committed before to come again: SQLite sleeps a millisecond
/// when it has met the lock for the first time.
pub(crate) const YIELD_ARRIVAL: Duration = Duration::from_micros(1200);

/// How often it is left free in vain for a program that has committed before, each time twice as long, until nobody is
/// believed to write any more.
pub(crate) const YIELD_PATIENCE: u32 = 4;

/// The longest of these free times.
pub(crate) const YIELD_MAX: Duration = Duration::from_millis(50);

/// How often it is looked meanwhile whether it has committed, and for how long it must not have to be taken for one that
/// has nothing more to write.
pub(crate) const YIELD_STEP: Duration = Duration::from_micros(20);
/// See [`YIELD_STEP`].
pub(crate) const YIELD_QUIET: Duration = Duration::from_micros(500);

/// Rows of a query that are fetched for a task at a time: to change to a thread and back costs as much as some dozens of rows.
#[cfg(feature = "tokio")]
pub(crate) const ASYNC_ROWS_MAX: usize = 256;

/// No more are fetched at a time once they take so many bytes.
#[cfg(feature = "tokio")]
pub(crate) const ASYNC_ROW_BYTES_MAX: usize = 1 << 18;

/// Compiled statements that a connection keeps; the least recently used one goes first.
pub(crate) const STATEMENTS_CACHED: usize = 128;
/// A connection that limits its values to fewer bytes than this executes its writes itself.
pub(crate) const LENGTH_LIMIT_KEPT_HERE: i32 = 100 << 20;
/// A longer text, usually a script of which one statement after the other is compiled, is not looked for among the compiled ones.
pub(crate) const TEXT_LOOKED_FOR_BYTES_MAX: usize = 2048;

/// How many times the memory of a speculative transaction the rows may take that a cursor has not shown yet when its
/// transaction writes or ends: no more than an application that read them all at once would need.
pub(crate) const CURSOR_FACTOR: usize = 16;

/// How many statements a lazy transaction has at most; with more it begins, as what loads in bulk.
pub(crate) const LAZY_WRITES_MAX: usize = 64;

/// After how many statements that write a transaction of mode Auto counts as a bulk load: it goes on in its turn, where a row
/// costs half as much, if nobody waits.
pub(crate) const BURST_STATEMENTS: usize = 32;

/// How long a transaction waits before a read if nobody knows whether a write will follow, and the first transaction of its kind is
/// under way: longer than most take, also in a server that has just been started. A transaction that only reads waits so long at most
/// once.
pub(crate) const FIRST_WAIT_MAX: Duration = Duration::from_millis(500);
/// How often it looks meanwhile.
pub(crate) const FIRST_WAIT_STEP: Duration = Duration::from_micros(500);

/// How long a transaction that has only read so far waits for its turn with its snapshot in hand, before it does a read after which
/// similar transactions have written. That is enough for a queue of a hundred short transactions; no longer, since a checkpoint may
/// wait for the snapshot.
pub(crate) const EARLY_TURN_WAIT_MAX: Duration = Duration::from_millis(500);

/// How much memory a speculative transaction may take, unless the application says otherwise. A quarter
/// of it is for the log, the rest for pages.
pub(crate) const SPECULATION_BYTES_MAX: usize = 16 << 20;

/// How often an interrupted ROLLBACK is executed again. One interrupt comes once; an application that goes on interrupting gets the
/// error.
pub(crate) const INTERRUPTS_OUTLIVED: usize = 3;

/// How many instructions a statement runs between two checks whether it is to end: some tens of
/// microseconds, and less than a thousandth of them for the check.
pub(crate) const CHECK_INSTRUCTIONS: u32 = 4000;
