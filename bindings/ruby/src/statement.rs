//! Statements: preparing, binding, stepping, and the values of a row.

use core::cell::{Cell, OnceCell};
use core::ptr;
use std::sync::Arc;
use std::time::Instant;

use magnus::gc::Marker;
use magnus::typed_data::Obj;
use magnus::value::{Opaque, ReprValue};
use magnus::{
    Class, DataTypeFunctions, Error, Module, RArray, RHash, RModule, RString, Ruby, Symbol,
    TryConvert, TypedData, Value, method,
};

use crate::connection::{Connection, Entered, Garbage};
use crate::database::Database;
use crate::error::refusal;
use crate::ffi::{self, sqlite};
use crate::kind::Kind;
use crate::pace::Paces;
use crate::value::{self, Given};

/// `Manyhands::Statement`.
#[derive(TypedData)]
#[magnus(class = "Manyhands::Statement", free_immediately, mark)]
pub(crate) struct Statement {
    connection: OnceCell<Arc<Connection>>,
    /// The object of the connection, which lives as long as this.
    database: OnceCell<Opaque<Value>>,
    /// Null before it is prepared, when it is closed, and for a text without a statement.
    raw: Cell<*mut ffi::sqlite3_stmt>,
    kind: Cell<Kind>,
    is_done: Cell<bool>,
    /// Between its first step and its last one.
    is_running: Cell<bool>,
    paces: OnceCell<Arc<Paces>>,
}

// SAFETY: all of it is used with the GVL, or by who has entered the connection.
unsafe impl Send for Statement {}

impl Default for Statement {
    fn default() -> Statement {
        Statement {
            connection: OnceCell::new(),
            database: OnceCell::new(),
            raw: Cell::new(ptr::null_mut()),
            kind: Cell::new(Kind::Other),
            is_done: Cell::new(false),
            is_running: Cell::new(false),
            paces: OnceCell::new(),
        }
    }
}

impl DataTypeFunctions for Statement {
    fn mark(&self, marker: &Marker) {
        if let Some(database) = self.database.get() {
            marker.mark(*database);
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        if let (Some(connection), false) = (self.connection.get(), self.raw.get().is_null()) {
            connection.throw_away(Garbage::Statement(self.raw.get()));
        }
    }
}

/// A statement that may be used: its connection is entered.
pub(crate) struct Open<'a> {
    entered: Entered<'a>,
    pub(crate) raw: *mut ffi::sqlite3_stmt,
}

impl Statement {
    fn open(&self, ruby: &Ruby) -> Result<Open<'_>, Error> {
        let Some(connection) = self.connection.get() else {
            return Err(refusal(ruby, "cannot use a closed statement"));
        };
        if connection.is_discarded() {
            let text = "cannot use a statement associated with a discarded database";
            return Err(refusal(ruby, text));
        }
        let entered = connection.enter(ruby)?;
        let raw = self.raw.get();
        if raw.is_null() {
            return Err(refusal(ruby, "cannot use a closed statement"));
        }
        Ok(Open { entered, raw })
    }

    /// Compiles the first statement of a text; gives the rest of the text.
    fn prepare(ruby: &Ruby, this: &Statement, db: Value, sql: RString) -> Result<Value, Error> {
        let database = <&Database>::try_convert(db)?;
        let connection = database.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        let handle = entered.db(ruby)?;
        let mut text = value::copy(sql);
        text.push(0);
        let length = i32::try_from(text.len() - 1).unwrap_or(i32::MAX);
        let (mut raw, mut tail) = (ptr::null_mut(), ptr::null());
        let code = entered.at_once(|| {
            let start = text.as_ptr().cast();
            sqlite!(sqlite3_prepare_v2(handle, start, length, &mut raw, &mut tail))
        })?;
        connection.deadline.set(None);
        if code != ffi::SQLITE_OK {
            let mut failure = entered.failure(code);
            let offset = sqlite!(sqlite3_error_offset(handle));
            failure.sql = Some((String::from_utf8_lossy(&text[..text.len() - 1]).into(), offset));
            return Err(failure.raise(ruby));
        }
        if !raw.is_null() {
            entered.add_statement();
            let is_readonly = sqlite!(sqlite3_stmt_readonly(raw)) != 0;
            let kind = Kind::of(&text, is_readonly);
            if kind == Kind::Attach {
                connection.attach();
            }
            this.kind.set(kind);
            this.raw.set(raw);
            let _ = this.paces.set(Paces::of(&text));
        }
        drop(entered);
        let _ = this.connection.set(connection);
        let _ = this.database.set(Opaque::from(db));
        // SAFETY: SQLite tells where the rest of the text is, up to its zero.
        Ok(unsafe { value::text(ruby, tail) })
    }

    fn close(ruby: &Ruby, this: Obj<Statement>) -> Result<Obj<Statement>, Error> {
        if this.connection.get().is_some_and(|it| it.is_discarded()) && !this.is_closed() {
            let raw = this.raw.replace(ptr::null_mut());
            // What this process has made is finalized by the next one who uses the connection, or with it.
            if let Some(connection) = this.connection.get().filter(|it| !it.is_inherited()) {
                connection.throw_away(Garbage::Statement(raw));
            }
            return Ok(this);
        }
        let open = this.open(ruby)?;
        let raw = this.raw.replace(ptr::null_mut());
        if this.kind.get() != Kind::Reads && this.is_running.get() {
            // It may have to end its transaction.
            let entered = &open.entered;
            entered.wait(ruby, move || sqlite!(sqlite3_reset(raw)))?;
        }
        open.entered.finalize(open.raw);
        open.entered.at_once(|| ())?;
        drop(open);
        Ok(this)
    }

    fn is_closed(&self) -> bool {
        self.raw.get().is_null()
    }

    /// The next row; nil at the end.
    fn step(ruby: &Ruby, this: &Statement) -> Result<Option<RArray>, Error> {
        let open = this.open(ruby)?;
        if this.is_done.get() {
            return Ok(None);
        }
        match this.step_once(ruby, &open) {
            Ok(ffi::SQLITE_ROW) => {
                this.is_running.set(true);
                open.row(ruby).map(Some)
            }
            Ok(ffi::SQLITE_DONE) => {
                this.is_running.set(false);
                this.is_done.set(true);
                Ok(None)
            }
            Ok(code) => {
                let failure = open.entered.failure(code);
                this.end(ruby, &open)?;
                Err(failure.raise(ruby))
            }
            Err(raised) => {
                // What else would be raised is less than this.
                let _ = this.end(ruby, &open);
                Err(raised)
            }
        }
    }

    fn step_once(&self, ruby: &Ruby, open: &Open<'_>) -> Result<i32, Error> {
        let Open { entered, raw } = open;
        let raw = *raw;
        let is_first = !self.is_running.get();
        let paces = self.paces.get_or_init(Arc::default);
        let pace = if is_first { &paces.first } else { &paces.next };
        let kind = self.kind.get();
        let may_wait = match kind {
            Kind::Reads => is_first && entered.read_may_wait(),
            Kind::Changes => entered.may_wait(),
            Kind::Other | Kind::Attach => true,
        };
        if may_wait {
            return entered.wait(ruby, move || sqlite!(sqlite3_step(raw)));
        }
        let step = move || {
            let began = Instant::now();
            let code = sqlite!(sqlite3_step(raw));
            (code, began.elapsed())
        };
        if pace.is_short() {
            let attempt = entered.attempt();
            if is_first && kind == Kind::Reads && entered.may_begin_again() {
                attempt.begin();
            }
            let stepped = entered.at_once(step);
            let is_given_up = attempt.end();
            let (code, took) = stepped?;
            pace.learn(took);
            if !is_given_up || code & 0xff != ffi::SQLITE_INTERRUPT {
                return Ok(code);
            }
            sqlite!(sqlite3_reset(raw));
        }
        let (code, took) = entered.wait(ruby, step)?;
        pace.learn(took);
        Ok(code)
    }

    /// Ends the execution.
    fn end(&self, ruby: &Ruby, open: &Open<'_>) -> Result<(), Error> {
        self.is_done.set(false);
        let raw = open.raw;
        if self.is_running.replace(false) && self.kind.get() != Kind::Reads {
            // It may have to end its transaction.
            open.entered.wait(ruby, move || sqlite!(sqlite3_reset(raw)))?;
        } else {
            open.entered.at_once(|| sqlite!(sqlite3_reset(raw)))?;
        }
        Ok(())
    }

    fn reset(ruby: &Ruby, this: Obj<Statement>) -> Result<Obj<Statement>, Error> {
        let open = this.open(ruby)?;
        this.end(ruby, &open)?;
        drop(open);
        Ok(this)
    }

    fn clear_bindings(ruby: &Ruby, this: Obj<Statement>) -> Result<Obj<Statement>, Error> {
        let open = this.open(ruby)?;
        sqlite!(sqlite3_clear_bindings(open.raw));
        this.is_done.set(false);
        drop(open);
        Ok(this)
    }

    fn bind_param(
        ruby: &Ruby,
        this: Obj<Statement>,
        key: Value,
        given: Value,
    ) -> Result<Obj<Statement>, Error> {
        let Some(converted) = Given::of(ruby, given)? else {
            // SAFETY: the name is copied at once.
            let name = unsafe { given.classname() }.into_owned();
            let text = format!("can't prepare {name}");
            return Err(Error::new(ruby.exception_runtime_error(), text));
        };
        let name = name_of_parameter(key)?;
        let open = this.open(ruby)?;
        let index = match &name {
            Some(name) => sqlite!(sqlite3_bind_parameter_index(open.raw, name.as_ptr())),
            None => i32::try_convert(key)?,
        };
        if index == 0 {
            return Err(refusal(ruby, "no such bind parameter"));
        }
        let code = open.bind(index, &converted);
        open.entered.check(ruby, code)?;
        drop(open);
        Ok(this)
    }

    fn is_done(&self) -> bool {
        self.is_done.get()
    }

    fn column_count(ruby: &Ruby, this: &Statement) -> Result<i32, Error> {
        let open = this.open(ruby)?;
        Ok(sqlite!(sqlite3_column_count(open.raw)))
    }

    fn column_name(ruby: &Ruby, this: &Statement, column: i32) -> Result<Value, Error> {
        let open = this.open(ruby)?;
        let name = sqlite!(sqlite3_column_name(open.raw, column));
        // SAFETY: a text of SQLite's, or null.
        Ok(unsafe { value::name(ruby, name) })
    }

    fn column_decltype(ruby: &Ruby, this: &Statement, column: i32) -> Result<Value, Error> {
        let open = this.open(ruby)?;
        let name = sqlite!(sqlite3_column_decltype(open.raw, column));
        // SAFETY: a text of SQLite's, or null.
        Ok(unsafe { value::text(ruby, name) })
    }

    fn database_name(ruby: &Ruby, this: &Statement, column: i32) -> Result<Value, Error> {
        let open = this.open(ruby)?;
        let name = sqlite!(sqlite3_column_database_name(open.raw, column));
        // SAFETY: a text of SQLite's, or null.
        Ok(unsafe { value::text(ruby, name) })
    }

    fn bind_parameter_count(ruby: &Ruby, this: &Statement) -> Result<i32, Error> {
        let open = this.open(ruby)?;
        Ok(sqlite!(sqlite3_bind_parameter_count(open.raw)))
    }

    /// The names of the parameters that have one, without what they begin with.
    fn named_params(ruby: &Ruby, this: &Statement) -> Result<RArray, Error> {
        let open = this.open(ruby)?;
        let names = ruby.ary_new();
        for index in 1..=sqlite!(sqlite3_bind_parameter_count(open.raw)) {
            let name = sqlite!(sqlite3_bind_parameter_name(open.raw, index));
            // SAFETY: a text of SQLite's, or null.
            let name = unsafe { value::text(ruby, name) };
            if let Some(name) = RString::from_value(name) {
                let name = name.to_string()?;
                if !name.starts_with('?') {
                    names.push(ruby.str_new(&name[1..]).to_interned_str())?;
                }
            }
        }
        names.freeze();
        Ok(names)
    }

    fn sql(ruby: &Ruby, this: &Statement) -> Result<Value, Error> {
        let open = this.open(ruby)?;
        let sql = sqlite!(sqlite3_sql(open.raw));
        // SAFETY: a text of SQLite's.
        let text = unsafe { value::text(ruby, sql) };
        text.freeze();
        Ok(text)
    }

    fn expanded_sql(ruby: &Ruby, this: &Statement) -> Result<Value, Error> {
        let open = this.open(ruby)?;
        let expanded = sqlite!(sqlite3_expanded_sql(open.raw));
        // SAFETY: a text that SQLite has made, or null without memory.
        let text = unsafe { value::text(ruby, expanded) };
        sqlite!(sqlite3_free(expanded.cast()));
        text.freeze();
        Ok(text)
    }

    fn stats_as_hash(ruby: &Ruby, this: &Statement) -> Result<RHash, Error> {
        let open = this.open(ruby)?;
        let stats = ruby.hash_new();
        for (name, what) in STATS {
            stats.aset(ruby.to_symbol(name), sqlite!(sqlite3_stmt_status(open.raw, *what, 0)))?;
        }
        Ok(stats)
    }

    fn stat_for(ruby: &Ruby, this: &Statement, key: Value) -> Result<i32, Error> {
        let Some(symbol) = Symbol::from_value(key) else {
            return Err(Error::new(ruby.exception_type_error(), "non-symbol given"));
        };
        let open = this.open(ruby)?;
        let name = symbol.name()?;
        match STATS.iter().find(|(known, _)| *known == name) {
            Some((_, what)) => Ok(sqlite!(sqlite3_stmt_status(open.raw, *what, 0))),
            None => {
                let text = format!("unknown key: {name}");
                Err(Error::new(ruby.exception_arg_error(), text))
            }
        }
    }

    fn memused(ruby: &Ruby, this: &Statement) -> Result<i32, Error> {
        let open = this.open(ruby)?;
        Ok(sqlite!(sqlite3_stmt_status(open.raw, ffi::SQLITE_STMTSTATUS_MEMUSED, 0)))
    }
}

impl Open<'_> {
    fn bind(&self, index: i32, given: &Given) -> i32 {
        let (raw, copied) = (self.raw, ffi::SQLITE_TRANSIENT());
        let length = |text: &RString| i32::try_from(text.len()).unwrap_or(i32::MAX);
        match given {
            Given::Null => sqlite!(sqlite3_bind_null(raw, index)),
            Given::Integer(number) => sqlite!(sqlite3_bind_int64(raw, index, *number)),
            Given::Real(number) => sqlite!(sqlite3_bind_double(raw, index, *number)),
            Given::Text(text) => {
                let start = value::start(*text).cast();
                sqlite!(sqlite3_bind_text(raw, index, start, length(text), copied))
            }
            Given::Text16(text) => {
                let start = value::start(*text).cast();
                sqlite!(sqlite3_bind_text16(raw, index, start, length(text), copied))
            }
            Given::Blob(bytes) => {
                let start = value::start(*bytes).cast();
                sqlite!(sqlite3_bind_blob(raw, index, start, length(bytes), copied))
            }
        }
    }
}

/// The name of a parameter with its colon; `None` for the number of one.
fn name_of_parameter(key: Value) -> Result<Option<std::ffi::CString>, Error> {
    let text = match Symbol::from_value(key) {
        Some(symbol) => symbol.name()?.into_owned().into_bytes(),
        None => match RString::from_value(key) {
            Some(text) => value::copy(text),
            None => return Ok(None),
        },
    };
    let colon: &[u8] = if text.first() == Some(&b':') { b"" } else { b":" };
    let name = [colon, &text].concat();
    let name = std::ffi::CString::new(name);
    // A name with a zero in it is the name of none.
    Ok(Some(name.unwrap_or_default()))
}

/// What `stat` tells, and SQLite's number of it.
const STATS: &[(&str, i32)] = &[
    ("fullscan_steps", ffi::SQLITE_STMTSTATUS_FULLSCAN_STEP),
    ("sorts", ffi::SQLITE_STMTSTATUS_SORT),
    ("autoindexes", ffi::SQLITE_STMTSTATUS_AUTOINDEX),
    ("vm_steps", ffi::SQLITE_STMTSTATUS_VM_STEP),
    ("reprepares", ffi::SQLITE_STMTSTATUS_REPREPARE),
    ("runs", ffi::SQLITE_STMTSTATUS_RUN),
    ("filter_misses", ffi::SQLITE_STMTSTATUS_FILTER_MISS),
    ("filter_hits", ffi::SQLITE_STMTSTATUS_FILTER_HIT),
];

pub(crate) fn define(ruby: &Ruby, module: RModule) -> Result<(), Error> {
    let class = module.define_class("Statement", ruby.class_object())?;
    class.define_alloc_func::<Statement>();
    class.define_private_method("prepare", method!(Statement::prepare, 2))?;
    class.define_method("close", method!(Statement::close, 0))?;
    class.define_method("closed?", method!(Statement::is_closed, 0))?;
    class.define_method("step", method!(Statement::step, 0))?;
    class.define_method("reset!", method!(Statement::reset, 0))?;
    class.define_method("clear_bindings!", method!(Statement::clear_bindings, 0))?;
    class.define_method("bind_param", method!(Statement::bind_param, 2))?;
    class.define_method("done?", method!(Statement::is_done, 0))?;
    class.define_method("column_count", method!(Statement::column_count, 0))?;
    class.define_method("column_name", method!(Statement::column_name, 1))?;
    class.define_method("column_decltype", method!(Statement::column_decltype, 1))?;
    class.define_method("database_name", method!(Statement::database_name, 1))?;
    class.define_method("bind_parameter_count", method!(Statement::bind_parameter_count, 0))?;
    class.define_method("named_params", method!(Statement::named_params, 0))?;
    class.define_method("sql", method!(Statement::sql, 0))?;
    class.define_method("expanded_sql", method!(Statement::expanded_sql, 0))?;
    class.define_private_method("stats_as_hash", method!(Statement::stats_as_hash, 0))?;
    class.define_private_method("stat_for", method!(Statement::stat_for, 1))?;
    class.define_method("memused", method!(Statement::memused, 0))?;
    Ok(())
}
