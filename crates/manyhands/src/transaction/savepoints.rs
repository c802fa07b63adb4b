//! The savepoints of an open transaction, by their names.

use crate::statement::rewrite;
use crate::statement::routing::TransactionStatement;

/// The savepoints of the open transaction, outermost first.
#[derive(Debug, Default)]
pub(crate) struct Savepoints {
    names: Vec<String>,
    /// The outermost one has begun the transaction, and its RELEASE commits.
    begun: bool,
}

impl Savepoints {
    /// A transaction begins, with BEGIN or with a savepoint.
    pub(crate) fn begin(&mut self, statement: Option<&TransactionStatement>) {
        self.clear();
        self.begun = matches!(statement, Some(TransactionStatement::Savepoint(_)));
        self.note(statement);
    }

    pub(crate) fn clear(&mut self) {
        *self = Savepoints::default();
    }

    /// A statement has been executed.
    pub(crate) fn note(&mut self, statement: Option<&TransactionStatement>) {
        match statement {
            Some(TransactionStatement::Savepoint(name)) => self.names.push(name.clone()),
            Some(TransactionStatement::Release(name)) => {
                let place = self.find(name).unwrap_or(self.names.len());
                self.names.truncate(place);
            }
            Some(TransactionStatement::RollbackTo(name)) => {
                let place = self.find(name).map_or(self.names.len(), |place| place + 1);
                self.names.truncate(place);
            }
            _ => {}
        }
    }

    /// True when to release the savepoint of this name is to commit.
    pub(crate) fn is_transaction(&self, name: &str) -> bool {
        self.begun && self.find(name) == Some(0)
    }

    /// What begins the transaction once more, with all of its savepoints.
    pub(crate) fn begin_again(&self) -> Vec<String> {
        let begin = (!self.begun).then(|| "BEGIN".to_owned());
        let savepoints = self.names.iter().map(|it| format!("SAVEPOINT {}", rewrite::quote(it)));
        begin.into_iter().chain(savepoints).collect()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().rposition(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savepoints_nest_as_sqlite_says() {
        use TransactionStatement::{Release, RollbackTo, Savepoint};
        let name = |it: &str| it.to_string();
        let mut savepoints = Savepoints::default();
        savepoints.begin(Some(&Savepoint(name("a"))));
        savepoints.note(Some(&Savepoint(name("b"))));
        savepoints.note(Some(&Savepoint(name("A"))));
        assert!(!savepoints.is_transaction("a"), "the innermost of the name is meant");
        savepoints.note(Some(&RollbackTo(name("b"))));
        assert!(savepoints.is_transaction("A"));
        savepoints.note(Some(&Release(name("b"))));
        assert!(savepoints.is_transaction("a"));
        savepoints.begin(Some(&TransactionStatement::Begin));
        savepoints.note(Some(&Savepoint(name("a"))));
        assert!(!savepoints.is_transaction("a"), "BEGIN has begun it");
    }
}
