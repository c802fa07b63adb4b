//! The C library's own functions, and the kernel's calls for the recorder itself.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::os::unix::ffi::OsStrExt;

/// The function that a replaced function stands before.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address; never null.
    pub fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: a constant handle, and a name that ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        assert!(!found.is_null(), "the C library has no {:?}", self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the C library's function behind the one of this name.
macro_rules! next {
    ($name:literal, fn($($type:ty),*) -> $result:ty, $($argument:expr),*) => {{
        static NEXT: $crate::kernel::Next = $crate::kernel::Next::new($name);
        let address = NEXT.address();
        // SAFETY: the C library's function of this name has this signature.
        let next = unsafe {
            core::mem::transmute::<*mut core::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(address)
        };
        // SAFETY: the arguments are the program's own, passed on as they came.
        unsafe { next($($argument),*) }
    }};
}
pub(crate) use next;

/// A system call of the recorder's own.
///
/// # Safety
/// As the system call demands of its arguments.
pub unsafe fn call(number: c_long, arguments: [c_long; 4]) -> c_long {
    static NEXT: Next = Next::new(c"syscall");
    type Function = unsafe extern "C" fn(c_long, ...) -> c_long;
    // SAFETY: the C library's `syscall` has this signature.
    let function = unsafe { core::mem::transmute::<*mut c_void, Function>(NEXT.address()) };
    let [a, b, c, d] = arguments;
    // SAFETY: the arguments are good for this system call, as the caller has promised; it reads no more than it has.
    unsafe { function(number, a, b, c, d) }
}

/// The 8 bytes of the file that an environment variable names, mapped for ever and shared with other processes;
/// `None` without the variable. With `writable` they can be written.
///
/// # Panics
/// When there is no such file.
pub fn map_word(variable: &str, writable: bool) -> Option<*mut c_void> {
    let mut name = std::env::var_os(variable)?.as_bytes().to_vec();
    name.push(0);
    let (access, protection) = match writable {
        true => (libc::O_RDWR, libc::PROT_READ | libc::PROT_WRITE),
        false => (libc::O_RDONLY, libc::PROT_READ),
    };
    let flags = access | libc::O_CLOEXEC;
    let arguments = [libc::AT_FDCWD.into(), name.as_ptr() as c_long, flags.into(), 0];
    // SAFETY: a path that ends with a zero byte.
    let descriptor = unsafe { call(libc::SYS_openat, arguments) } as c_int;
    let address = next!(
        c"mmap64",
        fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void,
        core::ptr::null_mut(),
        core::mem::size_of::<u64>(),
        protection,
        libc::MAP_SHARED,
        descriptor,
        0
    );
    assert_ne!(address, libc::MAP_FAILED, "{variable} names no file of 8 bytes");
    Some(address)
}

/// `errno` of this thread.
pub fn errno() -> c_int {
    // SAFETY: has no preconditions; the address is this thread's own.
    let address = unsafe { libc::__errno_location() };
    // SAFETY: a valid address of an integer.
    unsafe { *address }
}

/// Sets `errno` of this thread.
pub fn set_errno(value: c_int) {
    // SAFETY: has no preconditions; the address is this thread's own.
    let address = unsafe { libc::__errno_location() };
    // SAFETY: a valid address of an integer.
    unsafe { *address = value }
}

/// The path behind a descriptor, as the kernel tells it, in `buffer`.
pub fn path_of(descriptor: c_int, buffer: &mut [u8; 512]) -> Option<&[u8]> {
    let mut name = [0_u8; 32];
    let digits = b"/proc/self/fd/";
    name[..digits.len()].copy_from_slice(digits);
    let mut rest = u32::try_from(descriptor).ok()?;
    let mut place = [0_u8; 10];
    let mut count = 0;
    loop {
        place[count] = b'0' + (rest % 10) as u8;
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    for (index, digit) in place[..count].iter().rev().enumerate() {
        name[digits.len() + index] = *digit;
    }
    let arguments = [
        libc::AT_FDCWD.into(),
        name.as_ptr() as c_long,
        buffer.as_mut_ptr() as c_long,
        buffer.len() as c_long,
    ];
    // SAFETY: a path that ends with a zero byte, a buffer and its length.
    let length = unsafe { call(libc::SYS_readlinkat, arguments) };
    buffer.get(..usize::try_from(length).ok()?)
}

/// What the kernel says of a file or a directory behind a descriptor.
fn status_of(descriptor: c_int) -> Option<libc::stat> {
    let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let arguments = [
        c_long::from(descriptor),
        c"".as_ptr() as c_long,
        status.as_mut_ptr() as c_long,
        libc::AT_EMPTY_PATH.into(),
    ];
    // SAFETY: an empty path, and room for the result, whose layout is the kernel's on 64-bit systems.
    let code = unsafe { call(libc::SYS_newfstatat, arguments) };
    // SAFETY: zeroed, and filled in: all bits are valid.
    let status = unsafe { status.assume_init() };
    let kind = status.st_mode & libc::S_IFMT;
    (code == 0 && (kind == libc::S_IFREG || kind == libc::S_IFDIR)).then_some(status)
}

/// The inode behind a descriptor, when it is a file or a directory.
pub fn inode_of(descriptor: c_int) -> Option<u64> {
    status_of(descriptor).map(|status| status.st_ino)
}

/// The size of the file behind a descriptor.
pub fn size_of(descriptor: c_int) -> Option<u64> {
    status_of(descriptor).map(|status| status.st_size as u64)
}

/// The inode that a path names.
///
/// # Safety
/// `path` points to bytes that end with a zero byte.
pub unsafe fn inode_at(path: *const core::ffi::c_char) -> Option<u64> {
    let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let arguments = [
        libc::AT_FDCWD.into(),
        path as c_long,
        status.as_mut_ptr() as c_long,
        libc::AT_SYMLINK_NOFOLLOW.into(),
    ];
    // SAFETY: a path that ends with a zero byte, as the caller has promised, and room for the result.
    let code = unsafe { call(libc::SYS_newfstatat, arguments) };
    // SAFETY: zeroed, and filled in: all bits are valid.
    let status = unsafe { status.assume_init() };
    (code == 0).then_some(status.st_ino)
}
