//! A statement that belongs to its caller, with values that stay bound.
//!
//! It is a handle: its text, its values, the row that it shows. What touches the database takes the connection, so several
//! statements of one connection run at once, each as long as its owner wants, and the connection does other things between
//! their steps. The compiled form stays with the connection, where it is found by its text, and is compiled again where
//! SQLite would compile it again: a statement that is not running holds nothing of the database.
//!
//! A statement that reads is stepped row by row, as a cursor. One that writes is executed to its end by its first step, through
//! the queue if need be, and the rows of its RETURNING clause are shown then: SQLite does so too
//! (<https://sqlite.org/lang_returning.html>, section 3).

use core::fmt;
use std::sync::{Arc, Weak};

use manyhands_sqlite::{self as sqlite, Code, Value};

use crate::Error;
use crate::connection::Connection;
use crate::connection::cursor::{Cursor, MappedRows};
use crate::error::ErrorKind;
use crate::params::{Given, Params};
use crate::row::{Outcome, RowView};
use crate::row_buffer::RowBuffer;
use crate::session::interrupt::Interrupt;
use crate::statement::prepared::Prepared;
use crate::statement::text::is_blank;

/// A statement with its values; made by [`Connection::prepare`].
///
/// It does not borrow its connection. What runs it takes that as an argument, and no other one: so several statements can be
/// open at once, and the connection is free between their steps.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
/// let mut connection = database.connect()?;
/// connection.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, state TEXT)", ())?;
/// let mut insert = connection.prepare("INSERT INTO job (state) VALUES (:state)")?;
/// for state in ["new", "old", "new"] {
///     insert.execute(&mut connection, [(":state", state)])?;
/// }
///
/// let mut transaction = connection.transaction()?;
/// let mut find = transaction.prepare("SELECT id FROM job WHERE state = ?1")?;
/// let mut finish = transaction.prepare("UPDATE job SET state = 'done' WHERE id = ?1")?;
/// find.bind(1, "new")?;
/// while let Some(job) = find.step(&mut transaction)? {
///     let id: i64 = job.get("id")?;
///     finish.execute(&mut transaction, (id,))?;
/// }
/// transaction.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Statement {
    /// Of the connection that has prepared it, and of no other one.
    owner: Weak<Interrupt>,
    sql: Arc<str>,
    parameters: Box<[Option<String>]>,
    columns: Arc<[String]>,
    declared_types: Box<[Option<String>]>,
    is_read_only: bool,
    /// One for each parameter.
    values: Vec<Value>,
    /// What it is showing; `None` when it is not running.
    rows: Option<Cursor>,
    /// The current row, if there is one.
    row: RowBuffer,
    outcome: Outcome,
}

impl Connection {
    /// Compiles a statement, to be executed many times, or step by step.
    ///
    /// A connection keeps the 128 statements that it has used last compiled, for this and for [`Connection::execute`].
    ///
    /// # Errors
    /// As SQLite fails to compile it, and when `sql` is not one statement.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        match self.prepare_first(sql)? {
            Some((statement, rest)) if is_blank(rest) => Ok(statement),
            Some(_) => Err(Error::new(ErrorKind::SeveralStatements)),
            None => Err(Error::refused("there is no SQL statement")),
        }
    }

    /// Compiles the first statement of a text, and gives the rest of the text with it; `None` when nothing but white space and
    /// comments is left.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// let mut connection = database.connect()?;
    /// let mut script = "CREATE TABLE t (a); INSERT INTO t VALUES (6), (7); SELECT sum(a) FROM t; -- end";
    /// let mut sum = 0;
    /// while let Some((mut statement, rest)) = connection.prepare_first(script)? {
    ///     while let Some(row) = statement.step(&mut connection)? {
    ///         sum = row.get(0)?;
    ///     }
    ///     script = rest;
    /// }
    /// assert_eq!(sum, 13);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As SQLite fails to compile it.
    pub fn prepare_first<'s>(
        &mut self,
        sql: &'s str,
    ) -> Result<Option<(Statement, &'s str)>, Error> {
        self.begin_operation()?;
        self.outlive_interrupt(sql);
        let found = self.look_up_first(sql);
        let found = found.inspect_err(|error| self.log_uncompiled(sql, &[], error))?;
        let Some((prepared, used)) = found else { return Ok(None) };
        let statement = Statement::of(&prepared, Arc::downgrade(&self.interrupt));
        self.put_back(prepared);
        Ok(Some((statement, &sql[used..])))
    }
}

impl Statement {
    fn of(prepared: &Prepared, owner: Weak<Interrupt>) -> Statement {
        let parameters = prepared.statement.parameter_names();
        let declared = |column| prepared.statement.declared_type(column);
        Statement {
            owner,
            sql: Arc::clone(&prepared.sql),
            values: vec![Value::Null; parameters.len()],
            parameters: parameters.into(),
            columns: Arc::clone(&prepared.columns),
            declared_types: (0..prepared.columns.len()).map(declared).collect(),
            is_read_only: prepared.compiled.read_only,
            rows: None,
            row: RowBuffer::default(),
            outcome: Outcome::default(),
        }
    }

    /// Its text, without that of statements that follow it.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The names of its parameters, with the sign before them (`:name`, `@name`, `$name`, `?5`); `None` for a plain `?`.
    pub fn parameter_names(&self) -> &[Option<String>] {
        &self.parameters
    }

    /// The names of its columns; none for a statement that returns no rows. They follow the schema when it is executed.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// For each column the type that it was declared with when the statement was prepared; `None` for an expression.
    pub fn declared_types(&self) -> &[Option<String>] {
        &self.declared_types
    }

    /// True for a statement that does not write into the database file by itself
    /// (<https://sqlite.org/c3ref/stmt_readonly.html>).
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// True from its first step until it has shown its last row, failed, or was reset.
    pub fn is_running(&self) -> bool {
        self.rows.is_some()
    }

    /// Binds a value to a parameter: by its number, the first is 1, or by its name, with its sign. It stays bound. What was
    /// never bound is NULL.
    ///
    /// # Errors
    /// `SQLITE_RANGE` when there is no such parameter, `SQLITE_MISUSE` while the statement runs.
    pub fn bind(
        &mut self,
        parameter: impl ParameterIndex,
        value: impl Into<Value>,
    ) -> Result<(), Error> {
        self.check_idle()?;
        let Some(place) = parameter.find(&self.parameters) else {
            return Err(out_of_range(format!("the statement has no parameter {parameter:?}")));
        };
        self.values[place] = value.into();
        Ok(())
    }

    /// Makes all parameters NULL.
    ///
    /// # Errors
    /// `SQLITE_MISUSE` while the statement runs.
    pub fn clear_bindings(&mut self) -> Result<(), Error> {
        self.check_idle()?;
        self.values.fill(Value::Null);
        Ok(())
    }

    /// Runs to the next row, with the values that are bound; `None` after the last. The step after that one begins anew.
    ///
    /// # Errors
    /// See [`Connection::execute`], and for another connection than its own. The statement is reset then.
    pub fn step(&mut self, connection: &mut Connection) -> Result<Option<RowView<'_>>, Error> {
        self.check_owner(connection)?;
        self.row.clear();
        let fetched = self.fetch(connection);
        if !matches!(fetched, Ok(true)) {
            self.rows = None;
        }
        fetched.map(|_| self.row())
    }

    /// The current row, which stays until the next step or reset.
    pub fn row(&self) -> Option<RowView<'_>> {
        (self.row.rows() > 0).then(|| RowView::of_buffered(&self.row, 0, &self.columns))
    }

    /// Ends its execution. The next step begins anew, with the values that are bound.
    pub fn reset(&mut self) {
        self.rows = None;
        self.row.clear();
    }

    /// What its last execution counted: of a statement that writes, once its first step has returned. Its `rows` are empty.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Binds values, and executes the statement to its end; see [`Connection::execute`].
    ///
    /// # Errors
    /// See [`Connection::execute`], and [`Statement::step`].
    pub fn execute(
        &mut self,
        connection: &mut Connection,
        params: impl Params,
    ) -> Result<Outcome, Error> {
        self.begin(connection, &params.given())?;
        connection.execute(&self.sql, &self.values)
    }

    /// Binds values, and gives the first row to `map`; see [`Connection::query_row`].
    ///
    /// # Errors
    /// See [`Connection::query_row`], and [`Statement::step`].
    pub fn query_row<T>(
        &mut self,
        connection: &mut Connection,
        params: impl Params,
        map: impl FnOnce(&RowView<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.begin(connection, &params.given())?;
        connection.query_row(&self.sql, &self.values, map)
    }

    /// Binds values, and gives the rows one by one; see [`Connection::query_map`]. They are not the statement's: it can be
    /// executed again meanwhile.
    ///
    /// # Errors
    /// See [`Connection::query_map`], and [`Statement::step`].
    pub fn query_map<T, F: FnMut(&RowView<'_>) -> Result<T, Error>>(
        &mut self,
        connection: &mut Connection,
        params: impl Params,
        map: F,
    ) -> Result<MappedRows<F>, Error> {
        self.begin(connection, &params.given())?;
        connection.query_map(&self.sql, &self.values, map)
    }

    /// Ends what runs, and binds values.
    fn begin(&mut self, connection: &Connection, given: &Given<'_>) -> Result<(), Error> {
        self.check_owner(connection)?;
        self.reset();
        let values = given.for_parameters(|| self.parameters.to_vec())?;
        let (given, wanted) = (values.len(), self.parameters.len());
        if given != wanted {
            let text = format!("the statement has {wanted} parameters, {given} values were given");
            return Err(out_of_range(text));
        }
        self.values = values.into_owned();
        Ok(())
    }

    /// True when there is a row.
    fn fetch(&mut self, connection: &mut Connection) -> Result<bool, Error> {
        if self.rows.is_none() {
            let execution = connection.start(&self.sql, &self.values)?;
            self.outcome = execution.outcome;
            self.columns = execution.columns;
            self.rows = execution.rows;
        }
        let Some(rows) = &mut self.rows else { return Ok(false) };
        let is_there = rows.fetch(&mut self.row, 1)? > 0;
        self.columns = rows.columns();
        Ok(is_there)
    }

    fn check_idle(&self) -> Result<(), Error> {
        if self.is_running() {
            let text = "values are bound before a statement runs: reset it first";
            return Err(Error::from(sqlite::Error::misuse(text)));
        }
        Ok(())
    }

    fn check_owner(&self, connection: &Connection) -> Result<(), Error> {
        if !core::ptr::eq(self.owner.as_ptr(), Arc::as_ptr(&connection.interrupt)) {
            let text =
                "a statement runs on the connection that has prepared it, and on no other one";
            return Err(Error::from(sqlite::Error::misuse(text)));
        }
        Ok(())
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statement { sql, values, rows, .. } = self;
        let mut debug = f.debug_struct("Statement");
        debug.field("sql", sql).field("values", values).field("is_running", &rows.is_some());
        debug.finish_non_exhaustive()
    }
}

fn out_of_range(message: String) -> Error {
    Error::from(sqlite::Error { code: Code::RANGE, message })
}

/// A parameter of a statement: its number, the first is 1; or its name, with its sign.
pub trait ParameterIndex: sealed::Sealed + fmt::Debug {
    /// Its place among those with `names`.
    #[doc(hidden)]
    fn find(&self, names: &[Option<String>]) -> Option<usize>;
}

impl ParameterIndex for usize {
    fn find(&self, names: &[Option<String>]) -> Option<usize> {
        self.checked_sub(1).filter(|place| *place < names.len())
    }
}

impl ParameterIndex for &str {
    fn find(&self, names: &[Option<String>]) -> Option<usize> {
        names.iter().position(|name| name.as_deref() == Some(*self))
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for usize {}
    impl Sealed for &str {}
}
