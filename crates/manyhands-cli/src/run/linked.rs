//! The libraries that the loader will load with a program, found as it finds them (ld.so(8)).

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use super::elf::{Elf, Kind};

const CACHE: &str = "/etc/ld.so.cache";
/// The start of the cache's newer part, and what its header and each entry take: ldconfig's struct cache_file_new.
const CACHE_START: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEADER_BYTES: usize = 48;
const CACHE_ENTRY_BYTES: usize = 24;
const DEFAULTS: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// A library of a program: the name that was asked for, and where it is, if it was found.
#[derive(Debug, PartialEq, Eq)]
pub struct Linked {
    pub name: OsString,
    pub path: Option<PathBuf>,
}

/// All libraries that come with a program or library, those of its libraries included, each once.
///
/// # Errors
/// The file cannot be read.
pub fn linked(program: &Path) -> io::Result<Vec<Linked>> {
    let cache = cache_of(&fs::read(CACHE).unwrap_or_default());
    let mut found: Vec<Linked> = Vec::new();
    let mut names = HashSet::new();
    let mut open = vec![(program.to_owned(), Elf::read(program)?)];
    while let Some((file, elf)) = open.pop() {
        let Some(elf) = elf else { continue };
        for name in &elf.needed {
            if !names.insert(name.clone()) {
                continue;
            }
            let path = find(name, &file, &elf, &cache);
            if let Some(path) = &path {
                open.push((path.clone(), Elf::read(path)?));
            }
            found.push(Linked { name: name.clone(), path });
        }
    }
    Ok(found)
}

fn find(
    name: &OsStr,
    file: &Path,
    elf: &Elf,
    cache: &HashMap<OsString, Vec<PathBuf>>,
) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let own = elf.search.iter().flat_map(|search| search_of(search, file));
    let users = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let users: Vec<_> = std::env::split_paths(&users).collect();
    let before = own.chain(users).map(|folder| folder.join(name));
    let cached = cache.get(name).into_iter().flatten().cloned();
    let defaults = DEFAULTS.iter().map(|folder| Path::new(folder).join(name));
    before.chain(cached).chain(defaults).find(|path| is_of_kind(path, elf.kind))
}

/// Folders for other processors are passed over, as the loader does.
fn is_of_kind(path: &Path, kind: Kind) -> bool {
    path.is_file() && Elf::read(path).is_ok_and(|elf| elf.is_some_and(|elf| elf.kind == kind))
}

/// `$ORIGIN` is the folder of the file that asks.
fn search_of(search: &OsStr, file: &Path) -> Vec<PathBuf> {
    let origin = file.canonicalize().ok().and_then(|file| Some(file.parent()?.to_owned()));
    let origin = origin.unwrap_or_default().display().to_string();
    let search = search.to_string_lossy();
    let expanded = search.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
    std::env::split_paths(&expanded).collect()
}

/// Names and paths of the cache; one that is damaged or of an unknown kind has none.
fn cache_of(bytes: &[u8]) -> HashMap<OsString, Vec<PathBuf>> {
    let mut cache: HashMap<OsString, Vec<PathBuf>> = HashMap::new();
    // Offsets count from the start of the newer part, which may stand behind an older one.
    let Some(start) = memchr::memmem::find(bytes, CACHE_START) else { return cache };
    let bytes = &bytes[start..];
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
    };
    let text = |at: usize| {
        let text = bytes.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(OsString::from_vec(text.to_vec()))
    };
    for entry in 0..word(CACHE_START.len()).unwrap_or_default() {
        let at = CACHE_HEADER_BYTES + entry * CACHE_ENTRY_BYTES;
        let (Some(name), Some(path)) = (word(at + 4).and_then(text), word(at + 8).and_then(text))
        else {
            break;
        };
        cache.entry(name).or_default().push(path.into());
    }
    cache
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test's own program needs the C library, and the cache knows where it is.
    #[test]
    fn libraries_of_this_program() {
        let own = std::env::current_exe().expect("a test is a file");
        let found = linked(&own).expect("readable");
        let library = found.iter().find(|linked| linked.name == "libc.so.6").expect("it is needed");
        assert!(library.path.as_ref().is_some_and(|path| path.is_file()), "{found:?}");
    }

    /// A library beside its program.
    #[test]
    fn the_origin() {
        let file = Path::new("/bin/sh");
        let folder = file.canonicalize().expect("a shell").parent().expect("a folder").to_owned();
        let expected = [folder.join("../lib"), PathBuf::from("/opt")];
        assert_eq!(search_of(OsStr::new("$ORIGIN/../lib:/opt"), file), expected);
    }

    /// A cache that is cut off gives what it holds.
    #[test]
    fn a_damaged_cache() {
        let bytes = fs::read(CACHE).unwrap_or_default();
        for length in [0, 10, 30, 60, bytes.len() / 2] {
            cache_of(bytes.get(..length).unwrap_or_default());
        }
        assert!(cache_of(b"something else").is_empty());
    }
}
