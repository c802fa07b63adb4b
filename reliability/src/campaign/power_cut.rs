//! Real power cuts: a file system on a loop device, writers on it, and the ioctl with which ext4 and XFS
//! forget at once everything that is not on the disk. Needs root.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;
use rustix::process::Signal;

use super::{END_PATIENCE, READY_PATIENCE, Writer, job, memory_directory, report, results};
use crate::clock::now_ns;
use crate::entry::Operation;
use crate::ledger::Ledger;
use crate::preload::Preload;
use crate::worker::{self, Act};
use crate::{shell, verdict};

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Cuts of each file system.
    #[arg(long, default_value_t = 20)]
    cuts: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 0)]
    from_cut: u64,
    /// Only this file system.
    #[arg(long)]
    file_system: Option<FileSystem>,
    /// No cut begins after so many seconds.
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Control: three sqlite3 shells write instead, at this `synchronous`. At NORMAL something must be
    /// lost, at FULL nothing.
    #[arg(long)]
    stock: Option<String>,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The file systems that know the ioctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    /// XFS needs more room than it uses.
    fn megabytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 64,
            FileSystem::Xfs => 320,
        }
    }
}

/// A mounted file system, in a file. Dropping it takes it away.
struct Disk {
    image: PathBuf,
    at: PathBuf,
}

fn run_command(words: &[&str]) -> Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.with_context(|| format!("start {}; is it installed?", words[0]))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{words:?}: {} ({})", complaint.trim(), output.status);
    Ok(())
}

impl Disk {
    fn make(file_system: FileSystem, place: &Path) -> Result<Disk> {
        let (image, at) = (place.join("image"), place.join("mounted"));
        std::fs::create_dir_all(&at)?;
        File::create(&image)?.set_len(file_system.megabytes() << 20)?;
        let make = format!("mkfs.{}", file_system.name());
        let force = if file_system == FileSystem::Ext4 { "-F" } else { "-f" };
        run_command(&[&make, "-q", force, &image.display().to_string()])?;
        let disk = Disk { image, at };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        let (image, at) = (self.image.display().to_string(), self.at.display().to_string());
        run_command(&["mount", "-o", "loop", &image, &at])
    }

    fn unmount(&self) -> Result<()> {
        // A shell ends by itself when its writer was killed.
        let (end, at) = (Instant::now() + END_PATIENCE, self.at.display().to_string());
        loop {
            match run_command(&["umount", &at]) {
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
                result => return result,
            }
        }
    }

    /// From now on nothing more comes to the disk, and what is in memory only is gone.
    fn cut(&self) -> Result<()> {
        // Without -f: the journal is not written out first.
        run_command(&["xfs_io", "-x", "-c", "shutdown", &self.at.display().to_string()])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

/// The process that writes after the cut.
const HEIR: i64 = 50;

/// Runs the campaign. False when there was a finding.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(reason) = what_is_missing() {
        println!("no power cuts here: {reason}");
        return Ok(true);
    }
    let began = Instant::now();
    let is_chosen = |it: &&FileSystem| arguments.file_system.is_none_or(|only| only == **it);
    let chosen = FileSystem::value_variants().iter().filter(is_chosen);
    // Beside each other: most of a cut's time is spent waiting.
    let ends = std::thread::scope(|scope| {
        let threads: Vec<_> = chosen.map(|it| scope.spawn(|| run_on(arguments, *it))).collect();
        let ends = threads.into_iter().map(|it| it.join().expect("a thread of cuts panicked"));
        ends.collect::<Result<Vec<_>>>()
    })?;
    let (mut green, mut most, mut figures) = (true, 0, BTreeMap::new());
    for (is_green, counted) in ends {
        green &= is_green;
        most = most.max(counted[0].1);
        for (name, figure) in counted {
            *figures.entry(name).or_default() += figure;
        }
    }
    let cuts = arguments.from_cut..arguments.from_cut + most;
    let control = arguments.stock.as_ref().map(|it| format!(" --stock {it}")).unwrap_or_default();
    let (file, name) = (arguments.json.as_deref(), format!("power-cut{control}"));
    results::append(file, &name, arguments.seed, began, cuts, figures)?;
    Ok(green)
}

/// Why no file system can be cut here.
fn what_is_missing() -> Option<&'static str> {
    let can_start = |program: &str| Command::new(program).arg("-V").output().is_ok();
    match () {
        () if !rustix::process::geteuid().is_root() => Some("only root may mount a file system"),
        () if !Path::new("/dev/loop-control").exists() => Some("this machine has no loop devices"),
        () if !can_start("xfs_io") || !can_start("mkfs.xfs") => Some("xfsprogs is not installed"),
        () if !can_start("mkfs.ext4") => Some("e2fsprogs is not installed"),
        () => None,
    }
}

/// Whether all was as it must be, and the figures, the number of cuts first.
fn run_on(
    arguments: &Arguments,
    file_system: FileSystem,
) -> Result<(bool, [(&'static str, u64); 5])> {
    let (name, began) = (file_system.name(), Instant::now());
    let must_lose = arguments.stock.as_deref() == Some("NORMAL");
    let place = memory_directory()?;
    let disk = Disk::make(file_system, place.path())?;
    let (mut cuts, mut acked, mut red, mut late, mut late_and_gone) = (0, 0, 0, 0, 0);
    while cuts < arguments.cuts && began.elapsed().as_secs() < arguments.seconds {
        let number = arguments.from_cut + cuts;
        let cut =
            play(arguments, &disk, number).with_context(|| format!("cut {number} of {name}"))?;
        let seed = arguments.seed;
        let control =
            arguments.stock.as_ref().map(|it| format!(" --stock {it}")).unwrap_or_default();
        let replay = format!(
            "power-cut --file-system {name} --seed {seed} --from-cut {number} --cuts 1{control}"
        );
        red += u64::from(!cut.findings.is_empty());
        if !must_lose {
            report(&cut.findings, &replay, None);
        }
        cuts += 1;
        acked += cut.acknowledged;
        late += cut.late;
        late_and_gone += cut.late_and_gone;
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{name}: {cuts} power cuts, {acked} acknowledged before them, {red} with findings, {seconds:.0} s; \
         {late} acknowledged during the cuts, {late_and_gone} of them gone"
    );
    let must_be = (red > 0) == must_lose;
    if must_lose && !must_be {
        let replay = format!(
            "power-cut --file-system {name} --seed {} --from-cut {} --cuts {cuts} --stock NORMAL",
            arguments.seed, arguments.from_cut
        );
        results::note(format!("{name} lost nothing: these cuts prove nothing"), replay);
    }
    let figures = [
        ("cuts", cuts),
        ("acknowledged", acked),
        ("with_a_loss", red),
        ("late", late),
        ("late_and_gone", late_and_gone),
    ];
    Ok((must_be, figures))
}

/// What came of a cut.
struct Cut {
    findings: Vec<String>,
    /// Before the ioctl was begun.
    acknowledged: u64,
    /// While it was under way.
    late: u64,
    late_and_gone: u64,
}

fn play(arguments: &Arguments, disk: &Disk, number: u64) -> Result<Cut> {
    let seed = arguments.seed.wrapping_mul(1_000_003).wrapping_add(number);
    let mut dice = Rng::with_seed(seed);
    let database = disk.at.join("app.db");
    for rest in ["", "-wal", "-shm", "-hands"] {
        let _ = std::fs::remove_file(format!("{}{rest}", database.display()));
    }
    shell::create(&database)?;
    run_command(&["sync", "-f", &disk.at.display().to_string()])?;
    let start = |number: i64| {
        let mut job = job(&database, Act::Mix, number, seed);
        if let Some(synchronous) = &arguments.stock {
            (job.act, job.synchronous) = (Act::Stock, synchronous.clone());
        }
        // What they say after the cut is of no interest.
        let preload = Preload::default().complain_to(Path::new("/dev/null"));
        Writer::start_with(&job, None, &preload)
    };
    let crew = (0..3).map(start).collect::<Result<Vec<Writer>>>()?;
    for writer in &crew {
        writer.child.wait_for("ready", READY_PATIENCE)?;
    }
    std::thread::sleep(Duration::from_millis(dice.u64(20..400)));
    let cut_ns = now_ns();
    disk.cut()?;
    let (mut ledger, mut findings) = (Ledger::new(seed, false), Vec::new());
    for writer in &crew {
        writer.child.signal(Signal::KILL)?;
    }
    // How they end is no finding: they have outlived their file system. XFS, for example, sends SIGBUS to
    // who writes to the mapped wal-index.
    for mut writer in crew {
        let (_, heard) = writer.child.finish(END_PATIENCE)?;
        ledger.note(&heard, &[writer.job.number * 100], true, false);
    }
    // A sync that is under way while the file system is shut down may return success, and what it was
    // about be gone: the ioctl is not quite a power cut. So only what was said before it counts.
    let late: Vec<Operation> =
        ledger.acked.extract_if(.., |_, ack| ack.ns >= cut_ns).map(|(late, _)| late).collect();
    ledger.unknown.extend(&late);
    // What failed after the cut may have been written before it.
    let failed = ledger.failures.drain(..).map(|failure| failure.operation);
    ledger.unknown.extend(failed);
    disk.unmount()?;
    disk.mount()?;
    let acknowledged = ledger.acked.len() as u64;
    let heir = worker::Arguments { count: 5, ..job(&database, Act::Mix, HEIR, seed) };
    let mut heir = Writer::start(&heir, None)?;
    heir.child.dies_within(END_PATIENCE)?;
    heir.finish(&mut ledger, &mut findings)?;
    findings.extend(super::unexpected_errors(&ledger, false));
    let contents = verdict::read(&database)?;
    findings.extend(verdict::judge(&contents, &ledger).findings);
    let leaves_a_row = |it: &&Operation| ledger.kind(**it).parts() > 0;
    let is_gone = |it: &&Operation| !contents.rows.contains_key(it);
    let late_and_gone = late.iter().filter(leaves_a_row).filter(is_gone).count() as u64;
    Ok(Cut { findings, acknowledged, late: late.len() as u64, late_and_gone })
}
