//! A recording, cut at every event, in every way.
//!
//! After each event the words said so far are what must be there, and the next operation of each writer
//! may be. An image that was looked into before is not opened again, but compared again when more was
//! said since.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use anyhow::Result;
use xxhash_rust::xxh3::Xxh3;

use super::disk::Disk;
use super::image::{MODES, Mode, build};
use super::recording::{Event, Files, Recording};
use super::witness::Witness;
use super::workload;
use crate::ledger::Ledger;
use crate::verdict::{Contents, judge};

/// Distinct images that an event leads to, on average, at least.
const IMAGES_PER_EVENT: usize = 2;

/// Findings of one recording that are told; the rest is counted.
const TOLD: usize = 3;

/// What came of a recording.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    pub events: usize,
    /// Events after which something was not safe.
    pub cuts: usize,
    /// Images, the same ones counted again.
    pub images: usize,
    pub distinct: usize,
    /// Images with a finding; the same ones counted again.
    pub bad: usize,
    /// The first ones: the event, the mode, what was wrong.
    pub findings: Vec<(usize, Mode, String)>,
}

/// The choices of an examination.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    pub seed: u64,
    /// Only after this event.
    pub cut: Option<usize>,
    /// Not before this event.
    pub from: usize,
    pub mode: Option<Mode>,
    /// Ends after so many distinct images.
    pub images: usize,
    /// Each image of so many goes to the visitor, too.
    pub sample: usize,
}

/// The words so far.
pub fn ledger_at_start(seed: u64) -> Ledger {
    let mut ledger = Ledger::new(seed, false);
    for writer in workload::writers() {
        ledger.unknown.insert(crate::entry::Operation { writer, sequence: 1 });
    }
    ledger
}

/// Where to begin when there are more images than are wanted: at random, and so that they are found.
pub fn choose_begin(recording: &Recording, seed: u64, images: usize) -> usize {
    let wanted = images / IMAGES_PER_EVENT;
    fastrand::Rng::with_seed(seed).usize(..=recording.events.len().saturating_sub(wanted))
}

/// Cuts a recording everywhere. `visit` gets a sample of good images, with what was said until then, and
/// returns what it does not like.
pub fn examine(
    recording: &Recording,
    mut ledger: Ledger,
    witness: &Witness,
    choices: Choices,
    mut visit: impl FnMut(&Witness, &Files, &Ledger, &Contents) -> Result<Vec<String>>,
) -> Result<Examined> {
    let mut disk = Disk::new(recording);
    let mut examined = Examined { events: recording.events.len(), ..Examined::default() };
    let mut seen: HashMap<u128, Arc<Contents>> = HashMap::new();
    let mut contents: HashSet<Arc<Contents>> = HashSet::new();
    let mut judged: HashMap<(*const Contents, usize), Option<String>> = HashMap::new();
    let mut words = 0;
    for (number, event) in recording.events.iter().enumerate() {
        disk.apply(event);
        match event {
            Event::Said(line) => {
                ledger.follow(line);
                words += 1;
            }
            // Leaves what was there before.
            Event::SyncBegin { .. } => continue,
            _ => {}
        }
        if choices.cut.is_some_and(|cut| cut != number) || number < choices.from {
            continue;
        }
        examined.cuts += usize::from(!disk.is_all_safe());
        let modes = if disk.is_all_safe() { &MODES[..1] } else { &MODES };
        for mode in modes.iter().filter(|mode| choices.mode.is_none_or(|only| only == **mode)) {
            let image = build(&disk, *mode, dice(choices.seed, number, *mode));
            examined.images += 1;
            let print = fingerprint(&image);
            let found = match seen.get(&print) {
                Some(found) => Arc::clone(found),
                None => {
                    witness.place(&image)?;
                    let found = Arc::new(witness.look());
                    let found = contents.get(&found).cloned().unwrap_or(found);
                    contents.insert(Arc::clone(&found));
                    seen.insert(print, Arc::clone(&found));
                    examined.distinct += 1;
                    found
                }
            };
            let key = (Arc::as_ptr(&found), words);
            let judge = || judge(&found, &ledger).findings.into_iter().next();
            let mut finding = judged.entry(key).or_insert_with(judge).clone();
            if finding.is_none() && examined.distinct % choices.sample == choices.sample - 1 {
                finding = visit(witness, &image, &ledger, &found)?.into_iter().next();
            }
            if let Some(finding) = finding {
                examined.bad += 1;
                if examined.findings.len() < TOLD {
                    examined.findings.push((number, *mode, finding));
                }
            }
        }
        if examined.distinct >= choices.images {
            break;
        }
    }
    Ok(examined)
}

/// The dice of one image.
fn dice(seed: u64, cut: usize, mode: Mode) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, cut, mode).hash(&mut hasher);
    hasher.finish()
}

/// Of an image: others are not looked into, so it is long enough that no two share it by chance.
fn fingerprint(image: &Files) -> u128 {
    let mut hasher = Xxh3::new();
    for (name, bytes) in image {
        hasher.update(name.as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.digest128()
}
