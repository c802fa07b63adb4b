//! What an open transaction remembers: its log, its savepoints, and its path for predictions.

pub(crate) mod log;
pub(crate) mod prediction;
pub(crate) mod savepoints;
