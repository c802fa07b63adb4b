//! A frame of the -wal file: a header, and a page (<https://sqlite.org/fileformat2.html#the_write_ahead_log>, 4.1).

/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = 24;

/// True for the header of a commit frame: it carries a database size.
pub(super) fn is_commit(header: &[u8; FRAME_HEADER_BYTES]) -> bool {
    header[4..8] != [0; 4]
}

/// False for a header that SQLite is going to write again. Where a transaction has overwritten frames of its own, which
/// it does when the page cache is full, SQLite writes the headers behind them twice: without salt and checksum, and once
/// more when all pages are there.
pub(super) fn is_final(header: &[u8; FRAME_HEADER_BYTES]) -> bool {
    header[8..] != [0; 16]
}
