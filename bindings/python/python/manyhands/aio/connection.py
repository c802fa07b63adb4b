"""A connection: what an application holds."""

from __future__ import annotations

import asyncio
import itertools
import re
import warnings
from contextlib import asynccontextmanager
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Dict,
    Generator,
    Generic,
    Iterable,
    List,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ..dbapi2 import ConflictError
from ..dbapi2 import Connection as NativeConnection
from .cursor import Cursor, Parameters
from .session import Session, State

T = TypeVar("T")

_READS = re.compile(r"\s*(?:SELECT|VALUES|EXPLAIN)\b", re.IGNORECASE)


class Connection:
    """A connection to one database, made by :func:`connect`.

    Tasks may share it: their calls run one after the other, and share its transaction.
    """

    def __init__(
        self,
        connector: Callable[[], NativeConnection],
        iter_chunk_size: int,
        loop: Optional[asyncio.AbstractEventLoop] = None,
    ) -> None:
        self.iter_chunk_size = iter_chunk_size
        self._session = Session(connector)
        self._defaults: Dict[str, Any] = {
            "row_factory": None,
            "text_factory": str,
            "isolation_level": "",
        }
        # Whether a SELECT begins a transaction.
        self._reads_begin = False

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        return await self._open()

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and session.state is State.OPEN:
            # First, since a warning may be an error.
            session.abandon()
            warnings.warn(
                f"{self!r} was deleted before being closed: use `async with`, or `await close()`",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )

    async def _open(self) -> Connection:
        if self._session.state is State.NEW:
            await self._session.open()
        return self

    async def close(self) -> None:
        """Closes the connection after all calls made before, and rolls back an open transaction."""
        closed = self._session.close()
        if closed is not None:
            await closed

    def stop(self) -> Optional[asyncio.Future[None]]:
        """:meth:`close` without waiting for it, also in a finalizer. Prefer ``async with``, or ``await close()``."""
        return self._session.close(by_chore=True)

    @property
    def _conn(self) -> NativeConnection:
        """The native connection, which this one then keeps."""
        self._session.pin()
        return self._session.native()

    @property
    def in_transaction(self) -> bool:
        """True between the beginning of a transaction and its end, as of the last call that has ended."""
        self._session.check()
        return self._session.in_transaction

    @property
    def total_changes(self) -> int:
        """Rows changed since the connection was made, as of the last call that has ended."""
        self._session.check()
        return 0 if self._session.counts is None else self._session.counts[1]

    @property
    def isolation_level(self) -> Optional[str]:
        """As of :mod:`sqlite3`. To set it to ``None`` commits: prefer :meth:`set_isolation_level`."""
        value: Optional[str] = self._get("isolation_level")
        return value

    @isolation_level.setter
    def isolation_level(self, value: Optional[str]) -> None:
        self._session.set("isolation_level", value)

    async def set_isolation_level(self, value: Optional[str]) -> None:
        """Sets :attr:`isolation_level` without holding up the event loop."""
        await self._session.call(lambda native: setattr(native, "isolation_level", value))
        self._session.attributes["isolation_level"] = value

    @property
    def row_factory(self) -> Optional[Callable[..., Any]]:
        """Makes a row of a cursor and a tuple, for cursors made from now on."""
        value: Optional[Callable[..., Any]] = self._get("row_factory")
        return value

    @row_factory.setter
    def row_factory(self, factory: Optional[Callable[..., Any]]) -> None:
        self._session.set("row_factory", factory)

    @property
    def text_factory(self) -> Callable[[bytes], Any]:
        """Makes a value of a text's bytes."""
        value: Callable[[bytes], Any] = self._get("text_factory")
        return value

    @text_factory.setter
    def text_factory(self, factory: Callable[[bytes], Any]) -> None:
        self._session.set("text_factory", factory)

    def cursor(self) -> Result[Cursor]:
        """A cursor."""
        return Result(self._cursor())

    def execute(self, sql: str, parameters: Optional[Parameters] = None) -> Result[Cursor]:
        """Executes one statement, with a new cursor."""
        return Result(self._with_cursor(lambda cursor: cursor.execute(sql, parameters)))

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Result[Cursor]:
        """Executes a statement once for each of ``parameters``, with a new cursor."""
        return Result(self._with_cursor(lambda cursor: cursor.executemany(sql, parameters)))

    def executescript(self, sql_script: str) -> Result[Cursor]:
        """Executes all statements of a script, with a new cursor."""
        return Result(self._with_cursor(lambda cursor: cursor.executescript(sql_script)))

    def execute_insert(self, sql: str, parameters: Optional[Parameters] = None) -> Result[Optional[Any]]:
        """Executes an INSERT and returns a row with the new rowid."""

        def insert(native: NativeConnection) -> Optional[Any]:
            cursor = native.execute(sql, parameters or ())
            return cursor.execute("SELECT last_insert_rowid()").fetchone()

        return Result(self._session.call(insert))

    def execute_fetchall(self, sql: str, parameters: Optional[Parameters] = None) -> Result[List[Any]]:
        """Executes a statement and returns all its rows."""
        return Result(
            self._session.call(
                lambda native: native.execute(sql, parameters or ()).fetchall(),
                reads=self.is_read(sql),
            )
        )

    async def commit(self) -> None:
        """Commits an open transaction."""
        await self._session.call(lambda native: native.commit())

    async def rollback(self) -> None:
        """Rolls back an open transaction, even if the task is cancelled meanwhile."""
        await self._session.roll_back(lambda native: native.rollback())

    async def batch(self, statements: Iterable[Tuple[Any, ...]]) -> List[Cursor]:
        """Executes several statements, all or none, in one trip through the queue: (sql, parameters) each."""
        listed = list(statements)

        def batch(native: NativeConnection) -> List[Cursor]:
            cursors = []
            for done in native.batch(listed):
                cursor = Cursor(self)
                cursor._native, cursor._generation = done, self._session.generation
                cursor._note_state(done)
                cursors.append(cursor)
            return cursors

        return await self._session.call(batch)

    @asynccontextmanager
    async def transaction(self, mode: Optional[str] = None) -> AsyncIterator[Connection]:
        """A transaction for an ``async with`` block: commits at its end, rolls back when it raises or is cancelled.

        :param mode: as of :meth:`manyhands.Connection.transaction`.
        """
        await self._begin(mode)
        try:
            yield self
            # One that was closed has ended without a word.
            if self._session.in_transaction or self._session.state is State.OPEN:
                await self._session.call(lambda native: native._end("COMMIT"))
        except BaseException:
            if self._session.in_transaction or self._session.state is State.OPEN:
                await self._session.roll_back(lambda native: native._end("ROLLBACK"))
            raise

    async def _begin(self, mode: Optional[str]) -> None:
        await self._session.call(lambda native: native._begin(mode))

    async def run(self, function: Callable[[Connection], Awaitable[T]]) -> T:
        """Awaits ``function(self)`` in an optimistic transaction, and once more, in its turn, after a conflict.

        Use the connection for nothing else meanwhile.
        """
        try:
            async with self.transaction("optimistic"):
                return await function(self)
        except ConflictError:
            pass
        async with self.transaction("immediate"):
            return await function(self)

    async def interrupt(self) -> None:
        """Ends the call that is running, in its task, with ``OperationalError``."""
        self._session.check()
        self._session.interrupt()

    async def create_function(
        self, name: str, num_params: int, func: Callable[..., Any], deterministic: bool = False
    ) -> None:
        """As of :mod:`sqlite3`; the function is called in other threads."""
        await self._session.call(
            lambda native: native.create_function(name, num_params, func, deterministic=deterministic),
            reads=True,
        )

    async def enable_load_extension(self, value: bool) -> None:
        """As of :mod:`sqlite3`."""
        await self._session.call(lambda native: native.enable_load_extension(value), reads=True)

    async def load_extension(self, path: str) -> None:
        """As of :mod:`sqlite3`."""
        await self._session.call(lambda native: native.load_extension(path), reads=True)

    async def set_progress_handler(self, handler: Callable[[], Optional[int]], n: int) -> None:
        """As of :mod:`sqlite3`."""
        await self._session.call(lambda native: native.set_progress_handler(handler, n), reads=True)

    async def set_trace_callback(self, handler: Optional[Callable[[str], object]]) -> None:
        """As of :mod:`sqlite3`."""
        await self._session.call(lambda native: native.set_trace_callback(handler), reads=True)

    async def set_authorizer(self, authorizer_callback: Optional[Callable[..., int]]) -> None:
        """As of :mod:`sqlite3`."""
        await self._session.call(lambda native: native.set_authorizer(authorizer_callback), reads=True)

    async def iterdump(self) -> AsyncIterator[str]:
        """The database as SQL text, line by line."""
        self._session.pin()
        try:
            lines = await self._session.call(lambda native: native.iterdump(), reads=True)
            while True:
                chunk = await self._session.call(
                    lambda native: list(itertools.islice(lines, self.iter_chunk_size)), reads=True
                )
                if not chunk:
                    return
                for line in chunk:
                    yield line
        finally:
            self._session.unpin()

    async def backup(
        self,
        target: Union[Connection, NativeConnection],
        *,
        pages: int = -1,
        progress: Optional[Callable[[int, int, int], object]] = None,
        name: str = "main",
        sleep: float = 0.250,
    ) -> None:
        """Copies the database to another connection, of this module or not. As of :mod:`sqlite3`."""
        other = target._conn if isinstance(target, Connection) else target
        try:
            await self._session.call(
                lambda native: native.backup(other, pages=pages, progress=progress, name=name, sleep=sleep)
            )
        finally:
            if isinstance(target, Connection):
                target._session.unpin()

    def is_read(self, sql: str) -> bool:
        """Whether a statement waits for no turn. In doubt, it may."""
        begins = self._session.in_transaction or self._reads_begin
        return not begins and _READS.match(sql) is not None

    def _get(self, name: str) -> Any:
        self._session.check()
        return self._session.attributes.get(name, self._defaults[name])

    async def _cursor(self) -> Cursor:
        self._session.check()
        return Cursor(self)

    async def _with_cursor(self, use: Callable[[Cursor], Awaitable[Cursor]]) -> Cursor:
        self._session.check()
        return await use(Cursor(self))


class Result(Coroutine[Any, Any, T], Generic[T]):
    """What ``await`` and ``async with`` both take; the latter closes a cursor."""

    __slots__ = ("_coroutine", "_value")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, None, T]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> T:
        self._value = await self._coroutine
        return self._value

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if isinstance(self._value, Cursor):
            await self._value.close()
