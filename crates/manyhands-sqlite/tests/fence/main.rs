//! What the fence promises, told as stories.

mod external_connection;
mod fork;
mod speculative_vfs;
mod lock_ahead;
mod mapped_file;
mod parking;
mod refused_commit;
mod sealed;
mod unreadable_frame;
mod wal_appends;
mod two_copies;

mod application;
mod repeatable_statements;
mod session_counters;
mod time_zone;

mod own_process;
mod sqlite_copy;
