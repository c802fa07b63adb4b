//! The commit: from a request in the queue to the sync, and what follows a leader's death.

pub(crate) mod authority;
pub(crate) mod batch;
pub(crate) mod checkpoint;
pub(crate) mod queue_client;
pub(crate) mod comeback;
pub(crate) mod contention;
pub(crate) mod external_writers;
pub(crate) mod execute;
pub(crate) mod executor;
pub(crate) mod file;
pub(crate) mod holder;
pub(crate) mod joining;
pub(crate) mod recent;
pub(crate) mod recover;
pub(crate) mod registry;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod turns;
pub(crate) mod wal_reader;
