//! One round: both players play the same actions, and what they have seen is compared after each.
//!
//! At the end both close everything, and the stock library reads what both have left in their files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::action::{Action, CONNECTIONS, Callback, File, OpenCall, Reader};
use crate::event::{Event, is_busy};
use crate::generate::SCHEMA;
use crate::library::Api;
use crate::plant::Plant;
use crate::player::Player;

/// What came of a round.
pub enum Verdict {
    Agreed,
    /// Manyhands went on where stock SQLite says that the file is busy, or they part in a known way. What follows cannot be compared.
    WentOn,
    Differs(Difference),
}

/// Where the two libraries part.
pub struct Difference {
    /// The number of the action; beyond the last one, the end of the round.
    pub action: usize,
    /// What a shorter history must show too.
    pub signature: String,
    /// The signature with both events' values.
    pub detail: String,
    pub description: String,
}

/// The two libraries and where their files lie.
pub struct Arena {
    pub ours: &'static Api,
    pub stock: &'static Api,
    pub directory: PathBuf,
    pub plant: Option<Plant>,
    /// Differences whose first line has one of these texts are passed over: the round goes on.
    pub ignored: Vec<String>,
}

impl Arena {
    /// Makes the files that each round begins with.
    pub fn prepare(&self) -> io::Result<()> {
        let template = self.directory.join("t");
        if template.exists() {
            fs::remove_dir_all(&template)?;
        }
        fs::create_dir(&template)?;
        let mut player = Player::new(self.stock, &template);
        for file in [File::Main, File::Other] {
            let connection = 0;
            let how = OpenCall::V2 { flags: 6 };
            player.play(&Action::Open { connection, how, file });
            let sql = format!("PRAGMA journal_mode = WAL; {SCHEMA}");
            player.play(&Action::Exec { connection, sql, callback: Callback::None });
            player.play(&Action::Close { connection, v2: false });
        }
        Ok(())
    }

    /// Plays a round; `reached` is told each action before it is played.
    pub fn play(&self, actions: &[Action], reached: impl Fn(usize)) -> io::Result<Verdict> {
        // Names of one length: an offset into a text must not depend on them.
        let (ours, stock) = (self.fresh("a")?, self.fresh("b")?);
        let mut our_player = Player::new(self.ours, &ours);
        let mut stock_player = Player::new(self.stock, &stock);
        let mut verdict = Verdict::Agreed;
        for (number, action) in actions.iter().enumerate() {
            reached(number);
            let expected = stock_player.play(action);
            let seen = self.planted(our_player.play(action));
            verdict = self.compare(number, variant(action), &expected, &seen);
            if !matches!(verdict, Verdict::Agreed) {
                break;
            }
        }
        reached(actions.len());
        let (expected, seen) = (stock_player.finish(), self.planted(our_player.finish()));
        if matches!(verdict, Verdict::Agreed) {
            verdict = self.compare(actions.len(), "the end", &expected, &seen);
        }
        drop(our_player);
        drop(stock_player);
        if matches!(verdict, Verdict::Agreed) {
            let (expected, seen) = (self.contents(&stock), self.contents(&ours));
            verdict = self.compare(actions.len(), "the files", &expected, &seen);
        }
        Ok(verdict)
    }

    fn compare(&self, number: usize, action: &str, stock: &[Event], ours: &[Event]) -> Verdict {
        match compare(number, action, stock, ours) {
            Verdict::Differs(difference)
                if self.ignored.iter().any(|text| difference.detail.contains(text)) =>
            {
                Verdict::WentOn
            }
            verdict => verdict,
        }
    }

    fn planted(&self, events: Vec<Event>) -> Vec<Event> {
        match self.plant {
            Some(plant) => plant.into_events(events),
            None => events,
        }
    }

    fn fresh(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.directory.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir(&directory)?;
        for file in ["main.db", "other.db"] {
            fs::copy(self.directory.join("t").join(file), directory.join(file))?;
        }
        Ok(directory)
    }

    /// What stands in the files of a player, as stock SQLite reads it.
    fn contents(&self, directory: &Path) -> Vec<Event> {
        let mut player = Player::new(self.stock, directory);
        let read = vec![Reader::Type, Reader::Blob];
        let mut events = Vec::new();
        for (connection, file) in [File::Main, File::Other, File::Fresh].into_iter().enumerate() {
            assert!(connection < CONNECTIONS, "there is a slot for each file");
            let path = match file {
                File::Fresh => "fresh.db",
                File::Other => "other.db",
                _ => "main.db",
            };
            if !directory.join(path).exists() {
                continue;
            }
            let how = OpenCall::V2 { flags: 6 };
            events.extend(player.play(&Action::Open { connection, how, file }));
            for sql in [
                "PRAGMA integrity_check; PRAGMA user_version; PRAGMA application_id",
                "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2",
                "SELECT * FROM t ORDER BY 1",
                "SELECT * FROM u ORDER BY 1",
                "SELECT * FROM log ORDER BY 1",
                "SELECT * FROM child ORDER BY 1",
                "SELECT * FROM s ORDER BY 1",
                "SELECT * FROM n",
                "SELECT * FROM d",
                "SELECT * FROM f",
                "SELECT * FROM sqlite_sequence",
            ] {
                let (sql, read) = (sql.into(), read.clone());
                events.extend(player.play(&Action::Script { connection, sql, read }));
            }
        }
        events.extend(player.finish());
        events
    }
}

fn compare(number: usize, action: &str, stock: &[Event], ours: &[Event]) -> Verdict {
    let same = stock.iter().zip(ours).take_while(|(stock, ours)| stock == ours).count();
    if same == stock.len() && same == ours.len() {
        return Verdict::Agreed;
    }
    if stock[same..].iter().any(is_busy) && !ours[same..].iter().any(is_busy) {
        return Verdict::WentOn;
    }
    let missing = String::from("nothing");
    let show = |event: Option<&Event>| event.map_or(missing.clone(), written);
    let (expected, seen) = (stock.get(same), ours.get(same));
    let name = |event: Option<&Event>| event.map_or("nothing".into(), short);
    let signature = format!("{action}: stock {}, ours {}", name(expected), name(seen));
    let detail = format!("{signature}; stock {}, ours {}", show(expected), show(seen));
    let mut description = format!("first {detail}\n");
    for event in &stock[..same] {
        description += &format!("      both:  {}\n", written(event));
    }
    description += &format!("  --> stock: {}\n  --> ours:  {}\n", show(expected), show(seen));
    for event in stock.iter().skip(same + 1).take(12) {
        description += &format!("      stock then: {}\n", written(event));
    }
    for event in ours.iter().skip(same + 1).take(12) {
        description += &format!("      ours then:  {}\n", written(event));
    }
    Verdict::Differs(Difference { action: number, signature, detail, description })
}

fn written(event: &Event) -> String {
    format!("{}: {}", event.what, event.text)
}

/// What an event is without the values that depend on what was there before.
fn short(event: &Event) -> String {
    match event.kind {
        crate::event::Kind::Code => written(event),
        _ => event.what.clone(),
    }
}

/// The name of an action without what it is about.
fn variant(action: &Action) -> &'static str {
    let text = format!("{action:?}");
    let name = text.split([' ', '{', '(']).next().unwrap_or("").to_owned();
    name.leak()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Kind};

    fn event(kind: Kind, what: &str, text: &str) -> Event {
        Event { kind, what: what.into(), text: text.into() }
    }

    /// What stock SQLite shows for a write with hooks, of which each planted fault changes something.
    fn seen() -> Vec<Event> {
        vec![
            event(Kind::Callback, "Preupdate of connection 0", "operation 18"),
            event(Kind::Callback, "Update of connection 0", "operation 18"),
            event(Kind::Destructor, "bound value", "destructor called"),
            event(Kind::Code, "step", "SQLITE_DONE"),
            event(Kind::Value, "column 0 as Int64", "3"),
            event(Kind::Message, "errmsg", "UNIQUE constraint failed: t.id"),
        ]
    }

    /// An oracle that cannot find a fault proves nothing. What crashes or hangs is found by the parent process.
    #[test]
    fn each_planted_fault_is_a_difference() {
        for (name, plant) in Plant::ALL {
            if matches!(plant, Plant::Crash | Plant::Hang) {
                continue;
            }
            let verdict = compare(0, "Step", &seen(), &plant.into_events(seen()));
            assert!(matches!(verdict, Verdict::Differs(_)), "{name} is found");
        }
        assert!(matches!(compare(0, "Step", &seen(), &seen()), Verdict::Agreed));
    }

    /// Manyhands may succeed where stock SQLite is busy; the reverse is a finding.
    #[test]
    fn only_stock_may_be_busy() {
        let busy = vec![event(Kind::Code, "step", "SQLITE_BUSY (517: extended 2)")];
        let done = vec![event(Kind::Code, "step", "SQLITE_DONE")];
        assert!(matches!(compare(0, "Step", &busy, &done), Verdict::WentOn));
        assert!(matches!(compare(0, "Step", &done, &busy), Verdict::Differs(_)));
        let locked = vec![event(Kind::Code, "step", "SQLITE_BUSY")];
        assert!(matches!(compare(0, "Step", &busy, &locked), Verdict::Differs(_)));
    }

    /// A seed is a round: a replay command must show what was seen.
    #[test]
    fn a_seed_gives_the_same_actions() {
        for seed in 0..50 {
            let (one, two) =
                (crate::generate::round(seed, true), crate::generate::round(seed, true));
            assert_eq!(format!("{one:?}"), format!("{two:?}"));
            assert!(one.len() >= 12, "a round has something to compare");
        }
    }
}
