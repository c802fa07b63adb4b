//! What a power cut leaves: all that is safe, and of what is not, whatever the disk happened to have
//! written.

use clap::ValueEnum;
use fastrand::Rng;

use super::disk::{self, Change, Disk};
use super::recording::Files;

/// What a disk writes at once, or not at all.
const SECTOR: u64 = 512;

/// Which part of what is not safe is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Mode {
    /// None.
    Drop,
    /// All.
    All,
    /// Some changes, at random.
    Subset,
    /// The last change only.
    Last,
    /// The changes up to a random one, of which a part is missing.
    Torn,
    /// Random sectors of each write.
    Sectors,
    /// The files have their sizes already, but what they grew by is zero.
    Grown,
}

/// All modes.
pub const MODES: [Mode; 7] =
    [Mode::Drop, Mode::All, Mode::Subset, Mode::Last, Mode::Torn, Mode::Sectors, Mode::Grown];

/// Builds what is there after a cut.
pub fn build(disk: &Disk, mode: Mode, seed: u64) -> Files {
    let mut dice = Rng::with_seed(seed);
    let mut names = disk.safe_names.clone();
    let count = match mode {
        Mode::Drop | Mode::Last => 0,
        Mode::All | Mode::Grown => disk.namings.pending.len(),
        // A directory's changes keep their order.
        Mode::Subset | Mode::Torn | Mode::Sectors => dice.usize(..=disk.namings.pending.len()),
    };
    for (_, naming) in &disk.namings.pending[..count] {
        disk::name(&mut names, naming);
    }
    let numbers = disk.files.iter().flat_map(|file| file.changes.pending.iter().map(|it| it.0));
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    let last = match mode {
        Mode::Torn => dice.choice(&numbers).copied(),
        _ => numbers.last().copied(),
    };
    let mut files = Files::new();
    for (name, file) in names {
        let file = &disk.files[file];
        let mut content = file.safe.clone();
        for (number, change) in &file.changes.pending {
            let kept = match mode {
                Mode::Drop => None,
                Mode::All => Some(change.clone()),
                Mode::Subset => dice.bool().then(|| change.clone()),
                Mode::Last => (Some(*number) == last).then(|| change.clone()),
                Mode::Torn if Some(*number) > last => None,
                Mode::Torn if Some(*number) == last => Some(tear(change, &mut dice)),
                Mode::Torn => Some(change.clone()),
                Mode::Grown => Some(forget(change, file.safe.len())),
                Mode::Sectors => {
                    scatter(&mut content, change, &mut dice);
                    None
                }
            };
            if let Some(change) = kept {
                disk::change(&mut content, &change);
            }
        }
        files.insert(name, content);
    }
    files
}

/// The beginning of a write.
fn tear(change: &Change, dice: &mut Rng) -> Change {
    match change {
        Change::Write { offset, bytes } => {
            let sectors = bytes.len() as u64 / SECTOR;
            let count = (dice.u64(..=sectors) * SECTOR) as usize;
            Change::Write { offset: *offset, bytes: bytes[..count.min(bytes.len())].into() }
        }
        Change::Size(size) => Change::Size(*size),
    }
}

/// A write of zeros, where the file was not so long before; nothing elsewhere.
fn forget(change: &Change, safe_bytes: usize) -> Change {
    match change {
        Change::Write { offset, bytes } => {
            let start = (*offset as usize).max(safe_bytes);
            let end = *offset as usize + bytes.len();
            Change::Write { offset: start as u64, bytes: vec![0; end.saturating_sub(start)].into() }
        }
        Change::Size(size) => Change::Size(*size),
    }
}

/// Writes random sectors of a change.
fn scatter(content: &mut Vec<u8>, change: &Change, dice: &mut Rng) {
    let Change::Write { offset, bytes } = change else {
        if dice.bool() {
            disk::change(content, change);
        }
        return;
    };
    let (mut at, end) = (*offset, offset + bytes.len() as u64);
    while at < end {
        let next = ((at / SECTOR + 1) * SECTOR).min(end);
        if dice.bool() {
            let part = &bytes[(at - offset) as usize..(next - offset) as usize];
            disk::change(content, &Change::Write { offset: at, bytes: part.into() });
        }
        at = next;
    }
}
