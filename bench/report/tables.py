"""The figures of a run, as a table of the page."""

from __future__ import annotations

import html
from typing import Callable, Optional

from measurements import Run, Series, Spread
from theme import bytes_text, short, time_text

HEAD = ("commits/s", "least–most", "x {}", "p50", "p90", "p99", "p99.9", "longest", "fair", "errors")
HEAD_EFFORT = ("retries /100", "conflicts")
HEAD_COST = ("CPU s", "memory", "fsyncs /commit", "WAL /commit")
NOTE = (
    "Medians of the repetitions; errors and conflicts of all of them together. A share of the waits that would be of fewer operations than it takes "
    "is left out. Fair: what the least-served client had, of the mean. Retries are those that the application sees. Memory: the largest process, or a server."
)


def table(run: Run) -> str:
    """One row for each engine, below its label; without the columns in which nobody has anything."""
    has_effort = any(figures["effort"]["retries"] or figures["effort"]["conflicts"] for it in run.series for figures in it.figures)
    head = ["", *(name.format(run.baseline) for name in HEAD), *(HEAD_EFFORT if has_effort else ()), *HEAD_COST]
    rows: list[tuple[str, list[str]]] = []
    for label in run.labels:
        for series in (run.of(engine, label) for engine in run.engines):
            if series and series.figures:
                rows.append((label, [series.engine, *rate_cells(run, series), *cells(series, has_effort)]))
    kept = [0, *(column for column in range(1, len(head)) if any(row[column] for _, row in rows))]
    lines = ["<tr>" + "".join(f"<th>{head[column]}" for column in kept)]
    before = None
    for label, row in rows:
        if label != before:
            lines.append(f"<tr class=group><td colspan={len(kept)}>{html.escape(label)}")
        before = label
        lines.append("<tr>" + "".join(f"<td>{row[column]}" for column in kept))
    return f"<table>{''.join(lines)}</table>"


def rate_cells(run: Run, series: Series) -> list[str]:
    rate = series.spread("commits_per_s")
    assert rate is not None, "it has figures"
    ratio = run.ratio(series.engine, series.label, run.baseline)
    is_baseline = ratio is None or series.engine == run.baseline
    kind = "" if is_baseline or ratio is None or 0.95 <= ratio.median < 1.05 else " class=win" if ratio.median >= 1 else " class=loss"
    return [
        short(rate.median),
        f"{short(rate.least)}–{short(rate.most)}",
        "" if ratio is None else f"<span{kind}>{ratio.median:.2f}x</span>",
    ]


def cells(series: Series, has_effort: bool) -> list[str]:
    waits = (series.wait(key) for key in ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"))
    effort = []
    if has_effort:
        conflicts = sum(figures["effort"]["conflicts"] for figures in series.figures)
        effort = [text(series.spread("retries_per_100"), short), f"{conflicts:,}"]
    return [
        *(text(wait, time_text) for wait in waits),
        text(series.known("share_least"), lambda value: f"{value:.2f}"),
        f"{series.errors:,}",
        *effort,
        text(series.spread("cpu_s"), short),
        text(series.spread("rss_peak_bytes_max"), bytes_text),
        text(series.known("syncs_per_commit"), short),
        text(series.known("wal_bytes_per_commit"), bytes_text),
    ]


def text(spread: Optional[Spread], write: Callable[[float], str]) -> str:
    return write(spread.median) if spread else ""
