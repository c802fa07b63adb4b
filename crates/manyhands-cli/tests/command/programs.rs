//! Programs that `manyhands run` is to run, and libraries that it is to preload.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// SQLite inside, nothing for a loader to do.
pub static STATIC: LazyLock<PathBuf> = LazyLock::new(|| program("writer-static", &["-static"]));
/// SQLite inside, and a loader for the rest: the preload takes effect and is of no use.
pub static BUNDLED: LazyLock<PathBuf> = LazyLock::new(|| program("writer-bundled", &[]));
/// A library with the stock library's name and nothing inside, for commands that use no SQLite by it.
pub static STAND_IN: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = folder().join("stand_in.c");
    std::fs::write(&source, "int manyhands_stand_in = 1;\n").expect("writable");
    built("libstand_in.so", |output| {
        let mut compiler = compiler();
        compiler.args(["-shared", "-fPIC", "-Wl,-soname,libsqlite3.so.0", "-o"]);
        compiler.arg(output).arg(&source);
        compiler
    })
});

/// Debian's, whose `_sqlite3` is linked to libsqlite3.so.0.
pub const PYTHON: &str = "/usr/bin/python3";

/// Debian's library, as a program names it that goes past the loader.
pub fn stock() -> PathBuf {
    let path = format!("/usr/lib/{}-linux-gnu/libsqlite3.so.0", std::env::consts::ARCH);
    assert!(Path::new(&path).exists(), "{path} is missing: apt-get install libsqlite3-0");
    path.into()
}

/// The real one.
pub fn library() -> PathBuf {
    let path = std::env::var_os("MANYHANDS_LIBRARY").map(PathBuf::from).unwrap_or_else(|| {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../target/dropin/lib/libmanyhands_sqlite3.so")
    });
    assert!(
        path.exists(),
        "{} is missing, which this test preloads: run `make dropin` first, or set MANYHANDS_LIBRARY",
        path.display()
    );
    path
}

/// Opens the database that it is given, writes a row, says so, and waits for the end of its input; with a second
/// argument it does not wait.
const WRITER: &str = r#"
#include <stdio.h>
#include "sqlite3.h"
int main(int count, char **arguments) {
    sqlite3 *database;
    int code = sqlite3_open(arguments[1], &database);
    if (!code) code = sqlite3_exec(database, "CREATE TABLE IF NOT EXISTS t(v); INSERT INTO t VALUES (1)", 0, 0, 0);
    puts("written");
    fflush(stdout);
    while (count < 3 && getchar() != EOF) {}
    return code ? code : sqlite3_close(database);
}
"#;

fn program(name: &str, arguments: &[&str]) -> PathBuf {
    let sqlite = sqlite_source();
    let object = built("sqlite3.o", |output| {
        let mut compiler = compiler();
        // It is compiled at each first test of a tree; what it is like does not matter.
        compiler.args(["-O0", "-w", "-DSQLITE_OMIT_LOAD_EXTENSION", "-c", "-o"]);
        compiler.arg(output).arg(sqlite.join("sqlite3.c"));
        compiler
    });
    let source = folder().join(format!("{name}.c"));
    std::fs::write(&source, WRITER).expect("writable");
    built(name, |output| {
        let mut compiler = compiler();
        compiler.args(arguments).arg("-I").arg(&sqlite).arg("-o").arg(output);
        compiler.arg(&source).arg(&object).args(["-lpthread", "-lm"]);
        compiler
    })
}

/// SQLite's own source, in the crate that this workspace compiles it from.
fn sqlite_source() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo's JSON");
    let packages = metadata["packages"].as_array().expect("a list");
    let package = packages.iter().find(|package| package["name"] == "libsqlite3-sys");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    Path::new(manifest.expect("we depend on it")).with_file_name("sqlite3")
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

/// Compiled anew where another process of the tests may use the old one: only a whole file gets the name.
fn built(name: &str, compiler: impl FnOnce(&Path) -> Command) -> PathBuf {
    let output = folder().join(name);
    let unfinished = folder().join(format!("{name}.{}", std::process::id()));
    let compiled = compiler(&unfinished).output().expect("there is a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::rename(&unfinished, &output).expect("one folder");
    output
}
