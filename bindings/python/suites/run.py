"""Runs test suites that others wrote, with stock SQLite and with manyhands, and compares test by test.

    python run.py                 all suites; fetches what is missing into .suites/
    python run.py django aiosqlite   those whose name begins so
    python run.py --list

A suite is *kept* when every test that passes with stock passes with manyhands, but for the differences that
docs/python-compat.json lists with their reasons, and when it is proved that our driver was used: its
processes have opened connections with manyhands, and none with the stock module where that was replaced.

A suite whose name begins with ``program-`` is a program that uses a package of others with several processes at one
file. All that it promises is to be kept with manyhands, whether stock SQLite keeps it or not; times are only shown.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any, Dict, List

from table import Suite, suites

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]
WORK = TREE / ".suites"
KNOWN = TREE / "docs" / "python-compat.json"
INSIDE = HERE / "inside"
SECONDS_MAX = 1200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help="suites whose name begins so; all by default")
    parser.add_argument("--list", action="store_true", help="name the suites and end")
    parser.add_argument(
        "--again", action="store_true", help="run the stock half too if its results are there"
    )
    parser.add_argument(
        "--package", type=Path, help="an installed manyhands; by default this tree's is built"
    )
    parser.add_argument("--stored", action="store_true", help="run nothing: compare what the last runs left")
    parser.add_argument("--json", type=Path, help="write the table's figures to this file")
    options = parser.parse_args()
    chosen = [
        suite
        for suite in suites()
        if not options.names or any(suite.name.startswith(name) for name in options.names)
    ]
    if options.list:
        print("\n".join(suite.name for suite in chosen))
        return 0
    package = options.package or (WORK if options.stored else install_package())
    known = json.loads(KNOWN.read_text())["differences"] if KNOWN.exists() else {}
    rows = []
    for suite in chosen:
        if not options.stored:
            run_halves(suite, package, options.again)
        row = compare(suite, known)
        rows.append(row)
        print_row(row)
    if options.json:
        options.json.write_text(json.dumps({"suites": rows}, indent=1) + "\n")
    return 0 if all(row["kept"] for row in rows) else 1


def run_halves(suite: Suite, package: Path, again: bool) -> None:
    """Runs a suite with stock SQLite, unless that was done before, and with manyhands."""
    if again or not results_of(suite, "stock").exists():
        run(suite, "stock", package)
    run(suite, "manyhands", package)


def results_of(suite: Suite, driver: str) -> Path:
    return WORK / "results" / suite.name / f"{driver}.json"


def compare(suite: Suite, known: Dict[str, Any]) -> Dict[str, Any]:
    """What the table says of a suite."""
    stock, ours = (json.loads(results_of(suite, driver).read_text()) for driver in ("stock", "manyhands"))
    passed = {test for test, outcome in stock["tests"].items() if outcome == "passed"}
    if suite.is_program:
        passed = {*stock["tests"], *ours["tests"]}
    lost = sorted(test for test in passed if ours["tests"].get(test) != "passed")
    reasons = [part for prefix, parts in known.items() if suite.name.startswith(prefix) for part in parts]
    unexplained = [test for test in lost if not any(re.search(part, test) for part in reasons)]
    opened = ours["connections"]
    proved = opened.get("manyhands", 0) > 0 and not (suite.replaces and opened.get("sqlite3"))
    figures = {"figures": {"stock": stock["figures"], "manyhands": ours["figures"]}} if suite.is_program else {}
    return {
        "suite": suite.name,
        **figures,
        "stock": counts(stock["tests"]),
        "manyhands": counts(ours["tests"]),
        "lost": lost,
        "unexplained": unexplained,
        "connections": opened,
        "kept": not unexplained and proved and bool(passed),
        "seconds": ours["seconds"],
    }


def run(suite: Suite, driver: str, package: Path) -> None:
    """One half of a suite: writes its results beside its log."""
    source = fetch(suite.source) if suite.source else WORK
    python = suite.python or environment(suite)
    command = suite.command
    folder = results_of(suite, driver).parent
    results = folder / driver
    connections = folder / f"{driver}-connections"
    files = WORK / "files" / f"{suite.name}-{driver}"
    for emptied in (connections, files):
        shutil.rmtree(emptied, ignore_errors=True)
        emptied.mkdir(parents=True)
    ours = driver == "manyhands"
    # What replaces the module for a program is what replaces it for a user's.
    replaced = suite.replaces and not suite.is_program
    if ours and suite.is_program and suite.replaces:
        command = ["-m", "manyhands", "run", *command]
    words = {name: pair[ours] for name, pair in suite.differs.items()}
    words.update(inside=str(INSIDE), results=str(results))
    path = [str(INSIDE), str(package)]
    path += [str(source / part) if part != "." else str(source) for part in [suite.path] if part]
    environ = {
        **os.environ,
        "PATH": os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SUITE_DRIVER": ("replaced" if replaced else "manyhands") if ours else "stock",
        "SUITE_DIALECT": "sqlite" if suite.replaces or not ours else "sqlite+manyhands",
        "SUITE_CONNECTIONS": str(connections),
        "SUITE_RESULTS": f"{results}.tests",
        "SUITE_FILES": str(files),
        "SUITE_ENGINE": "manyhands.django" if ours else "django.db.backends.sqlite3",
        "TMPDIR": str(files),
    }
    for left in (f"{results}.tests", f"{results}.xml"):
        Path(left).unlink(missing_ok=True)
    began = time.monotonic()
    with open(f"{results}.log", "w") as log:
        try:
            subprocess.run(
                [python, *(word.format(**words) for word in command)],
                cwd=source / suite.folder,
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            log.write(f"\nended after {SECONDS_MAX} s\n")
    outcome = {
        **(read_program(results) if suite.is_program else {"tests": read_results(results)}),
        "connections": read_connections(connections),
        "seconds": round(time.monotonic() - began, 1),
    }
    results_of(suite, driver).write_text(json.dumps(outcome, indent=0, sort_keys=True))


def read_results(results: Path) -> Dict[str, str]:
    """What became of each test, by an id that names neither driver nor version."""
    tests = Path(f"{results}.tests")
    if tests.exists():
        return json.loads(tests.read_text())
    junit = Path(f"{results}.xml")
    if not junit.exists():
        return {}
    found = {}
    for case in xml.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        name = re.sub(r"sqlite\+\w+?(?=_\d)|sqlite\+\w+", "sqlite", name)
        name = re.sub(r"_\d+_\d+_\d+(?=\b|::)", "", name)
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "passed"
        found[name] = "skipped" if "skipped" in kinds else outcome
    return found


def read_program(results: Path) -> Dict[str, Any]:
    """What a program has told in its one line; the rest of its log is not ours."""
    for line in reversed(Path(f"{results}.log").read_text().splitlines()):
        if line.startswith('{"promises"'):
            told = json.loads(line)
            kept = {promise: "passed" if held else "failed" for promise, held in told["promises"].items()}
            return {"tests": kept, "figures": told["figures"]}
    return {"tests": {"it ends": "failed"}, "figures": {}}


def read_connections(folder: Path) -> Dict[str, int]:
    total: Dict[str, int] = {}
    for file in folder.iterdir():
        for driver, count in json.loads(file.read_text()).items():
            total[driver] = total.get(driver, 0) + count
    return total


def counts(tests: Dict[str, str]) -> Dict[str, int]:
    outcomes = list(tests.values())
    return {kind: outcomes.count(kind) for kind in ("passed", "failed", "skipped")}


def print_row(row: Dict[str, Any]) -> None:
    stock, ours = row["stock"], row["manyhands"]
    print(
        f"{row['suite']:24} stock {stock['passed']:5} passed {stock['failed']:3} failed | "
        f"manyhands {ours['passed']:5} passed {ours['failed']:3} failed {ours['skipped']:4} skipped | "
        f"{len(row['lost'])} lost, {len(row['unexplained'])} unexplained | "
        f"{row['connections'].get('manyhands', 0)} connections | {row['seconds']} s | "
        f"{'kept' if row['kept'] else 'NOT KEPT'}",
        flush=True,
    )
    for driver, figures in row.get("figures", {}).items():
        print(f"    {driver:10}", ", ".join(f"{name} {figure}" for name, figure in figures.items()))
    for test in row["unexplained"][:20]:
        print("   ", test)


def fetch(requirement: str) -> Path:
    """The unpacked source distribution of a requirement."""
    name = re.split(r"[<>=]", requirement)[0]
    folder = WORK / "sources" / re.sub(r"[^\w.-]", "-", requirement)
    if not folder.exists():
        print(f"fetching {requirement}", file=sys.stderr)
        downloads = folder.with_suffix(".download")
        pip(sys.executable, "download", "--no-deps", "--no-binary", name, "-d", str(downloads), requirement)
        [archive] = downloads.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(downloads)
        [tree] = [path for path in downloads.iterdir() if path.is_dir()]
        tree.rename(folder)
        shutil.rmtree(downloads)
    return folder


def environment(suite: Suite) -> str:
    """A virtual environment with what the suite needs; its interpreter."""
    folder = WORK / "environments" / re.sub(r"[^\w.-]", "-", suite.source or f"program-{suite.needs}")
    python = str(folder / "bin" / "python")
    if not (folder / "complete").exists():
        print(f"installing what {suite.name} needs", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        if suite.needs:
            pip(python, "install", *suite.needs.split())
        (folder / "complete").touch()
    return python


def install_package() -> Path:
    """This tree's package, built and unpacked into a folder of its own."""
    package = WORK / "package"
    shutil.rmtree(package, ignore_errors=True)
    pip(sys.executable, "install", "--no-deps", "--target", str(package), str(HERE.parent))
    return package


def pip(python: str, *words: str) -> None:
    command: List[str] = [python, "-m", "pip", "-q", "--disable-pip-version-check", *words]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
