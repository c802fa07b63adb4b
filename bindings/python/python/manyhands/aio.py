"""asyncio: the surface of aiosqlite, without a thread for each connection.

::

    import manyhands.aio

    async with manyhands.aio.connect("app.db") as db:
        await db.execute("INSERT INTO hit VALUES (?)", (7,))
        await db.commit()
        async with db.execute("SELECT worker FROM hit") as cursor:
            async for (worker,) in cursor:
                ...

How it works: a call goes to one of three small pools of threads, which all connections of the process share.
The calls of one connection run one after the other, in their order.

* *Writers* may wait for their turn to write, and so for others. At most :data:`WRITERS_MAX` calls do so at
  once; more would not be faster, since those that wait together commit together.
* *Readers* wait for nobody, so they never stand behind waiting writers.
* *Holders* have the turn: all others wait for them. Each gets a thread at once, so the turn is never held by a
  connection that waits for a thread. One file has one holder, so these threads are few.

A connection that is idle, and has nothing of its own (no transaction, open cursor, function, PRAGMA …), closes what
it has open when others have been used since, and opens it again for its next call. That takes microseconds, and
thousands of idle connections cost next to nothing.

A task that is cancelled while it waits ends its wait at once; its connection stays usable. After ``fork()`` a
child opens its own connections. The threads end with the interpreter.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import threading
import warnings
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Deque,
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

from . import dbapi2
from .dbapi2 import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Row,
    Warning,
    paramstyle,
    register_adapter,
    register_converter,
    sqlite_version,
    sqlite_version_info,
)

__all__ = [
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Row",
    "Warning",
    "connect",
    "paramstyle",
    "register_adapter",
    "register_converter",
    "sqlite_version",
    "sqlite_version_info",
]

T = TypeVar("T")
Parameters = Union[Iterable[Any], Dict[str, Any]]

WRITERS_MAX = 16 + (os.cpu_count() or 1)
"""How many calls of a process may wait for their turn at once; read when the first one starts."""

READERS_MAX = 4 + (os.cpu_count() or 1)
"""How many reads of a process run at once; read when the first one starts."""

# One file has one holder: reached by nobody who has fewer files.
_HOLDERS_MAX = 1000

# How many idle connections keep what they have open. Each may hold 2 MB of the database's pages.
_IDLE_MAX = 16

# A call that is interrupted just before it begins to wait does not notice; it is told again.
_INTERRUPT_AGAIN_S = 0.05

_DEFAULTS = {"row_factory": None, "text_factory": str, "isolation_level": ""}

_READS = re.compile(r"\s*(?:SELECT|VALUES|EXPLAIN)\b", re.IGNORECASE)


def connect(
    database: Union[str, bytes, Path],
    *,
    iter_chunk_size: int = 64,
    loop: Optional[asyncio.AbstractEventLoop] = None,
    **named: Any,
) -> Connection:
    """A connection, to be awaited or used in ``async with``.

    :param iter_chunk_size: how many rows ``async for`` over a cursor fetches at once.
    :param loop: not used; the running loop is.
    :param named: what :func:`manyhands.connect` takes. ``check_same_thread`` has no effect: calls come from
        several threads, one at a time.
    """
    if loop is not None:
        warnings.warn("connect() does not use its parameter loop", DeprecationWarning, stacklevel=2)
    # Calls come from several threads, one at a time.
    named["check_same_thread"] = False
    path = database.decode() if isinstance(database, bytes) else str(database)
    connection = Connection(partial(dbapi2.connect, path, **named), iter_chunk_size)
    connection._defaults["isolation_level"] = named.get("isolation_level", "")
    connection._reads_begin = named.get("autocommit", True) is False
    if _can_be_given_back(path, named):
        connection._pins = 0
    return connection


class _State(Enum):
    NEW = 0
    OPEN = 1
    CLOSING = 2
    CLOSED = 3


class Connection:
    """A connection to one database, made by :func:`connect`.

    Tasks may share it: their calls run one after the other, and share its transaction.
    """

    def __init__(
        self,
        connector: Callable[[], dbapi2.Connection],
        iter_chunk_size: int,
        loop: Optional[asyncio.AbstractEventLoop] = None,
    ) -> None:
        self.iter_chunk_size = iter_chunk_size
        self._connector: Optional[Callable[[], dbapi2.Connection]] = connector
        self._state = _State.NEW
        # Attributes that were set, for the next native connection; the defaults of those that were not.
        self._attributes: Dict[str, Any] = {}
        self._defaults: Dict[str, Any] = dict(_DEFAULTS)
        # Whether a SELECT begins a transaction.
        self._reads_begin = False
        # Guards all that follows: worker threads and the event loop use it.
        self._lock = threading.Lock()
        self._native: Optional[dbapi2.Connection] = None
        # Which native connection it is: what a cursor got from another one has come to its end.
        self._generation = 0
        # Reasons not to give the native connection back.
        self._pins = 1
        self._calls: Deque[_Call[Any]] = deque()
        self._running: Optional[_Call[Any]] = None
        # Whether another native connection could go on in its place, as of the end of the last call.
        self._plain = False
        # As of the end of the last call: asking the native connection could wait for a running one.
        self._in_transaction = False
        self._holds_turn = False
        # changes(), total_changes() and last_insert_rowid().
        self._counts: Optional[Tuple[int, int, int]] = None

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
        if getattr(self, "_state", None) is _State.OPEN:
            warnings.warn(
                f"{self!r} was deleted before being closed: use `async with`, or `await close()`",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )
            if self._native is not None:
                try:
                    _pools.readers.submit(self._native.close)
                except RuntimeError:
                    # The interpreter ends.
                    pass

    async def _open(self) -> Connection:
        if self._state is _State.NEW:
            # Opened once now, so that a database that cannot be opened is an error here.
            self._state = _State.OPEN
            try:
                await self._call(lambda native: None, reads=True)
            except BaseException:
                # A task that was cancelled may have left a call that is still opening it.
                if self._running is None and self._native is None:
                    self._state = _State.CLOSED
                else:
                    self.stop()
                raise
        return self

    async def close(self) -> None:
        """Closes the connection after all calls made before, and rolls back an open transaction."""
        closed = self.stop()
        if closed is not None:
            await closed

    def stop(self) -> Optional[asyncio.Future[None]]:
        """:meth:`close` without waiting for it. Prefer ``async with``, or ``await close()``."""
        if self._state is not _State.OPEN:
            return None
        self._state = _State.CLOSING
        try:
            future = asyncio.get_running_loop().create_future()
            future.add_done_callback(self._note_closed)
        except RuntimeError:
            future = None
        self._submit(_Call(None, future, reads=True))
        return future

    @property
    def _conn(self) -> dbapi2.Connection:
        """The native connection, which this one then keeps."""
        self._check_active()
        with self._lock:
            self._pins += 1
            return self._take()

    @property
    def in_transaction(self) -> bool:
        """True between the beginning of a transaction and its end, as of the last call that has ended."""
        self._check_active()
        return self._in_transaction

    @property
    def total_changes(self) -> int:
        """Rows changed since the connection was made, as of the last call that has ended."""
        self._check_active()
        return 0 if self._counts is None else self._counts[1]

    @property
    def isolation_level(self) -> Optional[str]:
        """As of :mod:`sqlite3`. To set it to ``None`` commits: prefer :meth:`set_isolation_level`."""
        return self._get("isolation_level")

    @isolation_level.setter
    def isolation_level(self, value: Optional[str]) -> None:
        self._set("isolation_level", value)

    async def set_isolation_level(self, value: Optional[str]) -> None:
        """Sets :attr:`isolation_level` without holding up the event loop."""
        await self._call(lambda native: setattr(native, "isolation_level", value))
        self._attributes["isolation_level"] = value

    @property
    def row_factory(self) -> Optional[Callable[..., Any]]:
        """Makes a row of a cursor and a tuple, for cursors made from now on."""
        return self._get("row_factory")

    @row_factory.setter
    def row_factory(self, factory: Optional[Callable[..., Any]]) -> None:
        self._set("row_factory", factory)

    @property
    def text_factory(self) -> Callable[[bytes], Any]:
        """Makes a value of a text's bytes."""
        return self._get("text_factory")

    @text_factory.setter
    def text_factory(self, factory: Callable[[bytes], Any]) -> None:
        self._set("text_factory", factory)

    def cursor(self) -> _Result[Cursor]:
        """A cursor."""
        return _Result(self._cursor())

    def execute(self, sql: str, parameters: Optional[Parameters] = None) -> _Result[Cursor]:
        """Executes one statement, with a new cursor."""
        return _Result(self._with_cursor(lambda cursor: cursor.execute(sql, parameters)))

    def executemany(self, sql: str, parameters: Iterable[Parameters]) -> _Result[Cursor]:
        """Executes a statement once for each of ``parameters``, with a new cursor."""
        return _Result(self._with_cursor(lambda cursor: cursor.executemany(sql, parameters)))

    def executescript(self, sql_script: str) -> _Result[Cursor]:
        """Executes all statements of a script, with a new cursor."""
        return _Result(self._with_cursor(lambda cursor: cursor.executescript(sql_script)))

    def execute_insert(
        self, sql: str, parameters: Optional[Parameters] = None
    ) -> _Result[Optional[Any]]:
        """Executes an INSERT and returns a row with the new rowid."""

        def insert(native: dbapi2.Connection) -> Optional[Any]:
            cursor = native.execute(sql, parameters or ())
            return cursor.execute("SELECT last_insert_rowid()").fetchone()

        return _Result(self._call(insert))

    def execute_fetchall(
        self, sql: str, parameters: Optional[Parameters] = None
    ) -> _Result[List[Any]]:
        """Executes a statement and returns all its rows."""
        return _Result(
            self._call(
                lambda native: native.execute(sql, parameters or ()).fetchall(),
                reads=self._is_read(sql),
            )
        )

    async def commit(self) -> None:
        """Commits an open transaction."""
        await self._call(lambda native: native.commit())

    async def rollback(self) -> None:
        """Rolls back an open transaction."""
        await self._call(lambda native: native.rollback(), reads=True)

    async def interrupt(self) -> None:
        """Ends the call that is running, in its task, with ``OperationalError``."""
        self._check_active()
        with self._lock:
            if self._native is not None:
                self._native.interrupt()

    async def create_function(
        self, name: str, num_params: int, func: Callable[..., Any], deterministic: bool = False
    ) -> None:
        """As of :mod:`sqlite3`; the function is called in other threads."""
        await self._call(
            lambda native: native.create_function(
                name, num_params, func, deterministic=deterministic
            ),
            reads=True,
        )

    async def enable_load_extension(self, value: bool) -> None:
        """As of :mod:`sqlite3`."""
        await self._call(lambda native: native.enable_load_extension(value), reads=True)

    async def load_extension(self, path: str) -> None:
        """As of :mod:`sqlite3`."""
        await self._call(lambda native: native.load_extension(path), reads=True)

    async def set_progress_handler(self, handler: Callable[[], Optional[int]], n: int) -> None:
        """As of :mod:`sqlite3`."""
        await self._call(lambda native: native.set_progress_handler(handler, n), reads=True)

    async def set_trace_callback(self, handler: Optional[Callable[[str], object]]) -> None:
        """As of :mod:`sqlite3`."""
        await self._call(lambda native: native.set_trace_callback(handler), reads=True)

    async def set_authorizer(self, authorizer_callback: Optional[Callable[..., int]]) -> None:
        """As of :mod:`sqlite3`."""
        await self._call(lambda native: native.set_authorizer(authorizer_callback), reads=True)

    async def iterdump(self) -> AsyncIterator[str]:
        """The database as SQL text, line by line."""
        with self._lock:
            self._pins += 1
        try:
            lines = await self._call(lambda native: native.iterdump(), reads=True)
            while True:
                chunk = await self._call(
                    lambda native: list(itertools.islice(lines, self.iter_chunk_size)), reads=True
                )
                if not chunk:
                    return
                for line in chunk:
                    yield line
        finally:
            with self._lock:
                self._pins -= 1

    async def backup(
        self,
        target: Union[Connection, dbapi2.Connection],
        *,
        pages: int = -1,
        progress: Optional[Callable[[int, int, int], object]] = None,
        name: str = "main",
        sleep: float = 0.250,
    ) -> None:
        """Copies the database to another connection, of this module or not. As of :mod:`sqlite3`."""
        other = target._conn if isinstance(target, Connection) else target
        try:
            await self._call(
                lambda native: native.backup(
                    other, pages=pages, progress=progress, name=name, sleep=sleep
                )
            )
        finally:
            if isinstance(target, Connection):
                with target._lock:
                    target._pins -= 1

    # Calls.

    def _call(self, function: Callable[[Any], T], reads: bool = False) -> Coroutine[Any, Any, T]:
        """Runs ``function`` with the native connection in a thread; ``reads`` if it waits for no turn."""
        self._check_active()
        return self._wait_for(function, reads)

    async def _wait_for(self, function: Callable[[Any], T], reads: bool) -> T:
        future = asyncio.get_running_loop().create_future()
        call = _Call(function, future, reads)
        self._submit(call)
        try:
            return await future
        except asyncio.CancelledError:
            self._cancel(call)
            raise

    def _submit(self, call: _Call[Any]) -> None:
        with self._lock:
            self._calls.append(call)
            if self._running is None:
                self._start_next()

    def _start_next(self) -> None:
        """Sends the first call to a pool. Under the lock."""
        call = self._running = self._calls.popleft()
        if self._holds_turn:
            pool = _pools.holders
        elif call.reads:
            pool = _pools.readers
        else:
            pool = _pools.writers
        try:
            pool.submit(_work, [self], call)
        except BaseException:
            # The interpreter ends: no call can run any more.
            self._running = None
            raise

    def _run(self, call: _Call[Any]) -> Tuple[Any, Optional[BaseException]]:
        """One call, in a thread of a pool: its result or its error."""
        result, error = None, None
        try:
            if call.function is None:
                self._close_native()
            elif call.future is None or not call.future.cancelled():
                with self._lock:
                    native = self._take()
                result = call.function(native)
        except BaseException as raised:
            error = raised
        with self._lock:
            self._running = None
            self._pause()
            idle = self._plain and not self._calls
            if self._calls:
                self._start_next()
        if idle:
            _idle.keep(self)
        return result, error

    def _pause(self) -> None:
        """Notes the state after a call. Under the lock."""
        self._plain = False
        if self._native is not None:
            try:
                state = self._native._pause()
            except Error:
                # It was closed behind our back, or by fork(): the next call says so.
                return
            self._in_transaction, self._holds_turn, self._plain, self._counts = state

    def _give_back(self) -> None:
        """Closes the native connection, if another one could go on in its place."""
        with self._lock:
            busy = self._running is not None or self._calls or self._pins
            if busy or self._native is None or not self._plain:
                return
            native, self._native = self._native, None
            self._generation += 1
        native.close()

    def _take(self) -> dbapi2.Connection:
        """The native connection, opened if it was given back. Under the lock."""
        if self._native is None:
            if self._connector is None:
                raise ProgrammingError("Cannot operate on a closed database.")
            self._native = self._connector()
            for name, value in self._attributes.items():
                setattr(self._native, name, value)
            if self._counts is not None:
                self._native._resume(self._counts)
        return self._native

    def _cancel(self, call: _Call[Any]) -> None:
        """Takes back a call whose task was cancelled, or ends it if it runs."""
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)
                return
            if self._running is not call or self._native is None:
                return
            self._native.interrupt()
        call.future.get_loop().call_later(_INTERRUPT_AGAIN_S, self._cancel, call)

    def _close_native(self) -> None:
        with self._lock:
            # Calls that come after this one open nothing.
            self._connector = None
            native, self._native = self._native, None
            self._generation += 1
            self._in_transaction = self._holds_turn = False
        if native is not None:
            native.close()

    def _note_closed(self, closing: object) -> None:
        self._state = _State.CLOSED

    def _check_active(self) -> None:
        if self._state in (_State.NEW, _State.CLOSED):
            raise ValueError("Connection closed")

    def _get(self, name: str) -> Any:
        self._check_active()
        return self._attributes.get(name, self._defaults[name])

    def _set(self, name: str, value: Any) -> None:
        self._check_active()
        with self._lock:
            if self._native is not None:
                setattr(self._native, name, value)
            self._attributes[name] = value

    def _is_read(self, sql: str) -> bool:
        """Whether a statement waits for no turn. In doubt, it does."""
        begins = self._in_transaction or self._reads_begin
        return not begins and _READS.match(sql) is not None

    async def _cursor(self) -> Cursor:
        self._check_active()
        return Cursor(self)

    async def _with_cursor(self, use: Callable[[Cursor], Awaitable[Cursor]]) -> Cursor:
        self._check_active()
        return await use(Cursor(self))


class Cursor:
    """Executes statements and hands out their rows; made by :meth:`Connection.cursor`."""

    def __init__(self, connection: Connection) -> None:
        self.iter_chunk_size = connection.iter_chunk_size
        self._conn = connection
        self._closed = False
        self._native: Optional[dbapi2.Cursor] = None
        self._generation = 0
        # Attributes that were set, for the next native cursor.
        self._attributes: Dict[str, Any] = {}
        # As of the last call: to ask the native cursor could wait for a turn.
        self._description: Optional[Tuple[Any, ...]] = None
        self._rowcount = -1
        self._lastrowid: Optional[int] = None

    async def __aenter__(self) -> Cursor:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            rows = await self.fetchmany(self.iter_chunk_size)
            for row in rows:
                yield row
            if not rows:
                return

    async def execute(self, sql: str, parameters: Optional[Parameters] = None) -> Cursor:
        """Executes one statement. ``parameters``: a sequence for ``?``, a mapping for ``:name``."""
        values = () if parameters is None else parameters
        return await self._execute(
            lambda cursor: cursor.execute(sql, values), self._conn._is_read(sql)
        )

    async def executemany(self, sql: str, parameters: Iterable[Parameters]) -> Cursor:
        """Executes a statement once for each of ``parameters``."""
        return await self._execute(lambda cursor: cursor.executemany(sql, parameters), False)

    async def executescript(self, sql_script: str) -> Cursor:
        """Executes all statements of a script, after committing an open transaction."""
        return await self._execute(lambda cursor: cursor.executescript(sql_script), False)

    async def fetchone(self) -> Optional[Any]:
        """The next row, ``None`` after the last."""
        return await self._fetch(lambda cursor: cursor.fetchone(), None)

    async def fetchmany(self, size: Optional[int] = None) -> List[Any]:
        """Up to ``size`` further rows, by default :attr:`arraysize`."""
        count = self.arraysize if size is None else size
        return await self._fetch(lambda cursor: cursor.fetchmany(count), [])

    async def fetchall(self) -> List[Any]:
        """All further rows."""
        return await self._fetch(lambda cursor: cursor.fetchall(), [])

    async def close(self) -> None:
        """Forgets the rows; the cursor cannot be used any more."""
        self._closed = True
        native, self._native = self._native, None
        if native is not None and self._generation == self._conn._generation:
            if self._description is not None and self._conn._state is _State.OPEN:
                await self._conn._call(lambda connection: native.close(), reads=True)

    @property
    def description(self) -> Optional[Tuple[Any, ...]]:
        """The columns' names, each first in a tuple of seven; ``None`` for a result without rows."""
        return self._description

    @property
    def rowcount(self) -> int:
        """Rows changed by an INSERT, UPDATE, DELETE or REPLACE; -1 for other statements."""
        return self._rowcount

    @property
    def lastrowid(self) -> Optional[int]:
        """The rowid of the row that was inserted last."""
        return self._lastrowid

    @property
    def arraysize(self) -> int:
        """How many rows :meth:`fetchmany` returns by default: 1."""
        return self._attributes.get("arraysize", 1)

    @arraysize.setter
    def arraysize(self, value: int) -> None:
        self._set("arraysize", value)

    @property
    def row_factory(self) -> Optional[Callable[..., Any]]:
        """Makes a row of the cursor and a tuple; at first the connection's."""
        return self._attributes.get("row_factory", self._conn.row_factory)

    @row_factory.setter
    def row_factory(self, factory: Optional[Callable[..., Any]]) -> None:
        self._set("row_factory", factory)

    @property
    def connection(self) -> dbapi2.Connection:
        """The native connection."""
        return self._conn._conn

    def _set(self, name: str, value: Any) -> None:
        if self._native is not None:
            setattr(self._native, name, value)
        self._attributes[name] = value

    async def _execute(self, use: Callable[[dbapi2.Cursor], object], reads: bool) -> Cursor:
        def execute(connection: dbapi2.Connection) -> None:
            cursor = self._take(connection)
            try:
                use(cursor)
            finally:
                self._note_state(cursor)

        self._check_open()
        await self._conn._call(execute, reads)
        return self

    async def _fetch(self, use: Callable[[dbapi2.Cursor], T], nothing: T) -> T:
        def fetch(connection: dbapi2.Connection) -> T:
            # Given back meanwhile: then all rows had been fetched.
            if self._native is None or self._generation != self._conn._generation:
                return nothing
            rows = use(self._native)
            self._note_state(self._native)
            return rows

        self._check_open()
        return await self._conn._call(fetch, reads=True)

    def _take(self, connection: dbapi2.Connection) -> dbapi2.Cursor:
        if self._native is None or self._generation != self._conn._generation:
            self._native = connection.cursor()
            self._generation = self._conn._generation
            for name, value in self._attributes.items():
                setattr(self._native, name, value)
        return self._native

    def _note_state(self, native: dbapi2.Cursor) -> None:
        self._description = native.description
        self._rowcount = native.rowcount
        self._lastrowid = native.lastrowid

    def _check_open(self) -> None:
        if self._closed:
            raise ProgrammingError("Cannot operate on a closed cursor.")


class _Result(Coroutine[Any, Any, T], Generic[T]):
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


class _Call(Generic[T]):
    """A function that is to run with the native connection, or ``None`` to close it; and who waits for it."""

    __slots__ = ("function", "future", "reads")

    def __init__(
        self,
        function: Optional[Callable[[Any], T]],
        future: Optional[asyncio.Future[T]],
        reads: bool,
    ) -> None:
        self.function = function
        self.future = future
        self.reads = reads

    def deliver(self, result: Any, error: Optional[BaseException]) -> None:
        if self.future is None:
            return
        try:
            self.future.get_loop().call_soon_threadsafe(self._set, result, error)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass

    def _set(self, result: Any, error: Optional[BaseException]) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


def _work(holder: List[Connection], call: _Call[Any]) -> None:
    """What a thread of a pool does. A connection that its task drops then is not kept alive by the thread."""
    result, error = holder.pop()._run(call)
    call.deliver(result, error)


class _Pools:
    """The threads of a process. Each pool starts a thread only when none of its own is free."""

    def __init__(self) -> None:
        self.writers = ThreadPoolExecutor(WRITERS_MAX, "manyhands-writer")
        self.readers = ThreadPoolExecutor(READERS_MAX, "manyhands-reader")
        self.holders = ThreadPoolExecutor(_HOLDERS_MAX, "manyhands-holder")


class _Idle:
    """The idle connections that were used last. They keep what they have open; older ones give it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: Dict[int, weakref.ref[Connection]] = {}

    def keep(self, connection: Connection) -> None:
        with self._lock:
            # A dictionary is in the order of insertion.
            self._kept.pop(id(connection), None)
            self._kept[id(connection)] = weakref.ref(connection)
            oldest = None
            if len(self._kept) > _IDLE_MAX:
                oldest = self._kept.pop(next(iter(self._kept)))()
        if oldest is not None:
            oldest._give_back()


_pools = _Pools()
_idle = _Idle()


def _begin_in_child() -> None:
    global _pools, _idle
    _pools = _Pools()
    _idle = _Idle()


os.register_at_fork(after_in_child=_begin_in_child)


def _can_be_given_back(database: str, named: Dict[str, Any]) -> bool:
    """Whether another native connection would be the same one: not for one that has its own database."""
    private = database in ("", ":memory:") or (named.get("uri", False) and "memory" in database)
    return not private and "factory" not in named
