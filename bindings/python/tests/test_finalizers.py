"""The garbage collector calls finalizers wherever a thread allocates something, also while that thread holds a lock.
One that takes a lock can wait for its own thread: `manyhands.aio` stood still for ever when a forgotten connection was
found inside `ThreadPoolExecutor.submit`, and so did a connection one of whose forgotten cursors was found in its own
function."""

import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import asyncio, faulthandler, gc, sys, time, warnings
import manyhands
from manyhands import aio

path = sys.argv[1]
warnings.simplefilter("ignore")
faulthandler.dump_traceback_later(50, exit=True)

def forget(thing):
    cycle = [thing]
    cycle.append(cycle)
"""


def answer_of(path, program):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("work", ["other.execute('SELECT 1')", "loop.run_in_executor(None, list)"])
@pytest.mark.parametrize("what", ["connection", "Owner(connection)"])
def test_connections_that_are_forgotten_hold_up_nobody(path, what, work):
    program = f"""
        class Owner:
            def __init__(self, connection):
                self.connection = connection

            def __del__(self):
                self.connection.stop()

        async def main():
            loop = asyncio.get_running_loop()
            async with aio.connect(path) as other:
                for number in range(400):
                    connection = await aio.connect(path)
                    # Found sooner or later.
                    gc.set_threshold(1 + number % 100, 1, 1)
                    forget({what})
                    del connection
                    for _ in range(3):
                        await {work}

        asyncio.run(main())
        print("done")
    """
    assert answer_of(path, program) == "done"


def test_a_finalizer_takes_no_lock_of_the_pools(path):
    program = """
        from concurrent.futures import thread

        async def main():
            connection = await aio.connect(path)
            # Every `submit` holds it.
            with thread._global_shutdown_lock:
                del connection
            print("done")

        asyncio.run(main())
    """
    assert answer_of(path, program) == "done"


@pytest.mark.parametrize("warning", ["ignore", "error"])
def test_a_transaction_of_a_connection_that_is_forgotten_ends(path, warning):
    program = f"""
        sys.unraisablehook = lambda _: None

        async def main():
            connection = await aio.connect(path, isolation_level=None)
            await connection.execute("CREATE TABLE t (n)")
            await connection.execute("BEGIN IMMEDIATE")
            await connection.execute("INSERT INTO t VALUES (1)")
            warnings.simplefilter({warning!r})
            del connection
            async with aio.connect(path, isolation_level=None, timeout=30) as other:
                await other.execute("INSERT INTO t VALUES (2)")
                print(await other.execute_fetchall("SELECT n FROM t"))

        asyncio.run(main())
    """
    assert answer_of(path, program) == "[(2,)]"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (4)",
        "SELECT collect(n) FROM t",
        "CREATE TABLE u (n)",
        "COMMIT",
        "ROLLBACK",
    ],
)
@pytest.mark.parametrize("mode", ["auto", "optimistic", "immediate"])
def test_a_cursor_that_is_forgotten_is_found_by_a_function_of_its_connection(path, mode, statement):
    program = f"""
        connection = manyhands.connect(path, isolation_level=None, transaction_mode={mode!r})
        connection.execute("CREATE TABLE t (n)")
        connection.execute("INSERT INTO t VALUES (1), (2), (3)")
        connection.create_function("collect", 1, lambda n: n + 0 * gc.collect())
        gc.disable()
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (0)")
        cursor = connection.execute("SELECT collect(n) FROM t")
        assert cursor.fetchone() == (1,)
        forget(cursor)
        del cursor
        try:
            connection.execute({statement!r})
        except manyhands.OperationalError as error:
            print(error)
        print("done")
        connection.close()
    """
    assert answer_of(path, program) == "done"


@pytest.mark.parametrize("what", ["connection.blobopen('b', 'x', 1)", "writer()"])
@pytest.mark.parametrize("begin", ["SELECT 1", "BEGIN", "BEGIN IMMEDIATE"])
def test_other_things_that_are_forgotten_are_found_by_a_function_too(path, what, begin):
    program = f"""
        def writer():
            writer = manyhands.connect(path)
            writer.execute("INSERT INTO b VALUES (7)")
            return writer

        connection = manyhands.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE b (x)")
        connection.execute("INSERT INTO b VALUES (zeroblob(10))")
        connection.create_function("collect", 1, lambda n: n + 0 * gc.collect())
        gc.disable()
        forget({what})
        connection.execute({begin!r})
        for statement in ["SELECT collect(1)", "INSERT INTO b SELECT collect(1)", "UPDATE b SET x = collect(2)"]:
            connection.execute(statement)
        if connection.in_transaction:
            connection.execute("COMMIT")
        print(connection.execute("SELECT count(*) FROM b WHERE x = 2").fetchone())
        connection.close()
    """
    assert answer_of(path, program) == "(2,)"
