"""Small programs as people write them, with the standard module and with manyhands in its place, in its default mode.

    python bench/shapes.py [--seconds 2] [--repeat 3] [--only WORDS] | python3 bench/report shapes.jsonl

A *shape* is what processes of one program do again and again: an INSERT and a commit, a transaction that reads before it writes, open and close.
Each is measured in fresh processes on a fresh file in WAL mode at synchronous=FULL, with one module right after the other. Afterwards the standard
module looks into the file: what the shape adds to its numbers must be what was acknowledged, or there is no figure.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import manyhands
from python_overhead import circumstances

MODULES = {"manyhands": manyhands, "stock": sqlite3}
PROCESSES = multiprocessing.get_context("fork")
"""This process opens no database through either module but to look into it afterwards: a child inherits nothing."""
ITEMS = 1_000
TIMEOUT_S = 10
"""How long a program waits for its turn."""
HANGS_AFTER_S = 60
"""What processes may take beyond their seconds: a wait for the turn, and a busy machine."""
SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, note TEXT);
CREATE TABLE event (id INTEGER PRIMARY KEY, what);
CREATE TABLE tag (id INTEGER PRIMARY KEY, name UNIQUE, uses INTEGER NOT NULL DEFAULT 0);
CREATE TABLE page (id INTEGER PRIMARY KEY, body TEXT);
CREATE VIRTUAL TABLE found USING fts5 (body);
CREATE TRIGGER to_found AFTER INSERT ON page BEGIN INSERT INTO found (rowid, body) VALUES (new.id, new.body); END;
"""
WRITTEN = "SELECT (SELECT sum(n) FROM item) + (SELECT count(*) FROM event) + (SELECT coalesce(sum(uses), 0) FROM tag) + (SELECT count(*) FROM page)"
"""What all shapes add to."""


@dataclass
class Program:
    """One process of a shape."""

    module: Any
    path: Path
    number: int
    connection: Any = None
    generator: random.Random = field(default_factory=random.Random)

    def connect(self, **options: Any) -> Any:
        return self.module.connect(self.path, timeout=TIMEOUT_S, **options)

    def execute(self, sql: str, *values: Any) -> Any:
        return self.connection.execute(sql, values)

    def item(self) -> int:
        return self.generator.randint(1, ITEMS)


Act = Callable[[Program], Any]


@dataclass(frozen=True)
class Shape:
    name: str
    processes: int
    act: Act
    adds: int = 1
    """What one act adds to the numbers of the file."""
    beside: Optional[Act] = None
    """What one more process does meanwhile; it adds nothing, or what an act adds."""
    beside_adds: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    """Of `connect`."""
    prepare: Optional[Act] = None
    """Once in each process."""
    is_open: bool = True
    """It has a connection all the time."""

    @property
    def label(self) -> str:
        return f"{self.name}, {self.processes} process{'es' * (self.processes > 1)}"


def select(p: Program) -> None:
    p.execute("SELECT n, note FROM item WHERE id = ?", p.item()).fetchone()


def scan(p: Program) -> None:
    p.execute("SELECT id, n, note FROM item").fetchall()


def update(p: Program) -> None:
    p.execute("UPDATE item SET n = n + 1 WHERE id = ?", p.item())
    p.connection.commit()


def insert(p: Program) -> None:
    p.execute("INSERT INTO event (what) VALUES (?)", p.number)
    p.connection.commit()


def insert_and_ask_for_the_id(p: Program) -> None:
    assert p.execute("INSERT INTO event (what) VALUES (?)", p.number).lastrowid
    p.connection.commit()


def insert_in_a_block(p: Program) -> None:
    with p.connection:
        p.execute("INSERT INTO event (what) VALUES (?)", p.number)


def insert_returning(p: Program) -> None:
    assert p.execute("INSERT INTO event (what) VALUES (?) RETURNING id", p.number).fetchone()
    p.connection.commit()


def update_and_count(p: Program) -> None:
    assert p.execute("UPDATE item SET n = n + 1 WHERE id = ?", p.item()).rowcount == 1
    p.connection.commit()


def insert_unique(p: Program) -> None:
    p.execute("INSERT INTO tag (name, uses) VALUES (?, 1)", p.generator.getrandbits(60))
    p.connection.commit()


def upsert(p: Program) -> None:
    p.execute("INSERT INTO tag (name, uses) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET uses = uses + 1", p.generator.randint(1, 100))
    p.connection.commit()


def delete_and_insert(p: Program) -> None:
    name = p.generator.randint(1, ITEMS)
    p.execute("DELETE FROM tag WHERE name = ?", name)
    p.execute("INSERT INTO tag (name) VALUES (?)", name)
    p.connection.commit()


def update_and_select(p: Program) -> None:
    item = p.item()
    p.execute("UPDATE item SET n = n + 1 WHERE id = ?", item)
    assert p.execute("SELECT n FROM item WHERE id = ?", item).fetchone()[0] >= 1
    p.connection.commit()


def read_and_write(begin: str) -> Act:
    def act(p: Program) -> None:
        p.execute(begin)
        item = p.item()
        (before,) = p.execute("SELECT n FROM item WHERE id = ?", item).fetchone()
        p.execute("UPDATE item SET n = ? WHERE id = ?", before + 1, item)
        p.execute("COMMIT")

    return act


def read_twice(p: Program) -> None:
    p.execute("BEGIN")
    select(p)
    p.execute("SELECT count(*) FROM item WHERE id < 50").fetchone()
    p.execute("COMMIT")


def insert_many(count: int, is_list: bool) -> Act:
    def act(p: Program) -> None:
        rows = ((number,) for number in range(count))
        p.connection.executemany("INSERT INTO event (what) VALUES (?)", list(rows) if is_list else rows)
        p.connection.commit()

    return act


def insert_page(p: Program) -> None:
    p.execute("INSERT INTO page (body) VALUES (?)", f"some words and the number {p.item()}")
    p.connection.commit()


def insert_large(p: Program) -> None:
    p.execute("INSERT INTO event (what) VALUES (?)", bytes(200_000))
    p.connection.commit()


def give_a_function(p: Program) -> None:
    p.connection.create_function("one_more", 1, lambda number: number + 1)


def update_by_the_function(p: Program) -> None:
    p.execute("UPDATE item SET n = one_more(n) WHERE id = ?", p.item())
    p.connection.commit()


def by_way_of_a_temp_table(p: Program) -> None:
    p.execute("CREATE TEMP TABLE IF NOT EXISTS mine (id)")
    p.execute("INSERT INTO mine SELECT id FROM item WHERE id < 20")
    p.execute("UPDATE item SET n = n + 1 WHERE id = (SELECT max(id) FROM mine)")
    p.execute("DELETE FROM mine")
    p.connection.commit()


def open_and_insert(p: Program) -> None:
    with closing(p.connect()) as connection:
        connection.execute("INSERT INTO event (what) VALUES (?)", (p.number,))
        connection.commit()


def open_and_select(p: Program) -> None:
    with closing(p.connect()) as connection:
        connection.execute("SELECT n FROM item WHERE id = ?", (p.item(),)).fetchone()


def checkpoint(p: Program) -> None:
    p.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    time.sleep(0.1)


def backup(p: Program) -> None:
    with closing(p.module.connect(p.path.with_name(f"copy-{p.number}"))) as copy:
        p.connection.backup(copy, pages=50)


def at_normal(p: Program) -> None:
    p.execute("PRAGMA synchronous=NORMAL").fetchall()


EXPLICIT = {"isolation_level": None}
SHAPES = [
    Shape("SELECT by id", 1, select, adds=0),
    Shape("SELECT by id", 6, select, adds=0),
    Shape("SELECT by id, beside a writer", 5, select, adds=0, beside=update, beside_adds=1),
    Shape("SELECT of all, beside a writer", 3, scan, adds=0, beside=update, beside_adds=1),
    Shape("INSERT, commit", 1, insert),
    Shape("INSERT, commit", 6, insert),
    Shape("with connection: INSERT", 6, insert_in_a_block),
    Shape("INSERT, lastrowid, commit", 6, insert_and_ask_for_the_id),
    Shape("INSERT RETURNING, commit", 6, insert_returning),
    Shape("INSERT with a UNIQUE key, commit", 6, insert_unique),
    Shape("INSERT with a trigger and FTS, commit", 6, insert_page),
    Shape("INSERT of 200 KB, commit", 6, insert_large),
    Shape("upsert, commit", 6, upsert),
    Shape("DELETE, INSERT, commit", 6, delete_and_insert, adds=0),
    Shape("UPDATE, commit", 6, update),
    Shape("UPDATE, rowcount, commit", 1, update_and_count),
    Shape("UPDATE, rowcount, commit", 6, update_and_count),
    Shape("UPDATE, SELECT, commit", 6, update_and_select),
    Shape("UPDATE by a function of the program, commit", 6, update_by_the_function, prepare=give_a_function),
    Shape("UPDATE by way of a temp table, commit", 4, by_way_of_a_temp_table),
    Shape("BEGIN, two SELECTs, COMMIT", 6, read_twice, adds=0, options=EXPLICIT),
    Shape("BEGIN, two SELECTs, COMMIT, beside a writer", 5, read_twice, adds=0, options=EXPLICIT, beside=update, beside_adds=1),
    Shape("BEGIN, SELECT, UPDATE, COMMIT", 6, read_and_write("BEGIN"), options=EXPLICIT),
    Shape("BEGIN IMMEDIATE, SELECT, UPDATE, COMMIT", 1, read_and_write("BEGIN IMMEDIATE"), options=EXPLICIT),
    Shape("BEGIN IMMEDIATE, SELECT, UPDATE, COMMIT", 6, read_and_write("BEGIN IMMEDIATE"), options=EXPLICIT),
    Shape("executemany of a list of 1,000, commit", 1, insert_many(1_000, True), adds=1_000),
    Shape("executemany of a generator of 1,000, commit", 1, insert_many(1_000, False), adds=1_000),
    Shape("executemany of a list of 100, commit", 4, insert_many(100, True), adds=100),
    Shape("connect, SELECT, close", 1, open_and_select, adds=0, is_open=False),
    Shape("connect, INSERT, commit, close", 6, open_and_insert, is_open=False),
    Shape("UPDATE, SELECT, commit, beside TRUNCATE checkpoints", 5, update_and_select, beside=checkpoint),
    Shape("UPDATE, commit, beside backups", 4, update, beside=backup),
    Shape("synchronous=NORMAL: INSERT, commit", 1, insert, prepare=at_normal),
    Shape("synchronous=NORMAL: INSERT, commit", 6, insert, prepare=at_normal),
]


@dataclass
class Report:
    """What a process did."""

    waits_ns: list[int]
    errors: dict[str, int]
    cpu_s: float
    memory_bytes: int

    @property
    def acknowledged(self) -> int:
        return len(self.waits_ns) - sum(self.errors.values())


def work(shape: Shape, program: Program, act: Act, start: Any, seconds: float, reports: Any) -> None:
    """A process: the same act until the time is over."""
    program.generator.seed(program.number)
    if shape.is_open:
        program.connection = program.connect(**shape.options)
    if shape.prepare:
        shape.prepare(program)
    start.wait()
    used, waits_ns, errors = time.process_time(), [], dict[str, int]()
    began = time.monotonic_ns()
    end = began + int(seconds * 1e9)
    while began < end:
        try:
            act(program)
        except program.module.Error as error:
            kind = f"{type(error).__name__}: {error}"[:80]
            errors[kind] = errors.get(kind, 0) + 1
            if program.connection and program.connection.in_transaction:
                program.connection.rollback()
        now = time.monotonic_ns()
        waits_ns.append(now - began)
        began = now
    memory_bytes = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reports.put((program.number, Report(waits_ns, errors, time.process_time() - used, memory_bytes)))
    if program.connection:
        program.connection.close()


def measure(shape: Shape, module: Any, directory: Path, seconds: float) -> tuple[dict[str, Any] | None, str]:
    """The figures of the processes of a shape, but for the one beside them; or why there are none."""
    with tempfile.TemporaryDirectory(prefix="manyhands-shapes-", dir=directory) as place:
        path = Path(place, "app.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(SCHEMA)
            connection.executemany("INSERT INTO item VALUES (?, 0, ?)", ((number, "x" * 50) for number in range(1, ITEMS + 1)))
            connection.commit()
        acts = [shape.act] * shape.processes + ([shape.beside] if shape.beside else [])
        start, queue = PROCESSES.Barrier(len(acts)), PROCESSES.Queue()
        processes = [
            PROCESSES.Process(target=work, args=(shape, Program(module, path, number), act, start, seconds, queue), daemon=True)
            for number, act in enumerate(acts)
        ]
        for process in processes:
            process.start()
        try:
            found = dict(queue.get(timeout=seconds + HANGS_AFTER_S) for _ in processes)
        except Exception as error:
            for process in processes:
                process.kill()
            return None, f"a process did not report: {error!r}"
        for process in processes:
            process.join(HANGS_AFTER_S)
        reports = [found[number] for number in range(shape.processes)]
        wanted = shape.adds * sum(report.acknowledged for report in reports)
        wanted += shape.beside_adds * sum(found[number].acknowledged for number in range(shape.processes, len(acts)))
        with closing(sqlite3.connect(path)) as connection:
            (written,) = connection.execute(WRITTEN).fetchone()
            (integrity,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if written != wanted or integrity != "ok":
        return None, f"{written} in the file, {wanted} acknowledged; integrity: {integrity}"
    return figures(reports, seconds), "ok"


def figures(reports: list[Report], seconds: float) -> dict[str, Any]:
    """In the form of the benchmark's other workloads."""
    waits_ns = sorted(wait for report in reports for wait in report.waits_ns)
    errors: dict[str, int] = {}
    for report in reports:
        for kind, count in report.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    shares = [report.acknowledged for report in reports]
    mean = sum(shares) / len(shares)

    def wait_ms(share: float) -> float:
        return waits_ns[max(math.ceil(share * len(waits_ns)) - 1, 0)] / 1e6

    return {
        "commits_per_s": sum(shares) / seconds,
        "seconds": seconds,
        "acknowledged": sum(shares),
        "errors": errors,
        "p50_ms": wait_ms(0.5),
        "p90_ms": wait_ms(0.9),
        "p99_ms": wait_ms(0.99),
        "p999_ms": wait_ms(0.999),
        "p9999_ms": wait_ms(0.9999),
        "max_ms": waits_ns[-1] / 1e6,
        "latency": {"max_ns": waits_ns[-1], "histogram_ns": histogram(waits_ns)},
        "effort": {"retries": 0, "conflicts": 0},
        "retries_per_100": 0.0,
        "share_least": min(shares) / mean if len(shares) > 1 and mean else None,
        "cpu_s": sum(report.cpu_s for report in reports),
        "rss_peak_bytes_max": max(report.memory_bytes for report in reports),
        "wal": [],
    }


def histogram(waits_ns: list[int]) -> list[list[int]]:
    """The upper end of each bucket of 3 %, and how many waits are in it."""
    counts: dict[int, int] = {}
    for wait in waits_ns:
        shift = max(wait.bit_length() - 6, 0)
        end = ((wait >> shift) + 1 << shift) - 1
        counts[end] = counts.get(end, 0) + 1
    return [[end, count] for end, count in counts.items()]


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--repeat", type=int, default=3, help="how often each measurement is repeated")
    parser.add_argument("--only", default="", metavar="WORDS", help="only shapes with these words in their names")
    parser.add_argument("--directory", type=Path, default=Path("."), help="where the files are created")
    options = parser.parse_args()
    where = circumstances(options.directory)
    is_sound = True
    for repetition in range(1, options.repeat + 1):
        for shape in (it for it in SHAPES if options.only in it.name):
            order = list(MODULES) if repetition % 2 else list(MODULES)[::-1]
            for engine in order:
                measured, check = measure(shape, MODULES[engine], options.directory, options.seconds)
                cell = {"label": shape.label, "task": {"kind": "shape"}, "processes": shape.processes}
                row = {"workload": "shapes", "cell": cell, "engine": engine, "repetition": repetition}
                print(json.dumps(row | {"figures": measured, "check": check, "circumstances": where}, separators=(",", ":")), flush=True)
                told = f"{measured['commits_per_s']:.0f}/s, longest wait {measured['max_ms']:.1f} ms" if measured else f"CHECK FAILED: {check}"
                print(f"{repetition}: {shape.label}, {engine}: {told}", file=sys.stderr)
                is_sound &= measured is not None
    return int(not is_sound)


if __name__ == "__main__":
    sys.exit(main())
