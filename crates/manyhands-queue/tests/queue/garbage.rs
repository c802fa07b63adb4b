//! Damaged memory. The fuzzer's deterministic cousin: the same work, with a seed instead of coverage.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::strain::Patient;

const ROUNDS: u64 = 20_000;
/// A round takes some 30 us; none may hang.
const ROUND_MAX: Duration = Duration::from_secs(5);

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

/// Whoever can write the queue file can write anything into it, at any moment. A member may then get
/// errors and no answers; it must not panic, hang or touch what is not its own.
///
/// `MANYHANDS_SEED=n cargo test -p manyhands-queue --test queue garbage` replays one seed.
#[test]
fn damaged_memory_neither_panics_nor_hangs() {
    let seed = std::env::var("MANYHANDS_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = seed.unwrap_or(20_261_120);
    let rounds = if seed.is_some() { 1 } else { ROUNDS };
    let place = Place::new();
    let file = |place: &Place| File::options().read(true).write(true).open(place.path()).unwrap();
    let mut patient = Patient::new(place.join(), file(&place));
    for seed in first..first + rounds {
        let mut dice = Dice(seed);
        let bytes: Vec<u8> = (0..48).flat_map(|_| dice.next().to_ne_bytes()).collect();
        let began = Instant::now();
        let strained = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            patient.strain(&bytes);
        }));
        assert!(strained.is_ok() && began.elapsed() < ROUND_MAX, "MANYHANDS_SEED={seed}");
    }
}
