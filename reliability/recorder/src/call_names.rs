//! The functions that can fail. The recorder and the campaign that reads its counters share this file, since
//! the order is that of the counters.

/// The functions that can fail, by the name of their system call. `RECORDER_COUNTS` has a counter for
/// each, in this order.
pub const CALLS: [&str; 21] = [
    "open",
    "close",
    "read",
    "pread",
    "write",
    "pwrite",
    "ftruncate",
    "fdatasync",
    "fsync",
    "unlink",
    "stat",
    "fstat",
    "access",
    "fcntl",
    "fallocate",
    "mmap",
    "mremap",
    "munmap",
    "fchmod",
    "readlink",
    "futex",
];
