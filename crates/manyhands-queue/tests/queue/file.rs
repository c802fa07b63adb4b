//! The file in the state in which others left it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use manyhands_queue::{JoinError, JoinOptions, Kind, Queue};

use crate::child::{Process, tell};
use crate::echo::{publish, reversed, submit};
use crate::place::{Place, join, options};

/// What a crash, a restore or a stray `cp` may leave behind is no reason to fail: nothing in the file
/// outlives its members.
#[test]
fn whatever_no_member_holds_is_built_anew() {
    let place = Place::new();
    let queue = place.join();
    let waiting = publish(&queue, Kind::Request, b"litter");
    let image = std::fs::read(place.path()).unwrap();
    drop(waiting);
    drop(queue);
    let patched = |at: usize, bytes: &[u8]| {
        let mut patched = image.clone();
        patched[at..at + bytes.len()].copy_from_slice(bytes);
        patched
    };
    let litter = [
        ("empty", Vec::new()),
        ("cut", image[..5000].to_vec()),
        ("garbage", vec![0xA5; image.len()]),
        ("too long", [image.as_slice(), &[1; 10_000]].concat()),
        ("half built", patched(0, &[0; 8])),
        ("another layout", patched(8, &99u64.to_ne_bytes())),
        ("another program", patched(16, &99u64.to_ne_bytes())),
        ("another boot", patched(24, &[7; 16])),
        ("retired", patched(40, &[1])),
        ("sound, with a request in it", image.clone()),
    ];
    for (name, bytes) in litter {
        std::fs::write(place.path(), &bytes).unwrap();
        let queue = join(&place.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(queue.is_sound() && queue.is_idle(), "{name}");
        assert_eq!(std::fs::metadata(place.path()).unwrap().len(), image.len() as u64, "{name}");
        assert_eq!(submit(&queue, b"abc"), reversed(b"abc"), "{name}");
        drop(queue);
        assert!(!place.path().exists(), "{name}");
    }
}

/// Two builds that draw the file differently must not meet in it.
#[test]
fn another_version_is_refused_while_a_member_lives() {
    let place = Place::new();
    let queue = place.join();
    let mut other = options();
    other.program = 3_060_000;
    let refused = Queue::join(&place.path(), &other, || Ok::<(), ()>(())).unwrap_err();
    assert!(matches!(refused, JoinError::OtherVersion { program: 3_054_001, .. }), "{refused:?}");
    place.overwrite(8, &99u64.to_ne_bytes());
    let refused = place.refusal();
    assert!(matches!(refused, JoinError::OtherVersion { layout: 99, .. }), "{refused:?}");
    assert!(refused.to_string().contains("another version"), "{refused}");
    assert!(!queue.is_sound(), "the member notices too");
}

/// Somebody deletes the file while it is in use: the member sees it, and meets the others in a new
/// one.
#[test]
fn a_deleted_file_is_left_for_a_new_one() {
    let place = Place::new();
    let old = place.join();
    assert!(old.is_in_place());
    std::fs::remove_file(place.path()).unwrap();
    assert!(!old.is_in_place() && old.is_sound());
    old.retire();
    assert!(!old.is_sound());
    let new = place.join();
    assert!(!new.has_other_members() && new.is_in_place());
    drop(old);
    assert!(new.is_in_place(), "who leaves the old file does not remove the new one");
}

/// A live file is overwritten, is of another boot, or is retired: who comes now gets a new file, and
/// the members notice that theirs is not the one at the path.
#[test]
fn a_damaged_live_file_is_replaced() {
    for (at, bytes) in [(0, vec![0x5A; 4096]), (24, vec![9; 16]), (40, vec![1])] {
        let place = Place::new();
        let old = place.join();
        let inode = place.inode();
        place.overwrite(at, &bytes);
        let new = place.join();
        assert_ne!(place.inode(), inode, "byte {at}");
        assert!(!old.is_in_place() && new.is_in_place() && new.is_sound(), "byte {at}");
        assert_eq!(submit(&new, b"abc"), reversed(b"abc"));
        drop(old);
        assert!(new.is_in_place(), "byte {at}");
    }
}

/// In a container that hides the boot id a member knows none: it is no other boot, and all share the file.
#[test]
fn a_boot_that_is_not_known_is_no_other_boot() {
    let place = Place::new();
    let of_container = place.join();
    let inode = place.inode();
    place.overwrite(24, &[0; 16]);
    let queue = place.join();
    assert_eq!(place.inode(), inode);
    assert!(queue.has_other_members() && of_container.is_in_place());
    assert_eq!(submit(&queue, b"abc"), reversed(b"abc"));
}

/// Whoever can write the queue file can write the database. So the file must be as protected as the
/// database is.
#[test]
fn a_file_that_others_could_write_is_refused() {
    let check = |prepare: &dyn Fn(&Path), reason: &str| {
        let place = Place::new();
        prepare(&place.path());
        let refused = place.refusal().to_string();
        assert!(refused.contains(reason), "{refused}");
        assert!(place.path().symlink_metadata().is_ok(), "what is not ours is not removed");
    };
    let make = |path: &Path, mode| {
        std::fs::write(path, b"").unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    check(
        &|path| {
            make(path, 0o644);
            std::fs::hard_link(path, path.with_extension("twin")).unwrap();
        },
        "hard links",
    );
    check(
        &|path| {
            make(&path.with_extension("target"), 0o644);
            symlink(path.with_extension("target"), path).unwrap();
        },
        "cannot open",
    );
    check(&|path| symlink("/nowhere", path).unwrap(), "cannot open");
    check(&|path| std::fs::create_dir(path).unwrap(), "cannot open");

    // The database's owner is another one, and its group, too, or not.
    for (mode, other_group, accepted) in
        [(0o644, false, false), (0o664, false, true), (0o664, true, false), (0o646, true, true)]
    {
        let place = Place::new();
        make(&place.path(), 0o644);
        let mut other = options();
        (other.mode, other.owner) = (mode, other.owner + 1);
        other.group += u32::from(other_group);
        let joined = Queue::join(&place.path(), &other, || Ok::<(), String>(()));
        assert_eq!(joined.is_ok(), accepted, "{mode:o} {other_group}");
        if let Err(refused) = joined {
            assert!(refused.to_string().contains("may not write the database"), "{refused}");
        }
    }
}

/// `chmod` of a database that is open, or whose last process was killed: nobody could open it any more, since the queue
/// file's permissions were wider. Who owns that gives it those that it should have.
#[test]
fn a_file_of_ours_gets_other_permissions() {
    for mode in [0o666, 0o645, 0o600] {
        for is_live in [false, true] {
            let place = Place::new();
            let member = is_live.then(|| place.join());
            if !is_live {
                std::fs::write(place.path(), b"left behind").unwrap();
            }
            std::fs::set_permissions(place.path(), PermissionsExt::from_mode(mode)).unwrap();
            let inode = place.inode();
            let queue = place.join();
            let found = std::fs::metadata(place.path()).unwrap().permissions().mode() & 0o777;
            assert_eq!((found, place.inode()), (0o644, inode), "{mode:o}");
            assert_eq!(submit(&queue, b"abc"), reversed(b"abc"));
            assert_eq!(queue.has_other_members(), is_live);
            drop(member);
        }
    }
}

/// The others may neither write nor read: what waits there are the values of those who may.
#[test]
fn the_file_is_for_those_who_may_write_the_database() {
    let modes = [(0o644, 0o600), (0o664, 0o660), (0o666, 0o666), (0o600, 0o600), (0o444, 0)];
    for (database, expected) in modes {
        assert_eq!(JoinOptions::mode_of_writers(0o100_000 | database), expected, "{database:o}");
    }
}

/// The umask must not take from the file what the database has: other users of its group would be
/// shut out.
#[test]
fn a_new_file_has_the_mode_asked_for() {
    let place = Place::new();
    let mut wide = options();
    wide.mode = 0o666;
    let _queue = Queue::join(&place.path(), &wide, || Ok::<(), ()>(())).unwrap();
    assert_eq!(std::fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o666);
}

pub fn nobody(path: &Path) {
    if rustix::process::geteuid().is_root() {
        // Root may write where the permission bits say no.
        // SAFETY: no arguments that point anywhere.
        let refused = unsafe { libc::setuid(65534) };
        assert_eq!(refused, 0);
    }
    match join(path) {
        Ok(_) => tell("joined"),
        Err(error @ JoinError::System { .. }) => tell(&error.to_string()),
        Err(error) => panic!("{error:?}"),
    }
}

/// A directory in which nothing can be created: the error says what, where and why.
#[test]
fn a_read_only_directory_is_a_clear_error() {
    let place = Place::new();
    let directory = place.directory.path();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o555)).unwrap();
    let process = Process::start("nobody", &place.path());
    let said = process.hear();
    process.wait_ok();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(said.starts_with("cannot open the queue file"), "{said}");
    assert!(said.contains("test.db-hands") && said.contains("Permission denied"), "{said}");
}
