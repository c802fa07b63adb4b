//! What has been seen of each process, and what was told about it.
//!
//! A finding is told once for each program and carrier; a doubt about them may be followed by the certainty.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    carrier::{Carriers, Content},
    choice::Choice,
    finding::{Carrier, Certainty, Database, Finding, Look, Meaning, Role, database_of_queue},
    library::Library,
    obstacle::Obstacle,
    process::{self, Mappings, OpenFile, Process},
    report::Report,
};

/// How long a process may stay in doubt before that is told.
const DOUBT: Duration = Duration::from_secs(3);
/// Findings of one command. Whoever has read so many knows.
const TOLD_MAX: usize = 200;
/// What SQLite and Manyhands keep beside a database.
const COMPANIONS: [&str; 4] = ["-wal", "-shm", "-journal", super::QUEUE_SUFFIX];
/// Libraries that hold a whole language: like a program, they have SQLite whether it is used or not.
const RUNTIMES: [&str; 3] = ["libpython", "libnode", "libphp"];

/// Looks at processes, tells findings, keeps what the report needs.
pub struct Witness {
    ancestor: i32,
    choice: Choice,
    carriers: Carriers,
    watched: HashMap<Process, Watched>,
    told: HashMap<(PathBuf, Option<PathBuf>), Certainty>,
    /// Told at the end, unless a process of the same program was seen to do better, or worse.
    expected: Option<(PathBuf, Finding)>,
    programs_through: HashSet<PathBuf>,
    report: Report,
}

/// A process, as long as it runs one program.
struct Watched {
    program: PathBuf,
    command: String,
    mappings: Mappings,
    has_manyhands: bool,
    carriers: Vec<Carrier>,
    before: Option<Look>,
    /// Databases that were open with their queue file.
    through: BTreeSet<PathBuf>,
    without: Option<Finding>,
    doubt: Option<(Instant, Finding)>,
}

impl Witness {
    /// For the descendants of a process.
    pub fn new(ancestor: i32, choice: Choice) -> Self {
        Self {
            ancestor,
            choice,
            carriers: Carriers::default(),
            watched: HashMap::new(),
            told: HashMap::new(),
            expected: None,
            programs_through: HashSet::new(),
            report: Report::default(),
        }
    }

    /// Looks into the program that is about to start: it may end before the first look at its process.
    pub fn expect(&mut self, program: &Path, command: String, library: &Library) {
        // As /proc tells it.
        let Ok(program) = program.canonicalize() else { return };
        let Some(carrier) = self.carrier(&program, &program, &program) else { return };
        let finding = Finding {
            pid: None,
            command,
            certainty: Certainty::Inside,
            carrier: Some(carrier),
            databases: Vec::new(),
            obstacle: Obstacle::of_program(&program, library).ok().flatten(),
        };
        self.expected = Some((program, finding));
    }

    /// How long files were read in all, each once: looks that follow do not take as long.
    pub fn reading(&self) -> Duration {
        self.carriers.reading()
    }

    /// One look at all of them; true if there is something new.
    pub fn look(&mut self, library: &Library, now: Instant) -> bool {
        // Without /proc nothing is seen, which `run` has told before it started the command.
        let processes = process::descendants(self.ancestor).unwrap_or_default();
        let alive: HashSet<_> = processes.iter().copied().collect();
        let gone: Vec<_> =
            self.watched.keys().filter(|known| !alive.contains(known)).copied().collect();
        gone.into_iter().for_each(|process| self.end(process));
        let mut has_news = false;
        for process in processes {
            has_news |= self.look_at(process, library, now);
        }
        has_news
    }

    /// Tells what is still in doubt.
    pub fn finish(mut self) -> Report {
        let left: Vec<_> = self.watched.keys().copied().collect();
        left.into_iter().for_each(|process| self.end(process));
        if let Some((program, finding)) = self.expected.take()
            && !self.programs_through.contains(&program)
        {
            self.tell(&program, &finding);
        }
        self.report
    }

    fn look_at(&mut self, process: Process, library: &Library, now: Instant) -> bool {
        // Before the mappings: whoever has a database open has mapped what opened it.
        let files = process.written_files().unwrap_or_default();
        let mappings = match process.mappings() {
            Ok(mappings) => mappings,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return self.look_from_outside(process);
            }
            // It has ended.
            Err(_) => return false,
        };
        let Some(program) = process.program() else { return false };
        let known = self.watched.get(&process);
        if known.is_some_and(|known| known.program != program) {
            self.end(process);
        }
        let has_news = self.watched.get(&process).is_none_or(|known| known.mappings != mappings);
        if has_news {
            self.note_mappings(process, &program, mappings, library);
        }
        let databases = self.databases(process, files);
        let Some(watched) = self.watched.get_mut(&process) else { return has_news };
        let look = Look {
            has_manyhands: watched.has_manyhands,
            carriers: watched.carriers.clone(),
            databases,
        };
        let through = look.databases.iter().filter(|database| database.has_queue);
        watched.through.extend(through.map(|database| database.path.clone()));
        match look.meaning(watched.before.as_ref()) {
            Meaning::Nothing | Meaning::Through => watched.doubt = None,
            Meaning::Doubt => {
                let finding = watched.finding(process, &look, library, Certainty::Inside);
                let since = watched.doubt.take().map_or(now, |(since, _)| since);
                let is_due = now.duration_since(since) >= DOUBT && watched.through.is_empty();
                watched.doubt = Some((since, finding.clone()));
                if is_due {
                    self.tell(&program, &finding);
                }
            }
            Meaning::Without => {
                let is_open = look.without_queue().next().is_some();
                let certainty = if is_open { Certainty::Open } else { Certainty::Loaded };
                let is_known =
                    watched.without.as_ref().is_some_and(|known| known.certainty == certainty);
                if !is_known {
                    let finding = watched.finding(process, &look, library, certainty);
                    watched.without = Some(finding.clone());
                    self.tell(&program, &finding);
                }
            }
        }
        if let Some(watched) = self.watched.get_mut(&process) {
            watched.before = Some(look);
        }
        has_news
    }

    /// A process with other rights than ours has not got the library, and shows only its command line.
    fn look_from_outside(&mut self, process: Process) -> bool {
        let command = process.command_line();
        let program = PathBuf::from(command.split(' ').next().unwrap_or_default());
        let finding = Finding {
            pid: Some(process.pid),
            command,
            certainty: Certainty::Unseen,
            carrier: None,
            databases: Vec::new(),
            obstacle: Some(Obstacle::SpecialRights),
        };
        self.tell(&program, &finding);
        false
    }

    fn note_mappings(
        &mut self,
        process: Process,
        program: &Path,
        mappings: Mappings,
        library: &Library,
    ) {
        let (mut has_manyhands, mut carriers) = (false, Vec::new());
        for mapped in &mappings.programs {
            let openable = process.openable(mapped);
            if mapped.path == library.path || self.is_manyhands(&openable) {
                has_manyhands = true;
            } else {
                carriers.extend(self.carrier(&mapped.path, &openable, program));
            }
        }
        let watched = self.watched.entry(process).or_insert_with(|| Watched {
            program: program.to_owned(),
            command: process.command_line(),
            mappings: Mappings::default(),
            has_manyhands: false,
            carriers: Vec::new(),
            before: None,
            through: BTreeSet::new(),
            without: None,
            doubt: None,
        });
        (watched.mappings, watched.has_manyhands, watched.carriers) =
            (mappings, has_manyhands, carriers);
    }

    fn is_manyhands(&mut self, openable: &Path) -> bool {
        self.carriers.content(openable).is_ok_and(|content| content == Content::Manyhands)
    }

    /// What a mapped file is, if it has SQLite inside. One that cannot be read is judged by its name.
    fn carrier(&mut self, path: &Path, openable: &Path, program: &Path) -> Option<Carrier> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (date, driver) = match self.carriers.content(openable) {
            Ok(Content::Sqlite { date, driver }) => (Some(date), driver),
            Err(_) if name.contains("sqlite") => (None, None),
            _ => return None,
        };
        let is_runtime = RUNTIMES.iter().any(|start| name.starts_with(start));
        let role = match path {
            path if path == program || is_runtime => Role::Program,
            _ if name.starts_with("libsqlite3.so") => Role::Stock,
            _ => Role::Module,
        };
        Some(Carrier { path: path.to_owned(), role, date, driver })
    }

    /// Those of the files that are databases which the user means.
    fn databases(&mut self, process: Process, files: Vec<OpenFile>) -> Vec<Database> {
        let mapped =
            self.watched.get(&process).into_iter().flat_map(|watched| &watched.mappings.queues);
        let open = files.iter().map(|file| &file.path).filter(|path| process::is_queue(path));
        let queues: HashSet<_> =
            mapped.chain(open).filter_map(|queue| database_of_queue(queue)).collect();
        let mut databases = BTreeSet::new();
        for OpenFile { path, openable } in files {
            let name = path.as_os_str().as_encoded_bytes();
            let is_companion = COMPANIONS.iter().any(|end| name.ends_with(end.as_bytes()));
            if !is_companion && self.choice.is_meant(&path, &openable) {
                databases.insert(Database { has_queue: queues.contains(&path), path });
            }
        }
        databases.into_iter().collect()
    }

    /// A process has ended, or has become another program.
    fn end(&mut self, process: Process) {
        let Some(watched) = self.watched.remove(&process) else { return };
        let mut without = watched.without;
        if let Some((_, doubt)) = watched.doubt
            && watched.through.is_empty()
        {
            self.tell(&watched.program, &doubt);
            without = without.or(Some(doubt));
        }
        if !watched.through.is_empty() {
            self.programs_through.insert(watched.program);
        }
        self.report.add(process.pid, watched.command, watched.through, without);
    }

    fn tell(&mut self, program: &Path, finding: &Finding) {
        let carrier = finding.carrier.as_ref().map(|carrier| carrier.path.clone());
        let is_sure =
            |certainty: &Certainty| matches!(certainty, Certainty::Open | Certainty::Loaded);
        let key = (program.to_owned(), carrier);
        let told = self.told.get(&key);
        if told.is_some_and(|told| is_sure(told) || !is_sure(&finding.certainty)) {
            return;
        }
        if told.is_none() && self.told.len() >= TOLD_MAX {
            return;
        }
        self.told.insert(key, finding.certainty);
        // With stderr closed there is nobody to tell, and the command goes on.
        let _ = writeln!(io::stderr(), "{finding}");
        if self.told.len() == TOLD_MAX {
            let _ =
                writeln!(io::stderr(), "manyhands: WITHOUT MANYHANDS: more of them are not told");
        }
    }
}

impl Watched {
    fn finding(
        &self,
        process: Process,
        look: &Look,
        library: &Library,
        certainty: Certainty,
    ) -> Finding {
        let obstacle = (!self.has_manyhands).then(|| Obstacle::of_process(process, library));
        // A process in doubt may not have got as far as its loader.
        let obstacle = obstacle
            .filter(|obstacle| certainty != Certainty::Inside || *obstacle != Obstacle::Unknown);
        Finding {
            pid: Some(process.pid),
            command: self.command.clone(),
            certainty,
            carrier: look.main_carrier().cloned(),
            databases: look.without_queue().map(Path::to_owned).collect(),
            obstacle,
        }
    }
}
