//! `manyhands demo`: the main job, side by side. 200 processes write one file, through Manyhands and then through
//! stock SQLite, both at full durability, while Debian's `sqlite3` shell reads the same file.

pub mod writer;

mod crew;

mod screen;

mod shell;

mod verdict;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, ensure};
use rustix::fs::statfs;

use self::{
    screen::Screen,
    shell::{LiveReader, Shell},
    verdict::{Figures, Verdict},
    writer::Engine,
};

/// The magic number of tmpfs in statfs(2).
const TMPFS: u64 = 0x0102_1994;

/// What `manyhands demo` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// Writing processes.
    #[arg(long, default_value_t = 200)]
    processes: usize,
    /// Seconds for each engine.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Where the database files are created; it should be on a disk.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

/// Shows both engines at work. The exit code is 1 if a file does not hold what was acknowledged.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { processes, seconds, ref directory } = *arguments;
    ensure!(processes > 0, "--processes must be at least 1");
    ensure!(seconds.is_finite() && seconds > 0.0, "--seconds must be more than 0");
    let shell = Shell::find()?;
    println!(
        "{processes} processes write one SQLite file, {seconds} s per engine; every commit is durable before it is"
    );
    println!("acknowledged (synchronous=FULL). Meanwhile the `sqlite3` shell reads the same file.");
    println!(
        "Manyhands {}, SQLite {}, {} cores\n",
        env!("CARGO_PKG_VERSION"),
        rusqlite::version(),
        std::thread::available_parallelism()?
    );
    if statfs(directory).context("which file system is it?")?.f_type as u64 == TMPFS {
        eprintln!(
            "warning: this directory lies in memory: a sync costs nothing here. Choose a disk with --directory"
        );
    }
    let mut screen = Screen::new(seconds);
    let mut verdicts = Vec::new();
    for (engine, title) in [(Engine::Manyhands, "Manyhands"), (Engine::Stock, "stock SQLite")] {
        verdicts.push(perform(arguments, engine, title, &shell, &mut screen)?);
    }
    drop(screen);
    println!("\n{}", verdict::table(&verdicts).trim_fmt());
    verdict::remarks(&verdicts).iter().for_each(|remark| println!("{remark}"));
    Ok(if verdicts.iter().all(Verdict::is_sound) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One engine, from its empty file to the verdict on it.
fn perform(
    arguments: &Arguments,
    engine: Engine,
    title: &'static str,
    shell: &Shell,
    screen: &mut Screen,
) -> Result<Verdict> {
    let place =
        tempfile::Builder::new().prefix("manyhands-demo-").tempdir_in(&arguments.directory)?;
    let database = place.path().join("demo.db");
    shell.ask(
        &database,
        "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)",
    )?;
    let mut act = screen.act(title);
    let reader = LiveReader::start(shell.clone(), database.clone());
    let (processes, seconds) = (arguments.processes, arguments.seconds);
    let outcome = crew::work(engine, &database, processes, seconds, |glimpse| {
        act.show(glimpse, reader.rows());
    });
    drop(reader);
    act.end();
    let figures = match outcome {
        Ok(reports) => Figures::of(&reports, seconds),
        Err(error) => return Ok(Verdict::failed(title, format!("{error:#}"))),
    };
    let stored = shell.ask(&database, "SELECT count(*) FROM t")?;
    let stored = stored.parse().with_context(|| format!("sqlite3 counted {stored:?}"))?;
    let integrity = shell.ask(&database, "PRAGMA integrity_check(1)")?;
    Ok(Verdict::of(title, figures, stored, integrity))
}
