//! The way of a write: from the client to the commit, read downward. A write waits for its fate in `QueueClient::wait`.
//!
//! 1. If nobody leads and nobody waits, the client leads itself ([`QueueClient::lead_if_idle`]), and steps its own
//!    statement on its own connection, as it would without Manyhands.
//! 2. Otherwise the request is published, and waits ([`QueueClient::submit`]). Whenever the leader's place is free,
//!    a waiting client takes it, and executes everybody's requests ([`crate::commit::batch::serve`]).
//! 3. A request that only its owner can execute is a *turn*: it waits in the same queue, and then its owner leads.

use std::sync::Arc;
use std::time::Instant;

use manyhands_queue::{
    Count, Deadline, Kind, Lead, Orphan, Published, Queue, Stage, Waited, planted,
};

use manyhands_sqlite::vfs::CHECKPOINT_LOCK_BYTE;

use crate::Error;
use crate::commit::batch;
use crate::commit::file::DatabaseFile;
use crate::commit::recover;
use crate::commit::request::{self, Answer};
use crate::error::ErrorKind;
use crate::limits;
use crate::session::interrupt::Interrupt;

/// A client that wants to write.
pub(crate) struct QueueClient<'a> {
    pub(crate) file: &'a DatabaseFile,
    pub(crate) label: &'a str,
    pub(crate) began: Instant,
    pub(crate) deadline: Deadline,
    /// How many bytes of the WAL a reader may keep from being reused before a write waits; `u64::MAX` for any number.
    pub(crate) wal_bytes_limit: u64,
    /// Ends the wait.
    pub(crate) interrupt: &'a Interrupt,
    /// The client holds a snapshot. It stops waiting when another connection checkpoints, since that may wait for the snapshot.
    pub(crate) gives_way: bool,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Fate {
    /// A leader executed it.
    Answer(Answer),
    /// The client leads, and executes it itself.
    Turn(Lead),
}

impl QueueClient<'_> {
    /// Leads at once, if nobody leads, nobody waits, and there is no orphaned batch.
    pub(crate) fn lead_if_idle(&self) -> Result<Option<Lead>, Error> {
        let queue = self.file.sound_queue(self.deadline)?;
        if !queue.is_idle() || self.lacks_room(&queue) {
            return Ok(None);
        }
        let Some(lead) = queue.try_lead(self.label) else { return Ok(None) };
        // A client that came in between is first. To resolve an orphaned batch takes SQLite's write lock: that is for clients that
        // wait.
        let idle = lead.orphan() == Orphan::Nothing && lead.next(None).is_none();
        Ok(idle.then_some(lead))
    }

    /// Waits for the turn.
    pub(crate) fn take_turn(&self) -> Result<Lead, Error> {
        loop {
            if let Some(lead) = self.lead_if_idle()? {
                return Ok(lead);
            }
            if let Fate::Turn(lead) = self.submit(Kind::Turn, &[])? {
                return Ok(lead);
            }
        }
    }

    /// Publishes a request and waits for its fate.
    ///
    /// # Errors
    /// The deadline passed, the application interrupted, or leading failed. Nothing was written then.
    pub(crate) fn submit(&self, kind: Kind, request: &[u8]) -> Result<Fate, Error> {
        loop {
            let queue = self.file.sound_queue(self.deadline)?;
            self.wait_for_room(&queue)?;
            let Some(published) = self.publish(&queue, kind, request)? else { continue };
            if let Some(settled) = self.await_fate(&queue, published)? {
                return Ok(settled);
            }
        }
    }

    /// Waits for the fate of a published request; `None` when it is to be published again.
    ///
    /// # Errors
    /// See [`QueueClient::submit`].
    pub(crate) fn await_fate(
        &self,
        queue: &Arc<Queue>,
        mut published: Published,
    ) -> Result<Option<Fate>, Error> {
        match self.wait(queue, &mut published)? {
            End::Answered
                if planted("publish-again")
                    && self.began.elapsed().as_nanos().is_multiple_of(8) =>
            {
                self.answer(queue, published).map(|_| None)
            }
            End::Answered => self.answer(queue, published).map(Fate::Answer).map(Some),
            End::Turn(lead) => Ok(Some(Fate::Turn(lead))),
            End::Again => Ok(None),
        }
    }

    /// The answer to an answered request.
    pub(crate) fn answer(&self, queue: &Queue, published: Published) -> Result<Answer, Error> {
        let answer = published.into_answer();
        let answer = answer.as_deref().and_then(request::decode_answer);
        if let Some(Answer::Done(_) | Answer::Replayed(_)) = answer {
            queue.count(Count::Commit);
        }
        answer.ok_or_else(|| self.outcome_unknown())
    }

    /// Publishes a request; `None` when the queue must be left for a new one.
    fn publish(
        &self,
        queue: &Arc<Queue>,
        kind: Kind,
        request: &[u8],
    ) -> Result<Option<Published>, Error> {
        loop {
            if !queue.is_sound() {
                return Ok(None);
            }
            let Some(mut claim) = queue.claim(self.deadline) else {
                self.check(queue, u64::MAX)?;
                continue;
            };
            // All places for large requests are taken: the owner executes it in its turn.
            let kind = if claim.write(request, 0) { kind } else { Kind::Turn };
            match claim.publish(kind, self.label) {
                Ok(published) => return Ok(Some(published)),
                // The ring is full of requests that were withdrawn: a leader clears it.
                Err(_) => {
                    self.check(queue, u64::MAX)?;
                    let lead = queue.try_lead(self.label);
                    if let Some(mut lead) = lead.or_else(|| queue.try_take_over(self.label)) {
                        recover::resolve_orphan(self.file, &mut lead, self.deadline)?;
                        lead.release();
                    }
                    std::thread::sleep(limits::BUSY_SLEEP);
                }
            }
        }
    }

    /// Waits until the request's fate is known, and leads whenever nobody does.
    fn wait(&self, queue: &Arc<Queue>, published: &mut Published) -> Result<End, Error> {
        // Another client was called to lead, and has not come.
        let mut impatient = false;
        let mut checkpoints_seen = 0;
        loop {
            match published.stage() {
                Stage::Answered => return Ok(End::Answered),
                Stage::PassedOver => return Ok(End::Again),
                Stage::Gone => return self.lost(queue, published),
                Stage::Waiting | Stage::MustLead => {
                    if (impatient || published.may_lead())
                        && let Some(lead) = queue.try_lead(self.label)
                        && let Some(lead) = self.serve(lead, published)?
                    {
                        return Ok(End::Turn(lead));
                    }
                }
                Stage::Executing => {}
            }
            if !queue.is_sound()
                && let Some(end) = self.leave(published)?
            {
                return Ok(end);
            }
            // One that a leader executes at this moment cannot be withdrawn: its fate comes.
            let passed = self.deadline.has_passed() && !planted("deadline-ignored");
            let gives_way = checkpoints_seen > 1;
            let asked = self.interrupt.is_asked();
            let given_up = !passed && !gives_way && !asked && self.interrupt.gives_up();
            let over = passed || gives_way || asked || given_up;
            if over && published.stage() != Stage::Answered {
                let ahead = published.tickets_ahead();
                if published.withdraw() {
                    self.check(queue, ahead)?;
                    if gives_way || given_up {
                        return Err(self.timed_out(queue, ahead));
                    }
                    return Ok(End::Again);
                }
            }
            let until = if over {
                Deadline::after(limits::PATIENCE)
            } else if self.interrupt.may_give_up() {
                self.deadline.or_after(limits::GIVE_UP_STEP)
            } else {
                self.deadline
            };
            let progress = queue.progress();
            let near = published.tickets_ahead() <= limits::NEAR;
            let patience = if near { limits::PATIENCE } else { limits::PATIENCE_FAR };
            let waited = published.wait(until, patience);
            // Also after the deadline: if the leader has died, somebody must resolve its batch.
            impatient = waited != Waited::Changed && queue.progress() == progress;
            if impatient && self.gives_way {
                // One that is short is over at the second look.
                let checkpoints = self.file.checkpoint.is_asked()
                    || self.file.lock_holder(CHECKPOINT_LOCK_BYTE).is_some();
                checkpoints_seen = if checkpoints { checkpoints_seen + 1 } else { 0 };
            }
            if impatient
                && let Some(lead) = queue.try_take_over(self.label)
                && let Some(lead) = self.serve(lead, published)?
            {
                return Ok(End::Turn(lead));
            }
        }
    }

    /// Somebody overwrote the request's slot. It may have been executed before, and answered there.
    fn lost(&self, queue: &Queue, published: &Published) -> Result<End, Error> {
        queue.retire();
        // No leader executes what asked for its turn.
        if published.is_turn() { Ok(End::Again) } else { Err(self.outcome_unknown()) }
    }

    fn serve(&self, lead: Lead, published: &mut Published) -> Result<Option<Lead>, Error> {
        let queue = Arc::clone(lead.queue());
        batch::serve(self.file, lead, published, self.deadline).or_else(|error| {
            // Our own request may have been answered by then, or be in a batch that another leader
            // must resolve.
            if published.withdraw() {
                Err(error)
            } else if self.deadline.extended(limits::FATE_TIME_MAX).has_passed()
                && published.stage() == Stage::Executing
            {
                // The leader that resolves the batch later must not execute it: we are gone, and may have asked again.
                queue.retire();
                Err(self.outcome_unknown())
            } else {
                Ok(None)
            }
        })
    }

    /// The queue file was damaged or deleted. What no leader has taken yet can be published in the new
    /// one. What is being executed may still be answered here: the file, deleted or not, is shared.
    fn leave(&self, published: &mut Published) -> Result<Option<End>, Error> {
        match published.stage() {
            Stage::Waiting | Stage::MustLead if published.withdraw() => Ok(Some(End::Again)),
            Stage::Executing if self.deadline.has_passed() => Err(self.outcome_unknown()),
            // `wait` handles the other stages.
            _ => Ok(None),
        }
    }

    /// The error of a wait that is over.
    fn check(&self, queue: &Queue, ahead: u64) -> Result<(), Error> {
        if self.interrupt.ends_wait() {
            return Err(self.interrupt.error());
        }
        if self.deadline.has_passed() {
            return Err(self.timed_out(queue, ahead));
        }
        Ok(())
    }

    fn timed_out(&self, queue: &Queue, ahead: u64) -> Error {
        let (waited, leader) = (self.began.elapsed(), queue.leader());
        let is_here = leader.as_ref().is_some_and(|it| it.pid == std::process::id());
        let here = if is_here { self.file.holder.told() } else { None };
        Error::new(ErrorKind::TimedOut { waited, leader, here, ahead })
    }

    fn outcome_unknown(&self) -> Error {
        Error::new(ErrorKind::OutcomeUnknown { path: self.file.path().to_path_buf() })
    }
}

/// How a wait ended.
enum End {
    Answered,
    Turn(Lead),
    /// The request is not in the queue any more: publish it again.
    Again,
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::commit::recover::tests::lead_with_a_batch;
    use crate::commit::registry::FileHandle;
    use crate::{Connection, Database};

    const SLOTS_AT: u64 = 376_832;

    /// A database, its queue, and who writes to it.
    struct Scene {
        directory: tempfile::TempDir,
        connection: Connection,
        file: FileHandle,
        interrupt: Interrupt,
    }

    impl Scene {
        fn new() -> Scene {
            let directory = tempfile::tempdir().expect("a directory");
            let database = Database::open(directory.path().join("app.db")).expect("opens");
            database.enter().expect("the file is made");
            let connection = database.connect().expect("a connection");
            let file = connection.file.clone().expect("it has a queue");
            Scene { directory, connection, file, interrupt: Interrupt::default() }
        }

        fn client(&self, timeout: Duration) -> QueueClient<'_> {
            let (file, interrupt) = (&*self.file, &self.interrupt);
            let (began, deadline) = (Instant::now(), Deadline::after(timeout));
            let wal_bytes_limit = u64::MAX;
            QueueClient {
                file,
                label: "",
                began,
                deadline,
                wal_bytes_limit,
                interrupt,
                gives_way: false,
            }
        }

        /// Another SQLite program that holds the write lock.
        fn locked(&self) -> manyhands_sqlite::Connection {
            let mode = manyhands_sqlite::OpenMode::ReadWrite;
            let path = self.directory.path().join("app.db");
            let other = manyhands_sqlite::Connection::open(&path, mode, false).expect("opens");
            other.execute("BEGIN IMMEDIATE").expect("the write lock is free");
            other
        }

        /// Writes over what stands at a place of the queue file.
        fn write_over(&self, rubbish: &[u8], at: u64) {
            let path = self.directory.path().join("app.db-hands");
            let memory = std::fs::File::options().write(true).open(path).expect("the queue file");
            memory.write_all_at(rubbish, at).expect("writes");
        }
    }

    /// Somebody wrote over the slot of a request that a leader had executed. Its owner took it for passed
    /// over, and published it again: the write was there twice. Later it waited for the leader, who notices
    /// at the end of its batch; but it may have answered before the slot was written over, and noticed
    /// nothing: 6 of 1,228,273 writes were there twice.
    #[test]
    fn a_request_whose_slot_was_written_over_is_not_published_again() {
        for (answered, rubbish) in [(false, [0; 8]), (true, [0; 8]), (true, [0xFF; 8])] {
            write_over_an_executed_request(answered, rubbish);
        }
    }

    fn write_over_an_executed_request(answered: bool, rubbish: [u8; 8]) {
        let scene = Scene::new();
        let queue = scene.file.queue();
        let (mut lead, published, entry) = lead_with_a_batch(&queue);
        if answered {
            lead.end_batch(&[entry], true);
            lead.release();
        }
        for slot in 0..4 {
            scene.write_over(&rubbish, SLOTS_AT + slot * 2048);
        }
        let client = scene.client(Duration::from_secs(5));
        let fate = client.await_fate(&queue, published).expect_err("nobody knows");
        assert!(fate.is_outcome_unknown(), "{fate}");
        assert!(!queue.is_sound(), "others may be damaged too");
    }

    /// A leader died with a batch in hand, and another program held the write lock when the deadline of a
    /// request in it passed. The owner waited for ever: after its deadline it did not look for dead leaders.
    #[test]
    fn a_fate_is_waited_for_beyond_the_deadline() {
        let scene = Scene::new();
        let client = scene.client(Duration::from_millis(100));
        let queue = scene.file.queue();
        let (lead, published, _) = lead_with_a_batch(&queue);
        drop(lead);
        let other = scene.locked();
        std::thread::scope(|scope| {
            let fate = scope.spawn(|| client.await_fate(&queue, published));
            std::thread::sleep(Duration::from_millis(400));
            assert!(!fate.is_finished());
            other.execute("ROLLBACK").expect("gives the write lock back");
            // Not executed, so it is the owner's turn now.
            let fate = fate.join().expect("no panic").expect("it is known");
            assert!(matches!(fate, Some(Fate::Turn(_))), "{fate:?}");
        });
        assert!(queue.is_sound());
    }

    /// A leader died with a batch in hand, and its number went to a new member. Who found the queue idle then looked
    /// for the batch's commit, and waited for SQLite's write lock, even with a snapshot in hand.
    #[test]
    fn who_leads_because_nobody_waits_does_not_wait() {
        let scene = Scene::new();
        let client = scene.client(Duration::from_secs(5));
        let mut lead = scene.file.queue().try_lead("leader").expect("nobody leads");
        lead.begin_batch();
        drop(lead);
        let other = scene.locked();
        let lead = client.lead_if_idle().expect("it does not look");
        assert!(lead.is_none(), "there is an orphaned batch");
        other.execute("ROLLBACK").expect("gives the write lock back");
        client.take_turn().expect("who waits settles it");
        assert!(client.lead_if_idle().expect("leads").is_some());
    }

    /// Only the layout's number was written over. Members left, and then each took the others, who had the
    /// file open too, for programs of another version: nobody could write any more.
    #[test]
    fn a_layout_that_was_written_over_is_no_other_version() {
        const LAYOUT_AT: u64 = 8;
        let mut scene = Scene::new();
        scene.write_over(&[7], LAYOUT_AT);
        scene.connection.execute("CREATE TABLE t (a)", &[]).expect("a new queue is joined");
    }

    /// The same before the leader commits: then it had better not.
    #[test]
    fn a_batch_that_was_written_over_is_not_committed() {
        const LEADER_WORD_AT: u64 = 192;
        for at in [LEADER_WORD_AT, SLOTS_AT] {
            let mut scene = Scene::new();
            let queue = scene.file.queue();
            let (lead, _published, entry) = lead_with_a_batch(&queue);
            assert!(lead.is_intact(&[entry]));
            scene.write_over(&[0; 8], at);
            assert!(!lead.is_intact(&[entry]) && !queue.is_sound());
            drop(lead);
            scene.connection.execute("CREATE TABLE t (a)", &[]).expect("a new queue is joined");
        }
    }
}
