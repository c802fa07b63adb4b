//! The workloads: their names, what each measures, and on which engines by default.

use clap::ValueEnum;

use super::{
    engine::EngineName,
    job::{Limit, Task},
    measurement::Cell,
};

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Many short-lived processes: open, insert one row, close, pause.
    Storm,
    /// One thread, one insert per transaction, 10 B to 10 MB.
    Sizes,
    /// 1 KB inserts by 1 to 256 threads of one process.
    Threads,
    /// 1 to 64 threads add one to four rows.
    Counter,
    /// What the machine can do at best: syncs, one giant transaction, round trips.
    Limits,
}

/// The sizes of what a workload does; those that it does not know are ignored.
#[derive(Clone, Debug)]
pub struct Dimensions {
    /// Threads of the worker process.
    pub threads: Option<Vec<usize>>,
    /// Worker processes.
    pub processes: Option<Vec<usize>>,
    /// Rounds of each process.
    pub rounds: u32,
    /// Seconds of each measurement.
    pub seconds: Option<f64>,
}

const VALUE_BYTES: [(usize, &str); 7] = [
    (10, "10 B"),
    (100, "100 B"),
    (1_000, "1 KB"),
    (10_000, "10 KB"),
    (100_000, "100 KB"),
    (1_000_000, "1 MB"),
    (10_000_000, "10 MB"),
];

const LIMITS: [(Limit, &str); 6] = [
    (Limit::SyncAppend, "fdatasync, append 4 KiB"),
    (Limit::SyncOverwrite, "fdatasync, overwrite 4 KiB"),
    (Limit::GiantSmallRows, "one stock transaction, rows of 20 B"),
    (Limit::GiantLargeRows, "one stock transaction, rows of 1 KB"),
    (Limit::PipeRoundTrip, "pipe to a process and back"),
    (Limit::FutexRoundTrip, "futex to a thread and back"),
];

impl Workload {
    /// The name as on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Storm => "storm",
            Self::Sizes => "sizes",
            Self::Threads => "threads",
            Self::Counter => "counter",
            Self::Limits => "limits",
        }
    }

    /// What is measured, in the order of the table.
    pub fn cells(self, dimensions: &Dimensions) -> Vec<Cell> {
        let seconds = dimensions.seconds.unwrap_or(match self {
            Self::Threads | Self::Counter => 5.0,
            Self::Storm | Self::Sizes | Self::Limits => 2.0,
        });
        let threads = |default: &[usize]| dimensions.threads.clone().unwrap_or(default.to_vec());
        match self {
            Self::Storm => {
                let cell = |processes| Cell {
                    label: counted(processes, "process", "processes"),
                    task: Task::Storm { rounds: dimensions.rounds },
                    processes,
                };
                dimensions.processes.clone().unwrap_or(vec![200]).into_iter().map(cell).collect()
            }
            Self::Sizes => VALUE_BYTES
                .map(|(value_bytes, label)| {
                    in_one_process(label, Task::Insert { threads: 1, value_bytes, seconds })
                })
                .to_vec(),
            Self::Threads => threads(&[1, 8, 64, 256])
                .into_iter()
                .map(|threads| {
                    let task = Task::Insert { threads, value_bytes: 1_000, seconds };
                    in_one_process(&counted(threads, "thread", "threads"), task)
                })
                .collect(),
            Self::Counter => threads(&[1, 8, 64])
                .into_iter()
                .map(|threads| {
                    in_one_process(
                        &counted(threads, "writer", "writers"),
                        Task::Count { threads, seconds },
                    )
                })
                .collect(),
            Self::Limits => LIMITS
                .map(|(limit, label)| in_one_process(label, Task::Physics { limit, seconds }))
                .to_vec(),
        }
    }

    /// The engines to compare, if the user names none.
    pub fn engines(self) -> Vec<EngineName> {
        match self {
            Self::Storm | Self::Sizes => vec![EngineName::Manyhands, EngineName::Stock],
            Self::Threads | Self::Counter => {
                vec![EngineName::Manyhands, EngineName::Stock, EngineName::StockMutex]
            }
            Self::Limits => vec![EngineName::Stock],
        }
    }

    /// Can this engine run it? The error says why not.
    pub fn accepts(self, engine: EngineName) -> Result<(), String> {
        match self {
            Self::Storm if engine.has_application_mutex() => {
                Err(format!("{}: a mutex of the application cannot order processes", engine.name()))
            }
            Self::Limits if engine != EngineName::Stock => {
                Err(format!("{}: limits measures the machine, not an engine", engine.name()))
            }
            _ => Ok(()),
        }
    }
}

fn in_one_process(label: &str, task: Task) -> Cell {
    Cell { label: label.to_owned(), task, processes: 1 }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Dimensions =
        Dimensions { threads: None, processes: None, rounds: 20, seconds: None };

    fn check(workload: Workload, dimensions: &Dimensions, expected: &[&str]) {
        let cells = workload.cells(dimensions);
        assert_eq!(cells.iter().map(|cell| cell.label.as_str()).collect::<Vec<_>>(), expected);
    }

    /// The lines of each table, as WORKLOADS defines them.
    #[test]
    fn cells_of_the_workloads() {
        check(
            Workload::Threads,
            &DEFAULTS,
            &["1 thread", "8 threads", "64 threads", "256 threads"],
        );
        check(Workload::Counter, &DEFAULTS, &["1 writer", "8 writers", "64 writers"]);
        check(
            Workload::Sizes,
            &DEFAULTS,
            &["10 B", "100 B", "1 KB", "10 KB", "100 KB", "1 MB", "10 MB"],
        );
        let chosen =
            Dimensions { processes: Some(vec![50, 1000]), threads: Some(vec![2]), ..DEFAULTS };
        check(Workload::Storm, &chosen, &["50 processes", "1000 processes"]);
        check(Workload::Threads, &chosen, &["2 threads"]);
    }

    /// A mutex in each of 200 processes would be a mutex in name only.
    #[test]
    fn no_application_mutex_in_the_storm() {
        assert!(Workload::Storm.accepts(EngineName::StockMutex).is_err());
        assert!(Workload::Storm.accepts(EngineName::StockNormal).is_ok());
        assert!(Workload::Threads.accepts(EngineName::StockMutex).is_ok());
        assert!(Workload::Limits.accepts(EngineName::Manyhands).is_err());
    }
}
