//! What fuzz targets and tests do to the library from inside.

pub(crate) mod decisions;
pub mod foreign_bytes;
pub mod foreign_request;
