//! What a player has seen, in order: result codes, values, messages, and what SQLite called back.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// What a pointer is called that stands in no slot.
pub const NO_SLOT: &str = "no slot";

/// What an event is; planted differences and the rules of comparison go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Code,
    Value,
    Message,
    Callback,
    Destructor,
}

/// One thing that a player has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub what: String,
    pub text: String,
}

/// The events of one player. Callbacks write here too, so that their order is compared.
pub struct Log {
    events: RefCell<Vec<Event>>,
    /// What stands in texts for the directory of this player.
    directory: String,
    /// The same in UTF-16, as its bytes are written.
    wide_directory: String,
    /// Which slot a pointer is.
    names: RefCell<HashMap<usize, String>>,
    /// How far the callback of `exec` has come.
    pub rows: Cell<usize>,
}

impl Log {
    pub fn new(directory: String) -> Log {
        Log {
            events: RefCell::default(),
            wide_directory: directory.chars().map(|letter| format!("{letter}\\0")).collect(),
            directory,
            names: RefCell::default(),
            rows: Cell::new(0),
        }
    }

    pub fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    pub fn name(&self, pointer: *const c_void, name: String) {
        self.names.borrow_mut().insert(pointer.addr(), name);
    }

    pub fn forget(&self, pointer: *const c_void) {
        self.names.borrow_mut().remove(&pointer.addr());
    }

    /// The slot, or the label, of a pointer. Pointers themselves differ in each run.
    pub fn slot(&self, pointer: *const c_void) -> String {
        // A WAL hook's data is a small number while SQLite's own checkpoints are on; Manyhands has its own instead.
        if pointer.addr() < 1 << 16 {
            return "nothing".into();
        }
        self.names.borrow().get(&pointer.addr()).cloned().unwrap_or_else(|| NO_SLOT.into())
    }

    pub fn code(&self, what: &str, code: c_int) {
        self.add(Kind::Code, what, result_name(code));
    }

    pub fn value(&self, what: &str, value: impl ToString) {
        self.add(Kind::Value, what, value.to_string());
    }

    pub fn message(&self, what: &str, text: String) {
        self.add(Kind::Message, what, text);
    }

    pub fn callback(&self, what: &str, text: String) {
        self.add(Kind::Callback, what, text);
    }

    pub fn destroyed(&self, what: &str) {
        self.add(Kind::Destructor, what, "destructor called".into());
    }

    fn add(&self, kind: Kind, what: &str, text: String) {
        let text =
            text.replace(&self.directory, "DIRECTORY").replace(&self.wide_directory, "DIRECTORY");
        let text = without_chance(text);
        self.events.borrow_mut().push(Event { kind, what: what.into(), text });
    }
}

/// Whether the event says SQLITE_BUSY or one of its extended codes.
pub fn is_busy(event: &Event) -> bool {
    event.kind == Kind::Code && event.text.starts_with("SQLITE_BUSY")
}

fn result_name(code: c_int) -> String {
    const NAMES: [&str; 29] = [
        "OK",
        "ERROR",
        "INTERNAL",
        "PERM",
        "ABORT",
        "BUSY",
        "LOCKED",
        "NOMEM",
        "READONLY",
        "INTERRUPT",
        "IOERR",
        "CORRUPT",
        "NOTFOUND",
        "FULL",
        "CANTOPEN",
        "PROTOCOL",
        "EMPTY",
        "SCHEMA",
        "TOOBIG",
        "CONSTRAINT",
        "MISMATCH",
        "MISUSE",
        "NOLFS",
        "AUTH",
        "FORMAT",
        "RANGE",
        "NOTADB",
        "NOTICE",
        "WARNING",
    ];
    let name = match code {
        100 => "ROW",
        101 => "DONE",
        _ => match usize::try_from(code & 0xff).ok().and_then(|primary| NAMES.get(primary)) {
            Some(name) => name,
            None => return format!("code {code}"),
        },
    };
    match code >> 8 {
        0 => format!("SQLITE_{name}"),
        extension => format!("SQLITE_{name} ({code}: extended {extension})"),
    }
}

/// VACUUM INTO draws the name of its schema by chance.
fn without_chance(text: String) -> String {
    const BEGINNING: &str = "vacuum_";
    const DIGITS: usize = 16;
    let Some(place) = text.find(BEGINNING).map(|place| place + BEGINNING.len()) else {
        return text;
    };
    let end = (place + DIGITS).min(text.len());
    let drawn =
        text.get(place..end).is_some_and(|name| name.bytes().all(|it| it.is_ascii_hexdigit()));
    if drawn { format!("{}CHANCE{}", &text[..place], &text[end..]) } else { text }
}
