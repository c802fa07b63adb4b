//! The command as its users run it: real processes, real files.

mod demo;

mod run_command;

mod run_findings;

mod run_through;

mod run_check;

mod shell;

mod top;

mod screen;

mod doctor;

mod cancel;

mod backup;

mod player;

mod inside_page;

mod programs;

mod running;

const MANYHANDS: &str = env!("CARGO_BIN_EXE_manyhands");
