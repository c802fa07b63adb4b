"""The pictures of all workloads: rates, waits, and the histogram of a storm. Each is drawn once for light and once for dark."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Callable

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402
from measurements import Run, Series, Spread  # noqa: E402
from own_plots import impact, outside_legend, relative, wal, with_figures  # noqa: E402
from theme import (  # noqa: E402
    DARK,
    LIGHT,
    MARKERS,
    WAITS,
    Theme,
    bytes_text,
    colour,
    hatch,
    line_style,
    rate_text,
    short,
    style,
    time_text,
)

Maker = Callable[[Theme], Figure]


def draw(run: Run, path: Path) -> list[str]:
    """Draws a run's pictures beside `path`, each in both themes, and returns their names without endings."""
    makers: dict[str, Callable[[Run, Theme], Figure]] = {"rates": rates, "waits": waits}
    if run.name.startswith("storm"):
        makers = {"histogram": histogram} | makers
    if run.name == "endless-reader":
        makers = {"wal": wal} | makers
    if run.name == "think":
        makers = {"impact": impact} | makers
    if run.name == "clients" and "stock-normal" in run.engines:
        makers = {"relative": relative} | makers
    return [save(f"{run.name}-{kind}", lambda theme, make=make: make(run, theme), path) for kind, make in makers.items()]  # type: ignore[misc]


def save(name: str, make: Maker, path: Path) -> str:
    """Draws one picture in both themes, and returns its name."""
    for theme in (LIGHT, DARK):
        with pyplot.rc_context(style(theme)):
            figure = make(theme)
            ending = "" if theme is LIGHT else "-dark"
            # Neither date nor program inside: the same figures give the same file.
            figure.savefig(path / f"{name}{ending}.svg", metadata={"Date": None, "Creator": None})
            pyplot.close(figure)
    return name


def rates(run: Run, theme: Theme) -> Figure:
    """Commits per second: over the number of threads or the size where that is what changes, else as bars."""
    for what in ("threads", "value_bytes"):
        if counts := numbers(run, what):
            figure, axes = pyplot.subplots(figsize=(8, 4.2))
            lines(axes, run, theme, counts)
            if what == "value_bytes":
                axes.set_xlabel("bytes in one insert")
                axes.set_xscale("log")
                axes.set_xticks(list(counts.values()), [bytes_text(count) for count in counts.values()])
                axes.xaxis.set_minor_locator(NullLocator())
            axes.set_ylabel("commits/s, logarithmic")
            axes.yaxis.set_major_formatter(FuncFormatter(rate_text))
            outside_legend(figure, axes)
            return figure
    return bars(run, theme)


def waits(run: Run, theme: Theme) -> Figure:
    """How long clients waited: one row for each label and engine, on a logarithmic scale."""
    rows = [(label, series) for label in run.labels for series in with_figures(run, label)]
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.27 * len(rows)))
    for place, (_, series) in enumerate(rows):
        values = {key: spread.median for key in WAITS if (spread := series.wait(key))}
        shade = colour(theme, series.engine)
        axes.plot([values["p50_ms"], values["max_ms"]], [place, place], line_style(series.engine), color=shade, linewidth=1.6, alpha=0.55)
        for key, marker in zip(WAITS, "|od>"):
            if key in values:
                axes.plot(values[key], place, marker, color=shade, markersize=6 if marker != "|" else 9)
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 100 else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(time_text))
    axes.xaxis.set_minor_locator(NullLocator())
    name_rows(axes, rows, theme)
    what = "time for one" if run.name == "limits" else "wait"
    axes.set_xlabel(f"{what}, logarithmic:   |  p50    ●  p99    ◆  p99.9    ▶  longest")
    return figure


def histogram(run: Run, theme: Theme) -> Figure:
    """How many operations took how long, both logarithmic: a tail shows however thin it is."""
    figure, panels = pyplot.subplots(
        len(run.labels), 1, figsize=(8, 3.6 * len(run.labels)), squeeze=False, sharex=True
    )
    per_decade = 12
    for axes, label in zip(panels[:, 0], run.labels):
        for series in with_figures(run, label):
            bins: dict[int, int] = {}
            for seconds, count in series.waits():
                place = math.floor(math.log10(seconds) * per_decade)
                bins[place] = bins.get(place, 0) + count
            places = range(min(bins), max(bins) + 1)
            edges = [10 ** (place / per_decade) * 1e3 for place in [*places, places[-1] + 1]]
            counts = [bins.get(place, 0) for place in places]
            shade, kind = colour(theme, series.engine), line_style(series.engine)
            axes.stairs(counts, edges, color=shade, fill=True, alpha=0.2)
            axes.stairs(counts, edges, color=shade, linewidth=1.6, linestyle=kind, label=series.engine)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.xaxis.set_major_formatter(FuncFormatter(time_text))
        axes.yaxis.set_major_formatter(FuncFormatter(rate_text))
        axes.set_title(label, loc="left", fontsize=10)
        axes.set_ylabel("operations, logarithmic")
    outside_legend(figure, panels[0, 0])
    panels[-1, 0].set_xlabel("time from connect to close, logarithmic")
    return figure


def bars(run: Run, theme: Theme) -> Figure:
    rows = [(label, series) for label in run.labels for series in with_figures(run, label)]
    is_limits = run.name == "limits"
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.27 * len(rows)))
    for place, (label, series) in enumerate(rows):
        spread = series.spread("commits_per_s")
        assert spread is not None, "it has figures"
        if is_limits:
            # A bar has no length on a logarithmic scale.
            axes.plot(spread.median, place, "o", color=colour(theme, series.engine), markersize=8)
        else:
            axes.barh(place, spread.median, 0.74, color=colour(theme, series.engine), hatch=hatch(series.engine), edgecolor=theme.paper, linewidth=0)
        axes.plot([spread.least, spread.most], [place, place], color=theme.ink, linewidth=1)
        ratio = run.ratio(series.engine, label, run.baseline)
        beside = "" if ratio is None or series.engine == run.baseline else f"   {ratio.median:.2f}x {run.baseline}"
        axes.annotate(short(spread.median) + beside, (spread.most, place), (5, 0), textcoords="offset points", va="center", fontsize=8.5)
    most = max((spread.most for _, it in rows if (spread := it.spread("commits_per_s"))), default=1)
    if is_limits:
        # Syncs and rows lie too far apart for one scale.
        axes.set_xscale("log")
        axes.set_xlim(right=most * 5)
    else:
        # Room for the words beside the longest.
        axes.set_xlim(0, most * 1.35)
    axes.xaxis.set_major_formatter(FuncFormatter(rate_text))
    name_rows(axes, rows, theme)
    axes.set_xlabel("per second, logarithmic" if is_limits else "commits/s")
    return figure


def lines(axes: Axes, run: Run, theme: Theme, counts: dict[str, int]) -> None:
    for engine, marker in zip(run.engines, MARKERS * 3):
        points: list[tuple[int, Spread]] = []
        for label, count in counts.items():
            series = run.of(engine, label)
            # A logarithmic scale has no place for nothing.
            if series and (spread := series.spread("commits_per_s")) and spread.least:
                points.append((count, spread))
        if not points:
            continue
        across = [count for count, _ in points]
        shade = colour(theme, engine)
        axes.fill_between(across, [it.least for _, it in points], [it.most for _, it in points], color=shade, alpha=0.18, linewidth=0)
        axes.plot(across, [it.median for _, it in points], line_style(engine), marker=marker, color=shade, label=engine, markersize=5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(counts.values()), list(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_yscale("log")
    least, most = axes.get_ylim()
    # A scale of few decades has names for 2 and 5, too.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 1000 else (1,)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def numbers(run: Run, what: str) -> dict[str, int]:
    """Labels and how much each means, if that is all in which they differ."""
    counts: dict[str, int] = {}
    if run.name == "claim":
        # Some of its workers are threads, others processes.
        return counts
    others = set()
    for label in run.labels:
        task = next(it for it in run.series if it.label == label).task
        if not isinstance(task.get(what), int):
            return {}
        counts[label] = task[what]
        others.add(str(sorted((key, str(value)) for key, value in task.items() if key != what)))
    return counts if len(others) == 1 and len(counts) > 1 else {}


def name_rows(axes: Axes, rows: list[tuple[str, Series]], theme: Theme) -> None:
    """Each engine beside its row, each label once, and every second group on a ground of its own."""
    names: list[str] = []
    before, groups = None, 0
    # The machine's limits are nobody's.
    is_limits = {series.task.get("kind") for _, series in rows} == {"physics"}
    for place, (label, series) in enumerate(rows):
        groups += label != before
        if groups % 2 == 0 and not is_limits:
            axes.axhspan(place - 0.5, place + 0.5, color=theme.faint, alpha=0.35, linewidth=0, zorder=0)
        names.append(label if is_limits else f"{label}   {series.engine}" if label != before else series.engine)
        before = label
    axes.set_yticks(range(len(rows)), names, fontsize=8.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
