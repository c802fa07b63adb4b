//! `reliability model`: every state of the protocol's model keeps every promise.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;
use stateright::{Checker, HasDiscoveries, Model};

use super::results;
use crate::model::Protocol;
use crate::model::instances::{LARGE, SMALL};

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The instances of the tests or of the campaign, instead of the one that the other options say.
    #[arg(long, value_enum)]
    set: Option<Set>,
    #[command(flatten)]
    protocol: Protocol,
    /// States after which to stop: such a run proves nothing, and fails.
    #[arg(long, default_value_t = 60_000_000)]
    states_max: usize,
    /// Of a set: so many instances, from this one on.
    #[arg(long, default_value_t = usize::MAX)]
    instances: usize,
    #[arg(long, default_value_t = 0)]
    from_instance: usize,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Instances that are kept with the code.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Set {
    Small,
    Large,
}

/// What came of an exploration.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    /// It visited every state, or found a counterexample.
    pub complete: bool,
    /// Promises that were broken, each with the steps that lead there.
    pub broken: Vec<(&'static str, Vec<String>)>,
    /// Examples that were met.
    pub met: Vec<&'static str>,
}

/// Explores breadth first, so that a counterexample is a short one.
pub fn explore(protocol: &Protocol, states_max: usize) -> Explored {
    let finish = HasDiscoveries::AnyFailures;
    let checker = protocol.clone().checker().finish_when(finish).target_state_count(states_max);
    let checker = checker.spawn_bfs().join();
    let mut explored = Explored {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        complete: checker.state_count() < states_max,
        broken: Vec::new(),
        met: Vec::new(),
    };
    for (name, path) in checker.discoveries() {
        if protocol.property(name).expectation.discovery_is_failure() {
            let actions = path.into_actions();
            let steps = actions.iter().map(|action| format!("{action:?}")).collect();
            explored.broken.push((name, steps));
        } else {
            explored.met.push(name);
        }
    }
    explored
}

/// False when a promise was broken, or the exploration was cut short.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let one = [("these options", arguments.protocol.clone())];
    let instances = match arguments.set {
        None => &one,
        Some(Set::Small) => SMALL,
        Some(Set::Large) => LARGE,
    };
    let set = arguments.set.and_then(|set| set.to_possible_value());
    let set = set.map(|set| format!(" --set {}", set.get_name())).unwrap_or_default();
    let from = arguments.from_instance.min(instances.len());
    let instances =
        &instances[from..(from.saturating_add(arguments.instances)).min(instances.len())];
    let (mut states, mut good, model_began) = (0, true, Instant::now());
    for (name, protocol) in instances {
        let began = Instant::now();
        let explored = explore(protocol, arguments.states_max);
        let (count, steps) = (explored.states, explored.steps);
        println!("{name}: {count} states, {steps} steps, {:.1?}", began.elapsed());
        let replay = format!("model{set}");
        for (promise, path) in &explored.broken {
            println!("BROKEN: {promise}");
            path.iter().for_each(|step| println!("  {step}"));
            results::note(format!("{name}: broken: {promise}"), &replay);
        }
        if !explored.complete {
            println!("stopped after {} steps: give --states-max", arguments.states_max);
            results::note(format!("{name}: has more states than it may visit"), &replay);
        }
        good &= explored.broken.is_empty() && explored.complete;
        states += count;
    }
    println!("{states} states in {} instances", instances.len());
    let (from, count) = (from as u64, instances.len() as u64);
    let (file, figures) =
        (arguments.json.as_deref(), [("instances", count), ("states", states as u64)]);
    results::append(file, "model", 0, model_began, from..from + count, figures)?;
    Ok(good)
}
