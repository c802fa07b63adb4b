"""How pictures look: in light and in dark, one colour for each engine, and how numbers are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
        "manyhands-immediate": "#60a5fa",
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
        "manyhands-immediate": "#c7dcff",
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


def hatch(engine: str) -> str:
    """The same for bars."""
    return "///" if engine.endswith("-normal") else ""


def rate_text(value: float, _place: Any = None) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def short(value: float) -> str:
    """Three digits."""
    return rate_text(float(f"{value:.3g}"))


def bytes_text(value: float, _place: Any = None) -> str:
    for unit, size in (("MB", 1e6), ("KB", 1e3)):
        if value >= size:
            return f"{float(f'{value / size:.3g}'):g} {unit}"
    return f"{value:.0f} B"


def time_text(milliseconds: float, _place: Any = None) -> str:
    if milliseconds >= 1e3:
        return f"{milliseconds / 1e3:.3g} s"
    return f"{milliseconds:.3g} ms" if milliseconds >= 1 else f"{milliseconds * 1e3:.3g} us"


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
        "font.family": ["DejaVu Sans", "sans-serif"],
        "font.size": 10,
        "svg.fonttype": "none",
        "svg.hashsalt": "manyhands",
        "figure.dpi": 110,
        "figure.constrained_layout.use": True,
    }
