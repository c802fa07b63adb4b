"""Unmodified drivers of other languages with the library in the place of libsqlite3: what `crates/manyhands-c/drivers/measure.py` measured, its tables and
targets."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from measurements import DRIVERS, Spread, lines_of
from targets import Verdict, share
from theme import time_text

TITLE = "Drivers: programs that know nothing of Manyhands"
JOBS = {
    "insert": "INSERT without a transaction",
    "read-then-write": "BEGIN, SELECT, UPDATE, COMMIT of one counter",
    "prepared": "a prepared INSERT, its count and its id",
    "select": "SELECT of one row by its id",
}
MANY = 8
"""Processes where there are many."""
TARGETS = (("insert", MANY, 4.0), ("insert", 1, 0.95), ("select", 1, 0.95))
"""What each driver has to reach: job, processes, times SQLite's rate."""
CALL_NS_MOST = 25
"""What a call that does next to nothing may take more."""


@dataclass
class Cell:
    """One driver at one job, with so many processes: by engine the figures of each repetition."""

    driver: str
    job: str
    processes: int
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"stock": [], "manyhands": []})

    @property
    def broken(self) -> list[str]:
        """Promises that were not kept."""
        return [words for figures in self.figures.values() for one in figures for words in one["broken"]]

    @property
    def ratio(self) -> Spread:
        pairs = zip(self.figures["manyhands"], self.figures["stock"])
        return Spread.of([ours["per_second"] / stock["per_second"] for ours, stock in pairs])

    def rate(self, engine: str) -> float:
        return Spread.of([one["per_second"] for one in self.figures[engine]]).median

    def errors(self, engine: str) -> int:
        """Of all repetitions."""
        return sum(one["errors"] for one in self.figures[engine])

    def done(self, engine: str) -> int:
        return sum(one["done"] for one in self.figures[engine])

    def wait_ms(self, engine: str) -> float:
        """The longest of each repetition, the middle one of these."""
        return Spread.of([one["wait_ms_max"] for one in self.figures[engine]]).median

    def told(self, engine: str) -> tuple[str, str, str]:
        """Rate, errors of all tries, longest wait."""
        errors = self.errors(engine)
        refused = f"{errors / (errors + self.done(engine)):.0%}" if errors else "0"
        return f"{self.rate(engine):,.0f}/s", refused, time_text(self.wait_ms(engine))


@dataclass
class Drivers:
    cells: list[Cell]
    calls: dict[str, dict[str, float]]
    """Nanoseconds by engine and call."""
    circumstances: dict[str, Any]
    load: tuple[float, float]
    """What else the machine had to do, at least and at most, the measured processes among it."""

    def sound(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.broken]

    def verdicts(self) -> list[Verdict]:
        found: list[Verdict] = []
        ours = sum(cell.errors("manyhands") for cell in self.cells if not cell.broken)
        broken = len(self.cells) - len(self.sound())
        if self.cells:
            found.append(Verdict(DRIVERS, "no driver is told an error", f"{ours} errors, {broken} checks failed", not ours and not broken, ""))
        for job, processes, least in TARGETS:
            cells = [cell for cell in self.sound() if (cell.job, cell.processes) == (job, processes)]
            if cells:
                slowest = min(cells, key=lambda cell: cell.ratio.median)
                measured = f"{share(slowest.ratio)}: {slowest.driver}, the least of {len(cells)}"
                found.append(Verdict(DRIVERS, f"{heading(job, processes)}: {least:g} times SQLite", measured, slowest.ratio.median >= least, ""))
        if self.calls:
            call, more = max(self.more(), key=lambda it: it[1])
            text = f"a call that does next to nothing takes at most {CALL_NS_MOST} ns more"
            found.append(Verdict(DRIVERS, text, f"{more:+.0f} ns: sqlite3_{call}", more <= CALL_NS_MOST, ""))
        return found

    def more(self) -> list[tuple[str, float]]:
        """By call: how much longer it takes with ours."""
        return [(call, self.calls["manyhands"][call] - ns) for call, ns in self.calls["stock"].items()]


def load_drivers(where: Path) -> Optional[Drivers]:
    """What is in the folder or the file, if it was measured.

    :raises ValueError: a line is not what `measure.py` writes.
    """
    lines = lines_of(where).get(DRIVERS)
    return read_drivers(lines) if lines else None


def read_drivers(lines: Iterable[str]) -> Drivers:
    """What these lines tell.

    :raises ValueError: a line is not what `measure.py` writes.
    """
    cells: dict[tuple[str, str, int], Cell] = {}
    calls: dict[str, dict[str, float]] = {}
    circumstances: dict[str, Any] = {}
    loads: list[float] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            circumstances = row["circumstances"]
            loads.append(circumstances["load"])
            if "calls" in row:
                calls[row["engine"]] = row["calls"]
                continue
            key = (row["driver"], row["job"], row["processes"])
            cells.setdefault(key, Cell(*key)).figures[row["engine"]].append(row["figures"])
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"line {number}: not a line of crates/manyhands-c/drivers/measure.py: {error!r}") from error
    return Drivers(list(cells.values()), calls, circumstances, (min(loads), max(loads)))


def rows(drivers: Drivers, job: str, processes: int) -> list[tuple[str, list[str]]]:
    """By driver: rate, errors and longest wait of ours, then of plain SQLite, then how many times its rate."""
    found = []
    for cell in drivers.cells:
        if (cell.job, cell.processes) != (job, processes):
            continue
        if cell.broken:
            found.append((cell.driver, ["no figure: " + cell.broken[0], *[""] * 6]))
            continue
        found.append((cell.driver, [*cell.told("manyhands"), *cell.told("stock"), share(cell.ratio)]))
    return found


def groups(drivers: Drivers) -> list[tuple[str, int]]:
    return list(dict.fromkeys((cell.job, cell.processes) for cell in drivers.cells))


def heading(job: str, processes: int) -> str:
    return f"{JOBS[job]}, {processes} process{'es' * (processes > 1)}"


HEAD = ["manyhands", "errors", "longest wait", "SQLite", "errors", "longest wait", "times SQLite"]


def text_drivers(drivers: Drivers) -> str:
    """For a terminal."""
    lines = []
    for job, processes in groups(drivers):
        lines += [heading(job, processes), "".join([f"{'':22}", *(f"{words:>14}" for words in HEAD[:-1]), f"   {HEAD[-1]}"])]
        lines += ["".join([f"{name:22}", *(f"{words:>14}" for words in told[:-1]), f"   {told[-1]}"]) for name, told in rows(drivers, job, processes)]
        lines.append("")
    if drivers.calls:
        lines += ["a call takes, in ns, with SQLite and with manyhands", *(f"sqlite3_{line}" for line in call_lines(drivers)), ""]
    return "\n".join([*lines, sentence(drivers)])


def call_lines(drivers: Drivers) -> list[str]:
    return [f"{call:22}{drivers.calls['stock'][call]:8.1f}{drivers.calls['manyhands'][call]:8.1f}{more:+8.1f}" for call, more in drivers.more()]


def markdown(drivers: Drivers) -> str:
    """What docs/benchmarks/README.md has of it: many processes, and in the last column one alone. Without rates, only the calls."""
    by_key = {(cell.driver, cell.job, cell.processes): cell for cell in drivers.sound()}
    lines = [] if not drivers.cells else [
        f"| driver, {MANY} processes | manyhands | errors | longest wait | SQLite | errors | longest wait | times SQLite | one process |",
        f"|---|{'---|' * 8}",
    ]
    for job in JOBS:
        lines += [f"| **{JOBS[job]}** |{' |' * 8}"] if any(key[1] == job for key in by_key) else []
        for name, told in rows(drivers, job, MANY):
            alone = by_key.get((name, job, 1))
            lines.append(f"| {name} | {' | '.join(told)} | {share(alone.ratio) if alone else ''} |")
    if drivers.calls:
        lines += [""] if lines else []
        calls = [f"`{call}` {more:+.0f}" for call, more in sorted(drivers.more(), key=lambda it: -it[1])]
        lines += [f"One call takes so many nanoseconds more than with plain SQLite: {', '.join(calls)}."]
    return "\n".join([*lines, "", sentence(drivers)])


def table(drivers: Drivers) -> str:
    """For the page."""
    parts = []
    for job, processes in groups(drivers):
        cells = "".join(f"<th>{words}" for words in HEAD)
        body = "".join(f"<tr><td>{html.escape(name)}{''.join(f'<td>{html.escape(it)}' for it in told)}" for name, told in rows(drivers, job, processes))
        parts.append(f"<tr><th class=words colspan={len(HEAD) + 1}>{html.escape(heading(job, processes))}<tr><th>{cells}{body}")
    return f"<table>{''.join(parts)}</table>"


def sentence(drivers: Drivers) -> str:
    least, most = drivers.load
    it = drivers.circumstances
    where = (
        f"{it['machine']}, {it['cores']} cores, {it['file_system']}, Linux {it['kernel']}, commit {it['commit']}; the machine had {least:.1f} to "
        f"{most:.1f} processes at work, these among them. `{it['command']}`"
    )
    if not drivers.cells:
        return f"The least of 25 runs, and of 5 of these the middle one, one library right after the other. {where}"
    repetitions = max((len(cell.figures["stock"]) for cell in drivers.cells), default=0)
    return (
        f"Each figure is of fresh processes at a fresh file in WAL mode, synchronous=FULL, busy timeout 5 s, {repetitions} times, one library right after "
        f"the other; the program and its driver are the same. No program tries again: errors are a share of all tries. {where}"
    )
