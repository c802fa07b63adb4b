//! What the text of a statement says without SQLite.

/// True for a text whose first word is that of a statement which changes rows.
pub(crate) fn begins_as_a_write(sql: &str) -> bool {
    let word = sql.split_ascii_whitespace().next().unwrap_or_default();
    ["INSERT", "UPDATE", "DELETE", "REPLACE"].iter().any(|it| word.eq_ignore_ascii_case(it))
}

/// True for VACUUM, with INTO or without.
pub(crate) fn is_vacuum(sql: &str) -> bool {
    sql.trim_start().get(..6).is_some_and(|it| it.eq_ignore_ascii_case("VACUUM"))
}

/// True for VACUUM INTO, with a schema or without, which reads the database and writes another file. Nothing is told of it when it is
/// compiled.
pub(crate) fn is_vacuum_into(sql: &str) -> bool {
    let mut words = sql.split_ascii_whitespace();
    let mut next_is = |word: &str| words.next().is_some_and(|it| it.eq_ignore_ascii_case(word));
    next_is("VACUUM") && (next_is("INTO") || next_is("INTO"))
}

/// True for `BEGIN CONCURRENT`, which is not SQLite's own: it means BEGIN.
pub(crate) fn is_begin_concurrent(sql: &str) -> bool {
    if sql.len() < "BEGIN CONCURRENT".len() {
        return false;
    }
    let is =
        |found: Option<&str>, word: &str| found.is_some_and(|it| it.eq_ignore_ascii_case(word));
    let mut words = sql.split_whitespace();
    // A script may follow: no word of it is looked at in vain.
    if !is(words.next(), "BEGIN") {
        return false;
    }
    let mut words =
        sql.trim_end_matches(|it: char| it.is_whitespace() || it == ';').split_whitespace().skip(1);
    let (second, third) = (words.next(), words.next());
    let ends = third.is_none() || is(third, "TRANSACTION") && words.next().is_none();
    is(second, "CONCURRENT") && ends
}

/// Whether there is nothing but white space, comments and empty statements.
pub(crate) fn is_blank(sql: &str) -> bool {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\x0c', '\r', ';']);
        let comment = if rest.starts_with("--") {
            rest.find('\n')
        } else if let Some(inside) = rest.strip_prefix("/*") {
            inside.find("*/").map(|end| end + 4)
        } else {
            return rest.is_empty();
        };
        // SQLite reads a comment without an end to the end of the text.
        rest = &rest[comment.unwrap_or(rest.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_concurrent_is_known() {
        for sql in ["BEGIN CONCURRENT", " begin\n concurrent transaction ; "] {
            assert!(is_begin_concurrent(sql), "{sql}");
        }
        for sql in ["BEGIN", "BEGIN CONCURRENT x", "CONCURRENT", "BEGIN IMMEDIATE"] {
            assert!(!is_begin_concurrent(sql), "{sql}");
        }
    }

    #[test]
    fn comments_are_blank_and_all_else_is_a_statement() {
        for sql in ["", " ;\n;", "-- x", "-- x\n /* y */ ;", "/*", "/**/", "/* ; select */"] {
            assert!(is_blank(sql), "{sql}");
        }
        for sql in ["x", ";x", "-", "/", "*", "- -", "-- x\nselect 1", "/**/a", "/*/ */x"] {
            assert!(!is_blank(sql), "{sql}");
        }
    }
}
