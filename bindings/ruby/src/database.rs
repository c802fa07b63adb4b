//! `Manyhands::Database`: opening, closing, and what is asked of or set on a connection.

use core::cell::{Cell, RefCell};
use core::ptr;
use core::time::Duration;
use std::ffi::CString;
use std::sync::Arc;

use magnus::gc::Marker;
use magnus::typed_data::Obj;
use magnus::value::ReprValue;
use magnus::{
    Class, DataTypeFunctions, Error, Module, RArray, RModule, RString, Ruby, TypedData, Value,
    method,
};

use crate::connection::Connection;
use crate::error::refusal;
use crate::ffi::{self, sqlite};
use crate::value;

/// `Manyhands::Database`. Freed later than the garbage collector finds it: closing writes files.
#[derive(TypedData, Default)]
#[magnus(class = "Manyhands::Database", mark)]
pub(crate) struct Database {
    connection: RefCell<Option<Arc<Connection>>>,
    /// It was inherited by a child process, which must not use it.
    is_discarded: Cell<bool>,
}

// SAFETY: its cells are used with the GVL.
unsafe impl Send for Database {}

impl DataTypeFunctions for Database {
    fn mark(&self, marker: &Marker) {
        if let Some(connection) = &*self.connection.borrow() {
            connection.mark(marker);
        }
    }
}

impl Database {
    /// Its connection, which is open.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn connection(&self, ruby: &Ruby) -> Result<Arc<Connection>, Error> {
        let connection = self.connection.borrow().clone();
        match connection {
            Some(connection) if !self.is_closed() && !connection.is_closed() => Ok(connection),
            _ => Err(refusal(ruby, "cannot use a closed database")),
        }
    }

    /// Calls `work` with SQLite's connection, which nobody else uses meanwhile.
    fn call<T>(&self, ruby: &Ruby, work: impl FnOnce(*mut ffi::sqlite3) -> T) -> Result<T, Error> {
        let connection = self.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        let db = entered.db(ruby)?;
        entered.at_once(|| work(db))
    }

    /// The same for what gives a result code.
    pub(crate) fn call_checked(
        &self,
        ruby: &Ruby,
        work: impl FnOnce(*mut ffi::sqlite3) -> i32,
    ) -> Result<(), Error> {
        let connection = self.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        let db = entered.db(ruby)?;
        let code = entered.at_once(|| work(db))?;
        entered.check(ruby, code)
    }

    fn open_with(
        &self,
        ruby: &Ruby,
        open: impl FnOnce(&mut *mut ffi::sqlite3) -> i32 + 'static,
    ) -> Result<(), Error> {
        if !self.is_closed() {
            return Err(refusal(ruby, "cannot open a database that is already open"));
        }
        let connection = Arc::new(Connection::new(ruby));
        // From here on it is marked.
        self.connection.replace(Some(Arc::clone(&connection)));
        self.is_discarded.set(false);
        let entered = connection.enter(ruby)?;
        entered.open(ruby, open)
    }

    fn open_v2(
        ruby: &Ruby,
        this: Obj<Database>,
        name: RString,
        flags: i32,
        vfs: Option<RString>,
    ) -> Result<Obj<Database>, Error> {
        let name = value::c_text(name)?;
        let vfs = vfs.map(value::c_text).transpose()?;
        this.open_with(ruby, move |db| {
            let vfs = vfs.as_ref().map_or(ptr::null(), |vfs| vfs.as_ptr());
            sqlite!(sqlite3_open_v2(name.as_ptr(), db, flags, vfs))
        })?;
        Ok(this)
    }

    /// `name` is in UTF-16 of the machine's order, with a zero at its end.
    fn open16(ruby: &Ruby, this: &Database, name: RString) -> Result<i32, Error> {
        let bytes = value::copy(name);
        // Aligned, as SQLite reads it.
        let units: Vec<u16> =
            bytes.chunks_exact(2).map(|it| u16::from_ne_bytes([it[0], it[1]])).collect();
        this.open_with(ruby, move |db| sqlite!(sqlite3_open16(units.as_ptr().cast(), db)))?;
        Ok(ffi::SQLITE_OK)
    }

    fn close(ruby: &Ruby, this: Obj<Database>) -> Result<Obj<Database>, Error> {
        let connection = this.connection.borrow().clone();
        if let Some(connection) = connection.filter(|_| !this.is_closed()) {
            if connection.is_inherited() {
                this.is_discarded.set(true);
            } else {
                connection.enter(ruby)?.close(ruby)?;
            }
        }
        Ok(this)
    }

    /// Lets go of a connection that another process has made, without touching it.
    fn discard(ruby: &Ruby, this: Obj<Database>) -> Result<Obj<Database>, Error> {
        if let Some(connection) = &*this.connection.borrow() {
            connection.discard();
        }
        Database::close(ruby, this)
    }

    fn is_closed(&self) -> bool {
        self.is_discarded.get() || self.connection.borrow().as_ref().is_none_or(|it| it.is_closed())
    }

    fn total_changes(ruby: &Ruby, this: &Database) -> Result<i32, Error> {
        this.call(ruby, |db| sqlite!(sqlite3_total_changes(db)))
    }

    fn changes(ruby: &Ruby, this: &Database) -> Result<i32, Error> {
        this.call(ruby, |db| sqlite!(sqlite3_changes(db)))
    }

    fn last_insert_row_id(ruby: &Ruby, this: &Database) -> Result<i64, Error> {
        this.call(ruby, |db| sqlite!(sqlite3_last_insert_rowid(db)))
    }

    fn is_in_transaction(ruby: &Ruby, this: &Database) -> Result<bool, Error> {
        this.call(ruby, |db| sqlite!(sqlite3_get_autocommit(db)) == 0)
    }

    fn interrupt(ruby: &Ruby, this: Obj<Database>) -> Result<Obj<Database>, Error> {
        // Whoever executes something has entered the connection.
        this.connection(ruby)?.interrupt();
        Ok(this)
    }

    fn errmsg(ruby: &Ruby, this: &Database) -> Result<Value, Error> {
        let message = this.call(ruby, |db| sqlite!(sqlite3_errmsg(db)))?;
        // SAFETY: a text of SQLite's, which no other call has changed: this thread has kept the GVL since.
        Ok(unsafe { value::text(ruby, message) })
    }

    fn errcode(ruby: &Ruby, this: &Database) -> Result<i32, Error> {
        this.call(ruby, |db| sqlite!(sqlite3_errcode(db)))
    }

    fn is_complete(_: &Ruby, _: &Database, sql: RString) -> Result<bool, Error> {
        let sql = value::c_text(sql)?;
        Ok(sqlite!(sqlite3_complete(sql.as_ptr())) != 0)
    }

    fn set_busy_timeout(ruby: &Ruby, this: &Database, milliseconds: i32) -> Result<i32, Error> {
        this.call_checked(ruby, |db| sqlite!(sqlite3_busy_timeout(db, milliseconds)))?;
        Ok(milliseconds)
    }

    fn set_statement_timeout(
        ruby: &Ruby,
        this: &Database,
        milliseconds: i32,
    ) -> Result<i32, Error> {
        let connection = this.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        let timeout = u64::try_from(milliseconds).ok().filter(|it| *it > 0);
        connection.statement_timeout.set(timeout.map(Duration::from_millis));
        connection.deadline.set(None);
        entered.watch_progress();
        Ok(milliseconds)
    }

    fn set_extended_result_codes(ruby: &Ruby, this: &Database, on: Value) -> Result<Value, Error> {
        let switch = i32::from(on.to_bool());
        this.call_checked(ruby, |db| sqlite!(sqlite3_extended_result_codes(db, switch)))?;
        Ok(on)
    }

    /// A text in double quotes is a name, and nothing else.
    fn disable_quirk_mode(ruby: &Ruby, this: &Database) -> Result<bool, Error> {
        for what in [ffi::SQLITE_DBCONFIG_DQS_DDL, ffi::SQLITE_DBCONFIG_DQS_DML] {
            this.call(ruby, |db| sqlite!(sqlite3_db_config(db, what, 0, 0, 0)))?;
        }
        Ok(true)
    }

    fn enable_load_extension(
        ruby: &Ruby,
        this: Obj<Database>,
        on: i32,
    ) -> Result<Obj<Database>, Error> {
        this.call_checked(ruby, |db| sqlite!(sqlite3_enable_load_extension(db, on)))?;
        Ok(this)
    }

    fn load_extension(
        ruby: &Ruby,
        this: Obj<Database>,
        file: RString,
    ) -> Result<Obj<Database>, Error> {
        let file = value::c_text(file)?;
        let connection = this.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        let db = entered.db(ruby)?;
        let (code, message) = entered.wait(ruby, move || {
            let mut message = ptr::null_mut();
            let (file, entry) = (file.as_ptr(), ptr::null());
            (sqlite!(sqlite3_load_extension(db, file, entry, &mut message)), message)
        })?;
        if code != ffi::SQLITE_OK {
            let mut failure = entered.failure(code);
            failure.take_text(message);
            return Err(failure.raise(ruby));
        }
        drop(entered);
        Ok(this)
    }

    fn db_filename(ruby: &Ruby, this: &Database, schema: RString) -> Result<Value, Error> {
        let schema = value::c_text(schema)?;
        let name = this.call(ruby, |db| sqlite!(sqlite3_db_filename(db, schema.as_ptr())))?;
        // SAFETY: a text of SQLite's, or null.
        Ok(unsafe { value::text(ruby, name) })
    }

    /// Executes all statements of a text; gives the rows, with their column names, as texts.
    fn exec_texts(ruby: &Ruby, this: &Database, sql: RString) -> Result<RArray, Error> {
        let sql = value::c_text(sql)?;
        let connection = this.connection(ruby)?;
        let entered = connection.enter(ruby)?;
        let db = entered.db(ruby)?;
        let (rows, code, message) = entered.wait(ruby, move || {
            let mut rows: Vec<Row> = Vec::new();
            let data = ptr::from_mut(&mut rows).cast();
            let (sql, mut message) = (sql.as_ptr(), ptr::null_mut());
            let code = sqlite!(sqlite3_exec(db, sql, Some(add_row), data, &mut message));
            (rows, code, message)
        })?;
        if code != ffi::SQLITE_OK {
            let mut failure = entered.failure(code);
            failure.take_text(message);
            return Err(failure.raise(ruby));
        }
        let found = ruby.ary_new();
        for row in rows {
            let texts = ruby.ary_new();
            for (name, text) in row {
                texts.push(ruby.ary_new_from_values(&[
                    ruby.enc_str_new(name.as_bytes(), ruby.utf8_encindex()).as_value(),
                    match text {
                        Some(text) => {
                            ruby.enc_str_new(text.as_bytes(), ruby.utf8_encindex()).as_value()
                        }
                        None => ruby.qnil().as_value(),
                    },
                ]))?;
            }
            found.push(texts)?;
        }
        Ok(found)
    }
}

/// A row: the names of its columns, and its values as texts.
type Row = Vec<(CString, Option<CString>)>;

/// SQLite calls it for each row.
///
/// # Safety
/// The data is the address of the rows so far; so many texts and names are there.
unsafe extern "C" fn add_row(
    data: *mut ffi::c_void,
    columns: i32,
    texts: *mut *mut ffi::c_char,
    names: *mut *mut ffi::c_char,
) -> i32 {
    // SAFETY: what `exec_texts` has given, and waits with.
    let rows = unsafe { &mut *data.cast::<Vec<Row>>() };
    let copy = |of: *mut *mut ffi::c_char, column: usize| {
        // SAFETY: SQLite gives so many.
        let place = unsafe { of.add(column) };
        // SAFETY: the same.
        let text = unsafe { *place };
        // SAFETY: a zero-terminated text, or null.
        (!text.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(text) }.to_owned())
    };
    let columns = 0..usize::try_from(columns).unwrap_or(0);
    rows.push(columns.map(|at| (copy(names, at).unwrap_or_default(), copy(texts, at))).collect());
    0
}

pub(crate) fn define(ruby: &Ruby, module: RModule) -> Result<(), Error> {
    let class = module.define_class("Database", ruby.class_object())?;
    class.define_alloc_func::<Database>();
    class.define_private_method("open_v2", method!(Database::open_v2, 3))?;
    class.define_private_method("open16", method!(Database::open16, 1))?;
    class.define_private_method("discard", method!(Database::discard, 0))?;
    class.define_private_method("disable_quirk_mode", method!(Database::disable_quirk_mode, 0))?;
    class.define_private_method("exec_texts", method!(Database::exec_texts, 1))?;
    class.define_private_method("db_filename", method!(Database::db_filename, 1))?;
    class.define_private_method("load_extension_internal", method!(Database::load_extension, 1))?;
    class.define_private_method(
        "switch_load_extension",
        method!(Database::enable_load_extension, 1),
    )?;
    class.define_method("close", method!(Database::close, 0))?;
    class.define_method("closed?", method!(Database::is_closed, 0))?;
    class.define_method("total_changes", method!(Database::total_changes, 0))?;
    class.define_method("changes", method!(Database::changes, 0))?;
    class.define_method("last_insert_row_id", method!(Database::last_insert_row_id, 0))?;
    class.define_method("transaction_active?", method!(Database::is_in_transaction, 0))?;
    class.define_method("interrupt", method!(Database::interrupt, 0))?;
    class.define_method("errmsg", method!(Database::errmsg, 0))?;
    class.define_method("errcode", method!(Database::errcode, 0))?;
    class.define_method("complete?", method!(Database::is_complete, 1))?;
    class.define_method("busy_timeout=", method!(Database::set_busy_timeout, 1))?;
    class.define_method("statement_timeout=", method!(Database::set_statement_timeout, 1))?;
    class
        .define_method("extended_result_codes=", method!(Database::set_extended_result_codes, 1))?;
    crate::functions::define(class)?;
    crate::hooks::define(class)
}
