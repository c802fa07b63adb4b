//! `fork()`: a child inherits the parent's descriptors and memory, but it is not a member.
//!
//! An open-file-description lock lives as long as any descriptor of its open file does. A child that
//! kept the inherited descriptor would keep a dead parent "alive". So the child closes the
//! descriptors of queue files before `fork` returns in it, and everything that it inherited knows by
//! [`generation`] that it must not touch shared memory again.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

/// Descriptor numbers below this can be a queue file's: the kernel's own default bound (`fs.nr_open`). The words above the
/// highest in use are never touched and cost address space only.
pub(crate) const DESCRIPTORS_MAX: usize = 1 << 20;

static GENERATION: AtomicU64 = AtomicU64::new(0);
/// By descriptor, who has it; 0 for nobody. An array of atomics, since nothing else is safe to read in
/// the child of a process with threads.
static OWNERS: [AtomicU32; DESCRIPTORS_MAX] = [const { AtomicU32::new(0) }; DESCRIPTORS_MAX];
/// All that have owners are below it.
static END: AtomicUsize = AtomicUsize::new(0);

/// Whose a descriptor is: another one for each that is registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner(u32);

/// How many forks lie between the process that loaded this library and this one.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for (descriptor, owner) in OWNERS.iter().enumerate().take(END.load(Ordering::Relaxed)) {
        if owner.swap(0, Ordering::Relaxed) != 0 {
            // SAFETY: the descriptor was registered by its owner, which in this process never uses
            // or closes it again, because its generation is over.
            unsafe { libc::close(descriptor as libc::c_int) };
        }
    }
}

/// Remembers a queue file's descriptor for the children. `None` when its number is too high.
pub(crate) fn register(descriptor: i32) -> Option<Owner> {
    static HANDLER: Once = Once::new();
    static NEXT: AtomicU32 = AtomicU32::new(1);
    HANDLER.call_once(|| {
        // SAFETY: `in_child` only uses atomics and close(), which are allowed in a forked child.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(refused, 0, "pthread_atfork: no memory for the handler");
    });
    let number = usize::try_from(descriptor).ok()?;
    let place = OWNERS.get(number)?;
    let owner = Owner(NEXT.fetch_add(1, Ordering::Relaxed).max(1));
    END.fetch_max(number + 1, Ordering::Relaxed);
    place.store(owner.0, Ordering::Relaxed);
    Some(owner)
}

/// Forgets a descriptor that its owner is about to close, unless it is another's by now.
pub(crate) fn unregister(descriptor: i32, owner: Owner) {
    if let Some(place) = usize::try_from(descriptor).ok().and_then(|number| OWNERS.get(number)) {
        let _ = place.compare_exchange(owner.0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
