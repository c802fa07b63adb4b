"""What one thread pays for `import manyhands` in place of `sqlite3`: the same code with both modules, in turn.

    python bench/python_overhead.py [--repeat 5] [--json FILE]

Both have the file in WAL mode at synchronous=FULL. Each loop's time is that of the standard module divided by that
of manyhands in the same repetition: 1.00 is equal, more is faster. Rows are counted after the last repetition.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import manyhands

ROWS = 200_000
READ_POINTS = 20_000
WRITES = 1_000
MANY = 100_000


def prepare(module: Any, path: Path) -> Any:
    connection = module.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b TEXT, c REAL)")
    connection.execute("CREATE TABLE w (x)")
    rows = ((number, f"text {number}", number * 0.5) for number in range(ROWS))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    connection.commit()
    return connection


def fetch_all(connection: Any) -> None:
    assert len(connection.execute("SELECT id, b, c FROM t").fetchall()) == ROWS


def iterate(connection: Any) -> None:
    assert sum(1 for _ in connection.execute("SELECT id, b, c FROM t")) == ROWS


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


LOOPS: dict[str, Callable[[Any], None]] = {
    "SELECT of 200,000 rows, fetchall": fetch_all,
    "SELECT of 200,000 rows, one by one": iterate,
    "20,000 SELECTs of one row": read_points,
    "1,000 INSERTs, autocommit": autocommit,
    "1,000 times INSERT and commit()": insert_and_commit,
    "executemany of 100,000 rows": execute_many,
}
WRITTEN = 2 * WRITES + MANY


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        modules = (sqlite3, manyhands)
        engines = {it.__name__: prepare(it, Path(directory, it.__name__)) for it in modules}
        times: dict[str, dict[str, list[float]]] = {loop: {engine: [] for engine in engines} for loop in LOOPS}
        for _ in range(arguments.repeat):
            for loop, run in LOOPS.items():
                for engine, connection in engines.items():
                    began = time.perf_counter()
                    run(connection)
                    times[loop][engine].append(time.perf_counter() - began)
        for engine, connection in engines.items():
            count = connection.execute("SELECT count(*) FROM w").fetchone()[0]
            if count != WRITTEN * arguments.repeat:
                print(f"{engine}: {count} rows are there of {WRITTEN * arguments.repeat}", file=sys.stderr)
                return 1
            connection.close()
    print(f"{'':36}{'sqlite3':>10}{'manyhands':>11}   speed (least to most)")
    for loop, of in times.items():
        ratios = sorted(stock / ours for stock, ours in zip(of["sqlite3"], of["manyhands"]))
        stock, ours = (statistics.median(of[engine]) * 1e3 for engine in ("sqlite3", "manyhands"))
        ratio = statistics.median(ratios)
        print(f"{loop:36}{stock:7.1f} ms{ours:8.1f} ms   {ratio:.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    if arguments.json:
        with arguments.json.open("a") as lines:
            for loop, of in times.items():
                line = {"workload": "python-overhead", "loop": loop, "seconds": of, "command": " ".join(sys.argv)}
                lines.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
