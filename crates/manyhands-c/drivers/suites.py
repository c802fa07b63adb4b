"""Runs the drivers' own test suites with plain SQLite and with manyhands preloaded, and compares test by test.

    python crates/manyhands-c/drivers/suites.py [NAMES] [--again] [--stored] [--in-memory] [--json FILE]

Every suite is run as it is, and once more with every database as a file in WAL mode, those in memory too (`inside/witness.c`). A suite is *kept*
when every test that passes with plain SQLite passes with manyhands, and when every connection has been opened by the library that was to be tested.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from crowd import library
from sources import WORK, Unavailable
from suite_table import Piece, Suite, suites

ENGINES = ("stock", "manyhands")
PIECE_SECONDS_MAX = 400
WITNESS = Path(__file__).resolve().parent / "inside" / "witness.c"


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="suites whose name begins so; all by default")
    parser.add_argument("--again", action="store_true", help="run the stock half too if its results are there")
    parser.add_argument("--stored", action="store_true", help="run nothing: compare what the last runs left")
    parser.add_argument("--as-is", action="store_true", help="leave out the runs with every database as a file in WAL mode")
    parser.add_argument("--json", type=Path, help="write the table's figures to this file")
    options = parser.parse_args()
    rows = []
    for suite in suites():
        if options.names and not any(suite.name.startswith(name) for name in options.names):
            continue
        for in_wal in (False,) if options.as_is else (False, True):
            name = suite.name + ("-in-wal" if in_wal else "")
            try:
                if not options.stored:
                    run_halves(suite, name, in_wal, options.again)
                rows.append(compare(suite, name))
            except (Unavailable, FileNotFoundError) as error:
                rows.append({"suite": name, "kept": False, "unavailable": str(error)})
            print_row(rows[-1])
    if options.json:
        options.json.write_text(json.dumps({"suites": rows}, indent=1) + "\n")
    return 0 if all(row["kept"] for row in rows) else 1


def run_halves(suite: Suite, name: str, in_wal: bool, again: bool) -> None:
    """Runs a suite with plain SQLite, unless that was done before, and with manyhands."""
    pieces = list(suite.pieces())
    for engine in ENGINES:
        if again or engine != "stock" or not results_of(name, engine).exists():
            run_half(suite, name, pieces, engine, in_wal)


def results_of(name: str, engine: str) -> Path:
    return WORK / "results" / name / f"{engine}.json"


def run_half(suite: Suite, name: str, pieces: list[Piece], engine: str, in_wal: bool) -> None:
    """Writes the outcomes beside the log."""
    file = results_of(name, engine)
    file.parent.mkdir(parents=True, exist_ok=True)
    files = WORK / "files" / f"{name}-{engine}"
    shutil.rmtree(files, ignore_errors=True)
    connections = file.with_suffix(".connections")
    connections.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": f"{build_witness()} {library(engine).resolve()}",
        "SUITE_CONNECTIONS": str(connections),
        "TMPDIR": str(files),
        **({"SUITE_IN_WAL": str(files)} if in_wal else {}),
    }
    tests: dict[str, str] = {}
    began = time.monotonic()
    with file.with_suffix(".log").open("w") as log:
        for piece in pieces:
            files.mkdir(parents=True)
            tests |= run_piece(suite, piece, {**environment, **piece.environment, "SUITE_RESULTS": f"{files}.tests"}, log)
            shutil.rmtree(files)
    opened = connections.read_text().splitlines() if connections.exists() else []
    outcome = {
        "tests": tests,
        "connections": {path: opened.count(path) for path in sorted(set(opened))},
        "seconds": round(time.monotonic() - began, 1),
    }
    file.write_text(json.dumps(outcome, indent=0, sort_keys=True))


def run_piece(suite: Suite, piece: Piece, environment: dict[str, str], log: Any) -> dict[str, str]:
    """What became of the tests of one process, and whether it has ended by itself."""
    left = Path(environment["SUITE_RESULTS"])
    left.unlink(missing_ok=True)
    process = subprocess.Popen(
        ["timeout", "--kill-after=5", str(PIECE_SECONDS_MAX), *piece.words],
        cwd=piece.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    output, _ = process.communicate()
    status = process.returncode
    log.write(f"## {piece.title}\n{output}\n## ended with {status}\n")
    # 124 and more: ended by `timeout`, not found, or killed by a signal.
    found = {f"{piece.title} ends": "passed" if 0 <= status < 124 else "failed"}
    if suite.read is not None:
        return found | suite.read(piece.title, output)
    return found | (json.loads(left.read_text()) if left.exists() else {})


def build_witness() -> Path:
    built = WORK / "witness.so"
    if not built.exists() or built.stat().st_mtime < WITNESS.stat().st_mtime:
        WORK.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O1", "-Wall", "-shared", "-fPIC", "-Wl,-soname,libsqlite3.so.0", str(WITNESS), "-o", str(built), "-ldl"], check=True)
    return built


def compare(suite: Suite, name: str) -> dict[str, Any]:
    """What the table says of a suite."""
    stock, ours = (json.loads(results_of(name, engine).read_text()) for engine in ENGINES)
    passed = {test for test, outcome in stock["tests"].items() if outcome == "passed"}
    gone = sorted(test for test in passed if ours["tests"].get(test) != "passed")
    lost = [test for test in gone if not any(fnmatch(test, pattern) for pattern in suite.differs)]
    proved = all(list(half["connections"]) == [str(library(engine).resolve())] for engine, half in zip(ENGINES, (stock, ours)))
    return {
        "suite": name,
        "stock": counts(stock["tests"]),
        "manyhands": counts(ours["tests"]),
        "lost": lost,
        "known": len(gone) - len(lost),
        "connections": ours["connections"],
        "proved": proved,
        "kept": proved and bool(passed) and not lost,
        "seconds": [stock["seconds"], ours["seconds"]],
    }


def counts(tests: dict[str, str]) -> dict[str, int]:
    outcomes = list(tests.values())
    return {kind: outcomes.count(kind) for kind in ("passed", "failed", "skipped")}


def print_row(row: dict[str, Any]) -> None:
    if "unavailable" in row:
        print(f"{row['suite']:26} cannot be had: {row['unavailable']}", flush=True)
        return
    stock, ours = row["stock"], row["manyhands"]
    print(
        f"{row['suite']:26} stock {stock['passed']:5} passed {stock['failed']:3} failed | manyhands {ours['passed']:5} passed {ours['failed']:3} failed "
        f"{ours['skipped']:4} skipped | {len(row['lost']):3} lost {row['known']:3} known | {sum(row['connections'].values()):5} connections | "
        f"{row['seconds'][0]:5} and {row['seconds'][1]:5} s | {'kept' if row['kept'] else 'NOT KEPT'}",
        flush=True,
    )
    if not row["proved"]:
        print(f"    not every connection was the tested library's: {row['connections']}")
    for test in row["lost"][:40]:
        print("   ", re.sub(r"\s+", " ", test))


if __name__ == "__main__":
    sys.exit(main())
