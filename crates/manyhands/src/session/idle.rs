//! Connections that were closed by the application and are kept for the next one.
//!
//! To open a connection costs SQLite more than a write does: files, locks, built-in functions, the
//! schema. An application that opens one for each piece of work gets a kept one instead. Only a *pristine*
//! connection is kept: no PRAGMA with an argument, no function, no temp schema, nothing attached.

use std::sync::Mutex;

use manyhands_sqlite as sqlite;

use crate::mutex::lock;
use crate::options::Settings;
use crate::session::Session;

/// How many a file keeps: each may hold 2 MB of pages.
const KEPT_MAX: usize = 8;

/// The kept connections of a file, with the settings they were opened with.
#[derive(Debug, Default)]
pub(crate) struct IdleSessions(Mutex<Vec<(Settings, Session)>>);

impl IdleSessions {
    /// A kept connection with these settings.
    pub(crate) fn take(&self, settings: &Settings) -> Option<Session> {
        let mut kept = lock(&self.0);
        let place = kept.iter().rposition(|(of, _)| {
            (of.durability, of.foreign_keys, of.speculation_bytes_max)
                == (settings.durability, settings.foreign_keys, settings.speculation_bytes_max)
        })?;
        Some(kept.remove(place).1)
    }

    /// Keeps a pristine connection, unless there are enough.
    pub(crate) fn keep(&self, settings: &Settings, connection: Session) {
        connection.forget_session();
        let mut kept = lock(&self.0);
        if kept.len() < KEPT_MAX {
            kept.push((settings.clone(), connection));
        }
    }

    /// Closes them all; `tidies` says whether the last one of the database removes its WAL.
    pub(crate) fn clear(&self, tidies: bool) {
        for (_, connection) in lock(&self.0).drain(..) {
            if !tidies {
                connection.sqlite.set(sqlite::Setting::NoCheckpointOnClose, true);
            }
        }
    }
}
