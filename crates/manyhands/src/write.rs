//! Writes that any connection can execute: they are led at once, or travel as requests.

use std::sync::Arc;
use std::time::Instant;

use manyhands_queue::{Deadline, Kind, Lead};
use manyhands_sqlite::{self as sqlite, Value};

use crate::Error;
use crate::commit::{Client, Settled};
use crate::connection::Connection;
use crate::database::DatabaseFile;
use crate::prepared::{self, Prepared};
use crate::request::{self, Counts, Request, StatementAnswer, StatementRequest};
use crate::routing::{Facts, Route};
use crate::row::{Outcome, Row, Tally};

impl Connection {
    /// True when another connection would execute this session's writes as this one would.
    pub(crate) fn may_travel(&self) -> bool {
        self.file.is_some() && !self.particular
    }

    /// A write of its own transaction, which any connection can execute.
    pub(crate) fn write(
        &mut self,
        prepared: &mut Prepared,
        sql: &str,
        values: &[Value],
    ) -> Result<Outcome, Error> {
        // A statement that reads meanwhile holds a snapshot, from which SQLite cannot write on.
        let reading = self.sqlite().transaction() != sqlite::Transaction::None;
        if !reading && let Some(lead) = self.lead_if_idle()? {
            return self.step_leading(prepared, values, lead);
        }
        let columns = prepared::columns_digest(&prepared.columns);
        let values_sent = values.iter().map(Value::as_ref).collect();
        let statement = StatementRequest { sql, columns, values: values_sent };
        match self.submit(vec![statement])? {
            Some(Settled::Answer(answer)) => {
                let columns = [Arc::clone(&prepared.columns)];
                let mut outcomes = self.accept(answer, &columns).map_err(|(_, error)| error)?;
                outcomes.pop().ok_or_else(|| Error::refused("the answer has no result"))
            }
            Some(Settled::Turn(lead)) => {
                // The leader could not execute it: next time it is not asked.
                prepared.route = Route::Turn;
                self.step_leading(prepared, values, lead)
            }
            None => self.step_in_turn(prepared, values),
        }
    }

    fn lead_if_idle(&mut self) -> Result<Option<Lead>, Error> {
        let Some(file) = self.file.as_deref() else { return Ok(None) };
        self.client(file).lead_if_idle()
    }

    pub(crate) fn client<'a>(&'a self, file: &'a DatabaseFile) -> Client<'a> {
        Client {
            file,
            label: &self.settings.label,
            began: Instant::now(),
            deadline: Deadline::after(self.settings.timeout),
            interrupted: &self.interrupted,
        }
    }

    /// Sends statements to the queue; `None` when they do not fit into a slot.
    fn submit(&self, statements: Vec<StatementRequest<'_>>) -> Result<Option<Settled>, Error> {
        let Some(file) = self.file.as_deref() else { return Ok(None) };
        let request = Request {
            session: self.session,
            last_insert_rowid: self.sqlite().last_insert_rowid(),
            statements,
        };
        let mut bytes = Vec::new();
        if request::encode(&request, &mut bytes).is_none() {
            return Ok(None);
        }
        self.client(file).submit(Kind::Request, &bytes).map(Some)
    }

    /// Takes a leader's answer as if the statements had run here. An error comes with the index of its
    /// statement.
    fn accept(
        &mut self,
        answer: request::Answer,
        columns: &[Arc<[String]>],
    ) -> Result<Vec<Outcome>, (usize, Error)> {
        let answers = answer.map_err(|failure| {
            if let Some(counts) = &failure.counts {
                self.count(counts);
            }
            let (index, error) = (failure.statement, Error::from(failure.into_error()));
            (index, error)
        })?;
        if answers.len() != columns.len() {
            return Err((0, Error::refused("the answer does not fit the request")));
        }
        Ok(answers
            .into_iter()
            .zip(columns)
            .map(|(done, columns)| self.accept_one(done, columns))
            .collect())
    }

    /// Makes this session count what was counted elsewhere.
    fn count(&self, counts: &Counts) {
        let here = self.sqlite().total_changes();
        self.open().counters.ran_elsewhere(counts.changes, counts.total_changes, here);
        self.sqlite().set_last_insert_rowid(counts.last_insert_rowid);
    }

    fn accept_one(&mut self, done: StatementAnswer, columns: &Arc<[String]>) -> Outcome {
        self.count(&done.counts);
        let row = |values| Row::new(Arc::clone(columns), values);
        let tally = Tally::new(done.counts.changes, done.counts.last_insert_rowid);
        Outcome { rows: done.rows.into_iter().map(row).collect(), tally }
    }

    /// Sends a batch to the queue, if all of its statements can travel.
    pub(crate) fn batch_as_request(
        &mut self,
        statements: &[(&str, &[Value])],
    ) -> Result<Option<Vec<Outcome>>, Error> {
        if !self.sqlite().is_autocommit() || !self.may_travel() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(statements.len());
        let mut requests = Vec::with_capacity(statements.len());
        let mut travels = true;
        for (index, (sql, values)) in statements.iter().enumerate() {
            let prepared = self.take_prepared(sql).map_err(|error| error.in_statement(index))?;
            let reads_only =
                prepared.facts == Facts::default() && prepared.statement.is_read_only();
            travels &= prepared.route == Route::Request || reads_only;
            let digest = prepared::columns_digest(&prepared.columns);
            columns.push(Arc::clone(&prepared.columns));
            let values = values.iter().map(Value::as_ref).collect();
            requests.push(StatementRequest { sql, columns: digest, values });
            self.open_mut().statements.put((*sql).to_string(), prepared);
        }
        if !travels || statements.is_empty() {
            return Ok(None);
        }
        match self.submit(requests)? {
            Some(Settled::Answer(answer)) => self
                .accept(answer, &columns)
                .map(Some)
                .map_err(|(index, error)| error.in_statement(index)),
            // The leader could not: the caller executes the batch in this turn.
            Some(Settled::Turn(lead)) => {
                self.hold(lead)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }
}
