"""Runs ActiveRecord's own tests with the stock adapter and with the adapter manyhands, and compares test by test.

    python bindings/ruby/suites/activerecord.py [--adapter-only] [--again] [--stored] [--json FILE]

The tests are those of Debian's source of the installed Rails. A test that passes with the stock adapter and not with manyhands is lost, unless
`explained.txt` says why. Tests that asked for the class SQLite3::Database get Manyhands::Database: the gem sqlite3 is not loaded in that half.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]
sys.path.insert(0, str(TREE / "crates/manyhands-c/drivers"))

import results  # noqa: E402
from sources import SUITES, debian_source  # noqa: E402

WORK = SUITES / "ruby"
EXPLAINED = HERE / "explained.txt"
GEM = HERE.parent / "lib"
FILES_AT_ONCE = 40
"""Each process takes a second to begin."""
PROCESS_SECONDS_MAX = 600
OTHER_DATABASES = ("adapters/mysql", "adapters/postgresql", "adapters/trilogy", "adapters/abstract_mysql")
CONFIGURATION = """
default_connection: sqlite3
connections:
  sqlite3:
    arunit: {{adapter: {adapter}, database: "{folder}/one.sqlite3", timeout: 5000}}
    arunit2: {{adapter: {adapter}, database: "{folder}/two.sqlite3", timeout: 5000}}
"""


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--adapter-only", action="store_true", help="only the tests of the SQLite adapter")
    parser.add_argument("--again", action="store_true", help="run the stock half too if its results are there")
    parser.add_argument("--stored", action="store_true", help="run nothing: compare what the last runs left")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    for half in ("stock", "manyhands"):
        left = results_of(half, options.adapter_only)
        if not options.stored and (half == "manyhands" or options.again or not left.exists()):
            run_half(half, options.adapter_only)
    comparison = compare(options.adapter_only)
    if options.json:
        options.json.write_text(json.dumps(comparison, indent=1) + "\n")
    return int(bool(comparison["lost"]) or not comparison["stock"]["passed"])


def results_of(half: str, adapter_only: bool) -> Path:
    return WORK / f"activerecord-{'adapter' if adapter_only else 'all'}-{half}.json"


def run_half(half: str, adapter_only: bool) -> None:
    adapter = "manyhands" if half == "manyhands" else "sqlite3"
    files = WORK / f"files-{half}"
    files.mkdir(parents=True, exist_ok=True)
    configuration = WORK / f"{half}.yml"
    configuration.write_text(CONFIGURATION.format(adapter=adapter, folder=files))
    folder = debian_source("rails") / "activerecord"
    words = ["ruby", "-W0", "-Itest", "-Ilib", "-I../activesupport/lib", "-I../activemodel/lib"]
    words += [f"-I{GEM}"] if half == "manyhands" else []
    words += [str(HERE / "activerecord_tests.rb"), "-v", "--seed", "1"]
    outcomes: dict[str, str] = {}
    began = time.monotonic()
    left = results_of(half, adapter_only)
    with left.with_suffix(".log").open("w") as log:
        for tests in chunks(folder, adapter_only):
            environment = {**os.environ, "ARCONN": "sqlite3", "ARCONFIG": str(configuration), "ADAPTER": adapter, "SUITE_TESTS": " ".join(tests)}
            environment.pop("RUBYOPT", None)
            ended = subprocess.run(
                ["timeout", "--kill-after=5", str(PROCESS_SECONDS_MAX), *words],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
            log.write(f"## {tests[0]}\n{ended.stdout}\n## ended with {ended.returncode}\n")
            # 124 and more: ended by `timeout`, or killed by a signal.
            outcomes |= {f"{tests[0]} ends": "passed" if 0 <= ended.returncode < 124 else "failed"}
            outcomes |= results.read_minitest(tests[0], ended.stdout)
    left.write_text(json.dumps({"tests": outcomes, "seconds": round(time.monotonic() - began, 1)}, indent=0, sort_keys=True))


def chunks(folder: Path, adapter_only: bool) -> list[list[str]]:
    pattern = "test/cases/adapters/sqlite3/**/*_test.rb" if adapter_only else "test/cases/**/*_test.rb"
    found = [str(file.relative_to(folder)) for file in sorted(folder.glob(pattern))]
    found = [file for file in found if not any(other in file for other in OTHER_DATABASES)]
    return [found[first : first + FILES_AT_ONCE] for first in range(0, len(found), FILES_AT_ONCE)]


def explanations() -> dict[str, str]:
    """Reasons by test, or by the beginning of tests that end with an asterisk."""
    lines = [line for line in EXPLAINED.read_text().splitlines() if line and not line.startswith("#")]
    return {test.strip(): reason.strip() for test, _, reason in (line.partition(": ") for line in lines)}


def compare(adapter_only: bool) -> dict[str, Any]:
    stock, ours = (json.loads(results_of(half, adapter_only).read_text()) for half in ("stock", "manyhands"))
    explained = explanations()
    missing = sorted(test for test, outcome in stock["tests"].items() if outcome == "passed" and ours["tests"].get(test) != "passed")
    lost = [test for test in missing if test not in explained]
    comparison = {
        "suite": "activerecord-adapter" if adapter_only else "activerecord",
        "stock": counts(stock["tests"]),
        "manyhands": counts(ours["tests"]),
        "explained": {test: explained[test] for test in missing if test in explained},
        "lost": lost,
        "seconds": [stock["seconds"], ours["seconds"]],
    }
    print(json.dumps({key: value for key, value in comparison.items() if key not in ("explained", "lost")}))
    for test in missing:
        print(f"  {test}: {explained.get(test, 'LOST')}")
    return comparison


def counts(tests: dict[str, str]) -> dict[str, int]:
    outcomes = list(tests.values())
    return {kind: outcomes.count(kind) for kind in ("passed", "failed", "skipped")}


if __name__ == "__main__":
    sys.exit(main())
