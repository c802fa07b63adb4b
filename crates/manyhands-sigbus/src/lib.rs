//! Mapped files that somebody truncates: the next access to a page behind the new end raises SIGBUS, which
//! would kill the host program.
//!
//! So the first [`guard`] installs a handler. For a fault inside a mapping that is watched it puts other memory in
//! its place, as [`Healing`] says, and lets the access go on; what was mapped there is lost to this process, and
//! [`FaultGuard::has_failed`] says so from then on. Any other fault goes to the handler that was there before, or
//! kills the process as it would have.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering, fence};
use std::io::{Error, ErrorKind};
use std::os::fd::RawFd;
use std::sync::Once;

/// How many mappings are watched over at once: three for each database. The places behind those in use are never touched.
const MAPPINGS_MAX: usize = 3 << 14;

/// How often the handler asks for memory.
const TRIES: u32 = 3;

/// No descriptor.
const NONE: RawFd = -1;

/// The address of a place that is being filled or emptied: in no mapping.
const RESERVED: usize = 1;

/// What a fault does to its mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Healing {
    /// All of it is empty memory from then on, which may be written.
    Mapping,
    /// The page of the fault is from then on what the mapped file's descriptor gives when it is read there, with zeros
    /// behind its end, and may only be read. If it gives an error, the fault goes on.
    Page {
        /// Of the mapped file, which is mapped from its beginning.
        descriptor: RawFd,
    },
}

/// A mapping that is watched over. Atomics, since nothing else is safe in a signal handler.
struct Place {
    /// 0 for a free place.
    address: AtomicUsize,
    bytes: AtomicUsize,
    /// For [`Healing::Page`]; else [`NONE`].
    descriptor: AtomicI32,
    failed: AtomicBool,
}

static PLACES: [Place; MAPPINGS_MAX] = [const {
    Place {
        address: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        descriptor: AtomicI32::new(NONE),
        failed: AtomicBool::new(false),
    }
}; MAPPINGS_MAX];

/// The size of a page of memory, in bytes; set before a mapping is watched.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The handler that was there before: the address of its function, and whether it takes three
/// arguments.
static EARLIER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static EARLIER_TAKES_INFO: AtomicUsize = AtomicUsize::new(0);

/// Guards over a mapping until it is dropped, which must be before the mapping goes.
#[derive(Debug)]
pub struct FaultGuard {
    place: usize,
}

/// Guards over the mapping of `bytes` bytes at `address`, both multiples of a page. `None` when too many
/// others are watched: this one is not protected then.
///
/// # Safety
/// The mapping is the caller's, and any bits are valid there, from one moment to the next. With [`Healing::Page`] the
/// descriptor stays open, and of this file, until the watch is dropped.
pub unsafe fn guard(address: usize, bytes: usize, healing: Healing) -> Option<FaultGuard> {
    install();
    let is_free = |place: &Place| {
        place.address.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let found = PLACES.iter().position(is_free)?;
    let place = &PLACES[found];
    fence(Ordering::Release);
    place.bytes.store(bytes, Ordering::Relaxed);
    let descriptor = match healing {
        Healing::Mapping => NONE,
        Healing::Page { descriptor } => descriptor,
    };
    place.descriptor.store(descriptor, Ordering::Relaxed);
    place.failed.store(false, Ordering::Relaxed);
    place.address.store(address, Ordering::Release);
    Some(FaultGuard { place: found })
}

impl FaultGuard {
    /// True when a page of the mapping was not there: it does not follow the file any more.
    pub fn has_failed(&self) -> bool {
        PLACES[self.place].failed.load(Ordering::Acquire)
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        PLACES[self.place].address.store(0, Ordering::Release);
    }
}

/// Installs the handler, once. Must be called early: if one thread is in here while another one forks, the child waits for ever in its
/// own call.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install_now);
}

fn install_now() {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE.store(usize::try_from(page).unwrap_or(4096), Ordering::Relaxed);
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
///
/// # Safety
/// The kernel calls it for SIGBUS, as `SA_SIGINFO` asks for.
unsafe extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to a handler with SA_SIGINFO.
    let info_value = unsafe { &*info };
    // SAFETY: SIGBUS fills this member of the union.
    let fault = unsafe { info_value.si_addr() } as usize;
    // A positive code comes from the kernel. What kill(2) sends carries no address.
    let is_fault = info_value.si_code > 0;
    let is_ignored = !is_fault && EARLIER.load(Ordering::Relaxed) == libc::SIG_IGN;
    if !(is_ignored || is_fault && heal(fault)) {
        // SAFETY: what the kernel has passed to this handler.
        unsafe { chain(signal, info, context) };
    }
}

/// Puts other memory where `fault` is. False when that is in no mapping of ours, or there is no memory, or the
/// disk fails: that is the process's death.
fn heal(fault: usize) -> bool {
    // SAFETY: errno is the thread's own; the interrupted code must find it unchanged.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address of an integer, which is this thread's own.
    let errno_before = unsafe { *errno };
    let healed = PLACES.iter().any(|place| {
        let address = place.address.load(Ordering::Acquire);
        let bytes = place.bytes.load(Ordering::Relaxed);
        let descriptor = place.descriptor.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        // The place of a mapping that is in use stays as it is. Another one may have changed hands meanwhile.
        let is_whole = place.address.load(Ordering::Relaxed) == address;
        if !is_whole || address <= RESERVED || !(address..address + bytes).contains(&fault) {
            return false;
        }
        // First told, then done.
        place.failed.store(true, Ordering::Release);
        match descriptor {
            NONE => (0..TRIES).any(|_| {
                // SAFETY: a mapping that is guarded, of this length: `guard` demands that any bits are valid there.
                unsafe { empty_memory(address, bytes, libc::MAP_FIXED) }.is_some()
            }),
            descriptor => {
                let page = PAGE.load(Ordering::Relaxed);
                let offset = (fault - address) / page * page;
                (0..TRIES).any(|_| {
                    // SAFETY: a page of a mapping that is guarded: `guard` demands that any bits are valid there.
                    unsafe { replace_page(address, offset, page, descriptor) }
                })
            }
        }
    });
    // SAFETY: the address of an integer, which is this thread's own.
    unsafe { *errno = errno_before };
    healed
}

/// New memory, which may be written; with `MAP_FIXED` in the place of what is at `address`.
///
/// # Safety
/// With `MAP_FIXED` there is a mapping of this length, which may be replaced: any bits are valid there, from one moment to
/// the next.
unsafe fn empty_memory(address: usize, bytes: usize, fixed: c_int) -> Option<*mut c_void> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: replaces nothing, or a mapping that may be replaced, as the caller has promised, by one that is as readable and
    // writable.
    let new = unsafe { libc::mmap(address as *mut c_void, bytes, protection, flags, -1, 0) };
    (new != libc::MAP_FAILED).then_some(new)
}

/// Reads a page to its end, or to the file's. False when the disk fails.
fn read_page(page: &mut [u8], offset: usize, descriptor: RawFd) -> bool {
    let mut got = 0;
    while got < page.len() {
        let (rest, at) = (&mut page[got..], (offset + got) as libc::off_t);
        // SAFETY: the rest of the page has so many bytes.
        let read = unsafe { libc::pread(descriptor, rest.as_mut_ptr().cast(), rest.len(), at) };
        let is_interrupted = || Error::last_os_error().kind() == ErrorKind::Interrupted;
        match usize::try_from(read) {
            Ok(0) => return true,
            Ok(more) => got += more,
            Err(_) if is_interrupted() => {}
            Err(_) => return false,
        }
    }
    true
}

/// Puts what is in the file at `offset` in the place of that page of the mapping at `address`, in one step: other
/// threads may be reading it.
///
/// # Safety
/// That page is mapped, and may be replaced: any bits are valid there, from one moment to the next.
unsafe fn replace_page(address: usize, offset: usize, page: usize, descriptor: RawFd) -> bool {
    // SAFETY: replaces nothing.
    let Some(new) = (unsafe { empty_memory(0, page, 0) }) else { return false };
    // SAFETY: the memory is new, as long, and zero.
    let bytes = unsafe { core::slice::from_raw_parts_mut(new.cast::<u8>(), page) };
    let is_read = read_page(bytes, offset, descriptor);
    // SAFETY: the memory is new, and as long.
    let protected = is_read && unsafe { libc::mprotect(new, page, libc::PROT_READ) } == 0;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let place = (address + offset) as *mut c_void;
    // SAFETY: the new page is nobody else's, and the one in whose place it comes may be replaced, as the caller has promised.
    let moved = protected && unsafe { libc::mremap(new, page, page, flags, place) } == place;
    if !moved {
        // SAFETY: the memory is new, and nobody's else.
        unsafe { libc::munmap(new, page) };
    }
    moved
}

/// Does what would have been done without us.
///
/// # Safety
/// In a signal handler, with what the kernel has passed to it.
unsafe fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    type WithInfo = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
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
        // SAFETY: the arguments are the kernel's, as it would have passed them to this handler.
        unsafe { earlier(signal, info, context) };
    } else {
        // SAFETY: it was installed without SA_SIGINFO, so it is a function of this type.
        let earlier = unsafe { core::mem::transmute::<usize, Plain>(earlier) };
        earlier(signal);
    }
}
