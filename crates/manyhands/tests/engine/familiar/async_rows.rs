//! Rows that a task takes one by one.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use manyhands::aio::{AsyncDatabase, AsyncRows};
use tokio::runtime::Builder;

use super::*;

const NUMBERS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?1) SELECT i FROM n";

fn on<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work)
}

async fn numbers(database: &AsyncDatabase, count: i64) -> AsyncRows {
    database.rows(NUMBERS, params![count]).await.expect("begins")
}

async fn next(rows: &mut AsyncRows) -> Option<i64> {
    rows.next_row().await.expect("a row or none").map(|row| row.get("i").expect("a number"))
}

/// All rows come, in their order, whether they are fetched at once or in many pieces.
#[test]
fn all_rows_come() {
    let stage = Stage::new();
    let database = stage.database().tokio().expect("an async database");
    on(async {
        for count in [0, 1, 255, 256, 257, 2000] {
            // LIMIT 0 has no first row either.
            let mut rows = numbers(&database, count).await;
            for number in 1..=count {
                assert_eq!(next(&mut rows).await, Some(number), "of {count}");
            }
            assert_eq!((next(&mut rows).await, next(&mut rows).await), (None, None));
        }
    });
}

/// A query shows what was so when it began, while others write; and one that is dropped holds nothing.
#[test]
fn a_query_keeps_its_snapshot_until_it_is_dropped() {
    let stage = Stage::new();
    let mut writer = with_items(&stage);
    writer
        .execute(&format!("INSERT INTO item (note) SELECT i FROM ({NUMBERS})"), (1000,))
        .expect("rows");
    let database = stage.database().tokio().expect("an async database");
    let mut rows = on(async {
        let mut rows =
            database.rows("SELECT id AS i FROM item ORDER BY id", params![]).await.expect("begins");
        assert_eq!(next(&mut rows).await, Some(1));
        database.execute("DELETE FROM item", params![]).await.expect("nobody waits for a reader");
        for id in 2..=1003 {
            assert_eq!(next(&mut rows).await, Some(id));
        }
        assert_eq!(next(&mut rows).await, None);
        numbers(&database, 1_000_000).await
    });
    on(async { assert_eq!(next(&mut rows).await, Some(1)) });
    drop(rows);
    let mut busy = || stage::number(&mut writer, "PRAGMA wal_checkpoint(TRUNCATE)");
    stage::until("the snapshot is given back", || busy() == 0);
}

/// An error comes after the rows before it, and a statement that writes is refused.
#[test]
fn errors_come_in_their_place() {
    let stage = Stage::new();
    let database = stage.database_with_items().tokio().expect("an async database");
    on(async {
        let sql = "SELECT abs(column1) AS i FROM (VALUES (1), (2), (-9223372036854775808), (3))";
        let mut rows = database.rows(sql, params![]).await.expect("begins");
        assert_eq!((next(&mut rows).await, next(&mut rows).await), (Some(1), Some(2)));
        assert!(rows.next_row().await.expect_err("an overflow").code().is_some());
        assert_eq!(next(&mut rows).await, None);
        refused(database.rows(stage::INSERT, params![]).await, &["takes a statement that reads"]);
        database.rows("SELECT * FROM nowhere", params![]).await.expect_err("does not compile");
    });
}

/// Whoever drops the future of a step, as a timeout does, is not told that the rows had ended.
#[test]
fn a_step_that_was_given_up_is_no_end() {
    let stage = Stage::new();
    let database = stage.database().tokio().expect("an async database");
    on(async {
        let mut rows = numbers(&database, 1_000_000).await;
        // A thread may be so quick that the row is there when it is asked for.
        let mut context = Context::from_waker(Waker::noop());
        let mut is_pending = || pin!(rows.next_row()).poll(&mut context).is_pending();
        assert!((0..1_000_000).any(|_| is_pending()), "it waits inside its polls");
        refused(rows.next_row().await, &["given up"]);
    });
}
