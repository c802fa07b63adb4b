//! Insert a parent, take its id, insert the child with it: no error of any kind, and every child has its parent.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use super::Scene;
use crate::worker::Act;

/// Where parents are, with the two ways in which SQLite finds new ids.
pub const PARENTS: [&str; 2] = ["parent_auto", "parent_plain"];

const SCHEMA: &str = "
    CREATE TABLE parent_auto (id INTEGER PRIMARY KEY AUTOINCREMENT, maker, sequence);
    CREATE TABLE parent_plain (id INTEGER PRIMARY KEY, maker, sequence);
    CREATE TABLE child_of_parent_auto
        (id INTEGER PRIMARY KEY AUTOINCREMENT, parent INTEGER, maker, sequence);
    CREATE TABLE child_of_parent_plain
        (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent_plain, maker, sequence);
    CREATE INDEX by_parent_auto ON child_of_parent_auto (parent);
    CREATE INDEX by_parent_plain ON child_of_parent_plain (parent);";

/// How often the queue file is deleted.
const DELETE_EVERY: Duration = Duration::from_millis(300);

/// How often it is looked whether all are over.
const TICK: Duration = Duration::from_millis(10);

pub fn play(scene: &mut Scene<'_>) -> Result<()> {
    scene.make(SCHEMA)?;
    let crew = scene.crew(Act::Adopt)?;
    let (stop, deletes, database) =
        (AtomicBool::new(false), scene.is_other_way(), scene.database.clone());
    let (said, deleted) = std::thread::scope(|scope| {
        let deleting = deletes.then(|| scope.spawn(|| delete_until(&stop, &database)));
        let said = scene.finish(crew);
        stop.store(true, Ordering::Relaxed);
        (said, deleting.map_or(0, |it| it.join().expect("who deletes panicked")))
    });
    let acknowledged: u64 = said?.iter().map(|said| said.numbers("ack").count() as u64).sum();
    let mut children = 0;
    for parents in PARENTS {
        let of = format!("child_of_{parents}");
        let orphans = scene.ask_number(&format!(
            "SELECT count(*) FROM {of} AS c LEFT JOIN {parents} AS p ON p.id = c.parent
             WHERE p.id IS NULL OR p.maker <> c.maker OR p.sequence <> c.sequence"
        ))?;
        scene.expect_equal(&format!("rows of {of} whose parent is another row"), orphans, 0);
        let own = scene.ask_number(&format!("SELECT count(*) FROM {of}"))?;
        let there = scene.ask_number(&format!("SELECT count(*) FROM {parents}"))?;
        scene.expect_equal(&format!("{parents} for {own} children"), there, own);
        children += own;
    }
    scene.expect_equal("children", children, acknowledged);
    scene.add("children", children);
    scene.add("deleted_queue_files", deleted);
    Ok(())
}

/// How often the queue file was there to be deleted.
fn delete_until(stop: &AtomicBool, database: &Path) -> u64 {
    let queue_file = format!("{}-hands", database.display());
    let mut deleted = 0;
    while !stop.load(Ordering::Relaxed) {
        deleted += u64::from(std::fs::remove_file(&queue_file).is_ok());
        let next = Instant::now() + DELETE_EVERY;
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
        }
    }
    deleted
}
