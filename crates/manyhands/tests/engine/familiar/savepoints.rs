//! Savepoints as guards: what is not kept is undone, and nothing else.

use manyhands::{Savepoint, TransactionMode};

use super::*;

fn insert(connection: &mut Connection, id: i64) {
    connection.execute("INSERT INTO item (id) VALUES (?1)", (id,)).expect("inserts");
}

fn ids(connection: &mut Connection) -> Vec<i64> {
    let ids = connection.query_map("SELECT id FROM item ORDER BY id", (), |row| row.get(0));
    ids.expect("reads").collect::<Result<_, _>>().expect("ids")
}

/// In each mode: kept, undone, dropped, one inside the other.
#[test]
fn what_is_not_kept_is_undone() {
    use TransactionMode::{Auto, Immediate, Optimistic};
    for mode in [Optimistic, Auto, Immediate] {
        let stage = Stage::new();
        drop(stage.database_with_items());
        let database = manyhands::Database::builder(stage.path());
        let mut connection = connect(&database.transaction_mode(mode).open().expect("opens"));
        let mut transaction = match mode {
            Immediate => connection.begin_immediate().expect("begins"),
            _ => connection.transaction().expect("begins"),
        };
        insert(&mut transaction, 1);
        let mut kept = transaction.savepoint().expect("a savepoint");
        insert(&mut kept, 2);
        let mut undone = kept.savepoint().expect("inside it");
        insert(&mut undone, 3);
        insert(&mut undone.savepoint().expect("inside that"), 4);
        assert_eq!(ids(&mut undone), [1, 2, 3]);
        let mut inner = undone.savepoint().expect("inside that");
        insert(&mut inner, 5);
        inner.commit().expect("kept");
        assert_eq!(ids(&mut undone), [1, 2, 3, 5]);
        undone.rollback().expect("undoes what was kept inside it");
        assert_eq!(ids(&mut kept), [1, 2]);
        kept.commit().expect("kept");
        insert(&mut transaction, 6);
        transaction.commit().expect("commits");
        assert_eq!(ids(&mut connection), [1, 2, 6], "{mode:?}");
    }
}

/// A savepoint whose transaction an error has ended executes nothing more, alone or otherwise.
#[test]
fn a_savepoint_ends_with_its_transaction() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    insert(&mut connection, 1);
    let mut transaction = connection.begin_immediate().expect("begins");
    let mut savepoint: Savepoint<'_> = transaction.savepoint().expect("a savepoint");
    insert(&mut savepoint, 2);
    savepoint.execute("INSERT OR ROLLBACK INTO item (id) VALUES (1)", ()).expect_err("it is there");
    savepoint.execute("INSERT INTO item (id) VALUES (3)", ()).expect_err("the transaction is over");
    savepoint.commit().expect_err("there is nothing to keep");
    transaction.commit().expect_err("nor to commit");
    assert_eq!(ids(&mut connection), [1]);
}
