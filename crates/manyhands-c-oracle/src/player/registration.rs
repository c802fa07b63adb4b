//! The data of a callback: which library called, what the callback is called in the log, and what it answers.

use std::ffi::c_void;
use std::rc::Rc;

use crate::event::Log;
use crate::library::Api;

pub struct Registration {
    pub api: &'static Api,
    pub log: Rc<Log>,
    pub label: String,
    pub answer: i32,
}

impl Registration {
    pub fn new(api: &'static Api, log: Rc<Log>, label: String, answer: i32) -> Registration {
        Registration { api, log, label, answer }
    }

    /// The registration behind the pointer that a callback was given.
    pub fn of<'a>(data: *mut c_void) -> &'a Registration {
        // SAFETY: only registrations of a player are handed over as callbacks' data, and the player keeps them until all
        // connections are closed.
        let registration = unsafe { data.cast::<Registration>().as_ref() };
        registration.expect("SQLite gives callbacks the data that they were registered with")
    }
}

/// The destructor of functions, collations and client data.
pub extern "C" fn destroy(data: *mut c_void) {
    let registration = Registration::of(data);
    registration.log.destroyed(&registration.label);
}
