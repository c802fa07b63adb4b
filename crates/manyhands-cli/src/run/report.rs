//! The summary of `--report`: which processes used SQLite through Manyhands, and which without it.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use super::finding::{Certainty, Finding};

/// Lines of each part; a build system starts thousands of processes.
const LINES_MAX: usize = 100;

/// What was seen of the processes that have to do with SQLite.
#[derive(Default)]
pub struct Report {
    through: Vec<String>,
    without: Vec<String>,
    others: usize,
}

impl Report {
    /// A process has ended, or has become another program.
    pub fn add(
        &mut self,
        pid: i32,
        command: String,
        through: BTreeSet<PathBuf>,
        without: Option<Finding>,
    ) {
        if through.is_empty() && without.is_none() {
            self.others += 1;
        }
        if !through.is_empty() {
            let paths: Vec<_> = through.iter().map(|path| path.display().to_string()).collect();
            self.through.push(format!("{pid}  {command}  ({})", paths.join(", ")));
        }
        if let Some(finding) = without {
            let carrier = finding.carrier.map(|carrier| carrier.path.display().to_string());
            let place = carrier.unwrap_or_else(|| "SQLite of unknown place".into());
            let doubt = match finding.certainty {
                Certainty::Open | Certainty::Loaded => "",
                Certainty::Inside => ", if it used it",
                Certainty::Unseen => ", if it used any",
            };
            self.without.push(format!("{pid}  {command}  ({place}{doubt})"));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("through Manyhands", &self.through), ("WITHOUT Manyhands", &self.without)];
        for (title, lines) in parts {
            writeln!(
                formatter,
                "manyhands: {} used SQLite {title}",
                counted(lines.len(), "process")
            )?;
            for line in lines.iter().take(LINES_MAX) {
                writeln!(formatter, "    {line}")?;
            }
            if lines.len() > LINES_MAX {
                writeln!(formatter, "    and {} more", lines.len() - LINES_MAX)?;
            }
        }
        write!(
            formatter,
            "manyhands: {} seen without any use of SQLite; one of a few milliseconds may not have been",
            counted(self.others, "process")
        )
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}es") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process can be in both parts; the rest is only counted.
    #[test]
    fn the_parts() {
        let mut report = Report::default();
        report.add(1, "a".into(), BTreeSet::from(["/d".into()]), None);
        report.add(2, "b".into(), BTreeSet::new(), None);
        let text = report.to_string();
        assert!(
            text.contains("1 process used SQLite through Manyhands\n    1  a  (/d)\n"),
            "{text}"
        );
        assert!(text.contains("0 processes used SQLite WITHOUT"), "{text}");
        assert!(text.contains("1 process seen"), "{text}");
    }
}
