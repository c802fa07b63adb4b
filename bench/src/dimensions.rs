//! The sizes of what a workload does, as the command line gives them.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::think::ThinkKind;
use crate::limits::RATE_MAX;

/// The sizes; those that a workload does not know are ignored.
#[derive(Clone, Debug, clap::Args)]
pub struct Dimensions {
    /// Threads of the worker process, for all but `storm`, `sizes`, `clients` and `limits` [default: those that the workload is about].
    #[arg(long, value_delimiter = ',')]
    pub threads: Option<Vec<usize>>,
    /// Processes, for `storm`, `clients` and `claim`, and of the server of `web` [default: 200, and 1,2,4,8, and 8,64, and 4].
    #[arg(long, value_delimiter = ',')]
    pub processes: Option<Vec<usize>>,
    /// Async tasks of each process, for `clients` [default: 100,300,1000,3000,10000]; requests at once, for `web`
    /// [default: one, and once, twice and four times as many as processes].
    #[arg(long, value_delimiter = ',')]
    pub clients: Option<Vec<usize>>,
    /// Jobs in the queue, for `claim`.
    #[arg(long, default_value_t = 20_000)]
    pub jobs: i64,
    /// Rounds of each process, for `storm`.
    #[arg(long, default_value_t = 20)]
    pub rounds: u32,
    /// What the processes of `storm` are.
    #[arg(long, value_enum, default_value_t)]
    pub client: Client,
    /// The interpreter of `--client python` and of `web`; it must find the package `manyhands`, and for `web` gunicorn.
    #[arg(long, default_value = "python3", value_name = "PATH")]
    pub python: PathBuf,
    /// Microseconds that pass inside a transaction, for `think` and `transfer` [default: 0,100,1000 and 200].
    #[arg(long, value_delimiter = ',', value_name = "US")]
    pub think_us: Option<Vec<u64>>,
    /// How they pass, for `think`, `transfer` and `mixed` [default: busy,wait and busy].
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    pub think_kind: Option<Vec<ThinkKind>>,
    /// Accounts, for `transfer` [default: 10000,100].
    #[arg(long, value_delimiter = ',')]
    pub accounts: Option<Vec<i64>>,
    /// For `counter`: BEGIN, UPDATE, COMMIT instead of the UPDATE alone.
    #[arg(long)]
    pub in_transaction: bool,
    /// Seconds that the long transaction of `mixed` thinks.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    pub long_seconds: f64,
    /// An open loop, for `threads` and `clients`: this many operations are intended per second, all clients together, and latency counts from
    /// the intended start [default: each client's next operation when its last one has ended].
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Seconds of each measurement [default: 5, for `sizes` and `limits` 2, for `mixed` the long ones].
    #[arg(long)]
    pub seconds: Option<f64>,
}

/// What the processes of `storm` are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// This program.
    #[default]
    Native,
    /// A Python script: the packages `manyhands` and `sqlite3`.
    Python,
}

impl Dimensions {
    /// The interpreter, if the clients are Python's.
    pub fn python(&self) -> Option<&PathBuf> {
        (self.client == Client::Python).then_some(&self.python)
    }

    /// Can this be measured? The error says what cannot.
    pub fn check(&self) -> Result<()> {
        for seconds in self.seconds.into_iter().chain([self.long_seconds]) {
            ensure!(
                seconds.is_finite() && seconds > 0.0,
                "--seconds and --long-seconds must be more than 0"
            );
        }
        let is_possible = |rate: f64| rate > 0.0 && rate <= RATE_MAX;
        ensure!(
            self.rate.is_none_or(is_possible),
            "--rate must be more than 0, and {RATE_MAX} at most"
        );
        let mut numbers =
            [&self.threads, &self.processes, &self.clients].into_iter().flatten().flatten();
        ensure!(
            numbers.all(|&number| number > 0) && self.jobs > 0,
            "--threads, --processes, --clients and --jobs must be at least 1"
        );
        let mut accounts = self.accounts.iter().flatten();
        ensure!(accounts.all(|&accounts| accounts > 1), "--accounts must be at least 2");
        Ok(())
    }
}

#[cfg(test)]
impl Default for Dimensions {
    /// As if no option was given.
    fn default() -> Self {
        use clap::{Args, FromArgMatches};
        let matches = Self::augment_args(clap::Command::new("test")).get_matches_from(["test"]);
        Self::from_arg_matches(&matches).expect("no option is required")
    }
}
