"""Writes the table and the pictures of README.md, and the targets of docs/benchmarks/README.md, from the JSON lines of each machine.

`--check` only compares.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Optional

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench/report"))

from measurements import load  # noqa: E402
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
    """A folder for each machine."""
    return sorted(path.parent for path in HERE.glob("*/limits.jsonl"))


def lines_of(folder: Path, workload: str) -> list[dict]:
    return [json.loads(line) for line in (folder / f"{workload}.jsonl").read_text().splitlines()]


def machine(folder: Path) -> str:
    """What a machine is called, and how long its disk takes to sync a page: that decides what sharing a sync gains."""
    rows = [row for row in lines_of(folder, "limits") if row["cell"]["label"] == "fdatasync, overwrite 4 KiB"]
    name = rows[0]["circumstances"]["machine"].split("@")[0].replace("(R)", "").replace("Processor", "").strip()
    return f"{name}, a sync in {statistics.median(row['figures']['p50_ms'] * 1000 for row in rows):.0f} us"


def figures(folder: Path, workload: str, label: str) -> tuple[list[dict], list[dict]]:
    """Manyhands' runs and stock SQLite's; one without a figure has failed its check."""
    rows = [row for row in lines_of(folder, workload) if row["cell"]["label"] == label and row["figures"]]
    return tuple([row["figures"] for row in rows if row["engine"] == engine] for engine in ("manyhands", "stock"))


def table() -> str:
    columns = "".join(f" {machine(folder)} | x stock |" for folder in machines())
    links = ", ".join(f"[{folder.name}](docs/benchmarks/{folder.name})" for folder in machines())
    lines = [
        f"From {links}: Manyhands' commits/s and stock SQLite's, below them the longest waits.",
        "",
        f"| load |{columns}",
        f"|---|{'---|' * 2 * len(machines())}",
    ]
    for workload in WORKLOADS:
        labels = dict.fromkeys(row["cell"]["label"] for folder in machines() for row in lines_of(folder, workload))
        for label in SHOWN.get(workload, labels):
            cells = [cell(*figures(folder, workload, label)) for folder in machines()]
            lines.append(f"| {NAMES[workload].format(label)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(ours: list[dict], stock: list[dict]) -> str:
    """Two columns of the table."""
    if not ours or not stock:
        return "|"
    ratios = [a["commits_per_s"] / b["commits_per_s"] for a, b in zip(ours, stock)]
    ratio = f"**{statistics.median(ratios):.1f}x** ({min(ratios):.1f} to {max(ratios):.1f})"
    errors = statistics.median(sum(run["errors"].values()) for run in stock)
    failed = f", {errors:.0f} errors" if errors else ""
    waits = f"{longest(ours)}, {longest(stock)}{failed}"
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


def longest(runs: list[dict]) -> str:
    milliseconds = statistics.median(run["max_ms"] for run in runs)
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def targets() -> str:
    """What was to be reached, and what each machine has measured."""
    judged = [{(it.workload, it.target): it for it in judge(folder)} for folder in machines()]
    lines = [f"| workload | target | {' | '.join(machine(folder) for folder in machines())} |", f"|---|---|{'---|' * len(judged)}"]
    for workload, target in dict.fromkeys(key for found in judged for key in found):
        told = [answer(found.get((workload, target))) for found in judged]
        lines.append(f"| `{workload}` | {target} | {' | '.join(told)} |")
    return "\n".join(lines)


def judge(folder: Path) -> list[Verdict]:
    python, memory = load_overhead(folder), load_memory(folder)
    return verdicts(list(load(folder))) + (python.verdicts() if python else []) + (memory.verdicts() if memory else [])


def answer(verdict: Optional[Verdict]) -> str:
    if verdict is None:
        return "not measured"
    return verdict.measured if verdict.met else f"**no**: {verdict.measured}"


def main() -> int:
    pages = {ROOT / "README.md": f"{table()}\n\n{pictures()}", HERE / "README.md": targets()}
    for page, written in pages.items():
        text = page.read_text()
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        wanted = f"{before}{BEGIN}\n{written}\n{END}{after}"
        if "--check" not in sys.argv:
            page.write_text(wanted)
        elif wanted != text:
            print(f"{page} does not have the newest figures: run docs/benchmarks/readme.py")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
