//! What is known of statements by their text, so that a task needs no connection to send one.
//!
//! It is a guess: the schema may have changed since. The leader compiles the statement itself, and asks for
//! a turn if the guess was wrong; then it is forgotten.

use core::num::NonZeroUsize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lru::LruCache;

use crate::connection::Connection;
use crate::mutex::lock;
use crate::statement::prepared;
use crate::statement::routing::Route;
use crate::{Error, limits};

/// Where a call is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It only reads, or leaves no trace: on any connection.
    Read,
    /// It travels as a request.
    Request,
    /// It may wait for its turn, on any connection.
    Turn,
}

/// What is known of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) sql: Arc<str>,
    pub(crate) columns: Arc<[String]>,
    way: Way,
    /// It can be a part of a request that writes.
    travels: bool,
}

impl Known {
    /// Compiles a statement to know it.
    ///
    /// # Errors
    /// As SQLite fails to compile; and for statements about a session.
    pub(crate) fn learn(connection: &mut Connection, sql: &str) -> Result<Known, Error> {
        let prepared = connection.take_prepared(sql)?;
        let facts = &prepared.facts;
        let about_a_session = prepared.route == Route::Setting
            || facts.transaction.is_some()
            || facts.attaches
            || facts.temp_schema;
        if about_a_session {
            return Err(Error::refused(
                "this statement is about a session, and an async call has none: use `transaction` or `run`, \
                 or set it when the database is opened",
            ));
        }
        let known = Known {
            sql: Arc::clone(&prepared.sql),
            columns: Arc::clone(&prepared.columns),
            way: match prepared.route {
                Route::Request => Way::Request,
                Route::Own => Way::Read,
                Route::Turn | Route::Setting | Route::Refuse(_) => Way::Turn,
            },
            travels: prepared.route == Route::Request
                || facts.only_reads() && prepared.statement.is_read_only(),
        };
        connection.put_back(prepared);
        Ok(known)
    }

    pub(crate) fn columns_digest(&self) -> u32 {
        prepared::columns_digest(&self.columns)
    }
}

/// Where a call of these statements is executed.
pub(crate) fn way(statements: &[Known], single: bool) -> Way {
    match statements {
        [known] if single => known.way,
        statements if statements.iter().all(|known| known.travels) => Way::Request,
        _ => Way::Turn,
    }
}

/// The statements that were last used.
pub(crate) struct KnownStatements(Mutex<LruCache<Arc<str>, Known>>);

impl KnownStatements {
    pub(crate) fn new() -> KnownStatements {
        let capacity = NonZeroUsize::new(limits::STATEMENTS_CACHED * 4).expect("not zero");
        KnownStatements(Mutex::new(LruCache::new(capacity)))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<Arc<str>, Known>> {
        lock(&self.0)
    }

    /// What is known of each; `None` if one of them is not known.
    pub(crate) fn all<'a>(&self, statements: impl Iterator<Item = &'a str>) -> Option<Vec<Known>> {
        let mut known = self.lock();
        statements.map(|sql| known.get(sql).cloned()).collect()
    }

    /// The same, learned on `connection` where it is not known. An error comes with the index of its
    /// statement.
    pub(crate) fn learn_all<'a>(
        &self,
        connection: &mut Connection,
        statements: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Known>, (usize, Error)> {
        let mut learned: HashMap<&str, Known> = HashMap::new();
        let mut all = Vec::new();
        for (index, sql) in statements.enumerate() {
            let known = learned.get(sql).cloned().or_else(|| self.lock().get(sql).cloned());
            let known = match known {
                Some(known) => known,
                None => Known::learn(connection, sql).map_err(|error| (index, error))?,
            };
            self.lock().put(Arc::clone(&known.sql), known.clone());
            learned.insert(sql, known.clone());
            all.push(known);
        }
        Ok(all)
    }

    pub(crate) fn forget(&self, sql: &str) {
        self.lock().pop(sql);
    }
}
