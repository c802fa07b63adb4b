//! `manyhands backup` copies one moment of a database that others write, and gives no name to anything else.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::{Command, Output},
};

use manyhands::Database;

use crate::{MANYHANDS, player::Player, top::Place};

fn backup(file: &Path, copy: &Path) -> Output {
    let mut command = Command::new(MANYHANDS);
    command.arg("backup").arg(file).arg(copy).output().expect("it starts")
}

fn count(file: &Path, sql: &str) -> i64 {
    let mut connection = Database::open(file).and_then(|it| it.connect()).expect("opens");
    connection.query(sql, &[]).expect("reads")[0].get(0).expect("a number")
}

/// Four processes write pairs all the time: each copy has whole pairs.
#[test]
fn a_copy_is_of_one_moment() {
    let place = Place::new();
    let mut connection =
        Database::open(place.file()).and_then(|it| it.connect()).expect("a connection");
    // More pages than one step copies.
    connection
        .execute_script(
            "CREATE TABLE ballast (a); INSERT INTO ballast WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000)
             SELECT randomblob(4000) FROM n;
             CREATE TABLE twin (a); CREATE TRIGGER both AFTER INSERT ON t BEGIN INSERT INTO twin VALUES (new.a); END;
             DELETE FROM t",
        )
        .expect("tables");
    let mut players: Vec<_> = (0..4).map(|_| Player::open(&place.file(), "web")).collect();
    players.iter_mut().for_each(|player| player.begin("storm 600"));
    let copy = place.file().with_file_name("copy.db");
    for _ in 0..3 {
        let output = backup(&place.file(), &copy);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("copied and verified"), "{told}");
        assert_eq!(
            count(&copy, "SELECT count(*) FROM t"),
            count(&copy, "SELECT count(*) FROM twin")
        );
        assert_eq!(count(&copy, "SELECT count(*) FROM ballast"), 2000);
        fs::remove_file(&copy).expect("it is ours");
    }
    let left = place.file().parent().expect("a folder").read_dir().expect("readable");
    let left: Vec<_> =
        left.flatten().map(|it| it.file_name().into_string().expect("text")).collect();
    assert!(!left.iter().any(|it| it.starts_with("copy.db")), "{left:?}");
}

#[test]
fn nothing_is_overwritten_and_no_damage_is_copied() {
    let place = Place::new();
    let copy = place.file().with_file_name("copy.db");
    fs::write(&copy, "precious").expect("writable");
    let output = backup(&place.file(), &copy);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is there already"));
    assert_eq!(fs::read(&copy).expect("readable"), b"precious");
    fs::remove_file(&copy).expect("ours");
    let none = place.file().with_file_name("none.db");
    assert!(!backup(&none, &copy).status.success() && !none.exists());
    let file = File::options().write(true).open(place.file()).expect("ours");
    file.write_all_at(&[7; 4096], 4096).expect("writable");
    let output = backup(&place.file(), &copy);
    assert!(!output.status.success() && !copy.exists());
    assert!(String::from_utf8_lossy(&output.stderr).contains("damaged"), "{output:?}");
    let left = place.file().parent().expect("a folder").read_dir().expect("readable");
    let names = left.flatten().map(|it| it.file_name().into_string().expect("text"));
    assert!(!names.into_iter().any(|it| it.starts_with("copy.db")));
}
