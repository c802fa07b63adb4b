//! One record of the log. The order of the log is the order of the events, over all processes.
//!
//! A record is a header and `length` bytes behind it. All numbers are little-endian:
//!
//! | bytes | field     |                                                                  |
//! |-------|-----------|------------------------------------------------------------------|
//! | 0-3   | magic     | [`MAGIC`]                                                        |
//! | 4-7   | kind      | one of the constants below                                       |
//! | 8-15  | actor     | the thread's number in the system                                |
//! | 16-23 | inode     | of the file; 0 for [`SAID`]                                      |
//! | 24-31 | offset    | of a write; the new size of a truncate                           |
//! | 32-39 | length    | bytes that follow: what was written, or said, or the file's path |

/// The first bytes of each record.
pub const MAGIC: u32 = 0x4345_524D;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 40;

/// Bytes were written.
pub const WRITE: u32 = 1;
/// The file has another size.
pub const TRUNCATE: u32 = 2;
/// A file was made.
pub const CREATE: u32 = 3;
/// A name was taken away.
pub const UNLINK: u32 = 4;
/// A sync was asked for. It is about what was written before.
pub const SYNC_BEGIN: u32 = 5;
/// The sync of this actor has succeeded.
pub const SYNC_END: u32 = 6;
/// The process wrote this to its standard output, right after.
pub const SAID: u32 = 7;
