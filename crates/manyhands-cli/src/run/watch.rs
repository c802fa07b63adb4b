//! Looks again and again at the processes of the command while it runs.
//!
//! A process can live and end between two looks, and says farewell only if the library is in it. So looks are frequent where something is young or has changed, and rare
//! otherwise; and whatever they cost, they take a small part of one processor.

use std::{
    ffi::OsString,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    farewell::{self, Ear, Farewell},
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
    events: Sender<Event>,
    /// Of the ear, which hears all that was said before it hears the end.
    ear: Option<OsString>,
    thread: JoinHandle<Report>,
}

enum Event {
    Farewell(Farewell),
    End,
}

impl Watch {
    /// Begins to look at the descendants of this process.
    pub fn start(witness: Witness, library: Arc<Library>, ear: Option<Ear>) -> Self {
        let (events, happened) = channel();
        let name = ear.as_ref().map(|ear| ear.name().to_owned());
        if let Some(ear) = ear {
            ear.listen(events.clone(), |said| said.map_or(Event::End, Event::Farewell));
        }
        let thread = thread::spawn(move || {
            let mut witness = witness;
            let mut pace = Pace::default();
            loop {
                let began = Instant::now();
                let has_news = witness.look(&library, began);
                let next = Instant::now() + pace.pause_after(began, has_news, began.elapsed());
                // Files are read in the pauses: a process may end while a large one is read.
                let mut has_read = false;
                while witness.has_unread() && Instant::now() < next {
                    witness.read_on();
                    has_read = true;
                }
                // What was read may be news.
                let next = if has_read && !witness.has_unread() { Instant::now() } else { next };
                let pause = next.saturating_duration_since(Instant::now());
                match happened.recv_timeout(pause) {
                    Ok(Event::Farewell(farewell)) => witness.hear(farewell, &library),
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            witness.look(&library, Instant::now());
            witness.finish()
        });
        Self { events, ear: name, thread }
    }

    /// The last look, and what all of them have shown.
    pub fn end(self) -> Option<Report> {
        if !self.ear.is_some_and(|ear| farewell::end(&ear)) {
            // Without a thread that would hear it, there is no need to look for its end.
            let _ = self.events.send(Event::End);
        }
        self.thread.join().ok()
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
