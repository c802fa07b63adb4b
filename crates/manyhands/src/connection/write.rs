//! Writes that any connection can execute, and batches of them: they are led at once, or travel as requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use manyhands_queue::{Deadline, Kind, Lead};
use manyhands_sqlite::{self as sqlite, Value};

use crate::Error;
use crate::commit::checkpoint::has_room;
use crate::commit::file::DatabaseFile;
use crate::commit::queue_client::{Fate, QueueClient};
use crate::commit::request::{self, Answer, Counts, Request, StatementAnswer};
use crate::connection::Connection;
use crate::limits;
use crate::row::{Outcome, Row, Tally};
use crate::statement::prepared::{self, Prepared};
use crate::statement::routing::Route;

impl Connection {
    /// True when another connection would execute this session's writes as this one would.
    pub(crate) fn may_travel(&self) -> bool {
        self.file.is_some() && !self.connection_local
    }

    /// A write of its own transaction, which any connection can execute.
    pub(crate) fn write(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        // A statement that reads meanwhile holds a snapshot, from which SQLite cannot write on.
        if self.writes_with_blob() || self.driver_reads() {
            return self.step_in_turn(prepared, values);
        }
        let reading = self.sqlite().transaction() != sqlite::Transaction::None;
        if !reading && let Some(lead) = self.lead_at_once()? {
            return self.step_leading(prepared, values, lead);
        }
        let mut request = Request::new(self.session_settings, self.counts(), None);
        let sql = Arc::clone(&prepared.sql);
        request.push(&sql, prepared::columns_digest(&prepared.columns), values);
        match self.submit_request(Kind::Request, &request)? {
            Some(Fate::Answer(answer)) => {
                self.turns.comeback.note_left(Instant::now());
                let columns = [Arc::clone(&prepared.columns)];
                let mut outcomes = self.accept(answer, &columns).map_err(|(_, error)| error)?;
                outcomes.pop().ok_or_else(|| Error::refused("the answer has no result"))
            }
            Some(Fate::Turn(lead)) => {
                // The leader could not execute it: next time it is not asked.
                prepared.route = Route::Turn;
                self.step_leading(prepared, values, lead)
            }
            None => self.step_in_turn(prepared, values),
        }
    }

    /// Leads if nobody leads or waits, or the place is reserved for this connection.
    pub(crate) fn lead_at_once(&mut self) -> Result<Option<Lead>, Error> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        if let Some(lead) = self.lead_again(&file)? {
            return Ok(Some(lead));
        }
        // With the limit also where this connection may be the reader itself: without room it goes through `submit`, which then
        // does not wait for a reader.
        let wal_bytes_limit = self.settings.wal_bytes_limit;
        QueueClient { wal_bytes_limit, ..self.client(&file) }.lead_if_idle()
    }

    /// Leads if the place is reserved for this connection.
    pub(crate) fn lead_again(&mut self, file: &DatabaseFile) -> Result<Option<Lead>, Error> {
        let Some(reservation) = self.turns.comeback.come(Instant::now()) else { return Ok(None) };
        let queue = file.sound_queue(Deadline::after(self.settings.timeout))?;
        if !reservation.is_of(&queue) || !has_room(&queue, self.settings.wal_bytes_limit) {
            return Ok(None);
        }
        Ok(reservation.lead(&self.settings.label))
    }

    /// How long it waits for a turn.
    fn patience_for(&self, file: &DatabaseFile) -> Duration {
        let timeout = self.settings.timeout;
        if timeout.is_zero() && file.queue().is_only_reserved() {
            // Nobody holds anything: who tries once gets the place when the reservation is over.
            return limits::RESERVATION_PATIENCE;
        }
        let waits_for_itself =
            timeout > limits::OWN_THREAD_PATIENCE && file.holder.is_this_thread_alone();
        if waits_for_itself { limits::OWN_THREAD_PATIENCE } else { timeout }
    }

    pub(crate) fn client<'a>(&'a self, file: &'a DatabaseFile) -> QueueClient<'a> {
        let limit = self.settings.wal_bytes_limit;
        // A connection that reads, or holds another turn, could wait for itself.
        let waits_for_room = limit != u64::MAX
            && self.turns.is_empty()
            && self.sqlite().transaction() == sqlite::Transaction::None;
        QueueClient {
            file,
            label: &self.settings.label,
            began: Instant::now(),
            deadline: Deadline::after(self.patience_for(file)),
            wal_bytes_limit: if waits_for_room { limit } else { u64::MAX },
            interrupt: &self.interrupt,
            gives_way: false,
        }
    }

    /// Sends a request to the queue; `None` when it is too large.
    pub(crate) fn submit_request(
        &self,
        kind: Kind,
        request: &Request<'_>,
    ) -> Result<Option<Fate>, Error> {
        let Some(file) = self.file.as_deref() else { return Ok(None) };
        let mut bytes = Vec::new();
        if request::encode(request, &mut bytes).is_none() {
            return Ok(None);
        }
        let settled = self.client(file).submit(kind, &bytes)?;
        if matches!(settled, Fate::Answer(_)) {
            // It may have led meanwhile.
            file.checkpoint.copy_beside(file);
        }
        Ok(Some(settled))
    }

    /// Takes a leader's answer as if the statements had run here. An error comes with the index of its
    /// statement.
    fn accept(
        &mut self,
        answer: Answer,
        columns: &[Arc<[String]>],
    ) -> Result<Vec<Outcome>, (usize, Error)> {
        answer.into_outcomes(columns, |counts| self.count(counts))
    }

    /// Makes this session count what was counted elsewhere.
    fn count(&self, counts: &Counts) {
        let here = self.sqlite().total_changes();
        self.session().counters.ran_elsewhere(counts.changes, counts.total_changes, here);
        self.sqlite().set_last_insert_rowid(counts.last_insert_rowid);
    }

    /// Executes several statements, all or none, and returns what each did. Outside a transaction they
    /// travel as one request, and no other write comes between them.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::params;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)", params![])?;
    /// connection.execute("INSERT INTO account VALUES (1, 500), (2, 0)", params![])?;
    /// let done = connection.batch(&[
    ///     ("UPDATE account SET cents = cents - ?1 WHERE id = 1", params![200]),
    ///     ("UPDATE account SET cents = cents + ?1 WHERE id = 2 RETURNING cents", params![200]),
    /// ])?;
    /// assert_eq!(done[1].rows[0].get::<i64>(0)?, 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first statement that failed; [`Error::statement_index`] says which. Then
    /// nothing was written.
    pub fn batch(&mut self, statements: &[(&str, &[Value])]) -> Result<Vec<Outcome>, Error> {
        self.begin_operation()?;
        if let Some(outcomes) = self.batch_as_request(statements)? {
            return Ok(outcomes);
        }
        if !self.sqlite().is_autocommit() {
            return self.batch_in_savepoint(statements);
        }
        if self.writes_with_blob() {
            return Err(Error::refused(
                "a batch commits, and SQLite cannot while a blob is open for writing: close the blob",
            ));
        }
        self.batch_in_turn(statements)
    }

    /// Executes a batch outside a transaction, here.
    pub(crate) fn batch_in_turn(
        &mut self,
        statements: &[(&str, &[Value])],
    ) -> Result<Vec<Outcome>, Error> {
        let mut transaction = self.begin_immediate()?;
        let mut outcomes = Vec::with_capacity(statements.len());
        for (index, (sql, values)) in statements.iter().enumerate() {
            let outcome = transaction.execute(sql, *values);
            outcomes.push(outcome.map_err(|error| error.in_statement(index))?);
        }
        transaction.commit()?;
        Ok(outcomes)
    }

    fn batch_in_savepoint(
        &mut self,
        statements: &[(&str, &[Value])],
    ) -> Result<Vec<Outcome>, Error> {
        self.execute("SAVEPOINT manyhands_batch", &[])?;
        let mut outcomes = Vec::with_capacity(statements.len());
        for (index, (sql, values)) in statements.iter().enumerate() {
            match self.execute(sql, *values) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    // Gone already, if the statement rolled the whole transaction back.
                    if !self.sqlite().is_autocommit() {
                        self.execute("ROLLBACK TO manyhands_batch", &[])?;
                        self.execute("RELEASE manyhands_batch", &[])?;
                    }
                    return Err(error.in_statement(index));
                }
            }
        }
        self.execute("RELEASE manyhands_batch", &[])?;
        Ok(outcomes)
    }

    /// Sends a batch to the queue, if all of its statements can travel.
    pub(crate) fn batch_as_request(
        &mut self,
        statements: &[(&str, &[Value])],
    ) -> Result<Option<Vec<Outcome>>, Error> {
        if !self.sqlite().is_autocommit() || !self.may_travel() || self.writes_with_blob() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(statements.len());
        let mut request = Request::new(self.session_settings, self.counts(), None);
        let mut travels = true;
        for (index, (sql, values)) in statements.iter().enumerate() {
            let prepared = self.take_prepared(sql).map_err(|error| error.in_statement(index))?;
            let reads_only = prepared.facts.only_reads() && prepared.statement.is_read_only();
            travels &= prepared.route == Route::Request || reads_only;
            request.push(sql, prepared::columns_digest(&prepared.columns), values);
            columns.push(Arc::clone(&prepared.columns));
            self.put_back(prepared);
        }
        if !travels || statements.is_empty() {
            return Ok(None);
        }
        match self.submit_request(Kind::Request, &request)? {
            Some(Fate::Answer(answer)) => self
                .accept(answer, &columns)
                .map(Some)
                .map_err(|(index, error)| error.in_statement(index)),
            // The leader could not: the caller executes the batch in this turn.
            Some(Fate::Turn(lead)) => {
                self.hold_all(Some(lead))?;
                Ok(None)
            }
            None => Ok(None),
        }
    }
}

impl Answer {
    /// What the statements of a request did, each with its columns. `count` is told what each of them
    /// counted. An error comes with the index of its statement.
    pub(crate) fn into_outcomes(
        self,
        columns: &[Arc<[String]>],
        count: impl Fn(&Counts),
    ) -> Result<Vec<Outcome>, (usize, Error)> {
        let answers = match self {
            Answer::Done(answers) if answers.len() == columns.len() => answers,
            Answer::Failed(failure) => {
                if let Some(counts) = &failure.counts {
                    count(counts);
                }
                return Err((failure.statement, Error::from(failure.into_error())));
            }
            _ => return Err((0, Error::refused("the answer does not fit the request"))),
        };
        let outcome = |(done, columns): (StatementAnswer, &Arc<[String]>)| {
            count(&done.counts);
            let row = |values| Row::new(Arc::clone(columns), values);
            let tally = Tally::new(done.counts.changes, done.counts.last_insert_rowid);
            Outcome { rows: done.rows.into_iter().map(row).collect(), tally }
        };
        Ok(answers.into_iter().zip(columns).map(outcome).collect())
    }
}
