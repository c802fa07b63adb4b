//! docs/isolation.md does not rot: the tests that it names exist, and a conflict says what is printed
//! there.

use std::collections::BTreeSet;

use manyhands::params;

use super::story::open;
use crate::stage::{Stage, connect};

const PAGE: &str = include_str!("../../../../../docs/isolation.md");

const TESTS: [&str; 18] = [
    include_str!("../application.rs"),
    include_str!("../ended_transactions.rs"),
    include_str!("attached.rs"),
    include_str!("auto.rs"),
    include_str!("auto_contract.rs"),
    include_str!("about_the_connection.rs"),
    include_str!("by_detours.rs"),
    include_str!("by_value.rs"),
    include_str!("cursors.rs"),
    include_str!("hermitage.rs"),
    include_str!("older_schema.rs"),
    include_str!("overlooked.rs"),
    include_str!("overlooked_auto.rs"),
    include_str!("replay_exactly.rs"),
    include_str!("untold.rs"),
    include_str!("../nothing_to_do.rs"),
    include_str!("../pragmas.rs"),
    include_str!("../random_programs.rs"),
];

/// A code span that is a name is that of a test, but for the names of functions that are told of.
#[test]
fn the_tests_that_are_named_exist() {
    let is_name = |span: &&str| {
        span.contains('_')
            && span.bytes().all(|it| it.is_ascii_lowercase() || b"_0123456789".contains(&it))
    };
    let others = [
        "speculation_bytes_max",
        "journal_mode",
        "locking_mode",
        "data_version",
        "wal_checkpoint",
        "cache_size",
        "foreign_keys",
        "sqlite_sequence",
    ];
    let spans: BTreeSet<&str> = PAGE.split('`').skip(1).step_by(2).filter(is_name).collect();
    let names: Vec<&str> = spans.into_iter().filter(|span| !others.contains(span)).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let test = format!("#[test]\nfn {name}()");
        assert!(TESTS.iter().any(|tests| tests.contains(&test)), "there is no test {name}");
    }
}

#[test]
fn a_conflict_says_what_is_printed() {
    let stage = Stage::without_disk();
    let database = open(&stage, false);
    let (mut one, mut other) = (connect(&database), connect(&database));
    one.execute_script(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER);
         INSERT INTO account VALUES (1, 1000);",
    )
    .expect("the setup");
    let mut transaction = one.transaction().expect("begins");
    transaction.query("SELECT cents FROM account WHERE id = ?1", params![1]).expect("reads");
    other.execute("UPDATE account SET cents = 960", params![]).expect("updates");
    transaction.execute("UPDATE account SET cents = 2000", params![]).expect("updates");
    let text = transaction.commit().expect_err("it conflicts").to_string();
    assert!(PAGE.contains(&text), "{text}");
}
