//! Compiling: what SQLite's authorizer says of a statement decides its route.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use manyhands_sqlite::authorizer::{Action, Verdict};
use manyhands_sqlite::{self as sqlite, OpenMode, Statement, Step, Value, ValueRef};

use crate::routing::{self, Compiled, Facts, Route};
use crate::row::Row;

/// A compiled statement and what is known of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) statement: Statement,
    pub(crate) facts: Facts,
    pub(crate) route: Route,
    /// The columns' names, as of `recompilations`.
    pub(crate) columns: Arc<[String]>,
    recompilations: u32,
}

impl Prepared {
    /// Runs the statement to its end, and collects its rows.
    pub(crate) fn fetch_all(&mut self, values: &[Value]) -> Result<Vec<Row>, sqlite::Error> {
        self.statement.bind_all(values.iter().map(Value::as_ref))?;
        let mut rows = Vec::new();
        while self.statement.step()? == Step::Row {
            if rows.is_empty() {
                self.refresh_columns();
            }
            let values = (0..self.columns.len())
                .map(|column| self.statement.column(column).to_owned())
                .collect();
            rows.push(Row::new(Arc::clone(&self.columns), values));
        }
        Ok(rows)
    }

    /// Looks at the columns again, if the schema has changed since.
    fn refresh_columns(&mut self) {
        let now = self.statement.recompilations();
        if self.recompilations != now {
            self.recompilations = now;
            self.columns = column_names(&self.statement);
        }
    }
}

/// A number that differs when the columns of a statement differ; 0 for none. It travels with a request, so
/// that a leader that sees a newer schema does not answer with rows of other columns.
pub(crate) fn columns_digest(names: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    if names.is_empty() { 0 } else { hasher.finish() | 1 }
}

pub(crate) fn column_names(statement: &Statement) -> Arc<[String]> {
    (0..statement.column_count())
        .map(|column| statement.column_name(column).unwrap_or_default())
        .collect()
}

/// Listens to a connection's authorizer.
#[derive(Debug)]
pub(crate) struct Compiler {
    facts: Arc<Mutex<Facts>>,
}

impl Compiler {
    /// Listens to the authorizer of `connection` from now on.
    pub(crate) fn install(connection: &sqlite::Connection) -> Compiler {
        let facts = Arc::new(Mutex::new(Facts::default()));
        let noted = Arc::clone(&facts);
        connection.set_authorizer(Some(move |action: &Action<'_>| {
            lock(&noted).note(action, shared_functions);
            Verdict::Allow
        }));
        Compiler { facts }
    }

    /// Compiles the first statement of `sql`. Returns it, if there is one, and its length in bytes.
    pub(crate) fn compile(
        &self,
        connection: &sqlite::Connection,
        sql: &str,
    ) -> Result<(Option<Prepared>, usize), sqlite::Error> {
        *lock(&self.facts) = Facts::default();
        let (statement, used) = connection.prepare(sql)?;
        let facts = core::mem::take(&mut *lock(&self.facts));
        let prepared = statement.map(|statement| {
            let compiled =
                Compiled { read_only: statement.is_read_only(), explain: statement.is_explain() };
            let route = routing::route(&facts, compiled);
            let columns = column_names(&statement);
            let recompilations = statement.recompilations();
            Prepared { statement, facts, route, columns, recompilations }
        });
        Ok((prepared, used))
    }
}

fn lock(facts: &Mutex<Facts>) -> MutexGuard<'_, Facts> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The names of the functions that every connection has, but for those that answer about a session.
pub(crate) fn shared_functions() -> &'static HashSet<String> {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        // Without the list every function counts as the application's own: slower, never wrong.
        let mut names = list_functions().unwrap_or_default();
        for session in ["changes", "total_changes", "last_insert_rowid", "load_extension"] {
            names.remove(session);
        }
        names
    })
}

fn list_functions() -> Result<HashSet<String>, sqlite::Error> {
    let connection =
        sqlite::Connection::open(":memory:".as_ref(), OpenMode::ReadWriteCreate, false)?;
    let mut list =
        connection.prepare_one("SELECT DISTINCT lower(name) FROM pragma_function_list")?;
    let mut names = HashSet::new();
    while list.step()? == Step::Row {
        if let ValueRef::Text(name) = list.column(0) {
            names.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(names)
}
