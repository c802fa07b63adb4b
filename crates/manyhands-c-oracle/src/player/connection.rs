//! Opening, closing, and what a connection can be asked.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::Player;
use crate::action::{File, OpenCall, Question};
use crate::call;
use crate::library::Db;
use crate::memory;

const OPEN_URI: c_int = 0x40;

impl Player {
    /// The connection in a slot.
    pub fn db(&self, connection: usize) -> Option<*mut Db> {
        self.connections[connection]
    }

    pub fn open(&mut self, connection: usize, how: OpenCall, file: File) {
        if self.db(connection).is_some() {
            self.close(connection, true);
        }
        let directory = self.directory.display();
        let name = match file {
            File::Main => format!("{directory}/main.db"),
            File::Other => format!("{directory}/other.db"),
            File::Fresh => format!("{directory}/fresh.db"),
            File::Memory => ":memory:".into(),
            File::Empty => String::new(),
            File::NoSuchDirectory => format!("{directory}/none/none.db"),
            File::UriReadOnly => format!("file:{directory}/main.db?mode=ro&cache=private"),
            File::UriMemory => format!("file:{directory}/named?mode=memory&cache=private"),
        };
        let mut db: *mut Db = ptr::null_mut();
        let code = match how {
            OpenCall::Open => call!(self.api, open(memory::c_text(&name).as_ptr(), &mut db)),
            OpenCall::Open16 => {
                call!(self.api, open16(memory::utf16(&name).as_ptr().cast(), &mut db))
            }
            OpenCall::V2 { flags } => {
                let flags = match file {
                    File::UriReadOnly | File::UriMemory => flags | OPEN_URI,
                    _ => flags,
                };
                let name = memory::c_text(&name);
                call!(self.api, open_v2(name.as_ptr(), &mut db, flags, ptr::null()))
            }
        };
        self.log.code("open", code);
        self.log.value("open gave a connection", !db.is_null());
        if db.is_null() {
            return;
        }
        self.log.message("errmsg after open", memory::text(call!(self.api, errmsg(db))));
        self.log.value("errcode after open", call!(self.api, extended_errcode(db)));
        if code != 0 {
            // Of a connection that failed to open nothing may be asked but why.
            return self.log.code("close after a failed open", call!(self.api, close(db)));
        }
        self.log.name(db.cast(), format!("connection {connection}"));
        self.connections[connection] = Some(db);
        // Manyhands waits for others unless it is told not to, and stock SQLite does not.
        self.log.code("busy_timeout", call!(self.api, busy_timeout(db, 0)));
        // Manyhands has read the schema by now; stock SQLite reads it with the first statement, and calls hooks for that.
        let schema = c"SELECT count(*) FROM sqlite_schema".as_ptr();
        let code = call!(self.api, exec(db, schema, None, ptr::null_mut(), ptr::null_mut()));
        self.log.code("first read", code);
        if matches!(file, File::Fresh) {
            let wal = c"PRAGMA journal_mode=WAL".as_ptr();
            let code = call!(self.api, exec(db, wal, None, ptr::null_mut(), ptr::null_mut()));
            self.log.code("PRAGMA journal_mode=WAL", code);
        }
    }

    pub fn close(&mut self, connection: usize, v2: bool) {
        let Some(db) = self.db(connection) else { return };
        // A session must be deleted before its connection is closed.
        if self.session.is_some_and(|(owner, _)| owner == connection) {
            self.session_delete();
        }
        // A blob handle of a closed connection may still be closed, but the player does not mix them with others'.
        let code = if v2 { call!(self.api, close_v2(db)) } else { call!(self.api, close(db)) };
        self.log.code(if v2 { "close_v2" } else { "close" }, code);
        if code != 0 {
            self.log.message("errmsg after close", memory::text(call!(self.api, errmsg(db))));
            return;
        }
        self.log.forget(db.cast());
        self.connections[connection] = None;
        self.preupdate[connection] = false;
        for statement in self.statements.iter_mut().flatten() {
            if statement.connection == Some(connection) {
                statement.connection = None;
            }
        }
    }

    pub fn ask(&mut self, connection: usize, what: &[Question]) {
        let Some(db) = self.db(connection) else { return };
        for question in what {
            self.answer(db, *question);
        }
    }

    fn answer(&self, db: *mut Db, question: Question) {
        let log = &self.log;
        match question {
            Question::Code => log.code("errcode", call!(self.api, errcode(db))),
            Question::Extended => {
                log.code("extended_errcode", call!(self.api, extended_errcode(db)))
            }
            Question::Message => log.message("errmsg", memory::text(call!(self.api, errmsg(db)))),
            Question::Message16 => {
                log.message("errmsg16", memory::text16(call!(self.api, errmsg16(db))));
            }
            Question::Offset => log.value("error_offset", call!(self.api, error_offset(db))),
            Question::Changes => {
                log.value("changes", call!(self.api, changes(db)));
                log.value("changes64", call!(self.api, changes64(db)));
            }
            Question::TotalChanges => {
                log.value("total_changes", call!(self.api, total_changes(db)));
                log.value("total_changes64", call!(self.api, total_changes64(db)));
            }
            Question::LastRowid => {
                log.value("last_insert_rowid", call!(self.api, last_insert_rowid(db)));
            }
            Question::Autocommit => {
                log.value("get_autocommit", call!(self.api, get_autocommit(db)));
            }
            Question::TransactionState => self.ask_transaction_state(db),
            Question::Names => self.ask_names(db),
            Question::ReadOnly => {
                for schema in [c"main", c"temp", c"o", c"none"] {
                    let answer = call!(self.api, db_readonly(db, schema.as_ptr()));
                    log.value("db_readonly", answer);
                }
            }
            Question::Columns => self.ask_columns(db),
            Question::Interrupted => {
                log.value("is_interrupted", call!(self.api, is_interrupted(db)));
            }
            Question::Counters => self.ask_counters(db),
            Question::Mutex => {
                let mutex = call!(self.api, db_mutex(db));
                log.value("db_mutex is there", !mutex.is_null());
                call!(self.api, mutex_enter(mutex));
                // A connection's mutex is recursive.
                log.code("mutex_try", call!(self.api, mutex_try(mutex)));
                call!(self.api, mutex_leave(mutex));
                call!(self.api, mutex_leave(mutex));
            }
        }
    }

    fn ask_transaction_state(&self, db: *mut Db) {
        self.log.value("txn_state of all", call!(self.api, txn_state(db, ptr::null())));
        for schema in [c"main", c"temp", c"o", c"none"] {
            let state = call!(self.api, txn_state(db, schema.as_ptr()));
            self.log.value(&format!("txn_state of {schema:?}"), state);
        }
    }

    fn ask_names(&self, db: *mut Db) {
        for number in -1..4 {
            self.log.value("db_name", memory::text(call!(self.api, db_name(db, number))));
        }
        for schema in [c"main", c"temp", c"o", c"none"] {
            let name = call!(self.api, db_filename(db, schema.as_ptr()));
            self.log.value("db_filename", memory::text(name));
        }
        let name = call!(self.api, db_filename(db, c"main".as_ptr()));
        if name.is_null() || memory::text(name) == "\"\"" {
            return;
        }
        self.log.value("filename_wal", memory::text(call!(self.api, filename_wal(name))));
        self.log.value("filename_journal", memory::text(call!(self.api, filename_journal(name))));
        self.log.value("filename_database", memory::text(call!(self.api, filename_database(name))));
        let mode = call!(self.api, uri_parameter(name, c"mode".as_ptr()));
        self.log.value("uri_parameter", memory::text(mode));
        self.log.value("uri_boolean", call!(self.api, uri_boolean(name, c"mode".as_ptr(), 1)));
        self.log.value("uri_int64", call!(self.api, uri_int64(name, c"none".as_ptr(), 7)));
        self.log.value("uri_key", memory::text(call!(self.api, uri_key(name, 0))));
    }

    fn ask_columns(&self, db: *mut Db) {
        for (table, column) in [
            (c"t", c"b"),
            (c"T", c"id"),
            (c"t", c"rowid"),
            (c"log", c"n"),
            (c"none", c"x"),
            (c"w", c"a"),
        ] {
            let (mut kind, mut collation): (*const c_char, *const c_char) =
                (ptr::null(), ptr::null());
            let (mut not_null, mut primary, mut increments) = (-1, -1, -1);
            let code = call!(
                self.api,
                table_column_metadata(
                    db,
                    ptr::null(),
                    table.as_ptr(),
                    column.as_ptr(),
                    &mut kind,
                    &mut collation,
                    &mut not_null,
                    &mut primary,
                    &mut increments,
                )
            );
            self.log.code("table_column_metadata", code);
            if code == 0 {
                self.log.value("type of the column", memory::text(kind));
                self.log.value("collation of the column", memory::text(collation));
                let flags = format!("{not_null} {primary} {increments}");
                self.log.value("flags of the column", flags);
            }
        }
    }

    /// Memory statistics and operating system errors: the calls must work, and their values are the library's affair.
    fn ask_counters(&self, db: *mut Db) {
        let (mut current, mut highest) = (0, 0);
        for operation in [0, 3, 10, 99] {
            let code = call!(self.api, db_status(db, operation, &mut current, &mut highest, 0));
            self.log.code("db_status", code);
        }
        call!(self.api, system_errno(db));
        call!(self.api, memory_used());
        call!(self.api, memory_highwater(0));
    }
}
