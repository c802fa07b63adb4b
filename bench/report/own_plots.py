"""The pictures that only one workload has: the WAL beside a reader, what thinking costs, thousands of clients beside NORMAL, Python's loops."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from measurements import WAL_LIMIT_BYTES, Run, Series
from overhead import Overhead
from theme import MARKERS, Theme, colour, line_style, rate_text


def wal(run: Run, theme: Theme) -> Figure:
    """The WAL's length over time, beside the reader and after it: each repetition is a line."""
    labels = [label for label in run.labels if any(it.figures for it in with_figures(run, label))]
    figure, panels = pyplot.subplots(len(labels), 1, figsize=(8, 2.9 * len(labels)), squeeze=False, sharex=True, sharey=True)
    for axes, label in zip(panels[:, 0], labels):
        for series in with_figures(run, label):
            shade, name = colour(theme, series.engine), series.engine
            for figures in series.figures:
                seconds = [sample[0] / 1e3 for sample in figures["wal"]]
                megabytes = [sample[1] / 1e6 for sample in figures["wal"]]
                axes.plot(seconds, megabytes, line_style(series.engine), color=shade, linewidth=1.6, alpha=0.8, label=name)
                name = ""
        if readers := [figures["reader"]["ended_s"] for it in with_figures(run, label) for figures in it.figures if figures.get("reader")]:
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
    """Rows per second over the time inside a transaction: a row for each way to spend it, a column for each number of threads."""
    cells: dict[tuple[str, int], dict[int, str]] = {}
    kinds = [kind for kind in ("busy", "wait") if any(task["shape"]["think"]["kind"] == kind and task["shape"]["think"]["us"] for task in tasks(run))]
    for label in run.labels:
        task = next(it.task for it in run.series if it.label == label)
        think = task["shape"]["think"]
        # No time at all passes in any way.
        for kind in kinds if think["us"] == 0 else [think["kind"]]:
            cells.setdefault((kind, task["threads"]), {})[think["us"]] = label
    threads = sorted({number for _, number in cells})
    figure, panels = pyplot.subplots(
        max(len(kinds), 1), len(threads), figsize=(8, 1 + 2.6 * max(len(kinds), 1)), squeeze=False, sharex=True, sharey=True
    )
    times = sorted({us for points in cells.values() for us in points})
    for (kind, number), points in cells.items():
        axes = panels[kinds.index(kind), threads.index(number)]
        for engine, marker in zip(run.engines, MARKERS * 3):
            found = [(times.index(us), spread.median) for us, label in sorted(points.items()) if (spread := rows_per_s(run, engine, label)) and spread.median]
            if found:
                across, values = zip(*found)
                axes.plot(across, values, line_style(engine), marker=marker, color=colour(theme, engine), label=engine, markersize=5)
        axes.set_title(f"{number} {'threads' if number > 1 else 'thread'}, {'busy' if kind == 'busy' else 'waiting'}", loc="left", fontsize=10)
        axes.set_xticks(range(len(times)), [f"{us}" for us in times])
        axes.set_xlim(-0.25, len(times) - 0.75)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(rate_text))
        axes.yaxis.set_minor_formatter(NullFormatter())
    for axes in panels[:, 0]:
        axes.set_ylabel("rows/s, logarithmic")
    figure.supxlabel("us in each transaction", fontsize=10)
    outside_legend(figure, panels[0, 0])
    return figure


def tasks(run: Run) -> list[dict[str, Any]]:
    return [series.task for series in run.series]


def rows_per_s(run: Run, engine: str, label: str) -> Any:
    series = run.of(engine, label)
    return series.spread("rows_per_s") if series else None


def relative(run: Run, theme: Theme) -> Figure:
    """Throughput and p99 relative to stock SQLite at NORMAL, over the clients of each process: a column for each number of processes."""
    columns: dict[str, list[tuple[int, str]]] = {}
    for label in run.labels:
        task = next(it.task for it in run.series if it.label == label)
        columns.setdefault(label.split(" x ")[0], []).append((task["clients"], label))
    names = {"commits_per_s": "commits/s", "p99_ms": "p99"}
    figure, panels = pyplot.subplots(2, len(columns), figsize=(8, 5), squeeze=False, sharex="col", sharey="row")
    for column, (title, cells) in enumerate(columns.items()):
        panels[0, column].set_title(title, loc="left", fontsize=10)
        for row, what in enumerate(names):
            axes = panels[row, column]
            axes.axhline(1, color=colour(theme, "stock-normal"), linestyle="--", linewidth=1.2, label="stock-normal = 1")
            for engine, marker in zip(run.engines, MARKERS * 3):
                found = [(place, ratio) for place, (_, label) in enumerate(cells) if (ratio := beside_normal(run, engine, label, what))]
                if found and engine != "stock-normal":
                    across, values = zip(*found)
                    axes.plot(across, values, line_style(engine), marker=marker, color=colour(theme, engine), label=engine, markersize=5)
            axes.set_xticks(range(len(cells)), [rate_text(clients) for clients, _ in cells])
            axes.set_xlim(-0.5, len(cells) - 0.5)
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
            axes.yaxis.set_minor_formatter(NullFormatter())
    figure.supxlabel("clients of each process", fontsize=10)
    for row, name in enumerate(names.values()):
        panels[row, 0].set_ylabel(f"{name}, of stock at NORMAL")
    outside_legend(figure, panels[0, 0])
    return figure


def beside_normal(run: Run, engine: str, label: str, what: str) -> float | None:
    ours, theirs = run.of(engine, label), run.of("stock-normal", label)
    one, other = ours and ours.spread(what), theirs and theirs.spread(what)
    return one.median / other.median if one and other and one.median and other.median else None


def speeds(overhead: Overhead, theme: Theme) -> Figure:
    """Each loop of Python beside the standard module, with its target."""
    loops = overhead.loops
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.4 * len(loops)))
    shade = colour(theme, "manyhands")
    for place, loop in enumerate(loops):
        speed = loop.speed
        axes.plot([speed.least, speed.most], [place, place], color=shade, linewidth=2, alpha=0.5)
        axes.plot(speed.median, place, "o", color=shade, markersize=7)
        axes.annotate(f"{speed.median:.2f}x", (speed.most, place), (7, 0), textcoords="offset points", va="center", fontsize=8.5)
        if loop.least is not None:
            axes.plot([loop.least, loop.least], [place - 0.3, place + 0.3], color=theme.ink, linewidth=1.4)
    axes.axvline(1, color=colour(theme, "stock"), linestyle="--", linewidth=1.2, zorder=0)
    least, most = min(loop.speed.least for loop in loops), max(loop.speed.most for loop in loops)
    axes.set_xlim(min(least, 0.9) - 0.05, max(most, 1.1) * 1.12)
    axes.set_yticks(range(len(loops)), [loop.name for loop in loops], fontsize=8.5)
    axes.set_ylim(len(loops) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("speed beside the standard module (dashed); | is the target")
    return figure


def with_figures(run: Run, label: str) -> list[Series]:
    """The engines that have figures at this label."""
    found = (run.of(engine, label) for engine in run.engines)
    return [series for series in found if series and series.figures]


def outside_legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, above them, where it hides nothing: two rows at most, filled row by row."""
    handles, names = axes.get_legend_handles_labels()
    columns = len(names) if len(names) <= 5 else (len(names) + 1) // 2
    figure.legend(handles, names, loc="outside upper center", ncols=columns, fontsize=9, columnspacing=1.4)
