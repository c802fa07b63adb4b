//! How a connection of ours performs a call, and what the caller then sees.

use manyhands::{Connection, Error, Outcome, Row, Value};

use super::call::{Call, Look, Seen};

/// The rows' values.
fn values(rows: &[Row]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| row.values().to_vec()).collect()
}

pub fn bound(call: &Call) -> Vec<Value> {
    call.values.iter().map(|value| Value::Integer(*value)).collect()
}

/// What `look` shows of an outcome. What nobody looks at must not be asked for.
pub fn look(outcome: &Outcome, look: Look) -> Seen {
    match look {
        Look::Nothing => Seen::Nothing,
        Look::Rows | Look::First(_) => Seen::Rows(values(&outcome.rows)),
        Look::Changes => Seen::Number(outcome.changes() as i64),
        Look::Rowid => Seen::Number(outcome.last_insert_rowid()),
    }
}

/// Performs a call. A violated constraint is an answer.
///
/// # Errors
/// Everything else.
pub fn perform(connection: &mut Connection, call: &Call) -> Result<Seen, Error> {
    let (sql, values) = (call.statement.sql(), bound(call));
    let result = if let Look::First(count) = call.look {
        let mut rows = Vec::new();
        let each = |row: &mut manyhands::RowView<'_>| {
            rows.push(vec![row.value(0).to_owned(), row.value(1).to_owned()]);
            rows.len() < count as usize
        };
        connection.query_each(sql, &values, each).map(|()| Seen::Rows(rows))
    } else {
        connection.execute(sql, &values).map(|outcome| look(&outcome, call.look))
    };
    match result {
        Err(error) if error.is_constraint() && !connection.is_autocommit() => {
            Ok(Seen::Error(error.code().map_or(0, |code| code.0)))
        }
        result => result,
    }
}
