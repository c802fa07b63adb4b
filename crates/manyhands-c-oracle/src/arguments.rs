//! The command line.

use std::path::PathBuf;

use crate::plant::Plant;

pub const USAGE: &str = "\
capi-oracle --ours PATH --stock PATH [options]

Plays the same random calls of SQLite's C API on two libraries and compares what they answer.

  --seed N       the seed of the first round; without it, the clock's
  --rounds N     how many rounds (each has the next seed)
  --calls N      how many calls of our library
  --seconds N    how long; without any of the three, 10 seconds
  --only N,N     only these actions of the round, as a failure names them
  --all          go on after a difference, and show each kind of difference once
  --everything   also what is known to differ: the calls of SQLite before 3.3.9, and writes that are left before their last row
  --known FILE   a file with such texts, one in a line; lines that begin with # say why
  --ignore TEXT  a round ends, without a finding, at a difference with this text in the line that begins with first
  --plant KIND   a fault of our library: result-code, hook, order, message, value, destructor, crash, hang
  --coverage     which functions were never called
";

pub struct Arguments {
    pub ours: PathBuf,
    pub stock: PathBuf,
    pub seed: Option<u64>,
    pub rounds: Option<u64>,
    pub calls: Option<u64>,
    pub seconds: Option<u64>,
    pub only: Option<Vec<usize>>,
    pub all: bool,
    pub ignored: Vec<String>,
    pub everything: bool,
    pub plant: Option<Plant>,
    pub coverage: bool,
}

impl Arguments {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            ours: PathBuf::new(),
            stock: PathBuf::new(),
            seed: None,
            rounds: None,
            calls: None,
            seconds: None,
            only: None,
            all: false,
            ignored: Vec::new(),
            everything: false,
            plant: None,
            coverage: false,
        };
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--ours" => arguments.ours = next()?.into(),
                "--stock" => arguments.stock = next()?.into(),
                "--seed" => arguments.seed = Some(number(&next()?)?),
                "--rounds" => arguments.rounds = Some(number(&next()?)?),
                "--calls" => arguments.calls = Some(number(&next()?)?),
                "--seconds" => arguments.seconds = Some(number(&next()?)?),
                "--only" => {
                    let list = next()?;
                    let numbers: Result<_, String> = list.split(',').map(number).collect();
                    arguments.only = Some(numbers?);
                }
                "--known" => arguments.ignored.extend(known(&next()?)?),
                "--everything" => arguments.everything = true,
                "--ignore" => arguments.ignored.push(next()?),
                "--all" => arguments.all = true,
                "--coverage" => arguments.coverage = true,
                "--plant" => {
                    let kind = next()?;
                    let plant = Plant::ALL.iter().find(|(name, _)| *name == kind);
                    arguments.plant = Some(plant.ok_or(format!("no fault is called {kind}"))?.1);
                }
                _ => return Err(format!("what is {word}?")),
            }
        }
        if arguments.ours.as_os_str().is_empty() || arguments.stock.as_os_str().is_empty() {
            return Err("--ours and --stock are needed".into());
        }
        Ok(arguments)
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

/// The texts of a file of known differences.
fn known(file: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
