"""Writes the table and the pictures of README.md, the newest of each load and machine; `--check` only compares."""

import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent.parent / "README.md"
PICTURES = {
    "storm-histogram": "How many operations of a storm took how long",
    "threads-rates": "Commits per second over the number of threads",
    "threads-waits": "How long threads waited",
}
"""Each is drawn by `make report`, once for light and once for dark."""
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


def newest(workload: str) -> dict[str, Path]:
    """The newest measurement of each machine, by the machine's name: folders are called YYYY-MM-DD-machine."""
    folders = sorted(path for path in HERE.iterdir() if (path / f"{workload}.jsonl").exists())
    return {folder.name[len("YYYY-MM-DD-") :]: folder for folder in folders}


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
    machines = newest("limits")
    used = {folder.name for workload in WORKLOADS for folder in newest(workload).values()}
    links = ",\n".join(f"[{name}](docs/benchmarks/{name})" for name in sorted(used, reverse=True))
    columns = "".join(f" {machine(folder)} | x stock |" for folder in machines.values())
    lines = [
        f"From {links}: Manyhands' commits/s and stock SQLite's, below them the longest waits.",
        "",
        f"| load |{columns}",
        f"|---|{'---|' * 2 * len(machines)}",
    ]
    for workload in WORKLOADS:
        measured = newest(workload)
        labels = dict.fromkeys(row["cell"]["label"] for folder in measured.values() for row in lines_of(folder, workload))
        for label in SHOWN.get(workload, labels):
            cells = [cell(*figures(measured[name], workload, label)) if name in measured else "|" for name in machines]
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
        folders = sorted(path for path in HERE.iterdir() if (path / f"{name}.svg").exists())
        if folders:
            place = f"docs/benchmarks/{folders[-1].name}/{name}"
            dark = f'<source media="(prefers-color-scheme: dark)" srcset="{place}-dark.svg">'
            lines.append(f'<picture>{dark}<img alt="{text}" src="{place}.svg"></picture>')
    return "\n".join(lines)


def rate(runs: list[dict]) -> str:
    return f"{statistics.median(run['commits_per_s'] for run in runs):,.0f}"


def longest(runs: list[dict]) -> str:
    milliseconds = statistics.median(run["max_ms"] for run in runs)
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def main() -> int:
    text = README.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n{table()}\n\n{pictures()}\n{END}{after}"
    if "--check" in sys.argv:
        if wanted != text:
            print("README.md does not have the newest figures: run docs/benchmarks/readme.py")
            return 1
        return 0
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
