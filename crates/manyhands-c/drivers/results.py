"""What became of each test, read from what a runner has printed: {id: "passed", "failed" or "skipped"}.

An id names neither library nor file system. A test that is told twice has the worse of its outcomes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Outcomes = dict[str, str]
WORST_FIRST = ("failed", "skipped", "passed")


def collect(told: Iterator[tuple[str, str]]) -> Outcomes:
    outcomes: Outcomes = {}
    for test, outcome in told:
        outcomes[test] = min(outcome, outcomes.get(test, "passed"), key=WORST_FIRST.index)
    return outcomes


def read_tap(title: str, output: str) -> Outcomes:
    """Test::More: ``not ok 3 - name``; the number alone where there is no name, since names may hold what differs."""
    return collect(tap_lines(title, output))


def tap_lines(title: str, output: str) -> Iterator[tuple[str, str]]:
    for line in output.splitlines():
        found = re.match(r"(not )?ok (\d+)(?:[^#]*)(# *(?:skip|todo))?", line, re.IGNORECASE)
        if found:
            failed, number, excused = found.groups()
            yield f"{title} {number}", "skipped" if excused else "failed" if failed else "passed"
        elif line.startswith("1..0"):
            yield title, "skipped"


def read_sqlite(title: str, output: str) -> Outcomes:
    """SQLite's tester.tcl: ``name... Ok``, and ``! name expected: [...]`` after what went wrong."""
    return collect(sqlite_lines(title, output))


def sqlite_lines(title: str, output: str) -> Iterator[tuple[str, str]]:
    for line in output.splitlines():
        if found := re.match(r"(\S+)\.\.\. (Ok|Omitted)$", line):
            yield f"{title} {found[1]}", "passed" if found[2] == "Ok" else "skipped"
        elif found := re.match(r"! (\S+) expected", line):
            yield f"{title} {found[1]}", "failed"


def read_phpt(title: str, output: str) -> Outcomes:
    """PHP's run-tests.php: ``PASS name [path]``. A redirected test has the path of what it is of."""
    return collect(phpt_lines(output))


def phpt_lines(output: str) -> Iterator[tuple[str, str]]:
    kinds = {"PASS": "passed", "SKIP": "skipped", "XFAIL": "skipped"}
    for line in re.sub(r"\x1b\[[\d;]*m", "", output).splitlines():
        if line.startswith("====") and "SUMMARY" in line:
            return
        found = re.match(r"(PASS|FAIL|SKIP|XFAIL|BORK|LEAK|WARN|XLEAK)[^ ]* .*\[(\S+\.phpt)\]", line)
        if found:
            yield found[2], kinds.get(found[1], "failed")


def read_minitest(title: str, output: str) -> Outcomes:
    """Ruby's minitest -v: ``TestClass#test_name = 0.00 s = .``."""
    kinds = {".": "passed", "S": "skipped"}
    found = re.findall(r"^(.*?#.+) = [\d.]+ s = (\S)", output, re.MULTILINE)
    return collect((test, kinds.get(kind, "failed")) for test, kind in found)


def read_go(title: str, output: str) -> Outcomes:
    """go test -json: a line for each event."""
    return collect(go_lines(output))


def go_lines(output: str) -> Iterator[tuple[str, str]]:
    kinds = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    for line in output.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "Test" in event and event["Action"] in kinds:
            yield event["Test"], kinds[event["Action"]]
