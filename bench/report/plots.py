"""The pictures: rates, waits, and the histogram of a storm. Each is drawn once for light and once for dark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator  # noqa: E402

from measurements import WAL_LIMIT_BYTES, Run, Series, Spread  # noqa: E402


@dataclass(frozen=True)
class Theme:
    name: str
    paper: str
    ink: str
    faint: str
    colours: dict[str, str]


# Ours stands out; pairs stay apart for colour-blind eyes, in grey print by their markers.
LIGHT = Theme(
    "light",
    "#ffffff",
    "#1f2937",
    "#d9dde3",
    {
        "manyhands": "#1d4ed8",
        "manyhands-immediate": "#0e9aa7",
        "stock": "#6b7280",
        "stock-deferred": "#c2560c",
        "stock-mutex": "#9333ea",
        "postgres": "#3f7d20",
        "postgres-read-committed": "#8a8a00",
        "postgres-pipelined": "#0f766e",
        "manyhands-wal-limit": "#0e9aa7",
        "turso": "#be123c",
    },
)
DARK = Theme(
    "dark",
    "#11161d",
    "#e5e9ef",
    "#323b47",
    {
        "manyhands": "#6aa4ff",
        "manyhands-immediate": "#4fd1dc",
        "stock": "#a3acb9",
        "stock-deferred": "#f59e54",
        "stock-mutex": "#c79bff",
        "postgres": "#8bd450",
        "postgres-read-committed": "#d9d24a",
        "postgres-pipelined": "#2dd4bf",
        "manyhands-wal-limit": "#4fd1dc",
        "turso": "#fb7185",
    },
)
MARKERS = "osD^vPX"
WAITS = {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "longest"}


def colour(theme: Theme, engine: str) -> str:
    return theme.colours.get(engine.removesuffix("-normal"), theme.ink)


def line_style(engine: str) -> str:
    """Dashed where commits are durable only at the next checkpoint."""
    return "--" if engine.endswith("-normal") else "-"


def rate_text(value: float, _place: Any = None) -> str:
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def time_text(milliseconds: float, _place: Any = None) -> str:
    if milliseconds >= 1e3:
        return f"{milliseconds / 1e3:.3g} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:.3g} us"


def draw(run: Run, path: Path) -> list[str]:
    """Draws a run's pictures beside `path`, each in both themes, and returns their names without endings."""
    makers = {"rates": rates}
    if run.name != "limits":
        makers["waits"] = waits
    if run.name.startswith("storm"):
        makers = {"histogram": histogram} | makers
    if run.name == "endless-reader":
        makers = {"wal": wal} | makers
    if run.name == "think":
        makers = {"impact": impact} | makers
    names = []
    for kind, make in makers.items():
        name = f"{run.name}-{kind}"
        for theme in (LIGHT, DARK):
            with pyplot.rc_context(style(theme)):
                figure = make(run, theme)
                ending = "" if theme is LIGHT else "-dark"
                for format in ("svg", "png"):
                    # No date inside: the same figures give the same file.
                    metadata = {"Date": None} if format == "svg" else None
                    figure.savefig(path / f"{name}{ending}.{format}", metadata=metadata)
                pyplot.close(figure)
        names.append(name)
    return names


def style(theme: Theme) -> dict[Any, Any]:
    """Settings of matplotlib, whose newer versions list the keys that there are."""
    return {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.faint,
        "axes.labelcolor": theme.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.faint,
        "grid.linewidth": 0.6,
        "text.color": theme.ink,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "legend.frameon": False,
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "svg.fonttype": "path",
        "svg.hashsalt": "manyhands",
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
    }


def rates(run: Run, theme: Theme) -> Figure:
    """Commits per second: over the number of threads where that is what changes, else as bars."""
    counts = numbers(run)
    if counts:
        figure, axes = pyplot.subplots(figsize=(8, 4.2))
        lines(axes, run, theme, counts, "commits_per_s")
        axes.set_ylabel("commits/s")
        axes.yaxis.set_major_formatter(FuncFormatter(rate_text))
        return figure
    return bars(run, theme)


def waits(run: Run, theme: Theme) -> Figure:
    """How long clients waited: one row for each label and engine, on a logarithmic scale."""
    rows = [(label, series) for label in run.labels for series in present(run, label)]
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.27 * len(rows)))
    for place, (_, series) in enumerate(rows):
        values = {key: spread.median for key in WAITS if (spread := series.spread(key))}
        shade = colour(theme, series.engine)
        axes.plot([values["p50_ms"], values["max_ms"]], [place, place], color=shade, linewidth=1.6, alpha=0.55)
        for key, marker in zip(WAITS, "|od>"):
            axes.plot(values[key], place, marker, color=shade, markersize=6 if marker != "|" else 9)
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 100 else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(time_text))
    axes.xaxis.set_minor_locator(NullLocator())
    name_rows(axes, rows)
    axes.set_xlabel("wait:  |  p50    ●  p99    ◆  p99.9    ▶  longest")
    return figure


def histogram(run: Run, theme: Theme) -> Figure:
    """How many operations took how long, both logarithmic: a tail shows however thin it is."""
    figure, panels = pyplot.subplots(
        len(run.labels), 1, figsize=(8, 3.6 * len(run.labels)), squeeze=False, sharex=True
    )
    per_decade = 12
    for axes, label in zip(panels[:, 0], run.labels):
        for series in present(run, label):
            bins: dict[int, int] = {}
            for seconds, count in series.waits():
                place = math.floor(math.log10(seconds) * per_decade)
                bins[place] = bins.get(place, 0) + count
            places = range(min(bins), max(bins) + 1)
            edges = [10 ** (place / per_decade) * 1e3 for place in [*places, places[-1] + 1]]
            counts = [bins.get(place, 0) for place in places]
            shade = colour(theme, series.engine)
            axes.stairs(counts, edges, color=shade, fill=True, alpha=0.25)
            axes.stairs(counts, edges, color=shade, linewidth=1.6, label=series.engine)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.xaxis.set_major_formatter(FuncFormatter(time_text))
        axes.yaxis.set_major_formatter(FuncFormatter(rate_text))
        axes.set_ylabel(f"operations, {label}")
        axes.legend(loc="upper right")
    panels[-1, 0].set_xlabel("time from connect to close")
    return figure


def wal(run: Run, theme: Theme) -> Figure:
    """The WAL's length over time, beside the reader and after it: each repetition is a line."""
    labels = [label for label in run.labels if any(it.figures for it in present(run, label))]
    figure, panels = pyplot.subplots(len(labels), 1, figsize=(8, 2.9 * len(labels)), squeeze=False, sharex=True, sharey=True)
    for axes, label in zip(panels[:, 0], labels):
        for series in present(run, label):
            shade, name = colour(theme, series.engine), series.engine
            for figures in series.figures:
                seconds = [sample[0] / 1e3 for sample in figures["wal"]]
                megabytes = [sample[1] / 1e6 for sample in figures["wal"]]
                axes.plot(seconds, megabytes, line_style(series.engine), color=shade, linewidth=1.6, alpha=0.8, label=name)
                name = ""
        if readers := [figures["reader"]["ended_s"] for it in present(run, label) for figures in it.figures if figures.get("reader")]:
            axes.axvspan(0, min(readers), color=theme.faint, alpha=0.35, linewidth=0)
            note(axes, "while the reader reads", (min(readers) / 2, 1), (0, -4), ("data", "axes fraction"), ha="center", va="top")
        axes.set_title(label, loc="left", fontsize=10)
        axes.set_ylabel("length of the WAL, MB")
        axes.set_xlim(left=0)
    if "manyhands-wal-limit" in run.engines:
        for axes in panels[:, 0]:
            axes.axhline(WAL_LIMIT_BYTES / 1e6, color=colour(theme, "manyhands-wal-limit"), linestyle=":", linewidth=1.2)
            note(axes, "limit", (1, WAL_LIMIT_BYTES / 1e6), (-2, 2), ("axes fraction", "data"), ha="right", va="bottom")
    # All panels share it: set before the last is drawn it would cut that off.
    panels[0, 0].set_ylim(bottom=0)
    outside_legend(figure, panels[0, 0])
    panels[-1, 0].set_xlabel("seconds")
    return figure


def note(axes: Axes, text: str, place: tuple[float, float], away: tuple[int, int], units: tuple[str, str], **align: Any) -> None:
    """A few words beside a place."""
    axes.annotate(text, place, away, xycoords=units, textcoords="offset points", fontsize=8.5, **align)


def impact(run: Run, theme: Theme) -> Figure:
    """Rows per second over the time inside a transaction, one panel for each number of threads."""
    cells: dict[int, list[tuple[str, str]]] = {}
    for label in run.labels:
        task = next(it.task for it in run.series if it.label == label)
        think = task["shape"]["think"]
        name = "no think" if think["us"] == 0 else f"{think['us']} us {'busy' if think['kind'] == 'busy' else 'waiting'}"
        cells.setdefault(task["threads"], []).append((name, label))
    figure, panels = pyplot.subplots(1, len(cells), figsize=(8, 4), squeeze=False, sharey=True)
    for axes, (threads, points) in zip(panels[0], sorted(cells.items())):
        for engine, marker in zip(run.engines, MARKERS * 3):
            found = [(name, spread.median) for name, label in points if (series := run.of(engine, label)) and (spread := series.spread("rows_per_s"))]
            if found:
                names, values = zip(*found)
                shade = colour(theme, engine)
                axes.plot(names, values, line_style(engine), marker=marker, color=shade, label=engine, markersize=5)
        axes.set_title(f"{threads} threads" if threads > 1 else "1 thread", loc="left", fontsize=10)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(rate_text))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", labelrotation=20, labelsize=8.5)
    panels[0, 0].set_ylabel("rows/s")
    outside_legend(figure, panels[0, 0])
    return figure


def outside_legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, above them, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4)


def bars(run: Run, theme: Theme) -> Figure:
    rows = [(label, series) for label in run.labels for series in present(run, label)]
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.27 * len(rows)))
    for place, (label, series) in enumerate(rows):
        spread = series.spread("commits_per_s")
        assert spread is not None, "present"
        axes.barh(place, spread.median, 0.74, color=colour(theme, series.engine))
        axes.plot([spread.least, spread.most], [place, place], color=theme.ink, linewidth=1)
        to = "stock" if "stock" in run.engines else "stock-normal"
        ratio = run.ratio(series.engine, label, to)
        note = "" if ratio is None or series.engine == to else f"   {ratio.median:.2f}x {to}"
        axes.annotate(rate_text(float(f"{spread.median:.3g}")) + note, (spread.most, place), (5, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.margins(x=0.22)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(rate_text))
    name_rows(axes, rows)
    axes.set_xlabel("operations/s" if run.name == "limits" else "commits/s")
    return figure


def lines(axes: Axes, run: Run, theme: Theme, counts: dict[str, int], what: str) -> None:
    for engine, marker in zip(run.engines, MARKERS * 3):
        points: list[tuple[int, Spread]] = []
        for label, count in counts.items():
            series = run.of(engine, label)
            if series and (spread := series.spread(what)):
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
    # A scale of less than two decades has names for 2 and 5, too.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    outside_legend(axes.figure, axes)  # type: ignore[arg-type]


def numbers(run: Run) -> dict[str, int]:
    """Labels and how many clients each means, if that is all in which they differ."""
    counts: dict[str, int] = {}
    if run.name == "claim":
        # Some of its workers are threads, others processes.
        return counts
    others = set()
    for label in run.labels:
        task = next(it for it in run.series if it.label == label).task
        if not isinstance(task.get("threads"), int):
            return {}
        counts[label] = task["threads"]
        others.add(str(sorted((key, str(value)) for key, value in task.items() if key != "threads")))
    return counts if len(others) == 1 and len(counts) > 1 else {}


def present(run: Run, label: str) -> list[Series]:
    """The engines that have figures at this label."""
    found = (run.of(engine, label) for engine in run.engines)
    return [series for series in found if series and series.figures]


def name_rows(axes: Axes, rows: list[tuple[str, Series]]) -> None:
    """Each engine beside its row, each label once above its group."""
    names, before = [], None
    for label, series in rows:
        names.append(f"{label}   {series.engine}" if label != before else series.engine)
        before = label
    axes.set_yticks(range(len(rows)), names, fontsize=8.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
