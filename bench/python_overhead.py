"""What one thread pays for `import manyhands` in place of `sqlite3`: the same code with both modules, in turn.

    python bench/python_overhead.py [--repeat 5] [--rows 1000000] [--directory .] | python3 bench/report python-overhead.jsonl

Both have the file in WAL mode at synchronous=FULL. A loop's speed is the time of the standard module divided by that
of manyhands in the same repetition: 1.00 is equal, more is faster. In each repetition a loop runs with one module right
after the other, and who goes first changes. One round before them is a warm-up. At the end the rows are counted, and
without all of them there is no figure.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import manyhands

READ_POINTS = 20_000
WRITES = 1_000
MANY = 100_000


class Loops:
    """What is measured, on a table `t` of this many rows and a table `w` that grows."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.by_name: dict[str, Callable[[Any], None]] = {
            f"SELECT of {rows:,} rows, fetchall": self.fetch_all,
            f"SELECT of {rows:,} rows, one by one": self.iterate,
            f"{READ_POINTS:,} SELECTs of one row": read_points,
            f"{WRITES:,} INSERTs, autocommit": autocommit,
            f"{WRITES:,} times INSERT and commit()": insert_and_commit,
            f"executemany of {MANY:,} rows": execute_many,
        }

    def prepare(self, module: Any, path: Path) -> Any:
        """The tables of one module, in a file of its own."""
        connection = module.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT, c REAL)")
        connection.execute("CREATE TABLE w (x)")
        rows = ((number, f"text {number}", number * 0.5) for number in range(self.rows))
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.commit()
        return connection

    def fetch_all(self, connection: Any) -> None:
        assert len(connection.execute("SELECT id, b, c FROM t").fetchall()) == self.rows

    def iterate(self, connection: Any) -> None:
        assert sum(1 for _ in connection.execute("SELECT id, b, c FROM t")) == self.rows


def read_points(connection: Any) -> None:
    for number in range(READ_POINTS):
        connection.execute("SELECT b FROM t WHERE id = ?", (number,)).fetchone()


def autocommit(connection: Any) -> None:
    connection.isolation_level = None
    for number in range(WRITES):
        connection.execute("INSERT INTO w VALUES (?)", (number,))
    connection.isolation_level = ""


def insert_and_commit(connection: Any) -> None:
    for number in range(WRITES):
        connection.execute("INSERT INTO w VALUES (?)", (number,))
        connection.commit()


def execute_many(connection: Any) -> None:
    connection.executemany("INSERT INTO w VALUES (?)", ((number,) for number in range(MANY)))
    connection.commit()


WRITTEN_EACH_ROUND = 2 * WRITES + MANY

Times = dict[str, dict[str, list[float]]]
"""Seconds by loop and module, one for each repetition."""


def measure(loops: Loops, connections: dict[str, Any], repeat: int) -> Times:
    times: Times = {loop: {module: [] for module in connections} for loop in loops.by_name}
    order = list(connections.items())
    for repetition in range(repeat + 1):
        for loop, run in loops.by_name.items():
            for module, connection in order:
                # What the other one has left behind is not this one's to clear away.
                gc.collect()
                began = time.perf_counter()
                run(connection)
                seconds = time.perf_counter() - began
                if repetition > 0:
                    times[loop][module].append(seconds)
        order.reverse()
    return times


def lost_rows(connections: dict[str, Any], repeat: int) -> list[str]:
    """Who does not have what it said to have written."""
    wanted = WRITTEN_EACH_ROUND * (repeat + 1)
    counts = {module: connection.execute("SELECT count(*) FROM w").fetchone()[0] for module, connection in connections.items()}
    return [f"{module}: {count} rows are there of {wanted}" for module, count in counts.items() if count != wanted]


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
        "engines": {
            "manyhands": f"Manyhands with SQLite {manyhands.sqlite_version}",
            "sqlite3": f"sqlite3 with SQLite {sqlite3.sqlite_version}",
            "python": f"Python {platform.python_version()}",
        },
    }


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, help="repetitions after the warm-up")
    parser.add_argument("--rows", type=int, default=1_000_000, help=f"rows of the long SELECTs, {READ_POINTS:,} at least")
    parser.add_argument("--directory", type=Path, default=Path("."), help="where the files are created")
    arguments = parser.parse_args()
    if arguments.repeat < 1 or arguments.rows < READ_POINTS:
        parser.error(f"--repeat must be at least 1, --rows at least {READ_POINTS}")
    loops = Loops(arguments.rows)
    with tempfile.TemporaryDirectory(prefix="manyhands-bench-", dir=arguments.directory) as directory:
        modules = (sqlite3, manyhands)
        connections = {module.__name__: loops.prepare(module, Path(directory, module.__name__)) for module in modules}
        times = measure(loops, connections, arguments.repeat)
        lost = lost_rows(connections, arguments.repeat)
        for connection in connections.values():
            connection.close()
    if lost:
        print("CHECK FAILED:", *lost, sep="\n", file=sys.stderr)
        return 1
    where = circumstances(arguments.directory)
    for loop, of in times.items():
        print(json.dumps({"workload": "python-overhead", "loop": loop, "seconds": of, "circumstances": where}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
