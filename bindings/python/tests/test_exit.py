"""The interpreter exits while daemon threads are at work. Before Python 3.14 it ends each of them when it next asks for
the GIL, with SQLite and this package on its stack: the process died of that."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, threading, time
import manyhands

path, what, delay = sys.argv[1], sys.argv[2], float(sys.argv[3])
connection = manyhands.connect(path, isolation_level=None, check_same_thread=False)
connection.executescript("CREATE TABLE IF NOT EXISTS t (n); INSERT INTO t VALUES (1)")
many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) SELECT "

def slow(*args):
    time.sleep(0.0005)
    return 1

def slow_sets():
    for number in range(100):
        yield (slow(),)

def work(connection):
    if what == "function":
        connection.execute(many + "sum(slow(i)) FROM n").fetchall()
    elif what == "aggregate":
        connection.execute(many + "slow_sum(i) FROM n").fetchall()
    elif what == "select":
        connection.execute(many + "i FROM n").fetchall()
    elif what == "insert":
        connection.execute("INSERT INTO t VALUES (1)")
    elif what == "iterator":
        connection.executemany("DELETE FROM t WHERE n = ? + 1", slow_sets())
    elif what == "row":
        connection.row_factory = slow
        connection.execute(many + "i FROM n").fetchall()
    elif what == "batch":
        connection.batch(("SELECT ?", parameters) for parameters in slow_sets())
    elif what == "backup":
        copy = manyhands.connect(":memory:")
        connection.backup(copy, pages=1, progress=slow)
        copy.close()
    elif what == "run":
        connection.run(slow)

def work_on():
    own = manyhands.connect(path, isolation_level=None)
    own.create_function("slow", 1, slow)
    own.create_aggregate("slow_sum", 1, type("Sum", (), {"step": slow, "finalize": slow}))
    started.release()
    while True:
        work(own)

started = threading.Semaphore(0)
for _ in range(3):
    threading.Thread(target=work_on, daemon=True).start()
    started.acquire()
time.sleep(delay)
"""


@pytest.mark.parametrize(
    "what", ["function", "aggregate", "select", "insert", "iterator", "row", "batch", "backup", "run"]
)
def test_the_interpreter_exits_while_threads_are_at_work(path, what):
    for attempt in range(10 if what == "function" else 3):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path), what, str(0.02 + attempt / 300)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
