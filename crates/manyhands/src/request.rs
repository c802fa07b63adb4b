//! Requests and answers as bytes: what travels between a client and a leader.
//!
//! Whatever comes out of shared memory is decoded with every length checked, and borrows from a
//! private copy. Bytes that are no request are answered "not here".

use manyhands_sqlite::{Code, Value, ValueRef};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::options::Durability;

/// The settings of the requester's session that change what its statements do. A batch executes
/// requests of equal settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) foreign_keys: bool,
    pub(crate) recursive_triggers: bool,
    pub(crate) full: bool,
}

impl Session {
    pub(crate) fn durability(self) -> Durability {
        if self.full { Durability::Full } else { Durability::Normal }
    }
}

/// One statement with its values.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatementRequest<'a> {
    #[serde(borrow)]
    pub(crate) sql: &'a str,
    /// Which columns the requester expects, see `prepared::columns_digest`.
    pub(crate) columns: u64,
    #[serde(borrow)]
    pub(crate) values: Vec<ValueRef<'a>>,
}

/// One or more statements, which take effect together or not at all.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) session: Session,
    pub(crate) last_insert_rowid: i64,
    #[serde(borrow)]
    pub(crate) statements: Vec<StatementRequest<'a>>,
}

/// What SQLite counts for the session of a statement, also if it failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) changes: i64,
    pub(crate) total_changes: i64,
    pub(crate) last_insert_rowid: i64,
}

/// What one statement did.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatementAnswer {
    pub(crate) counts: Counts,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// An error of SQLite, at the statement with this index.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) statement: usize,
    /// `None` when nothing of the request was executed.
    pub(crate) counts: Option<Counts>,
    pub(crate) code: i32,
    pub(crate) message: String,
}

/// The leader's answer.
pub(crate) type Answer = Result<Vec<StatementAnswer>, Failure>;

impl Failure {
    pub(crate) fn new(
        statement: usize,
        counts: Option<Counts>,
        error: &manyhands_sqlite::Error,
    ) -> Failure {
        Failure { statement, counts, code: error.code.0, message: error.message.clone() }
    }

    pub(crate) fn into_error(self) -> manyhands_sqlite::Error {
        manyhands_sqlite::Error { code: Code(self.code), message: self.message }
    }
}

/// The request's bytes; `None` when they do not fit into a slot.
pub(crate) fn encode(request: &Request<'_>, into: &mut Vec<u8>) -> Option<()> {
    let room = manyhands_queue::PAYLOAD_BYTES - limits::ANSWER_BYTES_MIN;
    into.resize(room, 0);
    let used = postcard::to_slice(request, into).ok()?.len();
    into.truncate(used);
    Some(())
}

/// The request in `bytes`; `None` when they are none.
pub(crate) fn decode(bytes: &[u8]) -> Option<Request<'_>> {
    postcard::from_bytes(bytes).ok()
}

/// The answer's bytes; `None` when they are more than `room`.
pub(crate) fn encode_answer(answer: &Answer, room: usize, into: &mut Vec<u8>) -> Option<()> {
    into.resize(room, 0);
    let used = postcard::to_slice(answer, into).ok()?.len();
    into.truncate(used);
    Some(())
}

/// The answer in `bytes`; `None` when they are none.
pub(crate) fn decode_answer(bytes: &[u8]) -> Option<Answer> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use manyhands_sqlite::Text;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            // NaN is not equal to itself; SQLite has none.
            any::<f64>().prop_filter("a number", |it| !it.is_nan()).prop_map(Value::Real),
            vec(any::<u8>(), 0..300).prop_map(|it| Value::Text(Text::from_bytes(it))),
            vec(any::<u8>(), 0..300).prop_map(Value::Blob),
        ]
    }

    fn counts() -> impl Strategy<Value = Counts> {
        (any::<i64>(), any::<i64>(), any::<i64>()).prop_map(
            |(changes, total_changes, last_insert_rowid)| Counts {
                changes,
                total_changes,
                last_insert_rowid,
            },
        )
    }

    proptest! {
        /// A request comes out of the slot as it went in, or does not go in at all.
        #[test]
        fn a_request_survives_its_bytes(
            statements in vec((".{0,60}", any::<u64>(), vec(value(), 0..6)), 0..4),
            (foreign_keys, recursive_triggers, full) in any::<(bool, bool, bool)>(),
            last_insert_rowid: i64,
        ) {
            let session = Session { foreign_keys, recursive_triggers, full };
            let request = Request {
                session,
                last_insert_rowid,
                statements: statements
                    .iter()
                    .map(|(sql, columns, values)| StatementRequest {
                        sql,
                        columns: *columns,
                        values: values.iter().map(Value::as_ref).collect(),
                    })
                    .collect(),
            };
            let mut bytes = Vec::new();
            if encode(&request, &mut bytes).is_some() {
                prop_assert!(bytes.len() + limits::ANSWER_BYTES_MIN <= manyhands_queue::PAYLOAD_BYTES);
                let back = decode(&bytes).expect("decodes");
                prop_assert_eq!(format!("{:?}", back), format!("{:?}", request));
            }
        }

        /// An answer comes back as the leader wrote it, or is too large and said to be.
        #[test]
        fn an_answer_survives_its_bytes(
            done in vec((counts(), vec(vec(value(), 0..4), 0..4)), 0..4),
            room in 0usize..2000,
        ) {
            let answer: Answer = Ok(done
                .into_iter()
                .map(|(counts, rows)| StatementAnswer { counts, rows })
                .collect());
            let mut bytes = Vec::new();
            if encode_answer(&answer, room, &mut bytes).is_some() {
                prop_assert!(bytes.len() <= room);
                prop_assert_eq!(decode_answer(&bytes), Some(answer));
            }
        }

        /// Whatever lies in shared memory is a request, an answer, or refused: never a panic.
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in vec(any::<u8>(), 0..2000)) {
            let _ = decode(&bytes);
            let _ = decode_answer(&bytes);
        }
    }
}
