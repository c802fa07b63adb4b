//! `--sync-us`: each sync of every engine takes so much longer, as on cloud volumes and on drives without power-loss protection.
//!
//! The program starts itself again with a library preloaded (`slow_sync.c`), which all of its processes inherit: workers, Python, PostgreSQL's server.
//! In a worker, whose own functions come before the library's because they count, `sync_count` waits in its place.

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};
use manyhands_sqlite::sync_count;

/// Tells the library and the workers how long.
const SYNC_US: &str = "MANYHANDS_SYNC_US";
const PRELOAD: &str = "LD_PRELOAD";
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/slow_sync.so"));

/// The library's file, which goes when the program ends.
pub struct SlowSync(PathBuf);

impl SlowSync {
    /// Nothing for 0. Otherwise this program is replaced by itself with the library, unless that is what it is.
    pub fn begin(sync_us: u64) -> Result<Option<Self>> {
        if sync_us == 0 {
            return Ok(None);
        }
        if of_this_process() == Some(sync_us) {
            return Ok(env::var_os(PRELOAD).map(|library| Self(library.into())));
        }
        // Not where the program is: PostgreSQL's user may not read there.
        let file =
            tempfile::Builder::new().prefix("manyhands-slow-sync-").suffix(".so").tempfile()?;
        fs::write(&file, LIBRARY).context("write the library of --sync-us")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        let (_, library) = file.keep().context("keep the library of --sync-us")?;
        let error = Command::new(env::current_exe().context("find this program")?)
            .args(env::args_os().skip(1))
            .env(SYNC_US, sync_us.to_string())
            .env(PRELOAD, &library)
            .exec();
        // It returns only when it fails.
        drop(Self(library));
        Err(error).context("start this program again with --sync-us")
    }
}

impl Drop for SlowSync {
    fn drop(&mut self) {
        // What is left is a small file among other temporary ones.
        let _ = fs::remove_file(&self.0);
    }
}

/// In a worker: its syncs take as much longer as those of all others.
pub fn join() {
    sync_count::wait_before_syncs(Duration::from_micros(of_this_process().unwrap_or(0)));
}

fn of_this_process() -> Option<u64> {
    env::var(SYNC_US).ok()?.parse().ok()
}
