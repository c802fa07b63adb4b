//! For drivers, the bindings to other languages and frameworks: what they need of a [`Connection`], and an application does not.
//!
//! A driver converts, calls, and converts back. It promises to ask for counts and new ids in a way that lets a transaction defer
//! its writes. It guards transactions where no Rust value can. It hands a session from one connection to the next.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let database = manyhands::Database::open(directory.path().join("app.db"))?;
//! use manyhands::{driver::ConnectionExt, params};
//! let mut connection = database.connect()?;
//! connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)", params![])?;
//! assert_eq!(connection.parameter_names("INSERT INTO item VALUES (?, :name)")?, [None, Some(":name".to_string())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::ffi::c_void;
use core::time::Duration;
use std::sync::Arc;

use manyhands_sqlite::Value;

use crate::Connection;
use crate::Error;
use crate::Outcome;

pub use crate::commit::request::{Counts as SessionCounts, statements_of as statements_of_request};
pub use crate::connection::compiled::{CompiledStatement, Started};
pub use crate::connection::cursor::Execution;
pub use crate::statement::hooks::ApplicationStatements;
pub use crate::statement::infallible::InfallibleWrite;
pub use manyhands_sqlite::locks::generation as fork_generation;
pub use manyhands_sqlite::{real_as_text, thread_safety};

/// What a driver asks of a [`Connection`].
pub trait ConnectionExt: sealed::Sealed {
    /// Executes one statement. Rows of a statement that reads come one by one, as from
    /// [`Connection::cursor`]; one that writes has run to its end. Text without a statement does nothing.
    ///
    /// # Errors
    /// See [`Connection::execute`].
    fn start(&mut self, sql: &str, values: &[Value]) -> Result<Execution, Error>;

    /// The parameters' names in a statement, with the sign before them (`:name`, `@name`, `$name`, `?5`);
    /// `None` for a plain `?`.
    ///
    /// # Errors
    /// As SQLite fails to compile the statement.
    fn parameter_names(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error>;

    /// For each column of a statement's rows the type that it was declared with; `None` for an expression.
    ///
    /// # Errors
    /// As SQLite fails to compile the statement.
    fn declared_types(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error>;

    /// True for a statement that does not write into the database file by itself, and for text without one
    /// (<https://sqlite.org/c3ref/stmt_readonly.html>).
    ///
    /// # Errors
    /// As SQLite fails to compile the statement.
    fn is_read_only(&mut self, sql: &str) -> Result<bool, Error>;

    /// Adds an INSERT, UPDATE or DELETE to a *lazy transaction*, which begins with it, by the statement `begin`, or has begun
    /// so. A lazy transaction is executed when it commits ([`ConnectionExt::commit_open`]), as one write and without `begin`;
    /// or before anything else that the connection is called for, after `begin`.
    ///
    /// `None`, and nothing is done, when the write is to be executed as ever: it can fail with more than the system (a full disk or
    /// table, a wait that ends, a schema that changes first); its text seems to be made for one execution; the
    /// connection is not plain ([`ConnectionExt::is_plain`]); a plain BEGIN means another mode than
    /// [`crate::TransactionMode::Auto`]; or the lazy transaction has 64 writes already.
    ///
    /// [`is_known`] says whether the write has been executed. [`ConnectionExt::changes_of`] and
    /// [`ConnectionExt::last_insert_rowid_of`] see to that.
    fn execute_lazily(
        &mut self,
        begin: &'static str,
        sql: &str,
        values: &[Value],
    ) -> Option<(Outcome, InfallibleWrite)>;

    /// Begins the lazy transaction, if there is one.
    ///
    /// # Errors
    /// As one of its statements fails. When it has to wait too long, or is interrupted, it stays lazy; after any other error
    /// it is over.
    fn begin_lazy(&mut self) -> Result<(), Error>;

    /// True between a BEGIN and the end of its transaction, and in a lazy one.
    fn is_in_transaction(&self) -> bool;

    /// Commits the open transaction, if there is one.
    ///
    /// # Errors
    /// See [`Connection::execute`] and [`ConnectionExt::begin_lazy`]; and after [`ConnectionExt::guard`], when an error has
    /// ended the transaction.
    fn commit_open(&mut self) -> Result<(), Error>;

    /// Rolls back the open transaction, if there is one, and takes [`ConnectionExt::guard`] back.
    ///
    /// # Errors
    /// As SQLite fails.
    fn roll_back_open(&mut self) -> Result<(), Error>;

    /// Begins the lazy transaction if somebody may still ask for the outcome of one of its statements: before a connection
    /// is put away whose last owner may ask later.
    fn keep_promises(&mut self);

    /// The driver promises to ask for all counts and new ids by [`ConnectionExt::changes_of`] and
    /// [`ConnectionExt::last_insert_rowid_of`], and for those of the connection after
    /// [`ConnectionExt::execute_deferred_in_turn`]: writes of transactions of [`crate::TransactionMode::Auto`] that cannot fail
    /// may then be executed with their COMMIT. Default: false.
    fn defer_writes(&mut self, defers: bool);

    /// Makes all counts so far final: a transaction of [`crate::TransactionMode::Auto`] that has deferred writes takes
    /// its turn, and executes them. Does nothing in other transactions, and outside of them.
    ///
    /// # Errors
    /// See [`Connection::execute`]. When the turn does not come in time, the transaction goes on.
    fn execute_deferred_in_turn(&mut self) -> Result<(), Error>;

    /// Takes the turn now, in a transaction of [`crate::TransactionMode::Auto`]: what it counts from now on is final, and asking
    /// for it waits for nobody. Does nothing in other transactions, and outside of them.
    ///
    /// # Errors
    /// See [`ConnectionExt::execute_deferred_in_turn`].
    fn execute_deferred_ahead(&mut self) -> Result<(), Error>;

    /// True when nothing that was counted until now can change, since no transaction is open that works side by side with
    /// others.
    fn is_executed(&self) -> bool;

    /// As [`Outcome::changes`]; a transaction of [`crate::TransactionMode::Auto`] takes its turn first, if the statement was
    /// deferred and the answer is not known.
    ///
    /// # Errors
    /// See [`ConnectionExt::execute_deferred_in_turn`].
    fn changes_of(&mut self, outcome: &Outcome) -> Result<u64, Error>;

    /// As [`Outcome::last_insert_rowid`]; a transaction of [`crate::TransactionMode::Auto`] takes its turn first, if something was
    /// deferred: the new id is the one that the row then gets.
    ///
    /// # Errors
    /// See [`ConnectionExt::execute_deferred_in_turn`].
    fn last_insert_rowid_of(&mut self, outcome: &Outcome) -> Result<i64, Error>;

    /// For a driver that cannot hold a [`crate::Transaction`], after BEGIN: once an error has ended the transaction, nothing is executed until
    /// [`ConnectionExt::unguard`]. Each statement that follows would commit by itself. A conflict is told again. A COMMIT
    /// or ROLLBACK that succeeds takes this back too.
    fn guard(&mut self);

    /// Takes [`ConnectionExt::guard`] back.
    fn unguard(&mut self);

    /// What each operation looks at first.
    ///
    /// # Errors
    /// After [`ConnectionExt::guard`], when an error has ended the transaction.
    fn check_guard(&self) -> Result<(), Error>;

    /// As [`Connection::read_transaction`], for a driver that cannot hold a guard: `COMMIT` or `ROLLBACK` ends it.
    ///
    /// # Errors
    /// See [`Connection::execute`]; and inside a transaction.
    fn begin_read_only(&mut self) -> Result<(), Error>;

    /// For a driver that does what [`Connection::run`] does, and cannot give it a closure: whether the first try should
    /// be optimistic. If not, it should hold its turn.
    fn allows_optimism(&self) -> bool;

    /// An optimistic first try is over: true when it conflicted, so that a second one is to hold its turn.
    fn note_first_try(&self) -> bool;

    /// What the session has counted, for [`ConnectionExt::continue_session`]. Unlike [`Connection::changes`] this is no question of the application's: in a transaction it does not count as seen.
    fn session_counts(&self) -> SessionCounts;

    /// Goes on with a session that another connection has closed: the SQL functions `changes()`,
    /// `total_changes()` and `last_insert_rowid()` tell what they would have told there.
    ///
    /// A program with many sessions that are mostly idle closes their connections meanwhile, as long as they
    /// are [plain](ConnectionExt::is_plain): opening one again takes microseconds.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use manyhands::driver::ConnectionExt;
    /// let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// let mut connection = database.connect()?;
    /// connection.execute_script("CREATE TABLE item (id INTEGER PRIMARY KEY); INSERT INTO item VALUES (7)")?;
    /// assert!(connection.is_plain());
    /// let counts = connection.session_counts();
    /// drop(connection);
    ///
    /// let mut connection = database.connect()?;
    /// connection.continue_session(counts);
    /// let row = &connection.query("SELECT last_insert_rowid(), changes()", manyhands::params![])?[0];
    /// assert_eq!((row.get::<i64>(0)?, row.get::<i64>(1)?), (7, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn continue_session(&mut self, counts: SessionCounts);

    /// True when a new connection would do as well: no transaction is open, be it a lazy one, no cursor, and nothing was changed
    /// about this one, such as a PRAGMA, a function or an attached database.
    fn is_plain(&self) -> bool;

    /// Says that from now on only one thread uses the connection. If another connection of that thread waits for this one's turn, the
    /// thread waits for itself: it gives up after 5 s, however long its timeout is.
    fn stay_in_thread(&mut self);

    /// Calls `check` every few milliseconds and after each signal, while this connection waits for its
    /// turn or for a lock, or runs a statement. When it answers true the call ends with
    /// [`crate::Error::is_interrupt`]. Only the first check that is given counts.
    fn check_while_waiting(&self, check: impl Fn() -> bool + Send + Sync + 'static);

    /// Has `gives_up` asked, about every millisecond, while this connection waits for its turn or for a lock. When it answers
    /// true the call ends as after the timeout. `None` to wait until the timeout has passed.
    fn give_up_waiting(&mut self, gives_up: Option<Arc<dyn Fn() -> bool + Send + Sync>>);

    /// How long this connection waits for its turn or for a lock from now on; 0 to try once.
    fn set_timeout(&mut self, timeout: Duration);

    /// SQLite's own connection (`sqlite3*`). What a driver does with it that this library does elsewhere, it must tell: by
    /// [`ConnectionExt::change_connection`] and its neighbours.
    fn as_ptr(&self) -> *mut c_void;

    /// Compiles the first statement of a text for a driver that keeps it, and gives the rest of the text with it; `None` when
    /// nothing but white space and comments is left. From then on the driver may step statements that read, see
    /// [`Started::ByDriver`].
    ///
    /// # Errors
    /// As SQLite fails to compile it.
    fn compile_first<'s>(
        &mut self,
        sql: &'s str,
    ) -> Result<Option<(CompiledStatement, &'s str)>, Error>;

    /// Executes a compiled statement, or tells the driver to step it. It is compiled again first if it must be.
    ///
    /// # Errors
    /// See [`Connection::execute`].
    fn start_compiled(
        &mut self,
        statement: &mut CompiledStatement,
        values: &[Value],
    ) -> Result<Started, Error>;

    /// A statement that its driver steps has failed: the transaction may have ended with it.
    fn note_failed_step(&mut self);

    /// Takes a statement back that its driver needs no longer: the next one of this text need not be compiled.
    fn keep_compiled(&mut self, statement: CompiledStatement);

    /// Does something with SQLite's own connection that writes into the database, while this connection holds its turn.
    ///
    /// # Errors
    /// The turn does not come in time; see [`Connection::execute`].
    fn work_in_turn<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error>;

    /// The same for what overwrites the whole database, which SQLite refuses in the middle of a transaction.
    ///
    /// # Errors
    /// The turn does not come in time.
    fn overwrite_in_turn<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error>;

    /// Reads something by SQLite's own connection that no log of a transaction can say.
    ///
    /// # Errors
    /// In a transaction that has to move to its turn first: as [`Connection::execute`].
    fn read_alone<T>(&mut self, read: impl FnOnce() -> T) -> Result<T, Error>;

    /// Has `replace` put a database in memory in the place of one of this connection's; see [`Connection::deserialize`].
    ///
    /// # Errors
    /// See [`Connection::deserialize`].
    fn replace_database<T>(
        &mut self,
        schema: &str,
        replace: impl FnOnce() -> T,
    ) -> Result<T, Error>;

    /// Changes a hook that hears of the statements that SQLite executes; `hears` says whether there is one now.
    ///
    /// # Errors
    /// See [`ConnectionExt::change_connection`].
    fn hear_statements<T>(&mut self, hears: bool, change: impl FnOnce() -> T) -> Result<T, Error>;

    /// Changes something about SQLite's own connection. `is_local` says that other connections would from now on execute writes
    /// differently: it executes its writes itself.
    ///
    /// # Errors
    /// In a transaction that has to move to its turn first: as [`Connection::execute`].
    fn change_connection<T>(
        &mut self,
        is_local: bool,
        change: impl FnOnce() -> T,
    ) -> Result<T, Error>;

    /// The same for an SQL function: writes that call it are executed by this connection, and all of its writes if it replaces a
    /// built-in one.
    ///
    /// # Errors
    /// See [`ConnectionExt::change_connection`].
    fn change_function<T>(&mut self, name: &str, change: impl FnOnce() -> T) -> Result<T, Error>;

    /// The same for a collation: see [`Connection::create_collation`].
    ///
    /// # Errors
    /// See [`ConnectionExt::change_connection`].
    fn change_collation<T>(&mut self, name: &str, change: impl FnOnce() -> T) -> Result<T, Error>;

    /// The same for a hook that hears of changed rows, commits or rollbacks: each event happens once.
    ///
    /// # Errors
    /// See [`ConnectionExt::change_connection`].
    fn hear_changes<T>(&mut self, change: impl FnOnce() -> T) -> Result<T, Error>;

    /// Calls `hook` with the number of frames in the WAL after each commit of this connection
    /// (<https://sqlite.org/c3ref/wal_hook.html>), which executes its writes itself then. It answers a result code.
    ///
    /// # Errors
    /// See [`ConnectionExt::change_connection`].
    fn set_wal_hook(
        &mut self,
        hook: Option<impl Fn(u32) -> i32 + Send + 'static>,
    ) -> Result<(), Error>;

    /// Does something by statements that the application has not written: it is neither asked about them nor told of them.
    fn as_own<T>(&mut self, work: impl FnOnce(&mut Connection) -> T) -> T;

    /// Tells hooks that a driver has given to SQLite itself whose statement is executed.
    fn application_statements(&self) -> ApplicationStatements;
}

/// False for the outcome of a lazy write that is still to be executed, or never was, since its transaction failed.
pub fn is_known(outcome: &Outcome) -> bool {
    outcome.tally.is_known()
}

impl ConnectionExt for Connection {
    fn start(&mut self, sql: &str, values: &[Value]) -> Result<Execution, Error> {
        Connection::start(self, sql, values)
    }

    fn parameter_names(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error> {
        Connection::parameter_names(self, sql)
    }

    fn declared_types(&mut self, sql: &str) -> Result<Vec<Option<String>>, Error> {
        Connection::declared_types(self, sql)
    }

    fn is_read_only(&mut self, sql: &str) -> Result<bool, Error> {
        Connection::is_read_only(self, sql)
    }

    fn execute_lazily(
        &mut self,
        begin: &'static str,
        sql: &str,
        values: &[Value],
    ) -> Option<(Outcome, InfallibleWrite)> {
        Connection::execute_lazily(self, begin, sql, values)
    }

    fn begin_lazy(&mut self) -> Result<(), Error> {
        Connection::begin_lazy(self, None)
    }

    fn is_in_transaction(&self) -> bool {
        Connection::is_in_transaction(self)
    }

    fn commit_open(&mut self) -> Result<(), Error> {
        Connection::commit_open(self)
    }

    fn roll_back_open(&mut self) -> Result<(), Error> {
        Connection::roll_back_open(self)
    }

    fn keep_promises(&mut self) {
        Connection::keep_promises(self)
    }

    fn defer_writes(&mut self, defers: bool) {
        Connection::defer_writes(self, defers)
    }

    fn execute_deferred_in_turn(&mut self) -> Result<(), Error> {
        Connection::execute_deferred_in_turn(self)
    }

    fn execute_deferred_ahead(&mut self) -> Result<(), Error> {
        Connection::execute_deferred_ahead(self)
    }

    fn is_executed(&self) -> bool {
        Connection::is_executed(self)
    }

    fn changes_of(&mut self, outcome: &Outcome) -> Result<u64, Error> {
        Connection::changes_of(self, outcome)
    }

    fn last_insert_rowid_of(&mut self, outcome: &Outcome) -> Result<i64, Error> {
        Connection::last_insert_rowid_of(self, outcome)
    }

    fn guard(&mut self) {
        Connection::guard(self)
    }

    fn unguard(&mut self) {
        Connection::unguard(self)
    }

    fn check_guard(&self) -> Result<(), Error> {
        Connection::check_guard(self)
    }

    fn begin_read_only(&mut self) -> Result<(), Error> {
        Connection::begin_read_only(self)
    }

    fn allows_optimism(&self) -> bool {
        Connection::allows_optimism(self)
    }

    fn note_first_try(&self) -> bool {
        Connection::note_first_try(self)
    }

    fn session_counts(&self) -> SessionCounts {
        Connection::session_counts(self)
    }

    fn continue_session(&mut self, counts: SessionCounts) {
        Connection::continue_session(self, counts)
    }

    fn is_plain(&self) -> bool {
        Connection::is_plain(self)
    }

    fn stay_in_thread(&mut self) {
        Connection::stay_in_thread(self)
    }

    fn check_while_waiting(&self, check: impl Fn() -> bool + Send + Sync + 'static) {
        Connection::check_while_waiting(self, check)
    }

    fn give_up_waiting(&mut self, gives_up: Option<Arc<dyn Fn() -> bool + Send + Sync>>) {
        Connection::give_up_waiting(self, gives_up)
    }

    fn set_timeout(&mut self, timeout: Duration) {
        Connection::set_timeout(self, timeout)
    }

    fn as_ptr(&self) -> *mut c_void {
        self.sqlite().as_ptr().cast()
    }

    fn compile_first<'s>(
        &mut self,
        sql: &'s str,
    ) -> Result<Option<(CompiledStatement, &'s str)>, Error> {
        self.compile_for_driver(sql)
    }

    fn start_compiled(
        &mut self,
        statement: &mut CompiledStatement,
        values: &[Value],
    ) -> Result<Started, Error> {
        Connection::start_compiled(self, statement, values)
    }

    fn note_failed_step(&mut self) {
        self.end_with_transaction()
    }

    fn keep_compiled(&mut self, statement: CompiledStatement) {
        Connection::keep_compiled(self, statement)
    }

    fn work_in_turn<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::work_in_turn(self, work)
    }

    fn overwrite_in_turn<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::overwrite_in_turn(self, work)
    }

    fn read_alone<T>(&mut self, read: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::read_alone(self, read)
    }

    fn replace_database<T>(
        &mut self,
        schema: &str,
        replace: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        Connection::replace_database(self, schema, |_| Ok(replace()))
    }

    fn hear_statements<T>(&mut self, hears: bool, change: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::hear_statements(self, hears, change)
    }

    fn change_connection<T>(
        &mut self,
        is_local: bool,
        change: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        Connection::change_connection(self, is_local, change)
    }

    fn change_function<T>(&mut self, name: &str, change: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::change_function(self, name, |_| Ok(change()))
    }

    fn change_collation<T>(&mut self, name: &str, change: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::change_collation(self, name, |_| Ok(change()))
    }

    fn hear_changes<T>(&mut self, change: impl FnOnce() -> T) -> Result<T, Error> {
        Connection::hear_changes(self, change)
    }

    fn set_wal_hook(
        &mut self,
        hook: Option<impl Fn(u32) -> i32 + Send + 'static>,
    ) -> Result<(), Error> {
        Connection::set_wal_hook(self, hook)
    }

    fn as_own<T>(&mut self, work: impl FnOnce(&mut Connection) -> T) -> T {
        Connection::as_own(self, work)
    }

    fn application_statements(&self) -> ApplicationStatements {
        Connection::application_statements(self)
    }
}

mod sealed {
    /// So that the trait may grow.
    pub trait Sealed {}

    impl Sealed for crate::Connection {}
}
