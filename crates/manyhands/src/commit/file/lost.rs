//! A program that closes descriptors which it did not open (`closefrom(3)`), with a database open.

use core::sync::atomic::Ordering;

use manyhands_sqlite as sqlite;

use super::DatabaseFile;
use crate::Error;
use crate::error::ErrorKind;

impl DatabaseFile {
    /// True once the program has closed descriptors of this file which it did not open: with them went the locks of
    /// every connection, and the membership. The next connection opens the file anew. Costs some system calls.
    pub(crate) fn is_lost(&self) -> bool {
        let is_lost = self.has_lost()
            || self.queue().is_lost()
            || sqlite::locks::are_lost(self.id.0, self.id.1, self.losses);
        if is_lost {
            self.lost.store(true, Ordering::Relaxed);
        }
        is_lost
    }

    /// The same, as far as somebody has seen it.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// An error when somebody has seen that it is lost.
    pub(crate) fn refuse_lost(&self) -> Result<(), Error> {
        if self.has_lost() { Err(self.lost_error()) } else { Ok(()) }
    }

    pub(super) fn lost_error(&self) -> Error {
        Error::new(ErrorKind::Lost { path: self.path.clone() })
    }
}
