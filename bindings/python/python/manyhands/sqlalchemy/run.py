"""Units of work that can be run twice."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import Any, AsyncIterator, Awaitable, Callable, Iterator, TypeVar

from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from manyhands import ConflictError

Result = TypeVar("Result")


def run(target: Any, function: Callable[[Any], Result]) -> Result:
    """Runs ``function`` in a transaction, beside all others, and once more after a conflict.

    The function waits for nobody while it runs. If others have changed what it read before it could commit,
    it is rolled back and runs a second time, which holds the turn to write from its start and cannot
    conflict. So it should have effects in the database only. ::

        def book(session):
            seat = session.scalars(select(Seat).where(Seat.free).limit(1)).one()
            seat.free = False
            return seat.id

        seat_id = run(Session, book)

    :param target: an engine, or a ``sessionmaker`` that is bound to one.
    :param function: gets a connection of the engine, or a new session.
    :returns: what the function returned; its transaction is committed.
    """
    try:
        return _attempt(target, function, "OPTIMISTIC")
    except DBAPIError as error:
        if not isinstance(error.orig, ConflictError):
            raise
    return _attempt(target, function, "IMMEDIATE")


async def run_async(target: Any, function: Callable[[Any], Awaitable[Result]]) -> Result:
    """:func:`run` for an ``AsyncEngine`` or an ``async_sessionmaker``, and a coroutine function."""
    try:
        return await _attempt_async(target, function, "OPTIMISTIC")
    except DBAPIError as error:
        if not isinstance(error.orig, ConflictError):
            raise
    return await _attempt_async(target, function, "IMMEDIATE")


def _attempt(target: Any, function: Callable[[Any], Result], level: str) -> Result:
    with _transaction(target, level) as work:
        return function(work)


async def _attempt_async(target: Any, function: Callable[[Any], Awaitable[Result]], level: str) -> Result:
    async with _transaction_async(target, level) as work:
        return await function(work)


@contextmanager
def _transaction(target: Any, level: str) -> Iterator[Any]:
    if isinstance(target, Engine):
        with target.execution_options(isolation_level=level).begin() as connection:
            yield connection
    else:
        with target() as session, session.begin():
            session.connection(execution_options={"isolation_level": level})
            yield session


@asynccontextmanager
async def _transaction_async(target: Any, level: str) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import AsyncEngine

    if isinstance(target, AsyncEngine):
        async with target.execution_options(isolation_level=level).begin() as connection:
            yield connection
    else:
        async with target() as session, session.begin():
            await session.connection(execution_options={"isolation_level": level})
            yield session
