//! A SQLite library that dlopen found, as a table of its functions.
//!
//! The library is loaded with RTLD_LOCAL and RTLD_DEEPBIND, so that two libraries with the same names live in one process and each
//! calls its own functions. Each function counts its calls in memory that the parent process shares, so that coverage survives a crash.
//!
//! What always holds: a pointer that one library gave is handed only to that library.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::path::Path;
use std::sync::atomic::AtomicU64;

macro_rules! opaque {
    ($($name:ident),*) => { $(
        #[doc = "A type of SQLite that is only ever pointed to."]
        #[repr(C)]
        pub struct $name { private: [u8; 0] }
    )* };
}
opaque!(Db, Stmt, Value, Context, Blob, Backup, Snapshot, Session, Str, Mutex);

pub type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
pub type Scalar = Option<unsafe extern "C" fn(*mut Context, c_int, *mut *mut Value)>;
pub type Last = Option<unsafe extern "C" fn(*mut Context)>;
pub type Compare =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_void, c_int, *const c_void) -> c_int>;
pub type RowCallback =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>;
type Text = *const c_char;
type Raw = *mut c_void;

/// One function of a library, and where its calls are counted.
pub struct Function<F> {
    pub pointer: F,
    pub calls: &'static AtomicU64,
}

/// Calls a function of a library and counts the call.
#[macro_export]
macro_rules! call {
    ($api:expr, $name:ident ( $($argument:expr),* $(,)? )) => {{
        let function = &$api.$name;
        function.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the signature is that of sqlite3.h. Pointers in the arguments came from the same library and are not
        // yet closed: the player takes a handle out of its slot when it closes it. Memory lent to a call outlives it.
        unsafe { (function.pointer)($($argument),*) }
    }};
}

macro_rules! api {
    ($( $prefix:literal { $( $name:ident : fn( $($argument:ty),* $(; $more:tt)? ) $(-> $result:ty)? ; )* } )*) => {
        /// The functions of one library.
        pub struct Api { $( $( pub $name: Function<unsafe extern "C" fn( $($argument,)* $($more)? ) $(-> $result)?>, )* )* }

        /// The names of the functions, in the order in which their calls are counted.
        pub const NAMES: &[&str] = &[ $( $( concat!($prefix, stringify!($name)) ),* ),* ];

        impl Api {
            /// Loads the library at `path`; the calls of the function `NAMES[i]` are counted in `calls[i]`.
            pub fn load(path: &Path, calls: &'static [AtomicU64]) -> Result<Api, String> {
                let library = open(path)?;
                let mut calls = calls.iter();
                Ok(Api { $( $( $name: Function {
                    // SAFETY: the symbol has the signature that sqlite3.h declares for this name.
                    pointer: unsafe {
                        std::mem::transmute::<Raw, unsafe extern "C" fn( $($argument,)* $($more)? ) $(-> $result)?>(
                            find(library, path, concat!($prefix, stringify!($name)))?,
                        )
                    },
                    calls: calls.next().ok_or("there is a counter for each name")?,
                }, )* )* })
            }
        }
    };
}

api! {
    "sqlite3_" {
        libversion: fn() -> Text;
        libversion_number: fn() -> c_int;
        sourceid: fn() -> Text;
        threadsafe: fn() -> c_int;
        initialize: fn() -> c_int;
        compileoption_used: fn(Text) -> c_int;
        compileoption_get: fn(c_int) -> Text;
        open: fn(Text, *mut *mut Db) -> c_int;
        open16: fn(*const c_void, *mut *mut Db) -> c_int;
        open_v2: fn(Text, *mut *mut Db, c_int, Text) -> c_int;
        close: fn(*mut Db) -> c_int;
        close_v2: fn(*mut Db) -> c_int;
        exec: fn(*mut Db, Text, RowCallback, Raw, *mut *mut c_char) -> c_int;
        get_table: fn(*mut Db, Text, *mut *mut *mut c_char, *mut c_int, *mut c_int, *mut *mut c_char) -> c_int;
        free_table: fn(*mut *mut c_char);
        free: fn(Raw);
        malloc: fn(c_int) -> Raw;
        malloc64: fn(u64) -> Raw;
        realloc: fn(Raw, c_int) -> Raw;
        realloc64: fn(Raw, u64) -> Raw;
        msize: fn(Raw) -> u64;
        memory_used: fn() -> i64;
        memory_highwater: fn(c_int) -> i64;
        status: fn(c_int, *mut c_int, *mut c_int, c_int) -> c_int;
        status64: fn(c_int, *mut i64, *mut i64, c_int) -> c_int;
        db_status: fn(*mut Db, c_int, *mut c_int, *mut c_int, c_int) -> c_int;
        soft_heap_limit64: fn(i64) -> i64;
        hard_heap_limit64: fn(i64) -> i64;
        release_memory: fn(c_int) -> c_int;
        db_release_memory: fn(*mut Db) -> c_int;
        db_cacheflush: fn(*mut Db) -> c_int;
        randomness: fn(c_int, Raw);
        sleep: fn(c_int) -> c_int;
        errcode: fn(*mut Db) -> c_int;
        extended_errcode: fn(*mut Db) -> c_int;
        errmsg: fn(*mut Db) -> Text;
        errmsg16: fn(*mut Db) -> *const c_void;
        error_offset: fn(*mut Db) -> c_int;
        errstr: fn(c_int) -> Text;
        set_errmsg: fn(*mut Db, c_int, Text) -> c_int;
        extended_result_codes: fn(*mut Db, c_int) -> c_int;
        system_errno: fn(*mut Db) -> c_int;
        changes: fn(*mut Db) -> c_int;
        changes64: fn(*mut Db) -> i64;
        total_changes: fn(*mut Db) -> c_int;
        total_changes64: fn(*mut Db) -> i64;
        last_insert_rowid: fn(*mut Db) -> i64;
        set_last_insert_rowid: fn(*mut Db, i64);
        get_autocommit: fn(*mut Db) -> c_int;
        txn_state: fn(*mut Db, Text) -> c_int;
        interrupt: fn(*mut Db);
        is_interrupted: fn(*mut Db) -> c_int;
        limit: fn(*mut Db, c_int, c_int) -> c_int;
        db_config: fn(*mut Db, c_int; ...) -> c_int;
        db_filename: fn(*mut Db, Text) -> Text;
        filename_wal: fn(Text) -> Text;
        filename_journal: fn(Text) -> Text;
        filename_database: fn(Text) -> Text;
        uri_parameter: fn(Text, Text) -> Text;
        uri_boolean: fn(Text, Text, c_int) -> c_int;
        uri_int64: fn(Text, Text, i64) -> i64;
        uri_key: fn(Text, c_int) -> Text;
        db_name: fn(*mut Db, c_int) -> Text;
        db_readonly: fn(*mut Db, Text) -> c_int;
        db_mutex: fn(*mut Db) -> *mut Mutex;
        mutex_enter: fn(*mut Mutex);
        mutex_try: fn(*mut Mutex) -> c_int;
        mutex_leave: fn(*mut Mutex);
        table_column_metadata: fn(*mut Db, Text, Text, Text, *mut Text, *mut Text, *mut c_int, *mut c_int, *mut c_int) -> c_int;
        file_control: fn(*mut Db, Text, c_int, Raw) -> c_int;
        overload_function: fn(*mut Db, Text, c_int) -> c_int;
        enable_load_extension: fn(*mut Db, c_int) -> c_int;
        load_extension: fn(*mut Db, Text, Text, *mut *mut c_char) -> c_int;
        set_clientdata: fn(*mut Db, Text, Raw, Destructor) -> c_int;
        get_clientdata: fn(*mut Db, Text) -> Raw;
        busy_timeout: fn(*mut Db, c_int) -> c_int;
        busy_handler: fn(*mut Db, Option<unsafe extern "C" fn(Raw, c_int) -> c_int>, Raw) -> c_int;
        wal_autocheckpoint: fn(*mut Db, c_int) -> c_int;
        wal_checkpoint: fn(*mut Db, Text) -> c_int;
        wal_checkpoint_v2: fn(*mut Db, Text, c_int, *mut c_int, *mut c_int) -> c_int;
        autovacuum_pages: fn(*mut Db, Option<unsafe extern "C" fn(Raw, Text, c_uint, c_uint, c_uint) -> c_uint>, Raw, Destructor) -> c_int;
        prepare: fn(*mut Db, Text, c_int, *mut *mut Stmt, *mut Text) -> c_int;
        prepare_v2: fn(*mut Db, Text, c_int, *mut *mut Stmt, *mut Text) -> c_int;
        prepare_v3: fn(*mut Db, Text, c_int, c_uint, *mut *mut Stmt, *mut Text) -> c_int;
        prepare16: fn(*mut Db, *const c_void, c_int, *mut *mut Stmt, *mut *const c_void) -> c_int;
        prepare16_v2: fn(*mut Db, *const c_void, c_int, *mut *mut Stmt, *mut *const c_void) -> c_int;
        prepare16_v3: fn(*mut Db, *const c_void, c_int, c_uint, *mut *mut Stmt, *mut *const c_void) -> c_int;
        step: fn(*mut Stmt) -> c_int;
        reset: fn(*mut Stmt) -> c_int;
        finalize: fn(*mut Stmt) -> c_int;
        clear_bindings: fn(*mut Stmt) -> c_int;
        transfer_bindings: fn(*mut Stmt, *mut Stmt) -> c_int;
        expired: fn(*mut Stmt) -> c_int;
        sql: fn(*mut Stmt) -> Text;
        expanded_sql: fn(*mut Stmt) -> *mut c_char;
        normalized_sql: fn(*mut Stmt) -> Text;
        stmt_readonly: fn(*mut Stmt) -> c_int;
        stmt_busy: fn(*mut Stmt) -> c_int;
        stmt_isexplain: fn(*mut Stmt) -> c_int;
        stmt_explain: fn(*mut Stmt, c_int) -> c_int;
        stmt_status: fn(*mut Stmt, c_int, c_int) -> c_int;
        next_stmt: fn(*mut Db, *mut Stmt) -> *mut Stmt;
        db_handle: fn(*mut Stmt) -> *mut Db;
        bind_blob: fn(*mut Stmt, c_int, *const c_void, c_int, Destructor) -> c_int;
        bind_blob64: fn(*mut Stmt, c_int, *const c_void, u64, Destructor) -> c_int;
        bind_double: fn(*mut Stmt, c_int, f64) -> c_int;
        bind_int: fn(*mut Stmt, c_int, c_int) -> c_int;
        bind_int64: fn(*mut Stmt, c_int, i64) -> c_int;
        bind_null: fn(*mut Stmt, c_int) -> c_int;
        bind_text: fn(*mut Stmt, c_int, Text, c_int, Destructor) -> c_int;
        bind_text16: fn(*mut Stmt, c_int, *const c_void, c_int, Destructor) -> c_int;
        bind_text64: fn(*mut Stmt, c_int, Text, u64, Destructor, c_uchar) -> c_int;
        bind_value: fn(*mut Stmt, c_int, *const Value) -> c_int;
        bind_pointer: fn(*mut Stmt, c_int, Raw, Text, Destructor) -> c_int;
        bind_zeroblob: fn(*mut Stmt, c_int, c_int) -> c_int;
        bind_zeroblob64: fn(*mut Stmt, c_int, u64) -> c_int;
        bind_parameter_count: fn(*mut Stmt) -> c_int;
        bind_parameter_index: fn(*mut Stmt, Text) -> c_int;
        bind_parameter_name: fn(*mut Stmt, c_int) -> Text;
        column_count: fn(*mut Stmt) -> c_int;
        data_count: fn(*mut Stmt) -> c_int;
        column_name: fn(*mut Stmt, c_int) -> Text;
        column_name16: fn(*mut Stmt, c_int) -> *const c_void;
        column_decltype: fn(*mut Stmt, c_int) -> Text;
        column_decltype16: fn(*mut Stmt, c_int) -> *const c_void;
        column_database_name: fn(*mut Stmt, c_int) -> Text;
        column_database_name16: fn(*mut Stmt, c_int) -> *const c_void;
        column_table_name: fn(*mut Stmt, c_int) -> Text;
        column_table_name16: fn(*mut Stmt, c_int) -> *const c_void;
        column_origin_name: fn(*mut Stmt, c_int) -> Text;
        column_origin_name16: fn(*mut Stmt, c_int) -> *const c_void;
        column_type: fn(*mut Stmt, c_int) -> c_int;
        column_int: fn(*mut Stmt, c_int) -> c_int;
        column_int64: fn(*mut Stmt, c_int) -> i64;
        column_double: fn(*mut Stmt, c_int) -> f64;
        column_text: fn(*mut Stmt, c_int) -> *const c_uchar;
        column_text16: fn(*mut Stmt, c_int) -> *const c_void;
        column_blob: fn(*mut Stmt, c_int) -> *const c_void;
        column_bytes: fn(*mut Stmt, c_int) -> c_int;
        column_bytes16: fn(*mut Stmt, c_int) -> c_int;
        column_value: fn(*mut Stmt, c_int) -> *mut Value;
        value_type: fn(*mut Value) -> c_int;
        value_numeric_type: fn(*mut Value) -> c_int;
        value_int: fn(*mut Value) -> c_int;
        value_int64: fn(*mut Value) -> i64;
        value_double: fn(*mut Value) -> f64;
        value_text: fn(*mut Value) -> *const c_uchar;
        value_text16: fn(*mut Value) -> *const c_void;
        value_text16le: fn(*mut Value) -> *const c_void;
        value_text16be: fn(*mut Value) -> *const c_void;
        value_blob: fn(*mut Value) -> *const c_void;
        value_bytes: fn(*mut Value) -> c_int;
        value_bytes16: fn(*mut Value) -> c_int;
        value_subtype: fn(*mut Value) -> c_uint;
        value_pointer: fn(*mut Value, Text) -> Raw;
        value_encoding: fn(*mut Value) -> c_int;
        value_nochange: fn(*mut Value) -> c_int;
        value_frombind: fn(*mut Value) -> c_int;
        value_dup: fn(*const Value) -> *mut Value;
        value_free: fn(*mut Value);
        create_function: fn(*mut Db, Text, c_int, c_int, Raw, Scalar, Scalar, Last) -> c_int;
        create_function16: fn(*mut Db, *const c_void, c_int, c_int, Raw, Scalar, Scalar, Last) -> c_int;
        create_function_v2: fn(*mut Db, Text, c_int, c_int, Raw, Scalar, Scalar, Last, Destructor) -> c_int;
        create_window_function: fn(*mut Db, Text, c_int, c_int, Raw, Scalar, Last, Last, Scalar, Destructor) -> c_int;
        create_collation: fn(*mut Db, Text, c_int, Raw, Compare) -> c_int;
        create_collation16: fn(*mut Db, *const c_void, c_int, Raw, Compare) -> c_int;
        create_collation_v2: fn(*mut Db, Text, c_int, Raw, Compare, Destructor) -> c_int;
        collation_needed: fn(*mut Db, Raw, Option<unsafe extern "C" fn(Raw, *mut Db, c_int, Text)>) -> c_int;
        user_data: fn(*mut Context) -> Raw;
        context_db_handle: fn(*mut Context) -> *mut Db;
        aggregate_context: fn(*mut Context, c_int) -> Raw;
        aggregate_count: fn(*mut Context) -> c_int;
        get_auxdata: fn(*mut Context, c_int) -> Raw;
        set_auxdata: fn(*mut Context, c_int, Raw, Destructor);
        result_blob: fn(*mut Context, *const c_void, c_int, Destructor);
        result_blob64: fn(*mut Context, *const c_void, u64, Destructor);
        result_double: fn(*mut Context, f64);
        result_error: fn(*mut Context, Text, c_int);
        result_error16: fn(*mut Context, *const c_void, c_int);
        result_error_code: fn(*mut Context, c_int);
        result_error_nomem: fn(*mut Context);
        result_error_toobig: fn(*mut Context);
        result_int: fn(*mut Context, c_int);
        result_int64: fn(*mut Context, i64);
        result_null: fn(*mut Context);
        result_pointer: fn(*mut Context, Raw, Text, Destructor);
        result_subtype: fn(*mut Context, c_uint);
        result_text: fn(*mut Context, Text, c_int, Destructor);
        result_text16: fn(*mut Context, *const c_void, c_int, Destructor);
        result_text16le: fn(*mut Context, *const c_void, c_int, Destructor);
        result_text16be: fn(*mut Context, *const c_void, c_int, Destructor);
        result_text64: fn(*mut Context, Text, u64, Destructor, c_uchar);
        result_value: fn(*mut Context, *mut Value);
        result_zeroblob: fn(*mut Context, c_int);
        result_zeroblob64: fn(*mut Context, u64) -> c_int;
        update_hook: fn(*mut Db, Option<unsafe extern "C" fn(Raw, c_int, Text, Text, i64)>, Raw) -> Raw;
        commit_hook: fn(*mut Db, Option<unsafe extern "C" fn(Raw) -> c_int>, Raw) -> Raw;
        rollback_hook: fn(*mut Db, Option<unsafe extern "C" fn(Raw)>, Raw) -> Raw;
        wal_hook: fn(*mut Db, Option<unsafe extern "C" fn(Raw, *mut Db, Text, c_int) -> c_int>, Raw) -> Raw;
        preupdate_hook: fn(*mut Db, Option<unsafe extern "C" fn(Raw, *mut Db, c_int, Text, Text, i64, i64)>, Raw) -> Raw;
        preupdate_old: fn(*mut Db, c_int, *mut *mut Value) -> c_int;
        preupdate_new: fn(*mut Db, c_int, *mut *mut Value) -> c_int;
        preupdate_count: fn(*mut Db) -> c_int;
        preupdate_depth: fn(*mut Db) -> c_int;
        preupdate_blobwrite: fn(*mut Db) -> c_int;
        trace: fn(*mut Db, Option<unsafe extern "C" fn(Raw, Text)>, Raw) -> Raw;
        profile: fn(*mut Db, Option<unsafe extern "C" fn(Raw, Text, u64)>, Raw) -> Raw;
        trace_v2: fn(*mut Db, c_uint, Option<unsafe extern "C" fn(c_uint, Raw, Raw, Raw) -> c_int>, Raw) -> c_int;
        set_authorizer: fn(*mut Db, Option<unsafe extern "C" fn(Raw, c_int, Text, Text, Text, Text) -> c_int>, Raw) -> c_int;
        progress_handler: fn(*mut Db, c_int, Option<unsafe extern "C" fn(Raw) -> c_int>, Raw);
        blob_open: fn(*mut Db, Text, Text, Text, i64, c_int, *mut *mut Blob) -> c_int;
        blob_read: fn(*mut Blob, Raw, c_int, c_int) -> c_int;
        blob_write: fn(*mut Blob, *const c_void, c_int, c_int) -> c_int;
        blob_reopen: fn(*mut Blob, i64) -> c_int;
        blob_bytes: fn(*mut Blob) -> c_int;
        blob_close: fn(*mut Blob) -> c_int;
        backup_init: fn(*mut Db, Text, *mut Db, Text) -> *mut Backup;
        backup_step: fn(*mut Backup, c_int) -> c_int;
        backup_finish: fn(*mut Backup) -> c_int;
        backup_remaining: fn(*mut Backup) -> c_int;
        backup_pagecount: fn(*mut Backup) -> c_int;
        serialize: fn(*mut Db, Text, *mut i64, c_uint) -> *mut c_uchar;
        deserialize: fn(*mut Db, Text, *mut c_uchar, i64, i64, c_uint) -> c_int;
        snapshot_get: fn(*mut Db, Text, *mut *mut Snapshot) -> c_int;
        snapshot_open: fn(*mut Db, Text, *mut Snapshot) -> c_int;
        snapshot_cmp: fn(*mut Snapshot, *mut Snapshot) -> c_int;
        snapshot_recover: fn(*mut Db, Text) -> c_int;
        snapshot_free: fn(*mut Snapshot);
        complete: fn(Text) -> c_int;
        complete16: fn(*const c_void) -> c_int;
        keyword_count: fn() -> c_int;
        keyword_name: fn(c_int, *mut Text, *mut c_int) -> c_int;
        keyword_check: fn(Text, c_int) -> c_int;
        stricmp: fn(Text, Text) -> c_int;
        strnicmp: fn(Text, Text, c_int) -> c_int;
        strglob: fn(Text, Text) -> c_int;
        strlike: fn(Text, Text, c_uint) -> c_int;
        mprintf: fn(Text; ...) -> *mut c_char;
        snprintf: fn(c_int, *mut c_char, Text; ...) -> *mut c_char;
        str_new: fn(*mut Db) -> *mut Str;
        str_append: fn(*mut Str, Text, c_int);
        str_appendall: fn(*mut Str, Text);
        str_appendchar: fn(*mut Str, c_int, c_char);
        str_appendf: fn(*mut Str, Text; ...);
        str_length: fn(*mut Str) -> c_int;
        str_errcode: fn(*mut Str) -> c_int;
        str_value: fn(*mut Str) -> *mut c_char;
        str_reset: fn(*mut Str);
        str_finish: fn(*mut Str) -> *mut c_char;
        vfs_find: fn(Text) -> Raw;
        drop_modules: fn(*mut Db, *mut Text) -> c_int;
    }
    "sqlite3session_" {
        create: fn(*mut Db, Text, *mut *mut Session) -> c_int;
        delete: fn(*mut Session);
        attach: fn(*mut Session, Text) -> c_int;
        enable: fn(*mut Session, c_int) -> c_int;
        indirect: fn(*mut Session, c_int) -> c_int;
        isempty: fn(*mut Session) -> c_int;
        changeset: fn(*mut Session, *mut c_int, *mut Raw) -> c_int;
        patchset: fn(*mut Session, *mut c_int, *mut Raw) -> c_int;
    }
}

thread_local! {
    static CURRENT: Cell<Option<&'static Api>> = const { Cell::new(None) };
}

/// Says that this library plays now: functions of the application are not told which library calls them.
pub fn begin(api: &'static Api) {
    CURRENT.set(Some(api));
}

/// The library that plays. A library that calls back in another thread, or when it was not called, ends the process.
pub fn current() -> &'static Api {
    CURRENT.get().expect("a library calls back only while it plays, in the thread that plays")
}

fn open(path: &Path) -> Result<Raw, String> {
    let name =
        CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name ends with a nul, and a SQLite library does nothing when it is loaded.
    let library = unsafe {
        libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND)
    };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: dlopen has just failed in this thread, so there is a message.
    let message = unsafe { libc::dlerror() };
    Err(format!("cannot load {}: {}", path.display(), crate::memory::text(message)))
}

fn find(library: Raw, path: &Path, name: &str) -> Result<Raw, String> {
    let symbol = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: the library is loaded and never unloaded, and the name ends with a nul.
    let address = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    if address.is_null() {
        return Err(format!("{} has no {name}", path.display()));
    }
    Ok(address)
}
