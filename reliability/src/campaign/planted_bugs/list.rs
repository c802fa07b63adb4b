//! The faults, and the campaigns that are asked for each, in turn.

/// A fault that the product has when `MANYHANDS_PLANTED` names it.
pub struct Bug {
    pub name: &'static str,
    pub what: &'static str,
    /// Words of this program's command line; or `test`, a package, and a filter.
    pub methods: &'static [&'static str],
    pub is_quick: bool,
    /// Every method must find it, not one of them.
    pub by_all: bool,
}

impl Bug {
    /// How many methods must find it.
    pub fn finders(&self) -> usize {
        if self.by_all { self.methods.len() } else { 1 }
    }
}

const fn quick(name: &'static str, what: &'static str, methods: &'static [&'static str]) -> Bug {
    Bug { name, what, methods, is_quick: true, by_all: false }
}

const fn slow(name: &'static str, what: &'static str, methods: &'static [&'static str]) -> Bug {
    Bug { name, what, methods, is_quick: false, by_all: false }
}

const fn by_all(bug: Bug) -> Bug {
    Bug { by_all: true, ..bug }
}

const ISOLATION: &str = "isolation --transactions 24000 --round 24000 --kills 1";
const ALONE: &str = "isolation --transactions 12000 --round 12000 --kills 1 --alone";
const PAIR: &str =
    "isolation --transactions 8000 --round 8000 --kills 0 --processes 2 --threads 1 --alone";
const BLACK_BOX: &str = "black-box --transactions 12500 --kills 1 --alone";
const KILL: &str = "kill --rounds 2 --deaths 1 --after-ms 150 --point random";
/// Each of them that hangs takes its time.
const FEW: &str = "kill --rounds 1 --deaths 1 --after-ms 150 --processes 2 --point random";
const BEFORE_COMMIT: &str = "kill --rounds 6 --deaths 1 --after-ms 150 --point before-commit";
const EXECUTED: &str = "kill --rounds 6 --deaths 1 --after-ms 150 --point executed";
const TAKEN: &str = "kill --rounds 6 --deaths 1 --after-ms 150 --processes 3 --point taken";
const ANNOUNCED: &str = "kill --rounds 8 --deaths 1 --after-ms 150 --point announced";
const WRITTEN: &str = "kill --rounds 8 --deaths 1 --after-ms 150 --point frame-written";
const SYNCED: &str = "kill --rounds 8 --deaths 1 --after-ms 150 --point synced";
const HALF: &str = "kill --rounds 10 --deaths 1 --after-ms 150 --point half-published";
const SEALED: &str = "kill --rounds 6 --deaths 1 --after-ms 150 --point sealed";
const MANY_SEALED: &str = "kill --rounds 30 --deaths 60 --after-ms 50 --point sealed";
const COMMITTED: &str = "kill --rounds 6 --deaths 1 --after-ms 150 --point committed";
const HAMMERED: &str = "kill --rounds 30 --deaths 1 --after-ms 100 --hammer --point announced";
const STOPPED: &str = "stopped --rounds 2";
const MEMORY: &str = "memory --connections 5 --writes 3000";
const IMAGES: &str = "images --images 3000 --recording-images 1500 --workload mix";
const IMAGES_CHECKPOINTS: &str =
    "images --images 6000 --recording-images 3000 --workload checkpoints --operations 120";
const FAILED_SYNC: &str = "images --images 1200 --recording-images 600 --workload failed-sync";
const TWO_COPIES: &str = "test manyhands-sqlite two_copies";
const FORK_LOCKS: &str = "test manyhands-sqlite fork::";
const FORK: &str = "test manyhands-sqlite speculative_vfs::";
const FORKED: &str = "test manyhands-queue forked";
/// The second round is the one in which the parent is killed.
const FORKS: &str = "environment --case fork --rounds 1 --from-round 1";
const FATE: &str = "test manyhands the_fate_of_an_announced_frame";
const LEFT_FRAME: &str = "test manyhands-reliability a_batch_that_was_refused";
const REFUSED_COMMIT: &str = "test manyhands-sqlite refused_commit";
const POLLING: &str = "contract --case polling --rounds 2 --writes 300";
const LASTROWID: &str = "contract --case lastrowid --rounds 2 --writes 300";
const HOT_ROWS: &str = "contract --case hot-rows --rounds 2 --writes 500";
/// Longer than the second in which it is learnt what transactions do.
const LEARNT: &str = "contract --case hot-rows --rounds 1 --writes 5000";
/// Each call that waits in vain does so for its timeout.
const CHECKPOINT: &str = "contract --case checkpoint --rounds 2 --writes 400 --timeout-ms 4000";
const TURNS: &str = "contract --case turns --rounds 1 --timeout-ms 2000";
const READERS: &str = "contract --case readers --rounds 1 --writes 400 --timeout-ms 4000";
const SURROUNDINGS: &str = "test manyhands surroundings";

/// With a writer in C, whose library has faults of its own.
const KILL_C: &str = "kill --rounds 2 --deaths 1 --after-ms 150 --point random --writer target/dropin-campaign/writer";
const FULL_C: &str = "full --rounds 1 --pages 4 --bytes 0 --writer target/dropin-campaign/writer";
const FORKS_C: &str = "environment --case fork --rounds 2 --writer target/dropin-campaign/writer";

/// All of them, in the order of a write's way.
pub const BUGS: &[Bug] = &[
    slow(
        "c-values-lost",
        "a statement of the C interface is executed without the values that it was bound to",
        &[KILL_C],
    ),
    slow(
        "c-failure-is-done",
        "a statement of the C interface that has failed says that it is done",
        &[FULL_C],
    ),
    slow(
        "c-child-ends-reads",
        "a forked child that uses the C interface ends what its parent has begun to read",
        &[FORKS_C],
    ),
    quick(
        "answer-before-commit",
        "a request is answered when it was executed, before the commit of its batch",
        &[BEFORE_COMMIT],
    ),
    quick(
        "no-savepoint",
        "a request of several statements has no savepoint: when the second fails, the first stays",
        &[KILL],
    ),
    quick(
        "stale-answer",
        "the answer is not written: the slot still has that of an earlier request",
        &[KILL],
    ),
    quick("execute-twice", "each request is executed twice", &[KILL]),
    quick("publish-again", "one answered request in eight is published again", &[KILL]),
    slow("withdrawn-stays", "a request that its owner withdrew stays in the queue", &[STOPPED]),
    slow("deadline-ignored", "who waits does so beyond its deadline", &[STOPPED]),
    slow("sleep-for-ever", "a wake-up is lost, and no sleep has an end", &[FEW]),
    slow("rob-the-leader", "a leader that lives, and is slow, is taken for a dead one", &[STOPPED]),
    slow(
        "spoiled-is-committed",
        "the batch of a request that spoils it is answered though it was rolled back",
        &[KILL],
    ),
    slow(
        "deferred-keys-unchecked",
        "a violated deferred foreign key is not noticed before the commit",
        &["test manyhands neighbours::"],
    ),
    slow(
        "anybodys-settings",
        "a request is executed with the settings of another session",
        &["test manyhands like_sqlite::in_the_queue"],
    ),
    slow(
        "full-in-a-normal-batch",
        "a batch that is not synced executes a request that asks for a sync",
        &["test manyhands a_batch_is_synced"],
    ),
    slow("no-checkpoints", "the leader never checkpoints", &[MEMORY]),
    quick(
        "taken-is-lost",
        "a successor forgets the requests that the dead leader had taken",
        &[TAKEN],
    ),
    quick(
        "unannounced-is-committed",
        "a batch that its dead leader had not announced is taken for committed",
        &[EXECUTED],
    ),
    quick(
        "announced-is-committed",
        "an announced batch is taken for committed without a look",
        &[ANNOUNCED],
    ),
    quick("announced-is-lost", "an announced batch is taken for lost without a look", &[HALF]),
    quick("seal-early", "a batch is sealed before its commit frame is written", &[ANNOUNCED]),
    slow(
        "seal-at-the-barrier",
        "a batch is sealed when one copy of the wal-index header has it",
        &["test manyhands-sqlite sealed::", MANY_SEALED],
    ),
    slow(
        "publish-unsaid",
        "a leader does not say that it is about to publish",
        &["test manyhands-queue a_leader_dies_at_each_step"],
    ),
    slow(
        "the-same-is-committed",
        "a frame that another program wrote is taken for that of a leader that never published it",
        &[FATE],
    ),
    slow(
        "note-of-nothing",
        "who wrote nothing notes another program's commit as its own",
        &["test manyhands-reliability its_commit_is_nobodys_note"],
    ),
    slow(
        "older-facts",
        "what is known of an INSERT may be of an older schema than its rewritten form",
        &["test manyhands older_schema"],
    ),
    slow(
        "older-form",
        "the rewritten form of an INSERT stays in use when the schema has changed",
        &["test manyhands older_schema"],
    ),
    slow(
        "nothing-read-behind",
        "a mapped page may end where the file ends, though SQLite reads some bytes behind it",
        &["test manyhands-sqlite mapped_file"],
    ),
    slow(
        "maps-what-may-go",
        "pages are mapped that a checkpoint may cut off",
        &["test manyhands-sqlite mapped_file"],
    ),
    slow(
        "commit-stays-gathered",
        "a commit's frames are not written when SQLite believes so",
        &["test manyhands-sqlite wal_appends"],
    ),
    slow(
        "gathered-is-overlooked",
        "SQLite reads the WAL before what it has appended is written",
        &["test manyhands-sqlite wal_appends"],
    ),
    quick("sealed-is-lost", "a sealed batch is taken for lost", &[SEALED, COMMITTED]),
    slow(
        "written-is-committed",
        "a commit frame in the WAL counts, whether the wal-index covers it or not",
        &[WRITTEN, SYNCED],
    ),
    slow(
        "covered-is-committed",
        "whatever frame is at the place of the announced one counts",
        &[FATE, HAMMERED],
    ),
    slow(
        "restart-is-lost",
        "when the WAL was restarted since, the batch is taken for lost without more evidence",
        &[FATE],
    ),
    slow(
        "left-frame-stays",
        "the frame of a dead leader's batch that was told to be lost is left in the WAL",
        &[LEFT_FRAME],
    ),
    slow(
        "refused-commit-stays",
        "the frame of a commit that failed is left in the WAL",
        &[REFUSED_COMMIT],
    ),
    slow("no-sync-of-the-wal", "the WAL is not synced", &[IMAGES]),
    slow(
        "no-sync-of-the-database",
        "a checkpoint does not sync the database file",
        &[IMAGES_CHECKPOINTS],
    ),
    slow(
        "visible-before-durable",
        "commits at NORMAL, synced before the answer: readers see them too early",
        &[IMAGES],
    ),
    slow("failed-sync-succeeds", "a sync that failed is reported as success", &[FAILED_SYNC]),
    by_all(quick(
        "forget-observation",
        "a replay by the leader does not compare what shows with what was seen",
        &[ALONE, BLACK_BOX],
    )),
    by_all(slow(
        "forget-observation-at-home",
        "the same where the own connection replays",
        &["test manyhands by_detours::", HOT_ROWS],
    )),
    quick(
        "first-write-does-not-compare",
        "a transaction of mode Auto that has read does not compare when it takes its turn to write",
        &[HOT_ROWS],
    ),
    quick(
        "ids-told-early",
        "a transaction of mode Auto reserves new ids, and is told them before its commit",
        &[POLLING],
    ),
    by_all(quick(
        "deferred-id-is-told",
        "the new id of a deferred write is told before the write is executed",
        &[POLLING, LASTROWID],
    )),
    slow("readers-take-turns", "a transaction of mode Auto takes its turn to read", &[READERS]),
    slow(
        "forget-the-first",
        "a quantum does not end: who comes back at once goes on, whoever waits",
        &[TURNS],
    ),
    quick("forget-counts", "what was counted is not compared", &[ALONE]),
    quick("forget-later-rows", "only the first row of a result is compared", &[ALONE]),
    quick("forget-errors", "that a statement failed is not compared", &[ALONE]),
    slow(
        "forget-cursors",
        "what a cursor showed is not in the log",
        &["test manyhands isolation::cursors"],
    ),
    quick(
        "deferred-forgotten",
        "what a transaction has kept back is not executed before its next statement",
        &[PAIR],
    ),
    quick(
        "deferred-unseen",
        "an INSERT is kept back though its id is taken, an UPDATE though there is no such row",
        &[ALONE],
    ),
    by_all(slow(
        "no-predictions",
        "a transaction of mode Auto never takes its turn before it reads",
        &["test manyhands isolation::auto_contract::what_a_transaction_will_do", LEARNT],
    )),
    by_all(slow(
        "wait-with-a-snapshot",
        "a transaction waits for its turn with a snapshot in hand",
        &["test manyhands isolation::auto_contract::who_waits_for_the_turn", CHECKPOINT],
    )),
    quick(
        "conflict-stays",
        "what a replay did before it found the conflict is not undone",
        &[ALONE],
    ),
    by_all(quick(
        "nobody-wrote",
        "reads are passed over whoever has written their tables",
        &[ALONE, HOT_ROWS],
    )),
    slow("told-of-joins", "what a join by USING compares is taken for told", &[ALONE]),
    slow(
        "heard-once",
        "what a virtual table compiles when it is connected is taken for the statement's",
        &[ALONE],
    ),
    slow("commit-wrote-nothing", "a commit is noted as one that wrote no table", &[ALONE]),
    slow("batch-wrote-nothing", "what the same batch wrote before does not count", &[ALONE]),
    slow(
        "promoted-wrote-nothing",
        "a promoted transaction is noted as one that wrote no table",
        &[PAIR],
    ),
    slow(
        "taint-stays",
        "what a transaction makes of changed tables does not count as changed",
        &[ALONE],
    ),
    slow(
        "chain-with-a-hole",
        "commits of other programs between the noted ones are not noticed",
        &[ISOLATION],
    ),
    by_all(quick(
        "promote-the-stale",
        "a transaction is promoted though others have committed since its snapshot",
        &[ALONE, BLACK_BOX],
    )),
    slow(
        "another-clock",
        "a replay has a clock and dice of its own",
        &["test manyhands time_and_chance"],
    ),
    slow("recorded-ids-forgotten", "a replay takes new rowids", &["test manyhands new_ids"]),
    slow("same-id-twice", "a rowid is reserved for two transactions", &["test manyhands new_ids"]),
    slow(
        "imaginary-without-reading",
        "the imaginary write lock is granted without a read lock",
        &[FORK],
    ),
    slow(
        "fork-takes-locks",
        "a fork may take other locks, to restart the WAL or to checkpoint",
        &[FORK],
    ),
    slow("fork-writes", "a fork may write to files when its page cache is full", &[FORK]),
    slow(
        "old-header",
        "a connection goes by the wal-index as it was when it last looked",
        &[ALONE],
    ),
    slow("read-mark-stays-private", "a fork's read mark is not shown to others", &[FORK]),
    slow(
        "commit-stays-private",
        "what is committed on a private page of the wal-index is not shown to others",
        &[ALONE],
    ),
    slow(
        "dead-entries-stay",
        "a promotion leaves the entries of a writer that died in the wal-index",
        &[FORK],
    ),
    slow(
        "own-entries-stay",
        "a writer with a private page that dies leaves entries which nobody clears away",
        &[FORK],
    ),
    slow(
        "close-with-a-private-page",
        "the last connection to close checkpoints by a page of its own",
        &[FORK],
    ),
    slow(
        "close-descriptors",
        "descriptors of -shm and database are closed when SQLite closes them",
        &[TWO_COPIES],
    ),
    slow("posix-locks", "SQLite's locks are POSIX locks, as they come", &[TWO_COPIES]),
    by_all(slow(
        "a-child-keeps-locks",
        "a forked child keeps descriptors, and with them locks, of its parent",
        &[FORK_LOCKS, FORKS],
    )),
    by_all(slow(
        "a-child-releases",
        "a forked child releases its parent's leadership",
        &[FORKED, FORKS],
    )),
    slow("replaced-unnoticed", "it is not noticed that the database was replaced", &[SURROUNDINGS]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::BUGS;

    /// A fault in the sources that no campaign is asked for would prove nothing, and neither would one in
    /// the list that does not exist.
    #[test]
    fn every_planted_fault_is_in_the_list() {
        fn names(directory: &Path, into: &mut BTreeSet<String>) {
            for entry in std::fs::read_dir(directory).expect("a directory of sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    names(&path, into);
                } else {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    let parts = text.split("planted(\"").skip(1);
                    into.extend(parts.filter_map(|part| Some(part.split_once('"')?.0.to_owned())));
                }
            }
        }
        let mut there = BTreeSet::new();
        for package in ["manyhands", "manyhands-c", "manyhands-queue", "manyhands-sqlite"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
            names(&root.join(package).join("src"), &mut there);
        }
        // No fault: with it a process is of another version, and all goes well (`opening --versions`).
        assert!(there.remove("another-layout"));
        let listed: BTreeSet<String> = BUGS.iter().map(|bug| bug.name.to_owned()).collect();
        assert_eq!(there, listed);
        assert_eq!(listed.len(), BUGS.len(), "a name stands there twice");
    }
}
