//! Room mode: files can grow by so many bytes more, to the byte. `RECORDER_ROOM` names a file of 8 bytes: how many
//! are left, for all processes together; all ones for no limit. A campaign writes it.
//!
//! A write that is partly beyond falls short, as on a disk; one that is wholly beyond fails with ENOSPC. What is
//! written over needs no room. A file that is cut gives none back.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use crate::kernel;

/// No limit.
const ENOUGH: u64 = u64::MAX;

struct Room {
    directory: Vec<u8>,
    bytes_left: &'static AtomicU64,
}

fn room() -> Option<&'static Room> {
    static ROOM: OnceLock<Option<Room>> = OnceLock::new();
    ROOM.get_or_init(map).as_ref()
}

fn map() -> Option<Room> {
    let address = kernel::map_word("RECORDER_ROOM", true)?;
    let directory = std::env::var_os("RECORDER_DIRECTORY")?.as_bytes().to_vec();
    // SAFETY: mapped for ever, long enough, aligned to a page, and only ever used as an atomic.
    Some(Room { directory, bytes_left: unsafe { &*address.cast() } })
}

/// How many of the bytes that are to be written at a place have room; `None` when none has.
pub fn fit(descriptor: c_int, count: usize, at: i64) -> Option<usize> {
    let Some(Room { directory, bytes_left }) = room() else { return Some(count) };
    if bytes_left.load(Ordering::Relaxed) == ENOUGH {
        return Some(count);
    }
    let errno = kernel::errno();
    let mut path = [0; 512];
    let is_ours =
        kernel::path_of(descriptor, &mut path).is_some_and(|it| it.starts_with(directory));
    let size = kernel::size_of(descriptor);
    kernel::set_errno(errno);
    let (true, Some(size)) = (is_ours, size) else { return Some(count) };
    let (from, end) = (at as u64, at as u64 + count as u64);
    let growth = end.saturating_sub(size.max(from));
    let mut taken = 0;
    // Who frees the disk may do so meanwhile.
    let take = |left| {
        taken = growth.min(left);
        (left != ENOUGH).then_some(left - taken)
    };
    if bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
        return Some(count);
    }
    let fits = count - (growth - taken) as usize;
    (fits > 0).then_some(fits)
}
