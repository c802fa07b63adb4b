//! The open cursors of a connection.

use std::sync::{Arc, Weak};

use crate::Error;
use crate::session::cursor_state::{CursorState, Returned};
use crate::statement::prepared::Prepared;

/// Open cursors, and some that are over.
#[derive(Debug, Default)]
pub(crate) struct OpenCursors {
    cursors: Vec<Weak<CursorState>>,
    /// The statements that they no longer need.
    pub(crate) returned: Arc<Returned>,
}

impl OpenCursors {
    pub(crate) fn add(&mut self, cursor: &Arc<CursorState>) {
        self.forget_over();
        self.cursors.push(Arc::downgrade(cursor));
    }

    /// True when none was opened lately: nothing is to be looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.cursors.is_empty()
    }

    /// True when one is open.
    pub(crate) fn are_open(&self) -> bool {
        self.each_open().any(|cursor| !cursor.is_over())
    }

    /// A statement that its cursor no longer needs.
    pub(crate) fn take_returned(&self) -> Option<Box<Prepared>> {
        self.returned.pop()
    }

    /// Drops the statements that their cursors no longer need.
    pub(crate) fn drop_returned(&self) {
        while self.take_returned().is_some() {}
    }

    /// Fetches what they have not shown yet.
    ///
    /// # Errors
    /// When one of them has more than so many bytes.
    pub(crate) fn drain(&mut self, bytes_max: usize) -> Result<(), Error> {
        self.forget_over();
        self.each_open().try_for_each(|cursor| cursor.drain(bytes_max))
    }

    /// Ends their statements. What they have not fetched yet was interrupted.
    pub(crate) fn interrupt(&self) {
        self.each_open().for_each(|cursor| cursor.interrupt());
    }

    /// What drained cursors will show yet counts as seen now.
    pub(crate) fn see_what_waits(&self) {
        self.each_open().for_each(|cursor| cursor.see_what_waits());
    }

    fn forget_over(&mut self) {
        self.cursors.retain(|cursor| cursor.upgrade().is_some_and(|it| !it.is_over()));
    }

    fn each_open(&self) -> impl Iterator<Item = Arc<CursorState>> {
        self.cursors.iter().filter_map(Weak::upgrade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cursor that was read to its end.
    fn read() -> Arc<CursorState> {
        let cursor = CursorState::of_rows(Arc::default(), Vec::new());
        assert!(cursor.next_row().expect("no statement fails").is_none());
        Arc::new(cursor)
    }

    /// A transaction's log holds the cursors of all that it has read: they must not be looked at for each statement.
    #[test]
    fn what_is_over_is_forgotten_also_where_a_log_has_it() {
        let mut open = OpenCursors::default();
        let in_log: Vec<_> = (0..100).map(|_| read()).collect();
        in_log.iter().for_each(|cursor| open.add(cursor));
        assert_eq!(open.cursors.len(), 1, "the last one");
        assert!(!open.are_open());
        let row = crate::row::Row::new(Arc::default(), Vec::new());
        let shows = Arc::new(CursorState::of_rows(Arc::default(), vec![row]));
        open.add(&shows);
        open.add(&read());
        assert!(open.are_open());
        shows.let_go();
        assert!(!open.are_open());
    }
}
