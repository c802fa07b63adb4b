//! A live queue file that somebody truncates: the next access to a page behind the new end raises
//! SIGBUS, which would kill the host program.
//!
//! So the first join installs a handler. For a fault inside a mapping of ours it puts empty memory in
//! the mapping's place and lets the access go on. Zeros are not sound (they have no magic word), so the
//! member leaves for a new file as soon as it next looks. Any other fault goes to the handler that was
//! there before, or kills the process as it would have.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Once;

use crate::layout::FILE_BYTES;

/// How many mappings are watched over at once. More are not protected.
const MAPPINGS_MAX: usize = 1024;

/// How often the handler asks for memory.
const TRIES: u32 = 3;

/// Addresses of mappings; 0 for a free place. Atomics, since nothing else is safe in a signal handler.
static MAPPINGS: [AtomicUsize; MAPPINGS_MAX] = [const { AtomicUsize::new(0) }; MAPPINGS_MAX];

/// The handler that was there before: the address of its function, and whether it takes three
/// arguments.
static EARLIER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static EARLIER_TAKES_INFO: AtomicUsize = AtomicUsize::new(0);

/// Watches over a mapping of [`FILE_BYTES`] at `address`.
pub(crate) fn protect(address: usize) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let _ = MAPPINGS.iter().any(|place| {
        place.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    });
}

/// Forgets a mapping that is about to go.
pub(crate) fn release(address: usize) {
    for place in &MAPPINGS {
        let _ = place.compare_exchange(address, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn install() {
    // SAFETY: `sigaction` is a struct of integers and pointers, for which zero is a value.
    let mut earlier: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: a null pointer asks for the present handler; `earlier` lives through the call.
    let asked = unsafe { libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut earlier) };
    if asked != 0 {
        return;
    }
    EARLIER.store(earlier.sa_sigaction, Ordering::Relaxed);
    let takes_info = usize::from(earlier.sa_flags & libc::SA_SIGINFO != 0);
    EARLIER_TAKES_INFO.store(takes_info, Ordering::Relaxed);
    // The new handler keeps the mask and flags of the earlier one: what it chains to runs as before.
    let mut ours = earlier;
    ours.sa_sigaction = handler as *const () as usize;
    ours.sa_flags = earlier.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `handler` has the signature that SA_SIGINFO asks for, and is async-signal-safe.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, core::ptr::null_mut()) };
}

/// Only atomics and system calls in here.
extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler with SA_SIGINFO.
    let info_value = unsafe { &*info };
    // SAFETY: SIGBUS fills this member of the union.
    let fault = unsafe { info_value.si_addr() } as usize;
    // A positive code comes from the kernel. What kill(2) sends carries no address.
    let is_fault = info_value.si_code > 0;
    let is_ignored = !is_fault && EARLIER.load(Ordering::Relaxed) == libc::SIG_IGN;
    if !(is_ignored || is_fault && heal(fault)) {
        chain(signal, info, context);
    }
}

/// Puts empty memory in the place of the mapping that holds `fault`. False when none does.
fn heal(fault: usize) -> bool {
    let holds = |&address: &usize| address != 0 && (address..address + FILE_BYTES).contains(&fault);
    let mapping = MAPPINGS.iter().map(|place| place.load(Ordering::Relaxed)).find(holds);
    let Some(address) = mapping else { return false };
    // SAFETY: errno is the thread's own; the interrupted code must find it unchanged.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let errno_before = unsafe { *errno };
    // SAFETY: replaces a mapping of ours, of exactly this length, by one that is as readable and
    // writable. Its users hold atomics, for which any bits are valid.
    let replace = || unsafe {
        libc::mmap(
            address as *mut c_void,
            FILE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    // Not to get the memory is the process's death.
    let mapped = (0..TRIES).any(|_| replace() != libc::MAP_FAILED);
    // SAFETY: as above.
    unsafe { *errno = errno_before };
    mapped
}

/// Does what would have been done without us.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    type WithInfo = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    type Plain = extern "C" fn(c_int);
    let earlier = EARLIER.load(Ordering::Relaxed);
    if earlier == libc::SIG_DFL || earlier == libc::SIG_IGN {
        // SAFETY: resets this signal, so that the next one kills.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: blocked while we handle it; it comes when we return.
        unsafe { libc::raise(signal) };
    } else if EARLIER_TAKES_INFO.load(Ordering::Relaxed) != 0 {
        // SAFETY: it was installed with SA_SIGINFO, so it is a function of this type.
        let earlier = unsafe { core::mem::transmute::<usize, WithInfo>(earlier) };
        earlier(signal, info, context);
    } else {
        // SAFETY: it was installed without SA_SIGINFO, so it is a function of this type.
        let earlier = unsafe { core::mem::transmute::<usize, Plain>(earlier) };
        earlier(signal);
    }
}
