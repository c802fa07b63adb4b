//! Functions and collations of the application.
//!
//! Other connections do not have them. So the connection itself executes writes that call a function, in its own turn, and all of its
//! writes once it has a collation, or a function that replaces a built-in one. A collation in C only compares: what needs one nobody can
//! tell before, a leader fails with "no such collation sequence", and the connection executes it itself.

use core::cmp::Ordering;
use std::collections::BTreeSet;

use manyhands_sqlite::{
    self as sqlite, Aggregate, FunctionError, Value, ValueRef, WindowAggregate,
};

use crate::Error;
use crate::connection::Connection;
use crate::statement::built_in;

/// What a connection has that a new one has not.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    /// Functions, with brackets, and collations; some have been removed again.
    names: BTreeSet<String>,
    /// An extension was loaded, or may have been: it may have added anything.
    pub(crate) extended: bool,
    /// The application is told of changed rows, commits or rollbacks.
    pub(crate) hears_changes: bool,
}

impl Connection {
    /// Makes an SQL function. Writes that call it are executed by this connection, in its own turn.
    ///
    /// `arguments` is their number, `None` for any. A deterministic function always answers the same
    /// to the same arguments.
    ///
    /// The function is called under the connection's mutex, by the thread that steps the statement: it must
    /// not use this connection, and must not wait for a lock whose holder may wait for it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{Value, ValueRef, params};
    /// let mut connection = database.connect()?;
    /// connection.create_function("double", Some(1), true, |values: &[ValueRef<'_>]| match values {
    ///     [ValueRef::Integer(number)] => Ok(Value::Integer(number * 2)),
    ///     _ => Err("double() takes an integer".into()),
    /// })?;
    /// assert_eq!(connection.query("SELECT double(21)", params![])?[0].get::<i64>(0)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `SQLITE_MISUSE` for a bad name, `SQLITE_BUSY` while a statement of the connection runs. In a
    /// transaction that has to move to its turn first: as [`Connection::execute`].
    pub fn create_function(
        &mut self,
        name: &str,
        arguments: Option<u16>,
        deterministic: bool,
        function: impl Fn(&[ValueRef<'_>]) -> Result<Value, FunctionError> + Send + 'static,
    ) -> Result<(), Error> {
        self.change_function(name, |sqlite| {
            sqlite.create_function(name, arguments, deterministic, function)
        })
    }

    /// Makes an aggregate function: one value for a group of rows.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{Aggregate, FunctionError, Value, ValueRef, params};
    /// struct Product;
    /// impl Aggregate for Product {
    ///     type State = i64;
    ///     fn begin(&self) -> Result<i64, FunctionError> {
    ///         Ok(1)
    ///     }
    ///     fn step(&self, product: &mut i64, values: &[ValueRef<'_>]) -> Result<(), FunctionError> {
    ///         let [ValueRef::Integer(number)] = values else { return Err("an integer".into()) };
    ///         *product *= number;
    ///         Ok(())
    ///     }
    ///     fn finish(&self, product: Option<i64>) -> Result<Value, FunctionError> {
    ///         Ok(product.into())
    ///     }
    /// }
    /// let mut connection = database.connect()?;
    /// connection.create_aggregate("product", Some(1), Product)?;
    /// let sql = "SELECT product(column1) FROM (VALUES (2), (3), (7))";
    /// assert_eq!(connection.query(sql, params![])?[0].get::<i64>(0)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn create_aggregate(
        &mut self,
        name: &str,
        arguments: Option<u16>,
        aggregate: impl Aggregate,
    ) -> Result<(), Error> {
        self.change_function(name, |sqlite| sqlite.create_aggregate(name, arguments, aggregate))
    }

    /// Makes a window function, which can be used as an aggregate function too.
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn create_window_function(
        &mut self,
        name: &str,
        arguments: Option<u16>,
        aggregate: impl WindowAggregate,
    ) -> Result<(), Error> {
        self.change_function(name, |sqlite| {
            sqlite.create_window_function(name, arguments, aggregate)
        })
    }

    /// Removes a function of any kind from this connection, a built-in one too. One that does not exist is
    /// no error.
    ///
    /// # Errors
    /// See [`Connection::create_function`].
    pub fn remove_function(&mut self, name: &str, arguments: Option<u16>) -> Result<(), Error> {
        self.change_function(name, |sqlite| sqlite.remove_function(name, arguments))
    }

    /// Makes a collation: an order of texts, which come as UTF-8. It must always order two texts the same
    /// way. A connection that has one executes its writes itself.
    ///
    /// An index that is ordered by it can be written only by connections that have it: others fail with
    /// "no such collation sequence".
    ///
    /// # Errors
    /// `SQLITE_BUSY` while a statement of the connection runs and the collation exists already. In a
    /// transaction that has to move to its turn first: as [`Connection::execute`].
    pub fn create_collation(
        &mut self,
        name: &str,
        compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + 'static,
    ) -> Result<(), Error> {
        self.change_collation(name, |sqlite| sqlite.create_collation(name, compare))?;
        // It may panic, or raise in the caller's language: in the call that needed it.
        self.after_change(true);
        Ok(())
    }

    /// Removes a collation. One that does not exist is no error.
    ///
    /// # Errors
    /// See [`Connection::create_collation`].
    pub fn remove_collation(&mut self, name: &str) -> Result<(), Error> {
        self.change_collation(name, |sqlite| sqlite.remove_collation(name))
    }

    /// See [`ConnectionExt::change_function`](crate::driver::ConnectionExt::change_function).
    pub(crate) fn change_function<T>(
        &mut self,
        name: &str,
        change: impl FnOnce(&sqlite::Connection) -> Result<T, sqlite::Error>,
    ) -> Result<T, Error> {
        let built_in = built_in::of(&name.to_ascii_lowercase()).is_some();
        self.before_change_of(&format!("{name}()"), built_in)?;
        let changed = change(self.sqlite())?;
        // Other connections would call the built-in one instead.
        self.after_change(built_in);
        Ok(changed)
    }

    /// See [`ConnectionExt::change_collation`](crate::driver::ConnectionExt::change_collation).
    pub(crate) fn change_collation<T>(
        &mut self,
        name: &str,
        change: impl FnOnce(&sqlite::Connection) -> Result<T, sqlite::Error>,
    ) -> Result<T, Error> {
        let built_in = ["binary", "nocase", "rtrim"].contains(&&*name.to_ascii_lowercase());
        self.before_change_of(name, built_in)?;
        let changed = change(self.sqlite())?;
        self.after_change(built_in);
        Ok(changed)
    }

    /// The meaning of a name is about to change, or to be known.
    fn before_change_of(&mut self, name: &str, built_in: bool) -> Result<(), Error> {
        let new = self.additions.names.insert(name.to_ascii_lowercase());
        if new && !built_in && !self.additions.extended {
            // No statement has used it so far.
            self.begin_operation()?;
            self.pristine = false;
            return Ok(());
        }
        self.before_change()
    }

    /// What statements mean on this connection is about to change. A log must be replayed as it was
    /// executed, so a transaction that has one moves to its turn first.
    pub(crate) fn before_change(&mut self) -> Result<(), Error> {
        self.begin_operation()?;
        if self.optimistic.as_ref().is_some_and(|it| !it.log.entries().is_empty()) {
            self.show_unlogged()?;
        }
        self.pristine = false;
        Ok(())
    }

    /// It has changed; `connection_local` says that other connections would now execute writes differently.
    pub(crate) fn after_change(&mut self, connection_local: bool) {
        self.connection_local |= connection_local;
        if let Some(optimistic) = &mut self.optimistic {
            optimistic.replays_locally |= self.connection_local;
        }
        self.cursors.drop_returned();
        let session = self.session_mut();
        session.compiler.forget_virtual_tables();
        session.statements.clear();
    }
}
