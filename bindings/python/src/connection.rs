//! A connection: how it is opened and closed, and its attributes. Its engine is behind a mutex, and called without
//! the GIL (`call.rs`).

mod call;
pub(crate) mod execute;

use core::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manyhands::driver::ConnectionExt;
use manyhands::{Database, InterruptHandle, TransactionMode};
use pyo3::exceptions::{PyResourceWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit};

use crate::callback::{Callable, Raised};
use crate::control::{Autocommit, IsolationLevel};
use crate::counting::Counting;
use crate::exit::detached;
use crate::options::{Arguments, Choice, Options};
use crate::threads::{check_signals, note_main_thread, python_thread, this_thread};

use call::{Failure, caught, uninitialised};

/// A connection to one database; `manyhands.Connection` is its only direct subclass.
#[pyclass(subclass, weakref, frozen, module = "manyhands")]
pub(crate) struct Connection {
    /// One of `UNINITIALISED`, `OPEN`, `CLOSED`.
    state: AtomicU8,
    /// The thread that made it, by [`this_thread`]; 0 when any thread may use it.
    thread: AtomicU64,
    /// The same thread as Python numbers it, for messages.
    thread_ident: AtomicU64,
    /// The generation of processes that made it: `fork()` begins the next.
    generation: AtomicU64,
    /// `None` while it is not open.
    engine: Mutex<Option<manyhands::Connection>>,
    /// When the counts of a statement are asked for.
    pub(crate) counting: Counting,
    /// As of the last call that has ended: what is answered while another one runs.
    told: Told,
    /// Beside the connection, so that interrupting waits for nothing. `None` while it is not open.
    interrupt: Mutex<Option<InterruptHandle>>,
    /// It is the target of a backup, which has taken it out of `engine`.
    lent: AtomicBool,
    /// The thread that is inside the engine, by [`this_thread`]; 0 for none.
    user: AtomicU64,
    /// What a callback or a signal handler has raised, to be raised where SQLite's error would be.
    raised: Arc<Raised>,
    /// Shared with each statement that has rows to show.
    pub(crate) open_rows: Arc<()>,
    /// What `__init__` has replaced while statements had rows to show.
    retired: Mutex<Vec<manyhands::Connection>>,
    pub(crate) isolation_level: AtomicU8,
    pub(crate) autocommit: AtomicI8,
    /// `transaction_mode` is "immediate".
    pub(crate) immediate: AtomicBool,
    pub(crate) detect_types: AtomicU32,
    /// `text_factory` is `str`.
    pub(crate) text_is_str: AtomicBool,
    pub(crate) attributes: Mutex<Attributes>,
}

/// What the standard module answers in any thread, and at once.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) in_transaction: AtomicBool,
    pub(crate) total_changes: AtomicI64,
}

const UNINITIALISED: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// What holds Python objects.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) row_factory: Option<Py<PyAny>>,
    /// `None` for `str`.
    pub(crate) text_factory: Option<Py<PyAny>>,
    /// Statements that were executed, by their text.
    pub(crate) statements: Option<Py<PyDict>>,
    pub(crate) statements_max: usize,
    /// What the engine calls beside functions, for the garbage collector to see.
    pub(crate) hooks: [Option<Callable>; 3],
}

/// Locks a mutex. What it guards is sound after a panic too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[pymethods]
impl Connection {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Connection {
        Connection {
            state: AtomicU8::new(UNINITIALISED),
            thread: AtomicU64::new(0),
            thread_ident: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            engine: Mutex::new(None),
            counting: Counting::default(),
            told: Told::default(),
            interrupt: Mutex::new(None),
            lent: AtomicBool::new(false),
            user: AtomicU64::new(0),
            raised: Arc::default(),
            open_rows: Arc::default(),
            retired: Mutex::default(),
            isolation_level: AtomicU8::new(0),
            autocommit: AtomicI8::new(Autocommit::LEGACY),
            immediate: AtomicBool::new(false),
            detect_types: AtomicU32::new(0),
            text_is_str: AtomicBool::new(true),
            attributes: Mutex::default(),
        }
    }

    #[pyo3(signature = (
        database, timeout = Choice::Open, detect_types = 0, isolation_level = IsolationLevel::Unnamed, check_same_thread = true,
        factory = None, cached_statements = 128, uri = false, *, autocommit = Autocommit(Autocommit::LEGACY), label = Choice::Open,
        durability = Choice::Open, transaction_mode = Choice::Open, wal_bytes_limit = Choice::Open, durability_min = Choice::Open,
        journal = Choice::Open
    ))]
    #[expect(clippy::too_many_arguments, reason = "the standard module's")]
    fn __init__(
        slf: &Bound<'_, Self>,
        database: &Bound<'_, PyAny>,
        timeout: Choice<f64>,
        detect_types: u32,
        isolation_level: IsolationLevel,
        check_same_thread: bool,
        factory: Option<&Bound<'_, PyAny>>,
        cached_statements: i64,
        uri: bool,
        autocommit: Autocommit,
        label: Choice<String>,
        durability: Choice<String>,
        transaction_mode: Choice<String>,
        wal_bytes_limit: Choice<Option<u64>>,
        durability_min: Choice<String>,
        journal: Choice<String>,
    ) -> PyResult<()> {
        let _ = factory;
        let py = slf.py();
        let this = slf.get();
        let path = path_from_python(database)?;
        let arguments = Arguments {
            timeout,
            label,
            durability,
            durability_min,
            transaction_mode,
            wal_bytes_limit,
            journal,
        };
        let options = Options::new(arguments, &path, uri)?;
        let immediate = options.transaction_mode == TransactionMode::Immediate;
        autocommit.check(immediate)?;
        this.leave(py, Arc::strong_count(&this.open_rows) > 1)?;
        this.state.store(UNINITIALISED, Ordering::Relaxed);
        note_main_thread(py)?;
        let builder = options.give_to(Database::builder(path)).uri(uri);
        let opened = detached(py, || {
            caught(|| {
                let mut connection = builder.open()?.connect()?;
                if check_same_thread {
                    connection.stay_in_thread();
                }
                connection.check_while_waiting(check_signals(&this.raised));
                *lock(&this.interrupt) = Some(connection.interrupt_handle());
                // Cursors and the connection ask for counts and rowids as that wants.
                connection.defer_writes(true);
                *lock(&this.engine) = Some(connection);
                Ok(())
            })
        });
        opened.map_err(|failure| failure.to_python(py))?;
        this.generation.store(manyhands::driver::fork_generation(), Ordering::Relaxed);
        let thread = if check_same_thread { this_thread() } else { 0 };
        this.thread.store(thread, Ordering::Relaxed);
        this.counting.begin(py, check_same_thread);
        this.thread_ident.store(python_thread(py)?, Ordering::Relaxed);
        this.detect_types.store(detect_types, Ordering::Relaxed);
        this.isolation_level.store(isolation_level as u8, Ordering::Relaxed);
        this.autocommit.store(autocommit.0, Ordering::Relaxed);
        this.immediate.store(immediate, Ordering::Relaxed);
        this.text_is_str.store(true, Ordering::Relaxed);
        let attributes = Attributes {
            statements: Some(PyDict::new(py).unbind()),
            statements_max: usize::try_from(cached_statements).unwrap_or(0),
            ..Attributes::default()
        };
        // What is dropped may call Python code, which may need the lock.
        let old = core::mem::replace(&mut *lock(&this.attributes), attributes);
        drop(old);
        this.state.store(OPEN, Ordering::Relaxed);
        if autocommit.0 == Autocommit::DISABLED {
            this.begin(py)?;
        }
        Ok(())
    }

    /// Closes the connection, and rolls back an open transaction. Does nothing the second time, and
    /// nothing in a child process.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_thread(py)?;
        if self.state.load(Ordering::Relaxed) == UNINITIALISED {
            return Err(uninitialised());
        }
        self.leave(py, false)
    }

    /// Interrupts what the connection does or waits for, from any thread, with OperationalError.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open()?;
        self.check_process()?;
        detached(py, || {
            let handle = lock(&self.interrupt).clone();
            handle.ok_or(Failure::Closed).map(|handle| handle.interrupt())
        })
        .map_err(|failure| failure.to_python(py))
    }

    /// Ends the call that runs, and no other one, from any thread, until `_pause`.
    fn _cancel(&self, py: Python<'_>) {
        detached(py, || lock(&self.interrupt).iter().for_each(InterruptHandle::cancel));
    }

    /// Rows changed since the connection was made; while another thread executes, as of its beginning.
    #[getter]
    fn total_changes(&self, py: Python<'_>) -> PyResult<i64> {
        let asked = self.ask(py, |engine| {
            engine.execute_deferred_in_turn()?;
            Ok(engine.total_changes())
        })?;
        Ok(asked.unwrap_or_else(|| self.told.total_changes.load(Ordering::Relaxed)))
    }

    /// Given to new cursors, where it makes something else of each row.
    #[getter]
    fn row_factory(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        lock(&self.attributes).row_factory.as_ref().map(|factory| factory.clone_ref(py))
    }

    #[setter]
    fn set_row_factory(&self, value: Option<Py<PyAny>>) {
        let old = std::mem::replace(&mut lock(&self.attributes).row_factory, value);
        drop(old);
    }

    /// Makes a Python object of the bytes of TEXT; `str` by default.
    #[getter]
    fn text_factory(&self, py: Python<'_>) -> Py<PyAny> {
        match &lock(&self.attributes).text_factory {
            Some(factory) => factory.clone_ref(py),
            None => PyType::new::<PyString>(py).into_any().unbind(),
        }
    }

    #[setter]
    fn set_text_factory(&self, py: Python<'_>, value: Py<PyAny>) {
        let is_str = value.bind(py).is(PyType::new::<PyString>(py));
        self.text_is_str.store(is_str, Ordering::Relaxed);
        let old =
            std::mem::replace(&mut lock(&self.attributes).text_factory, (!is_str).then_some(value));
        drop(old);
    }

    /// Warns, and closes nothing: of what is found together, as at the interpreter's exit, a generator or another object
    /// may yet use it. It is closed when it is freed.
    fn __del__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        if this.state.load(Ordering::Relaxed) != OPEN || this.check_process().is_err() {
            return Ok(());
        }
        let text = format!("unclosed database in {}", slf.repr()?);
        let text = std::ffi::CString::new(text).unwrap_or_default();
        PyErr::warn(slf.py(), &slf.py().get_type::<PyResourceWarning>(), &text, 1)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(attributes) = self.attributes.try_lock() {
            if let Some(factory) = &attributes.row_factory {
                visit.call(factory)?;
            }
            if let Some(factory) = &attributes.text_factory {
                visit.call(factory)?;
            }
            for hook in attributes.hooks.iter().flatten() {
                if let Ok(callable) = hook.try_lock()
                    && let Some(callable) = &*callable
                {
                    visit.call(callable)?;
                }
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.text_is_str.store(true, Ordering::Relaxed);
        let (factories, hooks) = {
            let mut attributes = lock(&self.attributes);
            let factories = (attributes.row_factory.take(), attributes.text_factory.take());
            (factories, core::mem::take(&mut attributes.hooks))
        };
        drop(factories);
        for hook in hooks.iter().flatten() {
            let callable = lock(hook).take();
            drop(callable);
        }
    }
}

impl Connection {
    /// Whether a transaction was open when the last call ended.
    pub(crate) fn was_in_transaction(&self) -> bool {
        self.told.in_transaction.load(Ordering::Relaxed)
    }

    /// The call that was cancelled has ended.
    pub(crate) fn resume(&self) {
        lock(&self.interrupt).iter().for_each(InterruptHandle::resume);
    }

    /// Closes what is open, or retires it. Waits for what other threads do with it.
    fn leave(&self, py: Python<'_>, retire: bool) -> PyResult<()> {
        if self.state.load(Ordering::Relaxed) != OPEN || self.check_process().is_err() {
            return Ok(());
        }
        self.check_no_callback()?;
        self.state.store(CLOSED, Ordering::Relaxed);
        let forgotten = {
            let mut attributes = lock(&self.attributes);
            (attributes.statements.take(), core::mem::take(&mut attributes.hooks))
        };
        drop(forgotten);
        let roll_back = self.autocommit.load(Ordering::Relaxed) == Autocommit::DISABLED;
        let left = detached(py, || {
            let mut taken = lock(&self.engine).take();
            let promised = caught(|| {
                taken.iter_mut().for_each(ConnectionExt::keep_promises);
                Ok(())
            });
            *lock(&self.interrupt) = None;
            let mut retired = lock(&self.retired);
            if retire {
                retired.extend(taken);
                return promised;
            }
            let retired = core::mem::take(&mut *retired);
            caught(|| {
                drop(retired);
                taken.filter(|_| roll_back).map_or(Ok(()), |mut it| it.roll_back_open())
            })
        });
        // A signal handler's exception, from a wait.
        let left = left.map_err(|failure| failure.to_python(py));
        self.raised.take().map_or(left, Err)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let engine = self.engine.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let retired =
            core::mem::take(self.retired.get_mut().unwrap_or_else(PoisonError::into_inner));
        if self.generation.load(Ordering::Relaxed) != manyhands::driver::fork_generation() {
            core::mem::forget((engine, retired));
        } else if engine.is_some() || !retired.is_empty() {
            Python::attach(|py| detached(py, || drop((engine, retired))));
        }
    }
}

static FSENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// When the module is loaded: nothing can be imported while the interpreter exits.
pub(crate) fn find_functions(py: Python<'_>) -> PyResult<()> {
    FSENCODE.import(py, "os", "fsencode").map(drop)
}

/// What `os.fsencode` makes of a path.
fn path_from_python(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    // The same in every encoding of file names.
    if let Ok(text) = path.cast_exact::<PyString>()
        && let Ok(text) = text.to_cow()
        && text.is_ascii()
        && !text.contains('\0')
    {
        return Ok(text.into_owned().into());
    }
    let encoded = FSENCODE.import(path.py(), "os", "fsencode")?.call1((path,))?;
    let bytes = encoded.cast::<PyBytes>()?.as_bytes();
    if bytes.contains(&0) {
        return Err(PyValueError::new_err("embedded null byte"));
    }
    Ok(std::ffi::OsString::from_vec(bytes.to_vec()).into())
}
