//! A failing round made shorter: actions are left out while the same failure remains.

use std::time::{Duration, Instant};

use crate::action::Action;
use crate::child::{Failure, SECONDS_MAX, Setup};

/// A shorter history is worth a minute, not an hour.
const ATTEMPTS_MAX: usize = 1_500;
/// A failure that takes its time is shortened only so far.
const SHRINKING_MAX: Duration = Duration::from_secs(60);

/// The numbers of the actions that are needed, and the failure they show.
pub fn shrink(
    setup: &Setup,
    actions: &[Action],
    failure: Failure,
) -> Result<(Vec<usize>, Failure, bool), String> {
    let seed = failure.seed;
    let signature = failure.signature.clone();
    let again = |kept: &[usize]| -> Result<Option<Failure>, String> {
        let actions = kept.iter().map(|number| actions[*number].clone()).collect();
        let failure = setup.play(std::iter::once((seed, actions)), SECONDS_MAX)?;
        Ok(failure.filter(|failure| failure.signature == signature))
    };
    let mut kept: Vec<usize> = (0..actions.len().min(failure.action + 1)).collect();
    let Some(mut failure) =
        again(&kept)?.map_or_else(|| again(&all(actions)), |it| Ok(Some(it)))?
    else {
        return Ok((all(actions), failure, false));
    };
    let begun = Instant::now();
    let mut attempts = 0;
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let mut place = 0;
        let mut shorter = false;
        while place < kept.len() && attempts < ATTEMPTS_MAX && begun.elapsed() < SHRINKING_MAX {
            attempts += 1;
            let mut candidate = kept.clone();
            candidate.drain(place..(place + size).min(kept.len()));
            match again(&candidate)? {
                Some(found) => {
                    kept = candidate;
                    failure = found;
                    shorter = true;
                }
                None => place += size,
            }
        }
        // At the size of one action, the search ends when no action can go any more.
        if size > 1 || !shorter || attempts >= ATTEMPTS_MAX || begun.elapsed() >= SHRINKING_MAX {
            size /= 2;
        }
    }
    failure.seed = seed;
    Ok((kept, failure, true))
}

fn all(actions: &[Action]) -> Vec<usize> {
    (0..actions.len()).collect()
}
