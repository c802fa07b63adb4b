//! Compiled statements by their text. When there are too many, the least recently used one goes.

use core::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::limits;
use crate::statement::prepared::Prepared;

/// A statement that is used leaves its place empty, and comes back to it: that takes no memory.
#[derive(Debug)]
pub(crate) struct StatementCache {
    /// The statement that was used last: it is often the next one.
    last: Option<Box<Prepared>>,
    others: LruCache<Arc<str>, Option<Box<Prepared>>>,
}

impl StatementCache {
    pub(crate) fn new() -> StatementCache {
        let capacity = NonZeroUsize::new(limits::STATEMENTS_CACHED).expect("not zero");
        StatementCache { last: None, others: LruCache::new(capacity) }
    }

    /// The statement of this text, to be put back; not one that SQLite would compile by itself, for the schema that it
    /// read last.
    pub(crate) fn take(&mut self, sql: &str) -> Option<Box<Prepared>> {
        let last = self.last.take_if(|last| *last.sql == *sql);
        let kept = last.or_else(|| self.others.get_mut(sql)?.take());
        kept.filter(|prepared| !prepared.statement.is_expired())
    }

    /// One that is there already, since the text was compiled twice, goes.
    pub(crate) fn put_back(&mut self, statement: Box<Prepared>) {
        let Some(before) = self.last.replace(statement) else { return };
        match self.others.peek_mut(&before.sql) {
            Some(place) => *place = Some(before),
            None => drop(self.others.put(Arc::clone(&before.sql), Some(before))),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.last = None;
        self.others.clear();
    }
}
