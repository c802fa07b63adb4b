"""A job queue in a table: many processes claim jobs, none gets a job that another one has.

    python jobs.py app.db --workers 8 --jobs 1000

A claim is one statement, so it needs no transaction and cannot conflict.
"""

import argparse
import json
import multiprocessing
import os
import time

import manyhands as sqlite3

CLAIM = """
    UPDATE job SET state = 'running', worker = :worker
    WHERE id = (SELECT id FROM job WHERE state = 'ready' ORDER BY id LIMIT 1)
    RETURNING id
"""


def work(path, worker):
    """Claims and finishes jobs until none is ready."""
    connection = sqlite3.connect(path, isolation_level=None, label=f"worker {worker}")
    while True:
        claimed = connection.execute(CLAIM, {"worker": worker}).fetchall()
        if not claimed:
            break
        [(job,)] = claimed
        connection.execute("INSERT INTO done (job, worker) VALUES (?, ?)", (job, worker))
        connection.execute("UPDATE job SET state = 'done' WHERE id = ?", (job,))
    connection.close()


def run(path, workers, jobs):
    """Queues the jobs and lets the workers do them; a summary of it."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE job (id INTEGER PRIMARY KEY, state TEXT NOT NULL DEFAULT 'ready', worker INTEGER);
        CREATE INDEX job_by_state ON job (state, id);
        CREATE TABLE done (job INTEGER PRIMARY KEY, worker INTEGER NOT NULL);
        """
    )
    connection.executemany("INSERT INTO job (id) VALUES (?)", ((job,) for job in range(jobs)))
    connection.commit()
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=work, args=(path, worker)) for worker in range(workers)]
    began = time.perf_counter()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    took = time.perf_counter() - began
    (done,) = connection.execute("SELECT count(*) FROM done").fetchone()
    (left,) = connection.execute("SELECT count(*) FROM job WHERE state <> 'done'").fetchone()
    (idle,) = connection.execute("SELECT ? - count(DISTINCT worker) FROM done", (workers,)).fetchone()
    connection.close()
    return {
        "done": done,
        "left": left,
        "workers_without_a_job": idle,
        "failed_workers": sum(process.exitcode != 0 for process in processes),
        "jobs_per_s": round(done / took, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", help="the database; must not exist")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1000)
    options = parser.parse_args()
    print(json.dumps(run(os.path.abspath(options.path), options.workers, options.jobs)))
