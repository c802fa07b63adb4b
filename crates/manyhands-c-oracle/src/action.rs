//! What a round does: plain data, so that a round can be printed, repeated and shortened.
//!
//! An action names slots, not pointers. Where a slot is empty the action does nothing, so that any part of a round is a round.

/// Slots for connections, statements, values, blobs and so on of each player.
pub const CONNECTIONS: usize = 3;
pub const STATEMENTS: usize = 6;
pub const VALUES: usize = 2;
pub const BLOBS: usize = 2;

/// One call of the C API, or a few that belong together.
#[derive(Clone, Debug)]
pub enum Action {
    Open { connection: usize, how: OpenCall, file: File },
    Close { connection: usize, v2: bool },
    Ask { connection: usize, what: Vec<Question> },
    Exec { connection: usize, sql: String, callback: Callback },
    GetTable { connection: usize, sql: String },
    Script { connection: usize, sql: String, read: Vec<Reader> },
    Setting { connection: usize, setting: Setting },

    Prepare { statement: usize, connection: usize, call: PrepareCall, sql: String, length: Length },
    Bind { statement: usize, index: i32, value: Bound },
    BindByName { statement: usize, name: String, number: i32 },
    Step { statement: usize, times: usize, read: Vec<Reader> },
    Column { statement: usize, column: i32, read: Vec<Reader> },
    KeepValue { statement: usize, column: i32, value: usize },
    AskValue { value: usize, read: Vec<Reader> },
    Reset { statement: usize },
    Finalize { statement: usize },
    ClearBindings { statement: usize },
    TransferBindings { from: usize, to: usize },
    Describe { statement: usize },
    AskStatement { statement: usize },
    Explain { statement: usize, mode: i32 },
    NextStatements { connection: usize },
    NoStatement,

    Hook { connection: usize, hook: Hook, on: bool, answer: i32 },
    Function { connection: usize, function: Function, call: FunctionCall, on: bool },
    Collation { connection: usize, call: CollationCall, on: bool },

    BlobOpen { blob: usize, connection: usize, place: BlobPlace, rowid: i64, write: bool },
    BlobRead { blob: usize, count: i32, offset: i32 },
    BlobWrite { blob: usize, text: String, offset: i32 },
    BlobReopen { blob: usize, rowid: i64 },
    BlobClose { blob: usize },
    Backup { from: usize, to: usize, pages: i32, write_between: bool },
    Serialize { connection: usize },
    Deserialize { from: usize, to: usize },
    SnapshotGet { connection: usize },
    SnapshotOpen { connection: usize },
    SessionCreate { connection: usize },
    SessionChangeset { patchset: bool },
    SessionSwitch { enable: i32, indirect: i32 },
    SessionDelete,

    Library { number: usize },
}

#[derive(Clone, Copy, Debug)]
pub enum OpenCall {
    Open,
    Open16,
    V2 { flags: i32 },
}

#[derive(Clone, Copy, Debug)]
pub enum File {
    /// The file that stands there when the round begins.
    Main,
    /// Its like, mostly for ATTACH.
    Other,
    /// A file that is not there yet; it gets a WAL right away, because Manyhands gives one to each file.
    Fresh,
    Memory,
    Empty,
    NoSuchDirectory,
    UriReadOnly,
    UriMemory,
}

#[derive(Clone, Copy, Debug)]
pub enum PrepareCall {
    Prepare,
    V2,
    V3(u32),
    Utf16,
    Utf16V2,
    Utf16V3(u32),
}

/// How much of the SQL text is handed over.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    ToNul,
    Exact,
    WithNul,
    Cut(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum Lifetime {
    Static,
    Transient,
    Destructor,
}

#[derive(Clone, Debug)]
pub enum Bound {
    Int(i32),
    Int64(i64),
    Double(f64),
    Null,
    Text { text: String, length: Length, lifetime: Lifetime },
    Text64 { text: String, encoding: u8, lifetime: Lifetime },
    Text16 { text: String, length: Length, lifetime: Lifetime },
    Blob { bytes: Vec<u8>, lifetime: Lifetime, long: bool },
    ZeroBlob(i32),
    ZeroBlob64(u64),
    Value(usize),
    ColumnValue { statement: usize, column: i32 },
    Pointer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Type,
    NumericType,
    Int,
    Int64,
    Double,
    Text,
    Text16,
    Text16Le,
    Text16Be,
    Blob,
    Bytes,
    Bytes16,
    Value,
    Subtype,
    Flags,
}

#[derive(Clone, Copy, Debug)]
pub enum Question {
    Code,
    Extended,
    Message,
    Message16,
    Offset,
    Changes,
    TotalChanges,
    LastRowid,
    Autocommit,
    TransactionState,
    Names,
    ReadOnly,
    Columns,
    Interrupted,
    Counters,
    Mutex,
}

#[derive(Clone, Copy, Debug)]
pub enum Callback {
    None,
    Rows,
    AbortAt(usize),
}

#[derive(Clone, Debug)]
pub enum Setting {
    BusyTimeout(i32),
    BusyHandler { answers: i32 },
    ExtendedCodes(i32),
    Limit { id: i32, value: i32 },
    Config { option: i32, value: i32 },
    Interrupt,
    LastRowid(i64),
    Message { code: i32, text: Option<String> },
    Checkpoint { mode: Option<i32> },
    AutoCheckpoint(i32),
    CacheFlush,
    ReleaseMemory,
    PersistWal(i32),
    Overload(String),
    LoadExtension,
    Clientdata { on: bool },
    DropModules,
    AutovacuumPages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Update,
    Commit,
    Rollback,
    Wal,
    Preupdate,
    Authorizer { deny: i32 },
    Progress,
    Trace { mask: u32 },
    OldTrace,
    OldProfile,
    CollationNeeded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Echo,
    Kinds,
    Fail,
    FailText,
    Auxiliary,
    Reenter,
    Subtype,
    Forms,
    Gather,
    Moving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionCall {
    Old,
    Utf16,
    V2 { flags: i32 },
}

#[derive(Clone, Copy, Debug)]
pub enum CollationCall {
    Old,
    Utf16,
    V2 { encoding: i32 },
}

#[derive(Clone, Copy, Debug)]
pub enum BlobPlace {
    Table,
    WrongTable,
    WrongColumn,
    Indexed,
    WithoutRowid,
    Temp,
}
