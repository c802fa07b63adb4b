//! Requests and answers as bytes: what travels between a client and a leader.
//!
//! Whatever comes out of shared memory is decoded with every length checked, and borrows from a
//! private copy. Behind each request and each answer is a checksum: bytes that somebody has overwritten
//! could decode to another statement, another value, another answer. If a request is damaged, its owner executes it; if an answer is
//! damaged, the outcome is unknown.

use core::ops::Range;

use manyhands_queue::planted;
use manyhands_sqlite::{Code, Pinned, Value, ValueRef};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::options::{Durability, Settings};
use crate::row::Counted;
use crate::statement::observe::{Seen, Shown};

/// The settings of the requester's session that change what its statements do. A batch executes
/// requests of equal settings, but for the durability: see [`SessionSettings::executes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionSettings {
    pub(crate) foreign_keys: bool,
    pub(crate) recursive_triggers: bool,
    /// Its commits are synced.
    pub(crate) full: bool,
    /// What 'localtime' means to it.
    pub(crate) zone: u32,
}

impl SessionSettings {
    /// The session of a new connection.
    pub(crate) fn of(settings: &Settings) -> SessionSettings {
        SessionSettings {
            foreign_keys: settings.foreign_keys,
            recursive_triggers: false,
            full: settings.durability == Durability::Full,
            zone: manyhands_sqlite::zone_digest(),
        }
    }

    /// True when a batch with these settings may execute a request of that session. A synced batch is also good for a request that
    /// asked for less.
    pub(crate) fn executes(self, other: SessionSettings) -> bool {
        let is_durable = self.full || !other.full || planted("full-in-a-normal-batch");
        SessionSettings { full: self.full, ..other } == self && is_durable
    }

    pub(crate) fn durability(self) -> Durability {
        if self.full { Durability::Full } else { Durability::Normal }
    }
}

/// One statement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatementRequest {
    /// Index of its SQL among the request's texts.
    pub(crate) text: u32,
    /// Which of the request's values are its own.
    pub(crate) values: Range<u32>,
    /// Which columns the requester expects, see `prepared::columns_digest`.
    pub(crate) columns: u32,
    /// In a transaction: what the caller has seen of it.
    pub(crate) seen: Option<(Seen, Counted)>,
    /// In a transaction: it changes nothing, and need not be executed if no table of this set changed.
    pub(crate) reads_only: Option<u64>,
    /// In a transaction: the rowids that it was given.
    pub(crate) ids: Vec<i64>,
}

/// Where a speculative transaction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Its snapshot: the change counter and the checksum of the wal-index header.
    pub(crate) change: u32,
    pub(crate) checksum: u64,
    pub(crate) pinned: Pinned,
}

/// One or more statements, which take effect together or not at all.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    /// Also the first in the encoded bytes: see [`decode_session`].
    pub(crate) session: SessionSettings,
    /// What the session had counted before.
    pub(crate) before: Counts,
    /// The statements' SQL, each text once.
    #[serde(borrow)]
    pub(crate) texts: Vec<&'a str>,
    /// The statements' values, one after the other: without a piece of memory for each statement.
    #[serde(borrow)]
    pub(crate) values: Vec<ValueRef<'a>>,
    pub(crate) statements: Vec<StatementRequest>,
    /// `None` for statements whose results nobody has seen yet.
    pub(crate) origin: Option<Origin>,
}

impl<'a> Request<'a> {
    /// A request without statements.
    pub(crate) fn new(
        session: SessionSettings,
        before: Counts,
        origin: Option<Origin>,
    ) -> Request<'a> {
        let (texts, values, statements) = (Vec::new(), Vec::new(), Vec::new());
        Request { session, before, texts, values, statements, origin }
    }

    /// Adds a statement whose results nobody has seen yet.
    pub(crate) fn push(&mut self, sql: &'a str, columns: u32, values: &'a [Value]) {
        self.push_refs(sql, columns, values.iter().map(Value::as_ref));
    }

    /// The same, to be completed with what its caller has seen of it.
    pub(crate) fn push_refs(
        &mut self,
        sql: &'a str,
        columns: u32,
        values: impl Iterator<Item = ValueRef<'a>>,
    ) -> &mut StatementRequest {
        let text = self.text(sql);
        let first = self.values.len() as u32;
        self.values.extend(values);
        let values = first..self.values.len() as u32;
        let (seen, reads_only, ids) = (None, None, Vec::new());
        self.statements.push(StatementRequest { text, values, columns, seen, reads_only, ids });
        self.statements.last_mut().expect("just pushed")
    }

    /// A statement's SQL; `None` when somebody has written over the request.
    pub(crate) fn sql(&self, statement: &StatementRequest) -> Option<&'a str> {
        self.texts.get(statement.text as usize).copied()
    }

    /// The values that a statement was given; `None` when somebody has written over the request.
    pub(crate) fn values(&self, statement: &StatementRequest) -> Option<&[ValueRef<'a>]> {
        let Range { start, end } = statement.values;
        self.values.get(start as usize..end as usize)
    }

    /// The place of `sql` among the texts.
    pub(crate) fn text(&mut self, sql: &'a str) -> u32 {
        // Most transactions repeat few statements: the last ones are the likely ones.
        let known = self.texts.iter().rposition(|text| core::ptr::eq(*text, sql) || *text == sql);
        let place = known.unwrap_or(self.texts.len());
        if known.is_none() {
            self.texts.push(sql);
        }
        place as u32
    }
}

/// What a session has counted: see `driver::ConnectionExt::session_counts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// As the SQL function of this name.
    pub changes: i64,
    /// As the SQL function of this name.
    pub total_changes: i64,
    /// As the SQL function of this name.
    pub last_insert_rowid: i64,
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

/// What a transaction did where it took effect.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Replayed {
    pub(crate) counts: Counts,
    /// Statements that counted something else than speculatively, which nobody has asked for: index,
    /// changes, last rowid.
    pub(crate) counted: Vec<(u32, i64, i64)>,
}

/// The leader's answer.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The statements took effect.
    Done(Vec<StatementAnswer>),
    /// The transaction took effect, and its caller would have seen the same.
    Replayed(Replayed),
    /// Nothing took effect.
    Failed(Failure),
    /// Nothing took effect: the statement with this index shows something else now.
    Conflict { statement: usize, now: Shown },
}

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

/// The request's bytes; `None` when they are more than travel through the queue.
pub(crate) fn encode(request: &Request<'_>, into: &mut Vec<u8>) -> Option<()> {
    // Most are small, and clearing room for the largest costs more than encoding a small one twice.
    encode_within(request, manyhands_queue::SLOT_REQUEST_BYTES_MAX, into)
        .or_else(|| encode_within(request, manyhands_queue::REQUEST_BYTES_MAX, into))
}

fn encode_within(value: &impl Serialize, room: usize, into: &mut Vec<u8>) -> Option<()> {
    into.resize(room.checked_sub(CHECKSUM_BYTES)?, 0);
    let used = postcard::to_slice(value, into).ok()?.len();
    into.truncate(used);
    seal(into);
    Some(())
}

const CHECKSUM_BYTES: usize = size_of::<u64>();

/// Adds the checksum.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let checksum = xxh3_64(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// The bytes before the checksum; `None` when it is not theirs.
fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (bytes, checksum) = bytes.split_last_chunk()?;
    (xxh3_64(bytes) == u64::from_le_bytes(*checksum)).then_some(bytes)
}

/// The request in `bytes`; `None` when they are damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<Request<'_>> {
    postcard::from_bytes(unseal(bytes)?).ok()
}

/// The statements of the request in `bytes`, as `manyhands_queue::Onlooker` finds them in a queue; none of damaged ones.
pub fn statements_of(bytes: &[u8]) -> Vec<String> {
    let Some(request) = decode(bytes) else { return Vec::new() };
    let texts = request.statements.iter().filter_map(|statement| request.sql(statement));
    texts.map(str::to_owned).collect()
}

/// The settings of the request in `bytes`, which are its beginning; `None` when they are damaged.
pub(crate) fn decode_session(bytes: &[u8]) -> Option<SessionSettings> {
    postcard::take_from_bytes(unseal(bytes)?).ok().map(|(session, _)| session)
}

/// The answer's bytes; `None` when they are more than `room`.
pub(crate) fn encode_answer(answer: &Answer, room: usize, into: &mut Vec<u8>) -> Option<()> {
    encode_within(answer, room, into)
}

/// The answer in `bytes`; `None` when they are damaged.
pub(crate) fn decode_answer(bytes: &[u8]) -> Option<Answer> {
    postcard::from_bytes(unseal(bytes)?).ok()
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

    type SeenPart = (Option<(Seen, Counted)>, Option<u64>, Vec<i64>);

    fn seen() -> impl Strategy<Value = SeenPart> {
        let seen = (any::<u64>(), any::<bool>(), any::<Option<[u8; 16]>>(), any::<Option<i32>>());
        let counted = (any::<i64>(), any::<i64>(), any::<u8>());
        let both = (seen, counted).prop_map(|(seen, counted)| {
            let (rows, to_end, digest, error) = seen;
            let (changes, last_insert_rowid, asked) = counted;
            (Seen { rows, to_end, digest, error }, Counted { changes, last_insert_rowid, asked })
        });
        (proptest::option::of(both), any::<Option<u64>>(), vec(any::<i64>(), 0..3))
    }

    proptest! {
        /// A request comes out of the slot as it went in, or does not go in at all.
        #[test]
        fn a_request_survives_its_bytes(
            statements in vec((".{0,60}", any::<u32>(), vec(value(), 0..6), seen()), 0..4),
            (foreign_keys, recursive_triggers, full, zone) in any::<(bool, bool, bool, u32)>(),
            before in counts(),
            origin in proptest::option::of((any::<u32>(), any::<u64>(), any::<i64>(), any::<u64>())),
        ) {
            let session = SessionSettings { foreign_keys, recursive_triggers, full, zone };
            let origin = origin.map(|(change, checksum, time_ms, seed)| {
                Origin { change, checksum, pinned: Pinned { time_ms, seed, statement: 0 } }
            });
            let mut request = Request::new(session, before, origin);
            for (sql, columns, values, (seen, reads_only, ids)) in &statements {
                let values = values.iter().map(Value::as_ref);
                let statement = request.push_refs(sql, *columns, values);
                statement.seen.clone_from(seen);
                statement.reads_only = *reads_only;
                statement.ids.clone_from(ids);
            }
            let mut bytes = Vec::new();
            if encode(&request, &mut bytes).is_some() {
                prop_assert!(bytes.len() <= manyhands_queue::REQUEST_BYTES_MAX);
                let back = decode(&bytes).expect("decodes");
                prop_assert_eq!(format!("{:?}", back), format!("{:?}", request));
                prop_assert_eq!(decode_session(&bytes), Some(session));
                for (statement, (sql, _, values, _)) in back.statements.iter().zip(&statements) {
                    prop_assert_eq!(back.sql(statement), Some(&**sql));
                    let values: Vec<_> = values.iter().map(Value::as_ref).collect();
                    prop_assert_eq!(back.values(statement), Some(&*values));
                }
            }
        }

        /// An answer comes back as the leader wrote it, or is too large and said to be.
        #[test]
        fn an_answer_survives_its_bytes(
            done in vec((counts(), vec(vec(value(), 0..4), 0..4)), 0..4),
            counted in vec(any::<(u32, i64, i64)>(), 0..9),
            room in 0usize..2000,
        ) {
            let done = done
                .into_iter()
                .map(|(counts, rows)| StatementAnswer { counts, rows })
                .collect();
            let replayed = Replayed { counts: Counts::default(), counted };
            for answer in [Answer::Done(done), Answer::Replayed(replayed)] {
                let mut bytes = Vec::new();
                if encode_answer(&answer, room, &mut bytes).is_some() {
                    prop_assert!(bytes.len() <= room);
                    prop_assert_eq!(decode_answer(&bytes), Some(answer));
                }
            }
        }

        /// Whatever lies in shared memory is a request, an answer, or refused: never a panic.
        #[test]
        fn any_bytes_are_taken_or_refused(mut bytes in vec(any::<u8>(), 0..2000)) {
            prop_assert!(decode(&bytes).is_none() && decode_answer(&bytes).is_none());
            seal(&mut bytes);
            let _ = decode(&bytes);
            let _ = decode_answer(&bytes);
        }
    }

    /// An attacker wrote rubbish into the queue file. It hit the text of a row, which was then stored and
    /// acknowledged; and it hit answers, of which one decoded to another kind: the caller got an error that
    /// did not say that its write may be there.
    #[test]
    fn bytes_that_were_written_over_are_seen() {
        let session =
            SessionSettings { foreign_keys: false, recursive_triggers: false, full: true, zone: 0 };
        let mut request = Request::new(session, Counts::default(), None);
        let values = [Value::Text(Text::from_bytes("payload"))];
        request.push("INSERT INTO t VALUES (?1)", 0, &values);
        let mut bytes = Vec::new();
        encode(&request, &mut bytes).expect("it is small");
        let mut answer = Vec::new();
        let replayed = Replayed { counts: Counts::default(), counted: Vec::new() };
        encode_answer(&Answer::Replayed(replayed), 1000, &mut answer).expect("it is small");
        assert!(decode(&bytes).is_some() && decode_answer(&answer).is_some());
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert!(decode(&bytes).is_none(), "byte {at}");
            bytes[at] ^= 0x10;
        }
        answer.fill(0);
        assert!(decode_answer(&answer).is_none());
    }
}
