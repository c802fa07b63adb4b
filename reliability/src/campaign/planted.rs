//! A checker that cannot turn red proves nothing: a good round is spoiled in each way that the product
//! could fail, and each must be found.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::kill::{self, Fate};
use super::results;
use crate::entry::{Kind, Operation};
use crate::ledger::{Ack, Ledger};
use crate::{shell, verdict};

/// The choices of the campaign.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Appends the figures to this file, one JSON object each line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One way to spoil a round, and a word of the finding that it must lead to.
struct Plant {
    name: &'static str,
    finding: &'static str,
    spoil: fn(&Path, &mut Ledger) -> Result<()>,
}

const PLANTS: &[Plant] = &[
    Plant { name: "an acknowledgement without a row", finding: "not there", spoil: forge },
    Plant {
        name: "a lost row",
        finding: "not there",
        spoil: |database, ledger| with(database, ledger, Kind::Insert, "DELETE FROM entry WHERE "),
    },
    Plant {
        name: "a row applied twice",
        finding: "twice",
        spoil: |database, ledger| {
            with(database, ledger, Kind::Insert, "INSERT INTO entry SELECT * FROM entry WHERE ")
        },
    },
    Plant {
        name: "half a batch",
        finding: "1 of 2 rows",
        spoil: |database, ledger| {
            with(database, ledger, Kind::Pair, "DELETE FROM entry WHERE part = 1 AND ")
        },
    },
    Plant {
        name: "half a transaction",
        finding: "1 of 2 rows",
        spoil: |database, ledger| {
            with(database, ledger, Kind::Immediate, "DELETE FROM entry WHERE part = 0 AND ")
        },
    },
    Plant { name: "a refused row", finding: "was refused", spoil: admit },
    Plant {
        name: "a row of nobody",
        finding: "never tried",
        spoil: |database, _| {
            shell::run(database, &["INSERT INTO entry VALUES (7, 999999, 0, 1, 2, NULL, NULL)"])
                .map(drop)
        },
    },
    Plant {
        name: "a damaged text",
        finding: "payload",
        spoil: |database, ledger| {
            with(database, ledger, Kind::Large, "UPDATE entry SET payload = payload || '!' WHERE ")
        },
    },
    Plant {
        name: "a lost increment",
        finding: "counter 1",
        spoil: |database, _| {
            shell::run(database, &["UPDATE counter SET n = n - 1 WHERE id = 1"]).map(drop)
        },
    },
    Plant {
        name: "an increment applied twice",
        finding: "counter 2",
        spoil: |database, _| {
            shell::run(database, &["UPDATE counter SET n = n + 2 WHERE id = 2"]).map(drop)
        },
    },
    Plant { name: "two transactions that saw one value", finding: "counter 3", spoil: same_value },
    Plant { name: "a page of zeros", finding: "integrity_check", spoil: zero_page },
];

/// How many ways there are.
pub fn count() -> u64 {
    PLANTS.len() as u64
}

/// Plays one round and spoils copies of it. False when the checker missed one.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (seed, began) = (arguments.seed, Instant::now());
    let options = kill::Arguments {
        rounds: 1,
        deaths: 1,
        jobs: 1,
        seed,
        from_round: 0,
        point: None,
        processes: 4,
        threads: 1,
        after_ms: 400,
        peer: false,
        hammer: false,
        json: None,
        verbose: false,
    };
    let round = kill::play(&options, 0, [Fate::Random { after_ms: 300 }].into())?;
    ensure!(round.findings.is_empty(), "the round is not good: {:?}", round.findings);
    let original = round.directory.path().join("app.db");
    shell::run(&original, &["PRAGMA wal_checkpoint(TRUNCATE)"])?;
    let mut missed = 0;
    for plant in PLANTS {
        let copy = round.directory.path().join("spoiled.db");
        std::fs::copy(&original, &copy).context("copy the database")?;
        let mut ledger = round.ledger.clone();
        (plant.spoil)(&copy, &mut ledger).with_context(|| plant.name.to_owned())?;
        let findings = verdict::examine(&copy, &ledger)?.findings;
        let caught = findings.iter().any(|finding| finding.contains(plant.finding));
        missed += u64::from(!caught);
        if !caught {
            results::note(format!("not seen: {}", plant.name), format!("planted --seed {seed}"));
        }
        println!(
            "{:7} {}: {}",
            if caught { "caught" } else { "MISSED" },
            plant.name,
            findings.len()
        );
        for rest in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{rest}", copy.display()));
        }
    }
    let planted = count();
    println!("{planted} planted, {missed} missed");
    let figures = [("planted", planted), ("caught", planted - missed)];
    results::append(arguments.json.as_deref(), "planted", seed, began, 0..1, figures)?;
    Ok(missed == 0)
}

/// The first acknowledged operation of a kind.
fn some(ledger: &Ledger, kind: Kind) -> Result<Operation> {
    let mut all = ledger.acked.keys().filter(|operation| ledger.kind(**operation) == kind);
    all.next().copied().with_context(|| format!("the round has no {kind:?}; take another seed"))
}

fn with(database: &Path, ledger: &Ledger, kind: Kind, sql: &str) -> Result<()> {
    let Operation { writer, sequence } = some(ledger, kind)?;
    let sql = format!("{sql} writer = {writer} AND sequence = {sequence}");
    shell::run(database, &[&sql]).map(drop)
}

fn forge(_: &Path, ledger: &mut Ledger) -> Result<()> {
    let mut forged = some(ledger, Kind::Insert)?;
    forged.sequence += 1_000_000;
    while forged.kind(ledger.seed) != Kind::Insert {
        forged.sequence += 1;
    }
    ledger.acked.insert(forged, Ack { ns: 0, returned: None });
    Ok(())
}

fn admit(database: &Path, ledger: &mut Ledger) -> Result<()> {
    let refused = ledger.refused.first().copied().context("nothing was refused")?;
    let (Operation { writer, sequence }, (high, low)) = (refused, refused.id(ledger.seed, 0));
    let sql =
        format!("INSERT INTO entry VALUES ({writer}, {sequence}, 0, {high}, {low}, NULL, NULL)");
    shell::run(database, &[&sql]).map(drop)
}

fn same_value(database: &Path, ledger: &mut Ledger) -> Result<()> {
    let mut pair = ledger
        .acked
        .iter_mut()
        .filter(|(operation, _)| operation.kind(ledger.seed) == Kind::Immediate);
    let (_, one) = pair.next().context("no transaction")?;
    let (other, ack) = pair.next().context("no second transaction")?;
    ack.returned = one.returned;
    let value = one.returned.unwrap_or(0);
    let Operation { writer, sequence } = other;
    let sql = format!(
        "UPDATE entry SET value = {value} WHERE writer = {writer} AND sequence = {sequence}"
    );
    shell::run(database, &[&sql]).map(drop)
}

/// Overwrites the root page of the index.
fn zero_page(database: &Path, _: &mut Ledger) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let root =
        shell::run(database, &["SELECT rootpage FROM sqlite_schema WHERE name = 'entry_id'"])?;
    let root: u64 = root.trim().parse().context("the index has a root page")?;
    let file = std::fs::OpenOptions::new().write(true).open(database)?;
    file.write_all_at(&[0; 4096], (root - 1) * 4096).context("overwrite a page")
}
