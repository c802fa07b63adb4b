//! What SQLite calls back about a connection: hooks, traces, the authorizer. Each call is an event, so that the order is compared.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use super::Player;
use super::registration::Registration;
use crate::action::{Hook, Reader};
use crate::call;
use crate::library::{Db, Stmt, Value};
use crate::memory;

const TRACE_STMT: c_uint = 1;
const TRACE_PROFILE: c_uint = 2;
const TRACE_ROW: c_uint = 4;
const SQLITE_DELETE: c_int = 9;
const SQLITE_INSERT: c_int = 18;

impl Player {
    pub fn hook(&mut self, connection: usize, hook: Hook, on: bool, answer: i32) {
        let Some(db) = self.db(connection) else { return };
        if hook == Hook::Preupdate {
            if self.session.is_some_and(|(owner, _)| owner == connection) {
                return;
            }
            self.preupdate[connection] = on;
        }
        let api = self.api;
        let label = format!("{hook:?} of connection {connection}");
        let data = if on { self.register(label, answer) } else { ptr::null_mut() };
        let before = match hook {
            Hook::Update => call!(api, update_hook(db, on.then_some(on_update as _), data)),
            Hook::Commit => call!(api, commit_hook(db, on.then_some(on_commit as _), data)),
            Hook::Rollback => call!(api, rollback_hook(db, on.then_some(on_rollback as _), data)),
            Hook::Wal => call!(api, wal_hook(db, on.then_some(on_wal as _), data)),
            Hook::Preupdate => {
                call!(api, preupdate_hook(db, on.then_some(on_preupdate as _), data))
            }
            Hook::OldTrace => call!(api, trace(db, on.then_some(on_old_trace as _), data)),
            Hook::OldProfile => call!(api, profile(db, on.then_some(on_old_profile as _), data)),
            Hook::Authorizer { .. } => {
                let code = call!(api, set_authorizer(db, on.then_some(authorize as _), data));
                return self.log.code("set_authorizer", code);
            }
            Hook::Progress => {
                return call!(api, progress_handler(db, 1, on.then_some(on_progress as _), data));
            }
            Hook::Trace { mask } => {
                let code = call!(api, trace_v2(db, mask, on.then_some(on_trace as _), data));
                return self.log.code("trace_v2", code);
            }
            Hook::CollationNeeded => {
                let needed = on.then_some(on_collation_needed as _);
                let code = call!(api, collation_needed(db, data, needed));
                return self.log.code("collation_needed", code);
            }
        };
        self.log.value(&format!("{hook:?} replaces"), self.log.slot(before));
    }
}

/// Logs the call of a hook under its own label.
fn called(data: *mut c_void, text: String) -> &'static Registration {
    let registration = Registration::of(data);
    registration.log.callback(&registration.label, text);
    registration
}

extern "C" fn on_update(
    data: *mut c_void,
    operation: c_int,
    schema: *const c_char,
    table: *const c_char,
    rowid: i64,
) {
    let place = format!("{}.{}", memory::text(schema), memory::text(table));
    called(data, format!("operation {operation} of {place} row {rowid}"));
}

extern "C" fn on_commit(data: *mut c_void) -> c_int {
    called(data, "commits".into()).answer
}

extern "C" fn on_rollback(data: *mut c_void) {
    called(data, "rolls back".into());
}

extern "C" fn on_wal(
    data: *mut c_void,
    db: *mut Db,
    schema: *const c_char,
    _frames: c_int,
) -> c_int {
    // How many frames the WAL has is the library's affair: Manyhands writes others' commits into the same transaction.
    let registration = Registration::of(data);
    let connection = registration.log.slot(db.cast());
    called(data, format!("{connection} has written {}", memory::text(schema))).answer
}

extern "C" fn on_preupdate(
    data: *mut c_void,
    db: *mut Db,
    operation: c_int,
    schema: *const c_char,
    table: *const c_char,
    old_rowid: i64,
    new_rowid: i64,
) {
    let registration = Registration::of(data);
    let api = registration.api;
    let count = call!(api, preupdate_count(db));
    let mut text = format!(
        "operation {operation} of {}.{} rows {old_rowid} {new_rowid} depth {} blob {}",
        memory::text(schema),
        memory::text(table),
        call!(api, preupdate_depth(db)),
        call!(api, preupdate_blobwrite(db)),
    );
    for column in 0..count {
        for (new, forbidden) in [(false, SQLITE_INSERT), (true, SQLITE_DELETE)] {
            let mut value: *mut Value = ptr::null_mut();
            let code = if new {
                call!(api, preupdate_new(db, column, &mut value))
            } else {
                call!(api, preupdate_old(db, column, &mut value))
            };
            text += &format!(" {column}:{code}");
            if code == 0 && operation != forbidden && !value.is_null() {
                text += &super::column::value_text(api, value, Reader::Text);
            }
        }
    }
    called(data, text);
}

extern "C" fn on_old_trace(data: *mut c_void, sql: *const c_char) {
    called(data, memory::text(sql));
}

extern "C" fn on_old_profile(data: *mut c_void, sql: *const c_char, _nanoseconds: u64) {
    called(data, memory::text(sql));
}

extern "C" fn on_trace(
    event: c_uint,
    data: *mut c_void,
    subject: *mut c_void,
    detail: *mut c_void,
) -> c_int {
    let registration = Registration::of(data);
    let slot = registration.log.slot(subject);
    let text = match event {
        TRACE_STMT => {
            let stmt: *mut Stmt = subject.cast();
            let sql = memory::text(call!(registration.api, sql(stmt)));
            format!("{slot} begins {}, which is {sql}", memory::text(detail.cast()))
        }
        // How long it took is not compared.
        TRACE_PROFILE => {
            let stmt: *mut Stmt = subject.cast();
            format!("{slot} ends {}", memory::text(call!(registration.api, sql(stmt))))
        }
        TRACE_ROW => format!("{slot} has a row"),
        _ => format!("{slot} is closed"),
    };
    called(data, text);
    0
}

extern "C" fn authorize(
    data: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    schema: *const c_char,
    trigger: *const c_char,
) -> c_int {
    let names = [first, second, schema, trigger].map(memory::text).join(" ");
    let registration = called(data, format!("action {action} {names}"));
    // The label says which action is denied, the answer says how.
    if registration.label.contains(&format!("deny: {action} ")) { registration.answer } else { 0 }
}

extern "C" fn on_progress(data: *mut c_void) -> c_int {
    // How many instructions a statement takes is the library's affair, so the calls are no events.
    Registration::of(data).answer
}

extern "C" fn on_collation_needed(
    data: *mut c_void,
    db: *mut Db,
    encoding: c_int,
    name: *const c_char,
) {
    let registration = Registration::of(data);
    let slot = registration.log.slot(db.cast());
    called(data, format!("{slot} encoding {encoding} {}", memory::text(name)));
    if registration.answer != 0 {
        let compare = Some(super::functions::compare as _);
        let code = call!(registration.api, create_collation(db, name, 1, data, compare));
        registration.log.code("create_collation in collation_needed", code);
    }
}
