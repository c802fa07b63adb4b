"""The loader: a sqlite3.c that drivers compile in, and that finds the library when it is loaded."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
DROPIN = Path(os.environ.get("MANYHANDS_DROPIN") or HERE.parents[2] / "target" / "dropin").resolve()
LOADER = DROPIN / "loader"
LIBRARY = DROPIN / "lib" / "libmanyhands_sqlite3.so"
STRICT = ("-Wall", "-Wextra", "-Werror")
FLAGS = {
    "better-sqlite3": ("-std=c99", "-O3", "-fPIC", "-DNDEBUG", "-DSQLITE_ENABLE_COLUMN_METADATA"),
    "mattn": ("-std=gnu99", "-O2", "-g", "-DSQLITE_THREADSAFE=1", "-DSQLITE_ENABLE_UPDATE_DELETE_LIMIT", "-DSQLITE_OMIT_DEPRECATED"),
    "hidden": ("-std=c99", "-fvisibility=hidden", "-fPIC", "-pedantic", "-Wno-overlength-strings"),
    "static": ("-O2", "-DSQLITE_API=static", "-DSQLITE_EXTERN=static", "-DSQLITE_CORE=1"),
    "debug": ("-O0", "-g", "-fcf-protection=full"),
}


def build(folder: Path, *flags: str) -> Path:
    """The program of calls.c with the loader inside."""
    objects = folder / "loader.o"
    program = folder / "calls"
    subprocess.run(["cc", *STRICT, *flags, "-c", str(LOADER / "sqlite3.c"), "-o", str(objects)], check=True)
    subprocess.run(["cc", *STRICT, f"-I{LOADER}", str(HERE / "programs" / "calls.c"), str(objects), "-o", str(program)], check=True)
    return program


def call(program: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run([str(program), *words], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS.keys())
def test_calls_arrive_whatever_flags_the_driver_has(flags: tuple[str, ...], tmp_path: Path) -> None:
    if "-fcf-protection=full" in flags and os.uname().machine != "x86_64":
        flags = ("-O0", "-g", "-mbranch-protection=standard")
    called = call(build(tmp_path, *flags), MANYHANDS_LIBRARY=str(LIBRARY))
    assert (called.returncode, called.stdout) == (0, "called\n"), called.stderr


def test_the_library_is_found(tmp_path: Path) -> None:
    """By the variable, which names it or its folder; beside the program, even through a link; on the library path; by the compiled path."""
    program = build(tmp_path)
    assert call(program, MANYHANDS_LIBRARY=str(LIBRARY.parent)).stdout == "called\n"
    assert call(program, LD_LIBRARY_PATH=str(LIBRARY.parent)).stdout == "called\n"
    (tmp_path / "beside").mkdir()
    shutil.copy(program, tmp_path / "beside")
    (tmp_path / "beside" / LIBRARY.name).symlink_to(LIBRARY)
    (tmp_path / "link").symlink_to(tmp_path / "beside" / "calls")
    assert call(tmp_path / "beside" / "calls").stdout == "called\n"
    assert call(tmp_path / "link").stdout == "called\n"
    assert call(build(tmp_path, f'-DMANYHANDS_LIBRARY="{LIBRARY}"')).stdout == "called\n"


def test_the_first_call_says_what_to_do_when_the_library_is_absent(tmp_path: Path) -> None:
    program = build(tmp_path)
    called = call(program)
    assert called.returncode == -signal.SIGABRT
    assert "sqlite3_mprintf" in called.stderr and "Set MANYHANDS_LIBRARY" in called.stderr and str(program) in called.stderr
    assert call(program, "quiet").stdout == "quiet\n"


def test_what_the_variable_names_is_taken_or_refused(tmp_path: Path) -> None:
    """A wrong path is said, and no other place is tried: a program must not write through a library that nobody chose."""
    program = build(tmp_path)
    (tmp_path / LIBRARY.name).symlink_to(LIBRARY)
    assert call(program).stdout == "called\n"
    called = call(program, MANYHANDS_LIBRARY="/nowhere/lib.so")
    assert called.returncode == -signal.SIGABRT
    assert "/nowhere/lib.so" in called.stderr


def test_a_function_that_an_older_library_lacks_is_named(tmp_path: Path) -> None:
    older = tmp_path / "older.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(older)], input="int sqlite3_step(void) { return 0; }", text=True, check=True)
    called = call(build(tmp_path), MANYHANDS_LIBRARY=str(older))
    assert called.returncode == -signal.SIGABRT
    assert "sqlite3_mprintf" in called.stderr


def test_no_other_sqlite_takes_the_calls_of_an_addon(tmp_path: Path) -> None:
    """A program with SQLite inside shows its functions to what it loads: the addon's own are hidden, so they come first for it."""
    addon, host = tmp_path / "addon.so", tmp_path / "host"
    source = '#include "sqlite3.h"\nconst char *ask(void) { return sqlite3_libversion(); }\n'
    words = ["cc", "-shared", "-fPIC", f"-I{LOADER}", "-x", "c", "-", str(LOADER / "sqlite3.c"), "-o", str(addon)]
    subprocess.run(words, input=source, text=True, check=True)
    source = (
        "#include <dlfcn.h>\n#include <stdio.h>\nconst char *sqlite3_libversion(void) { return \"another\"; }\n"
        "int main(int n, char **words) { void *it = dlopen(words[n - 1], RTLD_NOW);\n"
        'return puts(((const char *(*)(void))dlsym(it, "ask"))()) < 0; }\n'
    )
    subprocess.run(["cc", "-rdynamic", "-x", "c", "-", "-o", str(host)], input=source, text=True, check=True)
    asked = call(host, str(addon), MANYHANDS_LIBRARY=str(LIBRARY))
    assert asked.stdout.strip() not in ("", "another"), asked.stderr
