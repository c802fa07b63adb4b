//! Where and how a measurement ran: it stands beside each figure, since only figures of one run may be compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result};
use serde::Serialize;

/// The machine, the file system, the programs.
#[derive(Clone, Debug, Serialize)]
pub struct Circumstances {
    /// The command line.
    pub command: String,
    /// Processor and number of cores.
    pub machine: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Linux release.
    pub kernel: String,
    /// Where the database files lie.
    pub file_system: String,
    /// Microseconds that each sync takes longer than the disk needs.
    #[serde(skip_serializing_if = "is_zero")]
    pub sync_us: u64,
    /// Version of Manyhands.
    pub manyhands: String,
    /// The commit, if the environment variable `MANYHANDS_COMMIT` tells it.
    pub commit: Option<String>,
    /// Version of the stock SQLite.
    pub sqlite: String,
    /// Program and version of each engine that takes part, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub engines: BTreeMap<&'static str, String>,
    /// Engines that do not take part, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<&'static str, String>,
}

impl Circumstances {
    /// Of databases in `directory`, whose syncs take `sync_us` longer.
    pub fn in_directory(directory: &Path, sync_us: u64) -> Result<Self> {
        let file_system = rustix::fs::statfs(directory).context("which file system is it?")?;
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Ok(Self {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: processor(&processors).unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            kernel: kernel.trim().to_owned(),
            file_system: file_system_name(file_system.f_type as u64).to_owned(),
            sync_us,
            manyhands: env!("CARGO_PKG_VERSION").to_owned(),
            commit: std::env::var("MANYHANDS_COMMIT").ok(),
            sqlite: rusqlite::version().to_owned(),
            engines: BTreeMap::new(),
            left_out: BTreeMap::new(),
        })
    }

    /// One line for the head of a table.
    pub fn headline(&self) -> String {
        let Self { machine, cores, kernel, file_system, manyhands, sqlite, .. } = self;
        // Engines that are one program in several ways share a version.
        let programs: BTreeSet<String> =
            [format!("Manyhands {manyhands}"), format!("SQLite {sqlite}")]
                .into_iter()
                .chain(self.engines.values().cloned())
                .collect();
        let programs: Vec<String> = programs.into_iter().collect();
        let slower = match self.sync_us {
            0 => String::new(),
            sync_us => format!(", {sync_us} us more for each sync"),
        };
        let programs = programs.join(", ");
        format!("{machine}, {cores} cores, Linux {kernel}, {file_system}{slower}; {programs}")
    }

    /// A reason not to trust the figures, if there is one.
    pub fn warning(&self) -> Option<&'static str> {
        (self.file_system == "tmpfs")
            .then_some("this directory lies in memory: a sync costs nothing here. Choose a disk with --directory")
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn processor(cpuinfo: &str) -> Option<&str> {
    cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, name)| name.trim())
}

/// Names of the magic numbers in statfs(2).
fn file_system_name(magic: u64) -> &'static str {
    match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0x794c_7630 => "overlayfs",
        0x0102_1994 => "tmpfs",
        _ => "other file system",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name is what stands behind the colon of the first core.
    #[test]
    fn processor_name() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(processor(cpuinfo), Some("Fast CPU @ 3 GHz"));
        assert_eq!(processor(""), None);
    }
}
