//! `manyhands run --check`: what the files of a command say about it, without running it.
//!
//! The program's own file and its libraries are certain. What an interpreter loads later is looked for where its
//! drivers usually are; `run` sees what it has really loaded.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};

use crate::carrier::{Content, Contents};

use super::{
    library::Library,
    linked::linked,
    obstacle::Obstacle,
    resolve::{Resolved, resolve},
    way_out,
};

/// Drivers of Node.js, below a folder with `node_modules`.
const NODE_DRIVERS: [&str; 4] = [
    "better-sqlite3/build/Release/*.node",
    "sqlite3/build/Release/*.node",
    ".pnpm/better-sqlite3@*/node_modules/better-sqlite3/build/Release/*.node",
    ".pnpm/sqlite3@*/node_modules/sqlite3/build/Release/*.node",
];
/// Drivers of Python, below a folder that has its `bin`.
const PYTHON_DRIVERS: [&str; 5] = [
    "lib/VERSION/lib-dynload/_sqlite3.*.so",
    "lib/VERSION/site-packages/apsw/*.so",
    "lib/VERSION/site-packages/pysqlite3/*.so",
    "lib/VERSION/dist-packages/apsw/*.so",
    "local/lib/VERSION/dist-packages/apsw/*.so",
];
/// A folder with `node_modules` is looked for upwards from a script; paths are not deeper.
const FOLDERS_UP_MAX: usize = 32;

/// Prints what is found; the exit status says whether the preload reaches each SQLite that was.
pub fn check(name: &OsStr, arguments: &[OsString], library: &Library) -> Result<ExitCode> {
    let resolved = resolve(name)?;
    println!("command   {}", resolved.command.display());
    for interpreter in &resolved.interpreters {
        println!("run by    {}", interpreter.display());
    }
    let program = resolved.program();
    let told = program.display();
    let obstacle = Obstacle::of_program(program, library).with_context(|| told.to_string())?;
    let modules = modules_of(&resolved, arguments);
    let files = Files::of(program, &modules).with_context(|| told.to_string())?;
    for name in &files.replaced {
        println!("replaced  {}, for {}", super::library::STOCK_NAME, name.display());
    }
    let mut is_reached = true;
    if let Some(obstacle) = &obstacle {
        is_reached = false;
        println!("no        the library cannot be preloaded into {told}: {obstacle}");
        if let Some(way) = obstacle.way_out() {
            println!("way out   {way}");
        }
    }
    for (carrier, way) in &files.carriers {
        is_reached = false;
        println!("no        {} has a SQLite of its own", carrier.display());
        println!("way out   {way}");
    }
    if is_reached {
        println!("yes       the library will be preloaded: {}", library.path.display());
        if files.replaced.is_empty() {
            println!(
                "          No SQLite was found in it yet. What it loads or starts later, `manyhands run` tells."
            );
        }
    }
    Ok(if is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the files of a command have to do with SQLite.
#[derive(Default)]
struct Files {
    /// Files that ask for the stock library, and will get ours.
    replaced: Vec<PathBuf>,
    /// Files with another SQLite, and the way out.
    carriers: Vec<(PathBuf, &'static str)>,
}

impl Files {
    fn of(program: &Path, modules: &[PathBuf]) -> Result<Self> {
        let mut files = Self::default();
        let mut contents = Contents::default();
        for file in [program].into_iter().chain(modules.iter().map(PathBuf::as_path)) {
            files.look_into(file, &mut contents);
            for library in linked(file)? {
                let is_stock = library.name.to_string_lossy().starts_with("libsqlite3.so");
                match library.path {
                    // Under another name it is loaded too, but its functions are looked for in ours first.
                    _ if is_stock => files.replaced.push(file.to_owned()),
                    Some(path) => files.look_into(&path, &mut contents),
                    None => {}
                }
            }
        }
        Ok(files)
    }

    fn look_into(&mut self, file: &Path, contents: &mut Contents) {
        let is_known = self.carriers.iter().any(|(carrier, _)| carrier == file);
        // What we cannot read, the user who runs the command cannot start either.
        if let Ok(Content::Sqlite { driver, .. }) = contents.read(file)
            && !is_known
        {
            let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
            self.carriers.push((file.to_owned(), way_out::of(&target, driver)));
        }
    }
}

/// Drivers that the interpreter would find.
fn modules_of(resolved: &Resolved, arguments: &[OsString]) -> Vec<PathBuf> {
    let program = resolved.program();
    let target = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.starts_with("python") {
        // A virtual environment is where the link is, the standard library where it leads to.
        let prefixes = [program, &target]
            .map(|program| program.parent().and_then(Path::parent).map(Path::to_owned));
        let prefixes: Vec<_> = prefixes.into_iter().flatten().collect();
        let patterns = PYTHON_DRIVERS.map(|driver| driver.replace("VERSION", &name));
        return found(&prefixes, &patterns);
    }
    if name.starts_with("node") {
        let script = if resolved.interpreters.is_empty() {
            arguments.first().map(PathBuf::from)
        } else {
            None
        };
        let script = script.unwrap_or_else(|| resolved.command.clone());
        let starts = [script.canonicalize().ok(), std::env::current_dir().ok()];
        let ups = starts.iter().flatten().flat_map(|start| start.ancestors().take(FOLDERS_UP_MAX));
        let folders: Vec<_> = ups
            .map(|folder| folder.join("node_modules"))
            .filter(|folder| folder.is_dir())
            .collect();
        return found(&folders, &NODE_DRIVERS.map(str::to_owned));
    }
    Vec::new()
}

fn found(folders: &[PathBuf], patterns: &[String]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let folder = glob::Pattern::escape(&folder.to_string_lossy());
        for pattern in patterns {
            let paths = glob::glob(&format!("{folder}/{pattern}"));
            found.extend(paths.into_iter().flatten().flatten());
        }
    }
    found.sort();
    found.dedup();
    found
}
