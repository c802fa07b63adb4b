//! What executing one statement gives: its rows, as they are fetched.

use std::collections::VecDeque;
use std::sync::Arc;

use manyhands::{Connection, Error, Outcome, Row, Value, ValueRef};

pub(crate) struct Execution {
    pub(crate) columns: Arc<[String]>,
    pub(crate) rows: Option<Rows>,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Rows {
    Lazy(manyhands::Cursor),
    Done(VecDeque<Row>),
}

#[derive(Default)]
pub(crate) struct RowBuffer(Vec<Row>);

impl RowBuffer {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn rows(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        self.0[row].values()[column].as_ref()
    }
}

impl Rows {
    pub(crate) fn fetch(&mut self, buffer: &mut RowBuffer, rows_max: usize) -> Result<usize, Error> {
        for count in 0..rows_max {
            let next = match self {
                Rows::Lazy(cursor) => cursor.next_row()?,
                Rows::Done(rows) => rows.pop_front(),
            };
            let Some(row) = next else { return Ok(count) };
            buffer.0.push(row);
        }
        Ok(rows_max)
    }
}

pub(crate) fn start(
    connection: &mut Connection,
    sql: &str,
    values: &[Value],
) -> Result<Execution, Error> {
    match connection.cursor(sql, values) {
        Ok(cursor) => Ok(Execution {
            columns: cursor.columns(),
            rows: Some(Rows::Lazy(cursor)),
            outcome: Outcome::default(),
        }),
        Err(error) if error.to_string().starts_with("a cursor takes") => {
            let mut outcome = connection.execute(sql, values)?;
            let rows: VecDeque<Row> = std::mem::take(&mut outcome.rows).into();
            let columns = rows.front().map(|row| row.columns().into()).unwrap_or_default();
            Ok(Execution { columns, rows: (!rows.is_empty()).then_some(Rows::Done(rows)), outcome })
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn parameter_names(
    _connection: &mut Connection,
    sql: &str,
) -> Result<Arc<[Option<String>]>, Error> {
    let mut names: Vec<Option<String>> = Vec::new();
    let mut rest = sql.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        match character {
            '\'' | '"' => {
                for (_, next) in rest.by_ref() {
                    if next == character {
                        break;
                    }
                }
            }
            '?' => names.push(None),
            ':' | '@' | '$' => {
                let end = sql[at + 1..].find(|c: char| !c.is_alphanumeric() && c != '_');
                let name = &sql[at..end.map_or(sql.len(), |end| at + 1 + end)];
                if !names.iter().any(|known| known.as_deref() == Some(name)) {
                    names.push(Some(name.to_string()));
                }
            }
            _ => {}
        }
    }
    Ok(names.into())
}

pub(crate) fn changes_of(_connection: &mut Connection, outcome: &Outcome) -> Result<u64, Error> {
    Ok(outcome.changes())
}

pub(crate) fn last_insert_rowid_of(connection: &mut Connection, outcome: &Outcome) -> Result<i64, Error> {
    match outcome.last_insert_rowid() {
        0 => Ok(connection.last_insert_rowid()),
        rowid => Ok(rowid),
    }
}
