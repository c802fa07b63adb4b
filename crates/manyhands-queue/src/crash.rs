//! Named places at which a test kills its own process, to prove that a death there loses nothing.
//!
//! `MANYHANDS_CRASH=name:7` in the environment kills the process with SIGKILL when it passes `name`
//! for the seventh time. Or a test calls [`visit`], and stands at each place itself. Without the feature
//! `crash-points` a place costs nothing and does nothing.

/// Every name that [`point`] is called with, so that a campaign can try them all. In the order in which they are
/// passed, from the first batch on.
pub const POINTS: &[&str] = &[
    "joined",
    "claimed",
    "block-claimed",
    "drawn",
    "published",
    "leading",
    "batch-begun",
    "locked",
    "taken",
    "executed",
    "before-commit",
    "announced",
    "frame-written",
    "synced",
    "half-published",
    "sealed",
    "committed",
    "first-answered",
    "answered",
    "released",
    "recovering",
    "recovered",
    "turn-begun",
    "turn-committed",
    "before-checkpoint",
    "after-checkpoint",
    "leaving",
];

/// Those at which a leader has a batch in hand.
pub fn with_a_batch() -> &'static [&'static str] {
    let place = |name| POINTS.iter().position(|point| *point == name).expect("a point of the list");
    &POINTS[place("batch-begun")..=place("answered")]
}

#[cfg(feature = "crash-points")]
type Visitor = Box<dyn Fn(&'static str) + Send + Sync>;
#[cfg(feature = "crash-points")]
static VISITOR: std::sync::OnceLock<Visitor> = std::sync::OnceLock::new();

/// From now on the threads of this process call `visitor` at each point that they pass. They hold there what they
/// hold: it must not use the library.
///
/// # Panics
/// When there is a visitor.
#[cfg(feature = "crash-points")]
pub fn visit(visitor: impl Fn(&'static str) + Send + Sync + 'static) {
    assert!(VISITOR.set(Box::new(visitor)).is_ok(), "there is a visitor");
}

/// Dies here if the environment asks for it.
#[cfg(feature = "crash-points")]
pub fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static TARGET: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    assert!(POINTS.contains(&name), "crash point {name} is not listed");
    if let Some(visitor) = VISITOR.get() {
        visitor(name);
    }
    let target = TARGET.get_or_init(|| {
        let value = std::env::var("MANYHANDS_CRASH").ok()?;
        let (name, count) = value.split_once(':').expect("MANYHANDS_CRASH is name:count");
        Some((name.to_string(), count.parse().expect("MANYHANDS_CRASH is name:count")))
    });
    let Some((wanted, count)) = target else { return };
    if wanted == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

/// Nothing: this build has no crash points.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn point(_name: &'static str) {}
