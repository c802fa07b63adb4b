//! Preloaded into a process (`LD_PRELOAD`), it stands between the program and the C library's file
//! functions. It knows neither SQLite nor Manyhands, so it works on the sqlite3 shell as well.
//!
//! Four modes, chosen by the environment; without one, every call goes through:
//!
//! | variable                | meaning                                                               |
//! |-------------------------|-----------------------------------------------------------------------|
//! | `RECORDER_DIRECTORY`    | the directory whose files matter; absolute                            |
//! | `RECORDER_LOG`          | record mode: where records go; see `format`                           |
//! | `RECORDER_SYNC_US`      | record mode: how long each sync takes at least, in microseconds       |
//! | `RECORDER_FAULT`        | fault mode: `CALL:WHAT:NTH:once` or `...:ever`; see `fault`           |
//! | `RECORDER_COUNTS`       | fault mode: a file of 8-byte counters, one for each `CALL`            |
//! | `RECORDER_CLOCK`        | clock mode: a file with the seconds that the wall clock is off        |
//! | `RECORDER_ROOM`         | room mode: a file with the bytes by which files may grow              |
//!
//! What always holds: own work goes to the kernel directly, past the functions replaced here; `errno` is
//! afterwards what the program's own call left.

mod calls;
mod call_names;
mod clock;
mod fault;
mod format;
mod kernel;
mod record;
mod room;
