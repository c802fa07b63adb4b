"""What is asked in another thread than the one that executes waits for nobody. aiosqlite executes in a thread of its
own and reads `rowcount` in its event loop, where the task runs that holds the turn: it waited for itself, until the
timeout."""

import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import manyhands

# Much shorter than the timeout of whoever waits, much longer than an answer takes.
SOON = 5.0
TIMEOUT = 30.0


@pytest.fixture
def path(path):
    with closing(manyhands.connect(path)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)")
        connection.executemany("INSERT INTO t (v) VALUES (?)", [(v,) for v in range(10)])
        connection.commit()
    return path


STATEMENTS = [
    ("INSERT INTO t (v) VALUES (100)", 1),
    ("INSERT INTO t (v) SELECT v + 1000 FROM t", 10),
    ("INSERT INTO t (v) VALUES (100) RETURNING id", 1),
    ("UPDATE t SET v = v + 500", 10),
    ("UPDATE t SET v = 500 WHERE id = 1", 1),
    ("DELETE FROM t WHERE id > 4", 6),
    ("REPLACE INTO t VALUES (1, 77)", 1),
]


@pytest.fixture
def holder(path):
    with closing(manyhands.connect(path, isolation_level=None)) as holder:
        yield holder


@pytest.fixture
def thread():
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.mark.parametrize("statement, changed", STATEMENTS)
@pytest.mark.parametrize("begin", ["", "BEGIN", "BEGIN IMMEDIATE"])
def test_counts_are_known_when_a_statement_has_been_executed(path, holder, thread, begin, statement, changed):
    options = {"timeout": TIMEOUT, "check_same_thread": False, "isolation_level": None if begin else ""}
    with closing(thread.submit(manyhands.connect, path, **options).result()) as asked:
        thread.submit(asked.execute, "BEGIN" if begin == "BEGIN" else "SELECT 1").result()
        holder.execute("BEGIN IMMEDIATE")
        work = [begin, statement] if begin == "BEGIN IMMEDIATE" else [statement]
        executed = thread.submit(lambda: [asked.execute(sql) for sql in work][-1])
        time.sleep(0.1)
        # It waits for its turn, and nobody else waits for that.
        assert not executed.done()
        began = time.monotonic()
        assert (asked.in_transaction, asked.total_changes) == (begin == "BEGIN", 0)
        holder.execute("COMMIT")
        cursor = executed.result()
        assert (cursor.rowcount, asked.in_transaction, asked.total_changes) == (changed, True, changed)
        assert cursor.lastrowid == {"INSERT": 20 if changed == 10 else 11, "REPLACE": 1}.get(statement.split()[0], 0)
        thread.submit(lambda: (cursor.fetchall(), asked.commit())).result()
        assert time.monotonic() - began < SOON
    (count,) = holder.execute("SELECT count(*) FROM t").fetchone()
    assert count == {"I": 10 + changed, "D": 10 - changed}.get(statement[0], 10)


def test_executemany_is_counted_when_it_has_been_executed(path, holder, thread):
    options = {"timeout": TIMEOUT, "check_same_thread": False}
    with closing(thread.submit(manyhands.connect, path, **options).result()) as asked:
        holder.execute("BEGIN IMMEDIATE")
        work = thread.submit(lambda: asked.executemany("INSERT INTO t (v) VALUES (?)", [(v,) for v in range(100, 400)]))
        time.sleep(0.1)
        assert not work.done()
        holder.execute("COMMIT")
        assert (work.result().rowcount, asked.total_changes) == (300, 300)
        thread.submit(asked.commit).result()


def test_a_statement_whose_turn_does_not_come_has_done_nothing(path, holder, thread):
    options = {"timeout": 0.2, "check_same_thread": False}
    with closing(thread.submit(manyhands.connect, path, **options).result()) as asked:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(manyhands.LockTimeout):
            thread.submit(asked.execute, "INSERT INTO t (v) VALUES (100)").result()
        holder.execute("COMMIT")
        assert thread.submit(asked.execute, "UPDATE t SET v = 600 WHERE id = 10").result().rowcount == 1
        thread.submit(asked.commit).result()
    assert holder.execute("SELECT max(id), max(v) FROM t").fetchone() == (10, 600)


def test_an_optimistic_transaction_stays_one(path, holder):
    """To ask for its counts would count as seen."""
    options = {"check_same_thread": False, "isolation_level": None, "transaction_mode": "optimistic"}
    with closing(manyhands.connect(path, **options)) as connection:
        with connection.transaction():
            connection.execute("UPDATE t SET v = v + 1000 WHERE id > 0")
            holder.execute("INSERT INTO t (v) VALUES (500)")
        assert connection.execute("SELECT max(v) FROM t").fetchone() == (1500,)


def test_aiosqlite_as_it_is(path):
    """It leaves `check_same_thread` as it is, and asks in its loop. Its tasks hold the turn in turns."""
    program = f"""
        import asyncio, time
        import aiosqlite, manyhands

        async def work(number):
            async with aiosqlite.connect({str(path)!r}, factory=manyhands.Connection, timeout=30) as db:
                for _ in range(20):
                    cursor = await db.execute("INSERT INTO t (v) VALUES (?)", (f"{{number}} {{time.monotonic()}}",))
                    assert cursor.rowcount == 1 and cursor.lastrowid > 10 and db.in_transaction and db.total_changes
                    await asyncio.sleep(0.001)
                    cursor = await db.execute("UPDATE t SET v = v WHERE id <= 10")
                    assert cursor.rowcount == 10
                    await db.commit()

        async def main():
            await asyncio.gather(*(work(number) for number in range(8)))

        began = time.monotonic()
        asyncio.run(main())
        assert time.monotonic() - began < 25
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_who_asks_elsewhere_once_waits_no_more(path, holder):
    """Of a wrapper that nobody knows of, the first question may wait; after it all connections know."""
    program = f"""
        from concurrent.futures import ThreadPoolExecutor
        import manyhands
        thread = ThreadPoolExecutor(1)
        def execute(connection):
            return connection.execute("UPDATE t SET v = v WHERE id = 1")
        first, second = (thread.submit(manyhands.connect, {str(path)!r}).result() for _ in range(2))
        cursor = thread.submit(execute, first).result()
        assert cursor.rowcount == 1
        thread.submit(first.rollback).result()
        cursor = thread.submit(execute, second).result()
        other = manyhands.connect({str(path)!r}, timeout=0, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
        except manyhands.LockTimeout:
            print("holds the turn", cursor.rowcount)
        other.close()
        thread.submit(lambda: (first.close(), second.close())).result()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("holds the turn 1\n", "")
