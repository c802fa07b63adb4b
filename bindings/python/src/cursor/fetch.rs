//! How a cursor shows rows.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::{CHUNK_ROWS, Cursor};
use crate::connection::lock;
use crate::exit::Stays;
use crate::row::Row;

#[pymethods]
impl Cursor {
    /// The next row; None after the last.
    fn fetchone<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Cursor::next_row(slf)
    }

    /// Up to `size` further rows; `arraysize` by default.
    #[pyo3(signature = (size = None))]
    fn fetchmany<'py>(slf: &Bound<'py, Self>, size: Option<i32>) -> PyResult<Bound<'py, PyList>> {
        let size = size.unwrap_or_else(|| lock(&slf.get().state).arraysize);
        // As in the standard module, 0 and less are all.
        let rows_max = usize::try_from(size).ok().filter(|size| *size > 0);
        Cursor::rows_up_to(slf, rows_max.unwrap_or(usize::MAX))
    }

    /// All further rows.
    fn fetchall<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        Cursor::rows_up_to(slf, usize::MAX)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Cursor::next_row(slf)
    }
}

impl Cursor {
    fn next_row<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = slf.py();
        let this = slf.get();
        let (connection, shown) = this.enter_to_show(py)?;
        let Some(mut shown) = shown else { return Ok(None) };
        let row = match shown.row(py, &connection) {
            Ok(row) => row,
            Err(error) => return Err(connection.fail(py, shown, error)),
        };
        let more = shown.advance(py, &connection, 1)?;
        let factory = connection.leave(py, more.then_some(shown));
        Cursor::made_by_factory(slf, row, factory.as_ref()).map(Some)
    }

    fn rows_up_to<'py>(slf: &Bound<'py, Self>, rows_max: usize) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let this = slf.get();
        let list = PyList::empty(py);
        let (connection, shown) = this.enter_to_show(py)?;
        let Some(mut shown) = shown else { return Ok(list) };
        let mut left = rows_max;
        while left > 0 {
            match shown.row(py, &connection) {
                Ok(row) => list.append(row)?,
                Err(error) => return Err(connection.fail(py, shown, error)),
            }
            left -= 1;
            // One more than is wanted: see `Shown::buffer`.
            if !shown.advance(py, &connection, CHUNK_ROWS.min(left.max(1)))? {
                break;
            }
        }
        let more = shown.next < shown.buffer.rows();
        let factory = connection.leave(py, more.then_some(shown));
        if factory.is_some() {
            for index in 0..list.len() {
                let row = list.get_item(index)?.cast_into::<PyTuple>()?;
                list.set_item(index, Cursor::made_by_factory(slf, row, factory.as_ref())?)?;
            }
        }
        Ok(list)
    }

    /// What `row_factory` makes of a row.
    fn made_by_factory<'py>(
        slf: &Bound<'py, Self>,
        row: Bound<'py, PyTuple>,
        factory: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(factory) = factory else { return Ok(row.into_any()) };
        let _stays = Stays::here();
        if factory.is(py.get_type::<Row>()) {
            return Ok(Bound::new(py, Row::make(row, slf.get().description_of(py)))?.into_any());
        }
        factory.call1((slf, row))
    }
}
