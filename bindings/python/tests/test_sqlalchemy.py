"""SQLAlchemy: the dialects, their isolation levels, their pools, and units of work that run again."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import pytest
import sqlalchemy
from shared_sync import WRITERS, commits_of_waiting_writers
from sqlalchemy import Engine, create_engine, func, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

import manyhands
import manyhands.sqlalchemy


class Base(DeclarativeBase):
    pass


class Counter(Base):
    __tablename__ = "counter"
    id: Mapped[int] = mapped_column(primary_key=True)
    value: Mapped[int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite+manyhands:///{path}?label=shop&durability=normal")
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Counter(id=1, value=0))
    yield engine
    engine.dispose()


def value(engine: Engine) -> int:
    with Session(engine) as session:
        return session.get_one(Counter, 1).value


def change(path: Path) -> None:
    """What somebody else does meanwhile."""
    connection = manyhands.connect(path)
    connection.execute("UPDATE counter SET value = value + 100")
    connection.commit()
    connection.close()


def test_the_dialects_are_found_by_name(engine: Engine) -> None:
    assert engine.dialect.driver == "manyhands"
    assert engine.dialect.dbapi.connect is manyhands.connect
    with engine.connect() as connection:
        assert isinstance(connection.connection.driver_connection, manyhands.Connection)
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 1
        assert connection.execute(text("SELECT 'abc' REGEXP 'b.'")).scalar() == 1


def test_read_then_write_by_many_threads_meets_no_error(engine: Engine) -> None:
    """With stock SQLite, a transaction that reads first and writes then fails when others write."""

    def work(_: int) -> None:
        for _ in range(5):
            with Session(engine) as session:
                counter = session.get_one(Counter, 1)
                assert counter.value >= 0
                session.execute(sqlalchemy.update(Counter).values(value=Counter.value + 1))
                session.get_one(Counter, 1, populate_existing=True)
                session.commit()

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(work, range(20)))
    assert value(engine) == 100


def test_readers_do_not_queue(engine: Engine, path: Path) -> None:
    holder = manyhands.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    assert value(engine) == 0
    with engine.execution_options(isolation_level="OPTIMISTIC").begin() as connection:
        assert connection.execute(text("SELECT value FROM counter")).scalar() == 0
    holder.rollback()
    holder.close()


def test_optimistic_reads_one_moment_and_conflicts(engine: Engine, path: Path) -> None:
    with pytest.raises(OperationalError) as caught:
        with Session(engine) as session, session.begin():
            session.connection(execution_options={"isolation_level": "OPTIMISTIC"})
            counter = session.get_one(Counter, 1)
            change(path)
            assert session.scalar(sqlalchemy.select(Counter.value)) == 0
            counter.value += 1
    assert isinstance(caught.value.orig, manyhands.ConflictError)
    assert value(engine) == 100


def test_immediate_holds_what_it_has_read(engine: Engine, path: Path) -> None:
    with engine.connect().execution_options(isolation_level="IMMEDIATE") as connection:
        assert connection.get_isolation_level() == "IMMEDIATE"
        assert connection.execute(text("SELECT value FROM counter")).scalar() == 0
        with ThreadPoolExecutor(1) as other:
            changed = other.submit(change, path)
            connection.execute(text("UPDATE counter SET value = 1"))
            assert not changed.done()
            connection.commit()
            changed.result(30)
    assert value(engine) == 101


@pytest.mark.parametrize("level", ["IMMEDIATE", "OPTIMISTIC", "AUTOCOMMIT"])
def test_a_level_ends_with_the_connection(engine: Engine, level: str) -> None:
    with engine.connect().execution_options(isolation_level=level) as connection:
        driver_connection = connection.connection.driver_connection
        connection.execute(text("UPDATE counter SET value = value + 1"))
        connection.rollback()
    with engine.connect() as connection:
        assert connection.connection.driver_connection is driver_connection
        assert connection.get_isolation_level() == "SERIALIZABLE"
        assert connection.execute(text("SELECT value FROM counter")).scalar() == (level == "AUTOCOMMIT")
        connection.execute(text("UPDATE counter SET value = value + 1"))
        assert driver_connection.in_transaction


def test_a_level_of_the_engine(path: Path, engine: Engine) -> None:
    immediate = create_engine(f"sqlite+manyhands:///{path}", isolation_level="IMMEDIATE")
    with immediate.begin() as connection:
        assert connection.connection.driver_connection.in_transaction
    immediate.dispose()


def test_run_runs_again_after_a_conflict(engine: Engine, path: Path) -> None:
    levels = []

    def add(connection: Any) -> int:
        before = connection.execute(text("SELECT value FROM counter")).scalar()
        if not levels:
            change(path)
        levels.append(connection.get_isolation_level())
        connection.execute(text("UPDATE counter SET value = :value"), {"value": before + 1})
        return before

    assert manyhands.sqlalchemy.run(engine, add) == 100
    assert levels == ["OPTIMISTIC", "IMMEDIATE"]
    assert value(engine) == 101


def test_run_loses_no_update(engine: Engine) -> None:
    def add(session: Session) -> None:
        session.get_one(Counter, 1).value += 1

    def work(_: int) -> None:
        for _ in range(10):
            manyhands.sqlalchemy.run(sessionmaker(engine), add)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert value(engine) == 80


def test_run_passes_other_errors_on(engine: Engine) -> None:
    runs = []

    def fail(connection: Any) -> None:
        runs.append(connection.execute(text("UPDATE counter SET value = 7")).rowcount)
        connection.execute(text("SELECT * FROM missing"))

    with pytest.raises(OperationalError, match="no such table"):
        manyhands.sqlalchemy.run(engine, fail)
    assert runs == [1] and value(engine) == 0


def pass_over_a_conflict(path: Path) -> Any:
    """Each statement that follows would be committed by itself."""
    conflicts = []

    def work(connection: Any) -> None:
        assert connection.execute(text("SELECT value FROM counter")).scalar() is not None
        if not conflicts:
            change(path)
        try:
            with connection.begin_nested():
                # Cannot be done beside others, so what was read is compared here.
                connection.execute(text("CREATE TABLE another (x)"))
        except OperationalError as error:
            conflicts.append(error.orig)
        connection.execute(text("INSERT INTO counter (value) VALUES (7)"))

    return work, conflicts


def test_run_runs_again_who_passes_over_a_conflict(engine: Engine, path: Path) -> None:
    work, conflicts = pass_over_a_conflict(path)
    manyhands.sqlalchemy.run(engine, work)
    assert [type(error) for error in conflicts] == [manyhands.ConflictError]

    async def again() -> None:
        asynchronous = create_async_engine(f"sqlite+aiomanyhands:///{path}")
        await manyhands.sqlalchemy.run_async(asynchronous, lambda it: it.run_sync(work))
        await asynchronous.dispose()

    with engine.begin() as connection:
        connection.execute(text("DROP TABLE another"))
    work, conflicts = pass_over_a_conflict(path)
    asyncio.run(again())
    assert len(conflicts) == 1
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM counter")).scalar() == 3


def conflict(connection: Any, path: Path) -> None:
    before = connection.execute(text("SELECT value FROM counter")).scalar()
    change(path)
    connection.execute(text("UPDATE counter SET value = :value"), {"value": before + 1})
    connection.commit()


def test_after_a_commit_that_failed_a_connection_goes_on(path: Path, engine: Engine) -> None:
    """SQLAlchemy rolls nothing back then: the dialect does."""
    optimistic = create_engine(f"sqlite+manyhands:///{path}", isolation_level="OPTIMISTIC", pool_size=1)
    for begun in (optimistic.connect, lambda: engine.connect().execution_options(isolation_level="OPTIMISTIC")):
        with begun() as connection:
            with pytest.raises(OperationalError, match="conflict"):
                conflict(connection, path)
            connection.rollback()
            assert connection.execute(text("SELECT count(*) FROM counter")).scalar() == 1
        with pytest.raises(OperationalError, match="conflict"), begun() as connection:
            conflict(connection, path)
        with begun() as connection:
            assert connection.execute(text("SELECT count(*) FROM counter")).scalar() == 1
    assert optimistic.pool.checkedout() == engine.pool.checkedout() == 0
    optimistic.dispose()


def test_more_connections_than_a_stock_pool_has(engine: Engine) -> None:
    together = threading.Barrier(30)

    def work(_: int) -> None:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            together.wait(30)

    with ThreadPoolExecutor(30) as threads:
        list(threads.map(work, range(30)))


def test_a_child_process_opens_connections_of_its_own(engine: Engine) -> None:
    assert value(engine) == 0
    child = os.fork()
    if child == 0:
        try:
            with engine.begin() as connection:
                connection.execute(text("UPDATE counter SET value = 1"))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert value(engine) == 1


def test_a_database_in_memory(tmp_path: Path) -> None:
    engine = create_engine("sqlite+manyhands://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Counter(id=1, value=5))
        session.commit()
        assert session.get_one(Counter, 1).value == 5
    engine.dispose()


def test_asynchronous_sessions(engine: Engine, path: Path) -> None:
    async def use() -> None:
        asynchronous = create_async_engine(f"sqlite+aiomanyhands:///{path}")
        sessions = async_sessionmaker(asynchronous)
        runs = []

        async def add(session: Any) -> None:
            counter = await session.get_one(Counter, 1)
            if not runs:
                await asyncio.to_thread(change, path)
            runs.append(counter.value)
            counter.value += 1

        await manyhands.sqlalchemy.run_async(sessions, add)
        assert runs == [0, 100]
        await asyncio.gather(*(manyhands.sqlalchemy.run_async(sessions, add) for _ in range(20)))

        async def read(connection: Any) -> int:
            assert await connection.get_isolation_level() == "OPTIMISTIC"
            return (await connection.execute(text("SELECT value FROM counter"))).scalar()

        assert await manyhands.sqlalchemy.run_async(asynchronous, read) == 121
        async with asynchronous.connect() as connection:
            result = await connection.stream(text("SELECT value FROM counter"))
            assert [row.value async for row in result] == [121]
        await asynchronous.dispose()

    asyncio.run(use())


def test_writers_share_a_commit(engine: Engine, path: Path) -> None:
    """Who is told a new id at the default level has the turn: ids become visible in their order."""
    optimistic = engine.execution_options(isolation_level="OPTIMISTIC")

    def write() -> None:
        with Session(optimistic) as session, session.begin():
            session.add(Counter(value=7))

    assert commits_of_waiting_writers(path, write) <= WRITERS // 2
    with Session(engine) as session:
        assert session.scalar(select(func.count()).where(Counter.value == 7)) == WRITERS


def test_floor_is_that_of_sqlalchemy(engine: Engine, path: Path) -> None:
    """It answers with an integer, SQLite's own with a float."""
    floors = select(func.floor(2.5), func.FLOOR(-2.5))
    with engine.connect() as connection, connection.execute(select(Counter.id)) as open_cursor:
        row = connection.execute(floors).one()
        assert [type(number) for number in row] == [int, int] and tuple(row) == (2, -3)
        assert len(open_cursor.all()) == 1

    async def ask() -> Any:
        asynchronous = create_async_engine(f"sqlite+aiomanyhands:///{path}")
        async with asynchronous.connect() as connection:
            row = (await connection.execute(floors)).one()
        await asynchronous.dispose()
        return row

    assert [type(number) for number in asyncio.run(ask())] == [int, int]
