//! Which steps of a statement keep the GVL.
//!
//! To release the GVL and take it again costs a fraction of a microsecond while no other thread wants it, and up to a time slice of Ruby's
//! (100 ms) when one does. To keep it costs the others what the step takes. So a step that waits for nobody keeps the GVL as long as it
//! is short; after a long one the next [`APART`] steps of the statement run without it.

use core::cell::Cell;
use core::time::Duration;

/// Up to here a step is short.
const SHORT: Duration = Duration::from_micros(200);

/// How many steps run without the GVL after a long one. Each short one brings the statement nearer to keeping the GVL again: one step may
/// have been long since the machine was busy.
const APART: u8 = 16;

/// What is known of the steps of a statement.
#[derive(Default)]
pub(crate) struct Pace {
    apart: Cell<u8>,
}

impl Pace {
    /// Whether the next step keeps the GVL.
    pub(crate) fn is_short(&self) -> bool {
        self.apart.get() == 0
    }

    /// A step has taken so long.
    pub(crate) fn learn(&self, took: Duration) {
        let apart = if took > SHORT { APART } else { self.apart.get().saturating_sub(1) };
        self.apart.set(apart);
    }
}
