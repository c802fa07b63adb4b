//! Compiled statements by their text: where there are too many, the one that was not used for longest goes.

use core::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::limits;

/// A statement that is used leaves its place empty, and comes back to it: that takes no memory.
#[derive(Debug)]
pub(crate) struct StatementCache<T>(LruCache<Arc<str>, Option<T>>);

impl<T> StatementCache<T> {
    pub(crate) fn new() -> StatementCache<T> {
        let capacity = NonZeroUsize::new(limits::STATEMENTS_CACHED).expect("not zero");
        StatementCache(LruCache::new(capacity))
    }

    pub(crate) fn take(&mut self, sql: &str) -> Option<T> {
        self.0.get_mut(sql)?.take()
    }

    /// One that is there already, since the text was compiled twice, goes.
    pub(crate) fn put_back(&mut self, sql: Arc<str>, statement: T) {
        match self.0.peek_mut(&sql) {
            Some(place) => *place = Some(statement),
            None => drop(self.0.put(sql, Some(statement))),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
