//! Statements without their literals.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A statement without its literals, so that texts that were made for one execution each are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(sql: &str) -> Fingerprint {
        let mut shape = Vec::with_capacity(sql.len());
        let mut bytes = sql.bytes().peekable();
        let mut in_name = false;
        while let Some(byte) = bytes.next() {
            if byte == b'\'' {
                // A doubled quote ends one text and begins another: the shape is the same for the same statement.
                bytes.by_ref().find(|&it| it == b'\'');
                shape.push(b'\'');
            } else if byte.is_ascii_digit() && !in_name {
                while bytes.next_if(|it| it.is_ascii_alphanumeric() || *it == b'.').is_some() {}
                shape.push(b'0');
            } else {
                shape.push(byte);
            }
            in_name = byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
        }
        Fingerprint(xxh3_64_with_seed(&shape, 0))
    }

    /// The key of this statement on a way.
    pub(crate) fn after(self, way: u64) -> u64 {
        xxh3_64_with_seed(&self.0.to_ne_bytes(), way)
    }

    /// The key of this statement on any way.
    pub(crate) fn alone(self) -> u64 {
        self.after(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_make_no_other_statement() {
        let same = |one: &str, other: &str| Fingerprint::of(one) == Fingerprint::of(other);
        assert!(same("SELECT a1 FROM t WHERE id = 5", "SELECT a1 FROM t WHERE id = 1234.5e6"));
        assert!(same("SELECT * FROM t WHERE name = 'x'", "SELECT * FROM t WHERE name = 'long'"));
        assert!(!same("SELECT a1 FROM t", "SELECT a2 FROM t"));
        assert!(!same("SELECT a FROM t1", "SELECT a FROM t2"));
        assert!(!same("SELECT a FROM t WHERE b = 1", "SELECT a FROM t WHERE c = 1"));
        assert!(same("SELECT 'never ended", "SELECT 'neither"));
    }
}
