//! The actions beside plain SQL: bindings, settings, hooks, blobs, copies.

use super::{Generator, sql};
use crate::action::{
    Action, BLOBS, BlobPlace, Bound, Callback, CollationCall, Function, FunctionCall, Hook, Length,
    Lifetime, PrepareCall, Reader, Setting, VALUES,
};
use crate::random::Random;

impl Generator {
    pub fn prepare(&mut self) {
        let (statement, connection) = (self.statement(), self.connection());
        let mut sql = sql::text(&mut self.random);
        if self.random.chance(20) {
            sql += self.random.among(&["; SELECT 2", ";", " -- end", "\n;;  SELECT 3"]);
        }
        self.prepare_text(statement, connection, sql);
    }

    pub fn prepare_text(&mut self, statement: usize, connection: usize, sql: String) {
        let call = match self.random.below(12) {
            0 if self.legacy => PrepareCall::Prepare,
            1 if self.legacy => PrepareCall::Utf16,
            2 => PrepareCall::Utf16V2,
            3 => PrepareCall::Utf16V3(self.random.among(&[0, 1, 2])),
            4..6 => PrepareCall::V3(self.random.among(&[0, 1, 2, 3, 4])),
            _ => PrepareCall::V2,
        };
        let length = self.length(80);
        self.actions.push(Action::Prepare { statement, connection, call, sql, length });
    }

    fn length(&mut self, longest: usize) -> Length {
        match self.random.below(10) {
            0..2 => Length::Exact,
            2..4 => Length::WithNul,
            4 => Length::Cut(self.random.below(longest)),
            _ => Length::ToNul,
        }
    }

    pub fn bind(&mut self) {
        let statement = self.statement();
        let action = match self.random.below(10) {
            0 => Action::ClearBindings { statement },
            1 => Action::TransferBindings { from: statement, to: self.statement() },
            2 | 3 => Action::BindByName {
                statement,
                name: self.random.among(&[":a", "@b", "$c", "a", "", "?1"]).into(),
                number: self.random.between(0, 20),
            },
            _ => {
                let index = self.random.among(&[1, 1, 2, 3, 0, -1, 4, 32_767, 40_000]);
                Action::Bind { statement, index, value: self.bound() }
            }
        };
        self.actions.push(action);
    }

    pub fn bound(&mut self) -> Bound {
        let lifetime =
            self.random.among(&[Lifetime::Static, Lifetime::Transient, Lifetime::Destructor]);
        let text: String = self
            .random
            .among(&["", "short", "b1", "Grüße, 世界", "a\0b", "13", "1.5", "🦀 four bytes"])
            .into();
        match self.random.below(24) {
            0..3 => Bound::Int(self.random.between(-3, 20)),
            3..5 => Bound::Int64(self.random.among(&[0, 1, 5, 1 << 62, i64::MIN, 1 << 40])),
            5 => {
                Bound::Double(self.random.among(&[0.0, -0.5, 1e300, f64::NAN, f64::INFINITY, 4.0]))
            }
            6 => Bound::Null,
            7..12 => Bound::Text { length: self.length(8), text, lifetime },
            12 | 13 => {
                let encoding = self.random.among(&[1, 2, 3, 4, 16]);
                Bound::Text64 { text, encoding, lifetime }
            }
            14 | 15 => Bound::Text16 { length: self.length(8), text, lifetime },
            16..19 => {
                let count = self.random.among(&[0, 1, 5, 300]);
                let bytes = (0..count).map(|index| (index % 251) as u8).collect();
                Bound::Blob { bytes, lifetime, long: self.random.chance(50) }
            }
            19 => Bound::ZeroBlob(self.random.among(&[0, 4, 100, -1])),
            20 => Bound::ZeroBlob64(self.random.among(&[0, 8, 1 << 40])),
            21 => Bound::Value(self.random.below(VALUES)),
            22 => Bound::ColumnValue {
                statement: self.statement(),
                column: self.random.between(-1, 3),
            },
            _ => Bound::Pointer,
        }
    }

    pub fn touch_statement(&mut self) {
        let statement = self.statement();
        let action = match self.random.below(12) {
            0..6 => {
                // Whether the statement returns rows of a write is not known here: to its end, unless this round does otherwise.
                let times = if self.partial { self.random.among(&[1, 1, 2, 30]) } else { 30 };
                Action::Step { statement, times, read: self.readers() }
            }
            6..9 => Action::Reset { statement },
            9 | 10 => Action::Column {
                statement,
                column: self.random.between(-1, 4),
                read: self.readers(),
            },
            _ => Action::Finalize { statement },
        };
        self.actions.push(action);
    }

    pub fn ask_statement(&mut self) {
        let statement = self.statement();
        let action = match self.random.below(9) {
            0..3 => Action::Describe { statement },
            3..6 => Action::AskStatement { statement },
            // Not EXPLAIN itself: the bytecode names pointers.
            6 => Action::Explain { statement, mode: self.random.among(&[-1, 0, 2, 3]) },
            7 => Action::NextStatements { connection: self.connection() },
            _ => Action::NoStatement,
        };
        self.actions.push(action);
    }

    pub fn value(&mut self) {
        let value = self.random.below(VALUES);
        let statement = self.statement();
        let column = self.random.between(0, 2);
        self.actions.push(Action::KeepValue { statement, column, value });
        let choices = [
            Reader::Type,
            Reader::NumericType,
            Reader::Int,
            Reader::Int64,
            Reader::Double,
            Reader::Text,
            Reader::Text16,
            Reader::Text16Le,
            Reader::Text16Be,
            Reader::Blob,
            Reader::Bytes,
            Reader::Bytes16,
            Reader::Subtype,
            Reader::Flags,
        ];
        let read = (0..3).map(|_| self.random.among(&choices)).collect();
        self.actions.push(Action::AskValue { value, read });
    }

    pub fn setting(&mut self) {
        let connection = self.connection();
        let setting = setting(&mut self.random);
        self.actions.push(Action::Setting { connection, setting });
    }

    pub fn callback_action(&mut self) {
        let connection = self.connection();
        let on = self.random.chance(75);
        let action = match self.random.below(10) {
            0..6 => {
                let (hook, answer) = hook(&mut self.random);
                Action::Hook { connection, hook, on, answer }
            }
            6..9 => Action::Function {
                connection,
                function: self.random.among(&[
                    Function::Echo,
                    Function::Kinds,
                    Function::Fail,
                    Function::FailText,
                    Function::Auxiliary,
                    Function::Reenter,
                    Function::Subtype,
                    Function::Forms,
                    Function::Gather,
                    Function::Moving,
                ]),
                call: match self.random.below(5) {
                    0 => FunctionCall::Old,
                    1 => FunctionCall::Utf16,
                    _ => {
                        let flags = [0, 0x800, 0x800, 0x8_0000, 0x20_0000, 0x110_0000];
                        FunctionCall::V2 { flags: self.random.among(&flags) }
                    }
                },
                on,
            },
            _ => {
                let call = match self.random.below(4) {
                    0 => CollationCall::Old,
                    1 => CollationCall::Utf16,
                    _ => CollationCall::V2 { encoding: self.random.among(&[1, 2, 3, 4, 9]) },
                };
                Action::Collation { connection, call, on }
            }
        };
        let function = match &action {
            Action::Function { function, .. } => Some(format!("{function:?}").to_lowercase()),
            _ => None,
        };
        self.actions.push(action);
        if let Some(name) = function {
            let sql = format!("SELECT {name}({}) FROM t WHERE id < 3", self.random.below(10));
            self.actions.push(Action::Exec { connection, sql, callback: Callback::Rows });
        }
    }

    pub fn blob(&mut self) {
        let blob = self.random.below(BLOBS);
        if self.random.chance(40) {
            let place = self.random.among(&[
                BlobPlace::Table,
                BlobPlace::Table,
                BlobPlace::Table,
                BlobPlace::Table,
                BlobPlace::WrongTable,
                BlobPlace::WrongColumn,
                BlobPlace::Indexed,
                BlobPlace::WithoutRowid,
                BlobPlace::Temp,
            ]);
            let rowid = self.random.among(&[1, 2, 3, 4, 7, 99]);
            let (connection, write) = (self.connection(), self.random.chance(60));
            // Only the turn tells that the column cannot be written, and the transaction keeps it.
            let write = write && !matches!(place, BlobPlace::Indexed | BlobPlace::WithoutRowid);
            self.actions.push(Action::BlobOpen { blob, connection, place, rowid, write });
        }
        for _ in 0..self.random.between(1, 3) {
            let (count, offset) = (self.random.between(0, 6), self.random.between(-1, 10));
            let action = match self.random.below(8) {
                0..3 => Action::BlobRead { blob, count, offset },
                3..6 => Action::BlobWrite { blob, text: "wr".into(), offset },
                6 => Action::BlobReopen { blob, rowid: self.random.among(&[1, 2, 4, 7, 99]) },
                _ => Action::BlobClose { blob },
            };
            self.actions.push(action);
        }
    }

    pub fn copy(&mut self) {
        let (from, to) = (self.connection(), self.connection());
        let action = match self.random.below(6) {
            0..3 => Action::Backup {
                from,
                to,
                pages: self.random.among(&[-1, 1, 3]),
                write_between: self.random.chance(40),
            },
            3 | 4 => Action::Serialize { connection: from },
            _ => Action::Deserialize { from, to },
        };
        self.actions.push(action);
    }

    pub fn snapshot(&mut self) {
        let connection = self.connection();
        let action = if self.random.chance(50) {
            Action::SnapshotGet { connection }
        } else {
            Action::SnapshotOpen { connection }
        };
        self.actions.push(action);
    }

    pub fn session(&mut self) {
        let connection = self.connection();
        let action = match self.random.below(5) {
            0 | 1 => Action::SessionCreate { connection },
            2 => Action::SessionChangeset { patchset: self.random.chance(50) },
            3 => Action::SessionSwitch {
                enable: self.random.between(-1, 1),
                indirect: self.random.between(-1, 1),
            },
            _ => Action::SessionDelete,
        };
        self.actions.push(action);
    }

    pub fn library(&mut self) {
        let number = self.random.below(crate::player::LIBRARY_CALLS);
        self.actions.push(Action::Library { number });
    }
}

fn setting(random: &mut Random) -> Setting {
    match random.below(20) {
        0 | 1 => Setting::BusyTimeout(random.among(&[0, 1, 3, -1])),
        2 => Setting::BusyHandler { answers: random.between(0, 3) },
        3 | 4 => Setting::ExtendedCodes(random.between(0, 1)),
        5 | 6 => Setting::Limit {
            // Lengths, columns and instructions are not limited: the schema, which both read at other times, would break them.
            id: random.among(&[-1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 14, 15]),
            value: random.among(&[-1, 0, 3, 30, 1000, 1_000_000]),
        },
        7 | 8 => Setting::Config {
            // The number of FP_DIGITS and of switches of the file's format; a look, off and on.
            option: random.among(&[
                1002, 1003, 1005, 1006, 1007, 1008, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017,
                1019, 1020, 1021, 1022,
            ]),
            value: random.between(-1, 1),
        },
        9 => Setting::Interrupt,
        10 => Setting::LastRowid(random.among(&[0, 5, -1])),
        11 => Setting::Message {
            code: random.among(&[0, 1, 5, 21]),
            text: random.among(&[None, Some("the application's message".into())]),
        },
        12 | 13 => {
            let mode = random.among(&[None, Some(0), Some(1), Some(2), Some(3), Some(9)]);
            Setting::Checkpoint { mode }
        }
        14 => Setting::AutoCheckpoint(random.among(&[0, 1, 1000])),
        15 => Setting::CacheFlush,
        16 => {
            random.among(&[Setting::ReleaseMemory, Setting::DropModules, Setting::AutovacuumPages])
        }
        17 => Setting::PersistWal(random.between(-1, 1)),
        18 => random.among(&[Setting::LoadExtension, Setting::Overload("match2".into())]),
        _ => Setting::Clientdata { on: random.chance(70) },
    }
}

fn hook(random: &mut Random) -> (Hook, i32) {
    match random.below(14) {
        0..2 => (Hook::Update, 0),
        2..4 => (Hook::Commit, random.among(&[0, 0, 1])),
        4 | 5 => (Hook::Rollback, 0),
        6 => (Hook::Wal, random.among(&[0, 0, 1])),
        7 | 8 => (Hook::Preupdate, 0),
        9 => {
            // Which action code is denied: none, inserts, updates, reads, selects, transactions, functions.
            let deny = random.among(&[0, 0, 18, 23, 20, 21, 22, 31]);
            (Hook::Authorizer { deny }, random.among(&[1, 2]))
        }
        10 => (Hook::Progress, random.among(&[0, 0, 1])),
        11 => (Hook::Trace { mask: random.among(&[1, 2, 4, 8, 15]) }, 0),
        12 => random.among(&[(Hook::OldTrace, 0), (Hook::OldProfile, 0)]),
        _ => (Hook::CollationNeeded, random.between(0, 1)),
    }
}
