//! What a statement can be asked without stepping it.

use std::ffi::c_char;
use std::ptr;

use super::Player;
use crate::call;
use crate::memory;

impl Player {
    /// Columns, parameters and their names, in all spellings, one beyond each end too.
    pub fn describe(&self, statement: usize) {
        let Some(stmt) = self.stmt(statement) else { return };
        let (api, log) = (self.api, &self.log);
        let count = call!(api, column_count(stmt));
        log.value("column_count", count);
        log.value("data_count", call!(api, data_count(stmt)));
        for column in -1..=count {
            let mut names = vec![
                memory::text(call!(api, column_name(stmt, column))),
                memory::text16(call!(api, column_name16(stmt, column))),
                memory::text(call!(api, column_decltype(stmt, column))),
                memory::text16(call!(api, column_decltype16(stmt, column))),
            ];
            names.push(memory::text(call!(api, column_database_name(stmt, column))));
            names.push(memory::text16(call!(api, column_database_name16(stmt, column))));
            names.push(memory::text(call!(api, column_table_name(stmt, column))));
            names.push(memory::text16(call!(api, column_table_name16(stmt, column))));
            names.push(memory::text(call!(api, column_origin_name(stmt, column))));
            names.push(memory::text16(call!(api, column_origin_name16(stmt, column))));
            log.value(&format!("names of column {column}"), names.join(" "));
        }
        let count = call!(api, bind_parameter_count(stmt));
        log.value("bind_parameter_count", count);
        // A statement with ?30000 has as many parameters; the first and the last few are enough.
        for number in (-1..=count + 1).filter(|number| *number < 6 || *number >= count) {
            let name = call!(api, bind_parameter_name(stmt, number));
            log.value(&format!("name of parameter {number}"), memory::text(name));
            if !name.is_null() {
                log.value("its number", call!(api, bind_parameter_index(stmt, name)));
            }
        }
        let unknown = call!(api, bind_parameter_index(stmt, c":unknown".as_ptr()));
        log.value("number of no parameter", unknown);
    }

    pub fn ask_statement(&self, statement: usize) {
        let Some(stmt) = self.stmt(statement) else { return };
        let (api, log) = (self.api, &self.log);
        log.value("sql", memory::text(call!(api, sql(stmt))));
        let expanded: *mut c_char = call!(api, expanded_sql(stmt));
        log.value("expanded_sql", memory::text(expanded));
        call!(api, free(expanded.cast()));
        log.value("normalized_sql", memory::text(call!(api, normalized_sql(stmt))));
        log.value("stmt_readonly", call!(api, stmt_readonly(stmt)));
        log.value("stmt_busy", call!(api, stmt_busy(stmt)));
        log.value("stmt_isexplain", call!(api, stmt_isexplain(stmt)));
        log.value("expired", call!(api, expired(stmt)));
        log.value("db_handle", log.slot(call!(api, db_handle(stmt)).cast()));
        // What the counters of a statement say depends on who executed it; that they can be asked must not.
        for counter in [1, 2, 3, 4, 5, 6, 7, 8, 99] {
            call!(api, stmt_status(stmt, counter, 0));
        }
    }

    pub fn explain(&self, statement: usize, mode: i32) {
        let Some(stmt) = self.stmt(statement) else { return };
        // Stock SQLite compiles the statement again, and crashes where its connection is closed.
        if self.statements[statement].is_some_and(|prepared| prepared.connection.is_none()) {
            return;
        }
        self.log.code("stmt_explain", call!(self.api, stmt_explain(stmt, mode)));
        self.log.value("stmt_isexplain", call!(self.api, stmt_isexplain(stmt)));
        self.log.value("column_count", call!(self.api, column_count(stmt)));
    }

    pub fn next_statements(&self, connection: usize) {
        let Some(db) = self.db(connection) else { return };
        let mut stmt = call!(self.api, next_stmt(db, ptr::null_mut()));
        // A connection has at most one statement for each slot and few of modules: a list that goes on is broken.
        for _ in 0..100 {
            let slot = self.log.slot(stmt.cast());
            // Statements in no slot are those of SQLite's own modules, which nobody may touch.
            if slot != crate::event::NO_SLOT {
                self.log.value("next_stmt", slot);
            }
            if stmt.is_null() {
                return;
            }
            stmt = call!(self.api, next_stmt(db, stmt));
        }
        self.log.value("next_stmt", "never ends");
    }
}
