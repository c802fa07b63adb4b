//! What an operation writes: a function of the seed, the writer's number and the operation's
//! sequence number. So the checker knows every row that may be in the file, without asking the
//! processes that died.

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An autocommit INSERT.
    Insert,
    /// A batch of two inserts: both or none.
    Pair,
    /// A batch: counter 1 is increased, and a row with its value inserted.
    Count,
    /// An autocommit UPDATE of counter 2 with RETURNING. It leaves no row.
    BareCount,
    /// BEGIN IMMEDIATE: counter 3 is read, written increased, and two rows are inserted.
    Immediate,
    /// An optimistic transaction, run again after a conflict: counter 4, as above.
    Optimistic,
    /// An optimistic transaction that looks at nothing, so that it can be replayed: counter 5 is
    /// increased, and two rows with its value inserted.
    Blind,
    /// An INSERT that is too large for a slot of the queue.
    Large,
    /// Changes of the schema and of rows in one transaction: the writer's own table is dropped and made
    /// anew, with a column that names the operation, and one row is inserted.
    Schema,
    /// An INSERT that violates a constraint.
    Refused,
    /// A batch whose second statement violates a constraint: its first must not be there either.
    RefusedPair,
}

impl Kind {
    /// How many rows it leaves.
    pub fn parts(self) -> i64 {
        match self {
            Kind::BareCount | Kind::Refused | Kind::RefusedPair => 0,
            Kind::Insert | Kind::Count | Kind::Large | Kind::Schema => 1,
            Kind::Pair | Kind::Immediate | Kind::Optimistic | Kind::Blind => 2,
        }
    }

    /// The counter that it increases.
    pub fn counter(self) -> Option<i64> {
        match self {
            Kind::Count => Some(1),
            Kind::BareCount => Some(2),
            Kind::Immediate => Some(3),
            Kind::Optimistic => Some(4),
            Kind::Blind => Some(5),
            _ => None,
        }
    }
}

/// Which operation of which writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    /// The writer: process times 100 plus thread.
    pub writer: i64,
    /// Counted from 1 by the writer.
    pub sequence: i64,
}

impl Operation {
    fn dice(self, seed: u64, part: i64) -> u64 {
        let mut mixed = seed;
        for number in [self.writer, self.sequence, part] {
            // The finalizer of SplitMix64: neighbouring numbers give unrelated results.
            mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ number as u64;
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= mixed >> 31;
        }
        mixed
    }

    /// What the operation does.
    pub fn kind(self, seed: u64) -> Kind {
        match self.dice(seed, -1) % 100 {
            0..26 => Kind::Insert,
            26..39 => Kind::Pair,
            39..52 => Kind::Count,
            52..64 => Kind::BareCount,
            64..73 => Kind::Immediate,
            73..79 => Kind::Optimistic,
            79..85 => Kind::Blind,
            85..91 => Kind::Large,
            91..93 => Kind::Schema,
            93..97 => Kind::Refused,
            _ => Kind::RefusedPair,
        }
    }

    /// The 128-bit id of one of its rows.
    pub fn id(self, seed: u64, part: i64) -> (i64, i64) {
        (self.dice(seed, 2 * part) as i64, self.dice(seed, 2 * part + 1) as i64)
    }

    /// The text of a large row: its length, and the letter it consists of.
    pub fn payload(self, seed: u64) -> (usize, char) {
        let dice = self.dice(seed, -2);
        (3_000 + (dice % 20_000) as usize, char::from(b'a' + (dice >> 32) as u8 % 26))
    }
}

/// How many counters there are, numbered from 1.
pub const COUNTERS: i64 = 5;

/// The writer's own table, as the operation leaves it.
pub fn own_table(operation: Operation) -> String {
    let Operation { writer, sequence } = operation;
    format!("CREATE TABLE own_{writer} (sequence_{sequence})")
}

/// The tables of every campaign. No id is declared unique: a row that is there twice must show.
pub const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS entry (writer INTEGER, sequence INTEGER, part INTEGER, \
     high INTEGER, low INTEGER, value INTEGER, payload TEXT)",
    "CREATE INDEX IF NOT EXISTS entry_id ON entry (high, low)",
    "CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n >= 0))",
    "INSERT OR IGNORE INTO counter VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)",
];
