//! What a request may do on the executor's connection: it comes from another process.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use manyhands_sqlite::authorizer::{Action, ActionKind, Verdict};

/// What the callbacks of the connection look at.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// A transaction's log is executed, which has savepoints of its own.
    pub(crate) savepoints: AtomicBool,
    /// When the current request must have ended, in nanoseconds since `origin`; 0 for no limit.
    pub(crate) request_end_ns: AtomicU64,
}

/// The savepoint around a transaction's log.
const SAVEPOINT: &str = "manyhands transaction";

/// The executor's own statements are not asked about.
pub(crate) fn authorize(control: &Control, action: &Action<'_>) -> Verdict {
    let allowed = match action.kind {
        ActionKind::Select | ActionKind::Read | ActionKind::Write => true,
        ActionKind::Function => {
            !action.second.is_some_and(|name| name.eq_ignore_ascii_case("load_extension"))
        }
        ActionKind::Savepoint => {
            // A savepoint with the executor's own name is executed by its owner.
            let own = action.second.is_some_and(|name| name.eq_ignore_ascii_case(SAVEPOINT));
            control.savepoints.load(Ordering::Relaxed) && !own
        }
        // The full-text index asks for these two itself.
        ActionKind::Pragma => {
            action.second.is_none() && matches!(action.first, Some("data_version" | "page_size"))
        }
        ActionKind::Transaction
        | ActionKind::Attach
        | ActionKind::Detach
        | ActionKind::TempSchema
        | ActionKind::Schema => false,
    };
    if allowed { Verdict::Allow } else { Verdict::Deny }
}
