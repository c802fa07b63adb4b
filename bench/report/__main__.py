"""What the benchmark measured, for those who look at it.

`python3 bench/report FILE.jsonl` prints the table of a workload; `-` reads the lines of a benchmark from stdin.
`python3 bench/report FOLDER` draws the pictures of all workloads in a folder, or in a file with `--into`, and writes report.html beside them; that needs
matplotlib.
"""

from __future__ import annotations

import argparse
import signal
import sys
import textwrap
from pathlib import Path

from drivers import load_drivers, read_drivers, text_drivers
from measurements import DRIVERS, MEMORY, OVERHEAD, Run, circumstances, lines_of, load, read
from memory import load_memory
from overhead import load_overhead, read_overhead, text_overhead
from tables import NOTE, notes, text_table
from words import TITLES


def show(file: Path) -> int:
    """Prints the table of each workload in a file. Fails where a check has."""
    is_sound = True
    for name, lines in lines_of(file).items():
        if name == OVERHEAD:
            print(f"{text_overhead(read_overhead(lines))}\n")
        elif name == DRIVERS:
            drivers = read_drivers(lines)
            print(f"{text_drivers(drivers)}\n")
            is_sound &= len(drivers.sound()) == len(drivers.cells)
        elif name != MEMORY:
            run = read(name, lines)
            print(f"{run.name}: {circumstances([run.circumstances])}\n\n{text_table(run)}\n")
            print(*notes(run), sep="\n", end="\n" * bool(notes(run)))
            is_sound &= not any(series.withheld for series in run.series)
    print(textwrap.fill(NOTE, 120))
    return int(not is_sound)


def draw(where: Path, into: Path) -> int:
    """Writes the page and its pictures."""
    # Only they take a library, which whoever wants a table need not have.
    from own_plots import speeds
    from page import page
    from plots import draw, save

    into.mkdir(parents=True, exist_ok=True)
    order = list(TITLES)
    runs: list[Run] = [run for run in load(where) if run.series]
    runs.sort(key=lambda run: order.index(run.name) if run.name in order else len(order))
    python = load_overhead(where)
    memory = load_memory(where)
    drivers = load_drivers(where)
    if not runs:
        print(f"{where}: no lines of the benchmark; run `make bench` first", file=sys.stderr)
        return 1
    pictures = {run.name: draw(run, into) for run in runs}
    if python:
        pictures[OVERHEAD] = [save(OVERHEAD, lambda theme: speeds(python, theme), into)]
    (into / "report.html").write_text(page(runs, pictures, into, python, memory, drivers))
    print(f"{into / 'report.html'}: {len(runs) + bool(python) + bool(memory) + bool(drivers)} workloads, {sum(map(len, pictures.values()))} pictures")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", type=Path, help="a file of JSON lines, - for stdin, or a folder with one file for each workload")
    parser.add_argument("--into", type=Path, help="where the pictures and the page go, if not into the folder")
    arguments = parser.parse_args()
    # Whoever reads only the first lines is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    what: Path = arguments.what
    try:
        return draw(what, arguments.into or what) if what.is_dir() or arguments.into else show(what)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1


sys.exit(main())
