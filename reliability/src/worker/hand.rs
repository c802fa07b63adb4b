//! One connection that performs operation after operation, and says what came of each.

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use manyhands::{Connection, Database, Error, Transaction, params};

use super::{Orders, say};
use crate::clock::now_ns;
use crate::entry::{Kind, Operation, own_table};

const INSERT: &str = "INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const INSERT_COUNT: &str = "INSERT INTO entry \
     SELECT ?1, ?2, ?3, ?4, ?5, (SELECT n FROM counter WHERE id = ?6), NULL";
const COUNT: &str = "UPDATE counter SET n = n + 1 WHERE id = ?1 RETURNING n";
const VIOLATE: &str = "INSERT INTO counter VALUES (1, ?1)";
/// Undoes more than itself: no batch survives it.
const VIOLATE_ALL: &str = "INSERT OR ROLLBACK INTO counter VALUES (1, ?1)";

/// Too much for the memory of a sorter.
const SORT: &str = "WITH n AS (SELECT value AS i FROM json_each('[1,2,3,4,5,6,7,8,9,10]')) \
     SELECT count(*) FROM (SELECT randomblob(400) AS b FROM n a, n b, n c, n d ORDER BY b LIMIT -1 OFFSET 1)";

/// How long a writer waits after an error before it goes on.
const PAUSE: Duration = Duration::from_millis(20);

/// A writer.
pub struct Hand {
    connection: Connection,
    last: Operation,
    seed: u64,
}

impl Hand {
    pub fn new(database: &Database, writer: i64, seed: u64) -> Result<Hand> {
        let connection = database.connect().context("connect")?;
        Ok(Hand { connection, last: Operation { writer, sequence: 0 }, seed })
    }

    /// Performs the next operation of the writer's script.
    pub fn next(&mut self) {
        let operation = self.advance();
        self.perform(operation, |hand| hand.play(operation));
    }

    /// The same on a new connection, after what needs more files than a write does. If that fails, so does the
    /// operation.
    pub fn visit(&mut self, database: &Database, other: &Path) {
        let operation = self.advance();
        self.perform(operation, |hand| {
            // With a setting of its own it is not kept for the next user, but closed.
            hand.connection.execute("PRAGMA cache_size=10", params![])?;
            hand.connection = database.connect()?;
            if operation.sequence % 2 == 0 {
                let name = other.display().to_string();
                hand.connection.execute("ATTACH ?1 AS other", params![name])?;
                hand.connection.query("SELECT * FROM other.sqlite_schema", params![])?;
                hand.connection.execute("DETACH other", params![])?;
            } else {
                hand.connection.query(SORT, params![])?;
            }
            hand.play(operation)
        });
    }

    fn play(&mut self, operation: Operation) -> Result<Option<i64>, Error> {
        let hand = self;
        match operation.kind(hand.seed) {
            Kind::Insert => hand.insert(operation, 0, None, None).map(|()| None),
            Kind::Pair => hand.pair(operation).map(|()| None),
            Kind::Count => hand.count(operation).map(Some),
            Kind::BareCount => hand.bare_count().map(Some),
            Kind::Immediate => hand.immediate(operation).map(Some),
            Kind::Optimistic => hand.optimistic(operation).map(Some),
            Kind::Blind => hand.blind(operation).map(|()| None),
            Kind::Schema => hand.schema(operation).map(|()| None),
            Kind::Large => {
                let (bytes, letter) = operation.payload(hand.seed);
                let text = String::from(letter).repeat(bytes);
                hand.insert(operation, 0, None, Some(text)).map(|()| None)
            }
            Kind::Refused => {
                let violate = if operation.sequence % 2 == 0 { VIOLATE } else { VIOLATE_ALL };
                hand.connection.execute(violate, params![operation.sequence]).map(|_| None)
            }
            Kind::RefusedPair => hand.refused_pair(operation).map(|()| None),
        }
    }

    /// Inserts one row, whatever the script says: for files where nothing else is written.
    pub fn insert_next(&mut self) {
        let operation = self.advance();
        self.perform(operation, |hand| hand.insert(operation, 0, None, None).map(|()| None));
    }

    /// Operations of kind immediate, now, whatever the script says: skips to the next such operation.
    pub fn immediate_now(&mut self) {
        let operation = self.skip_to(Kind::Immediate);
        self.perform(operation, |hand| hand.immediate(operation).map(Some));
    }

    /// Holds the turn from now until `go`.
    pub fn hold(&mut self, orders: &Orders) -> Result<()> {
        let operation = self.skip_to(Kind::Immediate);
        let mut go = Ok(());
        self.perform(operation, |hand| {
            hand.immediate_with(operation, || {
                say("holding");
                go = orders.wait_for_go();
            })
            .map(Some)
        });
        go
    }

    fn advance(&mut self) -> Operation {
        self.last.sequence += 1;
        self.last
    }

    /// Performs a pair as a transaction of its own: it begins with `begin`, and `meanwhile` happens before its
    /// first write, or after it.
    pub fn pair_with(
        &mut self,
        begin: &str,
        after_first_write: bool,
        meanwhile: impl FnOnce(&mut Hand),
    ) {
        let operation = self.skip_to(Kind::Pair);
        self.perform(operation, |hand| {
            hand.connection.execute(begin, params![])?;
            // Nothing that others write.
            hand.connection.query("SELECT n FROM counter WHERE id = 0", params![])?;
            if after_first_write {
                hand.insert(operation, 0, None, None)?;
                meanwhile(hand);
            } else {
                meanwhile(hand);
                hand.insert(operation, 0, None, None)?;
            }
            hand.insert(operation, 1, None, None)?;
            hand.connection.execute("COMMIT", params![])?;
            Ok(None)
        });
    }

    /// Its connection.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn skip_to(&mut self, kind: Kind) -> Operation {
        loop {
            let operation = self.advance();
            if operation.kind(self.seed) == kind {
                return operation;
            }
        }
    }

    fn perform(
        &mut self,
        operation: Operation,
        perform: impl FnOnce(&mut Hand) -> Result<Option<i64>, Error>,
    ) {
        let began = Instant::now();
        let result = perform(self);
        let (now, Operation { writer, sequence }) = (now_ns(), operation);
        match result {
            Ok(Some(returned)) => say(&format!("ack {now} {writer} {sequence} {returned}")),
            Ok(None) => say(&format!("ack {now} {writer} {sequence} -")),
            Err(error) if error.is_constraint() => {
                say(&format!("refused {now} {writer} {sequence}"))
            }
            Err(error) => {
                let what = match () {
                    () if error.is_outcome_unknown() => "unknown",
                    () if error.is_timeout() => "timeout",
                    () => "other",
                };
                let code = error.code().map_or(0, |code| code.primary());
                let waited = began.elapsed().as_millis();
                let text = error.to_string().replace('\n', " ");
                let text: String = text.chars().take(300).collect();
                say(&format!("err {now} {writer} {sequence} {what} {code} {waited} {text}"));
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn insert(
        &mut self,
        operation: Operation,
        part: i64,
        value: Option<i64>,
        payload: Option<String>,
    ) -> Result<(), Error> {
        let (high, low) = operation.id(self.seed, part);
        let Operation { writer, sequence } = operation;
        let values = params![writer, sequence, part, high, low, value, payload];
        self.connection.execute(INSERT, values).map(drop)
    }

    fn pair(&mut self, operation: Operation) -> Result<(), Error> {
        let Operation { writer, sequence } = operation;
        let ((high, low), (high2, low2)) = (operation.id(self.seed, 0), operation.id(self.seed, 1));
        let none = None::<i64>;
        self.connection
            .batch(&[
                (INSERT, params![writer, sequence, 0, high, low, none, none]),
                (INSERT, params![writer, sequence, 1, high2, low2, none, none]),
            ])
            .map(drop)
    }

    fn refused_pair(&mut self, operation: Operation) -> Result<(), Error> {
        let Operation { writer, sequence } = operation;
        let (high, low) = operation.id(self.seed, 0);
        let none = None::<i64>;
        self.connection
            .batch(&[
                (INSERT, params![writer, sequence, 0, high, low, none, none]),
                (VIOLATE, params![sequence]),
            ])
            .map(drop)
    }

    fn count(&mut self, operation: Operation) -> Result<i64, Error> {
        let Operation { writer, sequence } = operation;
        let (high, low) = operation.id(self.seed, 0);
        let done = self.connection.batch(&[
            (COUNT, params![1]),
            (INSERT_COUNT, params![writer, sequence, 0, high, low, 1]),
        ])?;
        done[0].rows[0].get(0)
    }

    fn bare_count(&mut self) -> Result<i64, Error> {
        self.connection.query(COUNT, params![2])?[0].get(0)
    }

    fn immediate(&mut self, operation: Operation) -> Result<i64, Error> {
        self.immediate_with(operation, || {})
    }

    fn immediate_with(
        &mut self,
        operation: Operation,
        meanwhile: impl FnOnce(),
    ) -> Result<i64, Error> {
        let mut transaction = self.connection.begin_immediate()?;
        let value = read_and_write(&mut transaction, operation, self.seed, 3, meanwhile)?;
        transaction.commit()?;
        Ok(value)
    }

    fn optimistic(&mut self, operation: Operation) -> Result<i64, Error> {
        let seed = self.seed;
        self.connection.run(|transaction| read_and_write(transaction, operation, seed, 4, || {}))
    }

    fn blind(&mut self, operation: Operation) -> Result<(), Error> {
        let Operation { writer, sequence } = operation;
        let seed = self.seed;
        self.connection.run(|transaction| {
            transaction.execute("UPDATE counter SET n = n + 1 WHERE id = 5", params![])?;
            for part in 0..2 {
                let (high, low) = operation.id(seed, part);
                let values = params![writer, sequence, part, high, low, 5];
                transaction.execute(INSERT_COUNT, values)?;
            }
            Ok(())
        })
    }

    fn schema(&mut self, operation: Operation) -> Result<(), Error> {
        let Operation { writer, sequence } = operation;
        let (high, low) = operation.id(self.seed, 0);
        let none = None::<i64>;
        let mut transaction = self.connection.begin_immediate()?;
        transaction.execute(&format!("DROP TABLE IF EXISTS own_{writer}"), params![])?;
        transaction.execute(&own_table(operation), params![])?;
        transaction.execute(INSERT, params![writer, sequence, 0, high, low, none, none])?;
        transaction.commit()
    }
}

/// Reads a counter, writes it increased, and inserts two rows with its value.
fn read_and_write(
    transaction: &mut Transaction<'_>,
    operation: Operation,
    seed: u64,
    counter: i64,
    meanwhile: impl FnOnce(),
) -> Result<i64, Error> {
    let Operation { writer, sequence } = operation;
    let ((high, low), (high2, low2)) = (operation.id(seed, 0), operation.id(seed, 1));
    let rows = transaction.query("SELECT n FROM counter WHERE id = ?1", params![counter])?;
    let value = rows[0].get::<i64>(0)? + 1;
    let none = None::<i64>;
    transaction.execute(INSERT, params![writer, sequence, 0, high, low, value, none])?;
    meanwhile();
    transaction.execute("UPDATE counter SET n = ?1 WHERE id = ?2", params![value, counter])?;
    transaction.execute(INSERT, params![writer, sequence, 1, high2, low2, value, none])?;
    Ok(value)
}
