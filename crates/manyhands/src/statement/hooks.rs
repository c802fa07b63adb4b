//! The application's authorizer and tracer: they hear of the statements that the application wrote, and of no others.
//!
//! A connection also executes statements of its own: it begins and ends what the application's
//! transaction has become, replays a log, asks for new ids. The application is neither asked about these nor told of
//! them.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use manyhands_sqlite::authorizer::{Action, Verdict};
use manyhands_sqlite::{Statement, Traced, Value};

use crate::mutex::lock;

pub(crate) type Authorizer = dyn Fn(&Action<'_>) -> Verdict + Send + Sync;

/// The application's authorizer, and whether it is to be asked now.
#[derive(Default)]
pub(crate) struct Hooks {
    /// How many guards say that a statement is the connection's own.
    own: AtomicU32,
    authorizer: Mutex<Option<Arc<Authorizer>>>,
    /// Asked for each action, and so before the mutex.
    has_authorizer: AtomicBool,
    /// The authorizer says what a request may do: see [`Hooks::set_authority`].
    is_authority: AtomicBool,
    is_traced: AtomicBool,
    /// What is told in the place of the statement that runs, which the application did not write so.
    shown: Mutex<Option<(String, Option<String>)>>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Hooks {
    /// What is compiled and stepped on this connection until the guard is dropped is not the application's.
    pub(crate) fn own(self: &Arc<Hooks>) -> OwnStatements {
        self.own.fetch_add(1, Ordering::Relaxed);
        OwnStatements(Arc::clone(self))
    }

    /// What `work` compiles is the application's, also inside such a guard.
    pub(crate) fn ask<T>(&self, work: impl FnOnce() -> T) -> T {
        let own = self.own.swap(0, Ordering::Relaxed);
        let done = work();
        self.own.store(own, Ordering::Relaxed);
        done
    }

    /// What a request may do, which is no question to an application.
    pub(crate) fn set_authority(&self, authority: Arc<Authorizer>) {
        self.set_authorizer(Some(authority));
        self.is_authority.store(true, Ordering::Relaxed);
    }

    /// The application is asked about each action of a statement that it wrote.
    pub(crate) fn asks_application(&self) -> bool {
        self.has_authorizer() && !self.is_authority.load(Ordering::Relaxed)
    }

    pub(crate) fn set_authorizer(&self, authorizer: Option<Arc<Authorizer>>) {
        self.has_authorizer.store(authorizer.is_some(), Ordering::Relaxed);
        *lock(&self.authorizer) = authorizer;
    }

    pub(crate) fn set_traced(&self, is_traced: bool) {
        self.is_traced.store(is_traced, Ordering::Relaxed);
    }

    /// What runs now was written by the application.
    pub(crate) fn are_for_application(&self) -> bool {
        self.own.load(Ordering::Relaxed) == 0
    }

    /// Tells the application, until the guard is dropped, of the statement that it wrote, while one that was
    /// made of it runs.
    pub(crate) fn show(
        self: &Arc<Hooks>,
        written: &mut Statement,
        sql: &str,
        values: &[Value],
    ) -> Option<ShownStatement> {
        if !self.is_traced.load(Ordering::Relaxed) {
            return None;
        }
        written.bind_all(values.iter().map(Value::as_ref)).ok()?;
        *lock(&self.shown) = Some((sql.to_string(), written.expanded_sql()));
        Some(ShownStatement(Arc::clone(self)))
    }

    /// What the application is told.
    pub(crate) fn told(&self, traced: &Traced<'_>) -> Traced<'static> {
        let Some((sql, expanded)) = lock(&self.shown).clone() else {
            return Traced {
                sql: traced.sql.to_string().into(),
                expanded: traced.expanded.clone(),
            };
        };
        // A trigger shows as what it is.
        let comment = traced.sql.starts_with("--");
        Traced { sql: if comment { traced.sql.to_string() } else { sql }.into(), expanded }
    }

    /// The application is told of each statement that it wrote.
    pub(crate) fn is_traced(&self) -> bool {
        self.is_traced.load(Ordering::Relaxed)
    }

    fn has_authorizer(&self) -> bool {
        self.has_authorizer.load(Ordering::Relaxed)
    }

    /// What the application says of an action.
    pub(crate) fn verdict(&self, action: &Action<'_>) -> Verdict {
        if !self.has_authorizer() || !self.are_for_application() {
            return Verdict::Allow;
        }
        let authorizer = lock(&self.authorizer).clone();
        authorizer.map_or(Verdict::Allow, |authorizer| authorizer(action))
    }
}

/// See [`Hooks::own`].
#[derive(Debug)]
#[must_use = "statements are the application's when the guard is dropped"]
pub(crate) struct OwnStatements(Arc<Hooks>);

impl Drop for OwnStatements {
    fn drop(&mut self) {
        self.0.own.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`Hooks::show`].
#[derive(Debug)]
pub(crate) struct ShownStatement(Arc<Hooks>);

/// Whether what SQLite executes at this moment is the application's; for hooks that a driver gives to SQLite itself.
#[derive(Clone, Debug)]
pub struct ApplicationStatements(pub(crate) Arc<Hooks>);

impl ApplicationStatements {
    /// False while a connection executes a statement of its own, of which the application is not told.
    pub fn are_executed(&self) -> bool {
        self.0.are_for_application()
    }
}

impl Drop for ShownStatement {
    fn drop(&mut self) {
        *lock(&self.0.shown) = None;
    }
}
