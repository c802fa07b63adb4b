//! The `manyhands` command, with the engines of every build.

use std::process::ExitCode;

use manyhands_cli::bench::engines::Engines;

fn main() -> ExitCode {
    manyhands_cli::run(&Engines::built_in())
}
