//! A checker that cannot turn red proves nothing: a good history is spoiled in each way that an engine
//! could fail, and each must be found.

use std::path::Path;

use fastrand::Rng;
use manyhands::Value;
use manyhands_sqlite::{Connection, OpenMode};

use super::call::{Look, SCHEMA, Seen, Statement};
use super::dice::{self, Kind};
use super::log::{End, Told};
use super::verdict::{Found, Model, judge};
use crate::shell;

/// One way to spoil, and a word of the finding that it must lead to.
struct Plant {
    name: &'static str,
    finding: &'static str,
    spoil: fn(&Path, &mut Vec<Told>, &mut Found),
}

const PLANTS: &[Plant] = &[
    Plant {
        name: "a transaction that nobody tells of",
        finding: "is nobody's",
        spoil: |_, told, found| {
            let (_, id) = found.history[found.history.len() / 2];
            told.retain(|told| told.id != id);
        },
    },
    Plant {
        name: "a lost transaction",
        finding: "stands at place",
        spoil: |_, _, found| {
            found.history.remove(200);
        },
    },
    Plant {
        name: "a lost transaction, its number taken by the next",
        finding: "was committed, and is not there",
        spoil: |_, _, found| {
            found.history.remove(200);
            for (index, (number, _)) in found.history.iter_mut().enumerate() {
                *number = index as i64 + 1;
            }
        },
    },
    Plant {
        name: "the last transaction is lost",
        finding: "was committed, and is not there",
        spoil: |_, _, found| {
            found.history.pop();
        },
    },
    Plant {
        name: "a number twice",
        finding: "stands at place",
        spoil: |_, _, found| found.history[100].0 = 100,
    },
    Plant {
        name: "two transactions have changed places",
        finding: "should have seen",
        spoil: |_, told, found| {
            // Both write and read one row.
            let reads_back = |told: &Told, account: i64| {
                let is = |call: &super::call::Call| {
                    call.statement == Statement::AddReturning && call.values[0] == account
                };
                told.calls.iter().any(is) && told.calls.len() == 1
            };
            for account in 1..super::call::ACCOUNTS {
                let at: Vec<_> = (0..found.history.len())
                    .filter(|at| {
                        let id = found.history[*at].1;
                        told.iter().any(|told| told.id == id && reads_back(told, account))
                    })
                    .collect();
                if let [one, other, ..] = at[..] {
                    let ids = (found.history[one].1, found.history[other].1);
                    (found.history[one].1, found.history[other].1) = (ids.1, ids.0);
                    return;
                }
            }
            panic!("no two transactions with one account");
        },
    },
    Plant {
        name: "a row that was not so",
        finding: "should have seen",
        spoil: |_, told, _| alter_row(told),
    },
    Plant {
        name: "a count that was not so",
        finding: "should have seen",
        spoil: |_, told, _| alter_count(told),
    },
    Plant {
        name: "an error that was none",
        finding: "should have seen",
        spoil: |_, told, _| alter_error(told),
    },
    Plant {
        name: "a row too few",
        finding: "should have seen",
        spoil: |_, told, _| drop_row(told),
    },
    Plant {
        name: "a reader between two moments",
        finding: "should have seen",
        spoil: |_, told, _| alter_reader(told),
    },
    Plant {
        name: "a reader from the future",
        finding: "as the last number",
        spoil: |_, told, _| {
            let reader = some(told, |told| told.calls[0].statement == Statement::LastAndOwner);
            let Seen::Rows(rows) = &mut reader.seen[0] else { panic!("rows") };
            rows[0][0] = Value::Integer(1 << 40);
        },
    },
    Plant {
        name: "told of a conflict, and there",
        finding: "and is there",
        spoil: |_, told, _| {
            let told = some(told, |told| told.kind == Kind::Optimistic && writes(told));
            told.end = Some((told.began_ns + 1, End::Conflict("planted".to_owned())));
        },
    },
    Plant {
        name: "a conflict of who looked at nothing",
        finding: "cannot conflict",
        spoil: |_, told, _| {
            let mut blind =
                some(told, |told| told.kind == Kind::Optimistic && writes(told)).clone();
            blind.id = (1, 2);
            blind.end = Some((1, End::Conflict("planted".to_owned())));
            blind.calls.retain(|call| call.look == Look::Nothing);
            blind.calls.retain(|call| !call.statement.may_fail());
            told.push(blind);
        },
    },
    Plant {
        name: "a conflict of an autocommit",
        finding: "cannot conflict",
        spoil: |_, told, _| {
            add(
                told,
                |told| told.kind == Kind::Autocommit && writes(told),
                End::Conflict("planted".to_owned()),
            );
        },
    },
    Plant {
        name: "a conflict in mode Auto",
        finding: "cannot conflict",
        spoil: |_, told, _| {
            add(
                told,
                |told| told.kind == Kind::Auto && writes(told),
                End::Conflict("planted".to_owned()),
            );
        },
    },
    Plant {
        name: "a violation that comes late",
        finding: "cannot fail so late",
        spoil: |_, told, _| {
            add(told, |told| told.kind == Kind::Auto, End::Violated("planted".to_owned()));
        },
    },
    Plant {
        name: "a stale read of one that has read nothing",
        finding: "has read nothing",
        spoil: |_, told, _| {
            add(
                told,
                |told| told.kind == Kind::Auto && !told.calls.iter().any(|it| it.statement.reads()),
                End::Stale,
            );
        },
    },
    Plant {
        name: "a stale read of one in its turn",
        finding: "has read nothing",
        spoil: |_, told, _| add(told, |told| told.kind == Kind::Turn, End::Stale),
    },
    Plant {
        name: "an error that nobody should see",
        finding: "failed: planted",
        spoil: |_, told, _| add(told, |_| true, End::Failed("planted".to_owned())),
    },
    Plant {
        name: "a number smaller than of one that had ended",
        finding: "ns before",
        spoil: |_, told, found| {
            let (_, early) = found.history[300];
            let (_, late) = found.history[400];
            let ended = told.iter().find(|told| told.id == late).expect("told").end.clone();
            let after = ended.expect("it ended").0 + 1;
            let early = told.iter_mut().find(|told| told.id == early).expect("told");
            early.began_ns = after;
        },
    },
    Plant {
        name: "a reader that sees less than was acknowledged before it began",
        finding: "ns before",
        spoil: |_, told, found| {
            let (_, last) = *found.history.last().expect("a history");
            let last = told.iter().find(|told| told.id == last).expect("told").end.clone();
            let reader = some(told, |told| !writes(told) && told.seen.len() == 1);
            reader.began_ns = last.expect("it ended").0 + 1;
            reader.end = Some((reader.began_ns + 1, End::Committed));
        },
    },
    Plant {
        name: "a row of the file changed",
        finding: "in the place of",
        spoil: |path, _, found| {
            shell::run(
                path,
                &["PRAGMA recursive_triggers = 0; UPDATE tag SET n = n + 1 WHERE k = \
                (SELECT min(k) FROM tag)"],
            )
            .expect("the shell writes");
            *found = Found::read(path).expect("reads");
        },
    },
    Plant {
        name: "a row of the file lost",
        finding: "the file has",
        spoil: |path, _, found| {
            shell::run(path, &["DELETE FROM born WHERE id = (SELECT max(id) FROM born)"])
                .expect("the shell writes");
            found.dump = Found::read(path).expect("reads").dump;
        },
    },
    Plant {
        name: "an id counter that fell back",
        finding: "sqlite_sequence",
        spoil: |path, _, found| {
            shell::run(path, &["UPDATE sqlite_sequence SET seq = 1"]).expect("the shell writes");
            *found = Found::read(path).expect("reads");
        },
    },
];

/// Adds a transaction as one of those that were wanted, with an end of its own.
fn add(told: &mut Vec<Told>, wanted: impl Fn(&Told) -> bool, end: End) {
    let like = some(told, wanted).clone();
    told.push(Told { id: (1, 2), end: Some((1, end)), ..like });
}

fn writes(told: &Told) -> bool {
    !told.calls.iter().all(|call| call.statement.reads())
}

fn some(told: &mut [Told], wanted: impl Fn(&Told) -> bool) -> &mut Told {
    let committed = |told: &Told| matches!(told.end, Some((_, End::Committed)));
    let middle = told.len() / 2;
    told[middle..].iter_mut().find(|told| committed(told) && wanted(told)).expect("one such")
}

/// The first result of this kind in a transaction that writes, and that was committed.
fn seen(told: &mut [Told], wanted: impl Fn(&Statement, &Seen) -> bool) -> &mut Seen {
    let has = |told: &Told| {
        writes(told)
            && told.calls.iter().zip(&told.seen).any(|(call, seen)| wanted(&call.statement, seen))
    };
    let told = some(told, has);
    let mut both = told.calls.iter().zip(&mut told.seen);
    both.find(|(call, seen)| wanted(&call.statement, seen)).expect("it has one").1
}

fn alter_row(told: &mut [Told]) {
    match seen(told, |statement, seen| {
        *statement == Statement::Range && matches!(seen, Seen::Rows(_))
    }) {
        Seen::Rows(rows) => rows[0][1] = Value::Integer(-1),
        _ => unreachable!("rows were wanted"),
    }
}

fn alter_count(told: &mut [Told]) {
    *seen(told, |statement, seen| {
        *statement == Statement::Tax && matches!(seen, Seen::Number(_))
    }) = Seen::Number(-1);
}

fn alter_error(told: &mut [Told]) {
    *seen(told, |_, seen| matches!(seen, Seen::Error(_))) = Seen::Nothing;
}

fn drop_row(told: &mut [Told]) {
    match seen(told, |_, seen| matches!(seen, Seen::Rows(rows) if rows.len() > 1)) {
        Seen::Rows(rows) => drop(rows.pop()),
        _ => unreachable!("rows were wanted"),
    }
}

fn alter_reader(told: &mut [Told]) {
    let range = |told: &Told| told.calls.iter().position(|call| call.statement == Statement::Range);
    let reader = some(told, |told| !writes(told) && range(told).is_some());
    let at = range(reader).expect("it was wanted");
    reader.seen[at] = Seen::Rows(vec![vec![Value::Integer(1), Value::Integer(-7)]]);
}

/// A history as a perfect engine makes it: one after the other, on plain SQLite.
fn good_history(path: &Path) -> Vec<Told> {
    let connection =
        Connection::open(path, OpenMode::ReadWriteCreate, false).expect("a new database");
    connection.execute(SCHEMA).expect("the schema");
    let mut model = Model::on(connection).expect("the statements");
    let (mut dice, mut told, mut clock) = (Rng::with_seed(1), Vec::new(), 0);
    for _ in 0..2000 {
        let mut script = dice::script(&mut dice);
        script.gives_up = false;
        clock += 10;
        let began_ns = clock;
        model.begin().expect("begins");
        let perform = |call| model.perform(call, None).expect("it performs");
        let seen = script.calls.iter().map(perform).collect();
        model.commit().expect("commits");
        clock += 10;
        let end = Some((clock, End::Committed));
        told.push(Told {
            id: script.id,
            kind: script.kind,
            began_ns,
            end,
            calls: script.calls,
            seen,
        });
    }
    told
}

#[test]
fn a_good_history_is_good_and_every_planted_fault_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("app.db");
    let told = good_history(&path);
    let found = Found::read(&path).expect("reads");
    let verdict = judge(&told, &found).expect("judges");
    assert_eq!(verdict.findings, [] as [&str; 0]);
    assert_eq!((verdict.checked, verdict.conflicts, verdict.unknown), (2000, 0, 0));
    assert!(verdict.readers > 100 && verdict.results > 4000, "{verdict:?}");
    for plant in PLANTS {
        let copy = directory.path().join("spoiled.db");
        std::fs::copy(&path, &copy).expect("a copy");
        let (mut told, mut found) = (told.clone(), found.clone());
        (plant.spoil)(&copy, &mut told, &mut found);
        let findings = judge(&told, &found).expect("judges").findings;
        let caught = findings.iter().any(|finding| finding.contains(plant.finding));
        assert!(caught, "missed: {}; found instead: {findings:#?}", plant.name);
    }
}
