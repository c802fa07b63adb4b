//! A new queue file: complete but for the magic word, then complete; and more room for it.

use core::mem::{offset_of, size_of};
use core::ops::Range;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::identity::boot_id;
use crate::join::JoinOptions;
use crate::layout::{
    BLOCK_BYTES, CountWords, FILE_BYTES, MAGIC, MEMBERS, Member, Shared, Slot, layout,
};
use crate::room::Part;
use crate::ticket::Ticket;

/// So many zeros are written with one system call.
const ZEROS_AT_ONCE: usize = 32 << 10;

/// How many slots, blocks and members' records have their room from the beginning, and where that stands. One slot for
/// each word of `used`: `claim_marked_free` takes these first. One page of records.
const FIRST: [(Part, usize, u64); 3] =
    [(Part::Slots, 32, 1024), (Part::Blocks, 0, 1032), (Part::Members, 64, 1040)];

/// Makes the file an empty queue, all but the magic word.
pub(super) fn build(file: &File, options: &JoinOptions) -> io::Result<()> {
    // Only what is there is cut: of a file that was cut to nothing ext4 writes all to the disk when it is closed.
    if file.metadata()?.len() != 0 {
        file.set_len(0)?;
    }
    file.set_len(FILE_BYTES as u64)?;
    write_zeros(file, 0..offset_of!(Shared, members) as u64)?;
    let word = |at, value: u64| file.write_all_at(&value.to_ne_bytes(), at);
    let [boot_low, boot_high] = boot_id();
    word(8, layout())?;
    word(16, options.program)?;
    word(24, boot_low)?;
    word(32, boot_high)?;
    word(64, Ticket::FIRST.0)?;
    word(128, Ticket::FIRST.0)?;
    for (part, first, at) in FIRST {
        write_zeros_of(file, part, 0..first)?;
        word(at, first as u64)?;
    }
    Ok(())
}

/// Takes the room of the disk for these.
pub(super) fn write_zeros_of(file: &File, part: Part, numbers: Range<usize>) -> io::Result<()> {
    if part == Part::Members {
        // Two have one line: the second half of them has its room with the first.
        let line = |number: usize| number.min(MEMBERS / 2) * 2 * size_of::<CountWords>();
        let at = |number| (offset_of!(Shared, counts) + line(number)) as u64;
        write_zeros(file, at(numbers.start)..at(numbers.end))?;
    }
    write_zeros(file, bytes_of(part, numbers))
}

/// Where these are in the file.
fn bytes_of(part: Part, numbers: Range<usize>) -> Range<u64> {
    let (base, bytes) = match part {
        Part::Slots => (offset_of!(Shared, slots), size_of::<Slot>()),
        Part::Blocks => (offset_of!(Shared, blocks), BLOCK_BYTES),
        Part::Members => (offset_of!(Shared, members), size_of::<Member>()),
    };
    let at = |number: usize| (base + number * bytes) as u64;
    at(numbers.start)..at(numbers.end)
}

/// Takes the room of the disk for a part of the file.
fn write_zeros(file: &File, bytes: Range<u64>) -> io::Result<()> {
    // A fuzzer makes hundreds of files each second, and in most of them all but a few pages stay zeros.
    if cfg!(fuzzing) {
        return Ok(());
    }
    let zeros = [0; ZEROS_AT_ONCE];
    let mut at = bytes.start;
    while at < bytes.end {
        let count = (bytes.end - at).min(ZEROS_AT_ONCE as u64);
        file.write_all_at(&zeros[..count as usize], at)?;
        at += count;
    }
    Ok(())
}

pub(super) fn complete(file: &File) -> io::Result<()> {
    file.write_all_at(&MAGIC.to_ne_bytes(), 0)
}
