//! The bytecode of a statement (<https://sqlite.org/opcode.html>), read to decide whether the statement is infallible: whether any
//! execution of it can end with an error, and whether it adds one row.
//!
//! What must hold: an instruction that is not known here counts as fallible. NOT NULL can fail, too, unless the bound values are known
//! and satisfy it, or a number is added to what the column holds already. An INSERT that names its row's id fails if there is
//! such a row: the caller is told which parameter the id is, and may look it up.

use std::collections::BTreeMap;

use manyhands_sqlite::{self as sqlite, Step, Value, ValueRef};

mod one_row;

pub(crate) use one_row::NamedRow;

/// One instruction of a program.
struct Instruction {
    name: String,
    p: [i64; 3],
    p4: String,
    p5: i64,
}

/// A statement's program. The index of an instruction is its address.
pub(crate) struct Bytecode(Vec<Instruction>);

/// What must hold so that a program ends without an error, other than the system's: a full disk or table, or damage.
#[derive(Debug)]
pub(crate) struct InfallibleProgram {
    /// It adds one row, and changes no other.
    pub(crate) adds_one_row: bool,
    /// The one row that it is about, if a parameter names that.
    pub(crate) row: Option<NamedRow>,
    /// It returns one row: the id of that which it adds.
    pub(crate) returns_id: bool,
    /// It holds if these parameters are what they must be; the first has index 0.
    needs: Box<[(usize, Need)]>,
}

/// What a parameter must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    NotNull,
    /// A number that, added to any other, gives a number.
    Finite,
    Integer,
}

impl InfallibleProgram {
    /// True if the statement fails when there is a row with the id that a parameter gives.
    pub(crate) fn may_be_taken(&self) -> bool {
        self.row.as_ref().is_some_and(|row| row.is_added)
    }

    /// True if it holds with these values.
    pub(crate) fn with(&self, values: &[Value]) -> bool {
        self.needs.iter().all(|&(index, need)| match (&values[index], need) {
            (Value::Integer(_), _) => true,
            (Value::Real(number), Need::Finite) => number.is_finite(),
            // SQLite binds NULL for what is not a number.
            (Value::Real(number), Need::NotNull) => !number.is_nan(),
            (Value::Null, _) | (_, Need::Finite | Need::Integer) => false,
            (_, Need::NotNull) => true,
        })
    }
}

/// What an instruction leaves in a register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Parameter(usize),
    Integer,
    /// Another constant that is not NULL.
    Constant,
    /// Of a cursor, and the place of the column in its record.
    Column(i64, i64),
    /// Of two registers.
    Sum(i64, i64),
    /// What is in another register.
    Copy(i64),
    /// Anything, NULL included.
    Unknown,
}

/// What each register is given, by all instructions that write it, and their addresses.
type Registers = BTreeMap<i64, Vec<(usize, Given)>>;

impl Bytecode {
    /// # Errors
    /// As SQLite fails to compile the statement.
    pub(crate) fn of(sqlite: &sqlite::Connection, sql: &str) -> Result<Bytecode, sqlite::Error> {
        let mut explain = sqlite.prepare_one(&format!("EXPLAIN {sql}"))?;
        let mut program = Vec::new();
        while explain.step()? == Step::Row {
            let text = |column| match explain.column(column) {
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            // An instruction without a name is unknown here.
            let (name, p4) = (text(1), text(5));
            let number = |column| match explain.column(column) {
                ValueRef::Integer(number) => number,
                _ => 0,
            };
            program.push(Instruction { name, p: [2, 3, 4].map(&number), p4, p5: number(6) });
        }
        Ok(Bytecode(program))
    }

    /// The number of the schema `main` that it was compiled for, if it is in it.
    pub(crate) fn schema(&self) -> Option<i64> {
        let beginning = self.0.iter().find(|it| it.name == "Transaction" && it.p[0] == 0);
        beginning.map(|it| it.p[2])
    }

    /// True when it only begins to read, and ends. SQLite adds an instruction that is never reached to such a
    /// program, so that the statement counts as one that writes (`sqlite3ForceNotReadOnly`).
    pub(crate) fn does_nothing(&self) -> bool {
        self.0.iter().all(|it| match it.name.as_str() {
            "Init" | "Goto" => true,
            "Halt" => it.p[0] == 0,
            "Transaction" => it.p[1] == 0,
            "JournalMode" => it.p[2] == -1,
            _ => false,
        })
    }

    /// `None` when it may fail with any values. `may_be_null` tells of a column of a table whether its DEFAULT may be NULL.
    pub(crate) fn infallible(
        &self,
        may_be_null: impl Fn(&str, &str) -> bool,
    ) -> Option<InfallibleProgram> {
        let mut registers = Registers::new();
        let taken = self.taken();
        for (address, instruction) in self.0.iter().enumerate() {
            if taken.is_some_and(|taken| taken.fails_at == address) {
                continue;
            }
            for (register, given) in writes_of(instruction)? {
                registers.entry(register).or_default().push((address, given));
            }
        }
        let mut needs = Vec::new();
        let mut need = |given: &[Given], what: Need| {
            for number in given {
                match *number {
                    Given::Integer => {}
                    Given::Parameter(index) => needs.push((index, what)),
                    _ => return None,
                }
            }
            Some(())
        };
        let found = |register, address| self.given(&registers, register, address);
        for (address, instruction) in self.named("MustBeInt") {
            need(&found(instruction.p[0], address)?, Need::Integer)?;
        }
        let holding = self.columns_not_null(may_be_null);
        let is_held = |given: &[Given]| given.iter().all(|it| holding.contains(it));
        for (address, instruction) in self.named("HaltIfNull") {
            for (address, given) in self.makers(&registers, instruction.p[2], address)? {
                match given {
                    Given::Integer | Given::Constant => {}
                    Given::Parameter(_) => need(&[given], Need::NotNull)?,
                    Given::Sum(left, right) => {
                        let (left, right) = (found(left, address)?, found(right, address)?);
                        let number = match (is_held(&left), is_held(&right)) {
                            (true, _) => right,
                            (_, true) => left,
                            _ => return None,
                        };
                        need(&number, Need::Finite)?;
                    }
                    Given::Column(..) | Given::Copy(_) | Given::Unknown => return None,
                }
            }
        }
        let adds_one_row = self.adds_one_row(taken);
        let row = self.named_row(&registers, taken);
        let returns_id = self.returns_id()?;
        // Nothing is known here of what else it shows, or fails with.
        if returns_id && !adds_one_row || taken.is_some() && (!adds_one_row || row.is_none()) {
            return None;
        }
        Some(InfallibleProgram { adds_one_row, row, returns_id, needs: needs.into() })
    }

    fn named(&self, name: &'static str) -> impl Iterator<Item = (usize, &Instruction)> {
        self.0.iter().enumerate().filter(move |(_, it)| it.name == name)
    }

    /// What may be in a register at an address.
    fn given(&self, registers: &Registers, register: i64, address: usize) -> Option<Vec<Given>> {
        let makers = self.makers(registers, register, address)?;
        Some(makers.into_iter().map(|(_, given)| given).collect())
    }

    /// The instructions that may have made what is in a register at an address, wherever it was copied from.
    fn makers(
        &self,
        registers: &Registers,
        register: i64,
        address: usize,
    ) -> Option<Vec<(usize, Given)>> {
        let mut open = self.writers(registers, register, address)?;
        let mut made = Vec::new();
        // Copies could go round in circles.
        for _ in 0..self.0.len() {
            let Some((address, given)) = open.pop() else { return Some(made) };
            match given {
                Given::Copy(source) => open.extend(self.writers(registers, source, address)?),
                _ => made.push((address, given)),
            }
        }
        None
    }

    /// The instructions that may have written a register before an address: the last one, where nothing jumps in between,
    /// or all. To what P2 does not name, only instructions jump that [`leaves`] knows, and seeks, past the test behind them.
    fn writers(
        &self,
        registers: &Registers,
        register: i64,
        address: usize,
    ) -> Option<Vec<(usize, Given)>> {
        let writers = registers.get(&register)?;
        for before in (0..address).rev() {
            if self.is_entered(before + 1) || leaves(&self.0[before].name) {
                break;
            }
            if let Some(last) = writers.iter().find(|(writer, _)| *writer == before) {
                return Some(vec![*last]);
            }
        }
        Some(writers.clone())
    }

    /// An instruction jumps to this address.
    fn is_entered(&self, address: usize) -> bool {
        let enters = |it: &Instruction| usize::try_from(it.p[1]) == Ok(address);
        self.0.iter().any(|it| jumps(&it.name) && enters(it))
    }

    /// Columns that hold no NULL, since none may be written there: the registers from which a row is made are in the
    /// order of its columns. A column that was added to rows that were there holds its DEFAULT in them.
    fn columns_not_null(&self, may_be_null: impl Fn(&str, &str) -> bool) -> Vec<Given> {
        let mut columns = Vec::new();
        for (_, row) in self.counting() {
            let [cursor, record, _] = row.p;
            let mut made = self.0.iter().filter(|it| it.name == "MakeRecord" && it.p[2] == record);
            if let (Some(made), None) = (made.next(), made.next()) {
                let [first, count, _] = made.p;
                for (_, check) in self.named("HaltIfNull") {
                    // Its name is "table.column".
                    let column = check.p4.strip_prefix(&row.p4).and_then(|it| it.strip_prefix('.'));
                    let place = check.p[2] - first;
                    if (0..count).contains(&place)
                        && column.is_some_and(|column| !may_be_null(&row.p4, column))
                    {
                        columns.push(Given::Column(cursor, place));
                    }
                }
            }
        }
        columns
    }

    /// The instructions that write a row which counts as a change.
    fn counting(&self) -> impl Iterator<Item = (usize, &Instruction)> {
        /// In P5 of such an Insert.
        const COUNTS: i64 = 1;
        let instructions = self.0.iter().enumerate();
        instructions.filter(|(_, it)| it.name == "Insert" && it.p5 & COUNTS != 0)
    }
}

/// The registers that an instruction writes. `None` if it may end the program with an error.
fn writes_of(instruction: &Instruction) -> Option<Vec<(i64, Given)>> {
    let [p1, p2, p3] = instruction.p;
    let unknown = |registers: core::ops::RangeInclusive<i64>| {
        registers.map(|register| (register, Given::Unknown)).collect()
    };
    let writes: Vec<(i64, Given)> = match instruction.name.as_str() {
        "Variable" => vec![(p2, Given::Parameter(usize::try_from(p1 - 1).ok()?))],
        "Integer" | "Int64" => vec![(p2, Given::Integer)],
        "Real" | "String8" | "Blob" => vec![(p2, Given::Constant)],
        "Column" => vec![(p3, Given::Column(p1, p2))],
        "Add" | "Subtract" => vec![(p3, Given::Sum(p1, p2))],
        "Multiply" | "Divide" | "Remainder" | "BitAnd" | "BitOr" | "ShiftLeft" | "ShiftRight"
        | "And" | "Or" | "MakeRecord" => unknown(p3..=p3),
        "SCopy" => vec![(p2, Given::Copy(p1))],
        "Copy" => (0..=p3).map(|n| (p2 + n, Given::Copy(p1 + n))).collect(),
        "Not" | "BitNot" | "IntCopy" | "Rowid" | "IdxRowid" | "RowData" | "IsTrue"
        | "ZeroOrNull" | "BeginSubrtn" => unknown(p2..=p2),
        "NewRowid" => vec![(p2, Given::Integer), (p3, Given::Unknown)],
        "SoftNull" | "AddImm" | "MemMax" | "InitCoroutine" | "EndCoroutine" | "Yield" | "IfPos"
        | "IfNotZero" | "DecrJumpZero" => unknown(p1..=p1),
        "Null" => unknown(p2..=p2.max(p3)),
        // In place, and what is not NULL remains so.
        "Affinity" | "RealAffinity" | "MustBeInt" => Vec::new(),
        // Of the main database alone.
        "OpenRead" | "OpenWrite" if p3 == 0 => Vec::new(),
        "Transaction" if p1 == 0 => Vec::new(),
        // With P1, it is an error.
        "Halt" if p1 == 0 => Vec::new(),
        "OpenEphemeral" | "Close" | "NullRow" | "Insert" | "IdxInsert" | "Delete" | "IdxDelete"
        | "Clear" | "FkCheck" | "ResultRow" | "SeekScan" | "SeekHit" | "DeferredSeek"
        | "FinishSeek" | "HaltIfNull" | "Return" | "Noop" => Vec::new(),
        name if jumps(name) => Vec::new(),
        _ => return None,
    };
    Some(writes)
}

/// True for an instruction that may go on at P2.
fn jumps(name: &str) -> bool {
    matches!(
        name,
        "Init"
            | "Goto"
            | "Once"
            | "InitCoroutine"
            | "Yield"
            | "Rewind"
            | "Last"
            | "Next"
            | "Prev"
            | "SeekRowid"
            | "NotExists"
            | "SeekLT"
            | "SeekLE"
            | "SeekGE"
            | "SeekGT"
            | "SeekScan"
            | "IfNoHope"
            | "Found"
            | "NotFound"
            | "NoConflict"
            | "IdxLT"
            | "IdxLE"
            | "IdxGT"
            | "IdxGE"
            | "Eq"
            | "Ne"
            | "Lt"
            | "Le"
            | "Gt"
            | "Ge"
            | "If"
            | "IfNot"
            | "IfPos"
            | "IfNotZero"
            | "DecrJumpZero"
            | "IsNull"
            | "NotNull"
            | "MustBeInt"
    )
}

/// True for an instruction after which what follows it is not next, or not before other instructions.
fn leaves(name: &str) -> bool {
    matches!(
        name,
        "Init"
            | "Goto"
            | "Halt"
            | "InitCoroutine"
            | "EndCoroutine"
            | "Yield"
            | "BeginSubrtn"
            | "Return"
    )
}
