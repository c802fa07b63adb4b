//! Observations: what the caller of a statement has seen of it. They decide whether a replay shows the same, and so whether a
//! transaction conflicts.
//!
//! Rows count exactly as they were fetched: values with their types, in order, up to where the caller
//! stopped. An error counts by its code. How many rows were changed, and the last rowid, count only if
//! somebody asked ([`crate::Outcome::changes`]).

use std::fmt::Write;

use manyhands_queue::planted;
use manyhands_sqlite::{self as sqlite, Code, Statement, Step, Value, ValueRef};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::row::{Counted, Tally};
use crate::row_buffer::RowBuffer;

/// How many bytes of the first rows are kept, for messages.
const SAMPLE_BYTES_MAX: usize = 256;

/// What most rows need.
const SCRATCH_BYTES: usize = 128;

/// How much memory is kept for the rows of the next statement.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// What was seen of one statement.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Rows that were fetched.
    pub(crate) rows: u64,
    /// The caller was told that there are no more.
    pub(crate) to_end: bool,
    /// Digest of the rows; `None` for no rows.
    #[serde(with = "serde_bytes")]
    pub(crate) digest: Option<[u8; 16]>,
    /// SQLite's extended code, if the statement failed.
    pub(crate) error: Option<i32>,
}

/// What was seen, with the beginning of the rows themselves.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) seen: Seen,
    pub(crate) counted: Counted,
    #[serde(with = "serde_bytes")]
    pub(crate) sample: Vec<u8>,
}

/// Observes the rows of one statement.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    seen: Seen,
    sample: Vec<u8>,
    /// The digest so far, then the row that is being added.
    scratch: Vec<u8>,
}

impl Observer {
    /// A row was fetched.
    pub(crate) fn row(&mut self, values: &[Value]) {
        self.values(values.iter().map(Value::as_ref));
    }

    /// A row was fetched: the statement's current one, which is not copied.
    pub(crate) fn current_row(&mut self, statement: &mut Statement) {
        self.values((0..statement.column_count()).map(|column| statement.column(column)));
    }

    /// A row was fetched: the last one of a buffer.
    pub(crate) fn last_row(&mut self, buffer: &RowBuffer) {
        self.values(buffer.last_row());
    }

    fn values<'a>(&mut self, values: impl ExactSizeIterator<Item = ValueRef<'a>>) {
        let count = values.len();
        self.start();
        values.for_each(|value| self.value(value));
        self.end(count);
    }

    fn start(&mut self) {
        self.scratch.clear();
        // One piece of memory for most rows, instead of one for each of their first values.
        self.scratch.reserve(SCRATCH_BYTES);
        self.scratch.extend_from_slice(&self.seen.digest.unwrap_or_default());
    }

    fn value(&mut self, value: ValueRef<'_>) {
        encode(value, &mut self.scratch);
    }

    fn end(&mut self, count: usize) {
        let row = &self.scratch[16..];
        if self.sample.len() + row.len() < SAMPLE_BYTES_MAX {
            self.sample.reserve(1 + row.len());
            self.sample.push(count as u8);
            self.sample.extend_from_slice(row);
        }
        self.scratch.extend_from_slice(&(count as u64).to_le_bytes());
        self.seen.rows += 1;
        if self.seen.rows > 1 && planted("forget-later-rows") {
            return;
        }
        self.seen.digest = Some(xxh3_128(&self.scratch).to_le_bytes());
    }

    pub(crate) fn rows(&self) -> u64 {
        self.seen.rows
    }

    /// No more rows are fetched; `to_end` says that there are none.
    pub(crate) fn finish(self, to_end: bool) -> (Seen, Vec<u8>) {
        (Seen { to_end, ..self.seen }, self.sample)
    }

    /// The same, while more may come. After an error nothing new comes.
    pub(crate) fn so_far(&self, to_end: bool) -> (Seen, &[u8]) {
        let to_end = to_end && self.seen.error.is_none();
        (Seen { to_end, ..self.seen.clone() }, &self.sample)
    }

    /// Begins anew, with the memory that it has, unless that is uncommonly large.
    pub(crate) fn restart(&mut self) {
        self.seen = Seen::default();
        self.sample.clear();
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
    }

    /// The statement failed with a code, if it is SQLite's and says something of the data.
    pub(crate) fn note_error(&mut self, code: Option<Code>) {
        self.seen.error = code.filter(|code| code.is_result()).map(|code| code.0);
    }

    /// The statement failed, after the rows so far.
    pub(crate) fn fail(self, code: Code) -> (Seen, Vec<u8>) {
        if planted("forget-errors") {
            return (Seen { to_end: true, ..self.seen }, self.sample);
        }
        (Seen { error: Some(code.0), ..self.seen }, self.sample)
    }
}

/// Steps a bound statement as far as its caller once did, and tells what shows now.
pub(crate) fn observe_again(statement: &mut Statement, then: &Seen) -> Observed {
    let mut observer = Observer::default();
    let to_end = loop {
        if !then.to_end && then.error.is_none() && observer.rows() == then.rows {
            break Ok(false);
        }
        match statement.step() {
            Ok(Step::Row) => {
                observer.current_row(statement);
                // There is one more row than then: the results differ, whatever comes.
                if observer.rows() > then.rows {
                    break Ok(false);
                }
            }
            Ok(Step::Done) => break Ok(true),
            Err(error) => break Err(error),
        }
    };
    statement.reset();
    match to_end {
        Ok(to_end) => {
            let (seen, sample) = observer.finish(to_end);
            Observed { seen, sample, error: None }
        }
        Err(error) => {
            let (seen, sample) = observer.fail(error.code);
            Observed { seen, sample, error: Some(error) }
        }
    }
}

/// What [`observe_again`] saw.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) seen: Seen,
    pub(crate) sample: Vec<u8>,
    pub(crate) error: Option<sqlite::Error>,
}

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

fn encode(value: ValueRef<'_>, into: &mut Vec<u8>) {
    let mut long = |tag, bytes: &[u8]| {
        into.push(tag);
        into.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        into.extend_from_slice(bytes);
    };
    match value {
        ValueRef::Text(bytes) => long(TEXT, bytes),
        ValueRef::Blob(bytes) => long(BLOB, bytes),
        ValueRef::Null => into.push(NULL),
        ValueRef::Integer(number) => {
            into.push(INTEGER);
            into.extend_from_slice(&number.to_le_bytes());
        }
        ValueRef::Real(number) => {
            into.push(REAL);
            into.extend_from_slice(&number.to_bits().to_le_bytes());
        }
    }
}

/// Values as text, the first ones if there are many.
pub(crate) fn show_values<'a>(values: impl ExactSizeIterator<Item = ValueRef<'a>>) -> String {
    let count = values.len().min(16);
    if count == 0 {
        return String::new();
    }
    let mut observer = Observer::default();
    observer.start();
    values.take(count).for_each(|value| observer.value(value));
    observer.end(count);
    show_rows(&observer.sample).pop().unwrap_or_default()
}

/// The rows of a sample as text. What does not decode, since it came through shared memory, is left out.
fn show_rows(mut sample: &[u8]) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some((&count, rest)) = sample.split_first() {
        sample = rest;
        let values: Option<Vec<String>> = (0..count).map(|_| show_value(&mut sample)).collect();
        let Some(values) = values else { break };
        rows.push(format!("({})", values.join(", ")));
    }
    rows
}

fn show_value(sample: &mut &[u8]) -> Option<String> {
    let (&tag, rest) = sample.split_first()?;
    if tag == NULL {
        *sample = rest;
        return Some("NULL".to_string());
    }
    let (word, rest) = rest.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*word);
    *sample = rest;
    match tag {
        INTEGER => Some(number.cast_signed().to_string()),
        REAL => Some(format!("{:?}", f64::from_bits(number))),
        TEXT | BLOB => {
            let (bytes, rest) = rest.split_at_checked(usize::try_from(number).ok()?)?;
            *sample = rest;
            Some(if tag == TEXT {
                format!("'{}'", String::from_utf8_lossy(bytes))
            } else {
                bytes.iter().fold("x'".to_string(), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                }) + "'"
            })
        }
        _ => None,
    }
}

/// What differs, in words: what was seen, and what shows now.
pub(crate) fn difference(seen: &Shown, now: &Shown) -> (String, String) {
    let name = |error: i32| format!("the error {}", Code(error).name());
    let rows = |count: u64| match count {
        0 => "no row".to_string(),
        1 => "1 row".to_string(),
        count => format!("{count} rows"),
    };
    if seen.seen.error != now.seen.error {
        let side = |shown: &Shown| match shown.seen.error {
            Some(error) => name(error),
            None if shown.seen.rows > 0 => rows(shown.seen.rows),
            None => "no error".to_string(),
        };
        return (side(seen), side(now));
    }
    if seen.seen != now.seen {
        let (before, after) = (show_rows(&seen.sample), show_rows(&now.sample));
        let differs = before.iter().zip(&after).position(|(before, after)| before != after);
        if let Some(index) = differs {
            let place = if index == 0 { String::new() } else { format!("in row {} ", index + 1) };
            return (format!("{place}{}", before[index]), format!("{place}{}", after[index]));
        }
        let side = |shown: &Shown, sample: &[String]| match (shown.seen.rows, sample.last()) {
            (1, Some(row)) => row.clone(),
            (count, Some(row)) if sample.len() as u64 == count => {
                format!("{}, the last {row}", rows(count))
            }
            (count, _) => rows(count),
        };
        let (before, after) = (side(seen, &before), side(now, &after));
        return if before == after {
            (before, format!("{after} of other content"))
        } else {
            (before, after)
        };
    }
    let counted = |shown: &Shown| {
        if seen.counted.changes != now.counted.changes && seen.counted.asked & Tally::CHANGES != 0 {
            format!("{} changed", rows(shown.counted.changes.unsigned_abs()))
        } else {
            format!("last_insert_rowid() = {}", shown.counted.last_insert_rowid)
        }
    };
    (counted(seen), counted(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[&[ValueRef<'_>]]) -> Shown {
        let mut observer = Observer::default();
        for row in rows {
            let values: Vec<Value> = row.iter().map(|value| Value::from(*value)).collect();
            observer.row(&values);
        }
        let (seen, sample) = observer.finish(true);
        Shown { seen, counted: Counted::default(), sample }
    }

    /// Types, order, and the borders between values and rows all make a difference.
    #[test]
    fn what_differs_has_another_digest() {
        use ValueRef::{Blob, Integer, Null, Real, Text};
        let results: &[&[&[ValueRef<'_>]]] = &[
            &[],
            &[&[]],
            &[&[Null]],
            &[&[Null], &[Null]],
            &[&[Null, Null]],
            &[&[Integer(1)]],
            &[&[Real(1.0)]],
            &[&[Text(b"1")]],
            &[&[Blob(b"1")]],
            &[&[Text(b"ab"), Text(b"")]],
            &[&[Text(b"a"), Text(b"b")]],
            &[&[Text(b"a")], &[Text(b"b")]],
            &[&[Text(b"b")], &[Text(b"a")]],
        ];
        for (index, one) in results.iter().enumerate() {
            for (other_index, other) in results.iter().enumerate() {
                let same = shown(one).seen == shown(other).seen;
                assert_eq!(same, index == other_index, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_difference_is_told_in_words() {
        use ValueRef::{Integer, Text};
        let check = |seen: &Shown, now: &Shown, expected: (&str, &str)| {
            let told = difference(seen, now);
            assert_eq!((told.0.as_str(), told.1.as_str()), expected);
        };
        let one = shown(&[&[Integer(7), Text(b"a")]]);
        check(&one, &shown(&[&[Integer(8), Text(b"a")]]), ("(7, 'a')", "(8, 'a')"));
        check(&one, &shown(&[]), ("(7, 'a')", "no row"));
        let two = shown(&[&[Integer(7), Text(b"a")], &[Integer(9), Text(b"b")]]);
        check(&one, &two, ("(7, 'a')", "2 rows, the last (9, 'b')"));
        let failed =
            Shown { seen: Seen { error: Some(2067), ..Seen::default() }, ..Shown::default() };
        check(&failed, &shown(&[]), ("the error SQLITE_CONSTRAINT_UNIQUE", "no error"));
        let count = |changes, asked| Shown {
            counted: Counted { changes, last_insert_rowid: 1, asked },
            ..Shown::default()
        };
        check(&count(3, 1), &count(2, 1), ("3 rows changed", "2 rows changed"));
    }

    /// What is in a conflict's answer came through shared memory.
    #[test]
    fn a_damaged_sample_is_cut() {
        let mut sample = shown(&[&[ValueRef::Text(b"hello")]]).sample;
        sample.truncate(sample.len() - 1);
        assert!(show_rows(&sample).is_empty());
        assert!(show_rows(&[1, TEXT, 255, 255, 255, 255, 255, 255, 255, 255]).is_empty());
    }
}
