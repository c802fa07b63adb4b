//! One value of a row, read and written in pieces.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use manyhands::BlobPlace;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView, PySlice};

use crate::connection::{Connection, lock};
use crate::error::ProgrammingError;
use crate::exit::detached;

/// A value of a row, open to be read and written in pieces; made by `Connection.blobopen`.
#[pyclass(frozen, mapping, weakref, module = "manyhands._manyhands")]
pub(crate) struct Blob {
    connection: Py<Connection>,
    /// `None` when it is closed.
    open: Mutex<Option<manyhands::Blob>>,
    /// That of the process that opened it.
    generation: u64,
    /// Of reads and writes, in bytes.
    offset: AtomicUsize,
    /// In bytes. It never changes.
    length: usize,
}

#[pymethods]
impl Connection {
    /// Opens the value in a column of a row, to read and write pieces of it. Its length cannot be changed.
    /// Nobody else can write to the file while it is open, unless it is opened with `readonly`. `name` is
    /// the database.
    #[pyo3(signature = (table, column, rowid, /, *, readonly = false, name = "main"))]
    fn blobopen(
        slf: &Bound<'_, Self>,
        table: String,
        column: String,
        rowid: i64,
        readonly: bool,
        name: &str,
    ) -> PyResult<Blob> {
        let place = BlobPlace { schema: name.to_string(), table, column, rowid };
        let open =
            slf.get().call(slf.py(), |connection| connection.open_blob(&place, !readonly))?;
        Ok(Blob {
            connection: slf.clone().unbind(),
            length: open.len(),
            open: Mutex::new(Some(open)),
            generation: manyhands::driver::fork_generation(),
            offset: AtomicUsize::new(0),
        })
    }
}

#[pymethods]
impl Blob {
    /// Closes the value. When it was open for writing outside a transaction, what was written is durable then.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.connection.get().call(py, |_| match lock(&self.open).take() {
            Some(open) => open.close(),
            None => Ok(()),
        })
    }

    /// Reads up to `length` bytes from the current position on, and moves it; all that follow for -1.
    #[pyo3(signature = (length = -1, /))]
    fn read<'py>(&self, py: Python<'py>, length: i32) -> PyResult<Bound<'py, PyBytes>> {
        self.check(py)?;
        let offset = self.offset.load(Ordering::Relaxed);
        let left = self.length - offset;
        let length = usize::try_from(length).map_or(left, |length| length.min(left));
        let bytes = self.bytes(py, offset, length)?;
        self.offset.store(offset + length, Ordering::Relaxed);
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes bytes at the current position, and moves it.
    #[pyo3(signature = (data, /))]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check(py)?;
        let bytes = bytes_of(data)?;
        let offset = self.offset.load(Ordering::Relaxed);
        if bytes.len() > self.length - offset {
            return Err(PyValueError::new_err("data longer than blob length"));
        }
        self.set_bytes(py, offset, &bytes)?;
        self.offset.store(offset + bytes.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Moves the position: `origin` is os.SEEK_SET, os.SEEK_CUR or os.SEEK_END.
    #[pyo3(signature = (offset, origin = 0, /))]
    fn seek(&self, py: Python<'_>, offset: i32, origin: i32) -> PyResult<()> {
        self.check(py)?;
        let from = match origin {
            0 => 0,
            1 => self.offset.load(Ordering::Relaxed),
            2 => self.length,
            _ => {
                return Err(PyValueError::new_err(
                    "'origin' should be os.SEEK_SET, os.SEEK_CUR, or os.SEEK_END",
                ));
            }
        };
        let from = i32::try_from(from).unwrap_or(i32::MAX);
        let offset = from
            .checked_add(offset)
            .ok_or_else(|| PyOverflowError::new_err("seek offset results in overflow"))?;
        let offset = usize::try_from(offset).ok().filter(|offset| *offset <= self.length);
        let offset = offset.ok_or_else(|| PyValueError::new_err("offset out of blob range"))?;
        self.offset.store(offset, Ordering::Relaxed);
        Ok(())
    }

    /// The current position, in bytes.
    fn tell(&self, py: Python<'_>) -> PyResult<usize> {
        self.check(py)?;
        Ok(self.offset.load(Ordering::Relaxed))
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().check(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (kind, error, traceback);
        self.check(py)?;
        self.close(py)?;
        Ok(false)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.check(py)?;
        Ok(self.length)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.check(py)?;
        match self.place(key)? {
            Place::Byte(index) => {
                let byte = self.bytes(py, index, 1)?[0];
                Ok(byte.into_pyobject(py)?.into_any())
            }
            Place::Bytes(Range { start, step, count, .. }) if count == 0 || step == 1 => {
                Ok(PyBytes::new(py, &self.bytes(py, start, count)?).into_any())
            }
            Place::Bytes(range) => {
                let span = self.bytes(py, range.low(), range.span())?;
                let bytes: Vec<u8> =
                    range.indices().map(|index| span[index - range.low()]).collect();
                Ok(PyBytes::new(py, &bytes).into_any())
            }
        }
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.check(py)?;
        match self.place(key)? {
            Place::Byte(index) => self.set_bytes(py, index, &[byte_of(value)?]),
            Place::Bytes(range) => {
                let bytes = bytes_of(value)?;
                if bytes.len() != range.count {
                    return Err(PyIndexError::new_err("Blob slice assignment is wrong size"));
                }
                if range.count == 0 {
                    return Ok(());
                }
                if range.step == 1 {
                    return self.set_bytes(py, range.start, &bytes);
                }
                let mut span = self.bytes(py, range.low(), range.span())?;
                for (index, byte) in range.indices().zip(bytes) {
                    span[index - range.low()] = byte;
                }
                self.set_bytes(py, range.low(), &span)
            }
        }
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.check(py)?;
        let what = if key.is_instance_of::<PySlice>() { "slice" } else { "item" };
        Err(PyTypeError::new_err(format!("Blob doesn't support {what} deletion")))
    }
}

/// What a key means.
enum Place {
    Byte(usize),
    Bytes(Range),
}

/// What a slice means.
struct Range {
    start: usize,
    step: isize,
    count: usize,
}

impl Range {
    fn indices(&self) -> impl Iterator<Item = usize> {
        let (start, step) = (self.start, self.step);
        (0..self.count).map(move |index| start.wrapping_add_signed(step * index as isize))
    }

    /// The first byte that it touches; it touches some.
    fn low(&self) -> usize {
        self.indices().min().unwrap_or(self.start)
    }

    /// From the first byte that it touches to the last one.
    fn span(&self) -> usize {
        self.indices().max().map_or(0, |last| last + 1 - self.low())
    }
}

impl Blob {
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.connection.get().check(py)?;
        // Held for a few instructions, or without the GIL.
        if detached(py, || lock(&self.open).is_none()) {
            return Err(ProgrammingError::new_err("Cannot operate on a closed blob."));
        }
        Ok(())
    }

    fn bytes(&self, py: Python<'_>, offset: usize, length: usize) -> PyResult<Vec<u8>> {
        let mut bytes = vec![0; length];
        if length > 0 {
            self.with(py, |blob| blob.read_at(&mut bytes, offset))?;
        }
        Ok(bytes)
    }

    fn set_bytes(&self, py: Python<'_>, offset: usize, bytes: &[u8]) -> PyResult<()> {
        self.with(py, |blob| blob.write_at(bytes, offset))
    }

    fn with(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut manyhands::Blob) -> Result<(), manyhands::Error> + Send,
    ) -> PyResult<()> {
        self.connection.get().call(py, |_| lock(&self.open).as_mut().map_or(Ok(()), work))
    }

    fn place(&self, key: &Bound<'_, PyAny>) -> PyResult<Place> {
        let length = isize::try_from(self.length).unwrap_or(isize::MAX);
        if let Ok(slice) = key.cast::<PySlice>() {
            let indices = slice.indices(length)?;
            return Ok(Place::Bytes(Range {
                start: indices.start.max(0).unsigned_abs(),
                step: indices.step,
                count: indices.slicelength,
            }));
        }
        if !key.is_instance_of::<PyInt>() && !key.hasattr("__index__")? {
            return Err(PyTypeError::new_err("Blob indices must be integers"));
        }
        let index: isize = key.extract().map_err(|error: PyErr| {
            if error.is_instance_of::<PyOverflowError>(key.py()) {
                PyIndexError::new_err("cannot fit 'int' into an index-sized integer")
            } else {
                error
            }
        })?;
        let index = if index < 0 { index + length } else { index };
        let index = usize::try_from(index).ok().filter(|index| *index < self.length);
        index.map(Place::Byte).ok_or_else(|| PyIndexError::new_err("Blob index out of range"))
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        let open = lock(&self.open).take();
        if self.generation != manyhands::driver::fork_generation() {
            core::mem::forget(open);
        } else if open.is_some() {
            // To commit may take its time.
            Python::attach(|py| detached(py, || drop(open)));
        }
    }
}

fn byte_of(value: &Bound<'_, PyAny>) -> PyResult<u8> {
    if !value.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err(format!(
            "'{}' object cannot be interpreted as an integer",
            value.get_type().name()?
        )));
    }
    value.extract().map_err(|_| PyValueError::new_err("byte must be in range(0, 256)"))
}

/// The bytes of whatever has a buffer.
pub(crate) fn bytes_of(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(bytes.to_vec());
    }
    // The stable C API has no buffers before Python 3.11.
    let view = PyMemoryView::from(value)?;
    if !view.getattr("c_contiguous")?.is_truthy()? {
        return Err(PyBufferError::new_err("underlying buffer is not C-contiguous"));
    }
    let bytes = view.call_method0("tobytes")?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
}
