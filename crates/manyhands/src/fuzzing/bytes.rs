//! Bytes that others wrote, decoded by themselves; only for tests and fuzzing.
//!
//! `request.rs` sends requests through a queue to a leader, some thousand a second. Here are the functions
//! alone that make something of bytes of the queue file and of the WAL, a hundred times as fast. What must hold
//! whatever the bytes are:
//!
//! * they are refused, or decode to what encodes to the same again;
//! * an answer can be told in words;
//! * a leader's announced frame counts as committed only if the very frame is in the WAL and covered;
//! * nothing panics.
//!
//! Shared by a test below and the fuzz target `fuzz/fuzz_targets/bytes.rs`.

use manyhands_queue::{CommitFrame, Fate, SlotWord};
use manyhands_sqlite::WalIndexHeader;

use crate::commit::recover;
use crate::commit::request::{self, Answer};
use crate::fuzzing::decisions::Decisions;
use crate::statement::observe::{self, Shown};

/// Decodes `bytes` as what the first of them says.
///
/// # Panics
/// When something does not hold that must.
pub fn decode(bytes: &[u8]) {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    match kind % 6 {
        0 | 1 => decode_request(sealed(bytes)),
        2 | 3 => decode_answer(sealed(bytes)),
        4 => decode_slot(Decisions(bytes)),
        _ => find_frame(Decisions(bytes)),
    }
}

/// The bytes with their checksum, which no fuzzer guesses.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    request::seal(&mut sealed);
    sealed
}

fn decode_request(sealed: Vec<u8>) {
    let Some(request) = request::decode(&sealed) else { return };
    let mut bytes = Vec::new();
    if request::encode(&request, &mut bytes).is_none() {
        return;
    }
    let again = request::decode(&bytes).expect("it was encoded just now");
    let mut same = Vec::new();
    request::encode(&again, &mut same).expect("no longer than before");
    assert_eq!(bytes, same, "{request:?} became {again:?}");
    // What a leader looks at before it executes a statement.
    for statement in &request.statements {
        assert_eq!(request.sql(statement), again.sql(statement));
        assert_eq!(
            format!("{:?}", request.values(statement)),
            format!("{:?}", again.values(statement))
        );
    }
}

fn decode_answer(sealed: Vec<u8>) {
    let Some(answer) = request::decode_answer(&sealed) else { return };
    let mut bytes = Vec::new();
    let encoded = request::encode_answer(&answer, manyhands_queue::REQUEST_BYTES_MAX, &mut bytes);
    if encoded.is_none() {
        return;
    }
    let again = request::decode_answer(&bytes).expect("it was encoded just now");
    let mut same = Vec::new();
    request::encode_answer(&again, bytes.len(), &mut same).expect("no longer than before");
    assert_eq!(bytes, same, "{answer:?} became {again:?}");
    match answer {
        Answer::Conflict { now, .. } => {
            let told = [
                observe::difference(&Shown::default(), &now),
                observe::difference(&now, &Shown::default()),
                observe::difference(&now, &now),
            ];
            assert!(told.iter().all(|(seen, now)| !seen.is_empty() && !now.is_empty()), "{told:?}");
        }
        Answer::Failed(failure) => {
            let error = failure.into_error();
            assert!(!error.to_string().is_empty(), "{error:?}");
        }
        Answer::Done(_) | Answer::Replayed(_) => {}
    }
}

fn decode_slot(mut decisions: Decisions<'_>) {
    let bits = decisions.number().cast_unsigned();
    match SlotWord::from_bits(bits) {
        Some(word) => assert_eq!(word.to_bits(), bits, "{word:?}"),
        None => assert!(bits & 0xF > 6, "{bits:x}"),
    }
}

fn find_frame(mut decisions: Decisions<'_>) {
    let mut header = [0; 24];
    header.fill_with(|| decisions.byte());
    let mut salt = [0; 8];
    salt.fill_with(|| decisions.byte());
    if decisions.byte().is_multiple_of(2) {
        header[8..16].copy_from_slice(&salt);
    }
    let page_bytes = match decisions.byte() {
        exponent @ 0..=7 => 512 << exponent,
        _ => decisions.number() as u32,
    };
    let frame_last = match decisions.byte() {
        0 => decisions.number() as u32,
        few => u32::from(few),
    };
    // Often the last frame, or one beside it.
    let before = u64::from(frame_last).wrapping_add_signed(i64::from(decisions.byte() % 4) - 2);
    let offset = match decisions.byte() % 4 {
        0 => decisions.number().cast_unsigned(),
        _ => before.wrapping_mul(u64::from(page_bytes) + 24).wrapping_add(32),
    };
    let change = decisions.number() as u32;
    let index = WalIndexHeader { change, page_bytes, frame_last, page_count: 1, salt, checksum: 0 };
    let frame = CommitFrame { offset, header, change: decisions.number() as u32 };
    let found = match decisions.byte() % 4 {
        0 => None,
        1 => Some([7; 24]),
        _ => Some(header),
    };
    let begins = match decisions.byte() % 4 {
        0 => None,
        1 => header[8..16].try_into().ok(),
        _ => Some(salt),
    };
    let in_file = recover::Found { header: found, salt: begins };
    let publishing = decisions.byte().is_multiple_of(2);
    let fate = recover::fate(&frame, publishing, &index, &in_file);
    let covered = (1..=u128::from(frame_last)).contains(&{
        let frame_bytes = u128::from(page_bytes) + 24;
        let before = u128::from(offset).wrapping_sub(32);
        if before % frame_bytes == 0 { before / frame_bytes + 1 } else { 0 }
    });
    let there = covered && found == Some(header) && header[8..16] == salt;
    let said = || format!("{fate:?} {frame:?} {publishing} {index:?} {in_file:?}");
    assert!(fate != Fate::Committed || there, "{}", said());
    assert!(fate == Fate::Committed || !there || !publishing, "{}", said());
    assert!(fate != Fate::Unknown || there || header[8..16] != salt, "{}", said());
}

#[cfg(test)]
mod tests {
    /// The fuzz target's deterministic cousin: the same work, with a seed instead of coverage.
    ///
    /// `MANYHANDS_SEED=n cargo test -p manyhands --lib bytes` takes another seed.
    #[test]
    fn any_bytes_are_decoded_or_refused() {
        crate::fuzzing::decisions::seeds("bytes").iter().for_each(|bytes| super::decode(bytes));
        crate::fuzzing::decisions::each(20_000, 200, super::decode);
    }
}
