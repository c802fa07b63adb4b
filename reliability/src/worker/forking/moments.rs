//! The moments at which to fork: some pass of each crash point, by whichever thread comes there.
//!
//! A thread that arrives while another one waits to fork says so, and stands there until the forks have been made
//! by that other one, as `fork()` is called by an application. It stands for a moment only: who forks may wait for
//! what it holds.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use fastrand::Rng;
use manyhands_queue::crash::{self, POINTS};

/// How long a thread stands at a point at most.
const STAND: Duration = Duration::from_millis(150);

/// Points that are not passed all the time: there a thread also waits for the one that forks.
const RARE: [&str; 4] = ["joined", "leaving", "recovering", "recovered"];

/// Of `Moment::due`.
const DONE: u64 = u64::MAX;

/// When to fork at a point.
struct Moment {
    passed: AtomicU64,
    /// At which pass.
    due: AtomicU64,
}

/// Shared by all who pass.
struct Plan {
    process: u32,
    /// Of [`POINTS`], in their order.
    moments: Vec<Moment>,
    /// Somebody waits to fork. Who takes this away arrives.
    is_awaited: AtomicBool,
    arrivals: Sender<Arrival>,
}

/// A thread stands at a point until this is dropped, or for too long.
pub struct Arrival {
    pub point: &'static str,
    go_on: Sender<()>,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // It may have gone on.
        let _ = self.go_on.send(());
    }
}

/// What the thread that forks knows.
pub struct Moments {
    plan: Arc<Plan>,
    arrivals: Receiver<Arrival>,
}

impl Moments {
    /// From now on threads that pass a point may stand there.
    pub fn draw(seed: u64) -> Moments {
        let mut dice = Rng::with_seed(seed);
        let moments = POINTS.iter().map(|point| {
            let due = match *point {
                _ if RARE.contains(point) => 1,
                "before-checkpoint" | "after-checkpoint" | "block-claimed" => dice.u64(1..3),
                _ => dice.u64(1..40),
            };
            Moment { passed: AtomicU64::new(0), due: AtomicU64::new(due) }
        });
        let (sender, arrivals) = channel();
        let plan = Arc::new(Plan {
            process: std::process::id(),
            moments: moments.collect(),
            is_awaited: AtomicBool::new(false),
            arrivals: sender,
        });
        let shared = Arc::clone(&plan);
        crash::visit(move |point| shared.pass(point));
        Moments { plan, arrivals }
    }

    /// Waits for somebody to arrive.
    pub fn next(&self, patience: Duration) -> Option<Arrival> {
        self.plan.is_awaited.store(true, Ordering::Release);
        let arrival = self.arrivals.recv_timeout(patience).ok();
        let somebody_came = !self.plan.is_awaited.swap(false, Ordering::AcqRel);
        // Then it says so any moment.
        arrival.or_else(|| somebody_came.then(|| self.arrivals.recv().ok()).flatten())
    }

    /// Points at which nobody has stood yet.
    pub fn left(&self) -> Vec<&'static str> {
        let due = |moment: &Moment| moment.due.load(Ordering::Relaxed) != DONE;
        POINTS.iter().zip(&self.plan.moments).filter(|(_, it)| due(it)).map(|(it, _)| *it).collect()
    }
}

impl Plan {
    fn pass(&self, point: &'static str) {
        if std::process::id() != self.process {
            return;
        }
        let place = POINTS.iter().position(|known| *known == point).expect("a point of the list");
        let moment = &self.moments[place];
        let passed = moment.passed.fetch_add(1, Ordering::Relaxed) + 1;
        if passed < moment.due.load(Ordering::Relaxed) {
            return;
        }
        let end = Instant::now() + STAND;
        while !self.is_awaited.swap(false, Ordering::AcqRel) {
            if !RARE.contains(&point) || Instant::now() > end {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        moment.due.store(DONE, Ordering::Relaxed);
        let (go_on, wait) = channel();
        // Nobody listens when all is over.
        if self.arrivals.send(Arrival { point, go_on }).is_ok() {
            let _ = wait.recv_timeout(STAND);
        }
    }
}
