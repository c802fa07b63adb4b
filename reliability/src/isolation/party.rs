//! How a connection of ours performs a call, and what the caller then sees.

use manyhands::driver::ConnectionExt;
use manyhands::{Connection, Error, Outcome, Row, Value};

use super::call::{Call, Look, Seen};

/// The rows' values.
fn values(rows: &[Row]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| row.values().to_vec()).collect()
}

pub fn bound(call: &Call) -> Vec<Value> {
    call.values.iter().map(|value| Value::Integer(*value)).collect()
}

/// What `look` shows of an outcome that is certain. What nobody looks at must not be asked for.
pub fn look(outcome: &Outcome, look: Look) -> Seen {
    match look {
        Look::Nothing => Seen::Nothing,
        Look::Rows | Look::First(_) => Seen::Rows(values(&outcome.rows)),
        Look::Changes => Seen::Number(outcome.changes() as i64),
        Look::Rowid => Seen::Number(outcome.last_insert_rowid()),
    }
}

/// The same of an outcome that may not be certain yet.
fn look_settled(connection: &mut Connection, outcome: &Outcome, look: Look) -> Result<Seen, Error> {
    match look {
        Look::Changes => connection.changes_of(outcome).map(|count| Seen::Number(count as i64)),
        Look::Rowid => connection.last_insert_rowid_of(outcome).map(Seen::Number),
        _ => Ok(self::look(outcome, look)),
    }
}

/// Performs a call of a transaction. A violated constraint is an answer, if the transaction goes on.
///
/// # Errors
/// Everything else.
pub fn perform(connection: &mut Connection, call: &Call) -> Result<Seen, Error> {
    let (sql, values) = (call.statement.sql(), bound(call));
    let result = if let Look::First(count) = call.look {
        let mut rows = Vec::new();
        let each = |row: &manyhands::RowView<'_>| {
            rows.push(vec![row.value(0).to_owned(), row.value(1).to_owned()]);
            rows.len() < count as usize
        };
        connection.query_each(sql, &values, each).map(|()| Seen::Rows(rows))
    } else {
        let outcome = connection.execute(sql, &values);
        outcome.and_then(|outcome| look_settled(connection, &outcome, call.look))
    };
    match result {
        Err(error) if error.is_constraint() && !connection.is_autocommit() => {
            Ok(Seen::Error(error.code().map_or(0, |code| code.0)))
        }
        result => result,
    }
}
