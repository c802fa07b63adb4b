"""asyncio: many tasks on few threads; those who wait hold up nobody, and nothing is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Awaitable, Callable

import aiosqlite
import pytest
import uvloop

import manyhands
from manyhands import aio
from manyhands.aio import threads


def run(function: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(function(), 60))


def in_new_process(path: Path, program: str) -> str:
    """Runs a program whose variable ``path`` is the database; its output."""
    prelude = f"import asyncio, os, sys\nfrom manyhands import aio\npath = {str(path)!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    connection = manyhands.connect(path)
    connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, value)")
    connection.close()
    return path


@pytest.mark.parametrize("ours, theirs", [(aio, aiosqlite), (aio.Connection, aiosqlite.Connection),
                                          (aio.Cursor, aiosqlite.Cursor)])  # fmt: skip
def test_every_public_name_of_aiosqlite_is_there(ours: Any, theirs: Any) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")}
    modules = {"context", "core", "cursor", "tests"}
    assert names - modules - set(dir(ours)) == set()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_statements_rows_and_attributes(path: Path, new_loop: Callable[[], Any]) -> None:
    async def use() -> None:
        async with aio.connect(path) as db:
            cursor = await db.execute("INSERT INTO item (value) VALUES (?)", ("a",))
            assert db.in_transaction
            await db.commit()
            # Asked when the connection has given back what it had open.
            assert (cursor.lastrowid, cursor.rowcount, cursor.description) == (1, 1, None)
            assert not db.in_transaction and db.total_changes == 1
            await db.executemany("INSERT INTO item (value) VALUES (:v)", [{"v": "b"}, {"v": "c"}])
            await db.commit()
            db.row_factory = aio.Row
            async with db.execute("SELECT id, value FROM item ORDER BY id") as rows:
                assert [column[0] for column in rows.description] == ["id", "value"]
                assert [row["value"] async for row in rows] == ["a", "b", "c"]
            assert (await db.execute_insert("INSERT INTO item (value) VALUES ('d')"))[0] == 4
            await db.rollback()
            assert len(await db.execute_fetchall("SELECT * FROM item")) == 3
            cursor = await db.cursor()
            await cursor.execute("SELECT value FROM item ORDER BY id")
            assert tuple(await cursor.fetchone()) == ("a",)
            assert [tuple(row) for row in await cursor.fetchmany(1)] == [("b",)]
            assert [tuple(row) for row in await cursor.fetchall()] == [("c",)]
            assert await cursor.fetchone() is None
            await cursor.close()
            with pytest.raises(manyhands.ProgrammingError, match="closed cursor"):
                await cursor.fetchone()
        with pytest.raises(ValueError, match="Connection closed"):
            await db.execute("SELECT 1")

    loop = new_loop()
    try:
        loop.run_until_complete(use())
    finally:
        loop.close()


def test_what_a_session_has_of_its_own_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections close what they have open; what is theirs alone must not go with it."""
    monkeypatch.setattr(threads, "_IDLE_MAX", 0)

    async def use() -> None:
        async with aio.connect(path) as db, aio.connect(path) as other:
            await db.create_function("double", 1, lambda value: value * 2)
            await db.execute("CREATE TEMP TABLE mine (x)")
            await other.execute("INSERT INTO item (value) VALUES (1)")
            await other.commit()
            for _ in range(3):
                assert await db.execute_fetchall("SELECT double(21) FROM (SELECT 1)") == [(42,)]
                assert await db.execute_fetchall("SELECT * FROM mine") == []
                assert await other.execute_fetchall("SELECT last_insert_rowid()") == [(1,)]
                assert await other.execute_fetchall("SELECT total_changes(), changes()") == [(1, 1)]

    run(use)


def test_a_cursor_is_closed_while_its_connection_is_given_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the call and a thread for it, the connection was closed as the one idle for longest."""
    monkeypatch.setattr(threads, "_IDLE_MAX", 1)

    async def use() -> None:
        async with aio.connect(path) as other, aio.connect(path) as db:
            cursor = await db.execute("SELECT 1")
            assert await cursor.fetchall() == [(1,)]
            free = threading.Event()
            for _ in range(threads.READERS_MAX):
                threads.Process.threads.readers.submit(free.wait)
            try:
                closed = asyncio.ensure_future(cursor.close())
                await asyncio.sleep(0)
                await other.execute("INSERT INTO item (value) VALUES (1)")
                await other.commit()
                assert not closed.done()
            finally:
                free.set()
            await closed

    run(use)


def test_units_of_work(path: Path) -> None:
    async def use() -> None:
        async with aio.connect(path) as db, aio.connect(path) as other:
            first, second = await db.batch(
                [
                    ("INSERT INTO item (value) VALUES (?)", (1,)),
                    ("UPDATE item SET value = value + 1 RETURNING value", ()),
                ]
            )
            assert (first.lastrowid, await second.fetchall()) == (1, [(2,)])
            seen = []

            async def double(connection: aio.Connection) -> int:
                [(value,)] = await connection.execute_fetchall("SELECT value FROM item")
                if not seen:
                    await other.execute("UPDATE item SET value = 50")
                    await other.commit()
                seen.append(value)
                await connection.execute("UPDATE item SET value = ?", (2 * value,))
                return value

            assert await db.run(double) == 50
            assert seen == [2, 50]
            with pytest.raises(ZeroDivisionError):
                async with db.transaction("immediate"):
                    await db.execute("DELETE FROM item")
                    seen.append(1 // 0)
            assert not db.in_transaction
            assert await other.execute_fetchall("SELECT value FROM item") == [(100,)]

    run(use)


def test_dump_and_backup(path: Path) -> None:
    async def use() -> None:
        async with aio.connect(path) as db, aio.connect(":memory:") as copy:
            await db.executemany("INSERT INTO item (value) VALUES (?)", [(n,) for n in range(200)])
            await db.commit()
            lines = [line async for line in db.iterdump()]
            assert sum(line.startswith("INSERT") for line in lines) == 200
            await db.backup(copy)
            assert await copy.execute_fetchall("SELECT count(*) FROM item") == [(200,)]
            # A connection of this thread may be the target, although another thread copies.
            with closing(manyhands.connect(":memory:")) as plain:
                await db.backup(plain)
                assert plain.execute("SELECT count(*) FROM item").fetchall() == [(200,)]

    run(use)


def test_a_holder_of_the_turn_always_gets_a_thread(path: Path) -> None:
    """With more waiting tasks than threads: if the one that they wait for had none, all would stand."""
    tasks = 2 * threads.WRITERS_MAX

    async def add() -> None:
        async with aio.connect(path, isolation_level=None) as db:
            await db.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(0)
            await db.execute("INSERT INTO item (value) SELECT count(*) FROM item")
            await db.execute("COMMIT")

    async def use() -> None:
        await asyncio.gather(*(add() for _ in range(tasks)))
        async with aio.connect(path) as db:
            rows = await db.execute_fetchall("SELECT value FROM item ORDER BY id")
            assert [value for (value,) in rows] == list(range(tasks))

    run(use)


def test_reads_do_not_stand_behind_waiting_writers(path: Path) -> None:
    async def write() -> None:
        async with aio.connect(path) as db:
            await db.execute("INSERT INTO item (value) VALUES (1)")
            await db.commit()

    async def use() -> None:
        async with aio.connect(path, isolation_level=None) as holder:
            await holder.execute("BEGIN IMMEDIATE")
            writers = [asyncio.ensure_future(write()) for _ in range(2 * threads.WRITERS_MAX)]
            await asyncio.sleep(0.05)
            async with aio.connect(path) as db:
                assert await db.execute_fetchall("SELECT count(*) FROM item") == [(0,)]
            assert not any(writer.done() for writer in writers)
            await holder.execute("ROLLBACK")
            await asyncio.gather(*writers)

    run(use)


def test_a_cancelled_task_ends_its_wait_and_leaves_a_usable_connection(path: Path) -> None:
    async def use() -> None:
        holder = aio.connect(path, isolation_level=None)
        waiting = aio.connect(path, isolation_level=None)
        async with holder, waiting:
            await holder.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting.execute("BEGIN IMMEDIATE"), 0.1)
            # In its order after the call that was cancelled; this one waits for no turn.
            assert await waiting.execute_fetchall("SELECT count(*) FROM item") == [(0,)]
            assert time.monotonic() - began < 5
            await holder.execute("COMMIT")
            await waiting.execute("INSERT INTO item (value) VALUES (1)")
            assert await waiting.execute_fetchall("SELECT count(*) FROM item") == [(1,)]

    run(use)


def hold_up_the_loop_until(condition: Callable[[], bool]) -> None:
    """Meanwhile threads go on, and no task is told anything."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def nothing_is_left(db: aio.Connection, other: aio.Connection) -> None:
    assert await db.execute_fetchall("SELECT count(*) FROM item") == [(0,)]
    assert not db.in_transaction
    # Nobody holds the turn.
    async with other.transaction("immediate"):
        pass


async def never(connection: aio.Connection) -> None:
    raise AssertionError("it was cancelled before")


INSERT = "INSERT INTO item (value) VALUES (1)"


@pytest.mark.parametrize("turns", [0, 1], ids=["before it is told", "before it goes on"])
@pytest.mark.parametrize(
    "begin",
    [
        lambda db: db.transaction("immediate").__aenter__(),
        lambda db: db.run(never),
        lambda db: db.execute("BEGIN IMMEDIATE"),
        lambda db: db.execute("SAVEPOINT here"),
        lambda db: db.execute(INSERT),
        lambda db: db.execute_insert(INSERT),
        lambda db: db.execute_fetchall(INSERT + " RETURNING id"),
        lambda db: db.executemany("INSERT INTO item (value) VALUES (?)", [(1,), (2,)]),
        lambda db: db.executescript("BEGIN IMMEDIATE;" + INSERT),
    ],
    ids="transaction run BEGIN SAVEPOINT INSERT execute_insert RETURNING executemany script".split(),
)
def test_a_transaction_whose_task_was_cancelled_when_it_had_begun_is_rolled_back(
    path: Path, begin: Callable[[aio.Connection], Any], turns: int
) -> None:
    """Nobody knows of it, so nobody else would end it, and all others would wait for the turn that it holds."""

    async def use() -> None:
        async with aio.connect(path) as db, aio.connect(path, timeout=5) as other:
            task = asyncio.ensure_future(begin(db))
            await asyncio.sleep(0)
            hold_up_the_loop_until(lambda: db.in_transaction)
            for _ in range(turns):
                await asyncio.sleep(0)
            assert task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await nothing_is_left(db, other)

    run(use)


class Gate:
    """A function ``gate()`` of a connection, at which a statement stands until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_through(self) -> int:
        self.reached.set()
        assert self.opened.wait(30)
        return 1


@pytest.mark.parametrize("isolation_level", ["", "IMMEDIATE"])
def test_a_transaction_that_began_with_a_cancelled_statement_is_rolled_back(
    path: Path, isolation_level: str
) -> None:
    """The statement fails or not, BEGIN had succeeded."""

    async def use() -> None:
        gate = Gate()
        options: Any = {"isolation_level": isolation_level}
        async with aio.connect(path, **options) as db, aio.connect(path, timeout=5) as other:
            await db.create_function("gate", 0, gate.pass_through)
            task = asyncio.ensure_future(db.execute("INSERT INTO item (value) VALUES (gate())"))
            await asyncio.sleep(0)
            hold_up_the_loop_until(gate.reached.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.opened.set()
            await nothing_is_left(db, other)

    run(use)


async def insert_at_the_gate(connection: aio.Connection) -> None:
    await connection.execute("INSERT INTO item (value) VALUES (gate())")


async def insert_and_roll_back(connection: aio.Connection) -> None:
    await connection.execute("BEGIN IMMEDIATE")
    try:
        await insert_at_the_gate(connection)
    finally:
        await connection.rollback()


@pytest.mark.parametrize("cancellations", [1, 2, 3])
@pytest.mark.parametrize(
    "work", [lambda db: db.run(insert_at_the_gate), insert_and_roll_back], ids=["run", "rollback"]
)
def test_the_rollback_of_a_cancelled_transaction_cannot_be_cancelled(
    path: Path, work: Callable[[aio.Connection], Any], cancellations: int
) -> None:
    """It waits behind the statement that was cancelled; a task may be cancelled again at each await."""

    async def use() -> None:
        gate = Gate()
        async with aio.connect(path) as db, aio.connect(path, timeout=5) as other:
            await db.create_function("gate", 0, gate.pass_through)
            task = asyncio.ensure_future(work(db))
            while not gate.reached.is_set():
                await asyncio.sleep(0.001)
            for _ in range(cancellations):
                task.cancel()
                # Until it waits for the next call.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await nothing_is_left(db, other)

    run(use)


def test_a_cancelled_statement_leaves_the_transaction_that_was_open_before(path: Path) -> None:
    async def use() -> None:
        async with aio.connect(path) as db:
            await db.execute("BEGIN IMMEDIATE")
            task = asyncio.ensure_future(db.execute(INSERT))
            await asyncio.sleep(0)
            hold_up_the_loop_until(lambda: db.total_changes == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await db.execute_fetchall("SELECT count(*) FROM item") == [(1,)]
            assert db.in_transaction
            await db.rollback()

    run(use)


def test_a_cancelled_task_undoes_nothing_of_another_that_shares_its_connection(path: Path) -> None:
    """The other's statement comes after the rollback, and begins a transaction of its own."""

    async def use() -> None:
        async with aio.connect(path) as db, aio.connect(path) as other:
            cancelled = asyncio.ensure_future(db.execute("INSERT INTO item (value) VALUES ('cancelled')"))
            sharing = asyncio.ensure_future(db.execute("INSERT INTO item (value) VALUES ('shared')"))
            await asyncio.sleep(0)
            hold_up_the_loop_until(lambda: db.in_transaction)
            cancelled.cancel()
            await sharing
            await db.commit()
            assert cancelled.cancelled()
            assert await other.execute_fetchall("SELECT value FROM item") == [("shared",)]

    run(use)


def test_whenever_a_transaction_is_cancelled_nothing_is_left(path: Path) -> None:
    """While another one takes turns, so that BEGIN may wait, be interrupted, or get through all the same."""

    async def use() -> None:
        stopped = False

        async def take_turns() -> None:
            async with aio.connect(path) as db:
                while not stopped:
                    async with db.transaction("immediate"):
                        await asyncio.sleep(0.0005)
                    await asyncio.sleep(0)

        async def work(db: aio.Connection) -> None:
            async with db.transaction("immediate"):
                await db.execute(INSERT)
                await db.execute("DELETE FROM item")

        neighbour = asyncio.ensure_future(take_turns())
        async with aio.connect(path) as db:
            for moment in range(100):
                try:
                    await asyncio.wait_for(work(db), moment * 0.00005)
                except asyncio.TimeoutError:
                    pass
                assert await db.execute_fetchall("SELECT count(*) FROM item") == [(0,)]
                assert not db.in_transaction
        stopped = True
        await neighbour

    run(use)


async def begin_at_the_gate(path: Path, gate: Gate) -> Any:
    db = await aio.connect(path, isolation_level="IMMEDIATE")
    await db.create_function("gate", 0, gate.pass_through)
    task = asyncio.ensure_future(insert_at_the_gate(db))
    # It is not destroyed by mistake.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    hold_up_the_loop_until(gate.reached.is_set)
    return db, task


def test_a_statement_that_outlives_its_loop_leaves_no_transaction(path: Path) -> None:
    """Others get the turn, although nobody uses the connection any more."""
    gate = Gate()

    async def use() -> None:
        async with aio.connect(path, timeout=5) as other:
            async with other.transaction("immediate"):
                pass
        await db.close()

    loop = asyncio.new_event_loop()
    db, task = loop.run_until_complete(begin_at_the_gate(path, gate))
    loop.close()
    gate.opened.set()
    run(use)


def test_a_transaction_that_outlives_its_loop_holds_up_no_other_loop(path: Path) -> None:
    """Its task will never know that it began: the next call does not wait for that."""
    gate = Gate()

    async def begin() -> Any:
        db, task = await begin_at_the_gate(path, gate)
        gate.opened.set()
        hold_up_the_loop_until(lambda: db.in_transaction)
        return db, task

    async def use() -> None:
        async with aio.connect(path, timeout=5) as other:
            await nothing_is_left(db, other)
        await db.close()

    loop = asyncio.new_event_loop()
    db, task = loop.run_until_complete(begin())
    loop.close()
    run(use)


def test_a_rollback_that_begins_the_next_transaction_is_not_waited_for(path: Path) -> None:
    """With ``autocommit=False`` one is always open, but for one that SQL has ended: that cannot be rolled back."""

    async def use() -> None:
        async with aio.connect(path, autocommit=False) as db:
            await db.rollback()
            assert db.in_transaction
            assert await db.execute_fetchall("SELECT count(*) FROM item") == [(0,)]
            await db.execute("COMMIT")
            with pytest.raises(manyhands.OperationalError, match="no transaction is active"):
                await db.rollback()
            assert not db.in_transaction

    run(use)


def test_calls_of_one_connection_run_in_their_order(path: Path) -> None:
    async def use() -> None:
        async with aio.connect(path) as db:
            inserts = [db.execute("INSERT INTO item (value) VALUES (?)", (n,)) for n in range(50)]
            await asyncio.gather(*inserts)
            await db.commit()
            rows = await db.execute_fetchall("SELECT value FROM item ORDER BY id")
            assert [value for (value,) in rows] == list(range(50))

    run(use)


def test_to_close_rolls_back_after_all_calls_made_before(path: Path) -> None:
    async def use() -> None:
        db = await aio.connect(path)
        insert = asyncio.ensure_future(db.execute("INSERT INTO item (value) VALUES (1)"))
        await asyncio.sleep(0)
        await db.close()
        assert (await insert).rowcount == 1
        async with aio.connect(path) as other:
            assert await other.execute_fetchall("SELECT count(*) FROM item") == [(0,)]

    run(use)


def test_ten_thousand_idle_connections(path: Path) -> None:
    """Each has read and written; all together stay below 200 MB, on a bounded number of threads."""
    answer = in_new_process(
        path,
        """
        import threading
        COUNT = 10_000

        def resident_bytes():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        async def idle(number, opened, done):
            async with aio.connect(path) as db:
                await db.execute_fetchall("SELECT count(*) FROM item")
                if number % 10 == 0:
                    await db.execute("INSERT INTO item (value) VALUES (1)")
                    await db.commit()
                opened.count += 1
                if opened.count == COUNT:
                    opened.set()
                await done.wait()

        async def main():
            before = resident_bytes()
            opened, done = asyncio.Event(), asyncio.Event()
            opened.count = 0
            tasks = [asyncio.ensure_future(idle(number, opened, done)) for number in range(COUNT)]
            await asyncio.wait({asyncio.ensure_future(opened.wait()), *tasks}, return_when="FIRST_COMPLETED")
            print(resident_bytes() - before, threading.active_count())
            done.set()
            await asyncio.gather(*tasks)

        asyncio.run(main())
        """,
    )
    grown_bytes, running = map(int, answer.split())
    assert grown_bytes < 200_000_000
    assert running <= 1 + 2 * threads.WRITERS_MAX + threads.READERS_MAX + 10


def test_a_child_process_has_threads_and_connections_of_its_own(path: Path) -> None:
    answer = in_new_process(
        path,
        """
        async def insert(db):
            await db.execute("INSERT INTO item (value) VALUES (1)")
            await db.commit()

        async def main():
            async with aio.connect(path) as db:
                await insert(db)

        asyncio.run(main())
        child = os.fork()
        asyncio.run(main())
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        async def count():
            async with aio.connect(path) as db:
                print(*(await db.execute_fetchall("SELECT count(*) FROM item"))[0])
        asyncio.run(count())
        """,
    )
    assert answer == "3\n"


def test_the_interpreter_ends_although_a_connection_was_left_open(path: Path) -> None:
    answer = in_new_process(
        path,
        """
        async def main():
            global db
            db = await aio.connect(path)
            await db.execute("INSERT INTO item (value) VALUES (1)")
            print("left")

        asyncio.run(main())
        """,
    )
    assert answer == "left\n"
    connection = manyhands.connect(path)
    assert connection.execute("SELECT count(*) FROM item").fetchall() == [(0,)]
    connection.close()


def test_mistakes_are_errors(tmp_path: Path) -> None:
    async def use() -> None:
        with pytest.raises(manyhands.OperationalError):
            await aio.connect(tmp_path / "no" / "such" / "folder.db")
        async with aio.connect(":memory:") as db:
            with pytest.raises(manyhands.OperationalError, match="no such table"):
                await db.execute("SELECT * FROM missing")
        with pytest.warns(DeprecationWarning):
            aio.connect(":memory:", loop=asyncio.get_running_loop())
        with pytest.warns(ResourceWarning, match="deleted before being closed"):
            left = await aio.connect(":memory:")
            del left

    run(use)


def test_a_change_whose_count_does_not_come_in_time_is_undone(path: Path) -> None:
    async def change() -> int:
        async with aio.connect(path, timeout=0.2) as db:
            await db.execute("CREATE TABLE t (n)")
            await db.execute("INSERT INTO t VALUES (0)")
            await db.commit()
            with closing(manyhands.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                for n in ("n + ?", "n + abs(?)"):
                    with pytest.raises(manyhands.LockTimeout):
                        await db.execute(f"UPDATE t SET n = {n}", (10,))
                other.execute("ROLLBACK")
            await db.execute("UPDATE t SET n = n + ?", (10,))
            await db.commit()
            async with db.execute("SELECT n FROM t") as cursor:
                (found,) = await cursor.fetchone()
            return found

    assert run(change) == 10
