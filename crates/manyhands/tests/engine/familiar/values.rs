//! Values as Rust types, without a copy where there need be none.

use super::*;

fn read<T: for<'a> FromValue<'a>>(sql: &str) -> Result<T, Error> {
    let stage = Stage::without_disk();
    let sql = format!("SELECT {sql}");
    connect(&stage.database()).query_row(&sql, (), |row| row.get::<T>(0))
}

/// Integers of all widths: what does not fit is an error that says so, and is never cut off.
#[test]
fn integers_fit_or_fail() {
    macro_rules! check {
        ($($type:ty)*) => {
            $(for number in [<$type>::MIN as i128, <$type>::MAX as i128] {
                if let Ok(fits) = i64::try_from(number) {
                    assert_eq!(read::<$type>(&fits.to_string()).expect("fits") as i128, number);
                    let beyond = if number > 0 { fits.checked_add(1) } else { fits.checked_sub(1) };
                    if let Some(beyond) = beyond {
                        refused(read::<$type>(&beyond.to_string()), &["does not fit", stringify!($type)]);
                    }
                }
            })*
        };
    }
    check! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }
    refused(read::<u64>("-1"), &["-1", "u64"]);
    refused(read::<i64>("1.0"), &["real", "i64"]);
    refused(read::<i64>("NULL"), &["null", "i64"]);
    assert_eq!(read::<Option<u8>>("NULL").expect("none"), None);
    refused(read::<Option<u8>>("256"), &["256", "u8"]);
}

#[test]
fn values_of_other_types() {
    assert_eq!(read::<f64>("7").expect("an integer is a number"), 7.0);
    assert_eq!(read::<f32>("0.5").expect("a half"), 0.5);
    assert_eq!([read::<bool>("0").expect("no"), read::<bool>("2").expect("yes")], [false, true]);
    assert_eq!(&*read::<Box<str>>("'x'").expect("text"), "x");
    assert_eq!(&*read::<Arc<str>>("'x'").expect("text"), "x");
    assert_eq!(read::<[u8; 2]>("x'0102'").expect("two bytes"), [1, 2]);
    assert!(read::<[u8; 3]>("x'0102'").is_err());
    assert_eq!(read::<Vec<u8>>("x''").expect("no bytes"), []);
    refused(read::<Vec<u8>>("'x'"), &["text"]);
    let not_utf8 = read::<String>("CAST(x'ff' AS TEXT)").expect_err("no UTF-8");
    assert!(
        std::error::Error::source(&not_utf8).is_some_and(|it| it.to_string().contains("utf-8"))
    );
    let text = read::<Text>("CAST(x'ff' AS TEXT)").expect("any bytes");
    assert_eq!(text.as_bytes(), [0xff]);
    assert_eq!(read::<Value>("NULL").expect("anything"), Value::Null);
}

/// Several columns of one row are borrowed at once, from SQLite's own memory, also where it keeps texts as UTF-16.
#[test]
fn texts_and_blobs_are_borrowed() {
    let stage = Stage::new();
    let mut connection = connect(&stage.database());
    for encoding in ["UTF-8", "UTF-16le"] {
        let mut memory = connect(&manyhands::Database::open(":memory:").expect("opens"));
        memory
            .execute_script(&format!("PRAGMA encoding = '{encoding}'; CREATE TABLE t (a, b, c)"))
            .expect("a table");
        memory
            .execute("INSERT INTO t VALUES (?1, ?2, ?3)", ("grün", &[1_u8, 2], "blau"))
            .expect("inserts");
        let lengths = memory.query_row("SELECT * FROM t", (), |row| {
            let (a, b, c): (&str, &[u8], Cow<'_, str>) =
                (row.get("a")?, row.get("b")?, row.get("c")?);
            assert!(matches!(c, Cow::Borrowed(_)));
            let again: &str = row.get("A")?;
            assert!(core::ptr::eq(a, again), "{encoding}: the same bytes");
            assert_eq!((a, b, &*c), ("grün", &[1, 2][..], "blau"));
            Ok(a.len() + b.len() + c.len())
        });
        assert_eq!(lengths.expect("a row"), 11);
    }
    let rows = connection.query("SELECT 'own' AS name, x'07'", ()).expect("a row");
    let (name, blob): (&str, &[u8]) =
        (rows[0].get("name").expect("text"), rows[0].get(1).expect("a blob"));
    assert_eq!((name, blob), ("own", &[7][..]));
    assert!(core::ptr::eq(name, rows[0].get::<&str>(0).expect("text")));
    assert_eq!(rows[0].get::<ValueRef<'_>>(1).expect("any"), ValueRef::Blob(&[7]));
    refused(rows[0].get::<&str>("title"), &["no column \"title\"", "name"]);
    refused(rows[0].get::<&str>(2), &["no column 2"]);
}

/// Numbers that SQLite has no room for are refused before they are bound.
#[test]
fn numbers_that_sqlite_has_no_room_for() {
    assert_eq!(Value::try_from(7_u64), Ok(Value::Integer(7)));
    assert!(Value::try_from(u64::MAX).is_err() && Value::try_from(usize::MAX).is_err());
}
