//! The library that stands between a process and the C library (`recorder/`), and what it is told.

use std::path::{Path, PathBuf};

/// The library, built by `build.rs`.
const LIBRARY: &str = env!("MANYHANDS_RECORDER");

/// Environment variables of a process. None: nothing is preloaded.
#[derive(Clone, Debug, Default)]
pub struct Preload {
    variables: Vec<(&'static str, String)>,
    /// Where its standard error goes, when not to ours.
    complaints: Option<PathBuf>,
    /// The command that starts the process: none, but for its own words.
    starter: Vec<String>,
}

impl Preload {
    /// Records what happens to the files of a directory. Each sync takes `sync_us` at least.
    pub fn record(directory: &Path, log: &Path, sync_us: u64) -> Preload {
        let mut preload = Preload::about(directory);
        preload.variables.push(("RECORDER_LOG", log.display().to_string()));
        preload.variables.push(("RECORDER_SYNC_US", sync_us.to_string()));
        preload
    }

    /// Counts calls from the first on that names a file of the directory, and lets one fail.
    pub fn fail(directory: &Path, counts: &Path, fault: Option<&str>) -> Preload {
        let mut preload = Preload::about(directory);
        preload.variables.push(("RECORDER_COUNTS", counts.display().to_string()));
        preload.variables.extend(fault.map(|fault| ("RECORDER_FAULT", fault.to_owned())));
        preload
    }

    /// Lets one call fail, and counts nothing.
    pub fn fault(directory: &Path, fault: &str) -> Preload {
        let mut preload = Preload::about(directory);
        preload.variables.push(("RECORDER_FAULT", fault.to_owned()));
        preload
    }

    /// Nothing is preloaded: the process has a queue of another layout, as another version of the product has.
    pub fn another_layout() -> Preload {
        Preload {
            variables: vec![("MANYHANDS_PLANTED", "another-layout".to_owned())],
            ..Preload::default()
        }
    }

    /// The wall clock is off by the seconds that a file of 8 bytes has.
    pub fn clock(file: &Path) -> Preload {
        let mut preload = Preload::about(Path::new("/"));
        preload.variables.push(("RECORDER_CLOCK", file.display().to_string()));
        preload
    }

    /// The files of the directory can grow by as many bytes as a file of 8 bytes has, and no more.
    pub fn room(directory: &Path, file: &Path) -> Preload {
        let mut preload = Preload::about(directory);
        preload.variables.push(("RECORDER_ROOM", file.display().to_string()));
        preload
    }

    /// Nothing is preloaded; another command starts the process.
    pub fn started_by(words: &[&str]) -> Preload {
        Preload {
            starter: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Preload::default()
        }
    }

    fn about(directory: &Path) -> Preload {
        let variables = vec![
            ("LD_PRELOAD", LIBRARY.to_owned()),
            ("RECORDER_DIRECTORY", directory.display().to_string()),
        ];
        Preload { variables, ..Preload::default() }
    }

    /// Both.
    pub fn and(mut self, other: &Preload) -> Preload {
        self.variables.extend(other.variables.iter().cloned());
        self
    }

    /// Standard error goes to a file.
    pub fn complain_to(mut self, file: &Path) -> Preload {
        self.complaints = Some(file.to_owned());
        self
    }

    /// Where standard error goes, when not to ours.
    pub fn complaints(&self) -> Option<&Path> {
        self.complaints.as_deref()
    }

    /// The words before the program's own.
    pub fn starter(&self) -> &[String] {
        &self.starter
    }

    /// Names and values.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str()))
    }
}
