//! Whether the files are where they were.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use manyhands_queue::{Queue, planted};

use super::{DatabaseFile, is_recent};
use crate::Error;
use crate::error::ErrorKind;
use crate::limits;

impl DatabaseFile {
    /// The error of a path that leads to another file.
    pub(crate) fn replaced(&self) -> Error {
        Error::new(ErrorKind::Replaced { path: self.path.clone() })
    }

    /// True while the path leads to the file that was opened.
    pub(crate) fn is_in_place(&self) -> bool {
        let is_ours = |found: std::fs::Metadata| (found.dev(), found.ino()) == self.id;
        let looked = Instant::now();
        let is_in_place =
            std::fs::metadata(&self.path).is_ok_and(is_ours) || planted("replaced-unnoticed");
        if is_in_place {
            self.note_in_place(looked);
        }
        is_in_place
    }

    /// The same, or it did so a `moment` ago at most.
    pub(super) fn was_in_place(&self, moment: Duration) -> bool {
        is_recent(&self.in_place_ns, self.now_ns(), moment) || self.is_in_place()
    }

    /// When it was `looked`, the path led to the file.
    pub(crate) fn note_in_place(&self, looked: Instant) {
        let since_ns = looked.saturating_duration_since(self.origin).as_nanos() as u64;
        self.in_place_ns.fetch_max(since_ns, Ordering::Relaxed);
    }

    /// Looks, every few milliseconds, whether the files are still in their places.
    pub(super) fn look_around(&self, queue: &Queue) -> Result<(), Error> {
        let now_ns = self.now_ns();
        if !self.was_in_place(limits::LOOK_EVERY) {
            return Err(self.replaced());
        }
        if !is_recent(&self.queue_in_place_ns, now_ns, limits::LOOK_EVERY) {
            if self.is_lost() {
                return Err(self.lost_error());
            }
            if !queue.is_in_place() {
                queue.retire();
            }
            self.queue_in_place_ns.store(now_ns, Ordering::Relaxed);
        }
        Ok(())
    }
}
