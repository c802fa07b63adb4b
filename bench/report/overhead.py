"""What one thread pays for `import manyhands` in place of `sqlite3`: what `bench/python_overhead.py` measured, its table and targets."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Optional

from measurements import OVERHEAD, Spread, lines_of
from targets import Verdict, share
from theme import time_text

TITLE = "Python: one thread, in place of sqlite3"
SEE = (
    "The standard module's time through ours: right of the line is faster. A dot is the median, its line reaches from the least to the most repetition."
)
LEAST = {"SELECT of 1,000,000": 1.0, "SELECTs of one row": 0.95, "autocommit": 0.95, "INSERT and commit()": 0.95}
"""What a loop with these words in its name has to reach."""


@dataclass(frozen=True)
class Loop:
    """One loop, with seconds by module, one for each repetition."""

    name: str
    seconds: dict[str, list[float]]

    @property
    def speed(self) -> Spread:
        """The standard module's time through ours, in the same repetition."""
        return Spread.of([stock / ours for stock, ours in zip(self.seconds["sqlite3"], self.seconds["manyhands"])])

    @property
    def least(self) -> Optional[float]:
        return next((least for words, least in LEAST.items() if words in self.name), None)

    @property
    def each(self) -> str:
        """How much longer one of many takes with ours."""
        count = int((re.search(r"[\d,]+", self.name) or ["1"])[0].replace(",", ""))
        stock, ours = (Spread.of(self.seconds[module]).median * 1e6 / count for module in ("sqlite3", "manyhands"))
        return f"{ours - stock:+.3g} us for each, which takes the standard module {stock:.3g} us"


@dataclass(frozen=True)
class Overhead:
    loops: list[Loop]
    circumstances: dict[str, Any]

    def verdicts(self) -> list[Verdict]:
        found = []
        for loop in self.loops:
            if loop.least is not None:
                met = loop.speed.median >= loop.least
                why = "" if met else f"Here {loop.each}."
                found.append(Verdict(OVERHEAD, f"{loop.name}: {loop.least:g} times the standard module", share(loop.speed), met, why))
        return found


def load_overhead(where: Path) -> Optional[Overhead]:
    """What is in the folder or the file, if it was measured.

    :raises ValueError: a line is not what `bench/python_overhead.py` writes.
    """
    lines = lines_of(where).get(OVERHEAD)
    return read_overhead(lines) if lines else None


def read_overhead(lines: Iterable[str]) -> Overhead:
    """What these lines tell.

    :raises ValueError: a line is not what `bench/python_overhead.py` writes.
    """
    # Who measured again has appended: the newest counts.
    loops: dict[str, Loop] = {}
    circumstances: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            loops[row["loop"]] = Loop(row["loop"], {module: row["seconds"][module] for module in ("sqlite3", "manyhands")})
            circumstances = row["circumstances"]
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"line {number}: not a line of bench/python_overhead.py: {error!r}") from error
    return Overhead(list(loops.values()), circumstances)


def table(overhead: Overhead) -> str:
    rows = ["<tr><th><th>sqlite3<th>manyhands<th>speed<th>least–most"]
    for loop in overhead.loops:
        stock, ours = (Spread.of(loop.seconds[module]).median * 1e3 for module in ("sqlite3", "manyhands"))
        speed = loop.speed
        kind = "win" if speed.median >= 1.05 else "loss" if speed.median < 0.95 else ""
        rows.append(
            f"<tr><td>{html.escape(loop.name)}<td>{time_text(stock)}<td>{time_text(ours)}"
            f"<td><span class='{kind}'>{speed.median:.2f}x</span><td>{speed.least:.2f}–{speed.most:.2f}"
        )
    return f"<table>{''.join(rows)}</table>"


def text_overhead(overhead: Overhead) -> str:
    """The same for a terminal."""
    lines = [f"{'':38}{'sqlite3':>12}{'manyhands':>12}   speed (least to most)"]
    for loop in overhead.loops:
        stock, ours = (time_text(Spread.of(loop.seconds[module]).median * 1e3) for module in ("sqlite3", "manyhands"))
        lines.append(f"{loop.name:38}{stock:>12}{ours:>12}   {share(loop.speed)}")
    return "\n".join(lines)


def sentence(overhead: Overhead) -> str:
    programs = ", ".join(overhead.circumstances["engines"].values())
    count = len(overhead.loops[0].seconds["sqlite3"])
    return f"The same loops with both modules, in turn, {count} times: {programs}. Both files are in WAL mode at synchronous=FULL."
