//! The schema, the statements, and what a caller may look at.
//!
//! All parameters are integers, so that a statement can also be written out for the sqlite3 shell.

use manyhands::Value;
use serde::{Deserialize, Serialize};

/// How many accounts there are, from 1; they are never deleted.
pub const ACCOUNTS: i64 = 32;
/// How many kinds of items, owners of accounts, and keys of tags there may be, from 0.
pub const KINDS: i64 = 8;
pub const TAGS: i64 = 40;
/// How many seats there may be, from 0.
pub const SEATS: i64 = 48;
/// Which members are looked at and changed, from 1.
pub const MEMBERS: i64 = 400;

/// The tables. A write of one statement draws its number by a trigger. `born` remembers the id of every
/// item, also of those that nobody looked at and those that are deleted since. Without triggers are `seat` and `member`,
/// of whose rows a transaction writes some without executing that: members are never deleted.
pub const SCHEMA: &str = "
    CREATE TABLE history (n INTEGER PRIMARY KEY, high INTEGER, low INTEGER, UNIQUE (high, low));
    CREATE TABLE account (id INTEGER PRIMARY KEY, owner INTEGER, cents INTEGER, high INTEGER, low INTEGER);
    CREATE INDEX account_owner ON account (owner);
    CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER, n INTEGER,
        high INTEGER, low INTEGER, part INTEGER);
    CREATE INDEX item_kind ON item (kind);
    CREATE TABLE tag (k TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
    CREATE TABLE total (k INTEGER PRIMARY KEY, cents INTEGER);
    CREATE TABLE seat (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
    CREATE TABLE member (id INTEGER PRIMARY KEY, kind INTEGER, n INTEGER,
        high INTEGER, low INTEGER, part INTEGER);
    CREATE VIRTUAL TABLE note USING fts4 (w);
    CREATE TABLE born (id INTEGER PRIMARY KEY, high INTEGER, low INTEGER, part INTEGER);
    CREATE TRIGGER account_history AFTER UPDATE ON account BEGIN
        INSERT OR IGNORE INTO history SELECT coalesce(max(n), 0) + 1, new.high, new.low FROM history;
    END;
    CREATE TRIGGER item_history AFTER INSERT ON item BEGIN
        INSERT INTO born VALUES (new.id, new.high, new.low, new.part);
        INSERT OR IGNORE INTO history SELECT coalesce(max(n), 0) + 1, new.high, new.low FROM history;
    END;
    WITH RECURSIVE number (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM number WHERE id < 32)
        INSERT INTO account SELECT id, id % 8, 1000, 0, 0 FROM number;";

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:literal;)*) => {
        /// A statement with parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Statement { $($(#[$doc])* $name,)* }

        impl Statement {
            pub fn sql(self) -> &'static str {
                match self { $(Statement::$name => $sql,)* }
            }
        }
    };
}

statements! {
    /// Draws the number. Several times in a transaction is as good as once.
    Draw = "INSERT OR IGNORE INTO history SELECT coalesce(max(n), 0) + 1, ?1, ?2 FROM history";
    /// The number of the last transaction: where a transaction that only reads has its place.
    Last = "SELECT coalesce(max(n), 0) FROM history";
    LastAndOwner = "SELECT (SELECT coalesce(max(n), 0) FROM history), count(*), sum(cents) \
                    FROM account WHERE owner = ?1";
    LastAndItems = "SELECT (SELECT coalesce(max(n), 0) FROM history), count(*), max(id), sum(n) \
                    FROM item WHERE kind = ?1";
    Cents = "SELECT cents FROM account WHERE id = ?1";
    OfOwner = "SELECT id, cents FROM account WHERE owner = ?1";
    Range = "SELECT count(*), sum(cents) FROM account WHERE id BETWEEN ?1 AND ?2";
    Average = "SELECT avg(cents), max(cents), min(id) FROM account WHERE id >= ?1";
    Items = "SELECT id, n FROM item WHERE kind = ?1 ORDER BY id DESC";
    CountItems = "SELECT count(*), sum(n) FROM item WHERE kind = ?1";
    Tags = "SELECT k, n FROM tag WHERE k BETWEEN printf('k%02d', ?1) AND printf('k%02d', ?2)";
    /// SQLite's authorizer is told of none of the columns of `tag`.
    JoinedUntold = "SELECT count(*) FROM tag JOIN item USING (n) WHERE kind = ?1";
    Noted = "SELECT count(*) FROM note WHERE w MATCH printf('k%02d', ?1)";
    Joined = "SELECT a.id, i.id FROM account a JOIN item i ON i.kind = a.owner WHERE a.id = ?1";
    Add = "UPDATE account SET cents = cents + ?2, high = ?3, low = ?4 WHERE id = ?1";
    AddReturning = "UPDATE account SET cents = cents + ?2, high = ?3, low = ?4 WHERE id = ?1 RETURNING cents";
    Set = "UPDATE account SET cents = ?2, high = ?3, low = ?4 WHERE id = ?1";
    Tax = "UPDATE account SET cents = cents - 7, high = ?3, low = ?4 WHERE owner = ?1 AND cents > ?2";
    Insert = "INSERT INTO item (kind, n, high, low, part) VALUES (?1, ?2, ?3, ?4, ?5)";
    InsertReturning = "INSERT INTO item (kind, n, high, low, part) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    Remove = "DELETE FROM item WHERE id IN (SELECT id FROM item WHERE kind = ?1 ORDER BY id LIMIT ?2)";
    RemoveReturning = "DELETE FROM item WHERE id IN (SELECT id FROM item WHERE kind = ?1 ORDER BY id LIMIT ?2) RETURNING n";
    Count = "UPDATE item SET n = n + 1 WHERE kind = ?1";
    Upsert = "INSERT INTO tag VALUES (printf('k%02d', ?1), ?2) ON CONFLICT (k) DO UPDATE SET n = n + excluded.n";
    UpsertReturning = "INSERT INTO tag VALUES (printf('k%02d', ?1), ?2) \
                       ON CONFLICT (k) DO UPDATE SET n = n + excluded.n RETURNING n";
    /// Makes a row of one table from rows of another, for [`Statement::Total`] to look at.
    Gather = "INSERT INTO total SELECT ?1, sum(cents) FROM account WHERE owner = ?2 \
              ON CONFLICT (k) DO UPDATE SET cents = excluded.cents";
    GatherUntold = "INSERT INTO total SELECT ?1, count(*) FROM tag JOIN item USING (n) WHERE kind = ?2 \
                    ON CONFLICT (k) DO UPDATE SET cents = excluded.cents";
    Note = "INSERT INTO note (w) VALUES (printf('k%02d', ?1))";
    Total = "SELECT cents FROM total WHERE k = ?1";
    /// Fails when the tag is there.
    Tag = "INSERT INTO tag VALUES (printf('k%02d', ?1), ?2)";
    Untag = "DELETE FROM tag WHERE k = printf('k%02d', ?1)";
    /// Fails when the seat is taken.
    Sit = "INSERT INTO seat VALUES (?1, ?2)";
    Stand = "DELETE FROM seat WHERE id = ?1";
    Move = "UPDATE seat SET n = n + ?2 WHERE id = ?1";
    Seats = "SELECT id, n FROM seat WHERE id BETWEEN ?1 AND ?2";
    Enter = "INSERT INTO member (kind, n, high, low, part) VALUES (?1, ?2, ?3, ?4, ?5)";
    EnterReturning = "INSERT INTO member (kind, n, high, low, part) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    Promote = "UPDATE member SET n = n + ?2 WHERE id = ?1";
    Member = "SELECT kind, n FROM member WHERE id = ?1";
    /// From now on an item is also written into another table.
    Watch = "CREATE TRIGGER IF NOT EXISTS item_total AFTER INSERT ON item BEGIN \
             INSERT INTO total VALUES (new.kind, 1) ON CONFLICT (k) DO UPDATE SET cents = cents + 1; END";
    Unwatch = "DROP TRIGGER IF EXISTS item_total";
    /// From now on SQLite compiles some of the statements again for each value.
    Analyze = "ANALYZE";
    Savepoint = "SAVEPOINT s";
    RollbackTo = "ROLLBACK TO s";
    Release = "RELEASE s";
}

impl Statement {
    pub fn reads(self) -> bool {
        self.sql().starts_with("SELECT")
    }

    /// Somebody else may have inserted the same key.
    pub fn may_fail(self) -> bool {
        matches!(self, Statement::Tag | Statement::Sit)
    }

    /// How the model inserts an item or a member: the last parameter is the id that it got.
    pub fn with_id(self) -> Option<&'static str> {
        match self {
            Statement::Insert | Statement::InsertReturning => Some(
                "INSERT INTO item (kind, n, high, low, part, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            ),
            Statement::Enter | Statement::EnterReturning => Some(
                "INSERT INTO member (kind, n, high, low, part, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            ),
            _ => None,
        }
    }
}

/// What the caller looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Look {
    Nothing,
    Rows,
    /// So many rows, one by one.
    First(u32),
    Changes,
    Rowid,
}

/// A statement with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub statement: Statement,
    pub values: Vec<i64>,
    pub look: Look,
}

impl Call {
    /// For the shell.
    pub fn written_out(&self) -> String {
        let mut sql = self.statement.sql().to_owned();
        for (index, value) in self.values.iter().enumerate() {
            sql = sql.replace(&format!("?{}", index + 1), &value.to_string());
        }
        sql
    }
}

/// What the caller saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Seen {
    Nothing,
    Rows(Vec<Vec<Value>>),
    Number(i64),
    /// SQLite's extended code.
    Error(i32),
}
