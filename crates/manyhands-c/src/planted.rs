//! Named faults that a campaign plants into this build, to prove that it would notice them.
//!
//! `MANYHANDS_PLANTED=name` in the environment turns one on, for the whole process. Without the feature
//! `planted` there are none, and asking costs nothing. What they are, and which campaign finds each of
//! them: `docs/reliability/planted.md`. The other fences have the same: none knows another.

/// True when this fault is planted.
#[cfg(feature = "planted")]
pub(crate) fn planted(name: &'static str) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("MANYHANDS_PLANTED").ok()).as_deref() == Some(name)
}

/// Never: this build has no planted faults.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn planted(_name: &'static str) -> bool {
    false
}
