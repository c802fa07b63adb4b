//! A new queue file: complete but for the magic word, then complete; and more room for it.

use core::mem::{offset_of, size_of};
use core::ops::Range;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::identity::boot_id;
use crate::join::JoinOptions;
use crate::layout::{BLOCK_BYTES, FILE_BYTES, MAGIC, Member, Shared, Slot, layout};
use crate::room::Part;
use crate::ticket::Ticket;

/// How many slots, blocks and members' records have their room from the beginning, and where that stands. One slot for
/// each word of `used`: `claim_marked_free` takes these first. One page of records.
const FIRST: [(Part, usize, u64); 3] =
    [(Part::Slots, 32, 1024), (Part::Blocks, 0, 1032), (Part::Members, 64, 1040)];

/// Makes the file an empty queue, all but the magic word.
pub(super) fn build(file: &File, options: &JoinOptions) -> io::Result<()> {
    file.set_len(0)?;
    file.set_len(FILE_BYTES as u64)?;
    let is_sparse = reserve_first(file)?;
    let word = |at, value: u64| file.write_all_at(&value.to_ne_bytes(), at);
    let [boot_low, boot_high] = boot_id();
    word(8, layout())?;
    word(16, options.program)?;
    word(24, boot_low)?;
    word(32, boot_high)?;
    word(64, Ticket::FIRST.0)?;
    word(128, Ticket::FIRST.0)?;
    for (part, first, at) in FIRST {
        let ready = if is_sparse { first } else { part.count_max() };
        word(at, ready as u64)?;
    }
    Ok(())
}

/// Takes the room of the disk that a queue without contention needs. False when it has taken all: on a file system that
/// cannot do less.
fn reserve_first(file: &File) -> io::Result<bool> {
    let core = 0..offset_of!(Shared, members) as u64;
    match reserve(file, core) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            // A file system without fallocate: write the zeros.
            file.write_all_at(&vec![0; FILE_BYTES], 0)?;
            Ok(false)
        }
        Err(error) => Err(error),
        Ok(()) => {
            for (part, first, _) in FIRST.into_iter().filter(|(_, first, _)| *first > 0) {
                reserve(file, bytes_of(part, 0..first))?;
            }
            Ok(true)
        }
    }
}

/// Where these are in the file.
pub(super) fn bytes_of(part: Part, numbers: Range<usize>) -> Range<u64> {
    let (base, bytes) = match part {
        Part::Slots => (offset_of!(Shared, slots), size_of::<Slot>()),
        Part::Blocks => (offset_of!(Shared, blocks), BLOCK_BYTES),
        Part::Members => (offset_of!(Shared, members), size_of::<Member>()),
    };
    let at = |number: usize| (base + number * bytes) as u64;
    at(numbers.start)..at(numbers.end)
}

/// Takes the room of the disk for a part of the file; what is there stays.
pub(super) fn reserve(file: &File, bytes: Range<u64>) -> io::Result<()> {
    // A fuzzer makes hundreds of files each second, and in most of them all but a few pages stay zeros.
    if cfg!(fuzzing) {
        return Ok(());
    }
    let flags = rustix::fs::FallocateFlags::empty();
    Ok(rustix::fs::fallocate(file, flags, bytes.start, bytes.end - bytes.start)?)
}

pub(super) fn complete(file: &File) -> io::Result<()> {
    file.write_all_at(&MAGIC.to_ne_bytes(), 0)
}
