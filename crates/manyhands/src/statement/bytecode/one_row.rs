//! Whether a program writes one row, and which.

use super::{Bytecode, Given, Instruction, Registers, jumps, leaves};

/// A row by its id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedRow {
    /// The table's name, of the schema `main`.
    pub(crate) table: String,
    /// The parameter that is the id; the first has index 0.
    pub(crate) parameter: usize,
    /// It is added, and the statement fails if there is one. Otherwise it is changed, and if there is none,
    /// nothing is.
    pub(crate) is_added: bool,
}

/// The test of a new row's id, and what comes of it if there is such a row.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    /// The address of the instruction that ends the program then, behind the test.
    pub(super) fails_at: usize,
    /// The register of the id.
    id: i64,
}

impl Bytecode {
    /// The row that it adds, if a parameter may be its id, or that it changes.
    pub(super) fn named_row(
        &self,
        registers: &Registers,
        taken: Option<Taken>,
    ) -> Option<NamedRow> {
        let parameter = match taken {
            Some(taken) => self.parameter_in(registers, taken.id, taken.fails_at),
            None => self.changes_row(registers),
        }?;
        let (_, row) = self.counting().next()?;
        Some(NamedRow { table: row.p4.clone(), parameter, is_added: taken.is_some() })
    }

    /// Where it fails only because a row with this id is there.
    pub(super) fn taken(&self) -> Option<Taken> {
        const PRIMARY_KEY: i64 = 1555;
        const ROWID: i64 = 2579;
        /// In P2 of a Halt: the statement alone is undone.
        const ABORT: i64 = 2;
        let mut failing = self.named("Halt").filter(|(_, it)| it.p[0] != 0);
        let (Some((fails_at, halt)), None) = (failing.next(), failing.next()) else { return None };
        let is_for_id = matches!(halt.p[0], PRIMARY_KEY | ROWID) && halt.p[1] == ABORT;
        let test = fails_at.checked_sub(1).map(|before| &self.0[before])?;
        let passes = usize::try_from(test.p[1]) == Ok(fails_at + 1);
        let is_taken =
            is_for_id && test.name == "NotExists" && passes && !self.is_entered(fails_at);
        is_taken.then_some(Taken { fails_at, id: test.p[2] })
    }

    /// The one parameter that may be in a register at an address, or a new id.
    fn parameter_in(&self, registers: &Registers, register: i64, address: usize) -> Option<usize> {
        let given = self.given(registers, register, address)?;
        let mut parameters = given.iter().filter(|it| **it != Given::Integer);
        match (parameters.next(), parameters.next()) {
            (Some(Given::Parameter(index)), None) => Some(*index),
            _ => None,
        }
    }

    /// The parameter that is the id of the one row that it changes, if there is one: it looks for that, and goes on
    /// without a branch.
    fn changes_row(&self, registers: &Registers) -> Option<usize> {
        let beginning = self.0.iter().position(|it| it.name == "Transaction")?;
        let mut counting = self.counting();
        let (Some((changed, row)), None) = (counting.next(), counting.next()) else { return None };
        let mut found = None;
        for (address, instruction) in self.0[..changed].iter().enumerate() {
            let [_, target, register] = instruction.p;
            match instruction.name.as_str() {
                "SeekRowid" if found.is_none() && instruction.p[0] == row.p[0] => {
                    let given = self.given(registers, register, address)?;
                    let [Given::Parameter(index)] = *given else { return None };
                    found = Some(index);
                }
                // The id of the row that was found, which no NULL is.
                "IsNull" if found.is_some() && instruction.p[0] == row.p[2] => {
                    let mut writers = registers.get(&row.p[2])?.iter().map(|&(writer, _)| writer);
                    let last = writers.rfind(|writer| *writer < address)?;
                    if self.0[last].name != "Rowid" {
                        return None;
                    }
                }
                "Init" if usize::try_from(target) == Ok(beginning) => {}
                name if jumps(name) || leaves(name) => return None,
                _ => {}
            }
        }
        // What is prepared once ends where the program goes on.
        let is_straight = |it: &Instruction| match it.name.as_str() {
            "Goto" => it.p[1] == 1,
            name => !jumps(name),
        };
        self.0[changed..].iter().all(is_straight).then_some(found?)
    }

    /// True when it returns the id of the row that it adds: rows to be returned are collected in a table of their own.
    /// `None` when it returns something else.
    pub(super) fn returns_id(&self) -> Option<bool> {
        let mut returning = self.named("ResultRow");
        let Some((at, result)) = returning.next() else { return Some(false) };
        let (_, row) = self.counting().next()?;
        let column = &self.0[at.checked_sub(1)?];
        let own = column.p[0];
        let mut collecting = self.named("Insert").filter(|(_, it)| it.p[0] == own);
        let (collected, insert) = collecting.next()?;
        let [copy, record, number] =
            [3, 2, 1].map(|before| collected.checked_sub(before).map(|at| &self.0[at]));
        let (copy, record, number) = (copy?, record?, number?);
        let is_one = returning.next().is_none() && collecting.next().is_none();
        let shows_first = column.name == "Column"
            && column.p[1..] == [0, result.p[0]]
            && result.p[1] == 1
            && !self.is_entered(at);
        let is_the_id = copy.name == "Copy"
            && copy.p == [row.p[2], record.p[0], 0]
            && record.name == "MakeRecord"
            && record.p[1..] == [1, insert.p[1]]
            && number.name == "NewRowid"
            && (collected - 2..=collected).all(|at| !self.is_entered(at));
        (is_one && shows_first && is_the_id).then_some(true)
    }

    /// An instruction that is not known here is one that may change another row, or branch to where the row is not added.
    pub(super) fn adds_one_row(&self, taken: Option<Taken>) -> bool {
        let position = |name: &str| self.0.iter().position(|it| it.name == name);
        let (Some(_), Some(beginning)) = (position("NewRowid"), position("Transaction")) else {
            return false;
        };
        let mut counting = self.counting().map(|(address, _)| address);
        let (Some(added), None) = (counting.next(), counting.next()) else { return false };
        self.0.iter().enumerate().all(|(address, instruction)| {
            let is_row_added = || {
                let target = usize::try_from(instruction.p[1]).unwrap_or(usize::MAX);
                match address {
                    // The program begins at its end, with what is prepared once.
                    0 => target == beginning,
                    _ if address > beginning => target > beginning || target == 1,
                    _ if address > added => target > added && target < beginning,
                    // It is left out, or it is not.
                    _ => target > address && target <= added,
                }
            };
            let is_test = taken.is_some_and(|taken| address + 1 == taken.fails_at);
            match instruction.name.as_str() {
                "Variable" | "Integer" | "Int64" | "Real" | "String8" | "Blob" | "Null"
                | "SoftNull" | "Copy" | "SCopy" | "IntCopy" | "AddImm" | "MemMax" | "Affinity"
                | "MakeRecord" | "NewRowid" | "Rowid" | "Column" | "Insert" | "IdxInsert"
                | "Close" | "OpenRead" | "OpenWrite" | "Transaction" | "Halt" | "HaltIfNull" => {
                    true
                }
                "Init" | "Goto" | "Next" | "Rewind" | "Le" | "Ne" | "NotNull" => is_row_added(),
                "OpenEphemeral" | "FkCheck" | "ResultRow" => true,
                "NotExists" => is_test,
                "MustBeInt" => instruction.p[1] == 0,
                _ => false,
            }
        })
    }
}
