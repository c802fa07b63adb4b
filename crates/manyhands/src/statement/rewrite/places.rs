//! Where the parts of an INSERT lie in its text.
//!
//! Tokens are counted off against what the parser found: names of one token each, rows and values as
//! many as there. A difference means that the statement is not rewritten.

use core::ops::Range;

use sqlite3_parser::lexer::Scanner;
use sqlite3_parser::lexer::sql::{TokenType, Tokenizer};

use super::Insert;

/// Byte offsets of an INSERT.
pub(super) struct Places {
    /// Behind the table's name, or its alias.
    pub(super) target_end: usize,
    /// Before the parenthesis that closes the column list, if there is one.
    pub(super) columns_end: Option<usize>,
    pub(super) values: Values,
}

pub(super) enum Values {
    /// The words DEFAULT VALUES.
    Default(Range<usize>),
    Rows(Vec<Row>),
}

/// One row of VALUES.
pub(super) struct Row {
    pub(super) values: Vec<Range<usize>>,
    /// Before the parenthesis that closes the row.
    pub(super) end: usize,
}

impl Places {
    pub(super) fn find(sql: &str, insert: &Insert<'_>) -> Option<Places> {
        let mut tokens = Tokens::new(sql);
        // The word is reserved, and stands nowhere before: not in the WITH clause either.
        while tokens.next()?.0 != TokenType::TK_INTO {}
        let mut target_end = tokens.next()?.1.end;
        for _ in [&insert.target.db_name, &insert.target.alias].into_iter().flatten() {
            tokens.next()?; // the dot, or AS
            target_end = tokens.next()?.1.end;
        }
        let columns_end = match &insert.columns {
            Some(names) => Some(tokens.row(names.len())?.end),
            None => None,
        };
        let values = match insert.rows {
            None => {
                let default = tokens.expect(TokenType::TK_DEFAULT)?;
                Values::Default(default.start..tokens.expect(TokenType::TK_VALUES)?.end)
            }
            Some(rows) => {
                let mut separator = TokenType::TK_VALUES;
                let places = rows.iter().map(|row| {
                    tokens.expect(separator)?;
                    separator = TokenType::TK_COMMA;
                    tokens.row(row.len())
                });
                Values::Rows(places.collect::<Option<_>>()?)
            }
        };
        Some(Places { target_end, columns_end, values })
    }
}

/// The tokens of a statement, with their places.
struct Tokens<'a> {
    text: &'a [u8],
    scanner: Scanner<Tokenizer>,
}

impl<'a> Tokens<'a> {
    fn new(sql: &'a str) -> Tokens<'a> {
        Tokens { text: sql.as_bytes(), scanner: Scanner::new(Tokenizer::new()) }
    }

    fn next(&mut self) -> Option<(TokenType, Range<usize>)> {
        let (start, token, end) = self.scanner.scan(self.text).ok()?;
        Some((token?.1, start..end))
    }

    fn expect(&mut self, wanted: TokenType) -> Option<Range<usize>> {
        let (token, place) = self.next()?;
        (token == wanted).then_some(place)
    }

    /// The values between two parentheses, with commas between, if there are `count`.
    fn row(&mut self, count: usize) -> Option<Row> {
        self.expect(TokenType::TK_LP)?;
        let mut values = Vec::with_capacity(count);
        let mut value: Option<Range<usize>> = None;
        let mut depth = 0_usize;
        loop {
            let (token, place) = self.next()?;
            match token {
                TokenType::TK_COMMA if depth == 0 => values.push(value.take()?),
                TokenType::TK_RP if depth == 0 => {
                    values.push(value.take()?);
                    return (values.len() == count).then_some(Row { values, end: place.start });
                }
                _ => {
                    match token {
                        TokenType::TK_LP => depth += 1,
                        TokenType::TK_RP => depth -= 1,
                        _ => {}
                    }
                    value.get_or_insert(place.clone()).end = place.end;
                }
            }
        }
    }
}
