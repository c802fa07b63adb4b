//! Three SQLites for the stories: ours, a second copy in this process, and another process.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{BufRead, BufReader, Write};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr;

type Handle = *mut libsqlite3_sys::sqlite3;
type Row = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Exec = unsafe extern "C" fn(
    Handle,
    *const c_char,
    Option<Row>,
    *mut c_void,
    *mut *mut c_char,
) -> c_int;

type Open = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
type Message = unsafe extern "C" fn(Handle) -> *const c_char;
type Close = unsafe extern "C" fn(Handle) -> c_int;

/// The functions of one SQLite copy in this process.
#[derive(Clone, Copy)]
pub struct SqliteCopy {
    open: Open,
    exec: Exec,
    message: Message,
    close: Close,
}

impl SqliteCopy {
    /// The bundled copy.
    pub fn ours() -> Self {
        Self {
            open: libsqlite3_sys::sqlite3_open,
            exec: libsqlite3_sys::sqlite3_exec,
            message: libsqlite3_sys::sqlite3_errmsg,
            close: libsqlite3_sys::sqlite3_close,
        }
    }

    /// Debian's copy, loaded as Python loads it for its `sqlite3` module.
    pub fn host() -> Self {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
        // SAFETY: loads a library whose initializers are harmless.
        let library = unsafe { libc::dlopen(c"libsqlite3.so.0".as_ptr(), flags) };
        assert!(!library.is_null(), "no second SQLite: run `apt-get install libsqlite3-0`");
        let open = symbol(library, c"sqlite3_open");
        let exec = symbol(library, c"sqlite3_exec");
        let message = symbol(library, c"sqlite3_errmsg");
        let close = symbol(library, c"sqlite3_close");
        Self {
            // SAFETY: the function of this name has this signature.
            open: unsafe { mem::transmute::<*mut c_void, Open>(open) },
            // SAFETY: the function of this name has this signature.
            exec: unsafe { mem::transmute::<*mut c_void, Exec>(exec) },
            // SAFETY: the function of this name has this signature.
            message: unsafe { mem::transmute::<*mut c_void, Message>(message) },
            // SAFETY: the function of this name has this signature.
            close: unsafe { mem::transmute::<*mut c_void, Close>(close) },
        }
    }

    pub fn open(self, database: &Path) -> Connection {
        let path = CString::new(database.as_os_str().as_bytes()).expect("a path without NUL");
        let mut handle = ptr::null_mut();
        // SAFETY: a C string and room for the handle.
        let code = unsafe { (self.open)(path.as_ptr(), &raw mut handle) };
        assert_eq!(code, 0, "{} opens", database.display());
        Connection { copy: self, handle }
    }
}

fn symbol(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: an open library and a C string.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?} is missing");
    symbol
}

/// A connection of either copy; closed when dropped.
pub struct Connection {
    copy: SqliteCopy,
    handle: Handle,
}

// SAFETY: SQLite is compiled for threads, both copies.
unsafe impl Send for Connection {}

impl Connection {
    /// The first column of all rows, or SQLite's message.
    pub fn execute(&self, sql: &str) -> Result<Vec<String>, String> {
        let sql = CString::new(sql).expect("SQL without NUL");
        let mut rows: Vec<String> = Vec::new();
        let target = (&raw mut rows).cast();
        // SAFETY: `first_column` gets `rows`, which outlives the call.
        let code = unsafe {
            (self.copy.exec)(self.handle, sql.as_ptr(), Some(first_column), target, ptr::null_mut())
        };
        if code == 0 {
            return Ok(rows);
        }
        // SAFETY: the connection is open.
        let message = unsafe { (self.copy.message)(self.handle) };
        // SAFETY: SQLite's message is a C string, valid until the next call.
        Err(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: open, without statements, and not used again.
        let code = unsafe { (self.copy.close)(self.handle) };
        assert_eq!(code, 0, "the connection closes");
    }
}

/// # Safety
/// `rows` is a vector of strings that nobody else has meanwhile; the values are the row that SQLite passes to
/// `sqlite3_exec`'s callback.
unsafe extern "C" fn first_column(
    rows: *mut c_void,
    _count: c_int,
    values: *mut *mut c_char,
    _names: *mut *mut c_char,
) -> c_int {
    // SAFETY: `execute` passes its rows, which nobody else touches meanwhile.
    let rows = unsafe { &mut *rows.cast::<Vec<String>>() };
    // SAFETY: a row has at least one column.
    let value = unsafe { *values };
    if !value.is_null() {
        // SAFETY: SQLite passes C strings.
        rows.push(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned());
    }
    0
}

/// Runs SQL in the `sqlite3` shell, without a busy timeout: its output lines, or its complaint.
pub fn other_process(database: &Path, sql: &str) -> Result<Vec<String>, String> {
    let output = Command::new("sqlite3")
        .args([database.as_os_str(), sql.as_ref()])
        .output()
        .expect("the sqlite3 shell runs (`apt-get install sqlite3`)");
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() && complaint.is_empty() { Ok(lines) } else { Err(complaint) }
}

/// A `sqlite3` shell that stays.
pub struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    pub fn open(database: &Path) -> Self {
        let mut process = Command::new("sqlite3")
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the sqlite3 shell runs (`apt-get install sqlite3`)");
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, input, output }
    }

    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// Runs SQL and returns when it has run.
    pub fn execute(&mut self, sql: &str) {
        writeln!(self.input, "{sql}\nselect 'done';").expect("the shell listens");
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("the shell answers"), 0, "it ended");
        }
    }

    pub fn kill(mut self) {
        self.process.kill().expect("the shell runs");
        self.process.wait().expect("the shell ends");
    }

    pub fn close(self) {
        let Self { mut process, input, output: _ } = self;
        drop(input);
        assert!(process.wait().expect("the shell ends").success());
    }
}

/// A database file in a directory that goes away with it.
pub struct Database {
    directory: tempfile::TempDir,
    pub path: PathBuf,
}

impl Database {
    /// An empty table `t(a)` in WAL mode.
    pub fn create(copy: SqliteCopy) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("story.db");
        let connection = copy.open(&path);
        connection.execute("pragma journal_mode=wal; create table t(a)").expect("a new table");
        Self { directory, path }
    }

    /// A file beside it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn wal(&self) -> PathBuf {
        self.beside("story.db-wal")
    }

    pub fn shared_memory(&self) -> PathBuf {
        self.beside("story.db-shm")
    }

    /// What another process reads from the table, after an integrity check.
    pub fn rows(&self) -> Vec<String> {
        let sql = "pragma integrity_check; select a from t order by rowid";
        let mut lines = other_process(&self.path, sql).expect("another process reads");
        assert_eq!(lines.remove(0), "ok");
        lines
    }
}
