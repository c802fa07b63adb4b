"""A table from lines, as a reader sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from measurements import OPERATIONS_LEAST, RUN, Run, load, read
from tables import html_table, notes, rows, text_table

REPORT = Path(__file__).parent
WHERE = {"machine": "Fast", "cores": 2, "file_system": "ext4", "kernel": "6", "manyhands": "0", "sqlite": "0", "commit": "abc", "sync_us": 1000}


def line(engine: str, commits: float, task: dict[str, Any] | None = None, label: str = "2 writers", check: str = "ok", **figures: Any) -> str:
    """A measurement of a second, with these figures in place of some."""
    waits = {name: 10.0 for name in ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "p9999_ms", "max_ms")}
    effort = {"retries": 0, "conflicts": 0}
    latency = {"max_ns": 10_000_000, "histogram_ns": [[10_000_000, OPERATIONS_LEAST["p9999_ms"]]]}
    all_figures = {"commits_per_s": commits, "acknowledged": commits, "errors": {}, "latency": latency, "effort": effort, "cpu_s": 0.5, "wal": []}
    row = {
        "workload": "test",
        "cell": {"label": label, "task": task or {"kind": "count", "threads": 2}, "processes": 1},
        "engine": engine,
        "figures": waits | all_figures | figures if check == "ok" else None,
        "check": check,
        "circumstances": WHERE | {"left_out": {"turso": "only one process can have the file"}},
    }
    return json.dumps(row)


def run_of(*lines: str) -> Run:
    return read("test", lines)


def cells(run: Run, engine: str, label: str = "2 writers") -> dict[str, str]:
    names, found = rows(run)
    return next(dict(zip(names, row.cells)) for row in found if (row.engine, row.label) == (engine, label))


def test_medians_and_ratios() -> None:
    """Repetitions run in changing order; the ratio is the median of the pairs' ratios."""
    run = run_of(line("manyhands", 300), line("stock", 100), line("stock", 100), line("manyhands", 500))
    ours = cells(run, "manyhands")
    assert (ours["commits/s"], ours["least–most"], ours["x stock"]) == ("400", "300–500", "4.00x")
    assert cells(run, "stock")["x stock"] == "1.00x"


def test_a_repetition_without_a_figure_takes_its_pair_out() -> None:
    """What a noisy machine does to one it does to the other: only what ran together is compared."""
    run = run_of(line("manyhands", 20), line("stock", 10), line("manyhands", 0, check="failed"), line("stock", 10), line("manyhands", 60), line("stock", 20))
    assert cells(run, "manyhands")["x stock"] == "2.50x"


def test_a_failed_check_has_no_figure() -> None:
    """It is told with its reason, in the table and below it; one failed repetition takes only its own out."""
    failed = "6 in the file, 7 acknowledged"
    run = run_of(line("manyhands", 0, check=failed), line("stock", 0, check=failed), line("stock", 100))
    assert cells(run, "manyhands")["commits/s"] == "CHECK FAILED"
    assert cells(run, "stock")["commits/s"] == "100"
    assert f"2 writers, manyhands: no figure, since {failed}" in notes(run)
    assert len([note for note in notes(run) if failed in note]) == 2


def test_what_was_refused_and_who_is_missing() -> None:
    """Kinds of errors add up over the repetitions."""
    run = run_of(*[line("stock", 100, errors={"database is locked": 2})] * 2)
    assert cells(run, "stock")["errors"] == "4"
    assert notes(run) == ["2 writers, stock: 4 x 'database is locked'", "turso did not take part: only one process can have the file"]


def test_columns_that_nobody_has_are_left_out() -> None:
    """Retries only where something was run again, shares of waits only where there are operations enough."""
    assert "retries /100" not in cells(run_of(line("stock", 100)), "stock")
    again = run_of(line("stock", 200, effort={"retries": 30, "conflicts": 20}, retries_per_100=15.0))
    assert (cells(again, "stock")["retries /100"], cells(again, "stock")["conflicts"]) == ("15", "20")
    few = run_of(line("stock", 9, latency={"max_ns": 1, "histogram_ns": [[1, 999]]}))
    assert "p99" in cells(few, "stock") and "p99.9" not in cells(few, "stock")


def test_the_long_job() -> None:
    """How often it was committed, and how long it took."""
    job = {"refusal": "database is locked", "retries": 1, "elapsed_s": 2.0}
    run = run_of(line("stock", 100, long_job=job), line("stock", 100, long_job=job | {"refusal": None}))
    assert (cells(run, "stock")["long job"], cells(run, "stock")["its time"]) == ("1 of 2", "2 s")
    assert "2 writers, stock: a long job was refused: 'database is locked'" in notes(run)


def test_the_wal_beside_the_reader_and_after_it() -> None:
    """What happened until the reader's end, and what after it."""
    wal = [[100, 4_000_000, 1], [200, 8_000_000, 1], [300, 9_000_000, 1], [400, 9_000_000, 6]]
    ours = cells(run_of(line("stock", 100, {"kind": "endless-reader"}, reader={"ended_s": 0.2}, wal=wal)), "stock")
    assert (ours["WAL"], ours["restarts beside"], ours["restarts after"]) == ("9 MB", "1", "5")


def test_a_web_servers_requests() -> None:
    """One of four failed; the slowest that created is the last percentile; the requests cost something, too."""
    posts = {"max_ns": 30_000_000, "histogram_ns": [[1_000_000, 1], [30_100_000, 1]]}
    ours = cells(run_of(line("stock", 3, errors={"500": 1}, generator_cpu_s=0.25, insert_latency=posts)), "stock")
    assert (ours["failed"], ours["the insert's p99"], ours["CPU s"], ours["of the requests"]) == ("25 %", "30 ms", "0.5", "0.25")


def test_both_forms_have_the_same_figures() -> None:
    """The page and the terminal show one table."""
    run = run_of(line("manyhands", 300), line("stock", 100), line("manyhands", 1, label="4 writers"))
    page, text = html_table(run), text_table(run)
    for label in ("2 writers", "4 writers"):
        assert f">{label}" in page and text.count(label) == 1
    assert "<span class=win>3.00x</span>" in page and "3.00x" in text
    widths = {len(row) for row in text.splitlines() if "stock" in row}
    assert len(widths) == 1, text


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"cell": 1}'])
def test_lines_of_something_else(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        run_of(text)


def test_the_program_reads_what_the_benchmark_writes() -> None:
    """From stdin, with Python alone; it fails where a check has."""
    for check, code in (("ok", 0), ("lost a row", 1)):
        command = [sys.executable, "-S", str(REPORT), "-"]
        done = subprocess.run(command, input=line("stock", 100, check=check), text=True, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
        assert "2 writers" in done.stdout
        assert "Fast, 2 cores, ext4, Linux 6, 1,000 us more for each sync; " in done.stdout


def test_one_file_of_many_workloads(tmp_path: Path) -> None:
    """What was kept of several workloads is told apart by the first word of a line."""
    kept = tmp_path / "machine.jsonl"
    first, second = line("stock", 100), line("stock", 200)
    kept.write_text("".join(f'{RUN}{name}",{text[1:]}\n' for name, text in (("a", first), ("b", second), ("a", first))))
    assert [(run.name, len(run.series[0].figures)) for run in load(kept)] == [("a", 2), ("b", 1)]
