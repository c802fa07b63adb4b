//! A turn that is held in the process that waits for it: whoever waits is told the thread, and waits not long for itself.

use std::time::{Duration, Instant};

use manyhands::driver::ConnectionExt;
use manyhands::{Database, params};

use crate::stage::{self, INSERT, Stage, connect, execute, refused};

/// Who waits in vain for another connection of the same process is told its thread and its statement: the number of the process
/// is its own.
#[test]
fn a_holder_of_the_same_process_is_named_by_its_thread_and_statement() {
    let stage = Stage::new();
    let mut holder = connect(&stage.database_with_items());
    let impatient = Database::builder(stage.path()).timeout(Duration::from_millis(100));
    let mut impatient = connect(&impatient.open().expect("opens"));
    execute(&mut holder, "BEGIN IMMEDIATE");
    let here = rustix::thread::gettid().as_raw_nonzero().get();
    let very =
        format!("another connection of the very thread that waits, {here}, has been writing");
    let error =
        refused(impatient.execute(INSERT, params![]), &[&very, "executed `BEGIN IMMEDIATE` last"]);
    assert_eq!(error.holder_thread(), Some(here));
    execute(&mut holder, INSERT);
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            let named = format!("thread {here} of this process has been writing");
            refused(
                impatient.execute(INSERT, params![]),
                &[&named, &format!("executed `{INSERT}` last")],
            );
        });
        elsewhere.join().expect("no panic");
    });
    execute(&mut holder, "ROLLBACK");
    impatient.execute(INSERT, params![]).expect("its turn comes");
}

/// Two connections of one thread that wait for each other, as below gevent: nobody else can give that turn back. It stood
/// still for the whole timeout.
#[test]
fn a_thread_does_not_wait_long_for_itself() {
    let stage = Stage::new();
    let database = stage.database_with_items();
    let mut holder = connect(&database);
    holder.stay_in_thread();
    let patient = Database::builder(stage.path()).timeout(stage::PATIENCE).open().expect("opens");
    let mut patient = connect(&patient);
    execute(&mut holder, "BEGIN IMMEDIATE");
    let began = Instant::now();
    refused(
        patient.execute(INSERT, params![]),
        &["timed out after 5.", "the very thread that waits"],
    );
    assert!(began.elapsed() < stage::PATIENCE / 2);
    // Another thread waits as long as it was told to: the holder goes on meanwhile.
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| patient.execute(INSERT, params![]).map(drop));
        std::thread::sleep(Duration::from_millis(5_500));
        execute(&mut holder, "COMMIT");
        elsewhere.join().expect("no panic").expect("its turn comes");
    });
}
