//! What has been seen of each process, and what was told about it.
//!
//! A finding is told once for each program and carrier; a doubt about them may be followed by the certainty.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    carrier::{Content, Contents, FileId},
    process::{self, Family, Mappings, OpenFile, Process, quoted_line},
};

use super::{
    choice::Choice,
    farewell::{Ear, Farewell},
    finding::{Carrier, Certainty, Database, Finding, Look, Meaning, Role, database_of_queue},
    library::Library,
    obstacle::Obstacle,
    report::Report,
};

/// How long a process may stay in doubt before that is told.
const DOUBT: Duration = Duration::from_secs(3);
/// Findings of one command. Whoever has read so many knows.
const TOLD_MAX: usize = 200;
/// What SQLite and Manyhands keep beside a database.
const COMPANIONS: [&str; 4] = ["-wal", "-shm", "-journal", process::QUEUE_SUFFIX];
/// Libraries that hold a whole language: like a program, they have SQLite whether it is used or not.
const RUNTIMES: [&str; 3] = ["libpython", "libnode", "libphp"];

/// Looks at processes, tells findings, keeps what the report needs.
pub struct Witness {
    family: Family,
    choice: Choice,
    contents: Contents,
    watched: HashMap<Process, Watched>,
    /// Processes that have ended while what they had mapped was still to be read.
    ended: Vec<(Process, Watched)>,
    /// Processes that do not let us look.
    unseen: HashSet<Process>,
    told: HashMap<(PathBuf, Option<PathBuf>), Certainty>,
    /// The program that is about to start. It is told at the end, unless its process was seen.
    expected: Option<Watched>,
    report: Report,
}

/// A process, as long as it runs one program.
#[derive(Default)]
struct Watched {
    program: PathBuf,
    command: String,
    mappings: Mappings,
    /// Files that are mapped, and what they are known by; `None` for one that cannot be read.
    files: Vec<(PathBuf, Option<FileId>)>,
    has_library: bool,
    /// Why it has no library.
    obstacle: Option<Obstacle>,
    look: Option<Look>,
    /// Databases that were open with their queue file.
    through: BTreeSet<PathBuf>,
    without: Option<Finding>,
    doubt: Option<(Instant, Finding)>,
}

impl Witness {
    /// For the descendants of a process.
    pub fn new(ancestor: i32, choice: Choice) -> Self {
        Self {
            family: Family::of(ancestor),
            choice,
            contents: Contents::default(),
            watched: HashMap::new(),
            ended: Vec::new(),
            unseen: HashSet::new(),
            told: HashMap::new(),
            expected: None,
            report: Report::default(),
        }
    }

    /// Notes the program that is about to start: it may end before the first look at its process.
    pub fn expect(&mut self, program: &Path, command: String, library: &Library) {
        // As /proc tells it.
        let Ok(program) = program.canonicalize() else { return };
        let files = vec![(program.clone(), self.contents.open(&program).ok())];
        let obstacle = Obstacle::of_program(&program, library).ok().flatten();
        let has_library = obstacle.is_none();
        self.expected =
            Some(Watched { program, command, files, has_library, obstacle, ..Watched::default() });
    }

    pub fn has_unread(&self) -> bool {
        self.contents.has_unread()
    }

    /// Reads a piece of a file that a process has mapped.
    pub fn read_on(&mut self) {
        self.contents.read_on();
    }

    /// One look at all of them; true if there is something new.
    pub fn look(&mut self, library: &Library, ear: &mut Ear, now: Instant) -> bool {
        // Without /proc nothing is seen, and the report says so.
        let processes = self.family.members(now).unwrap_or_default();
        // Whatever is gone now has said its farewell before.
        ear.drain().into_iter().for_each(|farewell| self.hear(farewell, library));
        let alive: HashSet<_> = processes.iter().copied().collect();
        let gone: Vec<_> =
            self.watched.keys().filter(|known| !alive.contains(known)).copied().collect();
        gone.into_iter().for_each(|process| self.end(process));
        let mut has_news = false;
        for process in processes {
            has_news |= self.look_at(process, library, now);
        }
        self.judge_ended();
        has_news
    }

    /// What a process says at its end, of which perhaps nothing was seen. The next look finds it gone.
    pub fn hear(&mut self, farewell: Farewell, library: &Library) {
        let seen = self.watched.keys().find(|process| process.pid == farewell.pid).copied();
        let process = seen.unwrap_or_else(|| Process::heard_of(farewell.pid, &farewell.program));
        if self.watched.get(&process).is_some_and(|known| known.program != farewell.program) {
            self.end(process);
        }
        let program = farewell.program.clone();
        self.expected.take_if(|expected| expected.program == program);
        let watched = self.watched.entry(process).or_insert_with(|| Watched {
            program,
            command: quoted_line(&farewell.arguments),
            ..Watched::default()
        });
        watched.has_library = true;
        watched.through.extend(farewell.databases);
        for path in [farewell.program].into_iter().chain(farewell.libraries) {
            if path.is_absolute() && path != library.path {
                watched.add(&path, &path, &mut self.contents);
            }
        }
    }

    /// Tells what is still in doubt.
    pub fn finish(mut self) -> Report {
        while self.has_unread() {
            self.read_on();
        }
        let left: Vec<_> = self.watched.keys().copied().collect();
        left.into_iter().for_each(|process| self.end(process));
        self.judge_ended();
        if let Some(expected) = self.expected.take() {
            let look = expected.look(&self.contents, Vec::new()).unwrap_or_default();
            if !look.carriers.is_empty() {
                self.tell(&expected.program, &expected.finding(None, &look, Certainty::Inside));
            }
        }
        self.report
    }

    fn look_at(&mut self, process: Process, library: &Library, now: Instant) -> bool {
        // Before the mappings: whoever has a database open has mapped what opened it.
        let files = process.written_files().unwrap_or_default();
        let mappings = match process.mappings() {
            Ok(mappings) => mappings,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.look_from_outside(process);
                return false;
            }
            // It has ended.
            Err(_) => return false,
        };
        let Some(program) = process.program() else { return false };
        if self.watched.get(&process).is_some_and(|known| known.program != program) {
            self.end(process);
        }
        let has_news = self.watched.get(&process).is_none_or(|known| known.mappings != mappings);
        let databases = self.databases(files, &mappings);
        let mut watched = self
            .watched
            .remove(&process)
            .unwrap_or_else(|| Watched { program, ..Watched::default() });
        if has_news {
            watched.note(process, mappings, &mut self.contents, library);
        }
        self.expected.take_if(|expected| expected.program == watched.program);
        self.judge(process, &mut watched, databases, now);
        self.watched.insert(process, watched);
        has_news
    }

    /// What a look at a process means is told at once where it is sure.
    fn judge(
        &mut self,
        process: Process,
        watched: &mut Watched,
        databases: Vec<Database>,
        now: Instant,
    ) {
        let through = databases.iter().filter(|database| database.has_queue);
        watched.through.extend(through.map(|database| database.path.clone()));
        let Some(look) = watched.look(&self.contents, databases.clone()) else {
            // Judged when the files are read, by what was open last.
            let last = watched.look.take().map(|look| look.databases).unwrap_or_default();
            let databases = if databases.is_empty() { last } else { databases };
            watched.look = Some(Look { databases, ..Look::default() });
            return;
        };
        match look.meaning(watched.look.as_ref()) {
            Meaning::Nothing | Meaning::Through => watched.doubt = None,
            Meaning::Doubt => {
                let finding = watched.finding(Some(process.pid), &look, Certainty::Inside);
                let since = watched.doubt.take().map_or(now, |(since, _)| since);
                if now.duration_since(since) >= DOUBT && watched.through.is_empty() {
                    self.tell(&watched.program, &finding);
                }
                watched.doubt = Some((since, finding));
            }
            Meaning::Without => {
                let is_open = look.without_queue().next().is_some();
                let certainty = if is_open { Certainty::Open } else { Certainty::Loaded };
                let is_known =
                    watched.without.as_ref().is_some_and(|known| known.certainty == certainty);
                if !is_known {
                    let finding = watched.finding(Some(process.pid), &look, certainty);
                    self.tell(&watched.program, &finding);
                    watched.without = Some(finding);
                }
            }
        }
        watched.look = Some(look);
    }

    /// A process with other rights than ours has not got the library, and shows only its command line.
    fn look_from_outside(&mut self, process: Process) {
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
        if self.unseen.insert(process) {
            self.report.add(process.pid, finding.command.clone(), BTreeSet::new(), Some(finding));
        }
    }

    /// Those of the open files that are databases which the user means.
    fn databases(&mut self, files: Vec<OpenFile>, mappings: &Mappings) -> Vec<Database> {
        let open = files.iter().map(|file| &file.path).filter(|path| process::is_queue(path));
        let queues = mappings.queues.iter().chain(open);
        let queues: HashSet<_> = queues.filter_map(|queue| database_of_queue(queue)).collect();
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
        self.ended.extend(self.watched.remove(&process).map(|watched| (process, watched)));
    }

    /// Ended processes of which all files have been read are done with.
    fn judge_ended(&mut self) {
        let is_read = |watched: &Watched| watched.look(&self.contents, Vec::new()).is_some();
        let ended = std::mem::take(&mut self.ended);
        let (read, unread) = ended.into_iter().partition(|(_, watched)| is_read(watched));
        self.ended = unread;
        for (process, watched) in read {
            self.judge_last(process, watched);
        }
    }

    fn judge_last(&mut self, process: Process, mut watched: Watched) {
        // It may have loaded something since the last look whose files were all read.
        if watched.without.is_none() {
            let databases = watched.look.take().map(|look| look.databases).unwrap_or_default();
            self.judge(process, &mut watched, databases, Instant::now());
        }
        let mut without = watched.without;
        if let Some((_, doubt)) = watched.doubt
            && watched.through.is_empty()
        {
            self.tell(&watched.program, &doubt);
            without = without.or(Some(doubt));
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
    /// New mappings: what they are is read later, and why the library is not among them is asked now.
    fn note(
        &mut self,
        process: Process,
        mappings: Mappings,
        contents: &mut Contents,
        library: &Library,
    ) {
        for mapped in mappings.programs.iter().filter(|mapped| mapped.path != library.path) {
            self.add(&mapped.path, &process.openable(mapped), contents);
        }
        self.has_library = mappings.programs.iter().any(|mapped| mapped.path == library.path);
        self.obstacle = (!self.has_library).then(|| Obstacle::of_process(process, library));
        self.mappings = mappings;
        // A program that has just taken the place of another has none yet.
        self.command = process.command_line();
    }

    /// What was loaded once stays: it may have been used.
    fn add(&mut self, path: &Path, openable: &Path, contents: &mut Contents) {
        if !self.files.iter().any(|(known, _)| known == path) {
            // The process may have ended meanwhile, and nothing of it can be opened: most often it has seen the files that we see.
            let opened = contents.open(openable).or_else(|_| contents.open(path));
            self.files.push((path.to_owned(), opened.ok()));
        }
    }

    /// What has been seen, as soon as all files are read.
    fn look(&self, contents: &Contents, databases: Vec<Database>) -> Option<Look> {
        let mut look = Look { has_manyhands: self.has_library, carriers: Vec::new(), databases };
        for (path, id) in &self.files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_runtime = RUNTIMES.iter().any(|start| name.starts_with(start));
            let role = match path {
                path if *path == self.program || is_runtime => Role::Program,
                _ if name.starts_with("libsqlite3.so") => Role::Stock,
                _ => Role::Module,
            };
            let (date, driver) = match id.map(|id| contents.get(id)) {
                Some(None) => return None,
                Some(Some(Content::NoSqlite)) => continue,
                Some(Some(Content::Manyhands)) => {
                    look.has_manyhands = true;
                    continue;
                }
                Some(Some(Content::Sqlite { date, driver })) => (Some(date.clone()), *driver),
                // What cannot be read is judged by its name.
                None if name.contains("sqlite") => (None, None),
                None => continue,
            };
            look.carriers.push(Carrier { path: path.clone(), role, date, driver });
        }
        Some(look)
    }

    fn finding(&self, pid: Option<i32>, look: &Look, certainty: Certainty) -> Finding {
        let obstacle = self.obstacle.clone().filter(|_| !look.has_manyhands);
        // A process in doubt may not have got as far as its loader.
        let obstacle = obstacle
            .filter(|obstacle| certainty != Certainty::Inside || *obstacle != Obstacle::Unknown);
        Finding {
            pid,
            command: self.command.clone(),
            certainty,
            carrier: look.main_carrier().cloned(),
            databases: look.without_queue().map(Path::to_owned).collect(),
            obstacle,
        }
    }
}
