//! A round from its seed: which files, how many connections, and which actions.
//!
//! Most rounds have a character of their own (one connection or several, with hooks or without, asked after each action or seldom),
//! because a library may do something else when nobody asks for the number of changes.

mod sql;
mod calls;

use crate::action::{Action, CONNECTIONS, Callback, File, OpenCall, Question, Reader, STATEMENTS};
use crate::random::Random;

/// The tables of each round.
pub use sql::SCHEMA;

pub struct Generator {
    random: Random,
    actions: Vec<Action>,
    connections: usize,
    /// How often in a hundred a connection is asked after an action.
    questions: usize,
    /// How often in a hundred an action is about hooks or functions.
    callbacks: usize,
    transactions: usize,
    /// Whether statements are also compiled by the calls of SQLite before 3.3.9, which report errors otherwise.
    legacy: bool,
    /// Whether a write that returns rows is sometimes left before its last row. Manyhands has committed it by then, and stock SQLite
    /// has not, so that most of what follows differs: few rounds do it.
    partial: bool,
}

const READ_WRITE_CREATE: i32 = 6;
/// Read and write; the same without a mutex, with extended codes, and with a private cache; read only.
const OPEN_FLAGS: [i32; 6] = [6, 2, 6 | 0x8000, 6 | 0x200_0000, 6 | 0x1_0000 | 0x4_0000, 1];

/// The actions of the round with this seed; those that are known to differ among them, if `everything` is wanted.
pub fn round(seed: u64, everything: bool) -> Vec<Action> {
    let mut random = Random::new(seed);
    let connections = random.among(&[1, 1, 2, 2, 3]);
    let questions = random.among(&[0, 10, 60]);
    let callbacks = random.among(&[0, 0, 4, 15]);
    let transactions = random.among(&[5, 15, 30]);
    let length = random.among(&[12, 30, 60, 80]);
    let in_memory = random.chance(12);
    let legacy = random.chance(8) && everything;
    let partial = random.chance(6) && everything;
    let mut generator = Generator {
        random,
        actions: Vec::new(),
        connections,
        questions,
        callbacks,
        transactions,
        legacy,
        partial,
    };
    for connection in 0..connections {
        generator.open_first(connection, in_memory);
    }
    while generator.actions.len() < length {
        generator.next();
        generator.maybe_ask();
    }
    generator.actions
}

impl Generator {
    fn open_first(&mut self, connection: usize, in_memory: bool) {
        let file = if in_memory { File::Memory } else { File::Main };
        let how = match self.random.below(8) {
            0 => OpenCall::Open,
            1 => OpenCall::Open16,
            2 | 3 if !in_memory => OpenCall::V2 { flags: self.random.among(&OPEN_FLAGS) },
            _ => OpenCall::V2 { flags: READ_WRITE_CREATE },
        };
        self.actions.push(Action::Open { connection, how, file });
        if in_memory {
            let sql = SCHEMA.into();
            self.actions.push(Action::Exec { connection, sql, callback: Callback::None });
        }
    }

    fn next(&mut self) {
        if self.random.chance(self.callbacks) {
            return self.callback_action();
        }
        if self.random.chance(self.transactions) {
            return self.transaction_action();
        }
        match self.random.below(100) {
            0..26 => self.use_statement(),
            26..46 => self.exec(),
            46..58 => self.touch_statement(),
            58..64 => self.ask_statement(),
            64..68 => self.whole(),
            68..74 => self.prepare(),
            74..79 => self.bind(),
            79..85 => self.setting(),
            85..90 => self.blob(),
            90..93 => self.copy(),
            93..95 => self.value(),
            95..97 => self.open_or_close(),
            97 => self.snapshot(),
            98 => self.session(),
            _ => self.library(),
        }
    }

    fn connection(&mut self) -> usize {
        self.random.below(self.connections)
    }

    fn statement(&mut self) -> usize {
        self.random.below(STATEMENTS)
    }

    fn transaction_action(&mut self) {
        let connection = self.connection();
        let sql = self.random.among(&sql::TRANSACTIONS).to_owned();
        if self.random.chance(25) {
            self.prepared(connection, sql);
        } else {
            self.actions.push(Action::Exec { connection, sql, callback: Callback::None });
        }
    }

    fn exec(&mut self) {
        let connection = self.connection();
        let sql = sql::text(&mut self.random);
        let callback = match self.random.below(8) {
            0..2 => Callback::None,
            2..7 => Callback::Rows,
            _ => Callback::AbortAt(self.random.below(3)),
        };
        self.actions.push(Action::Exec { connection, sql, callback });
    }

    fn whole(&mut self) {
        let connection = self.connection();
        let sql = sql::text(&mut self.random);
        let action = if self.random.chance(40) {
            Action::GetTable { connection, sql }
        } else {
            let rest = sql::text(&mut self.random);
            let read = self.readers();
            Action::Script { connection, sql: format!("{sql}; {rest} "), read }
        };
        self.actions.push(action);
    }

    /// A statement from its compilation to its end, as drivers use them.
    fn use_statement(&mut self) {
        let connection = self.connection();
        let sql = sql::statement(&mut self.random);
        self.prepared(connection, sql);
    }

    fn prepared(&mut self, connection: usize, sql: String) {
        let statement = self.statement();
        let whole = !self.partial && sql.contains("RETURNING");
        self.prepare_text(statement, connection, sql);
        if self.random.chance(30) {
            self.actions.push(Action::Describe { statement });
        }
        for _ in 0..self.random.among(&[1, 1, 1, 2, 3]) {
            for index in 1..=self.random.between(0, 3) {
                let value = self.bound();
                self.actions.push(Action::Bind { statement, index, value });
            }
            let times = if whole { 30 } else { self.random.among(&[1, 1, 2, 30, 30]) };
            let read = self.readers();
            self.actions.push(Action::Step { statement, times, read });
            self.maybe_ask();
            if self.random.chance(70) {
                self.actions.push(Action::Reset { statement });
            }
        }
        if self.random.chance(60) {
            self.actions.push(Action::Finalize { statement });
        }
    }

    fn readers(&mut self) -> Vec<Reader> {
        if self.random.chance(40) {
            return vec![Reader::Type, Reader::Text];
        }
        let mut readers = if self.random.chance(60) { vec![Reader::Type] } else { Vec::new() };
        // After a conversion the type is undefined, so it stands first or nowhere.
        let choices = [
            Reader::Int,
            Reader::Int64,
            Reader::Double,
            Reader::Text,
            Reader::Text16,
            Reader::Blob,
            Reader::Bytes,
            Reader::Bytes16,
            Reader::Value,
        ];
        for _ in 0..self.random.below(3) {
            readers.push(self.random.among(&choices));
        }
        readers
    }

    fn maybe_ask(&mut self) {
        if self.random.chance(self.questions) {
            let connection = self.connection();
            let all = [
                Question::Code,
                Question::Extended,
                Question::Message,
                Question::Message16,
                Question::Offset,
                Question::Changes,
                Question::TotalChanges,
                Question::LastRowid,
                Question::Autocommit,
                Question::TransactionState,
                Question::Names,
                Question::ReadOnly,
                Question::Columns,
                Question::Interrupted,
                Question::Counters,
                Question::Mutex,
            ];
            let what = match self.random.below(4) {
                0 => all[..10].to_vec(),
                1 => vec![Question::Changes, Question::LastRowid],
                2 => vec![Question::Code, Question::Message, Question::Autocommit],
                _ => vec![self.random.among(&all)],
            };
            self.actions.push(Action::Ask { connection, what });
        }
    }

    fn open_or_close(&mut self) {
        let connection = self.connection();
        if self.random.chance(50) {
            let v2 = self.random.chance(60);
            self.actions.push(Action::Close { connection, v2 });
        }
        if self.random.chance(70) {
            let file = self.random.among(&[
                File::Main,
                File::Main,
                File::Main,
                File::Other,
                File::Fresh,
                File::Memory,
                File::Empty,
                File::NoSuchDirectory,
                File::UriReadOnly,
                File::UriMemory,
            ]);
            let how = OpenCall::V2 { flags: self.random.among(&OPEN_FLAGS) };
            self.actions.push(Action::Open { connection, how, file });
        }
        debug_assert!(self.connections <= CONNECTIONS, "there is a slot for each connection");
    }
}
