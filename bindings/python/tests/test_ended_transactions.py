"""Blocks and functions whose transaction an error has ended: what follows in them is not executed alone."""

import asyncio
import contextlib

import pytest

import manyhands
import manyhands.aio

TWICE = "INSERT OR ROLLBACK INTO t VALUES (1)"
OVER = "an error has ended this transaction"


@pytest.fixture
def table(path):
    connection = manyhands.connect(path)
    connection.executescript("CREATE TABLE t (v UNIQUE); INSERT INTO t VALUES (1)")
    connection.close()
    return path


def values(connection):
    return [value for (value,) in connection.execute("SELECT v FROM t ORDER BY v")]


@pytest.mark.parametrize("mode", [None, "optimistic", "immediate"])
@pytest.mark.parametrize("how", [{}, {"isolation_level": None}, {"autocommit": True}])
def test_a_block(table, mode, how):
    connection = manyhands.connect(table, **how)
    with pytest.raises(manyhands.OperationalError, match=OVER):
        with connection.transaction(mode):
            connection.execute("INSERT INTO t VALUES (2)")
            with contextlib.suppress(manyhands.IntegrityError):
                connection.execute(TWICE)
            with pytest.raises(manyhands.OperationalError, match=OVER):
                connection.execute("INSERT INTO t VALUES (3)")
    assert not connection.in_transaction
    assert values(connection) == [1]
    with connection.transaction(mode):
        connection.execute("INSERT INTO t VALUES (4)")
    assert values(connection) == [1, 4]
    connection.close()


def test_a_block_that_says_nothing_more(table):
    connection = manyhands.connect(table)
    with pytest.raises(manyhands.OperationalError, match=OVER):
        with connection.transaction(), contextlib.suppress(manyhands.IntegrityError):
            connection.execute("INSERT INTO t VALUES (2)")
            connection.execute(TWICE)
    assert values(connection) == [1]
    connection.close()


def test_a_block_that_raises_raises_what_it_did(table):
    connection = manyhands.connect(table)
    with pytest.raises(KeyError), connection.transaction():
        with contextlib.suppress(manyhands.IntegrityError):
            connection.execute(TWICE)
        raise KeyError
    connection.execute("INSERT INTO t VALUES (5)")
    connection.commit()
    assert values(connection) == [1, 5]
    connection.close()


def test_a_block_that_commits_by_itself_is_told(table):
    connection = manyhands.connect(table)
    with connection.transaction():
        with contextlib.suppress(manyhands.IntegrityError):
            connection.execute(TWICE)
        with pytest.raises(manyhands.OperationalError, match=OVER):
            connection.commit()
        # It knows now.
        connection.rollback()
        connection.execute("INSERT INTO t VALUES (5)")
    assert values(connection) == [1, 5]
    connection.close()


def test_who_changes_how_transactions_end_in_a_block_goes_on_outside(table):
    connection = manyhands.connect(table)
    with connection.transaction():
        with contextlib.suppress(manyhands.IntegrityError):
            connection.execute(TWICE)
        connection.isolation_level = None
        connection.execute("INSERT INTO t VALUES (5)")
    assert (connection.isolation_level, values(connection)) == (None, [1, 5])
    connection.close()


@pytest.mark.parametrize("end", [lambda it: it.commit(), lambda it: it.execute("COMMIT")])
def test_who_ends_it_in_its_block_goes_on_outside(table, end):
    connection = manyhands.connect(table, isolation_level=None)
    with connection.transaction():
        connection.execute("INSERT INTO t VALUES (2)")
        end(connection)
        connection.execute("INSERT INTO t VALUES (3)")
        assert not connection.in_transaction
    assert values(connection) == [1, 2, 3]
    connection.close()


def test_run_calls_again_who_passes_over_a_conflict(table):
    connection = manyhands.connect(table)
    other = manyhands.connect(table, isolation_level=None)
    tries = []

    def work(connection):
        tries.append(values(connection))
        if len(tries) == 1:
            other.execute("INSERT INTO t VALUES (2)")
        with contextlib.suppress(manyhands.ConflictError):
            # It takes its turn for that, and there the conflict shows.
            connection.execute("CREATE TABLE another (a)")
        connection.execute("INSERT INTO t VALUES (3)")

    # What follows is refused, with the conflict.
    connection.run(work)
    assert tries == [[1], [1, 2]]
    assert values(other) == [1, 2, 3]
    connection.close()
    other.close()


def test_a_block_of_a_task(table):
    async def use():
        async with manyhands.aio.connect(table) as connection:
            with pytest.raises(manyhands.OperationalError, match=OVER):
                async with connection.transaction():
                    await connection.execute("INSERT INTO t VALUES (2)")
                    with contextlib.suppress(manyhands.IntegrityError):
                        await connection.execute(TWICE)
                    # The native connection is not given back meanwhile.
                    await asyncio.sleep(0.01)
                    with pytest.raises(manyhands.OperationalError, match=OVER):
                        await connection.execute("INSERT INTO t VALUES (3)")
            async with connection.transaction():
                await connection.execute("INSERT INTO t VALUES (4)")
            async with connection.execute("SELECT v FROM t ORDER BY v") as rows:
                assert await rows.fetchall() == [(1,), (4,)]

    asyncio.run(use())


def test_run_of_a_task_calls_again_who_passes_over_a_conflict(table):
    other = manyhands.connect(table, isolation_level=None)
    tries = []

    async def use():
        async with manyhands.aio.connect(table) as connection:

            async def work(connection):
                async with connection.execute("SELECT count(*) FROM t") as rows:
                    tries.append(await rows.fetchone())
                if len(tries) == 1:
                    other.execute("INSERT INTO t VALUES (2)")
                with contextlib.suppress(manyhands.ConflictError):
                    await connection.execute("CREATE TABLE another (a)")
                await connection.execute("INSERT INTO t VALUES (3)")

            await connection.run(work)

    asyncio.run(use())
    assert tries == [(1,), (2,)]
    assert values(other) == [1, 2, 3]
    other.close()


def test_many_connections_of_tasks_run_again(table):
    """More than are kept when they are idle."""

    async def add(connection):
        async with connection.execute("SELECT max(v) FROM t") as rows:
            (most,) = await rows.fetchone()
        await asyncio.sleep(0)
        await connection.execute("INSERT INTO t VALUES (?)", (most + 1,))

    async def use():
        connections = [await manyhands.aio.connect(table) for _ in range(24)]
        await asyncio.gather(*(connection.run(add) for connection in connections))
        for connection in connections:
            await connection.close()

    asyncio.run(use())
    connection = manyhands.connect(table)
    assert values(connection) == list(range(1, 26))
    connection.close()


def test_a_block_of_a_task_whose_connection_is_closed_in_it(table):
    async def use():
        connection = await manyhands.aio.connect(table)
        with pytest.raises(manyhands.ProgrammingError, match="closed"):
            async with connection.transaction():
                await connection.execute("INSERT INTO t VALUES (2)")
                connection.stop()

    asyncio.run(use())
    connection = manyhands.connect(table)
    assert values(connection) == [1]
    connection.close()
