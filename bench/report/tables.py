"""The figures of a run, as one table: for the page in HTML, for a terminal in text. And what stands below it."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, Callable, Optional

from measurements import Run, Series, Spread
from theme import bytes_text, short, time_text

NOTE = (
    "Medians of the repetitions; errors and conflicts of all of them together. A share of the waits that would be of fewer operations than it takes "
    "is left out. Fair: what the least-served client had, of the mean. Retries are those that the application sees. Memory: the largest process, or a server."
)

Figures = dict[str, Any]


@dataclass(frozen=True)
class Row:
    label: str
    engine: str
    cells: list[str]
    """As many as there are columns; empty: it has no such figure."""
    verdict: str
    """Of its ratio: `win`, `loss`, or neither."""


def spread_text(spread: Optional[Spread], write: Callable[[float], str]) -> str:
    return write(spread.median) if spread else ""


def two_places(value: float) -> str:
    return f"{value:.2f}"


def percent(value: float) -> str:
    return f"{value:.3g} %"


def columns(run: Run) -> dict[str, Callable[[Series], str]]:
    """Name and content of each column that any workload has."""

    def figure(write: Callable[[float], str], name: str) -> Callable[[Series], str]:
        return lambda series: spread_text(series.known(name), write)

    def worked_out(write: Callable[[float], str], pick: Callable[[Figures], Optional[float]]) -> Callable[[Series], str]:
        def cell(series: Series) -> str:
            values = [value for figures in series.figures if (value := pick(figures)) is not None]
            return spread_text(Spread.of(values) if values else None, write)

        return cell

    def wait(name: str) -> Callable[[Series], str]:
        return lambda series: spread_text(series.wait(name), time_text)

    def rate_range(series: Series) -> str:
        rate = series.spread("commits_per_s")
        return f"{short(rate.least)}–{short(rate.most)}" if rate else ""

    def ratio(series: Series) -> str:
        found = run.ratio(series.engine, series.label, run.baseline) if len(run.engines) > 1 else None
        return f"{found.median:.2f}x" if found else ""

    def conflicts(series: Series) -> str:
        return f"{sum(figures['effort']['conflicts'] for figures in series.figures):,}" if run.has_effort else ""

    return {
        "commits/s": figure(short, "commits_per_s"),
        "least–most": rate_range,
        f"x {run.baseline}": ratio,
        "rows/s": figure(short, "rows_per_s"),
        "p50": wait("p50_ms"),
        "p90": wait("p90_ms"),
        "p99": wait("p99_ms"),
        "p99.9": wait("p999_ms"),
        "longest": wait("max_ms"),
        "the insert's p99": worked_out(time_text, insert_p99_ms),
        "fair": figure(two_places, "share_least"),
        "errors": lambda series: f"{series.errors:,}",
        "failed": worked_out(percent, failed_percent),
        "not begun": figure(short, "backlog"),
        "retries /100": figure(short, "retries_per_100") if run.has_effort else lambda _: "",
        "conflicts": conflicts,
        "long job": long_job,
        "its time": worked_out(time_text, lambda figures: figures["long_job"]["elapsed_s"] * 1e3 if figures.get("long_job") else None),
        "WAL": worked_out(bytes_text, lambda figures: around_reader(figures)[0]) if run.has_reader else lambda _: "",
        "restarts beside": worked_out(short, lambda figures: around_reader(figures)[1]) if run.has_reader else lambda _: "",
        "restarts after": worked_out(short, lambda figures: around_reader(figures)[2]) if run.has_reader else lambda _: "",
        "CPU s": figure(short, "cpu_s"),
        "of the requests": figure(short, "generator_cpu_s"),
        "memory": figure(bytes_text, "rss_peak_bytes_max"),
        "of all": figure(bytes_text, "memory_bytes"),
        "fsyncs /commit": figure(short, "syncs_per_commit"),
        "WAL /commit": figure(bytes_text, "wal_bytes_per_commit"),
    }


def failed_percent(figures: Figures) -> Optional[float]:
    """`web` only, whose users see each refusal."""
    if figures.get("generator_cpu_s") is None:
        return None
    errors = sum(figures["errors"].values())
    return float(100 * errors / max(errors + figures["acknowledged"], 1))


def insert_p99_ms(figures: Figures) -> Optional[float]:
    """`storm` and `web`: the insert without open and close, requests that create."""
    latency = figures.get("insert_latency") or {"histogram_ns": []}
    pairs = latency["histogram_ns"]
    left = 0.99 * sum(count for _, count in pairs)
    for nanoseconds, count in pairs:
        left -= count
        if left <= 0:
            return float(min(nanoseconds, latency["max_ns"]) / 1e6)
    return None


def long_job(series: Series) -> str:
    jobs = [figures["long_job"] for figures in series.figures if figures.get("long_job")]
    return f"{sum(not job.get('refusal') for job in jobs)} of {len(jobs)}" if jobs else ""


def around_reader(figures: Figures) -> tuple[Optional[float], Optional[float], Optional[float]]:
    """`endless-reader`: the longest WAL, and how often it was begun anew beside the reader and after it."""
    samples = figures["wal"]
    if not samples:
        return None, None, None
    ended_ms = (figures.get("reader") or {"ended_s": float("inf")})["ended_s"] * 1e3
    # It begins with the number 0.
    beside = [restarts for ms, _, restarts in samples if ms <= ended_ms] or [0]
    return max(length for _, length, _ in samples), beside[-1], samples[-1][2] - beside[-1]


def rows(run: Run) -> tuple[list[str], list[Row]]:
    """The names of the columns in which anybody has anything, and a row for each engine of each label."""
    found = []
    of = columns(run)
    for label in run.labels:
        for series in (run.of(engine, label) for engine in run.engines):
            if series and series.figures:
                ratio = run.ratio(series.engine, label, run.baseline)
                close = ratio is None or series.engine == run.baseline or 0.95 <= ratio.median < 1.05
                verdict = "" if close or ratio is None else "win" if ratio.median >= 1 else "loss"
                found.append(Row(label, series.engine, [cell(series) for cell in of.values()], verdict))
            elif series:
                found.append(Row(label, series.engine, ["CHECK FAILED", *[""] * (len(of) - 1)], "loss"))
    kept = [place for place in range(len(of)) if any(row.cells[place] for row in found)]
    names = list(of)
    return [names[place] for place in kept], [Row(row.label, row.engine, [row.cells[place] for place in kept], row.verdict) for row in found]


def notes(run: Run) -> list[str]:
    """What stands below the table: what was refused, what has no figure, who did not take part."""
    found = []
    for series in run.series:
        name = f"{series.label}, {series.engine}"
        kinds: dict[str, int] = {}
        for figures in series.figures:
            for kind, count in figures["errors"].items():
                kinds[kind] = kinds.get(kind, 0) + count
        found += [f"{name}: {count:,} x {kind!r}" for kind, count in kinds.items()]
        jobs = (figures.get("long_job") or {} for figures in series.figures)
        found += [f"{name}: a long job was refused: {job['refusal']!r}" for job in jobs if job.get("refusal")]
        found += [f"{name}: no figure, since {reason}" for reason in series.withheld]
    return found + [f"{engine} did not take part: {reason}" for engine, reason in run.left_out.items()]


def html_table(run: Run) -> str:
    """One row for each engine, below its label."""
    names, found = rows(run)
    lines = ["<tr><th>" + "".join(f"<th>{html.escape(name)}" for name in names)]
    before = None
    for row in found:
        if row.label != before:
            lines.append(f"<tr class=group><td colspan={len(names) + 1}>{html.escape(row.label)}")
        before = row.label
        cells = (f"<span class={row.verdict}>{cell}</span>" if name.startswith("x ") and row.verdict else cell for name, cell in zip(names, row.cells))
        lines.append(f"<tr><td>{row.engine}" + "".join(f"<td>{cell}" for cell in cells))
    return f"<table>{''.join(lines)}</table>"


def text_table(run: Run) -> str:
    """The same for a terminal, with a label before the first of its engines."""
    names, found = rows(run)
    lines = [["", "engine", *names]]
    before = None
    for row in found:
        if before is not None and row.label != before:
            lines.append([])
        lines.append(["" if row.label == before else row.label, row.engine, *row.cells])
        before = row.label
    widths = [max(len(line[place]) for line in lines if line) for place in range(len(lines[0]))]

    def aligned(line: list[str]) -> str:
        # Words at the left, figures at the right.
        cells = (cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(zip(line, widths)))
        return "  ".join(cells).rstrip()

    return "\n".join([aligned(lines[0]), "─" * len(aligned(lines[0])), *map(aligned, lines[1:])])
