"""What `manyhands top` costs the processes that it shows: `python3 bench/top_overhead.py target/release/manyhands`.

Processes write one file, each row a commit of its own. A live screen of `manyhands top` is let go on and stopped (SIGSTOP) by turns, and the commits of
each turn are counted, as the queue file has them. So what else the machine does meets both alike.
"""

from __future__ import annotations

import argparse
import os
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# Words of the queue file that count commits, see crates/manyhands-queue/src/layout.rs: requests, alone, in turn.
COUNTERS_AT = (392, 1152, 1160)
# Statements of a script, and scripts of a process: more than it executes in the time.
STATEMENTS, SCRIPTS = 4000, 15


def commits(queue: Path) -> int:
    with queue.open("rb") as file:
        return sum(struct.unpack("=Q", os.pread(file.fileno(), 8, at))[0] for at in COUNTERS_AT)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_screen(command: str, database: Path) -> subprocess.Popen[bytes]:
    """A screen in a terminal that is read, and forgotten."""
    ours, theirs = pty.openpty()
    screen = subprocess.Popen([command, "top", str(database)], stdin=theirs, stdout=theirs, env=os.environ | {"TERM": "xterm"})
    os.close(theirs)

    def read() -> None:
        while True:
            try:
                if not os.read(ours, 65536):
                    return
            except OSError:
                return

    threading.Thread(target=read, daemon=True).start()
    return screen


def measure(command: str, processes: int, turns: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        database = Path(folder) / "app.db"
        subprocess.run([command, "exec", str(database), "CREATE TABLE t (a)"], check=True)
        script = "INSERT INTO t VALUES (1);" * STATEMENTS
        write = [command, "exec", "--script", str(database), *[script] * SCRIPTS]
        writers = [subprocess.Popen(write) for _ in range(processes)]
        queue = database.with_name("app.db-hands")
        try:
            time.sleep(3)
            screen = open_screen(command, database)
            time.sleep(2)
            rates: dict[bool, list[float]] = {True: [], False: []}
            used = 0.0
            for turn in range(2 * turns):
                # On, off, off, on: what drifts meets both alike.
                goes_on = turn % 4 in (0, 3)
                screen.send_signal(signal.SIGCONT if goes_on else signal.SIGSTOP)
                began, before, cpu = time.monotonic(), commits(queue), cpu_seconds(screen.pid)
                time.sleep(seconds)
                rates[goes_on].append((commits(queue) - before) / (time.monotonic() - began))
                used += cpu_seconds(screen.pid) - cpu
            living = sum(writer.poll() is None for writer in writers)
            screen.kill()
            screen.wait()
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
    if living < processes:
        sys.exit(f"only {living} of {processes} processes wrote until the end: lengthen their scripts")
    shares = [on / off for on, off in zip(rates[True], rates[False], strict=True)]
    print(f"{processes} processes, {turns} turns of {seconds} s each")
    for goes_on, name in ((False, "stopped"), (True, "redrawn")):
        print(f"  {name}: {statistics.median(rates[goes_on]):,.0f} commits/s (median)")
    print(f"  redrawn / stopped: {statistics.median(shares):.4f} (median of the pairs)")
    print(f"  processor time of the screen: {used / (turns * seconds) * 100:.2f} % of one processor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", help="the manyhands command")
    parser.add_argument("--processes", type=int, default=200)
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=1.5)
    arguments = parser.parse_args()
    measure(str(Path(arguments.command).resolve()), arguments.processes, arguments.turns, arguments.seconds)


if __name__ == "__main__":
    main()
