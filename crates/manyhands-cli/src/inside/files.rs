//! Which files have members: those whose queue file is in some process's memory.

use std::{collections::BTreeMap, os::unix::fs::MetadataExt, path::PathBuf};

use manyhands_queue::{LookError, Onlooker};

use crate::process::{self, QUEUE_SUFFIX};

/// The databases that processes have open through Manyhands, as far as this process may look; of a container's by a path that leads there
/// from here.
pub fn with_members() -> Vec<PathBuf> {
    let own = i32::try_from(std::process::id()).ok();
    let mut found = BTreeMap::new();
    for process in process::all().unwrap_or_default() {
        if Some(process.pid) == own {
            continue;
        }
        let queues = process.mappings().map(|it| it.queues).unwrap_or_default();
        for queue in queues {
            let by_root = process.root().join(queue.strip_prefix("/").unwrap_or(&queue));
            let same = |path: &PathBuf| path.metadata().map(|it| (it.dev(), it.ino())).ok();
            let Some(id) = same(&by_root) else { continue };
            // The same path from here, if it is the same file.
            let path = if same(&queue) == Some(id) { queue } else { by_root };
            found.entry(id).or_insert(path);
        }
    }
    let has_members = |path: &PathBuf| !matches!(Onlooker::open(path), Err(LookError::Nobody));
    let queues = found.into_values().filter(has_members);
    let databases = queues.filter_map(|queue| {
        let name = queue.into_os_string().into_string().ok()?;
        Some(PathBuf::from(name.strip_suffix(QUEUE_SUFFIX)?))
    });
    let mut databases: Vec<_> = databases.filter(|it| it.exists()).collect();
    databases.sort();
    databases
}
