//! The `manyhands` command with more engines.

use std::process::ExitCode;

fn main() -> ExitCode {
    manyhands_bench::main(&manyhands_bench::engines())
}
