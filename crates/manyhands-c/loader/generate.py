"""Writes the loader: a sqlite3.c for drivers that compile SQLite into themselves, with its headers.

    python3 crates/manyhands-c/loader/generate.py [--dropin target/dropin]

``build.sh`` calls it when the library is built. The functions are those that the library has, by its dynamic symbols, so the loader can jump to
each of them; ``loader.c`` is the rest of the file, and says how the library is found. The headers are those of the library, and ``sqlite3.h``
has two macros more: SQLite's variables for directories are the library's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]
VARIABLES = {"sqlite3_version", "sqlite3_temp_directory", "sqlite3_data_directory"}
"""What ``loader.c`` has by hand: a jump leads to no variable."""
DIRECTORIES = """
#ifndef MANYHANDS_LOADER_H
#define MANYHANDS_LOADER_H
#ifdef __cplusplus
extern "C" {
#endif
/* The loader of Manyhands has SQLite's functions, and the library has these variables: what is set is set there. */
char **manyhands_loader_temp_directory(void);
char **manyhands_loader_data_directory(void);
#define sqlite3_temp_directory (*manyhands_loader_temp_directory())
#define sqlite3_data_directory (*manyhands_loader_data_directory())
#ifdef __cplusplus
}
#endif
#endif
"""


def symbols(library: Path) -> tuple[list[str], set[str]]:
    """The functions and the variables that a library shows."""
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    found = [(kind, name) for _, kind, name in (line.split() for line in listed.splitlines()) if name.startswith("sqlite3")]
    return sorted(name for kind, name in found if kind == "T"), {name for kind, name in found if kind in "BDR"}


def names_macro(functions: list[str]) -> str:
    """One macro over all functions, with the place of each in the table."""
    lines = [f"  each({place}, {name})" for place, name in enumerate(functions)]
    return " \\\n".join(["#define MANYHANDS_FUNCTIONS(each)", *lines])


def main() -> None:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dropin", type=Path, default=TREE / "target" / "dropin")
    dropin: Path = parser.parse_args().dropin
    functions, variables = symbols(dropin / "lib" / "libmanyhands_sqlite3.so")
    assert variables == VARIABLES, f"loader.c has to know of {variables ^ VARIABLES}"
    loader = dropin / "loader"
    loader.mkdir(exist_ok=True)
    source = (HERE / "loader.c").read_text()
    before, after = source.split("/*NAMES*/")
    replace(loader / "sqlite3.c", before + names_macro(functions) + after)
    replace(loader / "sqlite3.h", (dropin / "include" / "sqlite3.h").read_text() + DIRECTORIES)
    shutil.copy(dropin / "include" / "sqlite3ext.h", loader)
    print(f"{loader / 'sqlite3.c'}: {len(functions)} functions")


def replace(path: Path, text: str) -> None:
    """A build that reads the file meanwhile sees the old one or the new one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, path)


if __name__ == "__main__":
    main()
