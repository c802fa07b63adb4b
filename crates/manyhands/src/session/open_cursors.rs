//! The open cursors of a connection.

use std::sync::{Arc, Weak};

use crate::Error;
use crate::session::cursor_state::{CursorState, Returned};
use crate::statement::prepared::Prepared;

/// Open cursors, and some that are not any more.
#[derive(Debug, Default)]
pub(crate) struct OpenCursors {
    cursors: Vec<Weak<CursorState>>,
    /// The statements that they no longer need.
    pub(crate) returned: Arc<Returned>,
}

impl OpenCursors {
    pub(crate) fn add(&mut self, cursor: &Arc<CursorState>) {
        self.forget_closed();
        self.cursors.push(Arc::downgrade(cursor));
    }

    /// True when none was opened lately: nothing is to be looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.cursors.is_empty()
    }

    /// True when one is open.
    pub(crate) fn are_open(&self) -> bool {
        self.cursors.iter().any(|cursor| cursor.strong_count() > 0)
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
        self.forget_closed();
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

    fn forget_closed(&mut self) {
        self.cursors.retain(|cursor| cursor.strong_count() > 0);
    }

    fn each_open(&self) -> impl Iterator<Item = Arc<CursorState>> {
        self.cursors.iter().filter_map(Weak::upgrade)
    }
}
