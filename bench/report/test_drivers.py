"""The workload `drivers`, as a reader sees it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from drivers import Drivers, markdown, read_drivers, table, text_drivers

WHERE = {"command": "measure.py", "machine": "Fast", "cores": 2, "file_system": "ext4", "kernel": "6", "commit": "abc", "load": 1.5}


def line(engine: str, rate: float, job: str = "insert", processes: int = 8, **figures: Any) -> str:
    usual = {"done": 300, "errors": 0, "first_error": "", "wait_ms_max": 12.0, "per_second": rate, "sqlite": "3", "broken": []}
    cell = {"driver": "php-pdo", "job": job, "processes": processes, "engine": engine, "repetition": 0}
    return json.dumps(cell | {"figures": usual | figures, "circumstances": WHERE})


def calls(engine: str, ns: float) -> str:
    return json.dumps({"calls": {"changes": ns, "errcode": 5.0}, "engine": engine, "circumstances": WHERE})


def measured(*lines: str) -> Drivers:
    return read_drivers(lines)


def test_rates_errors_and_waits_stand_beside_each_other() -> None:
    drivers = measured(line("stock", 100, errors=100, wait_ms_max=3800.0), line("manyhands", 450), line("stock", 90), line("manyhands", 380))
    for text in (text_drivers(drivers), markdown(drivers), table(drivers)):
        for words in ("php-pdo", "415/s", "95/s", "14%", "4.36x (4.22 to 4.50)"):
            assert words in text, text


def verdicts(drivers: Drivers) -> dict[str, tuple[str, bool]]:
    return {it.target: (it.measured, it.met) for it in drivers.verdicts()}


def test_what_is_not_enough_is_named() -> None:
    slow = verdicts(measured(line("stock", 100), line("manyhands", 390), calls("stock", 6.0), calls("manyhands", 40.0)))
    assert slow["INSERT without a transaction, 8 processes: 4 times SQLite"] == ("3.90x (3.90 to 3.90): php-pdo, the least of 1", False)
    assert slow["a call that does next to nothing takes at most 25 ns more"] == ("+34 ns: sqlite3_changes", False)
    fast = verdicts(measured(line("stock", 100), line("manyhands", 410), calls("stock", 6.0), calls("manyhands", 20.0)))
    assert all(met for _, met in fast.values()), fast


def test_calls_alone_have_no_rates() -> None:
    drivers = measured(calls("stock", 6.0), calls("manyhands", 16.0))
    assert list(verdicts(drivers)) == ["a call that does next to nothing takes at most 25 ns more"]
    assert "`changes` +10, `errcode` +0." in markdown(drivers)
    assert "times SQLite" not in markdown(drivers)


@pytest.mark.parametrize("figures, words", [({"errors": 2}, "2 errors, 0 checks failed"), ({"broken": ["a row is missing"]}, "0 errors, 1 checks failed")])
def test_an_error_or_a_broken_promise_is_no_success(figures: dict[str, Any], words: str) -> None:
    drivers = measured(line("stock", 100), line("manyhands", 500, **figures))
    assert verdicts(drivers)["no driver is told an error"] == (words, False)
    assert ("a row is missing" in markdown(drivers)) == ("broken" in figures)


def test_what_is_no_line_is_named() -> None:
    with pytest.raises(ValueError, match="line 2: not a line of crates/manyhands-c/drivers/measure.py"):
        read_drivers([line("stock", 1), '{"driver": "php-pdo"}'])
