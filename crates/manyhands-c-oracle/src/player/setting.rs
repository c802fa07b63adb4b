//! Settings of a connection: waits, limits, switches, checkpoints.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::Player;
use super::registration::{Registration, destroy};
use crate::action::Setting;
use crate::call;
use crate::library::Db;
use crate::memory;

const FCNTL_PERSIST_WAL: c_int = 10;
const NO_SUCH_FCNTL: c_int = 9999;

impl Player {
    pub fn set(&mut self, connection: usize, setting: &Setting) {
        let Some(db) = self.db(connection) else { return };
        let log = std::rc::Rc::clone(&self.log);
        match setting {
            Setting::BusyTimeout(ms) => {
                log.code("busy_timeout", call!(self.api, busy_timeout(db, *ms)))
            }
            Setting::BusyHandler { answers } => {
                let data = self.register("busy handler".into(), *answers);
                log.code("busy_handler", call!(self.api, busy_handler(db, Some(on_busy), data)));
            }
            Setting::ExtendedCodes(on) => {
                log.code("extended_result_codes", call!(self.api, extended_result_codes(db, *on)));
            }
            Setting::Limit { id, value } => {
                log.value("limit before", call!(self.api, limit(db, *id, *value)));
                log.value("limit after", call!(self.api, limit(db, *id, -1)));
            }
            Setting::Config { option, value } => self.set_config(db, *option, *value),
            Setting::Interrupt => {
                call!(self.api, interrupt(db));
                log.value("is_interrupted", call!(self.api, is_interrupted(db)));
            }
            Setting::LastRowid(rowid) => call!(self.api, set_last_insert_rowid(db, *rowid)),
            Setting::Message { code, text } => {
                let text = text.as_deref().map(memory::c_text);
                let pointer = text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
                log.code("set_errmsg", call!(self.api, set_errmsg(db, *code, pointer)));
            }
            Setting::Checkpoint { mode } => self.checkpoint(db, *mode),
            Setting::AutoCheckpoint(frames) => {
                log.code("wal_autocheckpoint", call!(self.api, wal_autocheckpoint(db, *frames)));
            }
            Setting::CacheFlush => log.code("db_cacheflush", call!(self.api, db_cacheflush(db))),
            Setting::ReleaseMemory => {
                log.code("db_release_memory", call!(self.api, db_release_memory(db)));
            }
            Setting::PersistWal(on) => self.persist_wal(db, *on),
            Setting::Overload(name) => {
                let name = memory::c_text(name);
                let code = call!(self.api, overload_function(db, name.as_ptr(), 1));
                log.code("overload_function", code);
            }
            Setting::LoadExtension => self.load_extension(db),
            Setting::Clientdata { on } => self.set_clientdata(db, *on),
            Setting::DropModules => {
                let mut keep: [*const c_char; 3] =
                    [c"fts5".as_ptr(), c"rtree".as_ptr(), ptr::null()];
                log.code("drop_modules", call!(self.api, drop_modules(db, keep.as_mut_ptr())));
            }
            Setting::AutovacuumPages => {
                let data = self.register("autovacuum pages".into(), 0);
                let code = call!(self.api, autovacuum_pages(db, None, data, Some(destroy)));
                log.code("autovacuum_pages", code);
            }
        }
    }

    fn set_config(&self, db: *mut Db, option: c_int, value: c_int) {
        let mut now: c_int = -7;
        let code = call!(self.api, db_config(db, option, value, &raw mut now));
        self.log.code("db_config", code);
        self.log.value("db_config says", now);
    }

    fn checkpoint(&self, db: *mut Db, mode: Option<c_int>) {
        let code = match mode {
            None => call!(self.api, wal_checkpoint(db, ptr::null())),
            Some(mode) => {
                // How many frames the WAL has is the library's affair.
                let (mut frames, mut copied) = (0, 0);
                let main = c"main".as_ptr();
                call!(self.api, wal_checkpoint_v2(db, main, mode, &mut frames, &mut copied))
            }
        };
        self.log.code("wal_checkpoint", code);
    }

    fn persist_wal(&self, db: *mut Db, on: c_int) {
        let mut value = on;
        let pointer: *mut c_void = (&raw mut value).cast();
        let code = call!(self.api, file_control(db, c"main".as_ptr(), FCNTL_PERSIST_WAL, pointer));
        self.log.code("file_control PERSIST_WAL", code);
        self.log.value("PERSIST_WAL says", value);
        let main = ptr::null();
        let code = call!(self.api, file_control(db, main, NO_SUCH_FCNTL, pointer));
        self.log.code("file_control of no known number", code);
        let code = call!(self.api, file_control(db, c"none".as_ptr(), FCNTL_PERSIST_WAL, pointer));
        self.log.code("file_control of no schema", code);
    }

    fn load_extension(&self, db: *mut Db) {
        let mut message: *mut c_char = ptr::null_mut();
        let file = c"/nonexistent/extension".as_ptr();
        let code = call!(self.api, load_extension(db, file, ptr::null(), &mut message));
        self.log.code("load_extension", code);
        self.log.message("load_extension says", memory::text(message));
        call!(self.api, free(message.cast()));
        self.log.code("enable_load_extension", call!(self.api, enable_load_extension(db, 1)));
        let mut message: *mut c_char = ptr::null_mut();
        let code = call!(self.api, load_extension(db, file, ptr::null(), &mut message));
        self.log.code("load_extension", code);
        self.log.message("load_extension says", memory::text(message));
        call!(self.api, free(message.cast()));
        self.log.code("enable_load_extension", call!(self.api, enable_load_extension(db, 0)));
    }

    fn set_clientdata(&mut self, db: *mut Db, on: bool) {
        const NAME: &CStr = c"oracle";
        let before = call!(self.api, get_clientdata(db, NAME.as_ptr()));
        self.log.value("get_clientdata", self.log.slot(before));
        let number = self.registrations.len();
        let data =
            if on { self.register(format!("client data {number}"), 0) } else { ptr::null_mut() };
        let code = call!(self.api, set_clientdata(db, NAME.as_ptr(), data, Some(destroy)));
        self.log.code("set_clientdata", code);
    }
}

extern "C" fn on_busy(data: *mut c_void, count: c_int) -> c_int {
    // How often a library looks again is its affair, so the calls are no events.
    c_int::from(count < Registration::of(data).answer)
}
