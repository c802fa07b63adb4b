//! What each workload measures: the lines of its table.

use super::{
    dimensions::Dimensions,
    job::{Limit, Shape, Task},
    measurement::Cell,
    think::{Think, ThinkKind},
    workload::Workload,
};

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

/// The lines, in the order of the table.
pub fn cells(workload: Workload, dimensions: &Dimensions) -> Vec<Cell> {
    let seconds = dimensions.seconds.unwrap_or(match workload {
        Workload::Sizes | Workload::Limits => 2.0,
        Workload::Mixed => dimensions.long_seconds,
        Workload::EndlessReader => 10.0,
        _ => 5.0,
    });
    match workload {
        Workload::Storm => storm(dimensions),
        Workload::Sizes => VALUE_BYTES
            .map(|(value_bytes, label)| {
                in_one_process(label, Task::Insert { threads: 1, value_bytes, seconds, rate: None })
            })
            .to_vec(),
        Workload::Threads => per_threads(dimensions, &[1, 8, 64, 256], |threads| {
            in_one_process(
                &format!("{}{}", counted(threads, "thread", "threads"), at(dimensions.rate)),
                Task::Insert { threads, value_bytes: 1_000, seconds, rate: dimensions.rate },
            )
        }),
        Workload::Clients => clients(dimensions, seconds),
        Workload::Web => web(dimensions, seconds),
        Workload::Claim => claim(dimensions),
        Workload::EndlessReader => endless_reader(dimensions, seconds),
        Workload::Counter if dimensions.in_transaction => {
            per_threads(dimensions, &[1, 8, 64], |threads| {
                let label = format!("{}, BEGIN", counted(threads, "writer", "writers"));
                in_one_process(&label, Task::Transact { threads, shape: Shape::Count, seconds })
            })
        }
        Workload::Counter => per_threads(dimensions, &[1, 8, 64], |threads| {
            let label = counted(threads, "writer", "writers");
            in_one_process(&label, Task::Count { threads, seconds })
        }),
        Workload::Think => thinks(dimensions, &[0, 100, 1_000])
            .into_iter()
            .flat_map(|think| {
                per_threads(dimensions, &[1, 2, 4, 8, 16], |threads| {
                    let label =
                        format!("{}, {}", think.label(), counted(threads, "thread", "threads"));
                    let shape = Shape::Think { think };
                    in_one_process(&label, Task::Transact { threads, shape, seconds })
                })
            })
            .collect(),
        Workload::Transfer => transfer(dimensions, seconds),
        Workload::Orm => per_threads(dimensions, &[8, 64], |threads| {
            let label = counted(threads, "thread", "threads");
            in_one_process(&label, Task::Transact { threads, shape: Shape::Orm, seconds })
        }),
        Workload::Mixed => mixed(dimensions, seconds),
        Workload::Limits => LIMITS
            .map(|(limit, label)| in_one_process(label, Task::Physics { limit, seconds }))
            .to_vec(),
    }
}

fn storm(dimensions: &Dimensions) -> Vec<Cell> {
    let python = dimensions.python().cloned();
    let cell = |processes| Cell {
        label: match python {
            None => counted(processes, "process", "processes"),
            Some(_) => counted(processes, "Python process", "Python processes"),
        },
        task: Task::Storm { rounds: dimensions.rounds, python: python.clone() },
        processes,
    };
    dimensions.processes.clone().unwrap_or(vec![200]).into_iter().map(cell).collect()
}

fn clients(dimensions: &Dimensions, seconds: f64) -> Vec<Cell> {
    let clients = dimensions.clients.clone().unwrap_or(vec![100, 300, 1_000, 3_000, 10_000]);
    let of_processes = |processes: usize| {
        clients.iter().map(move |&clients| Cell {
            label: format!(
                "{} x {clients} clients{}",
                counted(processes, "process", "processes"),
                at(dimensions.rate)
            ),
            task: Task::Clients {
                clients,
                seconds,
                rate: dimensions.rate.map(|rate| rate / processes as f64),
            },
            processes,
        })
    };
    dimensions
        .processes
        .clone()
        .unwrap_or(vec![1, 2, 4, 8])
        .into_iter()
        .flat_map(of_processes)
        .collect()
}

fn web(dimensions: &Dimensions, seconds: f64) -> Vec<Cell> {
    let of_server = |workers: usize| {
        let clients = dimensions.clients.clone();
        let clients = clients.unwrap_or(vec![1, workers, 2 * workers, 4 * workers]);
        clients.into_iter().map(move |clients| {
            let requests = counted(clients, "request at once", "requests at once");
            let label = format!("{}, {requests}", counted(workers, "worker", "workers"));
            let python = dimensions.python.clone();
            in_one_process(&label, Task::Web { python, workers, clients, seconds })
        })
    };
    dimensions.processes.clone().unwrap_or(vec![4]).into_iter().flat_map(of_server).collect()
}

/// Workers that are threads of one process, and workers that are processes; what is named replaces both.
fn claim(dimensions: &Dimensions) -> Vec<Cell> {
    let jobs = dimensions.jobs;
    let is_default = dimensions.threads.is_none() && dimensions.processes.is_none();
    let chosen = |numbers: &Option<Vec<usize>>| {
        numbers.clone().unwrap_or(if is_default { vec![8, 64] } else { Vec::new() })
    };
    let threads = chosen(&dimensions.threads).into_iter().map(|threads| {
        in_one_process(&counted(threads, "thread", "threads"), Task::Claim { threads, jobs })
    });
    let processes = chosen(&dimensions.processes).into_iter().map(|processes| Cell {
        label: counted(processes, "process", "processes"),
        task: Task::Claim { threads: 1, jobs },
        processes,
    });
    threads.chain(processes).collect()
}

/// The writers alone, and beside a reader who reads during the first half.
fn endless_reader(dimensions: &Dimensions, seconds: f64) -> Vec<Cell> {
    let with_and_without = |threads| {
        [None, Some(seconds / 2.0)].map(|reader_seconds| {
            let writers = counted(threads, "writer", "writers");
            let label = match reader_seconds {
                None => format!("{writers} alone"),
                Some(reader_seconds) => format!("{writers}, a reader of {reader_seconds} s"),
            };
            in_one_process(&label, Task::EndlessReader { threads, reader_seconds, seconds })
        })
    };
    dimensions.threads.clone().unwrap_or(vec![8]).into_iter().flat_map(with_and_without).collect()
}

fn transfer(dimensions: &Dimensions, seconds: f64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for accounts in dimensions.accounts.clone().unwrap_or(vec![10_000, 100]) {
        for think in thinks(dimensions, &[200]) {
            cells.extend(per_threads(dimensions, &[8], |threads| {
                let label = format!(
                    "{accounts} accounts, {}, {}",
                    think.label(),
                    counted(threads, "thread", "threads")
                );
                let shape = Shape::Transfer { accounts, think };
                in_one_process(&label, Task::Transact { threads, shape, seconds })
            }));
        }
    }
    cells
}

/// The short writers alone, and right after that beside the long transaction.
fn mixed(dimensions: &Dimensions, seconds: f64) -> Vec<Cell> {
    let kinds = dimensions.think_kind.clone().unwrap_or(vec![ThinkKind::Busy]);
    let jobs = kinds.into_iter().map(|kind| (Some(kind), dimensions.long_seconds));
    let with_and_without: Vec<_> = [(None, seconds)].into_iter().chain(jobs).collect();
    let per_writers = |threads| {
        with_and_without.iter().map(move |&(long_job, seconds)| {
            let writers = counted(threads, "writer", "writers");
            let label = match long_job {
                None => format!("{writers} alone"),
                Some(ThinkKind::Busy) => format!("{writers}, a job of {seconds} s"),
                Some(ThinkKind::Wait) => format!("{writers}, a job of {seconds} s, waiting"),
            };
            in_one_process(&label, Task::Mixed { threads, long_job, seconds })
        })
    };
    dimensions.threads.clone().unwrap_or(vec![16]).into_iter().flat_map(per_writers).collect()
}

/// Every time in every way; no time at all once.
fn thinks(dimensions: &Dimensions, default_us: &[u64]) -> Vec<Think> {
    let times = dimensions.think_us.clone().unwrap_or(default_us.to_vec());
    let kinds = dimensions.think_kind.clone().unwrap_or(vec![ThinkKind::Busy, ThinkKind::Wait]);
    let mut thinks: Vec<Think> = Vec::new();
    for kind in kinds {
        for &us in &times {
            if us > 0 || thinks.iter().all(|think| think.us > 0) {
                thinks.push(Think { us, kind });
            }
        }
    }
    thinks
}

fn per_threads(
    dimensions: &Dimensions,
    default: &[usize],
    cell: impl Fn(usize) -> Cell,
) -> Vec<Cell> {
    dimensions.threads.clone().unwrap_or(default.to_vec()).into_iter().map(cell).collect()
}

fn in_one_process(label: &str, task: Task) -> Cell {
    Cell { label: label.to_owned(), task, processes: 1 }
}

/// What an open loop adds to a label.
fn at(rate: Option<f64>) -> String {
    rate.map(|rate| format!(", {rate}/s intended")).unwrap_or_default()
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(workload: Workload, dimensions: &Dimensions, expected: &[&str]) {
        let cells = cells(workload, dimensions);
        assert_eq!(cells.iter().map(|cell| cell.label.as_str()).collect::<Vec<_>>(), expected);
    }

    /// The lines of each table, as the workloads are defined.
    #[test]
    fn cells_of_the_workloads() {
        let defaults = Dimensions::default();
        check(
            Workload::Threads,
            &defaults,
            &["1 thread", "8 threads", "64 threads", "256 threads"],
        );
        check(Workload::Counter, &defaults, &["1 writer", "8 writers", "64 writers"]);
        check(
            Workload::Sizes,
            &defaults,
            &["10 B", "100 B", "1 KB", "10 KB", "100 KB", "1 MB", "10 MB"],
        );
        let labels = cells(Workload::Clients, &defaults);
        assert_eq!(labels.len(), 4 * 5);
        assert_eq!(labels[0].label, "1 process x 100 clients");
        assert_eq!(
            (labels[19].label.as_str(), labels[19].processes),
            ("8 processes x 10000 clients", 8)
        );
        check(
            Workload::Web,
            &defaults,
            &[
                "4 workers, 1 request at once",
                "4 workers, 4 requests at once",
                "4 workers, 8 requests at once",
                "4 workers, 16 requests at once",
            ],
        );
        check(
            Workload::Claim,
            &defaults,
            &["8 threads", "64 threads", "8 processes", "64 processes"],
        );
        check(
            Workload::EndlessReader,
            &defaults,
            &["8 writers alone", "8 writers, a reader of 5 s"],
        );
        check(Workload::Orm, &defaults, &["8 threads", "64 threads"]);
        check(Workload::Mixed, &defaults, &["16 writers alone", "16 writers, a job of 30 s"]);
        check(
            Workload::Transfer,
            &defaults,
            &[
                "10000 accounts, 200 us busy, 8 threads",
                "10000 accounts, 200 us waiting, 8 threads",
                "100 accounts, 200 us busy, 8 threads",
                "100 accounts, 200 us waiting, 8 threads",
            ],
        );
        assert_eq!(cells(Workload::Think, &defaults).len(), (1 + 2 + 2) * 5);
    }

    /// What the command line names replaces the default.
    #[test]
    fn cells_as_chosen() {
        let chosen = Dimensions {
            processes: Some(vec![50, 1000]),
            threads: Some(vec![2]),
            think_us: Some(vec![0, 300]),
            in_transaction: true,
            long_seconds: 1.5,
            ..Dimensions::default()
        };
        check(Workload::Storm, &chosen, &["50 processes", "1000 processes"]);
        check(Workload::Threads, &chosen, &["2 threads"]);
        check(Workload::Claim, &chosen, &["2 threads", "50 processes", "1000 processes"]);
        check(Workload::Counter, &chosen, &["2 writers, BEGIN"]);
        check(Workload::Mixed, &chosen, &["2 writers alone", "2 writers, a job of 1.5 s"]);
        check(
            Workload::Think,
            &chosen,
            &["no think, 2 threads", "300 us busy, 2 threads", "300 us waiting, 2 threads"],
        );
    }
}
