//! Closing a descriptor drops locks, so closed ones are kept; but a server that visits many
//! databases must not run out.

use std::path::Path;

use manyhands_sqlite::locks;

use crate::own_process::tell;
use crate::sqlite_copy::{Database, SqliteCopy, other_process};

/// The most that `locks::descriptor_table` parks.
const PARKED_LIMIT: usize = 256;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc is there").count()
}

fn descriptors_of(path: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target == path).count()
}

/// Descriptors of files in this directory that have no name any more.
fn descriptors_of_deleted(directory: &Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let names = targets.map(|target| target.to_string_lossy().into_owned());
    let directory = directory.to_string_lossy();
    names.filter(|name| name.starts_with(&*directory) && name.ends_with(" (deleted)")).count()
}

fn visit(path: &Path) {
    let connection = SqliteCopy::ours().open(path);
    connection.execute("select count(*) from t").expect("a read");
}

/// A web application that opens its database at each request.
#[test]
fn opening_and_closing_one_database_needs_no_more_descriptors() {
    tell("parking::opening_and_closing_one_database_needs_no_more_descriptors", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        visit(&database.path);
        let before = (open_descriptors(), locks::parked_descriptors());
        for _ in 0..2_000 {
            visit(&database.path);
        }
        assert_eq!((open_descriptors(), locks::parked_descriptors()), before);
        assert_eq!(database.rows(), [""; 0]);
    });
}

/// One database per tenant: a thousand tenants come and go, while the host's copy is in the middle
/// of a transaction on one of them, and has another one open. What is parked stays bounded, and
/// nothing that the host has open is closed by us.
#[test]
fn many_databases_stay_bounded_and_foreign_locks_survive() {
    tell("parking::many_databases_stay_bounded_and_foreign_locks_survive", || {
        locks::install().expect("the locks are replaced");
        let busy = Database::create(SqliteCopy::ours());
        let host = SqliteCopy::host().open(&busy.path);
        visit(&busy.path);
        host.execute("begin immediate; insert into t values('host')").expect("the write lock");
        visit(&busy.path);

        let quiet = busy.beside("quiet.db");
        std::fs::copy(&busy.path, &quiet).expect("a copy of the database");
        let foreign = std::fs::File::open(&quiet).expect("a foreign descriptor");
        visit(&quiet);
        let before = open_descriptors();
        for tenant in 0..1_000 {
            let path = busy.beside(&format!("tenant-{tenant}.db"));
            std::fs::copy(&busy.path, &path).expect("a copy of the database");
            visit(&path);
            assert!(locks::parked_descriptors() <= PARKED_LIMIT);
        }
        assert!(open_descriptors() <= before + PARKED_LIMIT);

        assert!(descriptors_of(&quiet) > 1, "ours are kept beside the foreign one");
        drop(foreign);
        let other = other_process(&busy.path, "insert into t values('other')");
        assert!(other.is_err_and(|message| message.contains("locked")));
        host.execute("commit").expect("the host's commit");
        drop(host);
        assert_eq!(busy.rows(), ["host"]);
    });
}

/// A database is closed and then deleted: as long as a descriptor of it is kept, it takes its room on the disk. None is kept
/// where nothing depends on it; else it is closed when the process next opens or closes a file.
#[test]
fn a_database_deleted_after_it_was_closed_gives_its_room_back() {
    tell("parking::a_database_deleted_after_it_was_closed_gives_its_room_back", || {
        locks::install().expect("the locks are replaced");
        let before = open_descriptors();
        let closed = Database::create(SqliteCopy::ours());
        visit(&closed.path);
        assert_eq!((open_descriptors(), locks::parked_descriptors()), (before, 0));

        for by_an_open in [false, true] {
            let [gone, next] = [(); 2].map(|()| Database::create(SqliteCopy::ours()));
            let directory = gone.path.parent().expect("a directory");
            let foreign = std::fs::File::open(&gone.path).expect("a foreign descriptor");
            visit(&gone.path);
            let other = SqliteCopy::ours().open(&next.path);
            other.execute("select count(*) from t").expect("a read");
            drop(foreign);
            std::fs::remove_file(&gone.path).expect("deleted");
            assert_ne!(descriptors_of_deleted(directory), 0, "nobody has looked yet");
            let third = Database::create(SqliteCopy::host());
            let opened = by_an_open.then(|| SqliteCopy::ours().open(&third.path));
            drop(other);
            assert_eq!(descriptors_of_deleted(directory), 0, "by an open: {by_an_open}");
            drop(opened);
        }
    });
}

/// Programs have few descriptors: what is parked beside a stock copy's descriptors gives way to what is opened.
#[test]
fn what_is_parked_gives_way() {
    tell("parking::what_is_parked_gives_way", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        limit_descriptors(open_descriptors() + 60);
        for tenant in 0..100 {
            let path = database.beside(&format!("tenant-{tenant}.db"));
            std::fs::copy(&database.path, &path).expect("a copy of the database");
            let foreign = std::fs::File::open(&path).expect("a foreign descriptor");
            visit(&path);
            drop(foreign);
        }
        let free = (0..).map_while(|_| std::fs::File::open(&database.path).ok());
        assert!(free.collect::<Vec<_>>().len() > 40, "most are the application's");
    });
}

fn limit_descriptors(count: usize) {
    let limit = libc::rlimit { rlim_cur: count as u64, rlim_max: count as u64 };
    // SAFETY: a limit that lives through the call; the process is this story's own.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// The host's copy is in a transaction on the deleted file: what we close would take its locks away.
#[test]
fn a_deleted_database_is_spared_while_a_stock_copy_holds_a_lock() {
    tell("parking::a_deleted_database_is_spared_while_a_stock_copy_holds_a_lock", || {
        locks::install().expect("the locks are replaced");
        let [gone, next] = [(); 2].map(|()| Database::create(SqliteCopy::ours()));
        let directory = gone.path.parent().expect("a directory");
        let host = SqliteCopy::host().open(&gone.path);
        host.execute("begin immediate; insert into t values('host')").expect("the write lock");
        visit(&gone.path);
        let before = descriptors_of(&gone.path);
        std::fs::remove_file(&gone.path).expect("deleted");
        let deleted = std::path::PathBuf::from(format!("{} (deleted)", gone.path.display()));
        visit(&next.path);
        assert_eq!(descriptors_of(&deleted), before, "ours and the host's");

        drop(host);
        visit(&next.path);
        assert_eq!(descriptors_of_deleted(directory), 0);
    });
}
