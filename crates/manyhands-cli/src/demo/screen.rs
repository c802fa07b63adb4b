//! What the demo shows while it runs: live bars on a terminal, one line per second elsewhere.

use std::io::{IsTerminal, stdout};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::crew::Glimpse;
use crate::figure;

/// With the message below it fits into 100 columns.
const TEMPLATE: &str = "{prefix:12.bold} {bar:18.green/dim} {msg}";
/// Steps of a bar, many more than its columns.
const BAR_STEPS: u64 = 1000;

/// The whole screen.
pub struct Screen {
    seconds: f64,
    bars: Option<MultiProgress>,
}

/// One engine's place on it.
pub struct Act {
    title: &'static str,
    seconds: f64,
    /// The engine's bar, and the line below it for the shell; none outside a terminal.
    bars: Option<(ProgressBar, ProgressBar)>,
    seconds_told: u64,
    last: Option<(Glimpse, Option<u64>)>,
}

impl Screen {
    /// For engines that write for `seconds` each.
    pub fn new(seconds: f64) -> Self {
        let bars = stdout()
            .is_terminal()
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stdout()));
        Self { seconds, bars }
    }

    /// The next engine's place.
    pub fn act(&mut self, title: &'static str) -> Act {
        let style =
            |template| ProgressStyle::with_template(template).expect("the template is a constant");
        let bars = self.bars.as_ref().map(|bars| {
            let bar = bars
                .add(ProgressBar::new(BAR_STEPS).with_style(style(TEMPLATE)).with_prefix(title));
            let below = bars.add(ProgressBar::new(BAR_STEPS).with_style(style("{msg:.dim}")));
            (bar, below)
        });
        Act { title, seconds: self.seconds, bars, seconds_told: 0, last: None }
    }
}

impl Act {
    /// Shows the state of things.
    pub fn show(&mut self, glimpse: Glimpse, rows_seen: Option<u64>) {
        self.last = Some((glimpse, rows_seen));
        let running_s = glimpse.running.map_or(0.0, |running| running.as_secs_f64());
        if let Some((bar, below)) = &self.bars {
            bar.set_position(((running_s / self.seconds).min(1.0) * BAR_STEPS as f64) as u64);
            bar.set_message(line(glimpse, self.seconds));
            below.set_message(format!("{:31} {}", "", shell_line(rows_seen)));
        } else if running_s as u64 > self.seconds_told {
            self.seconds_told = running_s as u64;
            self.print(glimpse, rows_seen);
        }
    }

    /// The engine is done; its last figures stay.
    pub fn end(self) {
        match (&self.bars, self.last) {
            (Some((bar, below)), _) => {
                bar.abandon();
                below.abandon();
            }
            (None, Some((glimpse, rows_seen))) => self.print(glimpse, rows_seen),
            (None, None) => (),
        }
    }

    fn print(&self, glimpse: Glimpse, rows_seen: Option<u64>) {
        println!("{:12} {}  {}", self.title, line(glimpse, self.seconds), shell_line(rows_seen));
    }
}

/// `  3.1 s   98,112 commits   21,204/s   worst wait 18.2 ms`, and after the planned time that the rest is awaited.
fn line(glimpse: Glimpse, seconds: f64) -> String {
    let Some(running) = glimpse.running.filter(|running| !running.is_zero()) else {
        return "connecting".to_owned();
    };
    let running_s = running.as_secs_f64();
    let rate = glimpse.totals.commits as f64 / running_s.min(seconds);
    format!(
        "{running_s:4.1} s {commits:>9} commits {rate:>8}/s  worst wait {worst:>7}{errors}",
        commits = figure::whole(glimpse.totals.commits),
        rate = figure::whole(rate as u64),
        worst = figure::time(glimpse.totals.longest_us as f64 / 1e6),
        errors = match glimpse.totals.errors {
            0 => String::new(),
            errors => format!("  {errors} err"),
        },
    )
}

fn shell_line(rows_seen: Option<u64>) -> String {
    match rows_seen {
        None => "sqlite3 shell: not yet".to_owned(),
        Some(rows) => format!("sqlite3 shell: {} rows", figure::whole(rows)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::writer::Progress;

    /// With its prefix and its bar, the longest line fits into 100 columns.
    #[test]
    fn a_line_fits_the_terminal() {
        let totals = Progress { commits: 1_234_567, errors: 1_000, longest_us: 15_020_000 };
        let glimpse = Glimpse { running: Some(Duration::from_millis(12_345)), totals };
        let line = line(glimpse, 5.0);
        assert_eq!(line, "12.3 s 1,234,567 commits  246,913/s  worst wait  15.0 s  1000 err");
        assert!(12 + 1 + 18 + 1 + line.len() <= 100, "{}", line.len());
    }

    /// Before the start there is no rate to divide.
    #[test]
    fn before_the_start() {
        assert_eq!(line(Glimpse { running: None, totals: Progress::default() }, 5.0), "connecting");
        assert_eq!(shell_line(Some(1234)), "sqlite3 shell: 1,234 rows");
    }
}
