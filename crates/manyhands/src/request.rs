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
