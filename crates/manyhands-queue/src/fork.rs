//! `fork()`: a child inherits the parent's descriptors and memory, but it is not a member.
//!
//! An open-file-description lock lives as long as any descriptor of its open file does. A child that
//! kept the inherited descriptor would keep a dead parent "alive". So the child closes the
//! descriptors of queue files before `fork` returns in it, and everything that it inherited knows by
//! [`generation`] that it must not touch shared memory again.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::Once;

/// How many queue files one process can have open at once.
const QUEUES_PER_PROCESS: usize = 1024;

static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Descriptor + 1; 0 for a free place. An array of atomics, since nothing else is safe to read in
/// the child of a process with threads.
static DESCRIPTORS: [AtomicI32; QUEUES_PER_PROCESS] =
    [const { AtomicI32::new(0) }; QUEUES_PER_PROCESS];

/// How many forks lie between the process that loaded this library and this one.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for place in &DESCRIPTORS {
        let descriptor = place.swap(0, Ordering::Relaxed) - 1;
        if descriptor >= 0 {
            // SAFETY: the descriptor was registered by its owner, which in this process never uses
            // or closes it again, because its generation is over.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Remembers a queue file's descriptor for the children. False when there are too many.
pub(crate) fn register(descriptor: i32) -> bool {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: `in_child` only uses atomics and close(), which are allowed in a forked child.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(refused, 0, "pthread_atfork: no memory for the handler");
    });
    DESCRIPTORS.iter().any(|place| {
        place.compare_exchange(0, descriptor + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    })
}

/// Forgets a descriptor that its owner is about to close.
pub(crate) fn unregister(descriptor: i32) {
    for place in &DESCRIPTORS {
        let _ = place.compare_exchange(descriptor + 1, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
