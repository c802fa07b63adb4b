"""Writes the table and the pictures of README.md, the newest of each load; `--check` only compares."""

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


def newest(workload: str) -> Path | None:
    folders = sorted(path for path in HERE.iterdir() if (path / f"{workload}.jsonl").exists())
    return folders[-1] if folders else None


def table() -> str:
    measured = {workload: folder for workload in WORKLOADS if (folder := newest(workload))}
    folders = sorted({folder.name for folder in measured.values()}, reverse=True)
    links = " and ".join(f"[{name}](docs/benchmarks/{name})" for name in folders)
    lines = [
        f"From {links}, the newest of each load:",
        "",
        "| load | Manyhands, commits/s | stock SQLite | ratio | p99.9, longest wait | stock: p99.9, longest wait, errors |",
        "|---|---|---|---|---|---|",
    ]
    for workload, folder in measured.items():
        text = (folder / f"{workload}.jsonl").read_text()
        rows = [json.loads(line) for line in text.splitlines()]
        labels = dict.fromkeys(row["cell"]["label"] for row in rows)
        for label in SHOWN.get(workload, labels):
            figures = {
                engine: [
                    row["figures"]
                    for row in rows
                    # Without a figure its check has failed.
                    if row["engine"] == engine and row["cell"]["label"] == label and row["figures"]
                ]
                for engine in ("manyhands", "stock")
            }
            ours, stock = figures["manyhands"], figures["stock"]
            if not ours or not stock:
                continue
            ratios = [a["commits_per_s"] / b["commits_per_s"] for a, b in zip(ours, stock)]
            ratio = f"**{statistics.median(ratios):.1f}x** ({min(ratios):.1f} to {max(ratios):.1f})"
            errors = statistics.median(sum(run["errors"].values()) for run in stock)
            lines.append(
                f"| {NAMES[workload].format(label)} | {rate(ours)} | {rate(stock)} | {ratio} "
                f"| {wait(ours, 'p999_ms')}, {wait(ours, 'max_ms')} "
                f"| {wait(stock, 'p999_ms')}, {wait(stock, 'max_ms')}, {errors:.0f} |"
            )
    return "\n".join(lines)


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


def wait(runs: list[dict], name: str) -> str:
    # Of fewer operations a thousandth is nothing but the longest.
    if name == "p999_ms" and min(sum(count for _, count in run["latency"]["histogram_ns"]) for run in runs) < 1000:
        return "–"
    milliseconds = statistics.median(run[name] for run in runs)
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
