//! SQLite's own C interface over Manyhands, so that a program which was built for `libsqlite3` writes one file with many others.
//!
//! A connection (`sqlite3*`) is SQLite's own, made by the engine: extensions, virtual tables and callbacks need a real one. A
//! statement (`sqlite3_stmt*`) is ours around SQLite's: what it was bound to is known, so that a leader elsewhere can execute it,
//! and it shows rows that a leader gave. Every function takes both kinds, since callbacks and extensions come with SQLite's own.
//!
//! The functions here are those that have to differ from SQLite's. All others are SQLite's, unchanged. To link them, `build.sh`
//! renames: SQLite's function of a name that is defined here gets the prefix `stock_`, ours loses the prefix `manyhands_`. So what this
//! crate calls as `ffi::sqlite3_step` is SQLite's own function, and a program that calls `sqlite3_step` comes in at
//! `step.rs`.
//!
//! What always holds:
//! * SQLite's mutex of the connection is held while the engine works for it, so threads may share a connection, as in SQLite.
//! * A callback may use its own connection, as in SQLite: the engine is busy then, and the call goes to SQLite alone, in the turn
//!   or on the snapshot that the engine holds (`Handle::engine`).
//! * No panic crosses into C: it is `SQLITE_INTERNAL`.
//!
//! In reading order:

#[macro_use]
mod exported;
mod ffi;
mod planted;
mod per_process;
mod options;
mod open;
mod handle;
mod statement;
mod prepare;
mod bind;
mod step;
mod column;
mod execute;
mod counts;
mod waiting;
mod hooks;
mod additions;
mod settings;
mod files;
mod farewell;

pub use additions::*;
pub use bind::*;
pub use column::*;
pub use counts::*;
pub use execute::*;
pub use files::*;
pub use hooks::*;
pub use open::*;
pub use prepare::*;
pub use settings::*;
pub use statement::*;
pub use step::*;
pub use waiting::*;
