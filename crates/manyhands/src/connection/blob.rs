//! One value of a row, read and written in pieces.
//!
//! To SQLite an open blob is a running statement. A blob that writes needs the turn. In a transaction that is the
//! transaction's turn, which it holds from then on. Outside a transaction the blob has its own turn, from its opening until it is
//! closed, when SQLite commits what was written. Meanwhile the connection's other writes run in that turn,
//! and are committed together with the blob, as in SQLite.
//!
//! What a blob shows is in no log. So an optimistic transaction that opens a blob moves to its turn. What
//! a blob shows in a transaction that began after it was opened is not compared at the commit.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use manyhands_queue::Lead;
use manyhands_sqlite::{self as sqlite, BlobPlace};

use crate::Error;
use crate::commit::file::FileId;
use crate::commit::registry::FileHandle;
use crate::connection::Connection;
use crate::error::ErrorKind;
use crate::mutex::lock;
use crate::statement::tables::TableSet;

/// An open value of a row; made by [`Connection::open_blob`].
///
/// It is read and written at any place, or from its position on, as a file of fixed length: by
/// [`Read`], [`Write`] and [`Seek`]. To write beyond its end writes nothing.
#[derive(Debug)]
pub struct Blob {
    state: Arc<BlobState>,
    /// Where it is read and written next.
    position: u64,
}

/// The turn goes on when the last of its holders has let go.
type SharedLead = Arc<Mutex<Lead>>;

/// What a blob shares with its connection.
#[derive(Debug)]
pub(crate) struct BlobState {
    /// `None` when it is closed, or expired.
    open: Mutex<Option<sqlite::Blob>>,
    writable: bool,
    /// Of the database that it writes, if that has a queue.
    file: Option<FileHandle>,
    /// The turn that it holds, with the others that write the same file outside a transaction.
    lead: Mutex<Option<SharedLead>>,
}

impl Connection {
    /// Opens a value, to be read and written in pieces (<https://sqlite.org/c3ref/blob_open.html>). Its
    /// length never changes. When this connection changes the row, or rolls back, the blob expires, and
    /// fails with `SQLITE_ABORT`.
    ///
    /// Nobody else can write while a blob is open for writing. Outside a transaction what it writes is
    /// durable when it is closed. When the connection is dropped its blobs are closed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let database = manyhands::Database::open(directory.path().join("app.db"))?;
    /// use manyhands::{BlobPlace, params};
    /// let mut connection = database.connect()?;
    /// connection.execute("CREATE TABLE file (id INTEGER PRIMARY KEY, content BLOB)", params![])?;
    /// connection.execute("INSERT INTO file VALUES (1, zeroblob(1000000))", params![])?;
    /// let place = BlobPlace {
    ///     schema: "main".to_string(),
    ///     table: "file".to_string(),
    ///     column: "content".to_string(),
    ///     rowid: 1,
    /// };
    /// let mut blob = connection.open_blob(&place, true)?;
    /// blob.write_at(b"in the middle", 500_000)?;
    /// blob.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such value, or it is neither BLOB nor TEXT; else as [`Connection::execute`].
    pub fn open_blob(&mut self, place: &BlobPlace, writable: bool) -> Result<Blob, Error> {
        self.begin_operation()?;
        if writable && self.optimistic.is_some() {
            self.escalate_first()?;
        }
        self.show_unlogged()?;
        let file = match place.schema.to_ascii_lowercase().as_str() {
            "main" => self.file.clone(),
            schema => self.attached.get(schema).cloned(),
        };
        let lead = match &file {
            Some(file) if writable && !self.holds(file.id()) => {
                Some(Arc::new(Mutex::new(self.client(file).take_turn()?)))
            }
            Some(file) if writable => self.blobs.lead_of(file.id()),
            _ => None,
        };
        let opened = self.sqlite().open_blob(place, writable);
        let open = Mutex::new(Some(opened.map_err(|error| self.describe(error))?));
        let state = Arc::new(BlobState { open, writable, file, lead: Mutex::new(lead) });
        self.blobs.add(&state);
        if !self.is_autocommit() {
            self.adopt_turns_of_blobs();
        }
        Ok(Blob { state, position: 0 })
    }

    /// True when this connection may write to the file: it holds the turn, or a blob of it does.
    pub(crate) fn holds(&self, file: FileId) -> bool {
        self.turns.has(file) || self.blobs.lead_of(file).is_some()
    }

    /// True when a blob of this connection holds the turn of the main database: what is written goes with it.
    pub(crate) fn writes_with_blob(&self) -> bool {
        let main = self.file.as_ref().map(|file| file.id());
        main.is_some_and(|main| self.blobs.lead_of(main).is_some())
    }

    /// A transaction has begun while blobs held turns: the turns belong to the transaction now. Tells whether there were any.
    pub(crate) fn adopt_turns_of_blobs(&mut self) -> bool {
        let writing: Vec<_> = self.blobs.each_open().filter(|blob| blob.writable).collect();
        let mut adopted = false;
        for blob in &writing {
            let last = lock(&blob.lead).take().and_then(Arc::into_inner);
            if let (Some(lead), Some(file)) = (last, &blob.file) {
                self.hold_of(file, lead.into_inner().unwrap_or_else(PoisonError::into_inner));
                adopted = true;
            }
        }
        if !writing.is_empty() {
            // No statement tells what they will write.
            self.turns.note_written(TableSet::EVERY);
        }
        adopted
    }
}

/// The open blobs of a connection, and some that are closed by now.
#[derive(Debug, Default)]
pub(crate) struct OpenBlobs(Vec<Weak<BlobState>>);

impl OpenBlobs {
    fn add(&mut self, blob: &Arc<BlobState>) {
        self.0.retain(|blob| blob.strong_count() > 0);
        self.0.push(Arc::downgrade(blob));
    }

    /// The turn of this file, if one of them holds that.
    fn lead_of(&self, file: FileId) -> Option<SharedLead> {
        self.each_open().find_map(|blob| blob.lead_of(file))
    }

    /// A transaction continues on another snapshot: blobs that read hold the old one, and so expire.
    pub(crate) fn expire_reading(&self) {
        self.each_open().filter(|blob| !blob.writable).for_each(|blob| blob.expire());
    }

    /// All of them: a transaction that was interrupted is rolled back.
    pub(crate) fn expire(&self) {
        self.each_open().for_each(|blob| blob.expire());
    }

    /// A transaction has ended: by ROLLBACK, if a blob wrote in it. That one is expired for SQLite too, and
    /// would hold the old snapshot.
    pub(crate) fn expire_those_of_transaction(&self) {
        let rolled_back = |blob: &Arc<BlobState>| blob.writable && lock(&blob.lead).is_none();
        self.each_open().filter(rolled_back).for_each(|blob| blob.expire());
    }

    /// Closes all of them: they end with their connection.
    pub(crate) fn close(&self) {
        for blob in self.each_open() {
            // An error of this commit has nobody to be told to.
            let _ = blob.close();
        }
    }

    fn each_open(&self) -> impl Iterator<Item = Arc<BlobState>> {
        self.0.iter().filter_map(Weak::upgrade)
    }
}

impl BlobState {
    /// The turn of this file, if it holds that.
    fn lead_of(&self, file: FileId) -> Option<SharedLead> {
        let own = self.file.as_ref().is_some_and(|own| own.id() == file);
        lock(&self.lead).clone().filter(|_| own)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut sqlite::Blob) -> Result<T, sqlite::Error>,
    ) -> Result<T, Error> {
        match &mut *lock(&self.open) {
            Some(open) if open.is_inherited() => Err(Error::new(ErrorKind::Forked)),
            Some(open) => Ok(work(open)?),
            None => Err(Error::from(sqlite::Error::from_code(sqlite::Code::ABORT.0))),
        }
    }

    fn expire(&self) {
        drop(lock(&self.open).take());
    }

    fn close(&self) -> Result<(), Error> {
        let closed = lock(&self.open).take().map_or(Ok(()), sqlite::Blob::close);
        // For a blob that only reads, SQLite repeats its last error.
        let closed = if self.writable { closed } else { Ok(()) };
        drop(lock(&self.lead).take());
        closed.map_err(|error| {
            if error.code.is_failed_sync()
                && let Some(file) = &self.file
            {
                file.fail();
            }
            Error::from(error)
        })
    }
}

impl Drop for BlobState {
    fn drop(&mut self) {
        // An error of this commit has nobody to be told to.
        let _ = self.close();
    }
}

impl Blob {
    /// Its length in bytes; 0 when it is expired.
    pub fn len(&self) -> usize {
        lock(&self.state.open).as_ref().map_or(0, sqlite::Blob::len)
    }

    /// True for a value without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `offset` on into all of `buffer`.
    ///
    /// # Errors
    /// `SQLITE_ERROR` beyond the end, `SQLITE_ABORT` when the blob is expired.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: usize) -> Result<(), Error> {
        self.state.with(|blob| blob.read(offset, buffer))
    }

    /// Writes `bytes` over those from `offset` on.
    ///
    /// # Errors
    /// `SQLITE_READONLY` when it was opened for reading; else as [`Blob::read_at`].
    pub fn write_at(&mut self, bytes: &[u8], offset: usize) -> Result<(), Error> {
        self.state.with(|blob| blob.write(offset, bytes))
    }

    /// How many of `wanted` bytes there are from the position on, and that position.
    fn room_for(&self, wanted: usize) -> (usize, usize) {
        let len = self.len();
        let position = usize::try_from(self.position).map_or(len, |it| it.min(len));
        (wanted.min(len - position), position)
    }

    /// Goes to the same column of another row, and to its beginning.
    ///
    /// # Errors
    /// When there is no such row, or its value is neither BLOB nor TEXT: then the blob is expired.
    pub fn reopen(&mut self, rowid: i64) -> Result<(), Error> {
        self.position = 0;
        self.state.with(|blob| blob.reopen(rowid))
    }

    /// Closes it. When it was opened for writing outside a transaction, what was written is durable then.
    ///
    /// # Errors
    /// As SQLite fails to commit; as the last write failed, then nothing is committed. It is closed all the
    /// same.
    pub fn close(self) -> Result<(), Error> {
        self.state.close()
    }
}

impl Read for Blob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, position) = self.room_for(buffer.len());
        self.read_at(&mut buffer[..count], position).map_err(io::Error::other)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Write for Blob {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (count, position) = self.room_for(bytes.len());
        self.write_at(&bytes[..count], position).map_err(io::Error::other)?;
        self.position += count as u64;
        Ok(count)
    }

    /// Does nothing: what was written is SQLite's already, and durable when its transaction is.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Blob {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => (self.len() as u64).checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "before the blob's beginning");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}
