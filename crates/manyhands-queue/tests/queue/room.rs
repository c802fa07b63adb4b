//! What the file takes of the disk.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use manyhands_queue::{Deadline, Kind, SLOTS};

use crate::echo::{publish, reversed, submit};
use crate::place::{LONG, Place};

/// As docs/limits.md has it.
const IDLE_BYTES_MAX: u64 = 256 << 10;

fn bytes_on_disk(place: &Place) -> u64 {
    std::fs::metadata(place.path()).unwrap().blocks() * 512
}

/// A file of 8 MB for each database was most of what a small one took. One that nobody contends for stays small, however
/// many processes come and go.
#[test]
fn a_file_without_contention_is_small() {
    let place = Place::new();
    let queue = place.join();
    for _ in 0..300 {
        assert_eq!(submit(&place.join(), b"visitor"), reversed(b"visitor"));
    }
    let waiting: Vec<_> = (0..32u8).map(|n| publish(&queue, Kind::Request, &[n])).collect();
    assert_eq!(submit(&queue, b"after them"), reversed(b"after them"));
    drop(waiting);
    assert!(bytes_on_disk(&place) <= IDLE_BYTES_MAX, "{}", bytes_on_disk(&place));
}

/// Where many wait, there is room for all.
#[test]
fn the_file_grows_with_those_who_wait() {
    let place = Place::new();
    let queue = place.join();
    let claims: Vec<_> =
        (0..SLOTS).map(|_| queue.claim(Deadline::after(LONG)).expect("a slot")).collect();
    assert!(queue.claim(Deadline::after(Duration::ZERO)).is_none());
    assert!(bytes_on_disk(&place) > 4 << 20, "{}", bytes_on_disk(&place));
    drop(claims);
    let members: Vec<_> = (0..300).map(|_| place.join()).collect();
    assert_eq!(submit(&members[299], b"the last"), reversed(b"the last"));
    drop(members);
    let long = vec![7; 1900];
    let waiting: Vec<_> = (0..112).map(|_| publish(&queue, Kind::Request, &long)).collect();
    assert!(bytes_on_disk(&place) > 7 << 20, "{}", bytes_on_disk(&place));
    drop((waiting, queue));
    assert!(!place.path().exists());
}
