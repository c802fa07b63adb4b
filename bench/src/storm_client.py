"""One process of the workload `storm`, in Python: pause, connect, insert one row, commit, close, again.

It speaks with the command as `worker.rs` does; the lines are described in `job.rs`. The two engines run the
same code, and differ in the module that they import.
"""

import json
import os
import random
import sys
import threading
import time

PAUSE_MAX_S = 0.1
TIMEOUT_S = 120


def say(message, **fields):
    sys.stdout.write(json.dumps({"message": message, **fields}) + "\n")
    sys.stdout.flush()


def opener(engine, database):
    """A function that connects as the engine's name says."""
    if engine.startswith("manyhands"):
        import manyhands

        durability = "normal" if engine.endswith("-normal") else "full"
        return lambda: manyhands.connect(database, timeout=TIMEOUT_S, durability=durability)

    import sqlite3

    def connect():
        connection = sqlite3.connect(database, timeout=TIMEOUT_S)
        if engine.endswith("-normal"):
            connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    return connect


def end_with_the_command():
    """The end of stdin means that the command is gone, or has heard all reports."""
    if not sys.stdin.readline():
        os._exit(3)


def rss_peak_bytes():
    """Not that of getrusage, which starts with the size of the process that started this one."""
    with open("/proc/self/status") as status:
        return next(int(it.split()[1]) * 1024 for it in status if it.startswith("VmHWM:"))


def line(times):
    """The form in which latencies travel."""
    return {"max_ns": max(times, default=0), "histogram_ns": [[time, 1] for time in times]}


def main():
    job = json.loads(sys.argv[1])
    connect = opener(job["engine"], job["database"])
    generator = random.Random(job["seed"])
    # A warm-up, for every engine: the storm is measured, not an interpreter's imports.
    connect().close()
    say("ready")
    start = sys.stdin.readline()
    if not start:
        os._exit(3)
    start_ns = int(start)
    threading.Thread(target=end_with_the_command, daemon=True).start()
    used_before = time.process_time()
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    waits, inserts, errors, committed = [], [], {}, 0
    for _ in range(job["task"]["rounds"]):
        time.sleep(PAUSE_MAX_S * generator.random())
        began = time.monotonic_ns()
        try:
            connection = connect()
            inserting = time.monotonic_ns()
            try:
                connection.execute("INSERT INTO test DEFAULT VALUES")
                connection.commit()
            finally:
                inserts.append(time.monotonic_ns() - inserting)
                connection.close()
            committed += 1
        except Exception as error:
            kind = str(error)[:60]
            errors[kind] = errors.get(kind, 0) + 1
        waits.append(time.monotonic_ns() - began)
    say(
        "report",
        acknowledged=committed,
        acknowledged_in_time=committed,
        errors=errors,
        latency=line(waits),
        insert_latency=line(inserts),
        effort={"retries": 0, "conflicts": 0},
        ids_read_back=0,
        long_job=None,
        served=[committed],
        elapsed_s=(time.monotonic_ns() - start_ns) / 1e9,
        cpu_s=time.process_time() - used_before,
        rss_peak_bytes=rss_peak_bytes(),
        syncs=None,
        wal_frames=None,
    )
    # Until the others are done too: a thousand interpreters that end take longer than the storm.
    threading.Event().wait()


main()
