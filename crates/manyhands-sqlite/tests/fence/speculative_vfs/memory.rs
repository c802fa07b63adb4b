//! The system gives no memory for a mapping: errors, and never a wrong answer.

use manyhands_sqlite::{CheckpointMode, Promotion};

use super::{Stage, n, text};
use crate::own_process::tell;
use crate::sqlite_copy::other_process;

/// While it lives the process may make no new mapping: it has as many as the system allows
/// (vm.max_map_count).
struct NoMoreMappings {
    mapped: Vec<(*mut libc::c_void, usize)>,
}

fn map(bytes: usize, protection: libc::c_int) -> Option<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: asks for new memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (address != libc::MAP_FAILED).then_some(address)
}

impl NoMoreMappings {
    fn new() -> NoMoreMappings {
        const PAGES: usize = 1 << 20;
        let page = rustix::param::page_size();
        let address = map(PAGES * page, libc::PROT_NONE).expect("address space");
        let mut mapped = Vec::with_capacity(16);
        mapped.push((address, PAGES * page));
        // Each second page becomes a mapping of its own.
        let full = (0..PAGES).step_by(2).any(|index| {
            // SAFETY: inside the memory above.
            let page = unsafe { address.byte_add(index * page) };
            // SAFETY: nobody uses it.
            unsafe { libc::mprotect(page, 1, libc::PROT_READ) != 0 }
        });
        assert!(full, "this system allows more than {PAGES} mappings");
        // That would have been two more at once; one more there may be.
        for protection in [libc::PROT_READ, libc::PROT_NONE].into_iter().cycle().take(8) {
            let Some(address) = map(page, protection) else { break };
            mapped.push((address, page));
        }
        NoMoreMappings { mapped }
    }
}

impl Drop for NoMoreMappings {
    fn drop(&mut self) {
        for (address, bytes) in self.mapped.drain(..) {
            // SAFETY: mapped by `new`, and used by nobody.
            assert_eq!(unsafe { libc::munmap(address, bytes) }, 0);
        }
    }
}

/// A speculative transaction cannot begin: its statement fails, and the connection works on.
#[test]
fn no_memory_for_a_private_page() {
    tell("speculative_vfs::memory::no_memory_for_a_private_page", || {
        let stage = Stage::new();
        let speculative = stage.connect();
        speculative.arm_speculation(true);
        speculative.execute("BEGIN; SELECT n FROM t").expect("a snapshot");
        let full = NoMoreMappings::new();
        let refused =
            speculative.execute("UPDATE t SET n = 10 WHERE id = 1").expect_err("no memory");
        assert_eq!(refused.code.primary(), libsqlite3_sys::SQLITE_NOMEM, "{refused}");
        assert!(!speculative.speculation_status().speculating);
        drop(full);
        assert!(speculative.is_autocommit(), "SQLite rolls back when it has no memory");
        speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
        assert_eq!(speculative.promote(), Promotion::Promoted);
        speculative.execute("COMMIT").expect("commits");
        assert_eq!(n(&stage.connect(), 1), 10);
    });
}

/// The shared page cannot be given back after a speculative transaction. With the private one the connection can read and write,
/// and see what is newest; what needs the shared one itself fails; others are not disturbed; when there is
/// memory again it works on.
#[test]
fn no_memory_for_the_shared_page_after_a_rollback() {
    tell("speculative_vfs::memory::no_memory_for_the_shared_page_after_a_rollback", || {
        let stage = Stage::new();
        let (speculative, other) = (stage.speculating(10), stage.connect());
        other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("commits");
        let full = NoMoreMappings::new();
        speculative.execute("ROLLBACK").expect("rolls back");
        speculative.arm_speculation(false);
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (0, 5));
        let checkpoint = speculative.execute("PRAGMA wal_checkpoint(TRUNCATE)");
        let refused = checkpoint.expect_err("no shared page");
        assert_eq!(refused.code.0, libsqlite3_sys::SQLITE_IOERR_SHMLOCK, "{refused}");
        assert!(!speculative.speculation_status().speculating);
        speculative.execute("UPDATE t SET n = 3 WHERE id = 1").expect("writes");
        assert_eq!((n(&other, 1), n(&other, 2)), (3, 5));
        other.execute("UPDATE t SET n = 6 WHERE id = 2").expect("commits");
        let done = other.checkpoint(CheckpointMode::Truncate).expect("no lock is left behind");
        assert_eq!(done.frames, 0);
        drop(full);
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (3, 6));
        speculative.execute("UPDATE t SET n = 0 WHERE id = 1").expect("writes");
        speculative.arm_speculation(true);
        speculative.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("speculates again");
        assert_eq!(speculative.promote(), Promotion::Promoted);
        speculative.execute("COMMIT").expect("commits");
        assert_eq!((n(&other, 1), n(&other, 2)), (10, 6));
        assert_eq!(text(&other, "PRAGMA integrity_check"), "ok");
    });
}

/// The shared page cannot be given back for a promotion: the commit is written to the private one, and
/// copied from there for all others.
#[test]
fn no_memory_for_the_shared_page_at_a_promotion() {
    tell("speculative_vfs::memory::no_memory_for_the_shared_page_at_a_promotion", || {
        let stage = Stage::new();
        let (speculative, other) = (stage.speculating(10), stage.connect());
        assert_eq!(n(&other, 1), 0);
        let full = NoMoreMappings::new();
        assert_eq!(speculative.promote(), Promotion::Promoted);
        let refused = other.execute("UPDATE t SET n = 5 WHERE id = 2").expect_err("a real lock");
        assert!(refused.code.is_busy(), "{refused}");
        assert_eq!(n(&other, 1), 0);
        speculative.execute("COMMIT").expect("commits");
        assert_eq!(n(&other, 1), 10);
        other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("the lock was given back");
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (10, 5));
        drop(full);
        let seen = other_process(&stage.path, "pragma integrity_check; select n from t");
        assert_eq!(seen.expect("another process reads"), ["ok", "10", "5"]);
    });
}

/// No view at all: the connection cannot fork, and takes the real lock.
#[test]
fn no_memory_for_a_view() {
    tell("speculative_vfs::memory::no_memory_for_a_view", || {
        let stage = Stage::new();
        // It has the first region mapped for the process; the next connection adds only a view.
        let other = stage.connect();
        assert_eq!(n(&other, 1), 0);
        let armed = stage.connect_without_reading();
        armed.arm_speculation(true);
        let full = NoMoreMappings::new();
        armed.execute("BEGIN; UPDATE t SET n = 10 WHERE id = 1").expect("writes");
        let status = armed.speculation_status();
        assert!(!status.speculating && status.live.is_none(), "{status:?}");
        drop(full);
        let refused = other.execute("UPDATE t SET n = 5 WHERE id = 2").expect_err("a real lock");
        assert!(refused.code.is_busy(), "{refused}");
        assert_eq!(armed.promote(), Promotion::Stale, "there is nothing to promote");
        armed.execute("COMMIT").expect("commits");
        assert_eq!(n(&other, 1), 10);
    });
}

/// The address space is used up (`ulimit -v`): the kernel refuses before it takes the old page away,
/// else the next look at the wal-index would be a crash.
#[test]
fn no_address_space_for_the_shared_page() {
    tell("speculative_vfs::memory::no_address_space_for_the_shared_page", || {
        let stage = Stage::new();
        let (speculative, other) = (stage.speculating(10), stage.connect());
        other.execute("UPDATE t SET n = 5 WHERE id = 2").expect("commits");
        let mut rollback = speculative.prepare_one("ROLLBACK").expect("compiles");
        let limit = |bytes: libc::rlim_t| {
            let limits = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: limits of this process, which is the story's own.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limits) }, 0);
        };
        limit(1);
        rollback.step().expect("rolls back");
        let promoted = speculative.promote();
        let status = speculative.speculation_status();
        limit(libc::RLIM_INFINITY);
        assert_eq!(promoted, Promotion::Stale);
        assert!(!status.speculating && status.live.is_some(), "{status:?}");
        assert_eq!((n(&speculative, 1), n(&speculative, 2)), (0, 5));
        assert_eq!(text(&other, "PRAGMA integrity_check"), "ok");
    });
}
