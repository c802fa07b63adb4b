//! The library with SQLite's interface that is preloaded: where it is found, and how it gets into an environment.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use super::elf::Elf;

/// As `make dropin` names it.
const FILE: &str = "libmanyhands_sqlite3.so";
/// What programs ask the loader for. A preloaded library of this name is what they get.
pub const STOCK_NAME: &str = "libsqlite3.so.0";
/// From the folder of this program: beside it, as it is installed, and in the tree that it was built in.
const PLACES: [&str; 4] = [".", "../lib/manyhands", "../lib", "../dropin/lib"];
/// Says where the library is.
pub const VARIABLE: &str = "MANYHANDS_LIBRARY";
pub const PRELOAD: &str = "LD_PRELOAD";
/// What the loader takes for the end of a path.
const SEPARATORS: [char; 3] = [':', ' ', '\n'];

/// The library, with what the loader has to know.
#[derive(Debug)]
pub struct Library {
    /// With all links followed, as /proc tells it.
    pub path: PathBuf,
    pub elf: Elf,
}

impl Library {
    /// What the user names is taken or refused; otherwise the first place that has it counts.
    ///
    /// # Errors
    /// Says what to do.
    pub fn find(named: Option<&Path>) -> Result<Self> {
        let variable =
            std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        if let Some(path) = named.map(Path::to_owned).or(variable) {
            let path = if path.is_dir() { path.join(FILE) } else { path };
            return Self::at(&path);
        }
        let own = std::env::current_exe().context("find this program's folder")?;
        let folder = own.parent().unwrap_or(Path::new("/"));
        let places: Vec<_> = PLACES.iter().map(|place| folder.join(place).join(FILE)).collect();
        let Some(found) = places.iter().find(|path| path.is_file()) else {
            let list: Vec<_> = places.iter().map(|path| format!("  {}", path.display())).collect();
            bail!(
                "{FILE} is missing: build it with `make dropin`, or say where it is with --library PATH or {VARIABLE}. \
                 It is not at\n{}",
                list.join("\n")
            );
        };
        Self::at(found)
    }

    fn at(path: &Path) -> Result<Self> {
        let told = path.display();
        let path = path.canonicalize().with_context(|| format!("the library {told}"))?;
        let elf = Elf::read(&path).with_context(|| format!("the library {told}"))?;
        let elf =
            elf.with_context(|| format!("{told} is no library: build it with `make dropin`"))?;
        ensure!(
            elf.name.as_deref() == Some(OsStr::new(STOCK_NAME)),
            "{told} is not the library of `make dropin`: programs ask for {STOCK_NAME}, and it is called {:?}",
            elf.name.unwrap_or_default()
        );
        ensure!(
            !path.to_string_lossy().contains(SEPARATORS),
            "{}: the loader takes a space or a colon for the end of a path; move the library",
            path.display()
        );
        Ok(Self { path, elf })
    }

    /// A value of LD_PRELOAD with the library before all else.
    pub fn before(&self, others: Option<OsString>) -> OsString {
        let mut value = self.path.clone().into_os_string();
        if let Some(others) = others.filter(|others| !others.is_empty() && !self.is_in(others)) {
            value.push(":");
            value.push(others);
        }
        value
    }

    /// Whether a value of LD_PRELOAD names the library.
    pub fn is_in(&self, value: &OsStr) -> bool {
        value.to_string_lossy().split(SEPARATORS).any(|path| Path::new(path) == self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others preload stays, and a run within a run adds nothing.
    #[test]
    fn the_value_of_the_variable() {
        let library = Library { path: "/lib/ours.so".into(), elf: Elf::default() };
        assert_eq!(library.before(None), "/lib/ours.so");
        assert_eq!(library.before(Some("".into())), "/lib/ours.so");
        assert_eq!(
            library.before(Some("/lib/a.so /lib/b.so".into())),
            "/lib/ours.so:/lib/a.so /lib/b.so"
        );
        assert_eq!(library.before(Some("/lib/ours.so".into())), "/lib/ours.so");
    }

    /// Any other file is refused, with a word about what to do.
    #[test]
    fn what_is_no_library() {
        let own = std::env::current_exe().expect("a test is a file");
        for path in ["Cargo.toml".into(), "/nonexistent.so".into(), own] {
            assert!(Library::find(Some(&path)).is_err(), "{}", path.display());
        }
    }
}
