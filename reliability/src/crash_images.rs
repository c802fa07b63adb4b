//! What a power cut at any moment could have left of the files, built from a recording of everything that
//! several processes did to them, and looked into with SQLite.
//!
//! * `recording`: the events, in one order over all processes.
//! * `disk`: what of them is safe after each event, and what is not.
//! * `image`: one possible content after a cut: a choice among what is not safe.
//! * `witness`: what SQLite finds in an image.
//! * `workload`: what the processes do.
//! * `planted`: recordings spoiled in known ways.
//! * `examination`: a recording cut at every event, in every way.

pub mod disk;
pub mod examination;
pub mod image;
pub mod planted;
pub mod recording;
pub mod witness;
pub mod workload;
