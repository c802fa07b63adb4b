//! Executes the committed transactions again, one after the other, on plain SQLite in memory, and compares
//! what each saw, and what is in the file at last.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use manyhands::Value;
use manyhands_sqlite::{Connection, Error, OpenMode, Statement as Compiled, Step, ValueRef};

use super::call::{Call, Look, SCHEMA, Seen, Statement};
use super::dice::{Id, Kind};
use super::log::{End, Told};
use crate::shell;

/// After so many findings a round is red enough.
const FINDINGS_MAX: usize = 5;

/// Everything in the tables, as lines; the ids of `history` and `born` are read on their own.
const DUMP: [&str; 9] = [
    "SELECT 'history ' || n || ' ' || high || ' ' || low FROM history ORDER BY n",
    "SELECT 'account ' || id || ' ' || owner || ' ' || cents || ' ' || high || ' ' || low \
     FROM account ORDER BY id",
    "SELECT 'item ' || id || ' ' || kind || ' ' || n || ' ' || high || ' ' || low || ' ' || part \
     FROM item ORDER BY id",
    "SELECT 'tag ' || k || ' ' || quote(n) FROM tag ORDER BY k",
    "SELECT 'total ' || k || ' ' || cents FROM total ORDER BY k",
    "SELECT 'seat ' || id || ' ' || n FROM seat ORDER BY id",
    "SELECT 'member ' || id || ' ' || kind || ' ' || n || ' ' || high || ' ' || low || ' ' || part \
     FROM member ORDER BY id",
    "SELECT 'note ' || docid || ' ' || w FROM note ORDER BY docid",
    "SELECT 'born ' || id || ' ' || high || ' ' || low || ' ' || part FROM born ORDER BY id",
];

/// What the sqlite3 shell finds in the file.
#[derive(Clone, Debug)]
pub struct Found {
    /// In the order of their numbers.
    pub history: Vec<(i64, Id)>,
    /// The id of each item and member, by its transaction and part.
    pub born: HashMap<(Id, i64), i64>,
    pub dump: Vec<String>,
    /// What is not sound by itself.
    pub unsound: Vec<String>,
}

impl Found {
    pub fn read(database: &Path) -> Result<Found> {
        let numbers = |sql: &str| -> Result<Vec<Vec<i64>>> {
            let text = shell::run(database, &[sql])?;
            let row = |line: &str| line.split('|').map(str::parse).collect::<Result<_, _>>();
            text.lines().map(|line| row(line).context("a row of numbers")).collect()
        };
        let history = numbers("SELECT n, high, low FROM history ORDER BY n")?;
        let born = numbers(
            "SELECT id, high, low, part FROM born UNION ALL SELECT id, high, low, part FROM member",
        )?;
        let mut unsound = Vec::new();
        let integrity = shell::run(database, &["PRAGMA integrity_check"])?;
        if integrity.trim() != "ok" {
            unsound.push(format!("integrity_check: {}", integrity.trim()));
        }
        let sequence = "SELECT coalesce((SELECT seq FROM sqlite_sequence), 0) < \
                        coalesce((SELECT max(id) FROM born), 0)";
        if shell::run(database, &[sequence])?.trim() != "0" {
            unsound.push("sqlite_sequence is behind the largest id".to_owned());
        }
        let mut dump = Vec::new();
        for sql in DUMP {
            dump.extend(shell::run(database, &[sql])?.lines().map(str::to_owned));
        }
        Ok(Found {
            history: history.iter().map(|row| (row[0], (row[1], row[2]))).collect(),
            born: born.iter().map(|row| (((row[1], row[2]), row[3]), row[0])).collect(),
            dump,
            unsound,
        })
    }
}

/// Plain SQLite that performs calls.
pub struct Model {
    connection: Connection,
    /// By their SQL.
    compiled: HashMap<&'static str, Compiled>,
    begin: Compiled,
    commit: Compiled,
}

impl Model {
    pub fn in_memory() -> Result<Model> {
        let connection = Connection::open(Path::new(":memory:"), OpenMode::ReadWriteCreate, false)
            .map_err(own)?;
        connection.execute(SCHEMA).map_err(own)?;
        Model::on(connection)
    }

    pub fn on(connection: Connection) -> Result<Model> {
        let compile = |sql: &str| connection.prepare_one(sql).map_err(own);
        Ok(Model {
            compiled: HashMap::new(),
            begin: compile("BEGIN")?,
            commit: compile("COMMIT")?,
            connection,
        })
    }

    pub fn begin(&mut self) -> Result<()> {
        run_to_end(&mut self.begin)
    }

    pub fn commit(&mut self) -> Result<()> {
        run_to_end(&mut self.commit)
    }

    /// Performs a call; an item or a member gets `id`, if there is one.
    pub fn perform(&mut self, call: &Call, id: Option<i64>) -> Result<Seen> {
        let sql = id.and_then(|_| call.statement.with_id()).unwrap_or(call.statement.sql());
        let compiled = match self.compiled.entry(sql) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(self.connection.prepare_one(sql).map_err(own)?),
        };
        let values: Vec<_> = call.values.iter().copied().chain(id).map(ValueRef::Integer).collect();
        compiled.bind_all(values.into_iter()).map_err(own)?;
        let limit = if let Look::First(count) = call.look { count as usize } else { usize::MAX };
        let columns = compiled.column_count();
        let mut rows = Vec::new();
        let seen = loop {
            if rows.len() == limit {
                break Seen::Rows(rows);
            }
            match compiled.step() {
                Ok(Step::Row) => rows
                    .push((0..columns).map(|column| compiled.column(column).to_owned()).collect()),
                Ok(Step::Done) => {
                    break match (call.look, id) {
                        (Look::Nothing, _) => Seen::Nothing,
                        (Look::Rows, Some(id)) => Seen::Rows(vec![vec![Value::Integer(id)]]),
                        (Look::Rows | Look::First(_), _) => Seen::Rows(rows),
                        (Look::Changes, _) => Seen::Number(self.connection.changes()),
                        (Look::Rowid, _) => Seen::Number(self.connection.last_insert_rowid()),
                    };
                }
                Err(error) => break Seen::Error(error.code.0),
            }
        };
        compiled.reset();
        Ok(seen)
    }

    fn dump(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for sql in DUMP {
            let mut compiled = self.connection.prepare_one(sql).map_err(own)?;
            while compiled.step().map_err(own)? == Step::Row {
                if let ValueRef::Text(bytes) = compiled.column(0) {
                    lines.push(String::from_utf8_lossy(bytes).into_owned());
                }
            }
        }
        Ok(lines)
    }
}

pub fn own(error: Error) -> anyhow::Error {
    anyhow::anyhow!("SQLite itself: {} ({})", error.message, error.code.0)
}

fn run_to_end(compiled: &mut Compiled) -> Result<()> {
    let step = compiled.step().map_err(own);
    compiled.reset();
    ensure!(step? == Step::Done, "it gives no rows");
    Ok(())
}

/// What came of a round.
#[derive(Debug, Default)]
pub struct Verdict {
    pub findings: Vec<String>,
    /// Transactions whose place and results were checked; of these, the ones that only read.
    pub checked: usize,
    pub readers: usize,
    pub results: usize,
    pub conflicts: usize,
    /// Those of mode Auto that could not write, since what they had read had been changed.
    pub stale: usize,
    /// Committed, though their worker died before it knew.
    pub unknown_committed: usize,
    pub unknown: usize,
}

/// Judges what was told by what was found.
pub fn judge(told: &[Told], found: &Found) -> Result<Verdict> {
    let mut verdict = Verdict { findings: found.unsound.clone(), ..Verdict::default() };
    let by_id: HashMap<Id, &Told> = told.iter().map(|told| (told.id, told)).collect();
    let order = numbers_are_whole(found, &by_id, &mut verdict.findings);
    let readers = ends_are_true(told, found, order.len(), &mut verdict);
    replay(&order, &readers, found, &mut verdict)?;
    real_time(&order, &readers, &mut verdict.findings);
    verdict.findings.truncate(FINDINGS_MAX);
    Ok(verdict)
}

/// The transactions by their numbers, which have no gaps and are somebody's.
fn numbers_are_whole<'a>(
    found: &Found,
    by_id: &HashMap<Id, &'a Told>,
    findings: &mut Vec<String>,
) -> Vec<&'a Told> {
    let mut order = Vec::with_capacity(found.history.len());
    for (index, (number, id)) in found.history.iter().enumerate() {
        if *number != index as i64 + 1 {
            findings.push(format!("number {number} stands at place {}", index + 1));
            break;
        }
        match by_id.get(id) {
            Some(told) => order.push(*told),
            None => findings.push(format!("number {number} is nobody's transaction")),
        }
    }
    order
}

/// Who was told of success is there, who was told of failure is not; and who cannot conflict did not.
/// Returns those that only read, by the number that they saw last.
fn ends_are_true<'a>(
    told: &'a [Told],
    found: &Found,
    last: usize,
    verdict: &mut Verdict,
) -> Vec<Vec<&'a Told>> {
    let there: HashSet<Id> = found.history.iter().map(|(_, id)| *id).collect();
    let mut readers: Vec<Vec<&Told>> = vec![Vec::new(); last + 1];
    for told in told {
        let (is_there, only_reads) = (there.contains(&told.id), only_reads(&told.calls));
        let mut say = |text: &str| {
            verdict
                .findings
                .push(format!("{:?} {:?} {text}: {:?}", told.kind, told.id, told.calls));
        };
        match &told.end {
            None | Some((_, End::Unknown)) => {
                verdict.unknown += 1;
                verdict.unknown_committed += usize::from(is_there);
            }
            Some((_, End::Committed)) if only_reads => match place(told) {
                Some(place) if place <= last => readers[place].push(told),
                place => say(&format!("saw {place:?} as the last number of {last}")),
            },
            Some((_, End::Committed)) if !is_there => say("was committed, and is not there"),
            Some((_, End::Committed)) => {}
            Some((_, end)) if is_there => say(&format!("ended with {end:?}, and is there")),
            Some((_, End::Conflict(text))) => {
                verdict.conflicts += 1;
                let is_blind =
                    |call: &Call| call.look == Look::Nothing && !call.statement.may_fail();
                if !may_conflict(told) || only_reads || told.calls.iter().all(is_blind) {
                    say(&format!("cannot conflict, and did: {text}"));
                }
            }
            Some((_, End::Violated(text))) => say(&format!("cannot fail so late, and did: {text}")),
            Some((_, End::Stale)) => {
                verdict.stale += 1;
                if told.kind != Kind::Auto || !reads_and_writes(&told.calls) {
                    say("has read nothing that could be stale");
                }
            }
            Some((_, End::Failed(text))) => say(&format!("failed: {text}")),
            Some((_, End::RolledBack)) => {}
        }
    }
    readers
}

/// Who looks first and takes effect later can conflict. In mode Auto nobody does.
fn may_conflict(told: &Told) -> bool {
    matches!(told.kind, Kind::Optimistic | Kind::Run)
}

/// True where a read comes before a write.
fn reads_and_writes(calls: &[Call]) -> bool {
    let first_read = calls.iter().position(|call| call.statement.reads());
    let last_write = calls.iter().rposition(|call| !call.statement.reads());
    first_read.zip(last_write).is_some_and(|(read, write)| read < write)
}

fn only_reads(calls: &[Call]) -> bool {
    calls.iter().all(|call| call.statement.reads())
}

/// The number of the last transaction that a reader saw.
fn place(told: &Told) -> Option<usize> {
    use Statement::{Last, LastAndItems, LastAndOwner};
    let tells = |call: &Call| matches!(call.statement, Last | LastAndItems | LastAndOwner);
    let index = told.calls.iter().position(tells)?;
    match told.seen.get(index)? {
        Seen::Rows(rows) => match rows.first()?.first()? {
            Value::Integer(number) => usize::try_from(*number).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Executes all of them in their order, and compares.
fn replay(
    order: &[&Told],
    readers: &[Vec<&Told>],
    found: &Found,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut model = Model::in_memory()?;
    for (place, readers) in readers.iter().enumerate().take(order.len() + 1) {
        if let Some(index) = place.checked_sub(1) {
            model.begin()?;
            let before = verdict.findings.len();
            follow(&mut model, order[index], place, found, verdict)?;
            model.commit()?;
            if verdict.findings.len() > before {
                verdict.findings.push(surroundings(order, index));
            }
        }
        for reader in readers {
            follow(&mut model, reader, place, found, verdict)?;
            verdict.readers += 1;
        }
        if verdict.findings.len() >= FINDINGS_MAX {
            return Ok(());
        }
    }
    let expected = model.dump()?;
    let differ = expected.iter().zip(&found.dump).find(|(expected, found)| expected != found);
    if let Some((expected, found)) = differ {
        verdict.findings.push(format!("the file has {found:?} in the place of {expected:?}"));
    } else if expected.len() != found.dump.len() {
        let (rows, expected) = (found.dump.len(), expected.len());
        verdict.findings.push(format!("the file has {rows} rows and not {expected}"));
    }
    Ok(())
}

/// Who came before a transaction that saw something wrong, and when, in microseconds after its begin.
fn surroundings(order: &[&Told], index: usize) -> String {
    let own = order[index];
    let after = |ns: u64| (ns as i64 - own.began_ns as i64) / 1000;
    let show = |told: &&Told| {
        let end = told.end.as_ref().map(|(ns, _)| after(*ns));
        let writes = told.calls.iter().filter(|call| !call.statement.reads());
        let writes: Vec<_> = writes.map(|call| (call.statement, call.values.first())).collect();
        format!("{:?} from {} to {end:?}: {writes:?}", told.kind, after(told.began_ns))
    };
    let before: Vec<_> = order[index.saturating_sub(8)..=index].iter().map(show).collect();
    format!("its calls: {:?}; those before it, and itself: {}", own.calls, before.join("; "))
}

fn follow(
    model: &mut Model,
    told: &Told,
    place: usize,
    found: &Found,
    verdict: &mut Verdict,
) -> Result<()> {
    verdict.checked += 1;
    for (index, call) in told.calls.iter().enumerate() {
        let seen = told.seen.get(index);
        let id = call.statement.with_id().map(|_| id_of(call, seen, found, index));
        let now = model.perform(call, id)?;
        // One that was killed looked at nothing.
        if let Some(seen) = seen {
            verdict.results += 1;
            if *seen != now {
                let (mut seen, mut now) = (format!("{seen:?}"), format!("{now:?}"));
                seen.truncate(400);
                now.truncate(400);
                verdict.findings.push(format!(
                    "number {place} {:?} {:?}: statement {index} {call:?} saw {seen}, and in its \
                     place it should have seen {now}",
                    told.kind, told.id
                ));
            }
        }
    }
    Ok(())
}

/// The id that an item or a member got: as the file says, or as its transaction saw before it took it back.
fn id_of(call: &Call, seen: Option<&Seen>, found: &Found, index: usize) -> i64 {
    let [_, _, high, low, part] = call.values[..] else { return 0 };
    let saw = || match seen? {
        Seen::Number(id) => Some(*id),
        Seen::Rows(rows) => match rows.first()?.first()? {
            Value::Integer(id) => Some(*id),
            _ => None,
        },
        _ => None,
    };
    let by_file = || found.born.get(&((high, low), part)).copied();
    by_file().or_else(saw).unwrap_or((1 << 50) + index as i64)
}

/// Who was acknowledged before another began has the smaller number.
fn real_time(order: &[&Told], readers: &[Vec<&Told>], findings: &mut Vec<String>) {
    // The latest begin of all at smaller places.
    let mut latest = (0, (0, 0));
    for (place, readers) in readers.iter().enumerate().take(order.len() + 1) {
        let writer = place.checked_sub(1).map(|index| order[index]);
        for group in [writer.as_slice(), readers] {
            for told in group {
                let Some((ended_ns, End::Committed)) = told.end else { continue };
                if ended_ns < latest.0 {
                    findings.push(format!(
                        "{:?} at number {place} had ended {} ns before {:?} began, which has a \
                         smaller number",
                        told.id,
                        latest.0 - ended_ns,
                        latest.1
                    ));
                }
            }
            for told in group {
                latest = latest.max((told.began_ns, told.id));
            }
        }
    }
}

/// How many transactions of each kind committed.
pub fn by_kind(told: &[Told]) -> BTreeMap<Kind, usize> {
    let mut counts = BTreeMap::new();
    for told in told.iter().filter(|told| matches!(told.end, Some((_, End::Committed)))) {
        *counts.entry(told.kind).or_default() += 1;
    }
    counts
}
