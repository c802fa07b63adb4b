//! The time zone, which `'localtime'` asks of the C library.

use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A number that differs when two processes would give different answers for `'localtime'`.
///
/// It stands for the environment variable `TZ` and the bytes of the zone's file, as they were when the
/// process first asked; the C library keeps its zone as well, so a program that changes `TZ` later has
/// no defined answer. Processes with the same zone under two names have different numbers.
pub fn zone_digest() -> u32 {
    /// 0 until it is known, then with a bit above it. No lock: in a child of a fork nobody might give it back.
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    const IS_KNOWN: u64 = 1 << 32;
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known as u32;
    }
    let name = std::env::var_os("TZ");
    // A zone that is no file, such as CET-1CEST, says all by its name.
    let file = std::fs::read(zone_file(name.as_deref())).unwrap_or_default();
    let named = name.as_deref().map_or(&b"\0"[..], OsStr::as_bytes);
    let digest = fnv1a([named, b"\0", &file].into_iter().flatten());
    // Of two threads that ask at once the first one's answer stands.
    let stored = IS_KNOWN | u64::from(digest);
    let first = KNOWN.compare_exchange(0, stored, Ordering::Relaxed, Ordering::Relaxed);
    first.err().map_or(digest, |earlier| earlier as u32)
}

/// The file that the C library reads for this `TZ` (tzset(3)).
fn zone_file(name: Option<&OsStr>) -> std::path::PathBuf {
    let Some(name) = name else { return "/etc/localtime".into() };
    let name = name.as_bytes();
    let name = OsStr::from_bytes(name.strip_prefix(b":").unwrap_or(name));
    let directory = std::env::var_os("TZDIR").unwrap_or("/usr/share/zoneinfo".into());
    // An absolute name takes the directory's place.
    Path::new(&directory).join(name)
}

/// The 32-bit FNV-1a hash (<http://www.isthe.com/chongo/tech/comp/fnv/>), which is the same in all
/// builds.
fn fnv1a<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    bytes.fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
