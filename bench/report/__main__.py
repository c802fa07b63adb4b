"""`python bench/report FOLDER`: draws what `make bench` left in the folder, writes report.html, and a CSV beside each JSON file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import overhead
from measurements import OVERHEAD, load
from memory import load_memory
from overhead import load_overhead
from page import page
from plots import draw, save
from tables import write_csv
from words import TITLES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python bench/report", description=__doc__)
    parser.add_argument("folder", type=Path, help="with the JSON lines of the workloads, one file each")
    folder: Path = parser.parse_args().folder
    try:
        order = list(TITLES)
        runs = [run for run in load(folder) if run.series]
        runs.sort(key=lambda run: order.index(run.name) if run.name in order else len(order))
        python = load_overhead(folder)
        memory = load_memory(folder)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if not runs:
        print(f"{folder}: no *.jsonl of `manyhands bench --json`; run `make bench` first", file=sys.stderr)
        return 1
    pictures = {run.name: draw(run, folder) for run in runs}
    for run in runs:
        write_csv(run, folder / f"{run.name}.csv")
    if python:
        pictures[OVERHEAD] = [save(OVERHEAD, lambda theme: overhead.picture(python, theme), folder)]
        overhead.write_csv(python, folder / f"{OVERHEAD}.csv")
    (folder / "report.html").write_text(page(runs, pictures, folder, python, memory))
    print(f"{folder / 'report.html'}: {len(runs) + bool(python) + bool(memory)} workloads, {sum(map(len, pictures.values()))} pictures")
    return 0


sys.exit(main())
