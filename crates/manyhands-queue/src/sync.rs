//! The only door to atomics: loom and shuttle replace them to explore the interleavings.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Hints the processor, or the model checker's scheduler, that this thread waits for another.
pub(crate) fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
    #[cfg(not(any(loom, shuttle)))]
    core::hint::spin_loop();
}
