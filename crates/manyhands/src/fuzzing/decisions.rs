//! Bytes as a source of decisions, for what tests and fuzz targets do with a product; only for those.
//!
//! A fuzzer chooses the bytes by what they reach, a test by a seed. When they are used up, everything is
//! decided by zeros, so that a short input is a short story.

use manyhands_sqlite::{Text, Value};

/// What is left to decide by.
#[derive(Debug)]
pub struct Decisions<'a>(pub &'a [u8]);

impl<'a> Decisions<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number below `bound`, which is at most 65536.
    pub fn below(&mut self, bound: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % bound
    }

    /// The next bytes, as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// True when nothing is left.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Any number: often a small one, or one at the end of the range.
    pub fn number(&mut self) -> i64 {
        match self.byte() {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => -1,
            3..=7 => i64::from_ne_bytes([0; 8].map(|_: u8| self.byte())),
            small => i64::from(small) - 8,
        }
    }

    /// Any value.
    pub fn value(&mut self) -> Value {
        match self.byte() % 6 {
            0 => Value::Null,
            1 | 2 => Value::Integer(self.number()),
            3 => Value::Real(f64::from_bits(self.number() as u64)),
            4 => {
                let count = self.below(40);
                Value::Text(Text::from_bytes(self.take(count)))
            }
            _ => {
                let count = self.below(300);
                Value::Blob(self.take(count).to_vec())
            }
        }
    }
}

/// Inputs of a fuzz target that are kept with the sources, a line of hexadecimal digits each.
#[cfg(test)]
pub(crate) fn seeds(target: &str) -> Vec<Vec<u8>> {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let lines = std::fs::read_to_string(seeds.join(target)).expect("the target has seeds");
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).expect("ASCII");
        u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
    };
    lines.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// Calls `act` with `rounds` runs of up to `bytes_max` bytes, out of one seed: MANYHANDS_SEED, or always the
/// same.
///
/// # Panics
/// When `act` does; the message has the seed.
#[cfg(test)]
pub(crate) fn each(rounds: u64, bytes_max: usize, mut act: impl FnMut(&[u8])) {
    let seed = std::env::var("MANYHANDS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(20_261_122);
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    };
    for round in 0..rounds {
        let count = next() as usize % bytes_max;
        let bytes: Vec<u8> = (0..count).map(|_| next() as u8).collect();
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&bytes)));
        assert!(acted.is_ok(), "round {round} of MANYHANDS_SEED={seed}");
    }
}
