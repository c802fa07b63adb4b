//! What an ELF file says to the loader: which one it wants, which libraries it needs.

use std::{ffi::OsString, fs::File, io, os::unix::ffi::OsStringExt, path::Path};

use object::{
    Endianness, FileKind, ReadCache, ReadRef,
    elf::{
        DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, DynamicTag, FileHeader32,
        FileHeader64,
    },
    read::elf::{Dyn, FileHeader, ProgramHeader},
};

/// A program or a library, as the loader sees it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// Word size and machine: a library of another kind cannot be preloaded.
    pub kind: Kind,
    /// The dynamic loader. A program without one is started by the kernel alone, and nobody reads LD_PRELOAD.
    pub loader: Option<OsString>,
    pub name: Option<OsString>,
    pub needed: Vec<OsString>,
    /// RUNPATH, or RPATH of older files, not yet expanded.
    pub search: Option<OsString>,
}

/// What two files must share to be loaded into one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    is_64: bool,
    machine: u16,
}

impl Elf {
    /// `None` for a file of another kind.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> io::Result<Option<Elf>> {
        let cache = ReadCache::new(File::open(path)?);
        Ok(match FileKind::parse(&cache) {
            Ok(FileKind::Elf64) => parse::<FileHeader64<Endianness>, _>(&cache),
            Ok(FileKind::Elf32) => parse::<FileHeader32<Endianness>, _>(&cache),
            _ => None,
        })
    }
}

/// A damaged file is no ELF file: the kernel would not start it either.
fn parse<'data, Header, Data>(data: Data) -> Option<Elf>
where
    Header: FileHeader<Endian = Endianness>,
    Data: ReadRef<'data>,
{
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut elf = Elf {
        kind: Kind { is_64: header.is_class_64(), machine: header.e_machine(endian).0 },
        ..Elf::default()
    };
    for segment in segments {
        if let Some(loader) = segment.interpreter(endian, data).ok()? {
            elf.loader = Some(OsString::from_vec(loader.to_vec()));
        }
    }
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(endian, data).ok()?);
    let entries: Vec<(DynamicTag, u64)> = dynamic
        .unwrap_or_default()
        .iter()
        .map(|entry| (entry.d_tag(endian), entry.d_val(endian).into()))
        .collect();
    let value = |wanted: DynamicTag| {
        entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value)
    };
    let strings = value(DT_STRTAB).zip(value(DT_STRSZ)).and_then(|(address, bytes)| {
        let mut parts = segments.iter();
        parts.find_map(|segment| segment.data_range(endian, data, address, bytes).ok()?)
    });
    let text = |offset: u64| {
        let from = strings?.get(usize::try_from(offset).ok()?..)?;
        let text = from.split(|byte| *byte == 0).next()?;
        Some(OsString::from_vec(text.to_vec()))
    };
    elf.name = value(DT_SONAME).and_then(text);
    elf.search = value(DT_RUNPATH).or(value(DT_RPATH)).and_then(text);
    let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
    elf.needed = needed.filter_map(|(_, offset)| text(*offset)).collect();
    Some(elf)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own program says what `ldd` says; a script and a directory say nothing.
    #[test]
    fn what_a_program_says() {
        let own = std::env::current_exe().expect("a test is a file");
        let elf = Elf::read(&own).expect("readable").expect("an ELF file");
        assert!(elf.loader.is_some_and(|loader| loader.to_string_lossy().contains("ld")));
        assert!(elf.needed.iter().any(|name| name == "libc.so.6"), "{:?}", elf.needed);
        assert_eq!(Elf::read(Path::new("Cargo.toml")).expect("readable"), None);
        assert!(Elf::read(Path::new("/")).is_ok_and(|elf| elf.is_none()));
    }
}
