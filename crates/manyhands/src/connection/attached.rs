//! What statements change about the session itself: settings, attached databases, the temp schema.

use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use manyhands_sqlite::{self as sqlite, OpenMode, Step, ValueRef};

use crate::Error;
use crate::commit::file::DatabaseFile;
use crate::commit::joining::{FirstConnection, Opener};
use crate::commit::registry::FileHandle;
use crate::commit::request::Counts;
use crate::connection::Connection;
use crate::mutex::lock;
use crate::statement::prepared::Prepared;
use crate::statement::rewrite;
use crate::statement::routing::{self, Facts};

impl Connection {
    /// See [`ConnectionExt::session_counts`](crate::driver::ConnectionExt::session_counts).
    pub(crate) fn session_counts(&self) -> Counts {
        self.counts()
    }

    /// See [`ConnectionExt::continue_session`](crate::driver::ConnectionExt::continue_session).
    pub(crate) fn continue_session(&mut self, counts: Counts) {
        let total_here = self.sqlite().total_changes();
        self.session().counters.set_counters(counts.changes, counts.total_changes, total_here);
        self.sqlite().set_last_insert_rowid(counts.last_insert_rowid);
    }

    /// Takes note of what a statement that ran here, without a turn, changed.
    pub(crate) fn notice(&mut self, facts: &Facts) -> Result<(), Error> {
        // A trigger or a table of the temp schema can change what a statement means.
        self.connection_local |= facts.temp_schema;
        if facts.temp_schema || facts.attaches {
            self.session().compiler.several_schemas.store(true, Ordering::Relaxed);
        }
        if facts.attaches {
            // BEGIN IMMEDIATE locks the databases that were there when it was compiled.
            self.session_mut().statements.clear();
            self.attached = self.find_attached()?;
            self.forget_levels_of_detached()?;
        }
        Ok(())
    }

    /// The same. An ATTACH fails as a whole: without its queue, nothing could be written to the file in a turn.
    pub(crate) fn notice_or_detach(&mut self, prepared: &Prepared) -> Result<(), Error> {
        let noticed = self.notice(&prepared.facts);
        let attaches = prepared.facts.attaches && !prepared.facts.detaches;
        if noticed.is_err() && attaches && !prepared.compiled.explain {
            // If it cannot be detached again, it can still be read.
            let _ = self.detach_last();
        }
        noticed
    }

    /// Detaches the database that was attached last.
    fn detach_last(&self) -> Result<(), sqlite::Error> {
        let _own = self.own_statements();
        let last = "SELECT name FROM pragma_database_list ORDER BY seq DESC LIMIT 1";
        let last = self.sqlite().query_text(last)?;
        self.sqlite().execute(&format!("DETACH {}", rewrite::quote(&last)))
    }

    /// Installs our handlers again, after a PRAGMA has replaced them with SQLite's own.
    pub(crate) fn keep_handlers(&self, facts: &Facts) {
        let session = self.session();
        match &facts.pragma {
            Some((pragma, Some(_))) if pragma == "busy_timeout" => {
                session.wait.reinstall(&session.sqlite)
            }
            Some((pragma, Some(_))) if pragma == "wal_autocheckpoint" && self.file.is_some() => {
                session.take_over_checkpoints();
            }
            _ => {}
        }
    }

    /// Takes note of a setting that a PRAGMA with an argument changed.
    pub(crate) fn notice_setting(&mut self, facts: &Facts) -> Result<(), Error> {
        let Some((pragma, Some(argument))) = &facts.pragma else { return Ok(()) };
        let _own = self.own_statements();
        self.session_mut().ids.note_setting();
        match pragma.as_str() {
            "foreign_keys" => {
                self.session_settings.foreign_keys =
                    self.sqlite().setting(sqlite::Setting::ForeignKeys);
            }
            "recursive_triggers" => {
                self.session_settings.recursive_triggers =
                    self.sqlite().query_integer("PRAGMA recursive_triggers")? != 0;
            }
            "busy_timeout" => self.set_timeout_to(argument),
            "wal_autocheckpoint" => self.note_checkpoint_pages(argument),
            other => self.connection_local |= routing::makes_connection_local(other),
        }
        Ok(())
    }

    /// The attached databases that are files in WAL mode, by schema name, their queues joined.
    fn find_attached(&self) -> Result<BTreeMap<String, FileHandle>, Error> {
        let _own = self.own_statements();
        let (mut found, mut no_files) = (BTreeMap::new(), BTreeSet::new());
        let mut list = self.sqlite().prepare_one("PRAGMA database_list")?;
        while list.step()? == Step::Row {
            let text = |column| match list.column(column) {
                ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            let (schema, path) = (text(1), PathBuf::from(text(2)));
            if matches!(schema.as_str(), "main" | "temp") {
                continue;
            }
            if path.as_os_str().is_empty() {
                no_files.insert(schema);
                continue;
            }
            if let Some(file) = self.attached.get(&schema) {
                found.insert(schema, file.clone());
                continue;
            }
            let mode = format!("PRAGMA {}.journal_mode", rewrite::quote(&schema));
            let mode = self.sqlite().query_text(&mode)?;
            // A file in another mode has no queue: SQLite locks it in its own way.
            if mode == "wal" {
                let connection = sqlite::Connection::open(&path, OpenMode::ReadWrite, false)?;
                if !connection.is_read_only() {
                    let first = FirstConnection { connection, is_plain: false };
                    let file =
                        DatabaseFile::open(path, Opener::Gives(first), self.settings.timeout)?;
                    found.insert(schema, file);
                }
            }
        }
        *lock(&self.session().compiler.no_files) = no_files;
        Ok(found)
    }
}
