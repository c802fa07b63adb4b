//! How a driver that brings its own SQLite is made to use the system's, which the preload replaces.

use std::path::Path;

use crate::carrier::Driver;

/// Parts of a carrier's path, and what to do about it. The first that fits is heard.
const BY_PATH: [(&[&str], &str); 9] = [
    (
        &["better_sqlite3", "better-sqlite3"],
        "npm rebuild better-sqlite3 --build-from-source --sqlite3=DIR (the folder `loader` that `make dropin` writes; from version 13 on by node-gyp: docs/languages.md)",
    ),
    (
        &["node_sqlite3", "node_modules/sqlite3/"],
        "npm rebuild sqlite3 --build-from-source --sqlite=/usr (or the folder that `make dropin` writes: include/sqlite3.h, lib/libsqlite3.so)",
    ),
    (
        &["sqlitejdbc", "sqlite-jdbc"],
        "java -Dorg.sqlite.lib.path=DIR, with a libsqlitejdbc.so of the driver's sources and the loader (docs/languages.md)",
    ),
    (
        &["e_sqlite3"],
        "the package SQLitePCLRaw.provider.sqlite3, with SQLitePCL.raw.SetProvider(new SQLitePCL.SQLite3Provider_sqlite3()), in the place of bundle_e_sqlite3",
    ),
    (
        &["sqlite3_native", "/gems/sqlite3-"],
        "gem install sqlite3 --platform=ruby -- --enable-system-libraries (in a Gemfile: force_ruby_platform: true, and bundle config build.sqlite3 --enable-system-libraries)",
    ),
    (&["/apsw"], "pip install --no-binary apsw apsw, built against the system's libsqlite3"),
    (
        &["/pysqlite3"],
        "pip install --no-binary pysqlite3 pysqlite3, which links it to the system's libsqlite3; or the sqlite3 of a Python that is linked to it",
    ),
    (&["/_sqlite3."], PYTHON),
    (
        &["/libsqlite3.so", "/libsqlite3-"],
        "let the program load libsqlite3.so.0 by its name: what it opens by a path, or with RTLD_DEEPBIND, goes past LD_PRELOAD",
    ),
];
/// The same for files with SQLite beside much else: how their names begin, up to a version or an end.
const BY_NAME: [(&[&str], &str); 5] = [
    (&["python", "libpython", "pypy"], PYTHON),
    (
        &["node", "libnode"],
        "if the program uses node:sqlite, a node that was built with --shared-sqlite; or better-sqlite3, built from source",
    ),
    (
        &["bun", "deno"],
        "none: Bun and Deno have SQLite inside. Node.js with better-sqlite3, built from source",
    ),
    (
        &["php", "libphp", "frankenphp"],
        "a PHP whose pdo_sqlite and sqlite3 are linked to libsqlite3.so.0, as Debian's and Docker's are",
    ),
    (
        &["sqlite3"],
        "a shell that is linked to libsqlite3.so.0, as Debian's is; or: manyhands exec FILE SQL",
    ),
];
const PYTHON: &str = "pip install manyhands, and: python -m manyhands run PROGRAM";
const GENERAL: &str =
    "build it so that it is linked to the system's libsqlite3.so.0, not to a SQLite of its own";

/// What the user can do about a carrier. A driver's own traces count more than the file's name.
pub fn of(carrier: &Path, driver: Option<Driver>) -> &'static str {
    let known = || {
        let path = carrier.to_string_lossy();
        let name = carrier.file_name().unwrap_or_default().to_string_lossy();
        let mut by_path =
            BY_PATH.iter().filter(|(parts, _)| parts.iter().any(|part| path.contains(part)));
        let mut by_name =
            BY_NAME.iter().filter(|(starts, _)| starts.iter().any(|start| is_name(&name, start)));
        by_path.next().or_else(|| by_name.next()).map(|(_, way)| *way)
    };
    match driver {
        Some(Driver::GoMattn) => "go build -tags libsqlite3 (with CGO_ENABLED=1)",
        Some(Driver::GoWithoutC) => {
            "none for this driver, which has no C in it: github.com/mattn/go-sqlite3, built with -tags libsqlite3"
        }
        Some(Driver::Rust) => known().unwrap_or(
            "build it with LIBSQLITE3_SYS_USE_PKG_CONFIG=1, which overrules the feature `bundled` (docs/languages.md)",
        ),
        None => known().unwrap_or(GENERAL),
    }
}

/// `python3.12` is `python`, and `bundler` is not `bun`.
fn is_name(name: &str, start: &str) -> bool {
    let rest = name.strip_prefix(start);
    rest.is_some_and(|rest| !rest.starts_with(|letter: char| letter.is_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(carrier: &str, driver: Option<Driver>, expected: &str) {
        let way = of(Path::new(carrier), driver);
        assert!(way.contains(expected), "{carrier}: {way}");
    }

    /// Paths as the packages have them.
    #[test]
    fn each_driver_has_its_own() {
        let modules = "/app/node_modules";
        check(
            &format!("{modules}/better-sqlite3/build/Release/better_sqlite3.node"),
            None,
            "--sqlite3=DIR",
        );
        check(&format!("{modules}/sqlite3/build/Release/node_sqlite3.node"), None, "--sqlite=/usr");
        check("/tmp/sqlite-3.46.0.0-1f-libsqlitejdbc.so", None, "org.sqlite.lib.path");
        check("/srv/app/runtimes/linux-x64/native/libe_sqlite3.so", None, "provider.sqlite3");
        check(
            "/gems/sqlite3-2.0.4-x86_64-linux-gnu/lib/sqlite3/3.3/sqlite3_native.so",
            None,
            "--enable-system",
        );
        check(
            "/root/.local/share/uv/python/cpython-3.12/bin/python3.12",
            None,
            "python -m manyhands",
        );
        check("/opt/python/lib/libpython3.12.so.1.0", None, "python -m manyhands");
        check("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", None, "RTLD_DEEPBIND");
        check("/usr/local/bin/node", None, "--shared-sqlite");
        check("/root/.bun/bin/bun", None, "none");
        check("/srv/bundle", None, "linked to the system's");
        check("/srv/server", Some(Driver::GoMattn), "-tags libsqlite3");
        check("/srv/server", Some(Driver::GoWithoutC), "none");
        check("/srv/server", Some(Driver::Rust), "bundled");
        check("/srv/server", None, "libsqlite3.so.0");
    }
}
