//! The benchmark, with all engines that it was built with.

use std::process::ExitCode;

use manyhands_bench::{engines::Engines, main as bench, peers};

fn main() -> ExitCode {
    bench(&peers::join(Engines::built_in()))
}
