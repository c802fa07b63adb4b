//! Builds the library that `--sync-us` preloads. A dependency would not do: it would be linked, and its functions would replace those of the
//! benchmark, which count.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=src/slow_sync.c");
    let directory = env::var("OUT_DIR").expect("cargo says where");
    // SQLite is compiled by it, too.
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(Path::new(&directory).join("slow_sync.so"))
        .arg("src/slow_sync.c")
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler} ended with {status}");
}
