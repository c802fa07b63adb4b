"""The worker of Python's sqlite3; README.md says what a worker does."""

import json
import sqlite3
import sys
import time

path, seconds, job, writer = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
# Without an isolation level the module leaves transactions to the program.
database = sqlite3.connect(path, timeout=5, isolation_level=None)
database.execute("PRAGMA synchronous=FULL")
id_sum = 0


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong answer: {what}")


def insert(n: int) -> None:
    database.execute(f"INSERT INTO event (writer, n) VALUES ({writer}, {n})")


def read_then_write(n: int) -> None:
    try:
        database.execute("BEGIN")
        [(count,)] = database.execute("SELECT n FROM counter WHERE id = 1")
        database.execute("UPDATE counter SET n = ? WHERE id = 1", (count + 1,))
        database.execute("COMMIT")
    except sqlite3.Error:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def prepared(n: int) -> None:
    global id_sum
    cursor = database.execute("INSERT INTO event (writer, n) VALUES (?, ?)", (writer, n))
    assert cursor.lastrowid is not None
    id_sum += cursor.lastrowid
    expect(cursor.rowcount == 1, "changes")


def select(n: int) -> None:
    key = n % 1000 + 1
    row = database.execute("SELECT n FROM item WHERE id = ?", (key,)).fetchone()
    expect(row == (key * 7,), f"item {key}")


work = {"insert": insert, "read-then-write": read_then_write, "prepared": prepared, "select": select}[job]
print("ready", flush=True)
sys.stdin.readline()
done = errors = n = 0
wait = 0.0
first_error = ""
began = now = time.monotonic()
while now - began < seconds:
    try:
        work(n)
        done += 1
    except (sqlite3.Error, ValueError) as error:
        errors += 1
        first_error = first_error or str(error)
    n += 1
    before, now = now, time.monotonic()
    wait = max(wait, now - before)
print(
    json.dumps(
        {
            "done": done,
            "errors": errors,
            "first_error": first_error,
            "wait_ms_max": wait * 1000,
            "seconds": now - began,
            "id_sum": id_sum,
            "sqlite": sqlite3.sqlite_version,
        }
    )
)
