"""Writes the figures of README.md, and the tables of docs/benchmarks/README.md, from the JSON lines of each machine.

`--check` only compares.
"""

import functools
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Optional

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench/report"))

from drivers import load_drivers, markdown  # noqa: E402
from measurements import lines_of, load  # noqa: E402
from memory import load_memory  # noqa: E402
from overhead import load_overhead  # noqa: E402
from targets import Verdict, verdicts  # noqa: E402

PICTURES = {
    "storm-histogram": "How many operations of a storm took how long",
    "threads-rates": "Commits per second over the number of threads",
    "threads-waits": "How long threads waited",
}
"""Each is in docs/benchmarks/pictures, once for light and once for dark: `make keep` draws them."""
BEGIN, END = "<!-- figures: written by docs/benchmarks/readme.py -->", "<!-- end of figures -->"
WORKLOADS = ["threads", "counter", "counter-in-transaction", "think", "transfer", "orm", "storm", "storm-python"]
# The labels to show, of workloads that have many.
SHOWN = {
    "counter": ["64 writers"],
    "counter-in-transaction": ["1 writer, BEGIN", "64 writers, BEGIN"],
    "think": ["no think, 8 threads", "1000 us busy, 8 threads", "1000 us waiting, 8 threads"],
    "transfer": [
        "10000 accounts, 200 us waiting, 8 threads",
        "100 accounts, 200 us busy, 8 threads",
    ],
}
# The rows of README.md: what gains most and least, and what loses.
README_ROWS = [
    ("threads", "1 thread"),
    ("threads", "64 threads"),
    ("orm", "8 threads"),
    ("think", "no think, 8 threads"),
    ("storm-python", "1000 Python processes"),
]
README_NAMES = {
    "think": "transactions of 100 inserts: {}",
    "storm-python": "{}, each writes 20 rows and pauses between them",
}
# A hot counter, which all engines were measured with: the columns of README.md's comparison.
PEERS = {
    "manyhands": "Manyhands",
    "stock": "stock SQLite",
    "stock-mutex": "SQLite, one writer behind a mutex",
    "turso": "Turso, MVCC",
    "postgres-read-committed": "PostgreSQL, read committed",
}
NAMES = {
    "threads": "{}, 1 KB inserts",
    "counter": "{} on 4 rows",
    "counter-in-transaction": "{} … COMMIT on 4 rows",
    "think": "transactions of 100 inserts: {}",
    "transfer": "transfers: {}",
    "orm": "20 reads, an insert, a counter: {}",
    "storm": "{}, each pauses up to 100 ms, opens, inserts one row, closes, 20 times",
    "storm-python": "{}, the same",
}


def machines() -> list[Path]:
    """A file for each machine."""
    return sorted(HERE.glob("*.jsonl"))


@functools.cache
def rows_of(machine: Path, workload: str) -> list[dict]:
    return [json.loads(line) for line in lines_of(machine)[workload]]


def name_of(machine: Path) -> str:
    """What a machine is called, and how long its disk takes to sync a page: that decides what sharing a sync gains."""
    rows = [row for row in rows_of(machine, "limits") if row["cell"]["label"] == "fdatasync, overwrite 4 KiB"]
    name = rows[0]["circumstances"]["machine"].split("@")[0].replace("(R)", "").replace("Processor", "").strip()
    return f"{name}, a sync in {statistics.median(row['figures']['p50_ms'] * 1000 for row in rows):.0f} us"


def runs_of(machine: Path, workload: str, label: str, engine: str) -> list[dict]:
    """What an engine's runs measured; one without a figure has failed its check."""
    rows = [row for row in rows_of(machine, workload) if row["cell"]["label"] == label and row["engine"] == engine]
    return [row["figures"] for row in rows if row["figures"]]


def figures(machine: Path, workload: str, label: str) -> tuple[list[dict], list[dict]]:
    """Manyhands' runs and stock SQLite's."""
    return runs_of(machine, workload, label, "manyhands"), runs_of(machine, workload, label, "stock")


def short_table() -> str:
    """README.md's figures: how many times stock SQLite's commits, and what 99 of 100 commits wait at most, here and there."""
    columns = "".join(f" {name_of(machine)} | p99, and stock SQLite's |" for machine in machines())
    lines = [f"| load |{columns}", f"|---|{'---|' * 2 * len(machines())}"]
    for workload, label in README_ROWS:
        name = README_NAMES.get(workload, NAMES[workload]).format(label)
        lines.append(f"| {name} | {' | '.join(short_cell(*figures(machine, workload, label)) for machine in machines())} |")
    return "\n".join(lines)


def short_cell(ours: list[dict], stock: list[dict]) -> str:
    """Two columns of it."""
    ratio = statistics.median(ratios(ours, stock))
    return f"**{ratio:.1f}x** ({rate(ours)}/s) | {wait(ours, 'p99_ms')}, {wait(stock, 'p99_ms')}"


def peers() -> str:
    """The same hot counter with every engine: commits/s, p99 and the longest wait."""
    lines = [
        "| 64 writers add to 4 rows | commits/s | p99 | longest wait |",
        "|---|---|---|---|",
    ]
    machine = machines()[0]
    for engine, name in PEERS.items():
        runs = runs_of(machine, "counter", "64 writers", engine)
        lines.append(f"| {name} | {rate(runs)} | {wait(runs, 'p99_ms')} | {wait(runs, 'max_ms')} |")
    return "\n".join(lines)


def table() -> str:
    columns = "".join(f" {name_of(machine)} | x stock |" for machine in machines())
    lines = [
        f"| load |{columns}",
        f"|---|{'---|' * 2 * len(machines())}",
    ]
    for workload in WORKLOADS:
        labels = dict.fromkeys(row["cell"]["label"] for machine in machines() for row in rows_of(machine, workload))
        for label in SHOWN.get(workload, labels):
            cells = [cell(*figures(machine, workload, label)) for machine in machines()]
            lines.append(f"| {NAMES[workload].format(label)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(ours: list[dict], stock: list[dict]) -> str:
    """Two columns of the table."""
    if not ours or not stock:
        return "|"
    found = ratios(ours, stock)
    ratio = f"**{statistics.median(found):.1f}x** ({min(found):.1f} to {max(found):.1f})"
    errors = statistics.median(sum(run["errors"].values()) for run in stock)
    failed = f", {errors:.0f} errors" if errors else ""
    waits = f"{wait(ours, 'max_ms')}, {wait(stock, 'max_ms')}{failed}"
    return f"{rate(ours)}, {rate(stock)}<br>{waits} | {ratio}"


def pictures() -> str:
    lines = []
    for name, text in PICTURES.items():
        place = f"docs/benchmarks/pictures/{name}"
        dark = f'<source media="(prefers-color-scheme: dark)" srcset="{place}-dark.svg">'
        lines.append(f'<picture>{dark}<img alt="{text}" src="{place}.svg"></picture>')
    return "\n".join(lines)


def rate(runs: list[dict]) -> str:
    return f"{statistics.median(run['commits_per_s'] for run in runs):,.0f}"


def ratios(ours: list[dict], stock: list[dict]) -> list[float]:
    return [a["commits_per_s"] / b["commits_per_s"] for a, b in zip(ours, stock)]


def wait(runs: list[dict], which: str) -> str:
    milliseconds = statistics.median(run[which] for run in runs)
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def targets() -> str:
    """What was to be reached, and what each machine has measured."""
    judged = [{(it.workload, it.target): it for it in judge(machine)} for machine in machines()]
    lines = [f"| workload | target | {' | '.join(name_of(machine) for machine in machines())} |", f"|---|---|{'---|' * len(judged)}"]
    for workload, target in dict.fromkeys(key for found in judged for key in found):
        told = [answer(found.get((workload, target))) for found in judged]
        lines.append(f"| `{workload}` | {target} | {' | '.join(told)} |")
    return "\n".join(lines)


def judge(machine: Path) -> list[Verdict]:
    others = filter(None, (load_overhead(machine), load_memory(machine), load_drivers(machine)))
    return verdicts(list(load(machine))) + [verdict for other in others for verdict in other.verdicts()]


def drivers() -> str:
    """Drivers of other languages, on the machine where they were measured."""
    return "\n\n".join(markdown(measured) for measured in map(load_drivers, machines()) if measured)


def answer(verdict: Optional[Verdict]) -> str:
    if verdict is None:
        return "not measured"
    return verdict.measured if verdict.met else f"**no**: {verdict.measured}"


def main() -> int:
    pages = {ROOT / "README.md": [f"{short_table()}\n\n{pictures()}", peers()], HERE / "README.md": [table(), targets(), drivers()]}
    for page, written in pages.items():
        text = page.read_text()
        parts = re.split(f"{BEGIN}.*?{END}", text, flags=re.DOTALL)
        assert len(parts) == len(written) + 1, f"{page} has places for {len(parts) - 1} tables, and not for {len(written)}"
        tables = [f"{BEGIN}\n{it}\n{END}" for it in written] + [""]
        wanted = "".join(part + it for part, it in zip(parts, tables))
        if "--check" not in sys.argv:
            page.write_text(wanted)
        elif wanted != text:
            print(f"{page} does not have the newest figures: run docs/benchmarks/readme.py")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
