//! `manyhands backup`: a copy of a database that others write meanwhile, as of one moment. The copy has its name only when it is whole, on the
//! disk, and was read once.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use manyhands::{BackupStep, Connection, Database, Journal, params};

use crate::{
    figure::{time, whole},
    inside::wal::beside,
    top::words::bytes,
};

/// So many pages are copied between two looks at the progress.
const PAGES: u32 = 1000;
/// How long a lock of another program is waited for, and how often it is tried.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
/// See [`LOCK_PATIENCE`].
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// What `manyhands backup` is given.
#[derive(clap::Args)]
pub struct Arguments {
    /// The database file.
    file: PathBuf,
    /// The copy, which must not be there yet.
    copy: PathBuf,
    /// Read each index of the copy against its table, too.
    #[arg(long)]
    deep: bool,
}

/// The copy while it has no name yet. It goes away if it is not finished.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            // An error leaves nothing to do: most of them are not there.
            let _ = fs::remove_file(beside(&self.0, suffix));
        }
    }
}

/// Copies, verifies, and gives the copy its name.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (source, copy) = (&arguments.file, &arguments.copy);
    if copy.symlink_metadata().is_ok() {
        bail!("{} is there already: remove it, or choose another name", copy.display());
    }
    ensure!(source.is_file(), "{} is not there", source.display());
    let began = Instant::now();
    let unfinished = Unfinished(beside(copy, &format!(".{}", std::process::id())));
    let pages = copy_pages(source, &unfinished.0)
        .with_context(|| format!("copy {} to {}", source.display(), copy.display()))?;
    verify(&unfinished.0, arguments.deep)?;
    let file = File::open(&unfinished.0)?;
    file.sync_all().context("write the copy to the disk")?;
    // Not over another: a link fails where somebody was faster.
    fs::hard_link(&unfinished.0, copy).with_context(|| format!("name {}", copy.display()))?;
    fs::remove_file(&unfinished.0)?;
    let folder = copy.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?
        .sync_all()
        .context("write its name to the disk")?;
    println!(
        "{}: {} in {} pages, copied and verified in {}",
        copy.display(),
        bytes(file.metadata()?.len()),
        whole(pages.into()),
        time(began.elapsed().as_secs_f64())
    );
    Ok(ExitCode::SUCCESS)
}

/// Copies the state of this moment; how many pages it has.
fn copy_pages(source: &Path, copy: &Path) -> Result<u32> {
    let mut from = Database::builder(source).read_only(true).open()?.connect()?;
    // One snapshot for all steps: else each commit of others would begin the copy anew.
    from.execute("BEGIN", params![])?;
    from.query("SELECT count(*) FROM sqlite_schema", params![])?;
    // Nobody else knows the copy: it needs no queue.
    let mut to = Database::builder(copy).journal(Journal::Keep).open()?.connect()?;
    let pages = copy_in_steps(&mut from, &mut to)?;
    from.execute("ROLLBACK", params![])?;
    Ok(pages)
}

fn copy_in_steps(from: &mut Connection, to: &mut Connection) -> Result<u32> {
    let bar = ProgressBar::new(0).with_style(ProgressStyle::with_template(
        "{bar:40} {percent:>3} % {pos} of {len} pages, {eta} left",
    )?);
    let mut backup = from.backup("main", to, "main")?;
    let mut waits_since = Instant::now();
    loop {
        match backup.step(Some(PAGES))? {
            BackupStep::Done => break,
            BackupStep::More => waits_since = Instant::now(),
            BackupStep::Busy | BackupStep::Locked => {
                ensure!(waits_since.elapsed() < LOCK_PATIENCE, "another program holds a lock");
                thread::sleep(LOCK_RETRY);
            }
        }
        bar.set_length(backup.page_count().into());
        bar.set_position((backup.page_count() - backup.remaining()).into());
    }
    bar.finish_and_clear();
    let pages = backup.page_count();
    backup.finish()?;
    Ok(pages)
}

/// Reads the copy, as an application will.
fn verify(copy: &Path, deep: bool) -> Result<()> {
    let check = if deep { "integrity_check" } else { "quick_check" };
    let read = || {
        let database = Database::builder(copy).read_only(true).open()?;
        let rows = database.connect()?.query(&format!("PRAGMA {check}"), params![])?;
        rows.iter().map(|row| row.get(0)).collect::<Result<Vec<String>, _>>()
    };
    let told = read().unwrap_or_else(|error| vec![error.to_string()]);
    if told != ["ok"] {
        let first = told.first().map(String::as_str).unwrap_or_default();
        bail!(
            "the copy is damaged, and was removed; look at the database with `manyhands doctor`: {first}"
        );
    }
    Ok(())
}
