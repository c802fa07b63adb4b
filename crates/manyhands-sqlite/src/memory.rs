//! How SQLite gets its memory: from the allocator that it uses by default, but pages that a cache gives back
//! are kept for the next cache.
//!
//! A connection that sees others' commits empties its page cache again and again. The allocator would give
//! those pages back to the system, which hands them out again one page fault at a time (docs/decisions/0014). SQLite's own
//! remedy, many pages at once for each cache, touches them all when a connection is first used.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::{Mutex, OnceLock};

use libsqlite3_sys as ffi;

/// The size of a kept piece, in bytes: a page of 4096 bytes with what SQLite notes beside it.
const PIECE: c_int = 4096 + 512;

/// Pieces that the process keeps at most: less than 2 MiB.
const KEPT_MAX: usize = 400;

/// Free pieces, as addresses.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// SQLite's default functions.
struct Defaults {
    allocate: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static DEFAULTS: OnceLock<Defaults> = OnceLock::new();

/// Configures SQLite, unless it runs already: then it stays as it is
/// (<https://sqlite.org/c3ref/c_config_covering_index_scan.html>).
pub(crate) fn configure() {
    // Without statistics there is no lock around every allocation of the process.
    let off: c_int = 0;
    // SAFETY: this option takes an int.
    let configurable = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, off) };
    let mut methods = ffi::sqlite3_mem_methods {
        xMalloc: None,
        xFree: None,
        xRealloc: None,
        xSize: None,
        xRoundup: None,
        xInit: None,
        xShutdown: None,
        pAppData: ptr::null_mut(),
    };
    // SAFETY: this option takes a pointer to such a structure, which SQLite fills.
    let got = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
    let (Some(allocate), Some(free), Some(size)) = (methods.xMalloc, methods.xFree, methods.xSize)
    else {
        return;
    };
    if (configurable, got) != (ffi::SQLITE_OK, ffi::SQLITE_OK) {
        return;
    }
    if DEFAULTS.set(Defaults { allocate, free, size }).is_err() {
        return;
    }
    methods.xMalloc = Some(allocate_piece);
    methods.xFree = Some(free_piece);
    // SAFETY: this option takes a pointer to such a structure, which SQLite copies. The functions follow the
    // default ones' rules, since all memory comes from these.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) };
    let (none, of_each_cache, one_by_one): (*mut c_void, c_int, c_int) = (ptr::null_mut(), 0, 0);
    // SAFETY: the arguments are of the types that this option takes.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_PAGECACHE, none, of_each_cache, one_by_one) };
}

/// `sqlite3_mem_methods.xMalloc`.
///
/// # Safety
/// `bytes` is positive, as SQLite has it.
unsafe extern "C" fn allocate_piece(bytes: c_int) -> *mut c_void {
    let Some(defaults) = DEFAULTS.get() else { return ptr::null_mut() };
    let is_piece = (4097..=PIECE).contains(&bytes);
    // Never waited for: after a fork nobody might give it back.
    if is_piece
        && let Ok(mut kept) = KEPT.try_lock()
        && let Some(address) = kept.pop()
    {
        return ptr::with_exposed_provenance_mut(address);
    }
    // SAFETY: SQLite asks for a positive size.
    unsafe { (defaults.allocate)(if is_piece { PIECE } else { bytes }) }
}

/// `sqlite3_mem_methods.xFree`.
///
/// # Safety
/// The memory came from [`allocate_piece`], or from another of the functions that SQLite allocates with, and is not used any
/// more.
unsafe extern "C" fn free_piece(memory: *mut c_void) {
    let Some(defaults) = DEFAULTS.get() else { return };
    // SAFETY: SQLite frees what it got from us, which we got from the default functions.
    let size = unsafe { (defaults.size)(memory) };
    // It has room for a piece, whatever it was used for.
    if (PIECE..PIECE + 64).contains(&size)
        && let Ok(mut kept) = KEPT.try_lock()
        && kept.len() < KEPT_MAX
    {
        kept.push(memory.expose_provenance());
        return;
    }
    // SAFETY: SQLite frees what it got from us, which we got from the default functions, and does not use it any more.
    unsafe { (defaults.free)(memory) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(bytes: c_int) -> *mut c_void {
        // SAFETY: a positive size.
        let memory = unsafe { allocate_piece(bytes) };
        assert!(!memory.is_null());
        memory
    }

    fn free(memory: *mut c_void) {
        // SAFETY: from `allocate`, and not used again.
        unsafe { free_piece(memory) };
    }

    fn kept() -> usize {
        KEPT.lock().map_or(0, |it| it.len())
    }

    /// A page that one cache gave back is the next one's, large enough for any page; other sizes go their way,
    /// and no more is kept than was said.
    #[test]
    fn pages_are_used_again() {
        crate::Connection::open(":memory:".as_ref(), crate::OpenMode::ReadWriteCreate, false)
            .expect("SQLite runs, with these functions");
        let page = allocate(4300);
        free(page);
        let again = allocate(4500);
        assert_eq!(again, page);
        // SAFETY: `again` has room for a piece.
        unsafe { ptr::write_bytes(again.cast::<u8>(), 7, PIECE as usize) };
        free(again);
        let before = kept();
        for bytes in [8, 4096, PIECE + 100, 70_000] {
            free(allocate(bytes));
        }
        assert_eq!(kept(), before);
        let many: Vec<_> = (0..2 * KEPT_MAX).map(|_| allocate(4400)).collect();
        many.into_iter().for_each(free);
        assert_eq!(kept(), KEPT_MAX);
    }
}
