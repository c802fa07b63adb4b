//! Many values, without a piece of memory for each.

use manyhands_sqlite::{Statement, ValueRef};

/// Rows in one piece of memory, which is used again and again: for reading many rows.
///
/// ```
/// # let directory = tempfile::tempdir()?;
/// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
/// use manyhands::{RowBuffer, ValueRef, params};
/// let mut connection = database.connect()?;
/// let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT 100";
/// let mut numbers = connection.cursor(sql, params![])?;
/// let (mut buffer, mut sum) = (RowBuffer::default(), 0);
/// while numbers.fetch(&mut buffer, 32)? > 0 {
///     for row in 0..buffer.rows() {
///         if let ValueRef::Integer(number) = buffer.value(row, 0) {
///             sum += number;
///         }
///     }
///     buffer.clear();
/// }
/// assert_eq!(sum, 5050);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct RowBuffer {
    values: Values,
    columns: usize,
    rows: usize,
}

/// Values in two pieces of memory.
#[derive(Debug, Default)]
pub(crate) struct Values {
    cells: Vec<Cell>,
    /// Of texts and blobs.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    /// Bytes from the first place to the second.
    Text(usize, usize),
    Blob(usize, usize),
}

impl RowBuffer {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A row's value; the first row and the first column have index 0. NULL when there is no such one.
    pub fn value(&self, row: usize, column: usize) -> ValueRef<'_> {
        if column >= self.columns {
            return ValueRef::Null;
        }
        self.values.get(row * self.columns + column)
    }

    /// Forgets the rows; keeps the memory, unless they were uncommonly large.
    pub fn clear(&mut self) {
        const BYTES_KEPT_MAX: usize = 1 << 20;
        self.values.clear();
        self.values.bytes.shrink_to(BYTES_KEPT_MAX);
        self.rows = 0;
    }

    pub(crate) fn add_current(&mut self, statement: &mut Statement) {
        self.begin_row(statement.column_count());
        for column in 0..self.columns {
            self.values.push(statement.column(column));
        }
    }

    pub(crate) fn add<'a>(&mut self, columns: usize, value: impl Fn(usize) -> ValueRef<'a>) {
        self.begin_row(columns);
        (0..columns).for_each(|column| self.values.push(value(column)));
    }

    /// The values of the row that was added last.
    pub(crate) fn last_row(&self) -> impl ExactSizeIterator<Item = ValueRef<'_>> {
        let first = self.values.len() - self.columns;
        (first..self.values.len()).map(|index| self.values.get(index))
    }

    fn begin_row(&mut self, columns: usize) {
        assert!(self.rows == 0 || self.columns == columns, "rows of one statement are alike");
        self.columns = columns;
        self.rows += 1;
    }
}

impl Values {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// NULL when there is no such one.
    pub(crate) fn get(&self, index: usize) -> ValueRef<'_> {
        match self.cells.get(index) {
            None | Some(Cell::Null) => ValueRef::Null,
            Some(Cell::Integer(number)) => ValueRef::Integer(*number),
            Some(Cell::Real(number)) => ValueRef::Real(*number),
            Some(Cell::Text(start, end)) => ValueRef::Text(&self.bytes[*start..*end]),
            Some(Cell::Blob(start, end)) => ValueRef::Blob(&self.bytes[*start..*end]),
        }
    }

    /// How much memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.cells.len() * size_of::<Cell>() + self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.bytes.clear();
    }

    pub(crate) fn push(&mut self, value: ValueRef<'_>) {
        let mut keep = |bytes: &[u8]| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            (start, self.bytes.len())
        };
        self.cells.push(match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Real(number),
            ValueRef::Text(bytes) => {
                let (start, end) = keep(bytes);
                Cell::Text(start, end)
            }
            ValueRef::Blob(bytes) => {
                let (start, end) = keep(bytes);
                Cell::Blob(start, end)
            }
        });
    }
}
