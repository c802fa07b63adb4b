"""Unmodified drivers with plain SQLite and with manyhands, one right after the other.

    python crates/manyhands-c/drivers/measure.py [--seconds 2] [--processes 1,8] [--only php-pdo,c] [--jobs insert] [--json FILE]

Each figure is of fresh processes at a fresh file in WAL mode, synchronous=FULL, busy timeout 5 s, with either library of the drop-in's folder. There
is no figure where the database does not hold exactly what was acknowledged: the line has a ``broken`` instead, and the exit status is 1. Errors are
counted, not broken promises: with plain SQLite "database is locked" is to be expected.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

from crowd import DRIVERS, JOBS, Words, library, run_crowd

ENGINES = ("stock", "manyhands")


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--repeat", type=int, default=1, help="the table shows the repetition whose rate is in the middle")
    parser.add_argument("--processes", default="1,8")
    parser.add_argument("--only", default="", help="drivers, by default all that are installed")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--directory", type=Path, default=Path("."), help="where the files are created")
    parser.add_argument("--json", type=Path, help="add a line for each figure to this file")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [driver.name for driver in DRIVERS]
    kept = True
    print(f"{'driver':20} {'job':16} processes |{'stock':>9}/s {'errors':>7} {'worst':>9} |{'ours':>9}/s {'errors':>7} {'worst':>9} | ours/stock")
    for driver in (driver for driver in DRIVERS if driver.name in chosen):
        command = driver.command()
        if command is None:
            print(f"{driver.name:20} not installed: {driver.interpreter}")
            continue
        for job in options.jobs.split(","):
            for processes in map(int, options.processes.split(",")):
                lines = [
                    {"driver": driver.name, "job": job, "processes": processes, "engine": engine, "repetition": repetition}
                    | measure(command, library(engine), job, processes, options)
                    for repetition in range(1, options.repeat + 1)
                    for engine in ENGINES
                ]
                kept &= not any(line["broken"] for line in lines)
                write(lines, options.json, options.directory)
                print_row(lines)
    return 0 if kept else 1


def measure(command: Words, preloaded: Path, job: str, processes: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="manyhands-drivers-", dir=options.directory) as folder:
        try:
            return asdict(run_crowd(command, preloaded, job, processes, options.seconds, Path(folder, "crowd.db")))
        except ChildProcessError as error:
            return {"broken": [f"a worker {error}"]}


def write(lines: list[dict[str, Any]], file: Optional[Path], directory: Path) -> None:
    if file is None:
        return
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    where = {
        "command": " ".join(sys.argv),
        "machine": next((line.split(":", 1)[1].strip() for line in processors if line.startswith("model name")), "unknown"),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "commit": os.environ.get("MANYHANDS_COMMIT"),
    }
    with file.open("a") as stream:
        stream.writelines(json.dumps({"run": "drivers", **line, **where}) + "\n" for line in lines)


def print_row(lines: list[dict[str, Any]]) -> None:
    """The line of the table, and below it what broke or failed."""
    stock, ours = (middle([line for line in lines if line["engine"] == engine]) for engine in ENGINES)
    ratio = f"{ours['per_second'] / stock['per_second']:10.2f}" if stock.get("per_second") and ours.get("per_second") else f"{'-':>10}"
    first = lines[0]
    print(f"{first['driver']:20} {first['job']:16} {first['processes']:9} |{show(stock)} |{show(ours)} | {ratio}", flush=True)
    for engine, line in zip(ENGINES, (stock, ours)):
        for words in [*line["broken"], *filter(None, [line.get("first_error")])]:
            print(f"    {engine}: {words.strip()}")


def middle(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The repetition whose rate is in the middle, or the first that broke."""
    ranked = sorted(lines, key=lambda line: line.get("per_second", 0))
    return next((line for line in lines if line["broken"]), ranked[len(ranked) // 2])


def show(line: dict[str, Any]) -> str:
    if line["broken"]:
        return f"{'BROKEN':>29}"
    return f"{line['per_second']:11.0f} {line['errors']:7} {line['wait_ms_max'] / 1000:7.3f} s"


if __name__ == "__main__":
    sys.exit(main())
