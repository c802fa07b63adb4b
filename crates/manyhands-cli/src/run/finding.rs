//! What a look at a process means, and how it is told.
//!
//! | the process has | it means |
//! |---|---|
//! | Manyhands, and no other SQLite | nothing, or use through Manyhands once it has a queue file open |
//! | a database open, and no Manyhands | use without Manyhands |
//! | a library with SQLite inside, other than Manyhands | use without Manyhands: it was loaded for that |
//! | SQLite inside its program, or a stock libsqlite3 beside Manyhands | a doubt: either may be what it uses |
//!
//! A doubt ends when a database without a queue file is open at two looks, which is use without Manyhands. A process that
//! was seen to use Manyhands is trusted otherwise. What is left in doubt is told, in words that say so.

use std::{
    fmt::{self, Write},
    path::{Path, PathBuf},
};

use super::{obstacle::Obstacle, way_out};
use crate::{carrier::Driver, process::QUEUE_SUFFIX};

/// What one look at a process has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The library is mapped, or something else with Manyhands inside.
    pub has_manyhands: bool,
    /// Files with another SQLite.
    pub carriers: Vec<Carrier>,
    /// Databases that are open for writing and that the user means.
    pub databases: Vec<Database>,
}

/// A file with SQLite inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    pub path: PathBuf,
    pub role: Role,
    /// Of SQLite's version, unless the file could not be read.
    pub date: Option<String>,
    pub driver: Option<Driver>,
}

/// Why a carrier is in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The program itself, which may have SQLite for what it never does.
    Program,
    /// A libsqlite3 with the stock library's name. Whether it is used depends on who looked for it, and how.
    Stock,
    /// Anything else that was loaded.
    Module,
}

/// A database that a process has open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Database {
    pub path: PathBuf,
    /// The process has the database's queue file open too.
    pub has_queue: bool,
}

/// What a look means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Nothing,
    Through,
    Doubt,
    Without,
}

impl Look {
    /// See the table above. `before` is the look before at the same process.
    pub fn meaning(&self, before: Option<&Look>) -> Meaning {
        let is_through = self.databases.iter().any(|database| database.has_queue);
        let has_module = self.carriers.iter().any(|carrier| carrier.role == Role::Module);
        let has_stock = self.carriers.iter().any(|carrier| carrier.role == Role::Stock);
        let has_manyhands = self.has_manyhands || is_through;
        // Manyhands opens the queue file after the database: once may be a moment between the two.
        let stays_without = self.without_queue().any(|database| {
            before.is_some_and(|before| before.without_queue().any(|earlier| earlier == database))
        });
        if has_module || (!has_manyhands && (has_stock || self.without_queue().next().is_some())) {
            Meaning::Without
        } else if !self.carriers.is_empty() {
            match (stays_without, is_through) {
                (true, _) => Meaning::Without,
                (false, true) => Meaning::Through,
                (false, false) => Meaning::Doubt,
            }
        } else if is_through {
            Meaning::Through
        } else {
            Meaning::Nothing
        }
    }

    /// Databases that are open without their queue.
    pub fn without_queue(&self) -> impl Iterator<Item = &Path> {
        let databases = self.databases.iter().filter(|database| !database.has_queue);
        databases.map(|database| database.path.as_path())
    }

    /// The file that is told: what was loaded says more than what the program has inside.
    pub fn main_carrier(&self) -> Option<&Carrier> {
        let of = |role| self.carriers.iter().find(move |carrier| carrier.role == role);
        of(Role::Module).or_else(|| of(Role::Stock)).or_else(|| of(Role::Program))
    }
}

/// How sure it is that SQLite is used without Manyhands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Certainty {
    /// A database is open.
    Open,
    /// A library with SQLite inside is loaded.
    Loaded,
    /// There is a SQLite that may be used, or may not.
    Inside,
    /// The process does not let us look.
    Unseen,
}

/// One process that uses SQLite without Manyhands, or may.
#[derive(Clone, Debug)]
pub struct Finding {
    /// None for what is told before the command starts.
    pub pid: Option<i32>,
    pub command: String,
    pub certainty: Certainty,
    pub carrier: Option<Carrier>,
    pub databases: Vec<PathBuf>,
    /// Why the process has not got the library; `None` where it has.
    pub obstacle: Option<Obstacle>,
}

impl Finding {
    fn way_out(&self) -> &'static str {
        let of_obstacle = self.obstacle.as_ref().and_then(Obstacle::way_out);
        let of_driver =
            self.carrier.as_ref().map(|carrier| way_out::of(&carrier.path, carrier.driver));
        match self.carrier.as_ref().map(|carrier| carrier.role) {
            // The stock library is what the preload replaces: only the obstacle is in the way.
            Some(Role::Stock) => of_obstacle.or(of_driver),
            _ => of_driver.or(of_obstacle),
        }
        .unwrap_or_else(|| way_out::of(Path::new(""), None))
    }

    fn sentence(&self) -> String {
        let who = match self.pid {
            Some(pid) => format!("process {pid}"),
            None => "the command".to_owned(),
        };
        match self.certainty {
            Certainty::Open => format!("{who} has a database open without Manyhands"),
            Certainty::Loaded => {
                format!(
                    "{who} has loaded a SQLite of its own, and what that writes is without Manyhands"
                )
            }
            Certainty::Inside => {
                format!(
                    "{who} has a SQLite of its own inside; if it uses that, it is without Manyhands"
                )
            }
            Certainty::Unseen => {
                format!(
                    "{who} does not let us look whether it uses SQLite, and has not got the library"
                )
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("manyhands: WITHOUT MANYHANDS: {}\n", self.sentence());
        let mut line = |name: &str, value: &str| writeln!(text, "    {name:<9} {value}");
        line("command", &self.command)?;
        if let Some(carrier) = &self.carrier {
            let date = carrier.date.as_ref().map(|date| format!(" (SQLite of {date})"));
            let path = carrier.path.display();
            line("SQLite in", &format!("{path}{}", date.unwrap_or_default()))?;
        }
        for database in &self.databases {
            line("database", &database.display().to_string())?;
        }
        if let Some(obstacle) = &self.obstacle {
            line("because", &obstacle.to_string())?;
        }
        line("way out", self.way_out())?;
        formatter.write_str(text.trim_end())
    }
}

/// The database that a queue file belongs to.
pub fn database_of_queue(queue: &Path) -> Option<PathBuf> {
    Some(PathBuf::from(queue.to_str()?.strip_suffix(QUEUE_SUFFIX)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(has_manyhands: bool, roles: &[Role], databases: &[bool]) -> Look {
        let carrier =
            |role: &Role| Carrier { path: "/c".into(), role: *role, date: None, driver: None };
        let database = |has_queue: &bool| Database { path: "/d".into(), has_queue: *has_queue };
        Look {
            has_manyhands,
            carriers: roles.iter().map(carrier).collect(),
            databases: databases.iter().map(database).collect(),
        }
    }

    fn check(
        has_manyhands: bool,
        roles: &[Role],
        databases: &[bool],
        first: Meaning,
        second: Meaning,
    ) {
        let look = look(has_manyhands, roles, databases);
        assert_eq!(look.meaning(None), first, "{look:?}");
        assert_eq!(look.meaning(Some(&look)), second, "{look:?}, for the second time");
    }

    /// The table at the top of this file.
    #[test]
    fn what_looks_mean() {
        use Meaning::{Doubt, Nothing, Through, Without};
        use Role::{Module, Program, Stock};
        // Preloaded, and nothing else; files that were not chosen are opened without a queue.
        check(true, &[], &[], Nothing, Nothing);
        check(true, &[], &[true], Through, Through);
        check(true, &[], &[false], Nothing, Nothing);
        // Preloaded, but the driver has its own.
        check(true, &[Module], &[], Without, Without);
        check(true, &[Module], &[true], Without, Without);
        check(true, &[Program], &[], Doubt, Doubt);
        check(true, &[Program], &[true], Through, Through);
        check(true, &[Program], &[false], Doubt, Without);
        check(true, &[Stock], &[true, false], Through, Without);
        // Not preloaded.
        check(false, &[], &[], Nothing, Nothing);
        check(false, &[], &[false], Without, Without);
        check(false, &[Program], &[], Doubt, Doubt);
        check(false, &[Program], &[false], Without, Without);
        check(false, &[Stock], &[], Without, Without);
        check(false, &[Module], &[], Without, Without);
        // A program in Rust or Python with Manyhands inside.
        check(false, &[], &[true], Through, Through);
    }

    /// All that a user needs to act stands in the message.
    #[test]
    fn the_message() {
        let finding = Finding {
            pid: Some(7),
            command: "node server.js".into(),
            certainty: Certainty::Open,
            carrier: Some(Carrier {
                path: "/app/better_sqlite3.node".into(),
                role: Role::Module,
                date: Some("2024-01-30".into()),
                driver: None,
            }),
            databases: vec!["/data/app.db".into()],
            obstacle: None,
        };
        let text = finding.to_string();
        for part in [
            "process 7",
            "node server.js",
            "/app/better_sqlite3.node",
            "2024-01-30",
            "/data/app.db",
            "npm rebuild",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }
}
