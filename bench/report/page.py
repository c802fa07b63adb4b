"""The report: one HTML page with everything inside, which opens without a network, in light and in dark."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from measurements import OURS, PEERS, STOCK, Run
from plots import rate_text, time_text
from targets import Verdict, verdicts

TITLES = {
    "storm": "Storm: many short-lived processes",
    "storm-python": "Storm: the same with Python processes",
    "threads": "Threads: 1 KB inserts",
    "threads-normal": "Threads, at synchronous=NORMAL",
    "threads-at-a-rate": "Threads at a given rate",
    "clients": "Clients: thousands of async tasks in several processes",
    "web": "A web server",
    "claim": "A queue of jobs",
    "counter": "Counter: everybody updates the same four rows",
    "counter-in-transaction": "Counter, in transactions",
    "think": "Think: 100 inserts after computing or waiting",
    "transfer": "Transfer: read two balances, think, write both",
    "orm": "A web request's transaction",
    "mixed": "A long job beside short writers",
    "endless-reader": "A reader that does not end",
    "sizes": "Sizes: one insert per transaction",
    "limits": "What the machine can do at best",
}

LOOK = {
    "storm": "The histogram: how far to the right its tail reaches is how long the unluckiest processes waited.",
    "storm-python": "The histogram's tail again; here the interpreters keep the processors busy.",
    "threads": "Whether a line rises with the number of threads, or falls; and how far apart p50 and the longest wait lie.",
    "threads-normal": "One thread and nobody beside it: the price of the queue is the difference between the two.",
    "threads-at-a-rate": "All writes are due at fixed times, and their wait counts from there: who cannot keep up waits longer and longer.",
    "clients": "Rates and waits at FULL beside stock SQLite at NORMAL, which syncs only at checkpoints.",
    "web": "Posts and reads through a server of four Python processes; the interpreter's own work bounds all engines.",
    "claim": "Each job goes to one worker, exactly once. PostgreSQL skips the jobs that others are about to take.",
    "counter": "Whether many writers of the same rows get in each other's way.",
    "counter-in-transaction": "The same with BEGIN and COMMIT around each update.",
    "think": "What the time inside a transaction costs the others: nothing where transactions run side by side.",
    "transfer": "Reads that must still be so at the commit; with 100 accounts they often are not.",
    "orm": "Twenty reads of tables that nobody writes, one insert, one counter that all share.",
    "mixed": "The short writers' waits beside the long job, relative to those alone.",
    "endless-reader": "The length of the WAL while the reader is there: where it ends, the line ends to rise.",
    "sizes": "Small values cost a sync, large ones the copying.",
}
"""What to look at, in one sentence."""

REASONS = {
    ("threads", STOCK): "one thread alone gains nothing from a queue, and each write pays for a look at it",
    ("threads-normal", "stock-normal"): "one thread alone gains nothing from a queue, and each write pays for a look at it",
    ("think", STOCK): "a transaction whose statements others have overtaken executes them once more at its commit",
    ("transfer", "turso"): "snapshot isolation does not ask whether what was read is still so; Manyhands executes the reads again",
    ("counter", "stock-mutex"): "one writer alone gains nothing from a queue, and each write pays for a look at it",
    ("clients", "stock-normal"): "stock SQLite at NORMAL syncs only at checkpoints, Manyhands at FULL for each batch",
    ("threads", "stock-mutex-normal"): "stock SQLite at NORMAL syncs only at checkpoints: with few threads a batch has too few writes to share a sync",
    ("counter", STOCK): "one writer alone gains nothing from a queue, and each write pays for a look at it",
    ("sizes", STOCK): "one writer alone gains nothing from a queue; a value that is too long for a slot waits for its turn",
    ("claim", "postgres-read-committed"): "PostgreSQL's workers skip what others have locked, and run side by side",
    ("web", STOCK): "a lightly loaded server has nobody to share a sync with",
    ("orm", "turso"): "its reads see a snapshot and are not looked at again",
}
"""Why another engine commits more often, where it does."""

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2937; --faint: #d9dde3; --soft: #f5f7fa; --good: #15803d; --bad: #b91c1c }
@media (prefers-color-scheme: dark) { :root { --paper: #11161d; --ink: #e5e9ef; --faint: #323b47; --soft: #1a212b; --good: #4ade80; --bad: #f87171 } }
body { background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; max-width: 66rem; margin: 2.5rem auto; padding: 0 1.2rem }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid var(--faint); padding-top: 1.5rem }
img { width: 100%; height: auto; margin: .6rem 0 }
code { background: var(--soft); padding: .1em .35em; border-radius: 4px; font-size: .88em; overflow-wrap: anywhere }
table { border-collapse: collapse; font-size: .8rem; width: 100%; font-variant-numeric: tabular-nums } .scroll { overflow-x: auto }
th, td { text-align: right; padding: .3rem .45rem; border-bottom: 1px solid var(--faint); white-space: nowrap }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), th.words { text-align: left } a { color: inherit }
.words { text-align: left; white-space: normal } .target { margin: .2rem 0 }
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
    judged = verdicts(runs)
    parts += [targets_table(judged), wins_and_losses(runs)]
    for run in runs:
        parts.append(section(run, pictures[run.name], folder, [it for it in judged if it.workload == run.name]))
    return "\n".join(parts) + "\n"


def targets_table(judged: list[Verdict]) -> str:
    met = sum(it.met for it in judged)
    rows = ["<tr><th>workload<th>target<th class=words>measured<th>met"]
    for it in judged:
        link = f"<a href='#{it.workload}'>{it.workload}</a>"
        answer = "<span class=win>yes</span>" if it.met else "<span class=loss>no</span>"
        rows.append(f"<tr><td>{link}<td class=words>{html.escape(it.target)}<td class=words>{html.escape(it.measured)}<td>{answer}")
    head = f"<h2>Targets</h2><p>{met} of {len(judged)} are met. They were set before anything was built.</p>"
    return f"{head}<div class=scroll><table>{''.join(rows)}</table></div>"


def wins_and_losses(runs: list[Run]) -> str:
    """Each other engine at each line: how much more often Manyhands commits, and why not where it does not."""
    wins, losses = [], []
    for run in runs:
        if run.name == "limits":
            continue
        for engine in run.engines:
            # At a given rate all commit the same, or have fallen behind.
            if engine.startswith(OURS) or run.name == "threads-at-a-rate":
                continue
            ours = OURS if OURS in run.engines else "manyhands-normal"
            ratios = [(label, ratio.median) for label in run.labels if (ratio := run.ratio(ours, label, engine))]
            better = [it for it in ratios if it[1] >= 1.05]
            worse = [it for it in ratios if it[1] < 0.95]
            name = f"<a href='#{run.name}'>{run.name}</a>, to {engine}"
            if better:
                least, most = min(it[1] for it in better), max(it[1] for it in better)
                span = f"{least:.2f}" if least == most else f"{least:.2f} to {most:.2f}"
                wins.append(f"<li>{name}: {span} times, at {len(better)} of {len(ratios)} lines")
            if worse:
                reason = REASONS.get((run.name, engine), "")
                lines = ", ".join(f"{ratio:.2f} times ({label})" for label, ratio in worse)
                losses.append(f"<li>{name}: {html.escape(lines)}{html.escape(f'. The reason: {reason}' if reason else '')}")
    none = "<li>none"
    return (
        "<h2>Wins and losses</h2><p>Commits of Manyhands for each commit of another engine in the same repetition; "
        f"what lies between 0.95 and 1.05 is neither.</p><h3>More</h3><ul>{''.join(wins) or none}</ul>"
        f"<h3>Less</h3><ul>{''.join(losses) or none}</ul>"
    )


def section(run: Run, pictures: list[str], folder: Path, judged: list[Verdict]) -> str:
    title = TITLES.get(run.name, run.name)
    body = [f"<h2 id={run.name}>{html.escape(title)}</h2>", f"<p>{html.escape(sentence(run))}</p>"]
    if look := LOOK.get(run.name):
        body.append(f"<p>What to see: {html.escape(look[0].lower() + look[1:])}</p>")
    for it in judged:
        answer = "<b class=win>met</b>" if it.met else "<b class=loss>not met</b>"
        body.append(f"<p class=target>Target: {html.escape(it.target)}. Measured: {html.escape(it.measured)}; {answer}.</p>")
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
    to = STOCK if STOCK in run.engines else "stock-normal"
    ours = OURS if OURS in run.engines else "manyhands-normal"
    ratios = [(label, ratio) for label in run.labels if (ratio := run.ratio(ours, label, to))]
    if not ratios:
        return "Manyhands and stock SQLite were not both measured here."
    best = max(ratios, key=lambda it: it[1].median)
    worst = min(ratios, key=lambda it: it[1].median)
    text = f"Manyhands commits {best[1].median:.1f} times as often as {'stock SQLite' if to == STOCK else 'stock SQLite at NORMAL'} at best ({best[0]})"
    text += f", {worst[1].median:.2f} times at worst ({worst[0]})." if worst[0] != best[0] else "."
    label = run.labels[-1]
    mine, stock = run.of(ours, label), run.of(to, label)
    if mine and stock and (one := mine.spread("max_ms")) and (other := stock.spread("max_ms")):
        text += f" The longest wait with {label}: {time_text(one.median)} against {time_text(other.median)}."
    text += "".join(beside(run, engine) for engine in PEERS)
    errors = sum(it.errors for it in run.series if it.engine == ours), sum(it.errors for it in run.series if it.engine == to)
    return text + f" Refused operations: {errors[0]} against {errors[1]}."


def beside(run: Run, peer: str) -> str:
    """How often Manyhands commits for each commit of a peer."""
    ratios = [ratio.median for label in run.labels if (ratio := run.ratio(OURS, label, peer))]
    if not ratios:
        return ""
    least, most = min(ratios), max(ratios)
    return f" For each commit of {PEERS[peer]}, {least:.2f}" + (f" to {most:.2f}." if len(ratios) > 1 else ".")


def table(run: Run) -> str:
    to = STOCK if STOCK in run.engines else "stock-normal"
    head = ["", "engine", "commits/s", "least–most", f"x {to}", "p50", "p99", "p99.9", "longest"]
    head += ["retries/100", "errors", "CPU s", "memory"]
    rows = ["<tr>" + "".join(f"<th>{name}" for name in head)]
    for label in run.labels:
        for engine in run.engines:
            series = run.of(engine, label)
            rate = series.spread("commits_per_s") if series else None
            if series is None or rate is None:
                continue
            ratio = run.ratio(engine, label, to)
            kind = "" if ratio is None or engine == to else " class=win" if ratio.median >= 1 else " class=loss"
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
