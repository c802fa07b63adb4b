//! Memory that SQLite shows for a moment, copied and written so that two runs can be compared.
//!
//! What always holds: the pointers came from the library in the call before, so that the memory is still valid.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};

/// A text that ends with a nul, or the word NULL.
pub fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "NULL".into();
    }
    // SAFETY: SQLite's texts end with a nul, and this one is valid until the next call.
    let text = unsafe { CStr::from_ptr(pointer) };
    written(text.to_bytes())
}

/// `length` bytes, or the word NULL.
pub fn bytes(pointer: *const c_void, length: c_int) -> String {
    if pointer.is_null() {
        return format!("NULL of {length} bytes");
    }
    written(copied(pointer, length))
}

/// `length` bytes of UTF-16 in one order of bytes.
pub fn bytes16(pointer: *const c_void, length: c_int, unit: fn([u8; 2]) -> u16) -> String {
    if pointer.is_null() {
        return format!("NULL of {length} bytes");
    }
    let bytes = copied(pointer, length);
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    match String::from_utf16(&units) {
        Ok(text) if bytes.len() % 2 == 0 => written(text.as_bytes()),
        _ => format!("no UTF-16: {}", hexadecimal(bytes)),
    }
}

/// The bytes themselves.
pub fn copied<'a>(pointer: *const c_void, length: c_int) -> &'a [u8] {
    let Ok(length) = usize::try_from(length) else { return &[] };
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: SQLite has said that so many bytes stand there, and they are valid until the next call.
    unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) }
}

/// A UTF-16 text that ends with two nul bytes, or the word NULL.
pub fn text16(pointer: *const c_void) -> String {
    if pointer.is_null() {
        return "NULL".into();
    }
    let mut length = 0;
    while unit(pointer, length) != 0 {
        length += 1;
    }
    let units: Vec<u16> = (0..length).map(|index| unit(pointer, index)).collect();
    written(String::from_utf16_lossy(&units).as_bytes())
}

fn unit(pointer: *const c_void, index: usize) -> u16 {
    let place = pointer.cast::<u16>().wrapping_add(index);
    // SAFETY: the text ends with a zero unit, and nobody reads beyond it.
    unsafe { place.read_unaligned() }
}

/// A text as UTF-16 with its two nul bytes.
pub fn utf16(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// A text for a C call; the part before a nul, where it has one.
pub fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).expect("the part before the first nul has none")
}

fn written(bytes: &[u8]) -> String {
    // Long values are told by their length and a checksum: a report has to stay readable.
    if bytes.len() > 400 {
        return format!("{} bytes with checksum {:x}", bytes.len(), checksum(bytes));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => format!("{text:?}"),
        Err(_) => hexadecimal(bytes),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

/// FNV-1a.
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The two bytes of a database's header that say how it is written and read.
pub fn header<'a>(database: *mut c_uchar) -> Option<&'a mut [u8; 2]> {
    let place = database.wrapping_add(18).cast::<[u8; 2]>();
    // SAFETY: a serialized database has a header of 100 bytes, and belongs to its caller.
    unsafe { place.as_mut() }
}
