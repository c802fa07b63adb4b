"""What a process takes that opens one database in Python and then idles: `sqlite3` beside `manyhands`.

    .venv/bin/python bench/python_memory.py

Each figure is the median of some processes, each on a new file: memory that is the process's alone (private pages of
/proc/self/smaps_rollup), in KiB, beside another process that has imported the same module, so that the code is shared as it is
where there are several; and its descriptors.
"""

import os
import platform
import statistics
import subprocess
import sys
import tempfile

PROCESSES = 15

PROGRAM = """
import os, sys, importlib

def kib(name):
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith(name))

def look():
    return kib("Private_Clean") + kib("Private_Dirty"), len(os.listdir("/proc/self/fd")) - 1

figures = [look()]
module = importlib.import_module(sys.argv[1])
figures.append(look())
connection = module.connect(sys.argv[2], isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("CREATE TABLE t (v)")
figures.append(look())
for number in range(100):
    connection.execute("INSERT INTO t VALUES (?)", (number,))
assert connection.execute("SELECT count(*) FROM t").fetchone() == (100,)
figures.append(look())
beside = [entry.stat() for entry in os.scandir(os.path.dirname(sys.argv[2]))]
print(*(number for figure in figures for number in figure), sum(file.st_blocks for file in beside) // 2)
"""

# It has used the code that the measured one uses.
BESIDE = """
import sys, importlib
connection = importlib.import_module(sys.argv[1]).connect(":memory:", isolation_level=None)
connection.execute("CREATE TABLE t (v)")
for number in range(100):
    connection.execute("INSERT INTO t VALUES (?)", (number,))
print("ready", flush=True)
sys.stdin.read()
"""

STEPS = ["before the import", "after the import", "one open database", "and 100 commits"]


def measure(module):
    runs = []
    beside = [sys.executable, "-c", BESIDE, module]
    other = subprocess.Popen(beside, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    for _ in range(PROCESSES):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "app.db")
            command = [sys.executable, "-c", PROGRAM, module, path]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append([int(word) for word in done.stdout.split()])
    other.communicate()
    return [round(statistics.median(column)) for column in zip(*runs)]


def main():
    stock, ours = measure("sqlite3"), measure("manyhands")
    print(f"Python {platform.python_version()}, Linux {platform.release()}, {PROCESSES} processes each\n")
    print("| | sqlite3 | manyhands | more | descriptors |")
    print("|---|---|---|---|---|")
    for index, step in enumerate(STEPS):
        (private, open_), (ours_private, ours_open) = (
            figures[2 * index : 2 * index + 2] for figures in (stock, ours)
        )
        # What the interpreter itself takes differs from run to run.
        more = (ours_private - ours[0]) - (private - stock[0])
        print(
            f"| {step} | {private} | {ours_private} | {more} "
            f"| {open_ - stock[1]} and {ours_open - ours[1]} |"
        )
    print(f"\nOn the disk, in KiB: {stock[-1]} and {ours[-1]}.")


if __name__ == "__main__":
    main()
