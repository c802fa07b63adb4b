"""fork() in every state of a connection: children exit, use what they inherit, or open the database anew."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path
from typing import Callable, Iterator, List

import pytest

import manyhands

# How long a child may take: longer than it waits for its turn.
PATIENCE = 60.0

Fork = Callable[[], None]
State = Callable[[manyhands.Connection, Path, Fork], None]

INSERT = "INSERT INTO t (v) VALUES ('parent')"


def while_idle(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    fork()
    connection.execute(INSERT)


def before_the_first_write(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.execute("BEGIN CONCURRENT")
    assert connection.execute("SELECT v FROM t WHERE v = 'nobody'").fetchone() is None
    fork()
    connection.execute(INSERT)
    connection.execute("COMMIT")


def after_the_first_write(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.execute("BEGIN CONCURRENT")
    connection.execute(INSERT)
    fork()
    connection.execute("COMMIT")


def in_its_turn(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(INSERT)
    fork()
    connection.execute("COMMIT")


def in_a_savepoint(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.execute("BEGIN CONCURRENT")
    connection.execute(INSERT)
    connection.execute("SAVEPOINT s")
    connection.execute("INSERT INTO t (v) VALUES ('undone')")
    fork()
    connection.execute("ROLLBACK TO s")
    connection.execute("COMMIT")


def with_rows_to_fetch(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    cursor = connection.execute("SELECT value FROM json_each('[1, 2, 3]')")
    assert cursor.fetchone() == (1,)
    fork()
    assert cursor.fetchall() == [(2,), (3,)]
    connection.execute(INSERT)


def with_rows_of_a_write_to_fetch(
    connection: manyhands.Connection, path: Path, fork: Fork
) -> None:
    cursor = connection.execute(f"{INSERT} RETURNING v")
    fork()
    assert cursor.fetchall() == [("parent",)]


def amid_executemany(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    def values() -> Iterator[tuple[str]]:
        yield ("parent",)
        fork()

    connection.executemany("INSERT INTO t (v) VALUES (?)", values())


def in_a_function(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.create_function("forks", 1, lambda value: fork() or value)
    connection.execute("INSERT INTO t (v) VALUES (forks('parent'))")


def with_a_blob(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.execute("INSERT INTO t (id, v) VALUES (7, 'p_rent')")
    with connection.blobopen("t", "v", 7) as blob:
        blob.seek(1)
        fork()
        blob.write(b"a")


def amid_a_backup(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    connection.execute(INSERT)
    forks = iter([fork])
    target = manyhands.connect(path.with_name("copy.db"))
    connection.backup(target, pages=1, progress=lambda *_: next(forks, lambda: None)())
    assert target.execute("SELECT v FROM t WHERE v = 'parent'").fetchall() == [("parent",)]
    target.close()


def while_another_thread_waits(connection: manyhands.Connection, path: Path, fork: Fork) -> None:
    def wait_for_the_turn() -> None:
        own = manyhands.connect(path, isolation_level=None, timeout=PATIENCE)
        own.execute(INSERT)
        own.close()

    connection.execute("BEGIN IMMEDIATE")
    thread = threading.Thread(target=wait_for_the_turn)
    thread.start()
    time.sleep(0.1)
    fork()
    connection.execute("COMMIT")
    thread.join()


STATES: List[State] = [
    while_idle,
    before_the_first_write,
    after_the_first_write,
    in_its_turn,
    in_a_savepoint,
    with_rows_to_fetch,
    with_rows_of_a_write_to_fetch,
    amid_executemany,
    in_a_function,
    with_a_blob,
    amid_a_backup,
    while_another_thread_waits,
]


def exit_at_once(connection: manyhands.Connection, path: Path) -> None:
    pass


def open_its_own(connection: manyhands.Connection, path: Path) -> None:
    own = manyhands.connect(path, isolation_level=None, timeout=PATIENCE / 2)
    own.execute("INSERT INTO t (v) VALUES ('child')")
    own.close()


def use_its_parents(connection: manyhands.Connection, path: Path) -> None:
    for use in (
        lambda: connection.execute(INSERT),
        lambda: connection.executemany(INSERT, [()]),
        lambda: connection.executescript(INSERT),
        lambda: connection.cursor(),
        lambda: connection.commit(),
        lambda: connection.rollback(),
        lambda: connection.total_changes,
    ):
        with pytest.raises(manyhands.ProgrammingError, match="before fork()"):
            use()
    connection.close()
    open_its_own(connection, path)


DEEDS = [exit_at_once, open_its_own, use_its_parents]


def become(deed: Callable[[manyhands.Connection, Path], None], *arguments: object) -> int:
    """Makes a child that does this, and returns its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            deed(*arguments)  # type: ignore[arg-type]
            status = 0
        finally:
            os._exit(status)
    return child


def status_of(child: int) -> int:
    deadline = time.monotonic() + PATIENCE
    done, status = os.waitpid(child, os.WNOHANG)
    while not done:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
        done, status = os.waitpid(child, os.WNOHANG)
    return status


@pytest.mark.parametrize("state", STATES)
def test_a_fork(path: Path, connection: manyhands.Connection, state: State) -> None:
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    children: List[int] = []
    state(connection, path, lambda: children.extend(become(it, connection, path) for it in DEEDS))
    assert [status_of(child) for child in children] == [0] * len(DEEDS)
    rows = connection.execute("SELECT CAST(v AS TEXT) FROM t ORDER BY 1").fetchall()
    assert rows == [("child",), ("child",), ("parent",)]
    connection.close()
    stock = sqlite3.connect(path)
    stock.execute("INSERT INTO t (v) VALUES ('another program')")
    stock.commit()
    assert stock.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    assert stock.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    stock.close()


@pytest.mark.parametrize("state", STATES)
def test_multiprocessing(path: Path, connection: manyhands.Connection, state: State) -> None:
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=deed, args=(connection, path)) for deed in DEEDS]

    def fork() -> None:
        for child in children:
            child.start()

    state(connection, path, fork)
    for child in children:
        child.join(PATIENCE)
    assert [child.exitcode for child in children] == [0] * len(DEEDS)
    rows = connection.execute("SELECT CAST(v AS TEXT) FROM t ORDER BY 1").fetchall()
    assert rows == [("child",), ("child",), ("parent",)]
