//! The VFS shim: SQLite's own unix VFS, watched, and the way in for the speculative transaction (`speculative`).
//!
//! The shim changes nothing that SQLite does, but for the clock under a [`pin`](crate::pin), for the number of system
//! calls with which the -wal file is written (`wal_appends`), for where pages are read (`mapped_file`) and for the time at
//! which what a checkpoint writes goes to the disk (`backfill`). It tells a [`CommitObserver`] how far the commit of
//! a WAL transaction has come (`commit_stage`). And when SQLite gives the write lock back after a commit that failed, its
//! frame is not in the -wal file any more (`unpublished`).
//!
//! The modules stand in the order in which to read them, and each imports only those behind it (`make check`).

mod registration;
mod methods;
mod wal_file;
mod database_file;
mod shim;
mod commit_stage;
mod speculative;
mod wal_index;
mod unpublished;
mod backfill;
mod mapped_file;
mod real_file;
mod wal_appends;
mod wal_frame;
mod lock_bytes;

#[cfg(test)]
mod failed_sync;

pub use commit_stage::{CommitFrame, CommitObserver, CommitStage};
pub use lock_bytes::{
    CHECKPOINT_LOCK_BYTE, READ_LOCK_BYTE_FIRST, SHARED_LOCK_BYTE, SHARED_MEMORY_LOCK_BYTE,
    WRITE_LOCK_BYTE,
};
pub use registration::{NAME, register};
pub use speculative::{Promotion, SpeculationStatus};
pub use wal_index::{
    CheckpointInfo, READ_MARKS, WAL_INDEX_TOLD_BYTES, WalIndexHeader, wal_index_of,
};

pub(crate) use database_file::{DatabaseFile, with_database_file};
pub(crate) use mapped_file::WINDOW_BYTES;
#[cfg(feature = "sync-count")]
pub(crate) use wal_frame::FRAME_HEADER_BYTES;
