"""Unmodified drivers with plain SQLite and with manyhands, one right after the other: the workload `drivers`. Last of all, what single calls take.

    python crates/manyhands-c/drivers/measure.py [--seconds 1] [--repeat 3] [--processes 1,8] [--only php-pdo,c] [--jobs insert] > drivers.jsonl
    python3 bench/report drivers.jsonl

Each figure is of fresh processes at a fresh file in WAL mode, synchronous=FULL, busy timeout 5 s, with either library of the drop-in's folder. There
is no figure where the database does not hold exactly what was acknowledged: the line has a ``broken`` instead, and the exit status is 1. Errors are
counted, not broken promises: with plain SQLite "database is locked" is to be expected.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crowd import BUILT, DRIVERS, DROPIN, JOBS, PROGRAMS, Words, create, library, run_crowd, version

ENGINES = ("stock", "manyhands")
CALL_ROUNDS = 5
"""How often the single calls are measured."""


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--processes", default="1,8")
    parser.add_argument("--only", default="", help="drivers, by default all that are installed")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--directory", type=Path, default=Path("."), help="where the files are created")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else [driver.name for driver in DRIVERS]
    where = circumstances(options.directory)
    is_sound = True
    for driver in (driver for driver in DRIVERS if driver.name in chosen):
        command = driver.command()
        if command is None:
            print(f"{driver.name}: not installed: {driver.interpreter}", file=sys.stderr)
            continue
        for job in options.jobs.split(","):
            for processes in map(int, options.processes.split(",")):
                for repetition in range(options.repeat):
                    for engine in ENGINES:
                        cell = {"driver": driver.name, "job": job, "processes": processes, "engine": engine, "repetition": repetition}
                        figures = measure(command, library(engine), job, processes, options)
                        is_sound &= not figures["broken"]
                        write(cell | {"figures": figures, "circumstances": where | {"load": os.getloadavg()[0]}})
    for engine, calls in measure_calls(options.directory).items():
        write({"calls": calls, "engine": engine, "circumstances": where | {"load": os.getloadavg()[0]}})
    return 0 if is_sound else 1


def measure(command: Words, preloaded: Path, job: str, processes: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="manyhands-drivers-", dir=options.directory) as folder:
        try:
            return asdict(run_crowd(command, preloaded, job, processes, options.seconds, Path(folder, "crowd.db")))
        except ChildProcessError as error:
            return {"broken": [f"a worker {error}"]}


def measure_calls(directory: Path) -> dict[str, dict[str, float]]:
    """Nanoseconds of single calls by engine, in turn: the middle of the rounds."""
    program = BUILT / "calls"
    BUILT.mkdir(parents=True, exist_ok=True)
    words = ["-O1", "-Wall", f"-I{DROPIN / 'include'}", str(PROGRAMS / "calls.c"), f"-L{DROPIN / 'stock'}", "-l:libsqlite3.so.0", "-o", str(program)]
    subprocess.run(["cc", *words], check=True)
    told: dict[str, list[dict[str, float]]] = {engine: [] for engine in ENGINES}
    with tempfile.TemporaryDirectory(prefix="manyhands-drivers-", dir=directory) as folder:
        database = Path(folder, "calls.db")
        create(database)
        for _ in range(CALL_ROUNDS):
            for engine in ENGINES:
                environment = {**os.environ, "LD_PRELOAD": str(library(engine))}
                told[engine].append(json.loads(subprocess.check_output([str(program), str(database)], env=environment)))
    return {engine: {call: statistics.median(one[call] for one in all_) for call in all_[0]} for engine, all_ in told.items()}


def circumstances(directory: Path) -> dict[str, Any]:
    """Where and with what: the names are those of the benchmark."""
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    found = subprocess.run(["stat", "-f", "-c", "%T", str(directory)], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "command": " ".join(sys.argv),
        "machine": next((line.split(":", 1)[1].strip() for line in processors if line.startswith("model name")), "unknown"),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        # statfs(2) has one number for all three.
        "file_system": "ext4" if found == "ext2/ext3" else found,
        "commit": os.environ.get("MANYHANDS_COMMIT"),
        "engines": {"manyhands": f"Manyhands with SQLite {version()}", "stock": f"SQLite {version()}"},
    }


def write(line: dict[str, Any]) -> None:
    print(json.dumps({"run": "drivers"} | line, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    sys.exit(main())
