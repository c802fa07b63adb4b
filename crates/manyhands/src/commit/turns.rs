//! The turns that a connection holds, each in the queue of a file that it writes.

use core::time::Duration;
use std::time::Instant;

use manyhands_queue::{Lead, crash};

use crate::commit::comeback::Comeback;
use crate::commit::file::{DatabaseFile, FileId};
use crate::statement::tables::TableSet;

/// The turns of one connection.
#[derive(Debug)]
pub(crate) struct Turns {
    held: Vec<(FileId, Lead)>,
    /// When the first of them was taken.
    pub(crate) taken_at: Instant,
    /// The tables of the main database that were written in them.
    pub(crate) written: TableSet,
    /// See [`Connection::stay_in_thread`](crate::Connection::stay_in_thread).
    pub(crate) stay_in_thread: bool,
    pub(crate) comeback: Comeback,
}

impl Turns {
    pub(crate) fn none() -> Turns {
        let (held, written, comeback) = (Vec::new(), TableSet::NONE, Comeback::default());
        Turns { held, taken_at: Instant::now(), written, stay_in_thread: false, comeback }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// True when the turn of this file is among them.
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.lead(file).is_some()
    }

    pub(crate) fn lead(&self, file: FileId) -> Option<&Lead> {
        self.held.iter().find(|(id, _)| *id == file).map(|(_, lead)| lead)
    }

    pub(crate) fn lead_mut(&mut self, file: FileId) -> Option<&mut Lead> {
        self.held.iter_mut().find(|(id, _)| *id == file).map(|(_, lead)| lead)
    }

    /// Holds one more, which is that of the main database or not.
    pub(crate) fn hold(&mut self, file: &DatabaseFile, lead: Lead, is_main: bool) {
        if self.is_empty() {
            self.taken_at = Instant::now();
        }
        if is_main {
            self.written = TableSet::NONE;
            file.holder.begin(self.stay_in_thread);
        }
        self.held.push((file.id(), lead));
        crash::point("turn-begun");
    }

    /// For how long the first of them has been held.
    pub(crate) fn held_for(&self) -> Duration {
        self.taken_at.elapsed()
    }

    /// These tables were written in the turn of the main database.
    pub(crate) fn note_written(&mut self, tables: TableSet) {
        self.written = self.written.and(tables);
    }

    /// True when somebody waits for one of them.
    pub(crate) fn others_wait(&self) -> bool {
        self.held.iter().any(|(_, lead)| lead.next(None).is_some())
    }

    /// The files that they are of.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileId> {
        self.held.iter().map(|(id, _)| *id)
    }

    /// Gives back that of one file. `main` is the main database.
    pub(crate) fn release_one(&mut self, file: FileId, main: Option<&DatabaseFile>) {
        let place = self.files().position(|id| id == file);
        if let Some(place) = place {
            let last = self.held.len() - 1;
            self.held.swap(place, last);
            self.release_after(last, main);
        }
    }

    /// Gives all back, at the end of a transaction. The place in the queue of the main database may be reserved, if that is the
    /// only one; before those who asked for requests only with `before_requests`.
    pub(crate) fn leave(&mut self, main: Option<&DatabaseFile>, before_requests: bool) {
        if let Some(file) = main
            && self.count() == 1
            && let Some((_, lead)) = self.held.pop_if(|(id, _)| *id == file.id())
        {
            file.holder.end();
            self.comeback.leave(lead, before_requests);
        }
        self.release_after(0, main);
    }

    /// Gives back those that were taken after the first `kept`. `main` is the main database.
    pub(crate) fn release_after(&mut self, kept: usize, main: Option<&DatabaseFile>) {
        for (id, lead) in self.held.split_off(kept) {
            if let Some(file) = main.filter(|file| file.id() == id) {
                file.holder.end();
            }
            lead.release();
        }
    }
}
