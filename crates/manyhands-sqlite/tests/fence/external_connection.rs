//! A busy queue leaves stock writers their chance, but only if there are any; and it says who holds
//! the write lock.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use manyhands_sqlite::locks::{self, ExternalConnection, Holder};

use crate::own_process::{Child, Signal, tell};
use crate::sqlite_copy::{Connection, Database, Shell, SqliteCopy};

const WAL_WRITE_LOCK: i64 = 120;

fn external(path: &Path) -> Option<ExternalConnection> {
    let file = std::fs::metadata(path).expect("the database is there");
    locks::external_connection(file.dev(), file.ino())
}

fn writer(database: &Database) -> Option<Holder> {
    let file = std::fs::metadata(database.shared_memory()).expect("the wal-index is there");
    locks::holder(file.dev(), file.ino(), WAL_WRITE_LOCK)
}

fn open_ours(path: &Path) -> Connection {
    let connection = SqliteCopy::ours().open(path);
    connection.execute("select count(*) from t").expect("a read");
    connection
}

/// Other connections of ours, here or in another process, are no reason to hold back: not even one
/// that holds the strongest lock there is.
#[test]
fn our_own_connections_are_not_external() {
    tell("external_connection::our_own_connections_are_not_external", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let in_rollback_mode = database.beside("rollback.db");
        std::fs::copy(&database.path, &in_rollback_mode).expect("a copy of the database");
        let rollback = open_ours(&in_rollback_mode);
        rollback.execute("pragma journal_mode=delete").expect("the mode changes");
        let _connections = [open_ours(&database.path), open_ours(&database.path)];
        let (opened, seen) = (Signal::new(), Signal::new());
        let other = Child::fork(|| {
            let connection = open_ours(&database.path);
            connection.execute("begin immediate").expect("the write lock");
            let exclusive = open_ours(&in_rollback_mode);
            exclusive.execute("begin exclusive").expect("EXCLUSIVE");
            opened.give();
            seen.take();
        });
        opened.take();
        assert_eq!(external(&database.path), None);
        assert_eq!(external(&in_rollback_mode), None);
        assert_eq!(writer(&database), Some(Holder { pid: None, external: false }));
        seen.give();
        other.join();
        assert_eq!(writer(&database), None);
    });
}

/// A stock connection in WAL mode is found, with its process, as long as it is open, even when it
/// does nothing.
#[test]
fn a_stock_connection_is_found_until_it_closes() {
    tell("external_connection::a_stock_connection_is_found_until_it_closes", || {
        locks::install().expect("the locks are replaced");
        let database = Database::create(SqliteCopy::ours());
        let ours = open_ours(&database.path);
        assert_eq!(external(&database.path), None);

        let mut shell = Shell::open(&database.path);
        shell.execute("select count(*) from t;");
        let pid = Some(shell.pid());
        assert_eq!(external(&database.path), Some(ExternalConnection { pid }));
        assert_eq!(writer(&database), None);
        shell.execute("begin immediate;");
        assert_eq!(writer(&database), Some(Holder { pid, external: true }));
        shell.close();
        assert_eq!(external(&database.path), None);

        let host = SqliteCopy::host().open(&database.path);
        host.execute("begin immediate; select count(*) from t").expect("the write lock");
        let pid = Some(std::process::id().cast_signed());
        assert_eq!(external(&database.path), Some(ExternalConnection { pid }));
        assert_eq!(writer(&database), Some(Holder { pid, external: true }));
        drop(host);
        assert_eq!(external(&database.path), None);

        ours.execute("begin immediate").expect("the write lock");
        assert_eq!(writer(&database), None, "our own locks are SQLite's affair");
    });
}
