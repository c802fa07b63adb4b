"""What an interrupt and a cancelled task leave: a connection that works, and a turn that others can have.

SQLite keeps an interrupt as long as a statement is active, and a cursor with unread rows is.
"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any, Awaitable, Callable

import pytest

import manyhands
from manyhands import aio

ROWS = 500
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def items(path: Path) -> Path:
    connection = manyhands.connect(path)
    connection.execute("CREATE TABLE item (n)")
    connection.executemany("INSERT INTO item VALUES (?)", [(n,) for n in range(ROWS)])
    connection.commit()
    connection.close()
    return path


def run(function: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(function(), 60))


async def change_and_begin_to_read(db: aio.Connection) -> aio.Cursor:
    """In a transaction, with rows left."""
    await db.execute("UPDATE item SET n = n + 1000")
    cursor = await db.execute("SELECT n FROM item ORDER BY n")
    assert await cursor.fetchone() == (1000,)
    return cursor


async def cancel(call: Awaitable[Any]) -> None:
    """Cancels it while its statement runs."""
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(call, 0.1)


def is_free(path: Path) -> bool:
    """Whether another connection can write, and nothing has been changed yet."""
    connection = manyhands.connect(path, timeout=5)
    found = connection.execute("SELECT min(n) FROM item").fetchone()
    connection.execute("UPDATE item SET n = n")
    connection.commit()
    connection.close()
    return bool(found == (0,))


def test_a_cancelled_call_leaves_the_calls_after_it_alone(items: Path) -> None:
    async def use() -> None:
        async with aio.connect(items) as db:
            cursor = await change_and_begin_to_read(db)
            await cancel(db.execute_fetchall(ENDLESS))
            assert await db.execute_fetchall("SELECT count(*) FROM item") == [(ROWS,)]
            assert len(await cursor.fetchall()) == ROWS - 1
            await db.execute("UPDATE item SET n = n - 1000")
            await db.commit()
            assert is_free(items)

    run(use)


def test_a_transaction_is_rolled_back_after_a_cancelled_call(items: Path) -> None:
    async def use() -> None:
        async with aio.connect(items) as db:
            cursor = await change_and_begin_to_read(db)
            await cancel(db.execute_fetchall(ENDLESS))
            await db.rollback()
            assert not db.in_transaction and is_free(items)
            await cursor.close()

    run(use)


@pytest.mark.parametrize("mode", ["optimistic", "immediate", None, "run"])
def test_a_unit_of_work_that_is_cancelled_says_so_and_leaves_nothing(items: Path, mode: Any) -> None:
    async def work(db: aio.Connection) -> None:
        cursor = await change_and_begin_to_read(db)
        await db.execute_fetchall(ENDLESS)
        await cursor.close()

    async def transaction(db: aio.Connection) -> None:
        async with db.transaction(mode):
            await work(db)

    async def use() -> None:
        async with aio.connect(items) as db:
            await cancel(db.run(work) if mode == "run" else transaction(db))
            assert not db.in_transaction and is_free(items)
            assert await db.execute_fetchall("SELECT count(*) FROM item") == [(ROWS,)]

    run(use)


def test_what_a_cancelled_call_began_is_undone_with_autocommit_true(items: Path) -> None:
    """There `rollback()` does nothing."""

    async def use() -> None:
        async with aio.connect(items, autocommit=True) as db:
            task = asyncio.ensure_future(db.executescript(f"BEGIN IMMEDIATE; {ENDLESS}"))
            await asyncio.sleep(0.1)
            task.cancel()
            assert await db.execute_fetchall("SELECT count(*) FROM item") == [(ROWS,)]
            assert task.cancelled() and not db.in_transaction and is_free(items)

    run(use)


def test_a_cancellation_that_comes_when_the_statement_is_done_interrupts_no_other(items: Path) -> None:
    done, told = threading.Event(), threading.Event()

    def count(native: manyhands.Connection) -> None:
        native.execute("SELECT count(*) FROM item").fetchone()
        done.set()
        assert told.wait(30)

    async def use() -> None:
        async with aio.connect(items) as db:
            cursor = await change_and_begin_to_read(db)
            call = asyncio.ensure_future(db._session.call(count))
            while not done.is_set():
                await asyncio.sleep(0.001)
            call.cancel()
            await asyncio.sleep(0)
            told.set()
            assert await db.execute_fetchall("SELECT count(*) FROM item") == [(ROWS,)]
            await db.rollback()
            assert call.cancelled() and is_free(items)
            await cursor.close()

    run(use)


def test_a_rollback_succeeds_after_an_interrupt(items: Path) -> None:
    """Other statements do not: as in SQLite, they are interrupted while a cursor has rows left."""
    connection = manyhands.connect(items)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE item SET n = n + 1000")
    cursor = connection.execute("SELECT n FROM item")
    connection.interrupt()
    with pytest.raises(manyhands.OperationalError, match="interrupted"):
        connection.execute("SELECT 1")
    connection.rollback()
    assert not connection.in_transaction and is_free(items)
    with pytest.raises(manyhands.OperationalError, match="interrupted"):
        cursor.fetchall()
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (ROWS,)
    connection.close()


def test_an_interrupted_task_can_roll_back(items: Path) -> None:
    async def use() -> None:
        async with aio.connect(items) as db:
            cursor = await change_and_begin_to_read(db)
            await db.interrupt()
            with pytest.raises(manyhands.OperationalError, match="interrupted"):
                await db.execute_fetchall("SELECT 1")
            await db.rollback()
            assert not db.in_transaction and is_free(items)
            await cursor.close()

    run(use)


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN CONCURRENT", "BEGIN"])
@pytest.mark.parametrize("autocommit", [manyhands.LEGACY_TRANSACTION_CONTROL, False])
def test_to_close_rolls_back_after_an_interrupt(items: Path, begin: str, autocommit: Any) -> None:
    """Although a cursor with rows left, which somebody may keep, keeps the connection of SQLite open."""
    connection = manyhands.connect(items, autocommit=autocommit)
    if not connection.in_transaction:
        connection.execute(begin)
    connection.execute("UPDATE item SET n = n + 1000")
    cursor = connection.execute("SELECT n FROM item")
    connection.interrupt()
    connection.close()
    assert is_free(items)
    with pytest.raises(manyhands.ProgrammingError, match="closed"):
        cursor.fetchone()


def test_a_loop_goes_on_while_a_connection_waits_to_be_opened(path):
    """To open may wait for others. The loop waited too, as soon as the task was cancelled."""

    async def use():
        opened, go_on = threading.Event(), threading.Event()

        class Slow(manyhands.Connection):
            def __init__(self, *arguments, **named):
                opened.set()
                go_on.wait(30)
                super().__init__(*arguments, **named)

        task = asyncio.ensure_future(manyhands.aio.connect(path, factory=Slow)._open())
        await asyncio.get_running_loop().run_in_executor(None, opened.wait, 30)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 20
        go_on.set()
        async with manyhands.aio.connect(path) as other:
            assert await other.execute_fetchall("SELECT 1") == [(1,)]

    asyncio.run(use())
