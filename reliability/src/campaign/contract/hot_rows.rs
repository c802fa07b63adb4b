//! Many processes read and then write the same few rows, and some are killed. No update is lost, and it is rare that one
//! must give way, once it is known what the transactions do. Those of another form mostly only read: they do give way
//! when they write, and lose nothing either.

use core::time::Duration;
use std::collections::BTreeSet;

use anyhow::Result;
use fastrand::Rng;

use super::{Said, Scene};
use crate::campaign::Writer;
use crate::clock::now_ns;
use crate::worker::Act;

/// How many rows are hot.
pub const HOT_ROWS: i64 = 10;

const SCHEMA: &str = "
    CREATE TABLE hot (id INTEGER PRIMARY KEY, n);
    INSERT INTO hot SELECT value, 0 FROM json_each('[1,2,3,4,5,6,7,8,9,10]');
    CREATE TABLE cool (id INTEGER PRIMARY KEY, n);
    INSERT INTO cool VALUES (1, 0);
    CREATE TABLE session (id INTEGER PRIMARY KEY, user);
    INSERT INTO session VALUES (1, 7);
    CREATE TABLE done (maker, sequence, PRIMARY KEY (maker, sequence));";

/// After this time transactions are known.
const LEARNT_NS: u64 = 1_000_000_000;

/// Of so many transactions one may give way then.
const RARE: u64 = 100_000;

/// So many may in a round, however short: who has read already does not wait for its turn for longer than half a second,
/// which passes where the machine stands still.
const ALLOWED: u64 = 5;

pub fn play(scene: &mut Scene<'_>) -> Result<()> {
    scene.make(SCHEMA)?;
    let mut dice = Rng::with_seed(scene.seed);
    let began_ns = now_ns();
    let mut crew = scene.crew(Act::CountUp)?;
    let mut victims = Vec::new();
    for _ in 0..scene.arguments.kills {
        std::thread::sleep(Duration::from_millis(dice.u64(20..600)));
        let index = dice.usize(0..crew.len());
        if !crew[index].child.dies_within(Duration::ZERO)? {
            let number = scene.arguments.processes + victims.len() as i64;
            let next = scene.start(Act::CountUp, number, scene.arguments.writes / 2)?;
            victims.push(kill(std::mem::replace(&mut crew[index], next))?);
        }
    }
    let deaths = victims.len() as u64;
    let said = scene.finish(crew.into_iter().chain(victims).collect())?;

    let there: BTreeSet<String> =
        scene.ask("SELECT maker, sequence FROM done")?.into_iter().collect();
    let row = |said: &Said, sequence: u64| format!("{}|{sequence}", said.number);
    let acknowledged: BTreeSet<String> =
        said.iter().flat_map(|said| said.numbers("ack").map(|it| row(said, it))).collect();
    let lost = acknowledged.difference(&there).count() as u64;
    scene.expect_equal("acknowledged transactions that are not there", lost, 0);
    let untold = there.difference(&acknowledged).count() as u64;
    if untold > deaths {
        scene.findings.push(format!("{untold} transactions nobody was told of, {deaths} deaths"));
    }
    let sum =
        scene.ask_number("SELECT sum(n) FROM (SELECT n FROM hot UNION ALL SELECT n FROM cool)")?;
    scene.expect_equal("the sum of the rows", sum, there.len() as u64);

    let stale: Vec<Vec<&str>> = said.iter().flat_map(|said| said.all("stale")).collect();
    let is_late = |ns: &str| ns.parse::<u64>().is_ok_and(|ns| ns > began_ns + LEARNT_NS);
    // Whose like mostly only read are not expected to write, and give way as they would with SQLite alone.
    let is_hot = |words: &&Vec<&str>| words[1] == "hot";
    let hot = stale.iter().filter(is_hot).count() as u64;
    let late = stale.iter().filter(is_hot).filter(|words| is_late(words[0])).count() as u64;
    let committed = acknowledged.len() as u64;
    if late > ALLOWED + committed / RARE {
        scene.findings.push(format!(
            "{late} transactions gave way after the first second, beside {committed} commits"
        ));
    }
    scene.add("counted", committed);
    scene.add("gave_way", hot);
    scene.add("gave_way_later", late);
    scene.add("gave_way_unexpected", stale.len() as u64 - hot);
    scene.add("killed", deaths);
    Ok(())
}

fn kill(mut victim: Writer) -> Result<Writer> {
    victim.is_victim = true;
    victim.child.signal(rustix::process::Signal::KILL)?;
    Ok(victim)
}
