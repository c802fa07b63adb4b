//! Where SQLite's locks are in the files of a database.

/// The byte of the -shm file whose lock is SQLite's write lock in WAL mode
/// (<https://sqlite.org/walformat.html>, 2.2).
pub const WRITE_LOCK_BYTE: i64 = 120;

/// The byte of the -shm file that every connection has locked which has it open: SQLite's "deadman switch".
pub const SHARED_MEMORY_LOCK_BYTE: i64 = 128;

/// The byte of the database file that every connection in WAL mode has locked, from its first read until it closes: the
/// first of SQLite's SHARED range.
pub const SHARED_LOCK_BYTE: i64 = 0x4000_0002;

/// The byte whose lock a checkpoint holds.
pub const CHECKPOINT_LOCK_BYTE: i64 = 121;

/// The byte whose lock a reader with the first read mark holds; that of the next mark follows.
pub const READ_LOCK_BYTE_FIRST: i64 = 123;
