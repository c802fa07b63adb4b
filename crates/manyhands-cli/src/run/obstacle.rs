//! What keeps the loader from preloading the library into a process.

use std::{fmt, fs, io, os::unix::fs::PermissionsExt, path::Path};

use super::{
    elf::Elf,
    library::{Library, PRELOAD},
};
use crate::process::Process;

/// The program gets the rights of its owner or its group, and the loader forgets what the user has said.
const SET_ID: u32 = 0o6000;
/// Rights that a file gives to any user; the kernel treats them like a change of user.
const CAPABILITIES: &str = "security.capability";

/// Why the library is not in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    NoProgram,
    Static,
    OtherKind,
    Musl,
    SpecialRights,
    CleanedEnvironment,
    Unknown,
}

impl Obstacle {
    /// What a program's file alone tells.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_program(program: &Path, library: &Library) -> io::Result<Option<Obstacle>> {
        let Some(elf) = Elf::read(program)? else { return Ok(Some(Obstacle::NoProgram)) };
        let gives_rights = fs::metadata(program)?.permissions().mode() & SET_ID != 0
            || rustix::fs::getxattr(program, CAPABILITIES, &mut [0; 64][..]).is_ok();
        // Root gains nothing by them.
        let has_special_rights = gives_rights && !rustix::process::geteuid().is_root();
        Ok(match elf.loader {
            None => Some(Obstacle::Static),
            Some(_) if elf.kind != library.elf.kind => Some(Obstacle::OtherKind),
            Some(loader) if loader.to_string_lossy().contains("musl") => Some(Obstacle::Musl),
            Some(_) if has_special_rights => Some(Obstacle::SpecialRights),
            Some(_) => None,
        })
    }

    /// Why a process that runs has not got the library.
    pub fn of_process(process: Process, library: &Library) -> Obstacle {
        match Self::of_program(&process.program_file(), library) {
            Ok(None) => {}
            Ok(Some(obstacle)) => return obstacle,
            Err(_) => return Obstacle::Unknown,
        }
        match process.variable(PRELOAD) {
            Ok(Some(value)) if library.is_in(&value) => Obstacle::Unknown,
            Ok(_) => Obstacle::CleanedEnvironment,
            Err(_) => Obstacle::SpecialRights,
        }
    }

    /// The way out, where it is not the driver's.
    pub fn way_out(&self) -> Option<&'static str> {
        match self {
            Obstacle::SpecialRights => {
                Some("start it the other way round: sudo manyhands run -- PROGRAM")
            }
            Obstacle::CleanedEnvironment => Some(
                "let whatever starts it pass LD_PRELOAD and MANYHANDS_* on, or start it with its own `manyhands run --`",
            ),
            Obstacle::Musl => Some("a program for glibc, or a library that was built with musl"),
            _ => None,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Obstacle::NoProgram => "it is no ELF program",
            Obstacle::Static => "it is statically linked: no loader reads LD_PRELOAD",
            Obstacle::OtherKind => "it is for another kind of processor than the library",
            Obstacle::Musl => "its C library is musl, and the library needs glibc",
            Obstacle::SpecialRights => "it has special rights (setuid, capabilities, another user): the loader ignores LD_PRELOAD",
            Obstacle::CleanedEnvironment => "whatever started it has taken LD_PRELOAD out of its environment",
            Obstacle::Unknown => "the loader has not loaded the library; its message is `object ... cannot be preloaded`",
        })
    }
}
