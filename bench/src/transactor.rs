//! A client whose operation is a transaction of several statements: `think`, `transfer`, `counter --in-transaction`, `orm`.
//!
//! What is random in a transaction is thrown before it begins, so that a transaction that is run again does the same.

use super::{
    engine::{Client, Effort, Parameter::Blob, Parameter::Integer, Refusal, Statements},
    fixture::{COLD_TABLE_ROWS, COLD_TABLES, COUNTER_ROWS},
    job::Shape,
    think::Think,
};

/// Rows that a transaction of `think` inserts.
pub const THINK_ROWS: i64 = 100;
/// The bytes of each.
const THINK_VALUE: [u8; 20] = [0x5a; 20];
/// Point reads of a transaction of `orm`.
const ORM_READS: usize = 20;
/// Marks are below it, so that their sum over all rows, weighted with ids, stays far from the limits of an integer.
const MARKS: i64 = 997;
/// The largest amount of a transfer.
const AMOUNT_MAX: i64 = 100;

/// One client.
pub struct Transactor {
    shape: Shape,
    number: i64,
    generator: fastrand::Rng,
    /// Of all acknowledged inserts whose id was read back: the sum of id x mark, as this client saw them.
    pub ids_read_back: i64,
}

impl Transactor {
    /// The client with this number, from 0; `seed` is its own.
    pub fn new(shape: Shape, number: usize, seed: u64) -> Self {
        let generator = fastrand::Rng::with_seed(seed);
        Self { shape, number: number as i64, generator, ids_read_back: 0 }
    }

    /// Runs transaction number `round` until it is acknowledged or refused.
    pub fn run(
        &mut self,
        client: &mut dyn Client,
        round: i64,
        effort: &mut Effort,
    ) -> Result<(), Refusal> {
        let hot_row = 1 + (self.number + round) % COUNTER_ROWS;
        match self.shape {
            Shape::Think { think } => {
                let id_first = (self.number << 32) + round * THINK_ROWS;
                client.transact(&mut |statements| insert_rows(statements, think, id_first), effort)
            }
            Shape::Transfer { accounts, think } => {
                let from = self.generator.i64(1..=accounts);
                // Any other account.
                let to = 1 + (from - 1 + self.generator.i64(1..accounts)) % accounts;
                let amount = self.generator.i64(1..=AMOUNT_MAX);
                client.transact(
                    &mut |statements| transfer(statements, think, from, to, amount),
                    effort,
                )
            }
            Shape::Count => {
                client.transact(&mut |statements| add_one(statements, "t", hot_row), effort)
            }
            Shape::Orm => {
                let mark = (self.number + round) % MARKS;
                let reads: [i64; ORM_READS] =
                    std::array::from_fn(|_| self.generator.i64(1..=COLD_TABLE_ROWS));
                // Half of them as Django asks for the id, half as SQLAlchemy does.
                let is_returning = round % 2 == 0;
                let mut id = 0;
                client.transact(
                    &mut |statements| {
                        id = request(statements, &reads, mark, is_returning, hot_row)?;
                        Ok(())
                    },
                    effort,
                )?;
                self.ids_read_back += id * mark;
                Ok(())
            }
        }
    }
}

/// `think`: after thinking, rows whose ids are the client's own.
fn insert_rows(
    statements: &mut dyn Statements,
    think: Think,
    id_first: i64,
) -> Result<(), Refusal> {
    think.pass();
    (id_first..id_first + THINK_ROWS).try_for_each(|id| {
        statements
            .execute("INSERT INTO t(id, v) VALUES (?1, ?2)", &[Integer(id), Blob(&THINK_VALUE)])
    })
}

/// `transfer`: what is written depends on what was read. Without isolation, money appears or disappears.
fn transfer(
    statements: &mut dyn Statements,
    think: Think,
    from: i64,
    to: i64,
    amount: i64,
) -> Result<(), Refusal> {
    let mut balance =
        |id| statements.number("SELECT balance FROM account WHERE id = ?1", &[Integer(id)]);
    let (balance_from, balance_to) = (balance(from)?, balance(to)?);
    think.pass();
    [(from, balance_from - amount), (to, balance_to + amount)].into_iter().try_for_each(
        |(id, balance)| {
            statements.execute(
                "UPDATE account SET balance = ?1, transfers = transfers + 1 WHERE id = ?2",
                &[Integer(balance), Integer(id)],
            )
        },
    )
}

/// The hot row, by number.
fn add_one(statements: &mut dyn Statements, table: &str, row: i64) -> Result<(), Refusal> {
    statements.execute(&format!("UPDATE {table} SET a = a + 1 WHERE id = ?1"), &[Integer(row)])
}

/// `orm`: what a request of a web application does; returns the id of the inserted row, as the application got it.
fn request(
    statements: &mut dyn Statements,
    reads: &[i64],
    mark: i64,
    is_returning: bool,
    hot_row: i64,
) -> Result<i64, Refusal> {
    for (table, &id) in COLD_TABLES.iter().cycle().zip(reads) {
        statements.number(&format!("SELECT v FROM {table} WHERE id = ?1"), &[Integer(id)])?;
    }
    let id = if is_returning {
        statements.number("INSERT INTO item(mark) VALUES (?1) RETURNING id", &[Integer(mark)])?
    } else {
        statements.insert("INSERT INTO item(mark) VALUES (?1)", &[Integer(mark)])?
    };
    add_one(statements, "counter", hot_row)?;
    Ok(id)
}
