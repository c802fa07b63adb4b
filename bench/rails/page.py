"""Writes the tables of docs/benchmarks/rails.md from what `make bench-rails` has measured; `--check` only says whether they are there.

    python3 bench/rails/page.py [--check]
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Optional

BENCHMARKS = Path(__file__).resolve().parents[2] / "docs/benchmarks"
LINES = BENCHMARKS / "rails/lines.jsonl"
PAGE = BENCHMARKS / "rails.md"
FIGURES = re.compile(r"(<!-- figures: written by bench/rails/page.py -->\n).*?(<!-- end of figures -->)", re.DOTALL)
ENGINES = {
    "stock-deferred-full": "DEFERRED, FULL",
    "stock-deferred-normal": "DEFERRED, NORMAL",
    "stock-immediate-full": "IMMEDIATE, `timeout`, FULL",
    "stock-immediate-normal": "IMMEDIATE, `timeout`, NORMAL",
    "stock-handler-full": "Rails 8's handler, FULL",
    "stock-handler-normal": "Rails 8's handler, NORMAL",
    "manyhands-full": "**Manyhands, FULL**",
    "manyhands-normal": "**Manyhands, NORMAL**",
}
SHAPES = {"4x3": "4 processes with 3 threads", "1x8": "1 process with 8 threads"}
CREATES = ("posts#create", "comments#create")
Line = dict[str, Any]


class Measured:
    """The lines of one run, by what they are about."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def find(self, engine: str, shape: str, pause: float, action: str, users: int, writers: int = 0, rate: bool = False) -> Optional[Line]:
        wanted = {"engine": engine, "shape": shape, "pause_ms": pause, "action": action, "users": users, "writers": writers}
        found = [line for line in self.lines if all(line[key] == value for key, value in wanted.items()) and (line["rate"] is not None) == rate]
        return combined(found) if found else None

    def values(self, key: str) -> list[Any]:
        return list(dict.fromkeys(line[key] for line in self.lines))


def combined(lines: list[Line]) -> Line:
    """Several measurements of one cell as one: the median of their rates, and all their times together."""
    if len(lines) == 1:
        return lines[0]
    figures = [line["figures"] for line in lines]
    histogram: Counter[int] = Counter()
    for one in figures:
        histogram.update(dict(one["histogram_us"]))
    together = {
        "requests_per_s": statistics.median(one["requests_per_s"] for one in figures),
        "good": sum(one["good"] for one in figures),
        "bad": sum(one["bad"] for one in figures),
        "max_ms": max((one["max_ms"] for one in figures if one["max_ms"]), default=None),
        **{name: quantile_ms(histogram, share) for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p9999_ms", 0.9999))},
    }
    failed = [line["check"] for line in lines if line["check"] != "ok"]
    return {**lines[0], "figures": together, "check": failed[0] if failed else "ok"}


def quantile_ms(histogram: Counter[int], share: float) -> Optional[float]:
    """The end of the bucket that has it; a bucket is 1/64 of its time wide."""
    rank, counted = math.ceil(histogram.total() * share), 0
    for end_us, count in sorted(histogram.items()):
        counted += count
        if counted >= rank:
            return end_us / 1000
    return None


def share_bad(line: Line) -> float:
    figures = line["figures"]
    return float(figures["bad"] / max(figures["good"] + figures["bad"], 1))


def rate_of(line: Line) -> float:
    return float(line["figures"]["requests_per_s"])


def milliseconds(value: Optional[float]) -> str:
    return "–" if value is None else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def cell(line: Optional[Line]) -> str:
    if line is None:
        return "not measured"
    if line["check"] != "ok":
        return f"no figure: {line['check']}"
    figures = line["figures"]
    times = " / ".join(milliseconds(figures[name]) for name in ("p50_ms", "p99_ms", "p9999_ms"))
    bad = f"<br>**{share_bad(line):.1%} failed**" if figures["bad"] else ""
    return f"{rate_of(line):,.1f}/s<br>{times}{bad}"


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def creates(measured: Measured, shape: str, pause: float, action: str) -> str:
    users = sorted({line["users"] for line in measured.lines if line["action"] == action and line["rate"] is None})
    rows = [[title, *(cell(measured.find(engine, shape, pause, action, count)) for count in users)] for engine, title in ENGINES.items()]
    return table([f"`{action}`", *(f"{count} at once" for count in users)], rows)


def reads(measured: Measured) -> str:
    rows = []
    places = [(shape, pause) for shape in measured.values("shape") for pause in measured.values("pause_ms")]
    for engine, title in ENGINES.items():
        row = [title]
        for shape, pause in places:
            alone, beside = (measured.find(engine, shape, pause, "posts#index", 2, writers) for writers in (0, 16))
            if alone and beside and rate_of(alone):
                row.append(f"{rate_of(alone):,.0f}/s, {rate_of(beside):,.0f}/s: {rate_of(beside) / rate_of(alone):.2f}x")
            else:
                row.append("not measured" if not alone or not beside else "no answer")
        rows.append(row)
    return table(["`posts#index`, 2 at once: alone, beside 16 writers", *(f"{shape}, {pause:g} ms" for shape, pause in places)], rows)


def at_a_rate(measured: Measured) -> str:
    places = [(shape, pause) for shape in measured.values("shape") for pause in measured.values("pause_ms")]
    rows = [[title, *(cell(measured.find(engine, *place, "posts#create", 64, rate=True)) for place in places)] for engine, title in ENGINES.items()]
    return table(["`posts#create`, due at a fixed rate", *(f"{shape}, {pause:g} ms" for shape, pause in places)], rows)


def verdicts(measured: Measured) -> str:
    rows = []
    ours = [line for line in measured.lines if line["engine"].startswith("manyhands")]
    bad = sum(line["figures"]["bad"] for line in ours)
    good = sum(line["figures"]["good"] for line in ours)
    rows.append(["Manyhands: no request fails", verdict(bad == 0), f"{bad} of {good + bad:,}"])
    stands_still = [line for line in measured.lines if line["figures"]["failures"] or (line["figures"]["max_ms"] or 0) >= 2000]
    longest = max(line["figures"]["max_ms"] or 0 for line in ours)
    rows.append(["Manyhands: no request waits for seconds", verdict(longest < 2000), f"the longest: {milliseconds(longest)} ms"])
    rows.append(["(stock SQLite: cells in which one did)", "", f"{len([line for line in stands_still if line['engine'].startswith('stock')])}"])
    for shape in measured.values("shape"):
        for pause in measured.values("pause_ms"):
            rows += compared(measured, shape, pause)
    return table(["wanted", "", "measured"], rows)


def compared(measured: Measured, shape: str, pause: float) -> list[list[str]]:
    """Against Rails 8's handler at NORMAL, with 16 requests at once; and reads beside writers."""
    rows = []
    place = f"{shape}, {pause:g} ms"
    limit = 5 if pause else 3
    for action in CREATES:
        own, rival = (measured.find(engine, shape, pause, action, 16) for engine in ("manyhands-full", "stock-handler-normal"))
        if not own or not rival:
            continue
        ratio = rate_of(own) / (rate_of(rival) or math.nan)
        rows.append([f"{place}, `{action}`: at FULL the requests/s of Rails 8's handler at NORMAL", verdict(ratio >= 1), f"{ratio:.2f}x"])
        for name, title in (("p99_ms", "p99"), ("p9999_ms", "p99.99")):
            # Without any answer the time has no end.
            times = own["figures"][name] or math.inf, rival["figures"][name] or math.inf
            rows.append(
                [f"{place}, `{action}`: {title} a {'fifth' if pause else 'third'} of its", verdict(times[0] * limit <= times[1]),
                 f"{milliseconds(times[0])} and {milliseconds(times[1])} ms"]
            )  # fmt: skip
    alone, beside = (measured.find("manyhands-full", shape, pause, "posts#index", 2, writers) for writers in (0, 16))
    if alone and beside:
        ratio = rate_of(beside) / (rate_of(alone) or math.nan)
        rows.append([f"{place}, `posts#index` beside 16 writers: half of its rate alone", verdict(ratio >= 0.5), f"{ratio:.2f}x"])
    return rows


def verdict(kept: bool) -> str:
    return "yes" if kept else "**no**"


def figures(measured: Measured) -> str:
    lines = measured.lines
    one = lines[0]["circumstances"]
    loads = sorted(line["load_average"] for line in measured.lines)
    seconds = sorted(line["figures"]["seconds"] for line in measured.lines)
    parts = [
        f"{one['machine']}, {one['cores']} cores, Linux {one['kernel']}, commit {one['commit']}; Ruby {one['ruby']}, Rails {one['rails']}, "
        f"Puma {one['puma']}, sqlite3-ruby {one['sqlite3-ruby']} with SQLite {one['sqlite']}. "
        f"{len(lines)} measurements, each of {seconds[len(seconds) // 2]:.1f} s (median). "
        f"The machine's load average was {loads[0]:.1f} to {loads[-1]:.1f}, {loads[len(loads) // 2]:.1f} in the median.",
        "\n".join(f"    {command}" for command in dict.fromkeys(line["circumstances"]["command"] for line in lines)),
        "### What was wanted",
        verdicts(measured),
    ]
    for shape in measured.values("shape"):
        for pause in measured.values("pause_ms"):
            waiting = f"each transaction waits for {pause:g} ms" if pause else "no waiting in the transactions"
            parts += [f"### {SHAPES.get(shape, shape)}, {waiting}", *(creates(measured, shape, pause, action) for action in CREATES)]
    parts += ["### Requests that are due at a fixed rate", at_a_rate(measured), "### Reads beside writers", reads(measured)]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    lines = [json.loads(line) for line in LINES.read_text().splitlines()]
    text = PAGE.read_text()
    written = FIGURES.sub(lambda found: found[1] + figures(Measured(lines)) + found[2], text)
    if "--check" in sys.argv[1:]:
        if written != text:
            print(f"{PAGE.name} is not what its lines say: python3 bench/rails/page.py")
        return int(written != text)
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
