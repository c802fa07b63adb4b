"""`python bench/report FOLDER`: draws what `manyhands bench --json` left in the folder, and writes report.html."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from measurements import load
from page import TITLES, page
from plots import draw


def main() -> int:
    parser = argparse.ArgumentParser(prog="python bench/report", description=__doc__)
    parser.add_argument("folder", type=Path, help="with the JSON lines of the workloads, one file each")
    folder: Path = parser.parse_args().folder
    try:
        order = list(TITLES)
        runs = [run for run in load(folder) if run.series]
        runs.sort(key=lambda run: order.index(run.name) if run.name in order else len(order))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if not runs:
        print(f"{folder}: no *.jsonl of `manyhands bench --json`; run `make bench` first", file=sys.stderr)
        return 1
    pictures = {run.name: draw(run, folder) for run in runs}
    notes = folder / "notes.txt"
    text = page(runs, pictures, folder, notes.read_text() if notes.exists() else "")
    (folder / "report.html").write_text(text)
    print(f"{folder / 'report.html'}: {len(runs)} workloads, {sum(map(len, pictures.values()))} pictures")
    return 0


sys.exit(main())
