"""What the benchmark measured: its JSON lines, and the figures of one engine at one line of the table."""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

STOCK = "stock"
OURS = "manyhands"
PEERS = {
    "turso": "Turso",
    "postgres": "PostgreSQL",
    "postgres-read-committed": "PostgreSQL at read committed",
    "postgres-pipelined": "pipelined PostgreSQL",
}
"""What users would pick instead, beside stock SQLite: engine and name."""
OPERATIONS_LEAST = {"p99_ms": 100, "p999_ms": 1_000, "p9999_ms": 10_000}
"""Of fewer operations such a share is nothing but the longest wait."""
OVERHEAD = "python-overhead"
"""The file that `bench/python_overhead.py` writes, in a form of its own."""
MEMORY = "memory"
"""The file that `reliability memory` writes, in a form of its own."""
DRIVERS = "drivers"
"""The file that `crates/manyhands-c/drivers/measure.py` writes, in a form of its own."""
RUN = '{"run":"'
"""How a line begins that says of which workload it is."""
WAL_LIMIT_BYTES = 16 << 20
"""That of the engine manyhands-wal-limit."""


@dataclass(frozen=True)
class Spread:
    """Median, least and most of the repetitions."""

    median: float
    least: float
    most: float

    @staticmethod
    def of(values: list[float]) -> Spread:
        return Spread(statistics.median(values), min(values), max(values))


@dataclass
class Series:
    """The repetitions of one engine at one label, in their order."""

    engine: str
    label: str
    task: dict[str, Any]
    processes: int
    figures: list[dict[str, Any]] = field(default_factory=list)
    """Only those whose check held."""
    turns: list[int] = field(default_factory=list)
    """Which repetition each of them is, counted in the file."""
    withheld: list[str] = field(default_factory=list)
    """Why the others have no figures."""

    def spread(self, what: str | Callable[[dict[str, Any]], float]) -> Spread | None:
        pick = what if callable(what) else lambda figures: float(figures[what])
        return Spread.of([pick(figures) for figures in self.figures]) if self.figures else None

    def wait(self, share: str) -> Spread | None:
        """A share of the waits, if there are operations enough in each repetition."""
        least = min((sum(count for _, count in it["latency"]["histogram_ns"]) for it in self.figures), default=0)
        return self.spread(share) if least >= OPERATIONS_LEAST.get(share, 1) else None

    def known(self, what: str) -> Spread | None:
        """Of a figure that not everybody can count, or not every workload has."""
        return None if any(figures.get(what) is None for figures in self.figures) else self.spread(what)

    @property
    def errors(self) -> int:
        """Refused operations of all repetitions."""
        return sum(sum(figures["errors"].values()) for figures in self.figures)

    def waits(self) -> list[tuple[float, int]]:
        """All latencies: seconds and counts, shortest first."""
        counts: dict[int, int] = {}
        for figures in self.figures:
            for nanoseconds, count in figures["latency"]["histogram_ns"]:
                counts[nanoseconds] = counts.get(nanoseconds, 0) + count
        return [(nanoseconds / 1e9, counts[nanoseconds]) for nanoseconds in sorted(counts)]


@dataclass
class Run:
    """One workload's file."""

    name: str
    series: list[Series]
    circumstances: dict[str, Any]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(series.label for series in self.series))

    @property
    def engines(self) -> list[str]:
        """Ours first, then in the order of the file."""
        found = dict.fromkeys(series.engine for series in self.series)
        return sorted(found, key=lambda engine: not engine.startswith(OURS))

    @property
    def baseline(self) -> str:
        """Whom the others are compared with."""
        return STOCK if STOCK in self.engines else "stock-normal"

    @property
    def ours(self) -> str:
        """Which of ours is compared."""
        return OURS if OURS in self.engines else "manyhands-normal"

    @property
    def has_effort(self) -> bool:
        """Was anything run again, or refused because of others?"""
        efforts = (figures["effort"] for series in self.series for figures in series.figures)
        return any(effort["retries"] or effort["conflicts"] for effort in efforts)

    @property
    def has_reader(self) -> bool:
        """Is it about a reader that keeps its snapshot?"""
        return any(series.task.get("kind") == "endless-reader" for series in self.series)

    @property
    def left_out(self) -> dict[str, str]:
        """Engines that did not take part, with the reason."""
        return dict(self.circumstances.get("left_out", {}))

    def of(self, engine: str, label: str) -> Series | None:
        matches = (it for it in self.series if (it.engine, it.label) == (engine, label))
        return next(matches, None)

    def ratio(self, engine: str, label: str, to: str = STOCK) -> Spread | None:
        """Commits/s relative to another engine's in the same repetition."""
        ours, theirs = self.of(engine, label), self.of(to, label)
        if ours is None or theirs is None:
            return None
        others = dict(zip(theirs.turns, theirs.figures))
        pairs = [(one, others[turn]) for turn, one in zip(ours.turns, ours.figures) if turn in others]
        ratios = [one["commits_per_s"] / other["commits_per_s"] for one, other in pairs if other["commits_per_s"]]
        return Spread.of(ratios) if ratios else None


def lines_of(where: Path) -> dict[str, list[str]]:
    """The lines of each workload: in a folder with a file for each, in one file, or in one where `keep.py` has put many together."""
    if where.is_dir():
        return {path.stem: path.read_text().splitlines() for path in sorted(where.glob("*.jsonl"))}
    found: dict[str, list[str]] = {}
    for line in (sys.stdin.read() if str(where) == "-" else where.read_text()).splitlines():
        # Put there as the first word: to read a whole line is somebody else's work.
        name = line.split('"', 4)[3] if line.startswith(RUN) else where.stem
        found.setdefault(name, []).append(line)
    return found


def load(where: Path) -> Iterator[Run]:
    """The runs in a folder or a file, by name.

    :raises ValueError: a line is not what the benchmark writes.
    """
    for name, lines in lines_of(where).items():
        if name not in (OVERHEAD, MEMORY, DRIVERS):
            yield read(name, lines)


def read(name: str, lines: Iterable[str]) -> Run:
    """The run of these lines.

    :raises ValueError: a line is not what the benchmark writes.
    """
    series: dict[tuple[str, str], Series] = {}
    circumstances: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            cell, engine = row["cell"], row["engine"]
            circumstances = row["circumstances"]
            key = (engine, cell["label"])
            one = series.setdefault(key, Series(engine, cell["label"], cell["task"], cell["processes"]))
            if row["figures"] is None:
                one.withheld.append(row["check"])
            else:
                one.turns.append(len(one.figures) + len(one.withheld))
                one.figures.append(row["figures"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{name}, line {number}: not a line of the benchmark: {error!r}") from error
    return Run(name, list(series.values()), circumstances)


def circumstances(all_of_them: list[dict[str, Any]]) -> str:
    """Machine, programs and commits, each that there is."""

    def each(write: str) -> str:
        return " and ".join(dict.fromkeys(write.format_map(it) for it in all_of_them))

    programs: dict[str, None] = {}
    for it in all_of_them:
        older = [f"{name} {it[key]}" for name, key in (("Manyhands", "manyhands"), ("SQLite", "sqlite")) if key in it]
        programs |= dict.fromkeys([*older, *it.get("engines", {}).values()])
    slower = " and ".join(dict.fromkeys(f"{it['sync_us']:,} us more for each sync" for it in all_of_them if it.get("sync_us")))
    where = ", ".join(filter(None, [each("{machine}, {cores} cores, {file_system}, Linux {kernel}"), slower]))
    return f"{where}; {', '.join(programs)}; commit {each('{commit}')} of Manyhands."
