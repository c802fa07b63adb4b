//! A transaction's guard, when its transaction is over already: an error has ended it, or a statement.

use manyhands::{Connection, Error, params};

#[cfg(feature = "tokio")]
use crate::stage::ITEM;
use crate::stage::{self, INSERT, Stage, connect, execute, items};

/// After an error that has ended it, a guard's transaction executes nothing: alone, each of its statements would commit.
#[test]
fn a_transaction_that_is_over_executes_nothing() {
    type Begin = fn(&mut Connection) -> Result<manyhands::Transaction<'_>, Error>;
    let begins: [Begin; 2] = [Connection::transaction, Connection::begin_immediate];
    for begin in begins {
        let stage = Stage::without_disk();
        let database = stage.database_with_items();
        let mut connection = connect(&database);
        execute(&mut connection, INSERT);
        let mut transaction = begin(&mut connection).expect("begins");
        execute(&mut transaction, INSERT);
        let twice = "INSERT OR ROLLBACK INTO item (id) VALUES (1)";
        let error = transaction.execute(twice, params![]).expect_err("is there");
        assert!(error.is_constraint(), "{error}");
        let over = &["an error has ended this transaction", "call `rollback`"];
        stage::refused(transaction.execute(INSERT, params![]), over);
        stage::refused(transaction.query("SELECT 1", params![]), over);
        stage::refused(transaction.cursor("SELECT 1", params![]), over);
        stage::refused(transaction.batch(&[(INSERT, params![])]), over);
        stage::refused(transaction.execute_script(INSERT), over);
        stage::refused(transaction.commit(), over);
        assert_eq!(items(&mut connection), 1);
        let mut transaction = begin(&mut connection).expect("begins");
        transaction.execute(twice, params![]).expect_err("is there");
        transaction.rollback().expect("there is nothing left of it");
        execute(&mut connection, INSERT);
        let mut again = begin(&mut connection).expect("begins");
        execute(&mut again, INSERT);
        again.commit().expect("commits");
        assert_eq!(items(&mut connection), 3);
    }
}

/// A function that passes over a conflict in the midst of its transaction is run again, and writes once.
#[test]
fn a_function_that_passes_over_a_conflict() {
    let stage = Stage::without_disk();
    let database = stage.database_with_items();
    let (mut connection, mut other) = (connect(&database), connect(&database));
    let mut tries = 0;
    connection
        .run(|transaction| {
            tries += 1;
            items(transaction);
            if tries == 1 {
                execute(&mut other, INSERT);
            }
            // It takes its turn for that, and there the conflict shows.
            let created = transaction.execute("CREATE TABLE another (a)", params![]);
            assert_eq!(created.is_err_and(|error| error.is_conflict()), tries == 1);
            let inserted = transaction.execute(INSERT, params![]);
            assert_eq!(inserted.is_err_and(|error| error.is_conflict()), tries == 1);
            Ok::<_, Error>(())
        })
        .expect("the second try succeeds");
    assert_eq!((tries, items(&mut connection)), (2, 2));
}

/// The conflict that is told again is that of this transaction, and no earlier one's.
#[test]
fn an_older_conflict() {
    let stage = Stage::without_disk();
    let database = stage.database_with_items();
    let (mut connection, mut other) = (connect(&database), connect(&database));
    execute(&mut connection, "INSERT INTO item (id) VALUES (1)");
    let mut transaction = connection.transaction().expect("begins");
    items(&mut transaction);
    execute(&mut other, INSERT);
    execute(&mut transaction, INSERT);
    assert!(transaction.commit().is_err_and(|error| error.is_conflict()));
    let mut transaction = connection.begin_immediate().expect("begins");
    let twice = "INSERT OR ROLLBACK INTO item (id) VALUES (1)";
    transaction.execute(twice, params![]).expect_err("is there");
    let over = &["an error has ended this transaction"];
    let error = stage::refused(transaction.execute(INSERT, params![]), over);
    assert!(!error.is_conflict());
}

/// Who ends it by a statement goes on outside of it.
#[test]
fn a_transaction_that_was_ended_by_a_statement() {
    let stage = Stage::without_disk();
    let database = stage.database_with_items();
    let mut connection = connect(&database);
    for script in [false, true] {
        let mut transaction = connection.transaction().expect("begins");
        execute(&mut transaction, INSERT);
        if script {
            transaction.execute_script("ROLLBACK").expect("rolls back");
        } else {
            execute(&mut transaction, "ROLLBACK");
        }
        execute(&mut transaction, INSERT);
    }
    assert_eq!(items(&mut connection), 2);
}

/// The same with awaits inside.
#[cfg(feature = "tokio")]
#[test]
fn a_transaction_of_a_task_that_is_over() {
    let stage = Stage::without_disk();
    let path = stage.path();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let database = manyhands::aio::AsyncDatabase::open(&path).await.expect("opens");
        database.execute(ITEM, params![]).await.expect("the schema");
        let mut transaction = database.transaction().await.expect("begins");
        transaction.execute("INSERT INTO item (id) VALUES (1)", params![]).await.expect("inserts");
        let twice = "INSERT OR ROLLBACK INTO item (id) VALUES (1)";
        transaction.execute(twice, params![]).await.expect_err("is there");
        let over = &["an error has ended this transaction"];
        stage::refused(transaction.execute(INSERT, params![]).await, over);
        stage::refused(transaction.commit().await, over);
        let rows = database.query("SELECT count(*) FROM item", params![]).await.expect("reads");
        assert_eq!(rows[0].get::<i64>(0).expect("a number"), 0);
    });
}
