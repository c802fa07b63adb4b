//! The writer: one thread that waits for all writes of the tasks, as a client of the queue.
//!
//! | a write is    | while                                        | it moves on when                            |
//! |---------------|----------------------------------------------|---------------------------------------------|
//! | arrived       | no slot is free, or the thread must look first | the thread, or its own task, publishes it |
//! | published     | it waits in the queue                        | it is answered, or is the oldest            |
//! | in hand       | the thread waits for it alone, and may lead  | its fate is known                           |
//!
//! A task publishes its write itself while the thread is awake, so that a leader, of whatever process, finds
//! it at once. Answers come in the order of tickets, so the thread that waits for the oldest write misses no other:
//! when it wakes up, it hands out all answers that are there. When it leads, it leads for the write in hand
//! ([`crate::commit::batch::serve`]), and with it for all that wait.
//!
//! What can go wrong: a leader executes a write that its task has given up. The write keeps its slot
//! until its answer is there, so it stays here until then.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use manyhands_queue::{Deadline, Kind, Lead, Published, Queue, SLOTS, Stage};

use super::call::{Call, Outcomes};
use super::known::KnownStatements;
use super::worker_pool::{IDLE, Worker};
use crate::commit::checkpoint;
use crate::commit::queue_client::{Fate, QueueClient};
use crate::commit::registry::FileHandle;
use crate::commit::request::Answer;
use crate::mutex::lock;
use crate::options::Settings;
use crate::session::interrupt::Interrupt;
use crate::{Database, Error};

/// How many slots the tasks of a process take at most: other processes must find some, too.
const PUBLISHED_MAX: usize = SLOTS / 4;

/// How many they take at least when many processes want some.
const PUBLISHED_MIN: usize = 32;

/// How often the share is looked at.
const SHARE_EVERY: Duration = Duration::from_millis(10);

/// The slots that the tasks of this process may take. Halved while somebody finds none, and raised step by step
/// otherwise: processes that do so come to equal shares, however many they are and whichever was first.
struct Share {
    slots: usize,
    looked: Instant,
}

impl Share {
    fn look(&mut self, queue: &Queue) -> usize {
        if self.looked.elapsed() >= SHARE_EVERY {
            self.looked = Instant::now();
            self.slots = match queue.was_full_within(SHARE_EVERY) {
                true => (self.slots / 2).max(PUBLISHED_MIN),
                false => (self.slots + PUBLISHED_MIN).min(PUBLISHED_MAX),
            };
        }
        self.slots
    }
}

impl Default for Share {
    fn default() -> Share {
        Share { slots: PUBLISHED_MAX, looked: Instant::now() }
    }
}

/// A write that travels, until it is answered.
pub(crate) struct Write {
    pub(crate) call: Call,
    /// The request.
    pub(crate) bytes: Vec<u8>,
    /// The columns of each statement.
    pub(crate) columns: Vec<Arc<[String]>>,
}

impl Write {
    fn is_given_up(&self) -> bool {
        self.call.reply.is_closed()
    }

    fn answer(self, answer: Result<Answer, Error>) {
        let outcomes = answer.and_then(|answer| self.outcomes(answer));
        self.call.answer(outcomes);
    }

    fn outcomes(&self, answer: Answer) -> Outcomes {
        let outcomes = answer.into_outcomes(&self.columns, |_| {});
        outcomes.map_err(|error| self.call.statements.blame(error))
    }
}

/// A write in the queue.
struct Sent {
    write: Box<Write>,
    published: Published,
    queue: Arc<Queue>,
}

/// The write that the thread waits for.
struct InHand {
    write: Box<Write>,
    published: Option<(Published, Arc<Queue>)>,
    given_up: Arc<Interrupt>,
}

pub(crate) struct Writer {
    file: FileHandle,
    database: Database,
    known: Arc<KnownStatements>,
    state: Mutex<State>,
    wake_up: Condvar,
}

/// Held for moments only: nobody waits, or calls SQLite, while holding it.
#[derive(Default)]
struct State {
    /// Where to publish. `None` while the thread has not looked whether the queue may be used.
    queue: Option<Arc<Queue>>,
    /// In the order of calls.
    arrived: BTreeMap<u64, Box<Write>>,
    /// In the order of tickets.
    published: VecDeque<Sent>,
    share: Share,
    /// The call in hand, and the flag by which it is given up.
    in_hand: Option<(u64, Arc<Interrupt>)>,
    /// There is a thread.
    runs: bool,
    closed: bool,
}

impl State {
    /// Publishes the write, if there is a place for it; otherwise gives it back.
    fn publish(&mut self, write: Box<Write>, settings: &Settings) -> Option<Box<Write>> {
        // The thread waits for a reader that is in the way.
        let has_room = |queue: &Queue| checkpoint::has_room(queue, settings.wal_bytes_limit);
        let share = &mut self.share;
        let may = |queue: &&Arc<Queue>| {
            queue.is_sound() && self.published.len() < share.look(queue) && has_room(queue)
        };
        let Some(queue) = self.queue.as_ref().filter(may) else { return Some(write) };
        let at_once = Deadline::after(Duration::ZERO);
        let Some(mut claim) = queue.claim(at_once) else { return Some(write) };
        // All places for large requests are taken: it is executed in its turn.
        let kind = if claim.write(&write.bytes, 0) { Kind::Request } else { Kind::Turn };
        let Ok(published) = claim.publish(kind, &settings.label) else { return Some(write) };
        let queue = Arc::clone(queue);
        self.published.push_back(Sent { write, published, queue });
        None
    }

    fn publish_arrived(&mut self, settings: &Settings) {
        while let Some((number, write)) = self.arrived.pop_first() {
            if write.is_given_up() {
                continue;
            }
            if let Some(write) = self.publish(write, settings) {
                self.arrived.insert(number, write);
                return;
            }
        }
    }

    /// Takes the next write in hand: the oldest.
    fn take_in_hand(&mut self) -> Option<InHand> {
        let (write, published) = match self.published.pop_front() {
            Some(Sent { write, published, queue }) => (write, Some((published, queue))),
            None => (self.arrived.pop_first()?.1, None),
        };
        let given_up = Arc::new(Interrupt::default());
        if write.is_given_up() {
            given_up.ask();
        }
        self.in_hand = Some((write.call.number, Arc::clone(&given_up)));
        Some(InHand { write, published, given_up })
    }
}

impl Writer {
    pub(crate) fn new(
        file: FileHandle,
        database: &Database,
        known: &Arc<KnownStatements>,
    ) -> Arc<Writer> {
        let (state, wake_up) = (Mutex::default(), Condvar::new());
        let (database, known) = (database.clone(), Arc::clone(known));
        Arc::new(Writer { file, database, known, state, wake_up })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever panicked, each write is in one place.
        lock(&self.state)
    }

    fn label(&self) -> &str {
        &self.database.settings.label
    }

    /// Sends a write to the queue.
    pub(crate) fn submit(self: &Arc<Writer>, write: Box<Write>) {
        let number = write.call.number;
        let mut state = self.lock();
        if write.is_given_up() {
            return;
        }
        // No write overtakes one that waits for a slot.
        let waits = !state.arrived.is_empty();
        let left = if waits { Some(write) } else { state.publish(write, &self.database.settings) };
        let Some(write) = left else { return };
        state.arrived.insert(number, write);
        let starts = !state.runs;
        state.runs = true;
        drop(state);
        if !starts {
            self.wake_up.notify_one();
            return;
        }
        let writer = Arc::clone(self);
        let thread = thread::Builder::new().name("manyhands-write".to_string());
        if thread.spawn(move || writer.work()).is_err() {
            let mut state = self.lock();
            state.runs = false;
            let lost = core::mem::take(&mut state.arrived);
            drop(state);
            // The tasks that wait for them learn that they are gone.
            drop(lost);
        }
    }

    /// Takes a call back whose task does not wait any more.
    pub(crate) fn give_up(&self, number: u64) {
        let mut state = self.lock();
        if let Some((in_hand, given_up)) = &state.in_hand
            && *in_hand == number
        {
            given_up.ask();
        }
        let arrived = state.arrived.remove(&number);
        let sent = state.published.iter_mut().position(|sent| sent.write.call.number == number);
        let sent = sent
            .filter(|&place| state.published[place].published.withdraw())
            .and_then(|place| state.published.remove(place));
        drop(state);
        drop((arrived, sent));
    }

    /// Lets the thread end when all fates are known.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake_up.notify_all();
    }

    fn work(&self) {
        let mut worker = Worker::new(&self.database);
        while let Some(in_hand) = self.next() {
            self.see_to(in_hand, &mut worker);
            self.hand_out_answers();
            // Answered tasks go on meanwhile. Nobody else waits for the remaining writes.
            self.file.checkpoint.copy_beside(&self.file);
        }
    }

    /// The next write to wait for; `None` when the thread is to end.
    fn next(&self) -> Option<InHand> {
        let mut may_end = false;
        loop {
            // Outside the lock: it looks at files, and may join a new queue.
            let deadline = Deadline::after(self.database.settings.timeout);
            let queue = self.file.sound_queue(deadline).ok();
            let mut state = self.lock();
            state.in_hand = None;
            state.queue = queue;
            state.publish_arrived(&self.database.settings);
            if let Some(in_hand) = state.take_in_hand() {
                return Some(in_hand);
            }
            state.queue = None;
            if state.closed || may_end {
                state.runs = false;
                return None;
            }
            let waited =
                self.wake_up.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner).1;
            may_end = waited.timed_out();
        }
    }

    /// Waits for the fate of one write, and answers it.
    fn see_to(&self, in_hand: InHand, worker: &mut Worker) {
        let InHand { write, published, given_up } = in_hand;
        let result =
            worker.attempt(|worker| match self.await_fate(&write, published, &given_up)? {
                Fate::Answer(answer) => write.outcomes(answer),
                Fate::Turn(lead) => self.execute_in_turn(&write, lead, worker),
            });
        // Nobody waits for it any more.
        let _ = write.call.reply.send(result);
    }

    /// The client whose write this is.
    fn client<'a>(&'a self, write: &Write, interrupt: &'a Interrupt) -> QueueClient<'a> {
        QueueClient {
            gives_way: false,
            file: &self.file,
            label: self.label(),
            began: write.call.began,
            deadline: write.call.deadline,
            wal_bytes_limit: self.database.settings.wal_bytes_limit,
            interrupt,
        }
    }

    fn await_fate(
        &self,
        write: &Write,
        published: Option<(Published, Arc<Queue>)>,
        given_up: &Interrupt,
    ) -> Result<Fate, Error> {
        let client = self.client(write, given_up);
        if let Some((published, queue)) = published
            && let Some(settled) = client.await_fate(&queue, published)?
        {
            return Ok(settled);
        }
        client.submit(Kind::Request, &write.bytes)
    }

    /// The leader could not execute it: it is executed here, in the turn.
    fn execute_in_turn(&self, write: &Write, lead: Lead, worker: &mut Worker) -> Outcomes {
        // The answers of those before it need not wait for it.
        self.hand_out_answers();
        let connection = worker.connection()?;
        let statements = &write.call.statements;
        statements.list.iter().for_each(|(sql, _)| self.known.forget(sql));
        match statements.list.as_slice() {
            _ if write.is_given_up() => Ok(Vec::new()),
            [(sql, values)] if statements.single => {
                let mut prepared = connection.take_prepared(sql)?;
                let outcome = connection.step_leading(&mut prepared, values, lead);
                connection.put_back(prepared);
                outcome.map(|outcome| vec![outcome])
            }
            _ => {
                connection.hold_all(Some(lead))?;
                connection.batch_in_turn(&statements.borrowed())
            }
        }
    }

    /// Hands out the answers that are there: the first published ones.
    fn hand_out_answers(&self) {
        let mut answered = Vec::new();
        let mut state = self.lock();
        while let Some(sent) = state.published.pop_front() {
            if sent.published.stage() != Stage::Answered {
                state.published.push_front(sent);
                break;
            }
            answered.push(sent);
        }
        drop(state);
        // The slots are freed first, for writes that wait for one.
        let answers = answered.into_iter().map(|Sent { write, published, queue }| {
            let answer = self.client(&write, &Interrupt::default()).answer(&queue, published);
            (write, answer)
        });
        let answers: Vec<(Box<Write>, Result<Answer, Error>)> = answers.collect();
        for (write, answer) in answers {
            write.answer(answer);
        }
    }
}
