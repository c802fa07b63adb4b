//! Values: from SQLite to Ruby, and back.

use core::slice;

use magnus::encoding::{EncodingCapable, Index};
use magnus::rb_sys::AsRawValue;
use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, IntoValue, Module, RClass, RModule, RString, Ruby, Value};

/// A value that SQLite has, in the memory of its own.
pub(crate) enum Stored<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

impl Stored<'_> {
    pub(crate) fn to_ruby(&self, ruby: &Ruby) -> Value {
        match *self {
            Stored::Null => ruby.qnil().as_value(),
            Stored::Integer(number) => ruby.integer_from_i64(number).as_value(),
            Stored::Real(number) => ruby.float_from_f64(number).as_value(),
            Stored::Text(text) => {
                let text = ruby.enc_str_new(text, ruby.utf8_encindex());
                text.freeze();
                text.as_value()
            }
            Stored::Blob(bytes) => {
                let bytes = ruby.enc_str_new(bytes, ruby.ascii8bit_encindex());
                bytes.freeze();
                bytes.as_value()
            }
        }
    }
}

/// The bytes that SQLite has there; none where it has no address to tell.
///
/// # Safety
/// So many bytes are there, and stay as they are for `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const u8, count: i32) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: the caller has promised it.
    unsafe { slice::from_raw_parts(start, usize::try_from(count).unwrap_or(0)) }
}

/// What Ruby gives SQLite.
pub(crate) enum Given {
    Null,
    Integer(i64),
    Real(f64),
    /// In UTF-8.
    Text(RString),
    /// In UTF-16 of the machine's order.
    Text16(RString),
    Blob(RString),
}

impl Given {
    /// `None` for an object of another class.
    ///
    /// # Errors
    /// A text that cannot be made UTF-8.
    pub(crate) fn of(ruby: &Ruby, value: Value) -> Result<Option<Given>, Error> {
        if value.is_nil() {
            return Ok(Some(Given::Null));
        }
        if let Some(number) = Integer::from_value(value) {
            // As SQLite's own text to number does with what is too large.
            return Ok(Some(match number.to_i64() {
                Ok(number) => Given::Integer(number),
                Err(_) => Given::Real(value.funcall("to_f", ())?),
            }));
        }
        if let Some(number) = Float::from_value(value) {
            return Ok(Some(Given::Real(number.to_f64())));
        }
        match RString::from_value(value) {
            Some(text) => Given::of_text(ruby, text).map(Some),
            None => Ok(None),
        }
    }

    fn of_text(ruby: &Ruby, text: RString) -> Result<Given, Error> {
        let encoding = text.enc_get();
        if encoding == ruby.ascii8bit_encindex() || is_blob(ruby, text)? {
            return Ok(Given::Blob(text));
        }
        if encoding == ruby.utf8_encindex() || encoding == ruby.usascii_encindex() {
            return Ok(Given::Text(text));
        }
        let native = if cfg!(target_endian = "little") { "UTF-16LE" } else { "UTF-16BE" };
        if is_utf16(ruby, encoding) {
            return Ok(Given::Text16(text.funcall("encode", (native,))?));
        }
        Ok(Given::Text(text.funcall("encode", ("UTF-8",))?))
    }
}

fn is_utf16(ruby: &Ruby, encoding: Index) -> bool {
    ["UTF-16LE", "UTF-16BE"]
        .iter()
        .any(|name| ruby.find_encindex(name).is_ok_and(|it| it == encoding))
}

/// Whether it is of the class whose texts are bytes whatever their encoding.
fn is_blob(ruby: &Ruby, text: RString) -> Result<bool, Error> {
    let class = text.class();
    if class.as_raw() == ruby.class_string().as_raw() {
        return Ok(false);
    }
    let module: RModule = ruby.class_object().const_get("Manyhands")?;
    let blob: RClass = module.const_get("Blob")?;
    Ok(class.as_raw() == blob.as_raw())
}

/// The bytes of a text of Ruby's.
pub(crate) fn copy(text: RString) -> Vec<u8> {
    // SAFETY: they are copied before anything of Ruby's runs.
    unsafe { text.as_slice() }.to_vec()
}

/// A text of Ruby's as bytes with a zero at the end.
///
/// # Errors
/// A text with a zero in it.
pub(crate) fn c_text(text: RString) -> Result<std::ffi::CString, Error> {
    let ruby = Ruby::get_with(text);
    std::ffi::CString::new(copy(text))
        .map_err(|_| Error::new(ruby.exception_arg_error(), "string contains null byte"))
}

/// A frozen text of SQLite's own, of which Ruby has one object each; nil for null.
///
/// # Safety
/// A zero-terminated text, or null.
pub(crate) unsafe fn name(ruby: &Ruby, text: *const core::ffi::c_char) -> Value {
    if text.is_null() {
        return ruby.qnil().as_value();
    }
    // SAFETY: the caller has promised it.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    ruby.enc_str_new(text.to_bytes(), ruby.utf8_encindex()).to_interned_str().as_value()
}

/// A text of SQLite's; nil for null.
///
/// # Safety
/// A zero-terminated text, or null.
pub(crate) unsafe fn text(ruby: &Ruby, text: *const core::ffi::c_char) -> Value {
    if text.is_null() {
        return ruby.qnil().as_value();
    }
    // SAFETY: the caller has promised it.
    let text = unsafe { core::ffi::CStr::from_ptr(text) };
    ruby.enc_str_new(text.to_bytes(), ruby.utf8_encindex()).into_value_with(ruby)
}

/// Where the bytes of a text of Ruby's are. They stay there as long as nothing of Ruby's runs.
pub(crate) fn start(text: RString) -> *const u8 {
    // SAFETY: only the address is taken; who reads there does so at once.
    unsafe { text.as_slice() }.as_ptr()
}
