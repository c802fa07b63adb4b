//! How SQLite gets the memory of its page caches.

use core::ffi::{c_int, c_void};
use core::ptr;

use libsqlite3_sys as ffi;

/// Pages that each page cache gets in one piece when it is first used; further ones come one by one. A
/// connection that sees others' commits empties its cache again and again: one by one, its pages would
/// go back to the allocator and to the system each time, which was measured to cost a fifth of a small
/// transaction. SQLite's own number is 20.
const PAGES_AT_ONCE: c_int = 100;

/// Configures SQLite, unless it runs already: then it stays as it is.
pub(crate) fn configure() {
    let none: *mut c_void = ptr::null_mut();
    let of_each_cache: c_int = 0;
    // SAFETY: the arguments are of the types that this option takes. SQLite refuses the call when it
    // is initialized (https://sqlite.org/c3ref/c_config_covering_index_scan.html).
    unsafe {
        ffi::sqlite3_config(ffi::SQLITE_CONFIG_PAGECACHE, none, of_each_cache, PAGES_AT_ONCE)
    };
}
