"""`python bench/report FOLDER`: draws what `make bench` left in the folder, and writes report.html beside the pictures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from measurements import OVERHEAD, load
from memory import load_memory
from overhead import load_overhead
from own_plots import speeds
from page import page
from plots import draw, save
from words import TITLES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python bench/report", description=__doc__)
    parser.add_argument("folder", type=Path, help="with the JSON lines of the workloads, one file each")
    parser.add_argument("--into", type=Path, help="where the pictures and the page go, if not into FOLDER")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    into: Path = arguments.into or folder
    into.mkdir(parents=True, exist_ok=True)
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
    pictures = {run.name: draw(run, into) for run in runs}
    if python:
        pictures[OVERHEAD] = [save(OVERHEAD, lambda theme: speeds(python, theme), into)]
    (into / "report.html").write_text(page(runs, pictures, into, python, memory))
    print(f"{into / 'report.html'}: {len(runs) + bool(python) + bool(memory)} workloads, {sum(map(len, pictures.values()))} pictures")
    return 0


sys.exit(main())
