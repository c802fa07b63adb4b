"""The drivers' own test suites: where each comes from, and how it is run.

A suite is run in *pieces*, each a process of its own: what crashes or hangs takes no other piece's tests with it.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Optional

import results
from crowd import DROPIN, TREE, Words, go_flags
from sources import WORK, debian_source, go_source, run

INSIDE = Path(__file__).resolve().parent / "inside"
RAILS_FILES = 40
"""How many of ActiveRecord's files one process loads: each takes a second to begin."""
ICU = ("-licui18n", "-licuuc")
THREAD_TESTS = (
    "walthread1", "walthread2", "walthread3", "walthread4", "walthread5", "cgt_pager_1", "dynamic_triggers", "checkpoint_starvation_1",
    "checkpoint_starvation_2", "create_drop_index_1", "lookaside1", "vacuum1", "stress1", "stress2", "shared1",
)
SQLITE_TESTS_LEFT_OUT = ("all", "veryquick", "quick", "permutations", "misuse", "speed1", "speed1p", "speed2", "speed3", "speed4", "speed4p")
"""Those that run others, that measure, and one that uses connections after their end."""
UNITTEST = TREE / "bindings" / "python" / "suites" / "inside" / "suite_results.py"
"""Runs modules of unittest; writes the outcomes to the file SUITE_RESULTS."""


@dataclass(frozen=True)
class Piece:
    """One process of a suite."""

    title: str
    words: Words
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    name: str
    pieces: Callable[[], Iterator[Piece]]
    """Fetches and builds what is missing."""
    read: Optional[Callable[[str, str], results.Outcomes]] = None
    """From a piece's title and what it has printed; None where the piece writes its outcomes to SUITE_RESULTS."""
    differs: tuple[str, ...] = ()
    """Patterns of tests that are known to pass with plain SQLite only."""


def unittest_pieces(python: str, folder: Path, environment: dict[str, str]) -> Iterator[Piece]:
    for module in sorted(folder.glob("test_*.py")):
        name = f"test.test_sqlite3.{module.stem}"
        yield Piece(module.stem, [python, str(UNITTEST), "--installed", name], WORK, environment)


def debian_python_pieces() -> Iterator[Piece]:
    """Debian has no package of these tests, but the source of its Python has. A link makes `test` importable, and nothing else of that source."""
    source = debian_source("python3.11")
    path = WORK / "sources" / "python3.11-tests"
    path.mkdir(exist_ok=True)
    if not (path / "test").is_symlink():
        (path / "test").symlink_to(source / "Lib" / "test")
    return unittest_pieces("/usr/bin/python3", path / "test" / "test_sqlite3", {"PYTHONPATH": str(path)})


def pythons() -> Iterator[Suite]:
    """Debian's own, and each that pyenv has built: they take the system's SQLite, and bring their tests."""
    yield Suite("python-debian", debian_python_pieces)
    for python in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))):
        # Some versions also print what they test.
        asked = "import platform, test.test_sqlite3 as tests; print(platform.python_version(), tests.__path__[0])"
        answer = subprocess.run([python, "-c", asked], capture_output=True, text=True)
        if answer.returncode == 0:
            version, folder = answer.stdout.split()[-2:]
            yield Suite(f"python-{version}", partial(unittest_pieces, python, Path(folder), {}))


def perl_pieces() -> Iterator[Piece]:
    source = debian_source("libdbd-sqlite3-perl")
    for test in sorted((source / "t").glob("*.t")):
        yield Piece(test.name, ["perl", "-It/lib", f"t/{test.name}"], source)


def php_pieces() -> Iterator[Piece]:
    """The tests of both extensions. Those of PDO itself are run by pdo_sqlite, which redirects to them."""
    source = debian_source("php8.2")
    for extension in ("pdo_sqlite", "sqlite3"):
        words = ["php", "run-tests.php", "-p", "/usr/bin/php", "-q", "--no-color", "--no-progress", "--set-timeout", "60"]
        yield Piece(extension, [*words, f"ext/{extension}/tests"], source)


def ruby_pieces() -> Iterator[Piece]:
    source = debian_source("ruby-sqlite3")
    for test in sorted((source / "test").glob("test_*.rb")):
        yield Piece(test.name, ["ruby", "-Itest", str(test), "-v"], source)


def rails_pieces() -> Iterator[Piece]:
    """ActiveRecord at its files, by Debian's ruby-sqlite3. It takes the packages ruby-activerecord, ruby-mocha and ruby-builder."""
    folder = debian_source("rails") / "activerecord"
    words = ["ruby", "-W0", "-Itest", "-Ilib", "-I../activesupport/lib", "-I../activemodel/lib", str(INSIDE / "rails_tests.rb"), "-v", "--seed", "1"]
    others = ("adapters/mysql", "adapters/postgresql")
    files = [str(file.relative_to(folder)) for file in sorted(folder.glob("test/cases/**/*_test.rb"))]
    files = [file for file in files if not any(other in file for other in others)]
    for first in range(0, len(files), RAILS_FILES):
        chunk = files[first : first + RAILS_FILES]
        yield Piece(chunk[0], words, folder, {"ARCONN": "sqlite3", "SUITE_TESTS": " ".join(chunk)})


def go_pieces() -> Iterator[Piece]:
    """The test program, built once: what preloads a library into it must not do so into the compiler."""
    source = go_source()
    program = WORK / "go-sqlite3.test"
    exported = [f"{name}={value}" for name, value in go_flags().items()]
    run(["env", *exported, "go", "test", "-c", "-tags", "libsqlite3", "-o", str(program), "."], source)
    # test2json only translates what the program prints.
    yield Piece("go-sqlite3", ["go", "tool", "test2json", str(program), "-test.v", "-test.timeout=300s"], source)


def sqlite_pieces() -> Iterator[Piece]:
    """SQLite's own tests, by Debian's package of SQLite for Tcl: as far as they use what every program can use."""
    words = ["tclsh", str(INSIDE / "sqlite_tests.tcl")]
    for file in sorted((debian_source("sqlite3") / "test").glob("*.test")):
        if file.stem not in SQLITE_TESTS_LEFT_OUT:
            # With what SQLite does if nobody chooses: the tests are about what is in which file, and what is locked.
            yield Piece(file.stem, [*words, str(file)], WORK, {"MANYHANDS_JOURNAL": "keep", "MANYHANDS_TIMEOUT": "0"})


def mptest_pieces() -> Iterator[Piece]:
    """Several processes at one file. Without the error log: there ours also tells of what a process has executed for others. The other scripts of that
    source fail with plain SQLite of this version, or take very long."""
    source = debian_source("sqlite3") / "mptest"
    stub = WORK / "config.c"
    stub.write_text("int no_config(int what, ...) { return what * 0; }\n")
    program = build_c("mptest", ["-w", "-DHAVE_USLEEP", "-Dsqlite3_config=no_config", str(source / "mptest.c"), str(stub)])
    for mode in ("delete", "wal"):
        # By a shell: the file is in the folder of this run.
        told = f'{program} "$TMPDIR/app.db" {source / "multiwrite01.test"} --journalmode {mode} --repeat 5 | tee /dev/stderr | grep -q "Summary: 0 errors"'
        yield Piece(mode, ["sh", "-c", f'{told} && echo "multiwrite01-{mode}... Ok"'], WORK)


def threadtest_pieces() -> Iterator[Piece]:
    """Several threads, each with a connection of its own. The multiplexor VFS is SQLite's own, and no part of the library."""
    source = debian_source("sqlite3")
    stub = WORK / "multiplex.c"
    names = ("initialize(const char *name, int on) { return name || on; }", "shutdown(int on) { return on; }")
    stub.write_text("".join(f"int sqlite3_multiplex_{name}\n" for name in names))
    program = build_c("threadtest3", ["-w", f"-I{source / 'src'}", str(source / "test" / "threadtest3.c"), str(stub), "-lpthread"])
    for test in THREAD_TESTS:
        told = f'cd "$TMPDIR" && {program} {test} && echo "{test}... Ok"'
        yield Piece(test, ["sh", "-c", told], WORK)


def build_c(name: str, words: Words) -> Path:
    """Against the headers, and a library that another one then takes the place of."""
    program = WORK / name
    run(["cc", "-O1", f"-I{DROPIN / 'include'}", *words, f"-L{DROPIN / 'stock'}", "-l:libsqlite3.so.0", "-o", str(program)])
    return program


def extension_pieces() -> Iterator[Piece]:
    """sqlite-vec of PyPI, SpatiaLite of the package libsqlite3-mod-spatialite, ICU of SQLite's source with the package libicu-dev."""
    folder = WORK / "extensions"
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("sqlite_vec/vec0.so")):
        run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-deps", "--target", str(folder), "sqlite-vec"])
    source = debian_source("sqlite3") / "ext" / "icu" / "icu.c"
    run(["cc", "-O1", "-shared", "-fPIC", f"-I{DROPIN / 'include'}", str(source), *ICU, "-o", str(folder / "icu.so")])
    for name, path in (("vec", folder / "sqlite_vec" / "vec0.so"), ("spatialite", Path("mod_spatialite.so")), ("icu", folder / "icu.so")):
        yield Piece(name, ["/usr/bin/python3", str(INSIDE / "extension.py"), str(path), str(INSIDE / f"{name}.sql")], WORK)


def known(file: str) -> tuple[str, ...]:
    """What is known to differ, with the reasons: a pattern of tests in each line."""
    lines = (INSIDE / file).read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def suites() -> list[Suite]:
    return [
        *pythons(),
        Suite("perl-dbd-sqlite", perl_pieces, results.read_tap),
        Suite("php", php_pieces, results.read_phpt),
        Suite("ruby-sqlite3", ruby_pieces, results.read_minitest),
        Suite("rails-activerecord", rails_pieces, results.read_minitest),
        Suite("go-mattn", go_pieces, results.read_go),
        Suite("sqlite-tcl", sqlite_pieces, results.read_sqlite, known("sqlite_tests_known.txt")),
        Suite("sqlite-mptest", mptest_pieces, results.read_sqlite),
        Suite("sqlite-threadtest3", threadtest_pieces, results.read_sqlite),
        Suite("extensions", extension_pieces),
    ]
