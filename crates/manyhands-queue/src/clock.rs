//! Time. Deadlines are instants of the system-wide monotonic clock: setting the wall clock, forward
//! or back, neither shortens nor lengthens a wait.

use core::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`. The clock is shared by all processes of the machine, so the
/// value has a meaning in shared memory.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The instant at which a wait gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// `wait` from now. A wait too long to represent never ends.
    pub fn after(wait: Duration) -> Deadline {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Deadline(now_ns().saturating_add(wait_ns))
    }

    /// An instant of the clock.
    pub(crate) fn at(ns: u64) -> Deadline {
        Deadline(ns)
    }

    /// True for an instant that never comes.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// True when the instant has come at `now`.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn is_before(self, now_ns: u64) -> bool {
        now_ns >= self.0
    }

    /// True when the instant has come.
    pub fn has_passed(self) -> bool {
        now_ns() >= self.0
    }

    /// What is left until the instant; zero when it has come.
    pub fn remaining(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(now_ns()))
    }

    /// The instant as system calls take it.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn to_timespec(self) -> rustix::time::Timespec {
        rustix::time::Timespec {
            tv_sec: i64::try_from(self.0 / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (self.0 % 1_000_000_000) as _,
        }
    }

    /// `longer` after this instant.
    pub fn extended(self, longer: Duration) -> Deadline {
        let longer_ns = u64::try_from(longer.as_nanos()).unwrap_or(u64::MAX);
        Deadline(self.0.saturating_add(longer_ns))
    }

    /// The earlier of this instant and `wait` from now.
    pub fn or_after(self, wait: Duration) -> Deadline {
        self.min(Deadline::after(wait))
    }
}
