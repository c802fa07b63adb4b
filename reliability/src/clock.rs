//! The one clock that all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since some moment that is the same for all processes.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
