//! Planted differences: faults of the library that a test plants, to see that the oracle finds them.

use crate::event::{Event, Kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// SQLITE_DONE becomes SQLITE_OK.
    ResultCode,
    /// A call of the update hook gets lost.
    Hook,
    /// Two callbacks change places.
    Order,
    /// A constraint's message is another one.
    Message,
    /// An integer is one too much.
    Value,
    /// A destructor is not called.
    Destructor,
    /// The process ends by a signal.
    Crash,
    /// A call never returns.
    Hang,
}

impl Plant {
    pub const ALL: [(&str, Plant); 8] = [
        ("result-code", Plant::ResultCode),
        ("hook", Plant::Hook),
        ("order", Plant::Order),
        ("message", Plant::Message),
        ("value", Plant::Value),
        ("destructor", Plant::Destructor),
        ("crash", Plant::Crash),
        ("hang", Plant::Hang),
    ];

    /// What the faulty library would have shown.
    pub fn into_events(self, mut events: Vec<Event>) -> Vec<Event> {
        let failed = events.iter().any(|event| event.text.contains("UNIQUE constraint failed"));
        match self {
            Plant::ResultCode => change(&mut events, Kind::Code, "SQLITE_DONE", "SQLITE_OK"),
            Plant::Hook => {
                events.retain(|event| !event.what.starts_with("Update of"));
            }
            Plant::Order => {
                let callback = |event: &Event| event.kind == Kind::Callback;
                let pair = events.windows(2).position(|pair| pair.iter().all(callback));
                if let Some(first) = pair {
                    events.swap(first, first + 1);
                }
            }
            Plant::Message => change(&mut events, Kind::Message, "UNIQUE", "Unique"),
            Plant::Value => {
                for event in &mut events {
                    if event.what == "column 0 as Int64" && event.text == "3" {
                        event.text = "4".into();
                    }
                }
            }
            Plant::Destructor => events.retain(|event| event.kind != Kind::Destructor),
            Plant::Crash if failed => std::process::abort(),
            Plant::Hang if failed => loop {
                std::thread::park();
            },
            Plant::Crash | Plant::Hang => {}
        }
        events
    }
}

fn change(events: &mut [Event], kind: Kind, from: &str, to: &str) {
    for event in events.iter_mut().filter(|event| event.kind == kind) {
        event.text = event.text.replace(from, to);
    }
}
