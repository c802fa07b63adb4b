//! A player: one library, its open handles in numbered slots, and the log of what it has seen.
//!
//! What always holds: a handle stands in a slot exactly as long as it may be used. What was lent to the library (texts, callbacks'
//! data) is kept until the player ends, after all handles are closed.

mod registration;
mod lent;
mod connection;
mod setting;
mod statement;
mod describe;
mod binding;
mod column;
mod whole;
mod hooks;
mod functions;
mod blob;
mod copies;
mod snapshot;
mod library_calls;

pub use library_calls::LIBRARY_CALLS;

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::action::{Action, BLOBS, CONNECTIONS, STATEMENTS, VALUES};
use crate::call;
use crate::event::{Event, Log};
use crate::library::{self, Api, Blob, Db, Session, Snapshot, Stmt, Value};

use registration::Registration;

pub struct Player {
    api: &'static Api,
    log: Rc<Log>,
    directory: PathBuf,
    connections: [Option<*mut Db>; CONNECTIONS],
    statements: [Option<Prepared>; STATEMENTS],
    values: [Option<*mut Value>; VALUES],
    blobs: [Option<*mut Blob>; BLOBS],
    snapshot: Option<*mut Snapshot>,
    session: Option<(usize, *mut Session)>,
    /// Which connections have a preupdate hook: a session takes the place of one, and must not meet the application's.
    preupdate: [bool; CONNECTIONS],
    registrations: Vec<Rc<Registration>>,
    lent: Vec<lent::Lent>,
}

/// A statement, and the slot of its connection while that is open.
#[derive(Clone, Copy)]
struct Prepared {
    pointer: *mut Stmt,
    connection: Option<usize>,
}

impl Player {
    pub fn new(api: &'static Api, directory: &Path) -> Player {
        Player {
            api,
            log: Rc::new(Log::new(directory.display().to_string())),
            directory: directory.to_path_buf(),
            connections: [None; CONNECTIONS],
            statements: [None; STATEMENTS],
            values: [None; VALUES],
            blobs: [None; BLOBS],
            snapshot: None,
            session: None,
            preupdate: [false; CONNECTIONS],
            registrations: Vec::new(),
            lent: Vec::new(),
        }
    }

    /// Plays one action and returns what was seen.
    pub fn play(&mut self, action: &Action) -> Vec<Event> {
        library::begin(self.api);
        match action {
            Action::Open { connection, how, file } => self.open(*connection, *how, *file),
            Action::Close { connection, v2 } => self.close(*connection, *v2),
            Action::Ask { connection, what } => self.ask(*connection, what),
            Action::Exec { connection, sql, callback } => self.exec(*connection, sql, *callback),
            Action::GetTable { connection, sql } => self.get_table(*connection, sql),
            Action::Script { connection, sql, read } => self.script(*connection, sql, read),
            Action::Setting { connection, setting } => self.set(*connection, setting),
            Action::Prepare { statement, connection, call, sql, length } => {
                self.prepare(*statement, *connection, *call, sql, *length);
            }
            Action::Bind { statement, index, value } => self.bind(*statement, *index, value),
            Action::BindByName { statement, name, number } => {
                self.bind_by_name(*statement, name, *number);
            }
            Action::Step { statement, times, read } => self.step(*statement, *times, read),
            Action::Column { statement, column, read } => self.column(*statement, *column, read),
            Action::KeepValue { statement, column, value } => {
                self.keep_value(*statement, *column, *value);
            }
            Action::AskValue { value, read } => self.ask_value(*value, read),
            Action::Reset { statement } => self.reset(*statement),
            Action::Finalize { statement } => self.finalize(*statement),
            Action::ClearBindings { statement } => self.clear_bindings(*statement),
            Action::TransferBindings { from, to } => self.transfer_bindings(*from, *to),
            Action::Describe { statement } => self.describe(*statement),
            Action::AskStatement { statement } => self.ask_statement(*statement),
            Action::Explain { statement, mode } => self.explain(*statement, *mode),
            Action::NextStatements { connection } => self.next_statements(*connection),
            Action::NoStatement => self.no_statement(),
            Action::Hook { connection, hook, on, answer } => {
                self.hook(*connection, *hook, *on, *answer);
            }
            Action::Function { connection, function, call, on } => {
                self.function(*connection, *function, *call, *on);
            }
            Action::Collation { connection, call, on } => self.collation(*connection, *call, *on),
            Action::BlobOpen { blob, connection, place, rowid, write } => {
                self.blob_open(*blob, *connection, *place, *rowid, *write);
            }
            Action::BlobRead { blob, count, offset } => self.blob_read(*blob, *count, *offset),
            Action::BlobWrite { blob, text, offset } => self.blob_write(*blob, text, *offset),
            Action::BlobReopen { blob, rowid } => self.blob_reopen(*blob, *rowid),
            Action::BlobClose { blob } => self.blob_close(*blob),
            Action::Backup { from, to, pages, write_between } => {
                self.backup(*from, *to, *pages, *write_between);
            }
            Action::Serialize { connection } => self.serialize(*connection),
            Action::Deserialize { from, to } => self.deserialize(*from, *to),
            Action::SnapshotGet { connection } => self.snapshot_get(*connection),
            Action::SnapshotOpen { connection } => self.snapshot_open(*connection),
            Action::SessionCreate { connection } => self.session_create(*connection),
            Action::SessionChangeset { patchset } => self.session_changeset(*patchset),
            Action::SessionSwitch { enable, indirect } => self.session_switch(*enable, *indirect),
            Action::SessionDelete => self.session_delete(),
            Action::Library { number } => self.library_call(*number),
        }
        self.log.take()
    }

    /// Closes whatever is still open, as a tidy program would, and returns what was seen.
    pub fn finish(&mut self) -> Vec<Event> {
        library::begin(self.api);
        self.session_delete();
        for blob in 0..BLOBS {
            self.blob_close(blob);
        }
        for statement in 0..STATEMENTS {
            self.finalize(statement);
        }
        for connection in 0..CONNECTIONS {
            self.close(connection, false);
        }
        if let Some(snapshot) = self.snapshot.take() {
            call!(self.api, snapshot_free(snapshot));
        }
        for value in &mut self.values {
            if let Some(value) = value.take() {
                call!(self.api, value_free(value));
            }
        }
        self.log.take()
    }

    /// A SQL text with the names of this player's files.
    fn sql(&self, sql: &str) -> String {
        let directory = self.directory.display();
        // Without SQLITE_OPEN_URI this is a plain name, of a file that is not there.
        sql.replace("'URI'", &format!("'file:{directory}/other.db?mode=ro'"))
            .replace("'OTHER'", &format!("'{directory}/other.db'"))
            .replace("'COPY'", &format!("'{directory}/copy.db'"))
    }

    /// Data for a callback, kept until the player ends.
    fn register(&mut self, label: String, answer: i32) -> *mut c_void {
        let registration =
            Rc::new(Registration::new(self.api, Rc::clone(&self.log), label, answer));
        let pointer: *mut c_void = Rc::as_ptr(&registration).cast_mut().cast();
        self.log.name(pointer, registration.label.clone());
        self.registrations.push(registration);
        pointer
    }
}
