//! What an application does between two statements of a transaction: it computes, or it waits for somebody.

use std::{hint::black_box, thread, time::Duration};

use clap::ValueEnum;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// How the time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkKind {
    /// Computing: it takes a core.
    Busy,
    /// Waiting, for a network for example: it takes no core.
    Wait,
}

/// Time that passes within a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Think {
    /// Microseconds: of the thread's CPU time if it computes, else of the clock on the wall.
    pub us: u64,
    /// How they pass.
    pub kind: ThinkKind,
}

impl Think {
    /// Lets the time pass.
    pub fn pass(self) {
        let duration = Duration::from_micros(self.us);
        match self.kind {
            _ if duration.is_zero() => (),
            // CPU time and not the clock on the wall: a thread that waits for a core has computed nothing meanwhile.
            ThinkKind::Busy => compute(duration),
            ThinkKind::Wait => thread::sleep(duration),
        }
    }

    /// How the table calls it: `1000 us busy`.
    pub fn label(self) -> String {
        match (self.us, self.kind) {
            (0, _) => "no think".to_owned(),
            (us, ThinkKind::Busy) => format!("{us} us busy"),
            (us, ThinkKind::Wait) => format!("{us} us waiting"),
        }
    }
}

/// Computes for that much CPU time.
fn compute(duration: Duration) {
    // A few microseconds: short beside the shortest think, long beside the call that reads the clock.
    const STEPS: u64 = 1_000;
    let deadline = thread_cpu_time() + duration;
    let mut sum = 0_u64;
    while thread_cpu_time() < deadline {
        sum = (0..STEPS).fold(sum, |sum, step| black_box(sum.wrapping_mul(31).wrapping_add(step)));
    }
}

fn thread_cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that compute share the cores; threads that wait share nothing.
    #[test]
    fn computing_takes_cpu_time_and_waiting_does_not() {
        let used = |kind| {
            let before = thread_cpu_time();
            Think { us: 20_000, kind }.pass();
            thread_cpu_time() - before
        };
        assert!(used(ThinkKind::Busy) >= Duration::from_millis(20));
        assert!(used(ThinkKind::Wait) < Duration::from_millis(10));
    }

    /// Each way to think has a line of its own in the table; no time passes in one way only.
    #[test]
    fn labels() {
        let label = |us, kind| Think { us, kind }.label();
        assert_eq!(label(100, ThinkKind::Busy), "100 us busy");
        assert_eq!(label(1_000, ThinkKind::Wait), "1000 us waiting");
        assert_eq!(label(0, ThinkKind::Wait), label(0, ThinkKind::Busy));
    }
}
