//! What fuzz targets and tests do to the library from inside.

pub(crate) mod decisions;
pub mod bytes;
pub mod request;
