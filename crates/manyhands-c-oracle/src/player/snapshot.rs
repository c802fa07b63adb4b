//! Snapshots, and the sessions of SQLite's session extension.

use std::ffi::c_void;
use std::ptr;

use super::Player;
use crate::call;
use crate::library::{Session, Snapshot};
use crate::memory;

impl Player {
    pub fn snapshot_get(&mut self, connection: usize) {
        let Some(db) = self.db(connection) else { return };
        let mut snapshot: *mut Snapshot = ptr::null_mut();
        let code = call!(self.api, snapshot_get(db, c"main".as_ptr(), &mut snapshot));
        self.log.code("snapshot_get", code);
        if code != 0 {
            return;
        }
        if let Some(old) = self.snapshot.take() {
            let order = call!(self.api, snapshot_cmp(old, snapshot)).signum();
            self.log.value("snapshot_cmp", order);
            call!(self.api, snapshot_free(old));
        }
        self.snapshot = Some(snapshot);
    }

    pub fn snapshot_open(&mut self, connection: usize) {
        let Some(db) = self.db(connection) else { return };
        match self.snapshot {
            Some(snapshot) => {
                let code = call!(self.api, snapshot_open(db, c"main".as_ptr(), snapshot));
                self.log.code("snapshot_open", code);
            }
            None => {
                let code = call!(self.api, snapshot_recover(db, c"main".as_ptr()));
                self.log.code("snapshot_recover", code);
            }
        }
    }

    pub fn session_create(&mut self, connection: usize) {
        let Some(db) = self.db(connection) else { return };
        if self.preupdate[connection] {
            return;
        }
        self.session_delete();
        let mut session: *mut Session = ptr::null_mut();
        let code = call!(self.api, create(db, c"main".as_ptr(), &mut session));
        self.log.code("session create", code);
        if code == 0 {
            let code = call!(self.api, attach(session, ptr::null()));
            self.log.code("session attach", code);
            self.session = Some((connection, session));
        }
    }

    pub fn session_switch(&self, enable: i32, indirect: i32) {
        let Some((_, session)) = self.session else { return };
        self.log.value("session enable", call!(self.api, enable(session, enable)));
        self.log.value("session indirect", call!(self.api, indirect(session, indirect)));
        self.log.value("session isempty", call!(self.api, isempty(session)));
    }

    pub fn session_changeset(&self, patchset: bool) {
        let Some((_, session)) = self.session else { return };
        let (mut count, mut bytes): (i32, *mut c_void) = (0, ptr::null_mut());
        let code = if patchset {
            call!(self.api, patchset(session, &mut count, &mut bytes))
        } else {
            call!(self.api, changeset(session, &mut count, &mut bytes))
        };
        self.log.code("changeset", code);
        self.log.value("changeset gave", memory::bytes(bytes, count));
        call!(self.api, free(bytes));
    }

    pub fn session_delete(&mut self) {
        if let Some((_, session)) = self.session.take() {
            call!(self.api, delete(session));
        }
    }
}
