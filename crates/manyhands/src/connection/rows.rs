//! Rows that are shown as they come, and not kept.

use manyhands_sqlite::{self as sqlite, Paused, PinGuard, Step, Value, pin};

use crate::Error;
use crate::connection::Connection;
use crate::error::ErrorKind;
use crate::params::{Given, Params};
use crate::row::RowView;
use crate::statement::observe::Observer;
use crate::statement::prepared::{Prepared, column_names};
use crate::statement::routing::{self, InSpeculation, Route};

/// Is shown each row, and answers whether it wants the next one.
type Each<'a> = &'a mut dyn FnMut(&RowView<'_>) -> bool;

impl Connection {
    /// Executes one statement and gives its first row to `map`. A statement that only reads ends there; one that writes, with
    /// a RETURNING clause, is executed to its end.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::OptionalExtension;
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)", ())?;
    /// let sql = "INSERT INTO item (name) VALUES (?1) RETURNING id";
    /// let id: i64 = connection.query_row(sql, ("lamp",), |row| row.get(0))?;
    ///
    /// let sql = "SELECT id, name FROM item WHERE id = ?1";
    /// let length = connection.query_row(sql, (id,), |row| Ok(row.get::<&str>("name")?.len()))?;
    /// assert_eq!(length, 4);
    /// assert_eq!(connection.query_row(sql, (77,), |row| row.get::<i64>("id")).optional()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::is_no_rows`] when there is none; the error of `map`; see [`Connection::execute`].
    pub fn query_row<T>(
        &mut self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&RowView<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (mut map, mut mapped) = (Some(map), None);
        self.show(sql, &params.given(), &mut |row| {
            mapped = map.take().map(|map| map(row));
            false
        })?;
        mapped.unwrap_or_else(|| Err(Error::new(ErrorKind::NoRows)))
    }

    /// Executes one statement that reads, and shows its rows to `each`, without keeping them. It ends
    /// early when `each` returns false.
    ///
    /// # Errors
    /// See [`Connection::execute`]; and when the statement writes.
    pub fn query_each(
        &mut self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&RowView<'_>) -> bool,
    ) -> Result<(), Error> {
        let given = params.given();
        let (prepared, values) = self.begin_statement(sql, &given)?;
        let reads = prepared.compiled.explain || prepared.facts.changes_nothing();
        if prepared.route != Route::Own || !reads {
            self.put_back(prepared);
            return Err(Error::refused(
                "query_each takes statements that read; use execute or query",
            ));
        }
        self.show_rows(prepared, &values, &mut each)
    }

    /// Executes one statement of any kind, and shows its rows.
    fn show(&mut self, sql: &str, given: &Given<'_>, each: Each<'_>) -> Result<(), Error> {
        let (mut prepared, values) = self.begin_statement(sql, given)?;
        if prepared.only_shows() {
            return self.show_rows(prepared, &values, each);
        }
        let result = self.carry_out(&mut prepared, &values);
        self.put_back_after(prepared, result.is_err());
        let rows = result?.rows;
        let _ = rows.iter().all(|row| each(&row.view()));
        Ok(())
    }

    /// Executes a statement that reads, and shows its rows.
    fn show_rows(
        &mut self,
        mut prepared: Box<Prepared>,
        values: &[Value],
        each: Each<'_>,
    ) -> Result<(), Error> {
        let begun = self.begin_to_read(&prepared);
        let result = begun.and_then(|logged| self.step_rows(&mut prepared, values, logged, each));
        self.put_back(prepared);
        self.end_with_transaction();
        result
    }

    /// What comes before the first row of a statement that reads. Tells whether a log is to say what it shows.
    ///
    /// # Errors
    /// See [`Connection::prepare_transaction`]; and what was deferred may fail.
    pub(crate) fn begin_to_read(&mut self, prepared: &Prepared) -> Result<bool, Error> {
        self.prepare_transaction(prepared)?;
        self.execute_deferred()?;
        // A speculative transaction can also outgrow its memory by reading. Rows that were shown cannot be taken back, so it is checked first.
        self.keep_within_limits(self.sqlite().speculation_status().speculating)?;
        let place = routing::in_speculation(&prepared.facts, &prepared.route, prepared.compiled);
        let logged = self.optimistic.is_some() && place != InSpeculation::Plain;
        if logged && place == InSpeculation::LoggedForLocalReplay {
            self.require_local_replay(prepared);
        }
        self.pristine &= prepared.facts.leaves_no_trace();
        Ok(logged)
    }

    fn step_rows(
        &mut self,
        prepared: &mut Prepared,
        values: &[Value],
        logged: bool,
        each: Each<'_>,
    ) -> Result<(), Error> {
        let mut pinned = if logged { self.pin_next().map(pin) } else { None };
        let mut observer = logged.then(Observer::default);
        let Prepared { statement, columns, .. } = prepared;
        let mut run = || {
            statement.bind_all(values.iter().map(Value::as_ref))?;
            let compiled = statement.recompilations();
            let mut is_first = true;
            while statement.step()? == Step::Row {
                if core::mem::take(&mut is_first) && statement.recompilations() != compiled {
                    *columns = column_names(statement);
                }
                if let Some(observer) = &mut observer {
                    observer.current_row(statement);
                }
                // The pinned clock and seed are this statement's, and not for what `each` does.
                let paused = pinned.take().map(PinGuard::pause);
                let goes_on = each(&RowView::of_running(statement, columns));
                pinned = paused.map(Paused::resume);
                if !goes_on {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let result: Result<bool, sqlite::Error> = run();
        prepared.statement.reset();
        drop(pinned);
        if let Some(observer) = observer {
            let shown = match &result {
                Ok(to_end) => observer.finish(*to_end),
                Err(error) if error.code.is_result() => observer.fail(error.code),
                // A failure of the system is no result; the rows before it are.
                Err(_) => observer.finish(false),
            };
            self.log(prepared, values, (shown.0, &shown.1), None);
            self.keep_within_limits(false)?;
        }
        result.map(drop).map_err(|error| self.describe(error))
    }
}
