//! What /proc tells of a process: its parent, its program, the files that it has mapped and open.
//!
//! A process may end or become another program between two of these looks. So each answer may be missing, and none is
//! put together with another that must be of the same moment.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::unix::{
        ffi::OsStringExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Descriptors of one process that a look follows: a server with more has them for sockets.
const DESCRIPTORS_MAX: usize = 8192;
/// How long it stays known that a process is none of the family.
const STRANGERS_KNOWN: Duration = Duration::from_secs(1);
/// So much of a command line is read.
const COMMAND_BYTES_MAX: u64 = 4096;
/// What stands behind the path of a file without a name.
const DELETED: &str = " (deleted)";
/// What stands behind a database's name in that of its queue file.
pub const QUEUE_SUFFIX: &str = "-hands";
/// Read and write, as the mode of a link in /proc/PID/fd says it.
const READ_WRITE: u32 = 0o600;

/// A process, not the next one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    started: u64,
}

/// A line of the table of processes.
struct Row {
    process: Process,
    parent: i32,
    is_zombie: bool,
    is_stopped: bool,
}

/// A file with a mapping that can be executed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mapped {
    /// As the process sees it.
    pub path: PathBuf,
    /// Start and end, as the names in /proc/PID/map_files have them.
    range: String,
}

/// A file that a process has open.
#[derive(Debug)]
pub struct OpenFile {
    /// As the process sees it.
    pub path: PathBuf,
    /// Where we can open it.
    pub openable: PathBuf,
}

/// What is mapped.
#[derive(Default, PartialEq, Eq)]
pub struct Mappings {
    pub programs: Vec<Mapped>,
    /// Queue files.
    pub queues: BTreeSet<PathBuf>,
}

/// All processes that this one may see.
///
/// # Errors
/// There is no /proc.
pub fn all() -> io::Result<Vec<Process>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(row).filter(|row| !row.is_zombie).map(|row| row.process).collect())
}

/// The descendants of a process, which has to be a child subreaper: an orphan is then still a descendant.
pub struct Family {
    ancestor: i32,
    /// Processes that are none. None of them can become one, but its number can, so this is forgotten from time to time.
    strangers: HashSet<i32>,
    forgotten_at: Option<Instant>,
}

impl Family {
    pub fn of(ancestor: i32) -> Self {
        Self { ancestor, strangers: HashSet::new(), forgotten_at: None }
    }

    /// # Errors
    /// There is no /proc.
    pub fn members(&mut self, now: Instant) -> io::Result<Vec<Process>> {
        if self.forgotten_at.is_none_or(|forgotten_at| now - forgotten_at >= STRANGERS_KNOWN) {
            self.strangers.clear();
            self.forgotten_at = Some(now);
        }
        let entries = fs::read_dir("/proc")?.flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let rows = pids.filter(|pid| !self.strangers.contains(pid)).filter_map(row);
        let mut children: HashMap<i32, Vec<Row>> = HashMap::new();
        rows.for_each(|row| children.entry(row.parent).or_default().push(row));
        let mut members = below(vec![self.ancestor], &mut children);
        members.retain(|row| !row.is_zombie);
        // Whatever is below neither has lost its parent since its row was read, and will be adopted.
        let roots = self.strangers.iter().copied().chain([0]).collect();
        let strangers = below(roots, &mut children);
        self.strangers.extend(strangers.iter().map(|row| row.process.pid));
        Ok(members.into_iter().map(|row| row.process).collect())
    }
}

/// Takes all that descends from these numbers out of a table by parents.
fn below(mut parents: Vec<i32>, children: &mut HashMap<i32, Vec<Row>>) -> Vec<Row> {
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        // Removed, so that no circle of numbers that were given again can make this endless.
        for row in children.remove(&parent).unwrap_or_default() {
            parents.push(row.process.pid);
            found.push(row);
        }
    }
    found
}

fn row(pid: i32) -> Option<Row> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold spaces and parentheses: the last one ends it.
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // proc_pid_stat(5): the state is field 3, the parent 4, the start 22.
    let started = fields.get(22 - 3)?.parse().ok()?;
    Some(Row {
        process: Process { pid, started },
        parent: fields.get(1)?.parse().ok()?,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        is_stopped: matches!(*fields.first()?, "T" | "t"),
    })
}

impl Process {
    /// The process with this number.
    pub fn with_pid(pid: i32) -> Option<Self> {
        row(pid).map(|row| row.process)
    }

    /// True for one that a signal or a debugger has stopped.
    pub fn is_stopped(self) -> bool {
        row(self.pid).is_some_and(|row| row.is_stopped)
    }

    /// Its container, as far as its control group or its table of processes tells.
    pub fn container(self) -> Option<String> {
        let groups = fs::read_to_string(self.file("cgroup")).unwrap_or_default();
        container_of(&groups).or_else(|| {
            let own = fs::read_link("/proc/self/ns/pid").ok()?;
            let other = fs::read_link(self.file("ns/pid")).ok()?;
            (own != other).then(|| other.to_string_lossy().into_owned())
        })
    }

    /// True when it has the file with this device and inode number open.
    pub fn has_open(self, device: u64, inode: u64) -> bool {
        let Ok(files) = fs::read_dir(self.file("fd")) else { return false };
        let is_it = |file: fs::DirEntry| {
            // Sockets and pipes have no path: they are not asked.
            fs::read_link(file.path()).is_ok_and(|target| target.is_absolute())
                && fs::metadata(file.path())
                    .is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
        };
        files.flatten().take(DESCRIPTORS_MAX).any(is_it)
    }

    /// One that says that it is about to end, and may have.
    pub fn heard_of(pid: i32, program: &Path) -> Self {
        let now = row(pid).map(|row| row.process);
        // Its own table of processes may be another.
        let own = now.filter(|process| process.program().is_none_or(|known| known == program));
        own.unwrap_or(Self { pid, started: 0 })
    }

    fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }

    /// The program's file, as the process sees it.
    pub fn program(self) -> Option<PathBuf> {
        fs::read_link(self.file("exe")).ok().map(without_deleted)
    }

    /// The program's file even where its name is gone or another file's.
    pub fn program_file(self) -> PathBuf {
        self.file("exe")
    }

    /// The command line, in words that a shell would read as the same.
    pub fn command_line(self) -> String {
        let mut line = Vec::new();
        // A line may have megabytes: its beginning tells which it is.
        let _ = File::open(self.file("cmdline"))
            .and_then(|file| file.take(COMMAND_BYTES_MAX).read_to_end(&mut line));
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        if words.is_empty() {
            let name = fs::read_to_string(self.file("comm")).unwrap_or_default();
            return format!("[{}]", name.trim_end());
        }
        quoted_line(&words)
    }

    /// A variable of the environment that the program was started with.
    ///
    /// # Errors
    /// The process belongs to somebody else, or is gone.
    pub fn variable(self, name: &str) -> io::Result<Option<OsString>> {
        let environment = fs::read(self.file("environ"))?;
        let mut entries = environment.split(|byte| *byte == 0);
        let value =
            entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        Ok(value.map(|value| OsString::from_vec(value.to_vec())))
    }

    /// # Errors
    /// The process belongs to somebody else, or is gone.
    pub fn mappings(self) -> io::Result<Mappings> {
        let mut text = Vec::new();
        File::open(self.file("maps"))?.read_to_end(&mut text)?;
        Ok(mappings_of(&text))
    }

    /// Where a mapped file can be opened by us, who may see other mounts than the process does.
    pub fn openable(self, mapped: &Mapped) -> PathBuf {
        let below_root = mapped.path.strip_prefix("/").unwrap_or(&mapped.path);
        let by_path = self.file("root").join(below_root);
        // A file without a name is only there, and only for root.
        let by_range = || self.file("map_files").join(&mapped.range);
        if by_path.exists() { by_path } else { by_range() }
    }

    /// Its root folder, from where its paths lead on.
    pub fn root(self) -> PathBuf {
        self.file("root")
    }

    /// The files that the process has open for reading and writing.
    ///
    /// # Errors
    /// The process belongs to somebody else, or is gone.
    pub fn written_files(self) -> io::Result<Vec<OpenFile>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.file("fd"))?.flatten().take(DESCRIPTORS_MAX) {
            let link = entry.path();
            let Ok(target) = fs::read_link(&link) else { continue };
            // Sockets and pipes have no path; devices are no databases.
            if !target.is_absolute() || target.starts_with("/dev") || target.starts_with("/proc") {
                continue;
            }
            let is_written = fs::symlink_metadata(&link)
                .is_ok_and(|link| link.permissions().mode() & READ_WRITE == READ_WRITE);
            // To open a FIFO would be to wait for its other end.
            if is_written && fs::metadata(&link).is_ok_and(|file| file.is_file()) {
                found.push(OpenFile { path: without_deleted(target), openable: link });
            }
        }
        Ok(found)
    }
}

fn mappings_of(text: &[u8]) -> Mappings {
    let mut mappings = Mappings::default();
    for line in text.split(|byte| *byte == b'\n') {
        // proc_pid_maps(5): range, permissions, offset, device, inode, path; the path may hold spaces.
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (Some(range), Some(permissions), Some(rest)) =
            (fields.next(), fields.next(), fields.nth(3))
        else {
            continue;
        };
        let path = rest.trim_ascii_start();
        if !path.starts_with(b"/") {
            continue;
        }
        let path = without_deleted(PathBuf::from(OsString::from_vec(path.to_vec())));
        if permissions.get(2) == Some(&b'x') {
            if !mappings.programs.iter().any(|mapped| mapped.path == path) {
                let range = String::from_utf8_lossy(range).into_owned();
                mappings.programs.push(Mapped { path, range });
            }
        } else if is_queue(&path) {
            mappings.queues.insert(path);
        }
    }
    mappings
}

/// Whether a file is the queue of a database, as its name tells.
pub fn is_queue(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(QUEUE_SUFFIX.as_bytes())
}

/// The number by which Docker, Podman and Kubernetes name a container's group, in twelve digits.
fn container_of(groups: &str) -> Option<String> {
    const DIGITS: usize = 64;
    const TOLD: usize = 12;
    let words = groups.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut numbers = words
        .filter(|word| word.len() == DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    numbers.next_back().map(|number| number[..TOLD].to_owned())
}

fn without_deleted(path: PathBuf) -> PathBuf {
    let text = path.as_os_str().as_encoded_bytes();
    match text.strip_suffix(DELETED.as_bytes()) {
        Some(name) => PathBuf::from(OsString::from_vec(name.to_vec())),
        None => path,
    }
}

/// A command line that a shell reads as these words.
pub fn quoted_line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spaces in paths, a file without a name, several mappings of one file.
    #[test]
    fn mapped_files() {
        let mappings = mappings_of(
            b"55d0-55d1 r--p 00000000 fe:00 12   /usr/bin/a b\n\
              55d1-55d2 r-xp 00001000 fe:00 12   /usr/bin/a b\n\
              55d2-55d3 r-xp 00002000 fe:00 12   /usr/bin/a b\n\
              7f00-7f01 r-xp 00000000 fe:00 13   /tmp/libsqlitejdbc.so (deleted)\n\
              7f02-7f03 rw-s 00000000 fe:00 14   /data/app.db-hands\n\
              7f04-7f05 r-xp 00000000 00:00 0    [vdso]\n\
              7f06-7f07 rw-p 00000000 00:00 0 \n",
        );
        let paths: Vec<_> = mappings.programs.iter().map(|mapped| mapped.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/usr/bin/a b"), Path::new("/tmp/libsqlitejdbc.so")]);
        assert_eq!(mappings.programs[0].range, "55d1-55d2");
        assert_eq!(mappings.queues.len(), 1);
    }

    /// As the control groups of Docker and of Kubernetes are named.
    #[test]
    fn containers() {
        let number = "0123456789ab".to_owned() + &"c".repeat(52);
        let docker = format!("0::/system.slice/docker-{number}.scope\n");
        let kubernetes = format!("0::/kubepods/pod7/cri-containerd-{number}.scope\n");
        for groups in [docker, kubernetes, format!("12:pids:/docker/{number}\n")] {
            assert_eq!(container_of(&groups).as_deref(), Some("0123456789ab"), "{groups}");
        }
        assert_eq!(container_of("0::/user.slice/user-1000.slice\n"), None);
    }

    /// A command line can be read, and copied into a shell.
    #[test]
    fn words_of_a_command_line() {
        assert_eq!(quoted("/usr/bin/python3"), "/usr/bin/python3");
        assert_eq!(quoted("print(1); x='a'"), "'print(1); x='\\''a'\\'''");
        assert_eq!(quoted("a\nb"), "'a\\nb'");
    }

    /// The test itself is a descendant of its parent, with the files that it has open.
    #[test]
    fn this_process() {
        let pid = i32::try_from(std::process::id()).expect("a small number");
        let own = row(pid).expect("it is alive");
        let mut family = Family::of(own.parent);
        for _ in 0..2 {
            let members = family.members(Instant::now()).expect("there is a /proc");
            assert!(members.contains(&own.process));
        }
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let written = own.process.written_files().expect("our own");
        assert!(written.iter().any(|open| open.path == file.path()), "{written:?}");
        let mappings = own.process.mappings().expect("our own");
        let program = own.process.program().expect("a program");
        assert!(mappings.programs.iter().any(|mapped| mapped.path == program));
        assert!(own.process.variable("PATH").expect("our own").is_some());
    }
}
