"""Drivers that bring their own SQLite, built over the drop-in library: the same binary with plain SQLite and with manyhands, in turn.

    python3 crates/manyhands-c/loader/measure.py [--seconds 2] [--processes 8] [--only rust-rusqlite,go-mattn]

What is built lies in .suites/drivers/loader; packages are fetched. A driver with the loader inside takes the library that MANYHANDS_LIBRARY names, and one
that is linked takes the one that is preloaded: both are set. There is no figure where the database does not hold exactly what was acknowledged.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "drivers"))
from crowd import BUILT, DROPIN, PROGRAMS, Words, library, run_crowd

HERE = Path(__file__).resolve().parent
WORK = BUILT / "loader"
LOADER = DROPIN / "loader"
JOBS = ("insert", "read-then-write")


def run(words: Words, folder: Path, **environment: str) -> str:
    ended = subprocess.run(words, cwd=folder, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True)
    return ended.stdout


def fresh(name: str) -> Path:
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def build_node(package: str, worker: Path, *flags: str) -> Words:
    """Node's headers are those below /usr/include, as Debian's packages bring them."""
    folder = fresh(package)
    (folder / "package.json").write_text("{}\n")
    name = package.split("@")[0]
    run(["npm", "install", package, "--build-from-source", "--nodedir=/usr", "--no-audit", "--no-fund", "--loglevel=error", *flags], folder)
    assert list((folder / "node_modules" / name / "build").rglob("*.node")), f"{name} was not built"
    shutil.copy(worker, folder / "worker.js")
    return ["node", str(folder / "worker.js")]


def build_better_sqlite3() -> Words:
    return build_node("better-sqlite3@12", PROGRAMS / "worker.js", f"--sqlite3={LOADER}")


def build_node_sqlite3() -> Words:
    return build_node("sqlite3@6", HERE / "programs" / "worker-sqlite3.js", f"--sqlite={DROPIN}")


def build_go() -> Words:
    """Without the tag libsqlite3: the driver compiles the loader, in the place of its own SQLite."""
    folder = fresh("go")
    shutil.copytree(PROGRAMS / "go", folder, dirs_exist_ok=True)
    driver = run(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/mattn/go-sqlite3"], folder).strip()
    shutil.copytree(driver or download_go(folder), folder / "go-sqlite3")
    run(["chmod", "-R", "u+w", "go-sqlite3"], folder)
    for ours, theirs in (("sqlite3.c", "sqlite3-binding.c"), ("sqlite3.h", "sqlite3-binding.h"), ("sqlite3.h", "sqlite3.h")):
        shutil.copy(LOADER / ours, folder / "go-sqlite3" / theirs)
    run(["go", "mod", "edit", "-replace", "github.com/mattn/go-sqlite3=./go-sqlite3"], folder)
    run(["go", "build", "-o", "worker", "."], folder)
    return [str(folder / "worker")]


def download_go(folder: Path) -> str:
    run(["go", "mod", "download"], folder)
    return run(["go", "list", "-m", "-f", "{{.Dir}}", "github.com/mattn/go-sqlite3"], folder).strip()


def build_rusqlite() -> Words:
    """With the feature `bundled`, which the environment overrules."""
    target = WORK / "rusqlite"
    run(
        ["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", str(target)],
        HERE / "programs" / "rusqlite",
        LIBSQLITE3_SYS_USE_PKG_CONFIG="1",
        SQLITE3_LIB_DIR=str(DROPIN / "lib"),
        RUSTFLAGS=f"-C link-arg=-Wl,-rpath,{DROPIN / 'lib'}",
    )
    return [str(target / "release" / "worker")]


def build_pysqlite3() -> Words:
    """The package compiles a sqlite3.c that lies beside its setup.py."""
    folder = fresh("pysqlite3")
    run([sys.executable, "-m", "venv", "venv"], folder)
    pip = [str(folder / "venv" / "bin" / "pip"), "--disable-pip-version-check", "-q"]
    run([*pip, "download", "--no-deps", "--no-binary", ":all:", "pysqlite3"], folder)
    run(["tar", "xzf", next(folder.glob("*.tar.gz")).name], folder)
    source = next(path for path in folder.glob("pysqlite3-*") if path.is_dir())
    for name in ("sqlite3.c", "sqlite3.h"):
        shutil.copy(LOADER / name, source)
    run([*pip, "install", str(source)], folder)
    worker = (PROGRAMS / "worker.py").read_text().replace("import sqlite3\n", "from pysqlite3 import dbapi2 as sqlite3\n")
    (folder / "worker.py").write_text(worker)
    return [str(folder / "venv" / "bin" / "python"), str(folder / "worker.py")]


DRIVERS: dict[str, Callable[[], Words]] = {
    "node-better-sqlite3": build_better_sqlite3,
    "node-sqlite3": build_node_sqlite3,
    "go-mattn": build_go,
    "rust-rusqlite": build_rusqlite,
    "python-pysqlite3": build_pysqlite3,
}


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--only", default=",".join(DRIVERS))
    options = parser.parse_args()
    broken = 0
    for name in options.only.split(","):
        command = DRIVERS[name]()
        for job in JOBS:
            for engine in ("stock", "manyhands"):
                os.environ["MANYHANDS_LIBRARY"] = str(library(engine))
                with tempfile.TemporaryDirectory(prefix="manyhands-loader-", dir=".") as folder:
                    told = run_crowd(command, library(engine), job, options.processes, options.seconds, Path(folder, "crowd.db").resolve())
                broken += len(told.broken)
                figures = f"{told.per_second:8.0f}/s {told.errors:6} errors, worst {told.wait_ms_max / 1000:.3f} s"
                print(f"{name:20} {job:16} {engine:10} {'BROKEN: ' + '; '.join(told.broken) if told.broken else figures} {told.first_error}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
