//! Copies of whole databases: backup, serialize, deserialize.

use std::ptr;

use super::Player;
use crate::action::Callback;
use crate::call;
use crate::memory;

/// A database of a round has few pages, and a backup that another write restarts has twice as many steps.
const STEPS_MAX: usize = 200;
/// FREEONCLOSE and RESIZEABLE.
const DESERIALIZE_FLAGS: u32 = 3;

impl Player {
    pub fn backup(&mut self, from: usize, to: usize, pages: i32, write_between: bool) {
        let (Some(source), Some(target)) = (self.db(from), self.db(to)) else { return };
        let main = c"main".as_ptr();
        let backup = call!(self.api, backup_init(target, main, source, main));
        self.log.value("backup_init gave a backup", !backup.is_null());
        if backup.is_null() {
            self.log.message("errmsg of the target", memory::text(call!(self.api, errmsg(target))));
            return;
        }
        for step in 0..STEPS_MAX {
            let code = call!(self.api, backup_step(backup, pages));
            self.log.code("backup_step", code);
            let remaining = call!(self.api, backup_remaining(backup));
            let count = call!(self.api, backup_pagecount(backup));
            self.log.value("backup_remaining and backup_pagecount", format!("{remaining} {count}"));
            if code != 0 {
                break;
            }
            if step == 0 && write_between {
                let sql = "INSERT INTO log(what) VALUES ('during a backup')";
                self.exec(from, sql, Callback::None);
            }
        }
        self.log.code("backup_finish", call!(self.api, backup_finish(backup)));
        self.log.message("errmsg of the target", memory::text(call!(self.api, errmsg(target))));
    }

    pub fn serialize(&self, connection: usize) {
        let Some(db) = self.db(connection) else { return };
        let mut size = -1;
        let bytes = call!(self.api, serialize(db, c"main".as_ptr(), &mut size, 0));
        self.log.value("serialize's size", size);
        self.log.value("serialize gave bytes", !bytes.is_null());
        call!(self.api, free(bytes.cast()));
        let bytes = call!(self.api, serialize(db, c"none".as_ptr(), &mut size, 0));
        self.log.value("serialize of no schema", bytes.is_null());
    }

    pub fn deserialize(&mut self, from: usize, to: usize) {
        let (Some(source), Some(target)) = (self.db(from), self.db(to)) else { return };
        let main = c"main".as_ptr();
        let mut size = -1;
        let bytes = call!(self.api, serialize(source, main, &mut size, 0));
        self.log.value("serialize's size", size);
        if bytes.is_null() {
            return;
        }
        if let Some(header) = crate::memory::header(bytes) {
            // A database in memory has no WAL: SQLite's documentation asks for the old journal mode in the header.
            header.fill(1);
        }
        let code = call!(self.api, deserialize(target, main, bytes, size, size, DESERIALIZE_FLAGS));
        self.log.code("deserialize", code);
        let code =
            call!(self.api, exec(target, ptr::null(), None, ptr::null_mut(), ptr::null_mut()));
        self.log.code("exec of no text", code);
        self.get_table(to, "SELECT * FROM t ORDER BY id");
    }
}
