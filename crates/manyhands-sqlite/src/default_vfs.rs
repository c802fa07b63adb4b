//! SQLite's own VFS, which the shim stands before.

use core::ptr::{self, NonNull};
use std::sync::OnceLock;

use libsqlite3_sys as ffi;

/// A VFS that is never freed, nor changed once SQLite has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vfs(NonNull<ffi::sqlite3_vfs>);

// SAFETY: what it points to is never freed or changed, so any thread may read it; SQLite's own VFS may be called by
// any thread.
unsafe impl Send for Vfs {}
// SAFETY: a shared reference gives no more than a copy, and a copy may be sent.
unsafe impl Sync for Vfs {}

impl Vfs {
    /// SQLite's default VFS, as it is when it is first asked for.
    pub(crate) fn default() -> Vfs {
        static DEFAULT: OnceLock<Vfs> = OnceLock::new();
        *DEFAULT.get_or_init(|| {
            // SAFETY: initialises SQLite if need be; null asks for the default VFS.
            let default = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
            Vfs(NonNull::new(default).expect("this SQLite has no default VFS"))
        })
    }

    pub(crate) fn as_ptr(self) -> *mut ffi::sqlite3_vfs {
        self.0.as_ptr()
    }
}
