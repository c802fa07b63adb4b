//! Builds the library that the campaigns preload, and tells the program where it is.
//!
//! A dependency would not do: it would be linked, and its functions would replace those of this
//! program. Cargo builds it in a directory of its own, so that no lock is waited for.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("no {name}"));
    let target = PathBuf::from(variable("OUT_DIR")).join("recorder");
    let status = Command::new(variable("CARGO"))
        .current_dir(PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("recorder"))
        .args(["build", "--release", "--locked", "--quiet", "--target-dir"])
        .arg(&target)
        // Meant for the program above.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .status()
        .expect("cargo starts");
    assert!(status.success(), "the recorder was not built: {status}");
    let library = target.join("release/libmanyhands_recorder.so");
    println!("cargo:rustc-env=MANYHANDS_RECORDER={}", library.display());
    println!("cargo:rerun-if-changed=recorder");
}
