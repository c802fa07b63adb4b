//! A checker that cannot turn red proves nothing: histories with each anomaly of the theory, written down by
//! hand, as an engine that allows it would have answered; and a good history, spoiled.

use super::history::{End, Told, judge};
use super::script::Step::{self, Append, Read};

/// A transaction of a player of its own, all at the same time unless it is said otherwise.
fn told(player: i64, steps: &[Step], reads: &[&[i64]]) -> Told {
    let reads = reads.iter().map(|items| items.to_vec()).collect();
    let end = Some((1000, End::Committed));
    Told { player, began_ns: 0, end, steps: steps.to_vec(), reads }
}

/// The same between two moments.
fn during(began_ns: u64, ended_ns: u64, told: Told) -> Told {
    let end = told.end.map(|(_, end)| (ended_ns, end));
    Told { began_ns, end, ..told }
}

fn failed(told: Told) -> Told {
    Told { end: Some((1000, End::Failed)), reads: vec![], ..told }
}

/// The anomalies that the checker names; none for a history that is strictly serializable.
fn names(history: &[Told]) -> String {
    let finding = judge(history).findings.pop().unwrap_or_default();
    finding.split(':').next().unwrap_or_default().to_owned()
}

fn check(history: &[Told], expected: &str) {
    let names = names(history);
    assert!(names.split(", ").any(|name| name == expected), "{expected} was called {names:?}");
}

#[test]
fn what_is_good_is_found_good() {
    let history = [
        during(0, 10, told(1, &[Append(1, 1), Read(2)], &[&[]])),
        during(5, 20, told(2, &[Append(2, 2), Read(1)], &[&[1]])),
        failed(told(3, &[Append(1, 3)], &[])),
        // Nobody knows whether it was committed; the next one saw that it was.
        Told { end: None, ..told(4, &[Append(1, 4)], &[]) },
        during(30, 40, told(5, &[Read(1), Read(2)], &[&[1, 4], &[2]])),
    ];
    assert_eq!(names(&history), "");
}

/// G0, dirty write: two transactions write two lists in opposite orders.
#[test]
fn a_dirty_write_is_found() {
    let history = [
        told(1, &[Append(1, 1), Append(2, 3)], &[]),
        told(2, &[Append(1, 2), Append(2, 4)], &[]),
        told(3, &[Read(1), Read(2)], &[&[1, 2], &[4, 3]]),
    ];
    check(&history, "G0");
}

/// G1a, aborted read.
#[test]
fn an_aborted_read_is_found() {
    let history =
        [failed(told(1, &[Append(1, 1)], &[])), told(2, &[Read(1), Append(1, 2)], &[&[1]])];
    check(&history, "G1a");
}

/// G1b, intermediate read.
#[test]
fn an_intermediate_read_is_found() {
    let history =
        [told(1, &[Append(1, 1), Append(1, 2)], &[]), told(2, &[Read(1), Append(2, 3)], &[&[1]])];
    check(&history, "G1b");
}

/// G1c, circular information flow: each saw what the other wrote.
#[test]
fn a_circle_of_information_is_found() {
    let history =
        [told(1, &[Append(1, 1), Read(2)], &[&[2]]), told(2, &[Append(2, 2), Read(1)], &[&[1]])];
    check(&history, "G1c");
}

/// G-single, read skew: one list before a transaction, the other after it.
#[test]
fn a_read_skew_is_found() {
    let history = [
        told(1, &[Append(1, 1), Append(2, 2)], &[]),
        told(2, &[Read(1), Read(2)], &[&[], &[2]]),
        told(3, &[Read(1), Read(2)], &[&[1], &[2]]),
    ];
    check(&history, "G-single-item");
}

/// Lost update: both append to what they read, which was the same.
#[test]
fn a_lost_update_is_found() {
    let history = [
        told(1, &[Read(2), Append(2, 1)], &[&[]]),
        told(2, &[Read(2), Append(2, 2)], &[&[]]),
        told(3, &[Read(2)], &[&[1, 2]]),
    ];
    check(&history, "lost-update");
}

/// G2-item, write skew over two texts, and G2 over two sets of rows: to the checker both are lists.
#[test]
fn a_write_skew_is_found() {
    for (one, other) in [(2, 4), (1, 3)] {
        let history = [
            told(1, &[Read(one), Read(other), Append(one, 1)], &[&[], &[]]),
            told(2, &[Read(one), Read(other), Append(other, 2)], &[&[], &[]]),
            told(3, &[Read(one), Read(other)], &[&[1], &[2]]),
        ];
        check(&history, "G2-item");
    }
}

/// Serializable, but not in the order of time: who began later did not see what was acknowledged.
#[test]
fn a_stale_read_is_found() {
    let history = [
        during(0, 10, told(1, &[Append(1, 1)], &[])),
        during(20, 30, told(2, &[Read(1)], &[&[]])),
        during(40, 50, told(3, &[Read(1)], &[&[1]])),
    ];
    check(&history, "G-single-item-realtime");
}

/// An acknowledged item that nobody ever sees, not even at the end.
#[test]
fn a_lost_item_is_found() {
    let history = [
        during(0, 10, told(1, &[Append(1, 1)], &[])),
        during(20, 30, told(2, &[Append(1, 2)], &[])),
        during(40, 50, told(3, &[Read(1)], &[&[2]])),
    ];
    assert_ne!(names(&history), "");
}

/// An item that is there twice.
#[test]
fn an_item_applied_twice_is_found() {
    let history = [told(1, &[Append(1, 1)], &[]), told(2, &[Read(1)], &[&[1, 1]])];
    check(&history, "duplicate-elements");
}
