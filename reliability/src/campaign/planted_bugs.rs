//! A campaign that finds nothing proves nothing: faults are planted into the product itself, one at a time,
//! and for each a campaign must find something.
//!
//! The program is executed again with `MANYHANDS_PLANTED` in its environment, which the writer processes of
//! its campaigns inherit. A campaign that breaks off counts as one that has found something: whoever runs it
//! sees it fail. One that hangs does not. First of all each campaign runs without a fault: it must find
//! nothing then.

mod list;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::list::{BUGS, Bug};
use super::{memory_directory, results};

/// How long a campaign may take to find something.
const PATIENCE: Duration = Duration::from_secs(300);

/// With how many seeds a campaign is tried.
const SEEDS: u64 = 8;

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only this one.
    #[arg(long)]
    only: Option<String>,
    /// Only those that a few seconds suffice for.
    #[arg(long)]
    quick: bool,
    /// Without the runs that must find nothing.
    #[arg(long)]
    no_controls: bool,
    /// Writes what was found to this file, as a table.
    #[arg(long)]
    table: Option<PathBuf>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many of them, from this one on.
    #[arg(long, default_value_t = usize::MAX)]
    bugs: usize,
    #[arg(long, default_value_t = 0)]
    from_bug: usize,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What a campaign said.
struct Told {
    /// The first finding; `None` when there was none.
    finding: Option<String>,
    took: Duration,
}

/// How many there are.
#[cfg(test)]
pub fn count() -> u64 {
    BUGS.len() as u64
}

/// Plants all of them. False when one was not found, or something was found where nothing was planted.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let chosen: Vec<&Bug> = BUGS
        .iter()
        .filter(|bug| arguments.only.as_ref().is_none_or(|only| only == bug.name))
        .filter(|bug| bug.is_quick || !arguments.quick)
        .skip(arguments.from_bug)
        .take(arguments.bugs)
        .collect();
    ensure!(!chosen.is_empty(), "no such bug; docs/reliability/planted.md lists them");
    let (mut wrong, began) = (0, Instant::now());
    // A copy: to build the tests can replace the program that runs.
    let place = tempfile::tempdir().context("a temporary directory")?;
    let program = &place.path().join("reliability");
    let original = std::env::current_exe().context("find this program")?;
    std::fs::copy(&original, program).with_context(|| format!("copy {}", original.display()))?;
    let methods: BTreeSet<&str> = chosen.iter().flat_map(|bug| bug.methods).copied().collect();
    for method in methods.iter().filter(|_| !arguments.no_controls) {
        let told = play(program, method, None, arguments.seed)?;
        if let Some(finding) = &told.finding {
            println!("FINDING without any bug, {method}: {finding}");
            let what = format!("found where nothing was planted: {finding}");
            results::note(what, format!("{method} --seed {}", arguments.seed));
            wrong += 1;
        }
    }
    let mut table = String::new();
    let mut caught = 0_u64;
    for bug in &chosen {
        let by = catch(program, bug, arguments.seed)?;
        for (method, seed, Told { finding, took }) in &by {
            let (finding, took) = (finding.as_deref().unwrap_or_default(), took.as_secs_f64());
            println!("caught {} by {method}, seed {seed}, in {took:.1} s: {finding}", bug.name);
            let finding: String = finding.chars().take(110).collect();
            let (name, what, finding) = (bug.name, bug.what, finding.replace('|', "\\|"));
            writeln!(table, "| `{name}` | {what} | `{method}` | {took:.0} s | {finding} |")?;
        }
        if by.len() < bug.finders() {
            println!(
                "FINDING {} survives, {:?} found it {} times",
                bug.name,
                bug.methods,
                by.len()
            );
            let replay = format!("planted-bugs --only {} --seed {}", bug.name, arguments.seed);
            println!("replay: reliability {replay}");
            results::note(format!("{} survives", bug.name), replay);
            wrong += 1;
        } else {
            caught += 1;
        }
    }
    println!("{} planted, {caught} caught, {wrong} wrong", chosen.len());
    if let Some(path) = &arguments.table {
        let text = format!("{HEAD}{table}");
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    let (from, planted) = (arguments.from_bug as u64, chosen.len() as u64);
    let (file, seed) = (arguments.json.as_deref(), arguments.seed);
    let figures = [("planted", planted), ("caught", caught)];
    results::append(file, "planted-bugs", seed, began, from..from + planted, figures)?;
    Ok(wrong == 0)
}

/// What stands above the table.
const HEAD: &str = "# Planted bugs

`reliability planted-bugs` plants each of these faults into the product (a build with the feature `planted`,
which no user gets; the environment variable `MANYHANDS_PLANTED` names the fault) and runs campaigns until
one finds something. It fails when one survives, and when a campaign finds something where nothing was planted.
This table is its output (`--table`). What is called `test` are the tests of a package, built with that feature.
Why the faults are calls in the product, and not patches: [decision 21](../decisions/0021-planted-faults-are-calls.md).

| fault | what is wrong | found by | after | its words |
|---|---|---|---|---|
";

/// The methods that find something, with their seeds: the first one, or all of them.
fn catch(program: &Path, bug: &Bug, first_seed: u64) -> Result<Vec<(&'static str, u64, Told)>> {
    let mut by = Vec::new();
    for method in bug.methods {
        let seeds = if method.starts_with("test ") { 1 } else { SEEDS };
        for seed in first_seed..first_seed + seeds {
            if by.len() == bug.finders() {
                return Ok(by);
            }
            let told = play(program, method, Some(bug.name), seed)?;
            if told.finding.is_some() {
                by.push((*method, seed, told));
                break;
            }
        }
    }
    Ok(by)
}

/// Runs one campaign, with a fault or without.
fn play(program: &Path, method: &str, bug: Option<&str>, seed: u64) -> Result<Told> {
    // What is left behind is left here, and goes away.
    let place = memory_directory()?;
    let (output, complaints) = (place.path().join("output"), place.path().join("complaints"));
    let mut command = match method.strip_prefix("test ") {
        Some(words) => tests(words)?,
        None => {
            let mut command = Command::new(program);
            command.args(method.split(' ')).args(["--seed", &seed.to_string()]);
            command
        }
    };
    command.env_remove("MANYHANDS_PLANTED").env("TMPDIR", place.path());
    if let Some(bug) = bug {
        command.env("MANYHANDS_PLANTED", bug);
    }
    command.stdin(Stdio::null());
    command.stdout(std::fs::File::create(&output)?).stderr(std::fs::File::create(&complaints)?);
    let began = Instant::now();
    let mut process = command.spawn().with_context(|| format!("start {method}"))?;
    let (mut ended, mut found) = (None, false);
    while ended.is_none() && !found && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
        ended = process.try_wait().context("wait for a campaign")?;
        // The first finding is enough.
        found = read(&output)?.lines().any(|line| line.starts_with("FINDING "));
    }
    if ended.is_none() {
        // Its writers end when it does.
        process.kill().context("end a campaign")?;
        process.wait().context("wait for a campaign")?;
        if !found {
            println!("{method} with {bug:?} was ended after {PATIENCE:?}");
        }
    }
    let took = began.elapsed();
    let (output, complaints) = (read(&output)?, read(&complaints)?);
    let failed = found || ended.is_some_and(|status| !status.success());
    let words = || {
        let finding = output.lines().find_map(|line| line.strip_prefix("FINDING "));
        let complaint = || complaints.lines().find(|line| line.starts_with("reliability: "));
        let words = finding.or_else(complaint).map(str::to_owned);
        let words = words
            .or_else(|| failed_test(&output))
            .or_else(|| complaints.lines().last().map(str::to_owned));
        // The same wherever it runs.
        let place = format!("{}/", place.path().display());
        words.unwrap_or_default().replace(&place, "")
    };
    Ok(Told { finding: failed.then(words), took })
}

/// The first test that failed, by the output of all, and what it said.
fn failed_test(output: &str) -> Option<String> {
    let name = output.lines().find(|line| line.contains("FAILED"))?;
    let mut said = output.lines().skip_while(|line| !line.contains(" panicked at "));
    Some(format!("{name} {}", said.nth(1).unwrap_or_default()))
}

/// The tests of a package, built before their time counts.
fn tests(words: &str) -> Result<Command> {
    let (package, filter) = words.split_once(' ').unwrap_or((words, ""));
    let mut build = Command::new("cargo");
    build.current_dir(env!("CARGO_MANIFEST_DIR"));
    build.args([
        "test",
        "--quiet",
        "--locked",
        "--release",
        "--features",
        "planted",
        "-p",
        package,
    ]);
    let mut test = Command::new("cargo");
    test.current_dir(env!("CARGO_MANIFEST_DIR")).args(build.get_args());
    let built = build.args(["--tests", "--no-run"]).status().context("start cargo")?;
    ensure!(built.success(), "the tests of {package} were not built");
    test.args(["--tests", "--", filter]);
    Ok(test)
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
