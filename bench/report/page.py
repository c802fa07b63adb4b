"""The report: one HTML page with everything inside, which opens without a network, in light and in dark."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from measurements import OURS, PEERS, STOCK, Run
from plots import rate_text, time_text

TITLES = {
    "storm": "Storm: many short-lived processes",
    "threads": "Threads: 1 KB inserts",
    "counter": "Counter: everybody updates the same four rows",
    "counter-in-transaction": "Counter, in transactions",
    "think": "Think: 100 inserts after computing or waiting",
    "transfer": "Transfer: read two balances, think, write both",
    "orm": "A web request's transaction",
    "mixed": "A long job beside short writers",
    "sizes": "Sizes: one insert per transaction",
    "limits": "What the machine can do at best",
}

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2937; --faint: #d9dde3; --soft: #f5f7fa; --good: #15803d; --bad: #b91c1c }
@media (prefers-color-scheme: dark) { :root { --paper: #11161d; --ink: #e5e9ef; --faint: #323b47; --soft: #1a212b; --good: #4ade80; --bad: #f87171 } }
body { background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid var(--faint); padding-top: 1.5rem }
img { width: 100%; height: auto; margin: .6rem 0 }
code { background: var(--soft); padding: .1em .35em; border-radius: 4px; font-size: .88em; overflow-wrap: anywhere }
table { border-collapse: collapse; font-size: .86rem; width: 100%; font-variant-numeric: tabular-nums } .scroll { overflow-x: auto }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--faint); white-space: nowrap }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left }
.win { color: var(--good) } .loss { color: var(--bad) } .note { opacity: .75; font-size: .9rem }
"""


def page(runs: list[Run], pictures: dict[str, list[str]], folder: Path, notes: str) -> str:
    """The page. `notes` is HTML-free text about wins and losses, one paragraph per line."""
    first = runs[0].circumstances
    machine = f"{first['machine']}, {first['cores']} cores, {first['file_system']}, Linux {first['kernel']}"
    programs = ", ".join(dict.fromkeys(it for run in runs for it in run.versions.values()))
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Manyhands, measured: {html.escape(folder.name)}</title><style>{STYLE}</style>",
        "<h1>Manyhands, measured side by side</h1>",
        f"<p>{html.escape(machine)}; {html.escape(programs)}; commit {first['commit']} of Manyhands. "
        "Engines run in turns within one command, each at the durability in its name (no suffix: a commit survives a "
        "power cut). Median of the repetitions, with the least and the most. After each measurement the file is "
        "checked against what was acknowledged; without that there is no figure.</p>",
    ]
    parts += [f"<p>{html.escape(line)}</p>" for line in notes.splitlines() if line.strip()]
    for run in runs:
        parts.append(section(run, pictures[run.name], folder))
    return "\n".join(parts) + "\n"


def section(run: Run, pictures: list[str], folder: Path) -> str:
    title = TITLES.get(run.name, run.name)
    body = [f"<h2 id={run.name}>{html.escape(title)}</h2>", f"<p>{html.escape(sentence(run))}</p>"]
    for name in pictures:
        light, dark = (data_uri(folder / f"{name}{ending}.svg") for ending in ("", "-dark"))
        body.append(
            f"<picture><source media='(prefers-color-scheme: dark)' srcset='{dark}'><img alt='{html.escape(title)}' src='{light}'></picture>"
        )
    body.append(f"<div class=scroll>{table(run)}</div>")
    body += [
        f"<p class=loss>{html.escape(f'{it.label}, {it.engine}: no figure, since {reason}')}</p>"
        for it in run.series
        for reason in it.withheld
    ]
    body += [
        f"<p class=note>{html.escape(f'{engine} did not take part: {reason}')}</p>"
        for engine, reason in run.left_out.items()
    ]
    body.append(f"<p class=note><code>{html.escape(run.circumstances['command'])}</code></p>")
    return "\n".join(body)


def data_uri(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def sentence(run: Run) -> str:
    """What to see, in words, from the figures."""
    if run.name == "limits":
        return "No engine takes part: syncs, one giant transaction of stock SQLite, and round trips between threads and processes."
    ratios = [(label, ratio) for label in run.labels if (ratio := run.ratio(OURS, label))]
    if not ratios:
        return "Manyhands and stock SQLite were not both measured here."
    best = max(ratios, key=lambda it: it[1].median)
    worst = min(ratios, key=lambda it: it[1].median)
    text = f"Manyhands commits {best[1].median:.1f} times as often as stock SQLite at best ({best[0]})"
    text += f", {worst[1].median:.2f} times at worst ({worst[0]})." if worst[0] != best[0] else "."
    label = run.labels[-1]
    ours, stock = run.of(OURS, label), run.of(STOCK, label)
    if ours and stock and (one := ours.spread("max_ms")) and (other := stock.spread("max_ms")):
        text += f" The longest wait with {label}: {time_text(one.median)} against {time_text(other.median)}."
    text += "".join(beside(run, engine) for engine in PEERS)
    errors = sum(it.errors for it in run.series if it.engine == OURS), sum(it.errors for it in run.series if it.engine == STOCK)
    return text + f" Refused operations: {errors[0]} against {errors[1]}."


def beside(run: Run, peer: str) -> str:
    """How often Manyhands commits for each commit of a peer."""
    ratios = [ratio.median for label in run.labels if (ratio := run.ratio(OURS, label, peer))]
    if not ratios:
        return ""
    least, most = min(ratios), max(ratios)
    return f" For each commit of {PEERS[peer]}, {least:.2f}" + (f" to {most:.2f}." if len(ratios) > 1 else ".")


def table(run: Run) -> str:
    head = ["", "engine", "commits/s", "least–most", "x stock", "p50", "p99", "p99.9", "longest"]
    head += ["retries per 100", "errors", "CPU s", "memory"]
    rows = ["<tr>" + "".join(f"<th>{name}" for name in head)]
    for label in run.labels:
        for engine in run.engines:
            series = run.of(engine, label)
            rate = series.spread("commits_per_s") if series else None
            if series is None or rate is None:
                continue
            ratio = run.ratio(engine, label)
            kind = "" if ratio is None or engine == STOCK else " class=win" if ratio.median >= 1 else " class=loss"
            times = [time_text(spread.median) for key in ("p50_ms", "p99_ms", "p999_ms", "max_ms") if (spread := series.spread(key))]
            retries = series.spread("retries_per_100")
            cpu, memory = series.spread("cpu_s"), series.spread("rss_peak_bytes_max")
            cells = [
                html.escape(label),
                engine,
                rate_text(float(f"{rate.median:.3g}")),
                f"{rate_text(float(f'{rate.least:.3g}'))}–{rate_text(float(f'{rate.most:.3g}'))}",
                "" if ratio is None else f"<span{kind}>{ratio.median:.2f}x</span>",
                *times,
                f"{retries.median:.3g}" if retries else "",
                str(series.errors),
                f"{cpu.median:.2f}" if cpu else "",
                f"{memory.median / 1e6:.1f} MB" if memory else "",
            ]
            rows.append("<tr>" + "".join(f"<td>{cell}" for cell in cells))
    return "<table>" + "".join(rows) + "</table>"
