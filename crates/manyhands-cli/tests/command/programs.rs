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
/// A library with the stock library's name that only says farewell, for commands that use no SQLite by it.
pub static STAND_IN: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = folder().join("stand_in.c");
    std::fs::write(&source, STAND_IN_SOURCE).expect("writable");
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

/// The farewell as `src/run/farewell.rs` describes it.
const STAND_IN_SOURCE: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static char text[65536];
static size_t length;
static void field(char kind, const char *value) {
    if (length + strlen(value) + 2 > sizeof text) return;
    length += 1 + sprintf(text + length, "%c%s", kind, value);
}
static int library(struct dl_phdr_info *info, size_t size, void *none) {
    field('o', info->dlpi_name);
    return 0;
}
__attribute__((destructor)) static void farewell(void) {
    const char *name = getenv("MANYHANDS_RUN");
    struct sockaddr_un address = {AF_UNIX};
    char value[4096];
    if (!name || strlen(name) + 1 > sizeof address.sun_path) return;
    memcpy(address.sun_path + 1, name, strlen(name));
    snprintf(value, sizeof value, "%d", getpid());
    field('n', value);
    ssize_t bytes = readlink("/proc/self/exe", value, sizeof value - 1);
    value[bytes < 0 ? 0 : bytes] = 0;
    field('p', value);
    field('a', value);
    dl_iterate_phdr(library, 0);
    int mouth = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sendto(mouth, text, length, MSG_NOSIGNAL, (void *)&address, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    close(mouth);
}
"#;

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

/// SQLite's folder, and SQLite compiled.
static SQLITE: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let folder = sqlite_source();
    let object = built("sqlite3.o", |output| {
        let mut compiler = compiler();
        // How fast it is does not matter, but how fast it is there.
        compiler.args(["-O0", "-w", "-DSQLITE_OMIT_LOAD_EXTENSION", "-c", "-o"]);
        compiler.arg(output).arg(folder.join("sqlite3.c"));
        compiler
    });
    (folder, object)
});

fn program(name: &str, arguments: &[&str]) -> PathBuf {
    let (sqlite, object) = &*SQLITE;
    let source = folder().join(format!("{name}.c"));
    std::fs::write(&source, WRITER).expect("writable");
    built(name, |output| {
        let mut compiler = compiler();
        compiler.args(arguments).arg("-I").arg(sqlite).arg("-o").arg(output);
        compiler.arg(&source).arg(object).args(["-lpthread", "-lm"]);
        compiler
    })
}

/// SQLite's own source, in the crate that this workspace compiles it from.
fn sqlite_source() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        // What other systems need was not fetched.
        .args(["--filter-platform", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
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

/// Another process of the tests may run the old one: a whole file takes its name.
fn built(name: &str, compiler: impl FnOnce(&Path) -> Command) -> PathBuf {
    let output = folder().join(name);
    let unfinished = folder().join(format!("{name}.{}", std::process::id()));
    let compiled = compiler(&unfinished).output().expect("there is a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::rename(&unfinished, &output).expect("one folder");
    output
}
