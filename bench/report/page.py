"""The report: one HTML page with everything inside, which opens without a network, in light and in dark."""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import Optional

import drivers
import memory
import overhead
from drivers import Drivers
from measurements import DRIVERS, MEMORY, OURS, OVERHEAD, PEERS, STOCK, Run, circumstances
from memory import Memory
from overhead import Overhead
from tables import NOTE, html_table, notes
from targets import Verdict, verdicts
from theme import time_text
from words import ENGINES, NORMAL, REASONS, SEE, SEE_ELSE, TITLES

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2937; --faint: #d9dde3; --soft: #f5f7fa; --good: #15803d; --bad: #b91c1c }
@media (prefers-color-scheme: dark) { :root { --paper: #11161d; --ink: #e5e9ef; --faint: #323b47; --soft: #1a212b; --good: #4ade80; --bad: #f87171 } }
body { background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; max-width: 72rem; margin: 2.5rem auto; padding: 0 1.2rem }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-top: 1px solid var(--faint); padding-top: 1.5rem }
img { width: 100%; height: auto; margin: .6rem 0 }
code { background: var(--soft); padding: .1em .35em; border-radius: 4px; font-size: .88em; overflow-wrap: anywhere }
table { border-collapse: collapse; font-size: .78rem; width: 100%; font-variant-numeric: tabular-nums } .scroll { overflow-x: auto }
th, td { text-align: right; padding: .3rem .4rem; border-bottom: 1px solid var(--faint); white-space: nowrap; vertical-align: top }
th { white-space: normal; vertical-align: bottom } th:first-child, td:first-child, th.words { text-align: left } a { color: inherit }
tr.group td { font-weight: 600; padding-top: .8rem; background: none } figure { margin: 1.8rem 0 } figcaption { font-size: .9rem }
figcaption code { display: inline-block; margin-top: .3rem; opacity: .75 }
.words { text-align: left; white-space: normal } .target { margin: .2rem 0 }
td .note { font-size: inherit } .targets td:nth-child(3) { min-width: 11.5rem } .engines td:first-child { width: 13rem }
.win { color: var(--good) } .loss { color: var(--bad) } .note { opacity: .75; font-size: .9rem }
"""


LOSSES_SHOWN = 4
"""Of one engine in one workload, the greatest first."""


def page(
    runs: list[Run],
    pictures: dict[str, list[str]],
    folder: Path,
    python: Optional[Overhead],
    kept: Optional[Memory],
    others: Optional[Drivers],
) -> str:
    """The page; `pictures` by the name of the run, `kept` what stays in memory, `others` the drivers of other languages."""
    judged = verdicts(runs) + (python.verdicts() if python else []) + (kept.verdicts() if kept else [])
    judged += others.verdicts() if others else []
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Manyhands, measured: {html.escape(folder.name)}</title><style>{STYLE}</style>",
        "<h1>Manyhands, measured side by side</h1>",
        f"<p>{html.escape(circumstances([it.circumstances for it in runs]))} "
        "Engines run in turns within one command, so only ratios within one picture count. Median of the repetitions, with the least and the most. "
        "After each measurement the file is checked against what was acknowledged; without that there is no figure.</p>",
        engines_table(runs),
        targets_table(judged),
        wins_and_losses(runs),
    ]
    for run in runs:
        parts.append(section(run, pictures[run.name], folder, [it for it in judged if it.workload == run.name]))
    if python:
        parts.append(python_section(python, pictures[OVERHEAD], folder, python.verdicts()))
    if kept:
        parts.append(memory_section(kept))
    if others:
        parts.append(drivers_section(others))
    return "\n".join(parts) + "\n"


def engines_table(runs: list[Run]) -> str:
    names = dict.fromkeys(engine for run in runs for engine in run.engines)
    known = [engine for engine in ENGINES if engine in names]
    rows = "".join(f"<tr><td>{engine}<td class=words>{html.escape(ENGINES[engine])}" for engine in known)
    return f"<h2>Who takes part</h2><div class=scroll><table class=engines>{rows}</table></div>"


def targets_table(judged: list[Verdict]) -> str:
    met = sum(it.met for it in judged)
    rows = ["<tr><th>workload<th class=words>target<th class=words>measured<th>met"]
    for it in judged:
        link = f"<a href='#{it.workload}'>{it.workload}</a>"
        answer = "<span class=win>yes</span>" if it.met else "<span class=loss>no</span>"
        why = f"<br><span class=note>{html.escape(it.why)}</span>" if it.why else ""
        rows.append(f"<tr><td>{link}<td class=words>{html.escape(it.target)}{why}<td class=words>{html.escape(it.measured)}<td>{answer}")
    head = (
        f"<h2 id=targets>Targets</h2><p>{met} of {len(judged)} are met. They were set before anything was built. "
        "Where one is not met, its line says what was measured about the reason.</p>"
    )
    return f"{head}<div class=scroll><table class=targets>{''.join(rows)}</table></div>"


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
            ratios = [(label, ratio.median) for label in run.labels if (ratio := run.ratio(run.ours, label, engine))]
            better = [it for it in ratios if it[1] >= 1.05]
            worse = [it for it in ratios if it[1] < 0.95]
            name = f"<a href='#{run.name}'>{run.name}</a>, to {engine}"
            if better:
                least, most = min(it[1] for it in better), max(it[1] for it in better)
                span = f"{least:.2f}" if least == most else f"{least:.2f} to {most:.2f}"
                where = f"in all {len(ratios)} cases" if len(better) == len(ratios) > 1 else f"in {len(better)} of {len(ratios)} cases"
                wins.append(f"<li>{name}: {span} times" + (f", {where}" if len(ratios) > 1 else ""))
            if worse:
                reason = reason_of(run.name, engine)
                shown = sorted(worse, key=lambda it: it[1])[:LOSSES_SHOWN]
                lines = ", ".join(f"{ratio:.2f} times ({label})" for label, ratio in shown)
                lines += f", and in {len(worse) - len(shown)} more of {len(ratios)} cases" if len(worse) > len(shown) else ""
                losses.append(f"<li>{name}: {html.escape(lines)}{html.escape(f'. The reason: {reason}' if reason else '')}")
    none = "<li>none"
    return (
        "<h2>Wins and losses</h2><p>Commits of Manyhands for each commit of another engine in the same repetition; "
        f"what lies between 0.95 and 1.05 is neither.</p><h3>More</h3><ul>{''.join(wins) or none}</ul>"
        f"<h3>Less</h3><ul>{''.join(losses) or none}</ul>"
    )


def reason_of(workload: str, engine: str) -> str:
    """Why it is faster: what is true of a way to use stock SQLite is true of the others, but for the syncs."""
    if found := REASONS.get((workload, engine)):
        return found
    if engine.endswith("-normal"):
        return NORMAL
    return REASONS.get((workload, STOCK), "") if engine.startswith(STOCK) else ""


def section(run: Run, pictures: list[str], folder: Path, judged: list[Verdict]) -> str:
    body = [f"<h2 id={run.name}>{html.escape(TITLES.get(run.name, run.name))}</h2>", f"<p>{html.escape(sentence(run))}</p>"]
    body += target_lines(judged)
    for name in pictures:
        body.append(picture(name, SEE.get(name) or SEE_ELSE[name.rsplit("-", 1)[1]], run.circumstances["command"], folder))
    body += [f"<div class=scroll>{html_table(run)}</div>", f"<p class=note>{html.escape(NOTE)}</p>"]
    body += [f"<p class=note>{html.escape(note)}</p>" for note in notes(run)]
    return "\n".join(body)


def python_section(python: Overhead, pictures: list[str], folder: Path, judged: list[Verdict]) -> str:
    body = [f"<h2 id={OVERHEAD}>{html.escape(overhead.TITLE)}</h2>", f"<p>{html.escape(overhead.sentence(python))}</p>", *target_lines(judged)]
    body += [picture(name, overhead.SEE, python.circumstances["command"], folder) for name in pictures]
    return "\n".join([*body, f"<div class=scroll>{overhead.table(python)}</div>"])


def memory_section(kept: Memory) -> str:
    return "\n".join(
        [
            f"<h2 id={MEMORY}>{html.escape(memory.TITLE)}</h2>",
            f"<p>{html.escape(memory.sentence(kept))}</p>",
            f"<div class=scroll>{memory.table(kept)}</div>",
            f"<p class=note><code>{html.escape(f'reliability {kept.command}')}</code></p>",
        ]
    )


def drivers_section(others: Drivers) -> str:
    return "\n".join(
        [
            f"<h2 id={DRIVERS}>{html.escape(drivers.TITLE)}</h2>",
            f"<p>{html.escape(drivers.sentence(others))}</p>",
            *target_lines(others.verdicts()),
            f"<div class=scroll>{drivers.table(others)}</div>",
        ]
    )


def target_lines(judged: list[Verdict]) -> list[str]:
    lines = []
    for it in judged:
        answer = "<b class=win>met</b>" if it.met else "<b class=loss>not met</b>"
        why = " <a class=note href='#targets'>Why</a>" if it.why else ""
        lines.append(f"<p class=target>Target: {html.escape(it.target)}. Measured: {html.escape(it.measured)}; {answer}.{why}</p>")
    return lines


def picture(name: str, see: str, command: str, folder: Path) -> str:
    """Both themes, what to see, and the command that measured it."""
    light, dark = (data_uri(folder / f"{name}{ending}.svg") for ending in ("", "-dark"))
    return (
        f"<figure><picture><source media='(prefers-color-scheme: dark)' srcset='{dark}'><img alt='{html.escape(see, quote=True)}' src='{light}'></picture>"
        f"<figcaption>{html.escape(see)}<br><code>{html.escape(command)}</code></figcaption></figure>"
    )


def data_uri(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def sentence(run: Run) -> str:
    """What came out, in words, from the figures."""
    if run.name == "limits":
        return "No engine takes part: syncs, one giant transaction of stock SQLite, and round trips between threads and processes."
    to, ours = run.baseline, run.ours
    ratios = [(label, ratio) for label in run.labels if (ratio := run.ratio(ours, label, to))]
    if not ratios:
        return "Manyhands and stock SQLite were not both measured here."
    best = max(ratios, key=lambda it: it[1].median)
    worst = min(ratios, key=lambda it: it[1].median)
    name = "stock SQLite" if to == "stock" else "stock SQLite at NORMAL"
    text = f"For each commit of {name}, Manyhands has {best[1].median:.2f}"
    text += f" at best ({best[0]}), {worst[1].median:.2f} at worst ({worst[0]})." if worst[0] != best[0] else f" ({best[0]})."
    label = run.labels[-1]
    mine, stock = run.of(ours, label), run.of(to, label)
    if mine and stock and (one := mine.spread("max_ms")) and (other := stock.spread("max_ms")):
        text += f" The longest wait with {label}: {time_text(one.median)} against {time_text(other.median)}."
    text += "".join(beside(run, engine) for engine in PEERS)
    errors = sum(it.errors for it in run.series if it.engine == ours), sum(it.errors for it in run.series if it.engine == to)
    text += f" Refused operations: {errors[0]:,} against {errors[1]:,}."
    return text + long_jobs(run)


def beside(run: Run, peer: str) -> str:
    """How often Manyhands commits for each commit of a peer."""
    ratios = [ratio.median for label in run.labels if (ratio := run.ratio(OURS, label, peer))]
    if not ratios:
        return ""
    least, most = min(ratios), max(ratios)
    return f" For each commit of {PEERS[peer]}, {least:.2f}" + (f" to {most:.2f}." if len(ratios) > 1 else ".")


def long_jobs(run: Run) -> str:
    """How often the long transaction of `mixed` came through."""
    found = []
    for engine in run.engines:
        jobs = [figures["long_job"] for it in run.series if it.engine == engine for figures in it.figures if figures.get("long_job")]
        if jobs:
            found.append(f"{engine} {sum(not job.get('refusal') for job in jobs)} of {len(jobs)}")
    return f" Long jobs that committed: {', '.join(found)}." if found else ""
