//! What an open transaction remembers: its log, its savepoints, and the way that it has come.

pub(crate) mod log;
pub(crate) mod prediction;
pub(crate) mod savepoints;
