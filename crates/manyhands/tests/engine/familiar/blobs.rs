//! A blob as a file of fixed length: Read, Write and Seek.

use std::io::{Read, Seek, SeekFrom, Write};

use manyhands::{Blob, BlobPlace};

use super::*;

fn open(connection: &mut Connection, writable: bool) -> Blob {
    connection
        .execute("INSERT OR IGNORE INTO item VALUES (1, x'00010203040506070809')", ())
        .expect("ten bytes");
    let [schema, table, column] = ["main", "item", "note"].map(String::from);
    connection.open_blob(&BlobPlace { schema, table, column, rowid: 1 }, writable).expect("opens")
}

#[test]
fn a_blob_is_read_and_written_as_a_file() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    let mut blob = open(&mut connection, true);
    let mut three = [0; 3];
    blob.read_exact(&mut three).expect("from the beginning");
    assert_eq!((three, blob.stream_position().expect("a position")), ([0, 1, 2], 3));
    assert_eq!(blob.seek(SeekFrom::End(-2)).expect("seeks"), 8);
    let mut rest = Vec::new();
    assert_eq!(blob.read_to_end(&mut rest).expect("to the end"), 2);
    assert_eq!(rest, [8, 9]);
    // Its length never changes.
    assert_eq!(blob.write(b"x").expect("no room"), 0);
    assert!(blob.write_all(b"x").is_err());
    blob.seek(SeekFrom::Current(-4)).expect("seeks");
    assert_eq!(blob.write(b"abcdef").expect("as much as there is room"), 4);
    blob.seek(SeekFrom::Start(u64::MAX)).expect("beyond the end, as in a file");
    assert_eq!(blob.read(&mut three).expect("nothing is there"), 0);
    assert!(blob.seek(SeekFrom::Current(i64::MIN)).is_ok());
    assert!(blob.seek(SeekFrom::End(-11)).is_err());
    blob.flush().expect("nothing to do");
    blob.close().expect("commits");
    let hex = connection.query_row("SELECT hex(note) FROM item", (), |row| row.get::<String>(0));
    assert_eq!(hex.expect("a row"), "00010203040561626364");
}

/// A copy stops at the first error, and does not take an expired blob for one that has ended.
#[test]
fn an_expired_blob_is_no_end_of_file() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database_with_items());
    let mut blob = open(&mut connection, false);
    let read_only = blob.write(b"x").expect_err("opened for reading");
    let cause = read_only.get_ref().and_then(|it| it.downcast_ref::<Error>()).expect("ours");
    assert_eq!(cause.code(), Some(manyhands::Code(8)));
    drop(blob);
    let mut blob = open(&mut connection, true);
    connection.execute("UPDATE item SET note = x'ff'", ()).expect("changes the row");
    let error = std::io::copy(&mut blob, &mut std::io::sink()).expect_err("expired");
    let cause = error.get_ref().and_then(|it| it.downcast_ref::<Error>()).expect("ours");
    assert_eq!(cause.code(), Some(manyhands::Code::ABORT));
}
