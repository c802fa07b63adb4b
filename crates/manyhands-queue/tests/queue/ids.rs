//! Reserved ids.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use manyhands_queue::Queue;

use crate::child::{Process, listen, tell};
use crate::place::{Place, join};

const TABLE: u64 = 0xC0FF_EE00;
/// Where the counters are.
const COUNTERS_AT: u64 = 90_112;
const TABLES: u64 = 512;

fn reserve_many(queue: &Arc<Queue>, count: usize) -> Vec<i64> {
    (0..count).map(|_| queue.reserve_id(TABLE, 40).expect("an id")).collect()
}

pub fn reserver(path: &Path) {
    let queue = join(path).unwrap();
    tell("joined");
    listen();
    tell(&reserve_many(&queue, 5000).iter().map(i64::to_string).collect::<Vec<_>>().join(" "));
    listen();
}

/// Threads of two processes reserve at the same moment, from the first reservation on: all ids are
/// different, and none is left out.
#[test]
fn no_id_is_given_twice() {
    let place = Place::new();
    let queue = place.join();
    let mut other = Process::start("reserver", &place.path());
    other.expect("joined");
    other.say("go");
    let mut ids: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| reserve_many(&queue, 2500))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    ids.extend(other.hear().split(' ').map(|id| id.parse::<i64>().unwrap()));
    other.say("end");
    other.wait_ok();
    ids.sort_unstable();
    assert_eq!(ids, (41..=25_040).collect::<Vec<_>>());
}

/// Ids follow the floor up, and never down.
#[test]
fn an_id_is_above_its_floor() {
    let place = Place::new();
    let queue = place.join();
    let check = |floor: i64, expected: Option<i64>| {
        assert_eq!(queue.reserve_id(TABLE, floor), expected, "above {floor}");
    };
    assert!(!queue.has_reservations(TABLE));
    check(i64::MAX, None);
    assert!(!queue.has_reservations(TABLE));
    check(i64::MIN, Some(i64::MIN + 1));
    check(i64::MIN, Some(i64::MIN + 2));
    check(-5, Some(-4));
    check(-5, Some(-3));
    check(0, Some(1));
    check(-5, Some(2));
    check(100, Some(101));
    check(100, Some(102));
    assert!(queue.has_reservations(TABLE) && !queue.has_reservations(TABLE + 1));
    check(i64::MAX - 1, None);
    check(100, Some(103));
    check(i64::MAX - 2, Some(i64::MAX - 1));
    check(100, None);
    check(i64::MAX - 2, None);
    assert_eq!(queue.reserve_id(TABLE + 1, 7), Some(8), "another table");
    for table in [0, u64::MAX] {
        assert_eq!(queue.reserve_id(table, 7), Some(8));
        assert_eq!(queue.reserve_id(table, 7), Some(9));
    }
}

/// A certain id can be reserved if it is the one that would be given.
#[test]
fn this_id_or_none() {
    let place = Place::new();
    let queue = place.join();
    assert!(!queue.reserve_this_id(TABLE, 11), "no other is reserved");
    assert_eq!(queue.reserve_id(TABLE, 10), Some(11));
    for id in [11, 13, i64::MIN, i64::MAX] {
        assert!(!queue.reserve_this_id(TABLE, id), "{id}");
    }
    assert!(queue.reserve_this_id(TABLE, 12));
    assert!(!queue.reserve_this_id(TABLE, 12), "somebody has it");
    assert_eq!(queue.reserve_id(TABLE, 10), Some(13));
}

/// The last id that was given can be given back; any other one stays a gap.
#[test]
fn only_the_last_id_is_given_back() {
    let place = Place::new();
    let queue = place.join();
    let next = || queue.reserve_id(TABLE, 10).unwrap();
    assert_eq!([next(), next(), next()], [11, 12, 13]);
    for id in [11, 12, 14, i64::MIN, i64::MAX] {
        queue.give_back_id(TABLE, id);
        queue.give_back_id(TABLE + 1, id);
    }
    assert_eq!(next(), 14);
    queue.give_back_id(TABLE, 14);
    queue.give_back_id(TABLE, 13);
    assert_eq!([next(), next()], [13, 14]);
}

#[test]
fn all_is_forgotten_after_a_change_of_the_schema() {
    let place = Place::new();
    let (queue, other) = (place.join(), place.join());
    for table in 1..100 {
        assert_eq!(queue.reserve_id(table, 10), Some(11));
        assert!(other.has_reservations(table));
    }
    other.forget_ids();
    for table in 1..100 {
        assert!(!queue.has_reservations(table));
        assert_eq!(queue.reserve_id(table, 3), Some(4));
    }
}

/// More tables than counters: every one gets ids of its own range, and a table that does not share its
/// places with too many others keeps its counter.
#[test]
fn more_tables_than_counters_evict_each_other() {
    let place = Place::new();
    let queue = place.join();
    let floor = |table: u64| table as i64 * 1_000_000;
    for round in 0..3 {
        for table in 1..=3 * TABLES {
            let id = queue.reserve_id(table, floor(table)).expect("an id");
            let above = id - floor(table);
            assert!((1..=3).contains(&above), "round {round}, table {table}: {above}");
        }
    }
    // Seven others with the same first place.
    queue.forget_ids();
    for table in (0..8).map(|step| 5 + step * TABLES) {
        queue.reserve_id(table, 0);
    }
    let kept: HashSet<_> = (0..8).map(|step| queue.reserve_id(5 + step * TABLES, 0)).collect();
    assert_eq!(kept, HashSet::from([Some(2)]));
    assert_eq!(queue.reserve_id(5 + 8 * TABLES, 0), Some(1));
    assert!(!queue.has_reservations(5), "the first was evicted");
    assert_eq!(queue.reserve_id(5 + 7 * TABLES, 0), Some(3), "the others were not");
}

/// A process died while it evicted a table: its place is lost, and nothing else, until all is forgotten.
/// Other damage costs ids, and no more.
#[test]
fn a_damaged_counter_costs_ids_only() {
    let place = Place::new();
    let queue = place.join();
    let own = COUNTERS_AT + TABLE % TABLES * 16;
    queue.reserve_id(TABLE, 0);
    place.overwrite(own, &[0xFF; 8]);
    assert!(!queue.has_reservations(TABLE));
    assert_eq!(queue.reserve_id(TABLE, 5), Some(6), "in the next place");
    queue.forget_ids();
    assert_eq!(queue.reserve_id(TABLE, 0), Some(1));
    place.overwrite(own + 8, &[0xFF; 8]);
    assert_eq!(queue.reserve_id(TABLE, 0), None, "nothing above the largest");
    place.overwrite(own + 8, &[0; 8]);
    assert!(!queue.has_reservations(TABLE));
    assert_eq!(queue.reserve_id(TABLE, 0), Some(1));
    // All its places are in somebody's hands for ever.
    for step in 0..8 {
        place.overwrite(own + step * 16, &[0xFF; 8]);
    }
    assert_eq!(queue.reserve_id(TABLE, 0), None);
    queue.forget_ids();
    assert_eq!(queue.reserve_id(TABLE, 0), Some(1));
}
