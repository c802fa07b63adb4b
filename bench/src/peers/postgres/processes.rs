//! What the server's processes use, from /proc: the postmaster, its children, and those of them that have ended.

use std::{fs, path::Path};

/// The processes of one server.
pub struct Processes {
    /// Process number of the postmaster.
    pub postmaster: u32,
}

/// What stands in /proc/PID/stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// User and system time in clock ticks, of itself.
    own: u64,
    /// The same of its children that have ended.
    ended: u64,
}

impl Processes {
    /// CPU seconds of all of them; it only grows.
    pub fn cpu_s(&self) -> f64 {
        let ticks: u64 = self
            .all()
            .map(|(process, stat)| {
                stat.own + if process == self.postmaster { stat.ended } else { 0 }
            })
            .sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Resident memory of all of them; a page that several share counts once.
    pub fn memory_bytes(&self) -> u64 {
        self.all().filter_map(|(process, _)| pss_bytes(process)).sum()
    }

    fn all(&self) -> impl Iterator<Item = (u32, Stat)> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(|process| Some((process, stat(process)?)))
            .filter(|(process, stat)| *process == self.postmaster || stat.parent == self.postmaster)
    }
}

/// `None` if it has ended.
fn stat(process: u32) -> Option<Stat> {
    stat_of(&fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?)
}

fn stat_of(line: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses, with whatever it contains.
    let (_, rest) = line.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // Numbers as in proc(5), where the field after the name is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(field(4)?).ok()?,
        own: field(14)? + field(15)?,
        ended: field(16)? + field(17)?,
    })
}

fn pss_bytes(process: u32) -> Option<u64> {
    let path = Path::new("/proc").join(process.to_string()).join("smaps_rollup");
    let rollup = fs::read_to_string(path).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's format, with a name that could be mistaken for fields.
    #[test]
    fn fields_of_a_line() {
        let line = "7 (a ) S 9) S 1 7 7 0 -1 0 0 0 0 0 10 5 3 2 20 0 1 0 0 0 0";
        assert_eq!(stat_of(line), Some(Stat { parent: 1, own: 15, ended: 5 }));
        assert_eq!(stat_of("7 (a) S"), None);
    }

    /// This process uses memory and time.
    #[test]
    fn this_process() {
        let processes = Processes { postmaster: std::process::id() };
        assert!(processes.memory_bytes() > 0);
        let before = processes.cpu_s();
        while processes.cpu_s() <= before {
            std::hint::black_box((0..1_000_000_u64).fold(0, |sum, number| sum ^ number));
        }
    }
}
