//! What a program adds to its connection: functions, collations, modules, extensions.
//!
//! SQLite is given them as they are. The engine is told, since other connections do not have them: writes that call such a
//! function are executed by this connection.

use core::ffi::{CStr, c_char, c_int, c_void};

use manyhands::driver::ConnectionExt;

use crate::execute::text16;
use crate::ffi::{self, Compare, Destructor, FinalFunction, ScalarFunction};
use crate::handle::Handle;

c_api! {
    /// Makes an SQL function (<https://sqlite.org/c3ref/create_function.html>).
    fn sqlite3_create_function(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        function: ScalarFunction,
        step: ScalarFunction,
        finish: FinalFunction,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe {
            ffi::sqlite3_create_function(db, name, arguments, flags, data, function, step, finish)
        };
        // SAFETY: the caller has promised null or an open connection, and a zero-terminated text.
        unsafe { change_function(db, name, create) }.unwrap_or_else(|code| code)
    }

    /// The same, with its name in UTF-16.
    fn sqlite3_create_function16(
        db: *mut ffi::sqlite3,
        name: *const c_void,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        function: ScalarFunction,
        step: ScalarFunction,
        finish: FinalFunction,
    ) -> c_int {
        // SAFETY: the caller has promised a zero-terminated text, or null.
        let text = unsafe { text16(name, -1) }.unwrap_or_default();
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe {
            ffi::sqlite3_create_function16(db, name, arguments, flags, data, function, step, finish)
        };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change_function_named(db, &text, create) }.unwrap_or_else(|code| code)
    }

    /// The same; `destructor` is called when the function is needed no longer.
    fn sqlite3_create_function_v2(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        function: ScalarFunction,
        step: ScalarFunction,
        finish: FinalFunction,
        destructor: Destructor,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe {
            ffi::sqlite3_create_function_v2(
                db, name, arguments, flags, data, function, step, finish, destructor,
            )
        };
        // SAFETY: the caller has promised null or an open connection, and a zero-terminated text.
        let created = unsafe { change_function(db, name, create) };
        // SAFETY: the program's own destructor, for its own data.
        unsafe { destroy_unless_given(created, data, destructor) }
    }

    /// Makes an aggregate function that is a window function, too.
    fn sqlite3_create_window_function(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        arguments: c_int,
        flags: c_int,
        data: *mut c_void,
        step: ScalarFunction,
        finish: FinalFunction,
        value: FinalFunction,
        inverse: ScalarFunction,
        destructor: Destructor,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe {
            ffi::sqlite3_create_window_function(
                db, name, arguments, flags, data, step, finish, value, inverse, destructor,
            )
        };
        // SAFETY: the caller has promised null or an open connection, and a zero-terminated text.
        let created = unsafe { change_function(db, name, create) };
        // SAFETY: the program's own destructor, for its own data.
        unsafe { destroy_unless_given(created, data, destructor) }
    }

    /// Makes sure that there is a function of this name for virtual tables to replace.
    fn sqlite3_overload_function(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        arguments: c_int,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe { ffi::sqlite3_overload_function(db, name, arguments) };
        // SAFETY: the caller has promised null or an open connection, and a zero-terminated text.
        unsafe { change_function(db, name, create) }.unwrap_or_else(|code| code)
    }

    /// Makes a collation.
    fn sqlite3_create_collation(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        encoding: c_int,
        data: *mut c_void,
        compare: Compare,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create =
            || unsafe { ffi::sqlite3_create_collation(db, name, encoding, data, compare) };
        // SAFETY: the caller has promised null or an open connection, and a zero-terminated text.
        unsafe { change_collation(db, name, create) }
    }

    /// The same, with its name in UTF-16.
    fn sqlite3_create_collation16(
        db: *mut ffi::sqlite3,
        name: *const c_void,
        encoding: c_int,
        data: *mut c_void,
        compare: Compare,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create =
            || unsafe { ffi::sqlite3_create_collation16(db, name, encoding, data, compare) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, create) }
    }

    /// The same; `destructor` is called when the collation is needed no longer, and not when it could not be made.
    fn sqlite3_create_collation_v2(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        encoding: c_int,
        data: *mut c_void,
        compare: Compare,
        destructor: Destructor,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe {
            ffi::sqlite3_create_collation_v2(db, name, encoding, data, compare, destructor)
        };
        // SAFETY: the caller has promised null or an open connection, and a zero-terminated text.
        unsafe { change_collation(db, name, create) }
    }

    /// Calls a function when a collation is missing, which may make it.
    fn sqlite3_collation_needed(
        db: *mut ffi::sqlite3,
        data: *mut c_void,
        needed: Option<unsafe extern "C" fn(*mut c_void, *mut ffi::sqlite3, c_int, *const c_char)>,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe { ffi::sqlite3_collation_needed(db, data, needed) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, create) }
    }

    /// The same, with the collation's name in UTF-16.
    fn sqlite3_collation_needed16(
        db: *mut ffi::sqlite3,
        data: *mut c_void,
        needed: Option<unsafe extern "C" fn(*mut c_void, *mut ffi::sqlite3, c_int, *const c_void)>,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe { ffi::sqlite3_collation_needed16(db, data, needed) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, create) }
    }

    /// Makes a module for virtual tables.
    fn sqlite3_create_module(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        module: *const ffi::sqlite3_module,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe { ffi::sqlite3_create_module(db, name, module, data) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, create) }
    }

    /// The same; `destructor` is called when the module is needed no longer.
    fn sqlite3_create_module_v2(
        db: *mut ffi::sqlite3,
        name: *const c_char,
        module: *const ffi::sqlite3_module,
        data: *mut c_void,
        destructor: Destructor,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let create = || unsafe { ffi::sqlite3_create_module_v2(db, name, module, data, destructor) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, create) }
    }

    /// Removes modules, but for those named.
    fn sqlite3_drop_modules(db: *mut ffi::sqlite3, kept: *mut *const c_char) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let remove = || unsafe { ffi::sqlite3_drop_modules(db, kept) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, remove) }
    }

    /// Loads a shared library, which adds to the connection what it likes.
    fn sqlite3_load_extension(
        db: *mut ffi::sqlite3,
        file: *const c_char,
        entry: *const c_char,
        message: *mut *mut c_char,
    ) -> c_int {
        // SAFETY: the caller has promised what SQLite demands, and vouches for the library.
        let load = || unsafe { ffi::sqlite3_load_extension(db, file, entry, message) };
        // SAFETY: the caller has promised null or an open connection.
        unsafe { change(db, load) }
    }

    /// Lets the program, and SQL, load extensions.
    fn sqlite3_enable_load_extension(db: *mut ffi::sqlite3, on: c_int) -> c_int {
        // SAFETY: the caller has promised what SQLite demands.
        let enable = || unsafe { ffi::sqlite3_enable_load_extension(db, on) };
        // What is loaded then changes the connection: by `sqlite3_load_extension`, or by SQL that names the function.
        // SAFETY: the caller has promised null or an open connection.
        match unsafe { Handle::entered(db) } {
            Some(handle) => {
                handle.loads_by_sql.set(on != 0);
                handle.change(false, enable)
            }
            None => enable(),
        }
    }
}

/// # Safety
/// `db` is null or open.
unsafe fn change(db: *mut ffi::sqlite3, change: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller has promised it.
    match unsafe { Handle::entered(db) } {
        Some(handle) => handle.change(true, change),
        None => change(),
    }
}

/// # Safety
/// `db` is null or open, `name` null or zero-terminated.
unsafe fn change_collation(
    db: *mut ffi::sqlite3,
    name: *const c_char,
    change: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller has promised it.
    let handle = unsafe { Handle::entered(db) };
    match handle.filter(|it| !it.is_called_back() && !name.is_null()) {
        Some(handle) => {
            // SAFETY: the caller has promised it.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            handle.engine(|it| it.change_collation(&name, change)).unwrap_or_else(|code| code)
        }
        None => change(),
    }
}

/// `Err` when nothing was called.
///
/// # Safety
/// `db` is null or open, `name` null or zero-terminated.
unsafe fn change_function(
    db: *mut ffi::sqlite3,
    name: *const c_char,
    change: impl FnOnce() -> c_int,
) -> Result<c_int, c_int> {
    if name.is_null() {
        return Ok(change());
    }
    // SAFETY: the caller has promised it.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    // SAFETY: the caller has promised it.
    unsafe { change_function_named(db, &name, change) }
}

/// # Safety
/// `db` is null or open.
unsafe fn change_function_named(
    db: *mut ffi::sqlite3,
    name: &str,
    change: impl FnOnce() -> c_int,
) -> Result<c_int, c_int> {
    // SAFETY: the caller has promised it.
    match (unsafe { Handle::entered(db) }).filter(|it| !it.is_called_back()) {
        Some(handle) => handle.engine(|it| it.change_function(name, change)),
        None => Ok(change()),
    }
}

/// SQLite destroys what it is given, also when it fails; we do where it was not called.
///
/// # Safety
/// The destructor is for this data.
unsafe fn destroy_unless_given(
    changed: Result<c_int, c_int>,
    data: *mut c_void,
    destructor: Destructor,
) -> c_int {
    if changed.is_err()
        && let Some(destroy) = destructor
    {
        // SAFETY: the caller has promised it.
        unsafe { destroy(data) };
    }
    changed.unwrap_or_else(|code| code)
}
