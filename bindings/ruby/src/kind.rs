//! What a statement is, as far as its calls have to know: whether it may wait for others.

/// The kinds of statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A query. Outside of a transaction it waits for nobody.
    Reads,
    /// An INSERT, UPDATE or DELETE. In a transaction that holds the turn it waits for nobody.
    Changes,
    /// An ATTACH.
    Attach,
    /// What begins or ends a transaction, changes the schema, or is a PRAGMA: any of them may wait, or take long.
    Other,
}

impl Kind {
    /// `is_readonly` is what SQLite says of the statement.
    pub(crate) fn of(sql: &[u8], is_readonly: bool) -> Kind {
        let word = first_word(sql).to_ascii_uppercase();
        match word.as_slice() {
            b"SELECT" | b"WITH" | b"VALUES" | b"EXPLAIN" if is_readonly => Kind::Reads,
            b"INSERT" | b"UPDATE" | b"DELETE" | b"REPLACE" | b"WITH" => Kind::Changes,
            b"ATTACH" => Kind::Attach,
            _ => Kind::Other,
        }
    }
}

/// The first word of a statement: white space, comments and empty statements may stand before it.
fn first_word(sql: &[u8]) -> &[u8] {
    let mut rest = sql;
    loop {
        rest = match rest {
            [b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b';', after @ ..] => after,
            [b'-', b'-', after @ ..] => after_first(after, b"\n"),
            [b'/', b'*', after @ ..] => after_first(after, b"*/"),
            _ => break,
        };
    }
    let end = rest.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(rest.len());
    &rest[..end]
}

fn after_first<'a>(text: &'a [u8], end: &[u8]) -> &'a [u8] {
    let found = text.windows(end.len()).position(|window| window == end);
    found.map_or(&[], |at| &text[at + end.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word() {
        let check = |sql: &str, is_readonly, expected| {
            assert_eq!(Kind::of(sql.as_bytes(), is_readonly), expected, "{sql}");
        };
        check("select 1", true, Kind::Reads);
        check(" ;-- a comment\n/* another */ SELECT 1", true, Kind::Reads);
        check("WITH a AS (SELECT 1) DELETE FROM b", false, Kind::Changes);
        check("WITH a AS (SELECT 1) SELECT 1", true, Kind::Reads);
        check("insert into a values (1)", false, Kind::Changes);
        check("BEGIN", true, Kind::Other);
        check("PRAGMA user_version", true, Kind::Other);
        check("CREATE TABLE a (b)", false, Kind::Other);
        check("attach 'a' as b", true, Kind::Attach);
        check("", true, Kind::Other);
        check("--", true, Kind::Other);
    }
}
