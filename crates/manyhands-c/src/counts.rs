//! What statements have counted: changed rows, and new rowids.
//!
//! Nearly every driver asks after each write. In a transaction whose writes are deferred an answer that others could still change
//! takes the turn; the count of an INSERT of one row cannot change.

use core::ffi::c_int;

use manyhands::Connection;
use manyhands::driver::ConnectionExt;

use crate::ffi;
use crate::handle::Handle;

c_api! {
    /// Rows changed by the last INSERT, UPDATE or DELETE.
    fn sqlite3_changes(db: *mut ffi::sqlite3) -> c_int {
        // SAFETY: the caller has promised it of the same argument.
        (unsafe { sqlite3_changes64(db) }) as c_int
    }

    /// Rows changed by the last INSERT, UPDATE or DELETE.
    fn sqlite3_changes64(db: *mut ffi::sqlite3) -> i64 {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_changes64(db) };
        };
        handle.count(Connection::changes, |it| {
            let counted = handle.counted.borrow().clone();
            let changes = counted.and_then(|counted| it.changes_of(&counted).ok());
            changes.map_or_else(|| it.changes(), |changes| i64::try_from(changes).unwrap_or(i64::MAX))
        })
    }

    /// Rows changed since the connection was opened.
    fn sqlite3_total_changes(db: *mut ffi::sqlite3) -> c_int {
        // SAFETY: the caller has promised it of the same argument.
        (unsafe { sqlite3_total_changes64(db) }) as c_int
    }

    /// Rows changed since the connection was opened.
    fn sqlite3_total_changes64(db: *mut ffi::sqlite3) -> i64 {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_total_changes64(db) };
        };
        handle.count(Connection::total_changes, |it| {
            // Where the turn does not come, what is known is told.
            let _ = it.execute_deferred_in_turn();
            it.total_changes()
        })
    }

    /// The rowid of the last row that was inserted.
    fn sqlite3_last_insert_rowid(db: *mut ffi::sqlite3) -> i64 {
        // SAFETY: the caller has promised null or an open connection.
        let Some(handle) = (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) else {
            // SAFETY: the caller has promised what SQLite demands.
            return unsafe { ffi::sqlite3_last_insert_rowid(db) };
        };
        handle.count(Connection::last_insert_rowid, |it| {
            let _ = it.execute_deferred_in_turn();
            it.last_insert_rowid()
        })
    }

    /// Makes a rowid the last one.
    fn sqlite3_set_last_insert_rowid(db: *mut ffi::sqlite3, rowid: i64) {
        // SAFETY: the caller has promised null or an open connection.
        let handle = unsafe { Handle::entered(db) };
        // SAFETY: the caller has promised what SQLite demands.
        let set = || unsafe { ffi::sqlite3_set_last_insert_rowid(db, rowid) };
        match handle.filter(|it| !it.is_called_back()) {
            Some(handle) => {
                handle.change(false, || {
                    set();
                    ffi::SQLITE_OK
                });
            }
            None => set(),
        }
    }
}

impl Handle {
    /// Asks the engine for a count, which is no call that could succeed or fail. What cannot change any more is `known`, without more ado:
    /// drivers ask after each write.
    fn count(
        &self,
        known: impl FnOnce(&Connection) -> i64,
        count: impl FnOnce(&mut Connection) -> i64,
    ) -> i64 {
        if let Some(known) = self.look(|it| it.is_executed().then(|| known(it))) {
            return known;
        }
        self.engine_quietly(|it| Ok(count(it))).unwrap_or(0)
    }
}
