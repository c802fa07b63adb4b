//! A disk that is full, and then has room again: a small tmpfs, which needs root, and is full to the page; or a
//! library between the writers and the C library, for which it is full to the byte.
//!
//! Every error must be SQLite's own for a full disk; what was acknowledged is there; when there is room again,
//! writing goes on without opening anew.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{READY_PATIENCE, Writer, job, memory_directory, place, report, results};
use crate::clock::now_ns;
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::worker::Act;
use crate::{shell, verdict};

/// How long it may take to fill the disk, and to write again.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a writer waits for its turn: so short that a queue that stands still shows.
const TIMEOUT_MS: u64 = 4_000;

/// SQLITE_FULL and SQLITE_IOERR.
const EXPECTED: [i32; 2] = [13, 10];

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 16)]
    megabytes: u64,
    #[arg(long, default_value_t = 6)]
    ballast_megabytes: usize,
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_round: u64,
    /// Afterwards: with room for so many pages more, one after the other.
    #[arg(long, default_value_t = 256)]
    pages: u64,
    #[arg(long, default_value_t = 0)]
    from_page: u64,
    /// Then: with room for so many bytes more, one after the other. By default the header of a WAL, and four frames.
    #[arg(long, default_value_t = BYTES)]
    bytes: u64,
    #[arg(long, default_value_t = 0)]
    from_byte: u64,
    /// Only each so many-th of them; the seed says from which on.
    #[arg(long, default_value_t = 1)]
    byte_step: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What a writer of pages of this size adds to the WAL.
const PAGE_BYTES: u64 = 512;
const WAL_HEADER_BYTES: u64 = 32;
const FRAME_BYTES: u64 = 24 + PAGE_BYTES;
pub const BYTES: u64 = WAL_HEADER_BYTES + 4 * FRAME_BYTES + 1;

/// Of the file that says how much room there is: no limit.
const ENOUGH: u64 = u64::MAX;

/// A mounted tmpfs. Dropping it takes it away.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, kilobytes: u64) -> Result<SmallDisk> {
        if !rustix::process::geteuid().is_root() {
            bail!("this campaign mounts a tmpfs, which only root may do");
        }
        let size = format!("size={kilobytes}k");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "reliability"])
            .arg(at)
            .status()
            .context("start mount")?;
        ensure!(status.success(), "mount a tmpfs at {}: {status}", at.display());
        Ok(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a writer that is late may still hold files.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (mut green, mut acked, began) = (true, 0, Instant::now());
    for round in arguments.from_round..arguments.from_round + arguments.rounds {
        let (directory, _) = place()?;
        let disk = SmallDisk::mount(directory.path(), arguments.megabytes << 10)?;
        let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(round);
        let (findings, acknowledged) = play(arguments, &disk.0, seed)?;
        acked += acknowledged;
        let Arguments { megabytes, ballast_megabytes, seed, .. } = arguments;
        let replay = format!(
            "full --megabytes {megabytes} --ballast-megabytes {ballast_megabytes} --seed {seed} \
             --from-round {round} --rounds 1"
        );
        green &= report(&findings, &replay, None);
    }
    let (pages_green, pages) = fill_to_the_page(arguments)?;
    let (bytes_green, bytes) = fill_to_the_byte(arguments)?;
    green &= pages_green & bytes_green;
    green &= too_small()?;
    let figures = [
        ("rounds", arguments.rounds),
        ("pages", pages.cases),
        ("bytes", bytes.cases),
        ("acknowledged", (acked + pages.acked + bytes.acked) as u64),
        ("errors", pages.errors.values().chain(bytes.errors.values()).sum::<usize>() as u64),
    ];
    // Who wants to go on asks for one of the three.
    let (from, count) = match arguments {
        Arguments { rounds, from_round, pages: 0, bytes: 0, .. } => (*from_round, *rounds),
        Arguments { pages, from_page, bytes: 0, .. } => (*from_page, *pages),
        Arguments { bytes, from_byte, .. } => (*from_byte, *bytes),
    };
    let (file, seed) = (arguments.json.as_deref(), arguments.seed);
    results::append(file, "full", seed, began, from..from + count, figures)?;
    Ok(green)
}

/// The findings, and how many writes were acknowledged.
fn play(arguments: &Arguments, disk: &Path, seed: u64) -> Result<(Vec<String>, usize)> {
    let database = disk.join("app.db");
    let ballast = disk.join("ballast");
    shell::create(&database)?;
    std::fs::write(&ballast, vec![1; arguments.ballast_megabytes << 20])
        .context("write ballast")?;
    let mut crew = (0..4)
        .map(|number| {
            let mut job = job(&database, Act::Mix, number, seed);
            job.timeout_ms = TIMEOUT_MS;
            Writer::start(&job, None)
        })
        .collect::<Result<Vec<Writer>>>()?;
    for writer in &crew {
        writer.child.wait_for("err", PATIENCE).context("fill the disk")?;
    }
    std::thread::sleep(Duration::from_millis(500));
    std::fs::remove_file(&ballast).context("delete the ballast")?;
    let freed_ns = now_ns();
    let mut findings = Vec::new();
    for writer in &crew {
        match writer.first_ack_after(freed_ns, PATIENCE) {
            Some(_) => {}
            None => findings.push(format!(
                "process {} did not write again; it said last: {:?}",
                writer.job.number,
                writer.child.heard(|heard| heard.lines.last().cloned())
            )),
        }
    }
    let again: Vec<_> =
        crew.iter().filter_map(|writer| writer.first_ack_after(freed_ns, PATIENCE)).collect();
    crew.iter_mut().for_each(|writer| writer.child.say("stop"));
    let mut ledger = Ledger::new(seed, false);
    for writer in crew {
        writer.finish(&mut ledger, &mut findings)?;
    }
    let mut codes = BTreeMap::<(i32, String), usize>::new();
    for failure in &ledger.failures {
        *codes.entry((failure.code, failure.text.clone())).or_default() += 1;
    }
    findings.extend(unclear(&ledger));
    let verdict = verdict::examine(&database, &ledger)?;
    let before = ledger.acked.values().filter(|ack| ack.ns < freed_ns).count();
    println!(
        "{before} acknowledged until there was room, {} in all; {} of 4 wrote again, the first after \
         {:.1} ms; {} errors, {} of unknown outcome: {codes:?}",
        ledger.acked.len(),
        again.len(),
        again.iter().min().map_or(0.0, |ns| (ns - freed_ns) as f64 / 1e6),
        ledger.failures.len(),
        ledger.unknown.len(),
    );
    findings.extend(verdict.findings);
    Ok((findings, ledger.acked.len()))
}

/// The disk has room for a few pages more when the writers begin: for none, for one, and so on, so that it
/// is full at each place of each write. What they say; and afterwards all write again.
fn fill_to_the_page(arguments: &Arguments) -> Result<(bool, Tally)> {
    let (mut green, mut tally) = (true, Tally::default());
    for pages in arguments.from_page..arguments.from_page + arguments.pages {
        let (directory, _) = place()?;
        let disk = SmallDisk::mount(directory.path(), arguments.megabytes << 10)?;
        let ballast = disk.0.join("ballast");
        let database = disk.0.join("app.db");
        shell::create(&database)?;
        let fill = || {
            let found = rustix::fs::statvfs(&disk.0).context("how much room there is")?;
            let room = found.f_bavail.saturating_sub(pages) * found.f_frsize;
            std::fs::write(&ballast, vec![1; room as usize]).context("write ballast")
        };
        let free = || std::fs::remove_file(&ballast).context("delete the ballast");
        let seed = arguments.seed.wrapping_mul(0x9E37).wrapping_add(pages);
        let findings = tally.play(&database, seed, &Preload::default(), fill, free)?;
        let Arguments { megabytes, seed, .. } = arguments;
        let replay = format!(
            "full --megabytes {megabytes} --rounds 0 --from-page {pages} --pages 1 --bytes 0 --seed {seed}"
        );
        green &= report(&findings, &replay, None);
    }
    println!(
        "room for {} to {} pages: {tally}",
        arguments.from_page,
        arguments.from_page + arguments.pages
    );
    Ok((green, tally))
}

/// The same to the byte. The pages are small, so that this is every byte of a few frames.
fn fill_to_the_byte(arguments: &Arguments) -> Result<(bool, Tally)> {
    let (mut green, mut tally) = (true, Tally::default());
    let Arguments { from_byte, bytes, byte_step, seed, .. } = *arguments;
    let first = from_byte + if byte_step > 1 { seed % byte_step } else { 0 };
    for bytes in (first..from_byte + bytes).step_by(byte_step as usize) {
        let place = memory_directory()?;
        let files = place.path().join("files");
        std::fs::create_dir(&files)?;
        let (database, room) = (files.join("app.db"), place.path().join("room"));
        let pages = format!("PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=WAL");
        shell::run(&database, &[&pages])?;
        shell::create(&database)?;
        let set = |bytes: u64| {
            // In place: the writers have mapped it.
            let mut file = std::fs::OpenOptions::new().write(true).open(&room)?;
            file.write_all(&bytes.to_le_bytes()).context("say how much room there is")
        };
        std::fs::write(&room, ENOUGH.to_le_bytes())?;
        let preload = Preload::room(&files, &room);
        let case = seed.wrapping_mul(0x9E37).wrapping_add(bytes);
        let findings = tally.play(&database, case, &preload, || set(bytes), || set(ENOUGH))?;
        let replay =
            format!("full --rounds 0 --pages 0 --from-byte {bytes} --bytes 1 --seed {seed}");
        green &= report(&findings, &replay, Some(place));
    }
    println!("room for {from_byte} to {} bytes, each {byte_step}: {tally}", from_byte + bytes);
    Ok((green, tally))
}

/// The sums of the cases.
#[derive(Default)]
struct Tally {
    cases: u64,
    acked: usize,
    errors: BTreeMap<i32, usize>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { cases, acked, errors } = self;
        write!(f, "{cases} cases, {acked} acknowledged, errors by SQLite's code: {errors:?}")
    }
}

impl Tally {
    /// Three processes begin to write when the disk is as good as full, until each has met that; then it is
    /// freed, and each must write again. The findings.
    fn play(
        &mut self,
        database: &Path,
        seed: u64,
        preload: &Preload,
        fill: impl FnOnce() -> Result<()>,
        free: impl FnOnce() -> Result<()>,
    ) -> Result<Vec<String>> {
        let (mut ledger, mut findings) = (Ledger::new(seed, false), Vec::new());
        let mut crew = (0..3)
            .map(|number| {
                let mut job = job(database, Act::Ask, number, seed);
                job.timeout_ms = TIMEOUT_MS;
                Writer::start_with(&job, None, preload)
            })
            .collect::<Result<Vec<Writer>>>()?;
        for writer in &crew {
            writer.child.wait_for("ready", READY_PATIENCE)?;
        }
        fill()?;
        crew.iter_mut().for_each(|writer| writer.child.say("go"));
        for writer in &crew {
            writer.child.wait_for("err", PATIENCE).context("fill the disk")?;
        }
        free()?;
        let freed_ns = now_ns();
        for writer in &crew {
            if writer.first_ack_after(freed_ns, PATIENCE).is_none() {
                findings.push(format!("process {} did not write again", writer.job.number));
            }
        }
        crew.iter_mut().for_each(|writer| writer.child.say("stop"));
        for writer in crew {
            writer.finish(&mut ledger, &mut findings)?;
        }
        findings.extend(unclear(&ledger));
        findings.extend(verdict::examine(database, &ledger)?.findings);
        self.cases += 1;
        self.acked += ledger.acked.len();
        for failure in &ledger.failures {
            *self.errors.entry(failure.code).or_default() += 1;
        }
        Ok(findings)
    }
}

/// Errors that are not SQLite's for a full disk.
fn unclear(ledger: &Ledger) -> Vec<String> {
    let unclear = ledger.failures.iter().filter(|failure| !EXPECTED.contains(&failure.code));
    let tell = |text: &str| format!("an error that is not SQLite's for a full disk: {text}");
    unclear.take(10).map(|failure| tell(&failure.text)).collect()
}

/// A disk on which not even the queue file has room: a clear error, no signal.
fn too_small() -> Result<bool> {
    let (directory, _) = place()?;
    let disk = SmallDisk::mount(directory.path(), 128)?;
    let database = disk.0.join("app.db");
    shell::create(&database)?;
    let mut writer = Writer::start(&job(&database, Act::Mix, 0, 1), None)?;
    let (status, _) = writer.child.finish(READY_PATIENCE)?;
    println!("opening where there is no room for the queue file: {status:?} (its words above)");
    let clear = status.is_some_and(|status| status.code() == Some(2));
    Ok(report(
        &if clear { vec![] } else { vec![format!("not a clear error but {status:?}")] },
        "full",
        None,
    ))
}
