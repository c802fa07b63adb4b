//! Random statements over a small schema: few ids and few values, so that they meet.

/// Random numbers, the same ones for the same seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    pub fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

pub const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b CHECK (b IS NULL OR b < 90));
    INSERT INTO t VALUES (1, 10, 0), (2, 20, 0), (3, 30, 0);
    CREATE TABLE u (id INTEGER PRIMARY KEY AUTOINCREMENT, a);
    CREATE TABLE w (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID;
    CREATE TABLE calm (id INTEGER PRIMARY KEY, n);
    INSERT INTO calm VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0);
    CREATE TABLE child (id INTEGER PRIMARY KEY, t REFERENCES t (id) ON DELETE CASCADE,
        late REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED);
    CREATE TABLE seen (a);
    CREATE TRIGGER noted AFTER DELETE ON u BEGIN INSERT INTO seen VALUES (old.a); END;
    CREATE TABLE fixed (a);
    CREATE INDEX fixed_a ON fixed (a);";

/// What `ATTACH` brings.
pub const SCHEMA_OTHER: &str =
    "CREATE TABLE o (id INTEGER PRIMARY KEY, a); INSERT INTO o VALUES (1, 1);";

/// What a statement is about, as far as the schedule goes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads tables.
    Reads,
    Writes,
    Schema,
    /// CREATE … IF NOT EXISTS and its like, where there is nothing to do; a PRAGMA about the connection.
    Holds,
    /// A temporary table.
    Temporary,
    Attaches,
    Begins,
    /// A savepoint statement, COMMIT or ROLLBACK.
    Moves,
}

/// One of the read statements of a cursor.
pub const OF_CURSOR: &str = "SELECT id, n FROM calm ORDER BY id";

/// A statement for a connection. Only one that `attaches` knows the second database.
pub fn statement(dice: &mut Dice, in_transaction: bool, attaches: bool) -> (Kind, String) {
    let moves = if in_transaction { 22 } else { 30 };
    match dice.below(100) {
        percent if percent < moves => control(dice, in_transaction),
        percent if percent < 52 => (Kind::Reads, read(dice)),
        percent if percent < 83 => (Kind::Writes, write(dice)),
        percent if percent < 87 => (Kind::Schema, schema(dice)),
        percent if percent < 93 => (Kind::Holds, holds(dice)),
        percent if percent < 97 || !attaches => (Kind::Temporary, temporary(dice)),
        _ => (Kind::Attaches, attached(dice)),
    }
}

fn control(dice: &mut Dice, in_transaction: bool) -> (Kind, String) {
    let name = dice.one_of(&["one", "two"]);
    if !in_transaction {
        let begin = match dice.below(10) {
            0..6 => "BEGIN".to_owned(),
            6 | 7 => dice.one_of(&["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"]).to_owned(),
            8 => format!("SAVEPOINT {name}"),
            _ => {
                return (
                    Kind::Moves,
                    dice.one_of(&["COMMIT", "ROLLBACK", "RELEASE one"]).to_owned(),
                );
            }
        };
        return (Kind::Begins, begin);
    }
    let sql = match dice.below(20) {
        0..6 => "COMMIT".to_owned(),
        6..9 => "ROLLBACK".to_owned(),
        9..13 => format!("SAVEPOINT {name}"),
        13..16 => format!("RELEASE {name}"),
        16..19 => format!("ROLLBACK TO {name}"),
        _ => return (Kind::Begins, "BEGIN".to_owned()),
    };
    (Kind::Moves, sql)
}

fn read(dice: &mut Dice) -> String {
    let (id, value) = (1 + dice.below(6), dice.below(4) * 10);
    match dice.below(16) {
        0 => "SELECT count(*), sum(b) FROM t".to_owned(),
        1 => format!("SELECT * FROM t WHERE id = {id}"),
        2 => format!("SELECT id FROM t WHERE a = {value}"),
        3 => "SELECT max(id) FROM u".to_owned(),
        4 => "SELECT * FROM u ORDER BY id".to_owned(),
        5 => "SELECT * FROM w".to_owned(),
        6 => "SELECT sum(n) FROM calm".to_owned(),
        7 => "SELECT * FROM child ORDER BY id".to_owned(),
        8 => "SELECT count(*) FROM seen".to_owned(),
        9 => "SELECT t.id, u.id FROM t JOIN u USING (a)".to_owned(),
        10 => "SELECT name FROM sqlite_schema ORDER BY name".to_owned(),
        11 => "PRAGMA table_info(t)".to_owned(),
        12 => "SELECT changes(), last_insert_rowid()".to_owned(),
        13 => "SELECT 1, 'one'".to_owned(),
        14 => "SELECT * FROM made".to_owned(),
        _ => format!("SELECT b FROM t WHERE id <= {id} ORDER BY id DESC LIMIT 2"),
    }
}

fn write(dice: &mut Dice) -> String {
    let (id, value) = (1 + dice.below(6), dice.below(10) * 10);
    let or = dice.one_of(&["", "", "", "OR IGNORE ", "OR REPLACE ", "OR FAIL ", "OR ROLLBACK "]);
    match dice.below(24) {
        0 | 1 => format!("INSERT {or}INTO t (a, b) VALUES ({value}, {id})"),
        2 => format!("INSERT {or}INTO t VALUES ({id}, {value}, 1)"),
        3 => format!("INSERT {or}INTO t (a, b) VALUES ({value}, 1), ({value} + 1, 100), (NULL, 2)"),
        4..7 => format!("INSERT INTO u (a) VALUES ({value})"),
        7 => format!("INSERT INTO u (a) VALUES ({value}) RETURNING id, a"),
        8 => "INSERT INTO u (a) SELECT id FROM t".to_owned(),
        9 => format!("INSERT {or}INTO w VALUES ({id}, {value})"),
        10 | 11 => format!("UPDATE t SET b = b + 1 WHERE id = {id}"),
        12 => format!("UPDATE {or}t SET a = {value} WHERE id > {id}"),
        13 => format!("UPDATE t SET b = b + {value} WHERE id = {id} RETURNING b"),
        14 => format!("UPDATE calm SET n = n + 1 WHERE id = {id}"),
        15 => "UPDATE calm SET n = n + 1".to_owned(),
        16 => format!("DELETE FROM t WHERE id = {id}"),
        17 => format!("DELETE FROM u WHERE id = (SELECT max(id) FROM u) AND {value} < 60"),
        18 => "DELETE FROM w".to_owned(),
        19 => format!("INSERT INTO child (t) VALUES ({id})"),
        20 => format!("INSERT INTO child (late) VALUES ({id})"),
        21 => {
            format!("INSERT INTO t VALUES ({id}, {value}, 5) ON CONFLICT DO UPDATE SET b = b + 7")
        }
        22 => "INSERT INTO made VALUES (1)".to_owned(),
        _ => "UPDATE t SET b = 1 WHERE 0".to_owned(),
    }
}

fn schema(dice: &mut Dice) -> String {
    let sql = [
        "CREATE TABLE made (a)",
        "CREATE TABLE IF NOT EXISTS made (a)",
        "DROP TABLE made",
        "DROP TABLE IF EXISTS made",
        "CREATE INDEX IF NOT EXISTS u_a ON u (a)",
        "DROP INDEX IF EXISTS u_a",
        "ALTER TABLE w RENAME COLUMN b TO b",
        "PRAGMA user_version = 7",
    ];
    dice.one_of(&sql).to_owned()
}

fn holds(dice: &mut Dice) -> String {
    let sql = [
        "CREATE TABLE IF NOT EXISTS fixed (a)",
        "CREATE INDEX IF NOT EXISTS fixed_a ON fixed (a)",
        "DROP TABLE IF EXISTS nowhere",
        "PRAGMA defer_foreign_keys = ON",
        "PRAGMA defer_foreign_keys",
        "PRAGMA query_only = ON",
        "PRAGMA query_only = OFF",
        "PRAGMA query_only = OFF",
        "PRAGMA foreign_keys = ON",
        "PRAGMA foreign_keys",
        "PRAGMA recursive_triggers = ON",
        "PRAGMA case_sensitive_like = ON",
        "PRAGMA max_page_count = 100000",
        "PRAGMA ignore_check_constraints = ON",
        "PRAGMA ignore_check_constraints = OFF",
        "PRAGMA reverse_unordered_selects = OFF",
        "PRAGMA cache_size = 50",
        "PRAGMA user_version",
        "PRAGMA journal_mode",
        "PRAGMA wal_checkpoint",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ];
    dice.one_of(&sql).to_owned()
}

fn temporary(dice: &mut Dice) -> String {
    let sql = [
        "CREATE TEMP TABLE IF NOT EXISTS mine (id INTEGER PRIMARY KEY, a)",
        "CREATE TEMP TABLE IF NOT EXISTS mine (id INTEGER PRIMARY KEY, a)",
        "INSERT INTO mine (a) VALUES (1)",
        "INSERT INTO mine (a) SELECT id FROM t",
        "SELECT count(*) FROM mine",
        "INSERT INTO u (a) SELECT a FROM mine",
        "DELETE FROM mine",
        "DROP TABLE mine",
    ];
    dice.one_of(&sql).to_owned()
}

fn attached(dice: &mut Dice) -> String {
    let sql = [
        "ATTACH '{OTHER}' AS other",
        "ATTACH '{OTHER}' AS other",
        "SELECT * FROM other.o ORDER BY id",
        "INSERT INTO other.o (a) VALUES (2)",
        "INSERT INTO other.o (a) SELECT id FROM t",
        "INSERT INTO u (a) SELECT max(a) FROM other.o",
        "DETACH other",
    ];
    dice.one_of(&sql).to_owned()
}
