//! What a process says at its end to `manyhands run`, which has preloaded the library into it: which files it has loaded, and which
//! databases it has opened through Manyhands.
//!
//! A process can live and end between two looks of that command. What is said goes as one datagram to the socket that `MANYHANDS_RUN`
//! names; its fields are described where it is read, in `crates/manyhands-cli/src/run/farewell.rs`. Nothing waits for an answer.

use core::ffi::{CStr, c_int, c_void};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Names the socket.
const VARIABLE: &str = "MANYHANDS_RUN";

/// The databases that were opened, while somebody wants to know.
static OPENED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Called by the loader when the process ends by `exit`, or the library is unloaded.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = say;

/// A database was opened through Manyhands.
pub(crate) fn note_opened(path: &Path) {
    if is_asked() {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        OPENED.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }
}

fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

extern "C" fn say() {
    // Where it cannot be said, nothing is: the process ends.
    let _ = std::panic::catch_unwind(|| {
        if let Some(name) = std::env::var_os(VARIABLE) {
            let _ = say_to(&name);
        }
    });
}

fn say_to(name: &OsString) -> std::io::Result<()> {
    let mut said = Vec::new();
    let mut add = |kind: u8, value: &[u8]| {
        said.push(kind);
        said.extend_from_slice(value);
        said.push(0);
    };
    add(b'n', std::process::id().to_string().as_bytes());
    add(b'p', std::fs::read_link("/proc/self/exe")?.as_os_str().as_bytes());
    // Before the program could change them.
    for argument in std::fs::read("/proc/self/cmdline")?.split(|byte| *byte == 0) {
        if !argument.is_empty() {
            add(b'a', argument);
        }
    }
    let opened = OPENED.try_lock();
    for path in opened.iter().flat_map(|it| it.iter()) {
        add(b'd', path.as_os_str().as_bytes());
    }
    for library in libraries() {
        add(b'o', &library);
    }
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(&said, &SocketAddr::from_abstract_name(name.as_bytes())?)?;
    Ok(())
}

/// The files of the libraries that are loaded.
fn libraries() -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let data: *mut Vec<Vec<u8>> = &raw mut found;
    // SAFETY: the function gets the list, which nobody else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(add_library), data.cast()) };
    found
}

/// The loader calls it for each library.
///
/// # Safety
/// The data is the address of a list that nobody else uses during the call.
unsafe extern "C" fn add_library(
    library: *mut libc::dl_phdr_info,
    _size: usize,
    data: *mut c_void,
) -> c_int {
    let found: *mut Vec<Vec<u8>> = data.cast();
    // SAFETY: `libraries` gives its list.
    let found = unsafe { &mut *found };
    // SAFETY: the loader gives a library.
    let name = unsafe { (*library).dlpi_name };
    if !name.is_null() {
        // SAFETY: a zero-terminated text, during the call.
        found.push(unsafe { CStr::from_ptr(name) }.to_bytes().to_vec());
    }
    0
}
