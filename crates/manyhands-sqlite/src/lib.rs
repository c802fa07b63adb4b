//! The fence around SQLite's C API, its VFS and its locks, for Manyhands.
//!
//! Unsafe code that speaks with SQLite lives here and nowhere else. What comes out is safe: values,
//! errors, statements and connections that keep each other alive.
//!
//! This crate knows no other process and no queue. [`locks`] makes SQLite's file locks safe beside
//! other copies of SQLite in one process, [`vfs`] is the shim that tells when a commit is being
//! written.

mod connection;
mod statement;
mod value;
mod blob;
mod backup;
pub mod authorizer;
mod callbacks;
mod change_hooks;
mod application_functions;
mod functions;
mod settings;
mod main_file;
mod handle;
mod error;
mod codes;
mod pinned;
pub mod vfs;
mod default_vfs;
pub mod locks;
mod memory;
mod planted;
#[cfg(feature = "sync-count")]
pub mod sync_count;

pub use application_functions::{Aggregate, FunctionError, WindowAggregate};
pub use backup::{Backup, BackupStep};
pub use blob::{Blob, BlobPlace};
pub use callbacks::{Progress, Traced};
pub use change_hooks::{ChangeKind, RowChange};
pub use connection::{
    CheckpointMode, Checkpointed, Connection, InterruptHandle, OpenMode, Transaction,
};
pub use error::{Code, Error};
pub use functions::SessionCounters;
pub use handle::Held;
pub use pinned::{Paused, PinGuard, Pinned, pin, zone_digest};
pub use settings::{Limit, Setting, is_complete, thread_safety, version};
pub use statement::{Statement, Step};
pub use value::{Text, Value, ValueRef, real_as_text};
pub use vfs::{
    CheckpointInfo, Promotion, READ_MARKS, SpeculationStatus, WAL_INDEX_TOLD_BYTES, WalIndexHeader,
    wal_index_of,
};

/// SQLite's version number, for example 3054001 for 3.54.1.
pub fn version_number() -> i32 {
    // SAFETY: has no preconditions.
    unsafe { libsqlite3_sys::sqlite3_libversion_number() }
}
