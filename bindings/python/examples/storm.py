"""A storm of processes: each connects, inserts one row, commits, closes, and pauses up to 100 ms, again and again.

    python storm.py app.db                        1,000 processes with manyhands
    python storm.py app.db --driver sqlite3       the same with the standard module

What a worker does is written for the ``sqlite3`` module; manyhands takes its place by its name alone.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import time


def work(sqlite3, path, rounds, seed, results):
    """One process of the storm. Reports the seconds that each insert took, and the errors' texts."""
    dice = random.Random(seed)
    seconds, errors = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        try:
            connection = sqlite3.connect(path, timeout=120)
            connection.execute("INSERT INTO test DEFAULT VALUES")
            connection.commit()
            connection.close()
        except sqlite3.Error as error:
            errors.append(str(error))
        seconds.append(time.perf_counter() - began)
        time.sleep(dice.uniform(0, 0.1))
    results.put((seconds, errors))


def storm(driver, path, processes, rounds):
    """Runs the storm; a summary of it."""
    sqlite3 = importlib.import_module(driver)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE IF NOT EXISTS test (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    connection.commit()
    connection.close()
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    began = time.perf_counter()
    workers = [
        fork.Process(target=work, args=(sqlite3, path, rounds, seed, results)) for seed in range(processes)
    ]
    for worker in workers:
        worker.start()
    reported = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    took = time.perf_counter() - began
    seconds = sorted(second for worker_seconds, _ in reported for second in worker_seconds)
    errors = [error for _, worker_errors in reported for error in worker_errors]
    connection = sqlite3.connect(path)
    (rows,) = connection.execute("SELECT count(*) FROM test").fetchone()
    connection.close()
    return {
        "driver": driver,
        "processes": processes,
        "inserts": len(seconds) - len(errors),
        "rows": rows,
        "errors": len(errors),
        "first_error": errors[0] if errors else None,
        "inserts_per_s": round((len(seconds) - len(errors)) / took, 1),
        "p50_ms": round(1000 * seconds[len(seconds) // 2], 2),
        "p99_ms": round(1000 * seconds[len(seconds) * 99 // 100], 2),
        "longest_ms": round(1000 * seconds[-1], 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", help="the database; made if it does not exist")
    parser.add_argument("--driver", default="manyhands", choices=["manyhands", "sqlite3"])
    parser.add_argument("--processes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(json.dumps(storm(options.driver, os.path.abspath(options.path), options.processes, options.rounds)))
