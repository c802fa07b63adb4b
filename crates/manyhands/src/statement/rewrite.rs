//! An INSERT that leaves its id to SQLite, rewritten so that an SQL function gives the id.
//!
//! SQLite takes the highest rowid plus one, as the snapshot of the transaction has it: two optimistic
//! transactions take the same, and collide. `manyhands_new_rowid()` hands out ids of a counter that all
//! processes share.
//!
//! | INSERT INTO t (id INTEGER PRIMARY KEY, a)  | becomes                                             |
//! |--------------------------------------------|-----------------------------------------------------|
//! | `t(a) VALUES ('x')`                        | `t(a, "id") VALUES ('x', manyhands_new_rowid())`    |
//! | `t VALUES (NULL, 'x')`                     | `t VALUES (manyhands_new_rowid(), 'x')`             |
//! | `t VALUES (?1, 'x')`                       | `t VALUES (ifnull(?1, manyhands_new_rowid()), 'x')` |
//! | `t DEFAULT VALUES`                         | `t ("id") VALUES (manyhands_new_rowid())`           |
//! | `t VALUES (7, 'x')`, `t SELECT …`          | stays                                               |
//!
//! The parser, which has SQLite's grammar, says what the statement is made of; its tokenizer says where
//! the parts lie in the text, and both must agree. All other text stays byte for byte: parameters keep
//! their numbers, and the columns of RETURNING their names, which SQLite takes from the text.
//!
//! A form that is not understood, or that SQLite would execute differently, is not rewritten. Then
//! SQLite chooses the id, and two transactions may collide: slower, never wrong. What triggers insert
//! is not rewritten either.

mod table;
mod places;
#[cfg(any(test, fuzzing))]
pub mod any_text;
#[cfg(test)]
mod tests;

use core::ops::Range;

use sqlite3_parser::ast::{
    Cmd, DistinctNames, Expr, InsertBody, Literal, Name, OneSelect, QualifiedName, ResolveType,
    Stmt, UnaryOperator,
};
use sqlite3_parser::lexer::Scanner;
use sqlite3_parser::lexer::sql::{Parser, TokenType, Tokenizer};
use sqlite3_parser::{Bump, FallibleIterator, Vec as BumpVec};

use places::{Places, Values};
pub(crate) use table::{Table, quote, rowid_alias, runs_before_insert, table_of};

/// The call that gives an id, of a function without arguments that is not deterministic. It must answer
/// an id that no row of the table has, not even a row of this transaction, or one that a trigger has
/// just inserted: SQLite would refuse it, or, for REPLACE, delete that row.
const CALL: &str = "manyhands_new_rowid()";

/// An INSERT that takes new ids from [`CALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    pub(crate) sql: String,
    /// The table's name as in the schema, in the schema `main`.
    pub(crate) table: String,
    /// The id column or a name of the rowid, quoted where SQL needs it.
    pub(crate) rowid_name: String,
    /// False for OR IGNORE and upserts, which may come to no new row.
    pub(crate) always_inserts: bool,
    /// It inserts one row at most.
    pub(crate) one_row: bool,
}

/// The INSERT with [`CALL`] in the place of each id that SQLite would choose; `None` when `sql` is not
/// one such INSERT, or of a form that is not rewritten.
///
/// `table` is asked for the table with this schema, if the statement names one, and this name. SQLite
/// must have compiled `sql` already: its limits also bound the depth of expressions here.
/// The result may pass a limit that `sql` just keeps (depth, columns): when SQLite does not compile it,
/// `sql` is the statement to run.
pub(crate) fn rewrite(
    sql: &str,
    table: impl FnOnce(Option<&str>, &str) -> Option<Table>,
) -> Option<Rewritten> {
    if !may_be_insert(sql) {
        return None;
    }
    let arena = Bump::new();
    let insert = Insert::parse(&arena, sql)?;
    let schema = insert.target.db_name.as_ref().map(unquote);
    let table = table(schema.as_deref(), &unquote(&insert.target.name))?;
    let rowid_name = table.rowid_name()?;
    let places = Places::find(sql, &insert)?;
    let edits = insert.edits(&places, &table, &rowid_name)?;
    let always_inserts = insert.always_inserts && !table.ignores_conflicts;
    let one_row = insert.rows.is_none_or(|rows| rows.len() == 1);
    let sql = apply(sql, &edits);
    Some(Rewritten { sql, table: table.name, rowid_name, always_inserts, one_row })
}

/// A cheap look at the first word.
fn may_be_insert(sql: &str) -> bool {
    let first = Scanner::new(Tokenizer::new()).scan(sql.as_bytes());
    let Ok((_, Some((_, first)), _)) = first else { return false };
    // SQLite reads to the first zero byte, the parser beyond.
    matches!(first, TokenType::TK_INSERT | TokenType::TK_REPLACE | TokenType::TK_WITH)
        && !sql.contains('\0')
}

/// What the rewriting looks at of an INSERT.
struct Insert<'a> {
    target: QualifiedName<'a>,
    columns: Option<DistinctNames<'a>>,
    /// `None` for DEFAULT VALUES.
    rows: Option<&'a [BumpVec<'a, Expr<'a>>]>,
    always_inserts: bool,
}

/// Where the id of a new row stands among its values.
#[derive(Clone, Copy)]
enum Id {
    At(usize),
    Missing,
}

/// A text for a range of the statement; an empty range inserts it.
type Edit = (Range<usize>, String);

impl<'a> Insert<'a> {
    /// The INSERT that is the only statement of `sql`, if its rows are VALUES.
    fn parse(arena: &'a Bump, sql: &'a str) -> Option<Insert<'a>> {
        let mut parser = Parser::new(arena, sql.as_bytes());
        let Ok(Some(Cmd::Stmt(statement))) = parser.next() else { return None };
        let Ok(None) = parser.next() else { return None };
        let Stmt::Insert { tbl_name: target, columns, body, or_conflict, .. } = statement else {
            return None;
        };
        let upserts = matches!(body, InsertBody::Select(_, Some(_)));
        let always_inserts = !upserts && or_conflict != Some(ResolveType::Ignore);
        let rows = match body {
            InsertBody::DefaultValues => None,
            InsertBody::Select(select, _) => {
                let plain = select.with.is_none()
                    && select.body.compounds.is_none()
                    && select.order_by.is_none()
                    && select.limit.is_none();
                let OneSelect::Values(rows) = &select.body.select else { return None };
                Some(plain.then_some(rows.as_slice())?)
            }
        };
        Some(Insert { target, columns, rows, always_inserts })
    }

    /// What to change so that [`CALL`] gives the ids; `None` when nothing is to be changed.
    fn edits(&self, places: &Places, table: &Table, rowid_name: &str) -> Option<Vec<Edit>> {
        let rows = match &places.values {
            Values::Default(_) if self.columns.is_some() => return None, // SQLite refuses it
            Values::Default(range) => {
                return Some(vec![(range.clone(), format!("({rowid_name}) VALUES ({CALL})"))]);
            }
            Values::Rows(rows) => rows,
        };
        let expressions = self.rows?;
        let (id, width) = self.find_id(table)?;
        if expressions.iter().any(|row| row.len() != width) {
            return None;
        }
        let mut edits = Vec::new();
        match id {
            Id::Missing => {
                edits.push(self.name_id(places, table, rowid_name));
                edits.extend(rows.iter().map(|row| (row.end..row.end, format!(", {CALL}"))));
            }
            Id::At(index) => {
                for (row, expressions) in rows.iter().zip(expressions) {
                    let value = row.values[index].clone();
                    match &expressions[index] {
                        Expr::Literal(Literal::Null) => edits.push((value, CALL.to_string())),
                        expression if is_never_null(expression) => {}
                        _ => {
                            edits.push((value.start..value.start, "ifnull(".to_string()));
                            edits.push((value.end..value.end, format!(", {CALL})")));
                        }
                    }
                }
            }
        }
        (!edits.is_empty()).then_some(edits)
    }

    /// Where the id stands, and how many values a row has; `None` when the id is named twice.
    fn find_id(&self, table: &Table) -> Option<(Id, usize)> {
        let Some(names) = &self.columns else {
            let id = table.insertable().position(|name| Some(name) == table.id_column.as_ref());
            return Some((id.map_or(Id::Missing, Id::At), table.insertable().count()));
        };
        let mut ids = names.iter().enumerate().filter(|(_, name)| table.is_rowid(&unquote(name)));
        let id = ids.next().map_or(Id::Missing, |(index, _)| Id::At(index));
        ids.next().is_none().then_some((id, names.len()))
    }

    /// Adds the id to the columns, after those of the statement or of the table.
    fn name_id(&self, places: &Places, table: &Table, rowid_name: &str) -> Edit {
        if let Some(end) = places.columns_end {
            return (end..end, format!(", {rowid_name}"));
        }
        let columns: String = table.insertable().map(|name| quote(name) + ", ").collect();
        let end = places.target_end;
        (end..end, format!(" ({columns}{rowid_name})"))
    }
}

/// True for a literal that is not NULL: SQLite takes it for the id, or refuses it.
fn is_never_null(expression: &Expr<'_>) -> bool {
    match expression {
        Expr::Literal(literal) => {
            matches!(literal, Literal::Numeric(_) | Literal::String(_) | Literal::Blob(_))
        }
        Expr::Unary(UnaryOperator::Negative | UnaryOperator::Positive, number) => {
            matches!(number, Expr::Literal(Literal::Numeric(_)))
        }
        _ => false,
    }
}

/// A name without its quotes.
fn unquote(name: &Name<'_>) -> String {
    let name = name.0;
    let quote = match name.chars().next() {
        Some('[') => ']',
        Some(quote @ ('"' | '\'' | '`')) => quote,
        _ => return name.to_string(),
    };
    let inner = name[1..].strip_suffix(quote).unwrap_or(&name[1..]);
    inner.replace(&format!("{quote}{quote}"), &quote.to_string())
}

/// The text with the edits, which are in its order.
fn apply(sql: &str, edits: &[Edit]) -> String {
    let mut rewritten = String::with_capacity(sql.len() + edits.len() * 40);
    let mut done = 0;
    for (range, text) in edits {
        rewritten.push_str(&sql[done..range.start]);
        rewritten.push_str(text);
        done = range.end;
    }
    rewritten.push_str(&sql[done..]);
    rewritten
}
