//! Bytes that a library borrows: bound texts and blobs, with each kind of lifetime that SQLite knows.
//!
//! A library that reads such bytes after it gave them back must be seen: they are overwritten then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::rc::Rc;

use super::Player;
use crate::action::Lifetime;
use crate::event::Log;
use crate::library::Destructor;

/// Bytes that stay where they are until the player ends. Aligned for UTF-16.
pub struct Lent {
    units: Box<[u16]>,
    bytes: usize,
}

thread_local! {
    /// The destructor of a bound value is given nothing but the value: here is who lent it.
    static LENDERS: RefCell<HashMap<usize, (Rc<Log>, usize)>> = RefCell::default();
}

impl Lent {
    fn new(bytes: &[u8]) -> Lent {
        // Two bytes more: a nul for UTF-8 and for UTF-16.
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().div_ceil(2) * 2 + 2, 0);
        let units =
            padded.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect();
        Lent { units, bytes: bytes.len() }
    }

    pub fn pointer(&self) -> *const c_void {
        self.units.as_ptr().cast()
    }
}

impl Player {
    /// Lends bytes to a call. Returns the pointer and the destructor argument, and the place in `lent` if it must be taken back.
    pub fn lend(&mut self, bytes: &[u8], lifetime: Lifetime) -> (*const c_void, Destructor, usize) {
        let lent = Lent::new(bytes);
        let pointer = lent.pointer();
        if matches!(lifetime, Lifetime::Destructor) {
            LENDERS.with_borrow_mut(|lenders| {
                lenders.insert(pointer.addr(), (Rc::clone(&self.log), lent.bytes));
            });
        }
        self.lent.push(lent);
        let destructor: Destructor = match lifetime {
            Lifetime::Static => None,
            Lifetime::Transient => transient(),
            Lifetime::Destructor => Some(give_back),
        };
        (pointer, destructor, self.lent.len() - 1)
    }

    /// Overwrites what was lent for one call only.
    pub fn take_back(&mut self, place: usize, lifetime: Lifetime) {
        if matches!(lifetime, Lifetime::Transient) {
            self.lent[place].units.fill(u16::from_ne_bytes(*b"##"));
        }
    }
}

/// SQLITE_TRANSIENT.
pub fn transient() -> Destructor {
    // SAFETY: SQLite compares this destructor with -1 and never calls it.
    unsafe { std::mem::transmute::<isize, Destructor>(-1) }
}

extern "C" fn give_back(data: *mut c_void) {
    let lender = LENDERS.with_borrow_mut(|lenders| lenders.remove(&data.addr()));
    // Bytes that nobody lent, or that came back twice: the library is broken, and the process ends.
    let (log, bytes) = lender.expect("a destructor is called once, for what it was given with");
    log.destroyed("bound value");
    for index in 0..bytes {
        let place = data.cast::<u8>().wrapping_add(index);
        // SAFETY: the player keeps these bytes until it ends.
        unsafe { place.write(b'!') };
    }
}
