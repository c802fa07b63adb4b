//! Looks again and again at the processes of the command while it runs.
//!
//! A process can live and end between two looks, and says farewell only if the library is in it. So looks are frequent where something is young or has changed, and rare
//! otherwise; and whatever they cost, they take a small part of one processor.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    farewell::{Ear, Waker},
    library::Library,
    report::Report,
    witness::Witness,
};

/// While something is young or new.
const INTERVAL_YOUNG: Duration = Duration::from_millis(3);
/// How long it counts as new.
const YOUTH: Duration = Duration::from_secs(1);
/// Afterwards; doubled with each look that shows nothing new.
const INTERVAL_CALM: Duration = Duration::from_millis(200);
const INTERVAL_MAX: Duration = Duration::from_secs(1);
/// A look that takes 1 ms is followed by a pause of 20 at least, or of 50 in calm.
const PAUSE_FOR_LOOK_YOUNG: u32 = 20;
const PAUSE_FOR_LOOK_CALM: u32 = 50;
/// Even where looks take longer, on a machine with tens of thousands of processes.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The thread that looks.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<Report>,
}

impl Watch {
    /// Begins to look at the descendants of this process.
    pub fn start(mut witness: Witness, library: Arc<Library>, mut ear: Ear, waker: Waker) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = thread::spawn(move || {
            let mut pace = Pace::default();
            // What is written before the flag is in /proc: no memory of ours depends on it.
            while !seen.load(Ordering::Relaxed) {
                let began = Instant::now();
                let has_news = witness.look(&library, &mut ear, began);
                let pause = pace.pause_after(began, has_news, began.elapsed());
                pass(&mut witness, &library, &mut ear, Instant::now() + pause, &seen);
            }
            witness.look(&library, &mut ear, Instant::now());
            witness.finish()
        });
        Self { is_over, waker, thread }
    }

    /// The last look, and what all of them have shown.
    pub fn end(self) -> Option<Report> {
        self.is_over.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join().ok()
    }
}

/// The pause until the next look. Files are read in it: a process may end while a large one is read.
fn pass(
    witness: &mut Witness,
    library: &Library,
    ear: &mut Ear,
    next: Instant,
    is_over: &AtomicBool,
) {
    let mut has_read = false;
    while witness.has_unread() && Instant::now() < next {
        witness.read_on();
        has_read = true;
    }
    if has_read && !witness.has_unread() {
        // What was read may be news.
        return;
    }
    while Instant::now() < next && !is_over.load(Ordering::Relaxed) {
        if let Some(farewell) = ear.wait(next.saturating_duration_since(Instant::now())) {
            witness.hear(farewell, library);
        }
    }
}

/// How long to wait for the next look.
#[derive(Default)]
struct Pace {
    news_at: Option<Instant>,
    calm: Duration,
}

impl Pace {
    fn pause_after(&mut self, now: Instant, has_news: bool, took: Duration) -> Duration {
        if has_news || self.news_at.is_none() {
            self.news_at = Some(now);
        }
        let is_young = self.news_at.is_some_and(|news_at| now.duration_since(news_at) < YOUTH);
        let (wanted, for_look) = if is_young {
            self.calm = INTERVAL_CALM;
            (INTERVAL_YOUNG, PAUSE_FOR_LOOK_YOUNG)
        } else {
            let calm = self.calm;
            self.calm = (calm * 2).min(INTERVAL_MAX);
            (calm, PAUSE_FOR_LOOK_CALM)
        };
        wanted.max((took * for_look).min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequent at first and after news, rare in calm, and never a burden.
    #[test]
    fn the_pauses() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let cheap = Duration::from_micros(100);
        let mut after = |seconds: f64, has_news, took| {
            let now = start + Duration::from_secs_f64(seconds);
            pace.pause_after(now, has_news, took).as_millis()
        };
        assert_eq!(after(0.0, false, cheap), 3);
        assert_eq!(after(0.9, false, cheap), 3);
        assert_eq!(after(1.1, false, cheap), 200);
        assert_eq!(after(1.3, false, cheap), 400);
        assert_eq!(after(1.7, false, cheap), 800);
        assert_eq!(after(2.5, false, cheap), 1000);
        assert_eq!(after(3.5, false, cheap), 1000);
        assert_eq!(after(4.5, true, cheap), 3);
        assert_eq!(after(5.6, false, cheap), 200);
        assert_eq!(after(6.0, true, Duration::from_millis(6)), 120);
        assert_eq!(after(7.1, false, Duration::from_millis(6)), 300);
        assert_eq!(after(7.2, true, Duration::from_secs(1)), 5000);
    }
}
