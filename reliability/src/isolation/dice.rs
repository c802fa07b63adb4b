//! Which transaction comes next: all choices of a worker, from its seed.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::call::{ACCOUNTS, Call, KINDS, Look, MEMBERS, SEATS, Statement, TAGS};

/// One write in so many changes the schema.
const SCHEMA_CHANGE: u32 = 1000;

/// The id of a transaction.
pub type Id = (i64, i64);

/// How a transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// One statement outside a transaction.
    Autocommit,
    Batch,
    Optimistic,
    /// BEGIN in the mode in which it takes its turn before it shows anything.
    Auto,
    /// Optimistic, tried again after a conflict.
    Run,
    /// The second try of a [`Kind::Run`], which holds the turn.
    RunAgain,
    /// BEGIN IMMEDIATE.
    Turn,
    /// A transaction of the sqlite3 shell.
    Stock,
}

/// A transaction to be played.
#[derive(Clone, Debug)]
pub struct Script {
    pub id: Id,
    pub kind: Kind,
    pub calls: Vec<Call>,
    /// Rolled back in the end.
    pub gives_up: bool,
}

/// Draws the next transaction.
pub fn script(dice: &mut Rng) -> Script {
    let kind = match dice.u32(0..100) {
        0..50 => Kind::Autocommit,
        50..62 => Kind::Batch,
        62..79 => Kind::Optimistic,
        79..86 => Kind::Auto,
        86..94 => Kind::Run,
        _ => Kind::Turn,
    };
    let id = fresh(dice);
    let calls = calls(dice, id, kind);
    let gives_up =
        matches!(kind, Kind::Optimistic | Kind::Auto | Kind::Turn) && dice.u32(0..40) == 0;
    Script { id, kind, calls, gives_up }
}

pub fn fresh(dice: &mut Rng) -> Id {
    (dice.i64(1..), dice.i64(..))
}

/// The statements of a transaction of `kind`.
pub fn calls(dice: &mut Rng, id: Id, kind: Kind) -> Vec<Call> {
    if kind == Kind::Autocommit {
        return vec![match dice.u32(0..3) {
            0 => read_with_its_place(dice),
            1 if dice.bool() => insert(dice, id, 0),
            _ => {
                let statement =
                    [Statement::Add, Statement::AddReturning, Statement::Set][dice.usize(0..3)];
                write(dice, statement, id)
            }
        }];
    }
    // As many short ones as long ones.
    let most = if dice.bool() { 2 } else { 5 };
    let count = 1 + dice.usize(0..most);
    // Transactions that only read have a place by what they read first or last.
    if kind != Kind::Batch && dice.u32(0..8) == 0 {
        let mut calls: Vec<_> = (0..count).map(|_| read(dice)).collect();
        calls.insert(dice.usize(0..=count), call(Statement::Last, vec![], Look::Rows));
        return calls;
    }
    let mut calls = Vec::new();
    let only_writes = dice.u32(0..5) == 0;
    for part in 0..count as i64 {
        let call = match dice.u32(0..9) {
            0..4 if !only_writes => read(dice),
            4 => insert(dice, id, part),
            5 => enter(dice, id, part),
            _ => any_write(dice, id),
        };
        let is_blind = only_writes && call.look != Look::Rows;
        let gathers = matches!(call.statement, Statement::Gather | Statement::GatherUntold);
        let gathered = (gathers && dice.bool()).then(|| call.values[0]);
        calls.push(if is_blind { Call { look: Look::Nothing, ..call } } else { call });
        if let Some(k) = gathered {
            calls.push(self::call(Statement::Total, vec![k], Look::Rows));
        }
    }
    if !matches!(kind, Kind::Batch | Kind::Stock) && dice.u32(0..6) == 0 {
        let end = if dice.bool() { Statement::RollbackTo } else { Statement::Release };
        let mut inside = vec![call(Statement::Savepoint, vec![], Look::Nothing)];
        for part in 0..1 + dice.i64(0..3) {
            inside.push(match dice.u32(0..3) {
                0 => read(dice),
                // What a savepoint takes back leaves no trace of its id: it is looked at.
                1 => Call {
                    statement: Statement::InsertReturning,
                    look: Look::Rows,
                    ..insert(dice, id, 100 + part)
                },
                _ => any_write(dice, id),
            });
        }
        inside.push(call(end, vec![], Look::Nothing));
        if end == Statement::RollbackTo {
            inside.push(call(Statement::Release, vec![], Look::Nothing));
        }
        let at = dice.usize(0..=calls.len());
        calls.splice(at..at, inside);
    }
    // Outside every savepoint.
    let draw = call(Statement::Draw, vec![id.0, id.1], Look::Nothing);
    let at = if dice.bool() { 0 } else { calls.len() };
    calls.insert(at, draw);
    if kind == Kind::Batch {
        // A statement that fails would take its whole batch with it.
        calls.retain(|call| !call.statement.may_fail());
    }
    calls
}

fn call(statement: Statement, values: Vec<i64>, look: Look) -> Call {
    Call { statement, values, look }
}

fn read_with_its_place(dice: &mut Rng) -> Call {
    let statement = [Statement::LastAndOwner, Statement::LastAndItems][dice.usize(0..2)];
    call(statement, vec![dice.i64(0..KINDS)], Look::Rows)
}

fn read(dice: &mut Rng) -> Call {
    const READS: [Statement; 13] = [
        Statement::Cents,
        Statement::OfOwner,
        Statement::Range,
        Statement::Average,
        Statement::Items,
        Statement::CountItems,
        Statement::Tags,
        Statement::Joined,
        Statement::JoinedUntold,
        Statement::Noted,
        Statement::Total,
        Statement::Seats,
        Statement::Member,
    ];
    let statement = READS[dice.usize(0..READS.len())];
    let account = 1 + dice.i64(0..ACCOUNTS);
    let values = match statement {
        Statement::Range => vec![account, account + dice.i64(0..5)],
        Statement::Cents | Statement::Joined => vec![account],
        Statement::Average => vec![ACCOUNTS - dice.i64(0..4)],
        Statement::Tags => {
            let first = dice.i64(0..TAGS);
            vec![first, first + dice.i64(0..6)]
        }
        Statement::Seats => {
            let first = dice.i64(0..SEATS);
            vec![first, first + dice.i64(0..3)]
        }
        Statement::Member => vec![1 + dice.i64(0..MEMBERS)],
        _ => vec![dice.i64(0..KINDS)],
    };
    let look = match statement {
        Statement::Items | Statement::OfOwner if dice.bool() => Look::First(1 + dice.u32(0..3)),
        _ => Look::Rows,
    };
    call(statement, values, look)
}

fn insert(dice: &mut Rng, id: Id, part: i64) -> Call {
    let values = vec![dice.i64(0..KINDS), dice.i64(0..100), id.0, id.1, part];
    match dice.u32(0..3) {
        0 => call(Statement::Insert, values, Look::Nothing),
        1 => call(Statement::Insert, values, Look::Rowid),
        _ => call(Statement::InsertReturning, values, Look::Rows),
    }
}

fn enter(dice: &mut Rng, id: Id, part: i64) -> Call {
    let values = vec![dice.i64(0..KINDS), dice.i64(0..100), id.0, id.1, part];
    match dice.u32(0..3) {
        0 => call(Statement::Enter, values, Look::Nothing),
        1 => call(Statement::Enter, values, Look::Rowid),
        _ => call(Statement::EnterReturning, values, Look::Rows),
    }
}

fn any_write(dice: &mut Rng, id: Id) -> Call {
    // Seldom: after it every connection reads the schema again.
    if dice.u32(0..SCHEMA_CHANGE) == 0 {
        const CHANGES: [Statement; 3] = [Statement::Watch, Statement::Unwatch, Statement::Analyze];
        return call(CHANGES[dice.usize(0..CHANGES.len())], vec![], Look::Nothing);
    }
    const WRITES: [Statement; 20] = [
        Statement::Add,
        Statement::AddReturning,
        Statement::Set,
        Statement::Tax,
        Statement::Remove,
        Statement::RemoveReturning,
        Statement::Count,
        Statement::Upsert,
        Statement::UpsertReturning,
        Statement::Tag,
        Statement::Untag,
        Statement::Gather,
        Statement::GatherUntold,
        Statement::Note,
        // More often: they follow each other.
        Statement::Sit,
        Statement::Sit,
        Statement::Stand,
        Statement::Move,
        Statement::Move,
        Statement::Promote,
    ];
    let statement = WRITES[dice.usize(0..WRITES.len())];
    write(dice, statement, id)
}

fn write(dice: &mut Rng, statement: Statement, id: Id) -> Call {
    let account = 1 + dice.i64(0..ACCOUNTS);
    let values = match statement {
        Statement::Add | Statement::AddReturning => vec![account, dice.i64(-50..50), id.0, id.1],
        Statement::Set => vec![account, dice.i64(900..1100), id.0, id.1],
        Statement::Tax => vec![dice.i64(0..KINDS), dice.i64(900..1100), id.0, id.1],
        Statement::Remove | Statement::RemoveReturning => {
            // More than come, or each round would be slower towards its end.
            vec![dice.i64(0..KINDS), 1 + dice.i64(0..8)]
        }
        Statement::Count | Statement::Note => vec![dice.i64(0..KINDS)],
        Statement::Untag => vec![dice.i64(0..TAGS)],
        Statement::Stand => vec![dice.i64(0..SEATS)],
        Statement::Sit | Statement::Move => vec![dice.i64(0..SEATS), dice.i64(1..10)],
        Statement::Promote => vec![1 + dice.i64(0..MEMBERS), dice.i64(1..10)],
        Statement::Gather | Statement::GatherUntold => vec![dice.i64(0..TAGS), dice.i64(0..KINDS)],
        _ => vec![dice.i64(0..TAGS), dice.i64(1..10)],
    };
    let look = match statement {
        Statement::AddReturning | Statement::RemoveReturning | Statement::UpsertReturning => {
            Look::Rows
        }
        _ if dice.bool() => Look::Nothing,
        _ => Look::Changes,
    };
    call(statement, values, look)
}

/// The statements of a transaction of the shell, whose answers are lines of numbers.
pub fn stock_calls(dice: &mut Rng, id: Id) -> Vec<Call> {
    let mut calls = calls(dice, id, Kind::Stock);
    calls.retain(|call| {
        use Statement::{Average, Sit, Tag, Tags};
        !matches!(call.statement, Average | Tags | Tag | Sit)
    });
    for call in &mut calls {
        call.look = if call.look == Look::Rows { Look::Rows } else { Look::Nothing };
    }
    calls
}
