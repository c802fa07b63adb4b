"""A cursor: executes statements and hands out their rows."""

from __future__ import annotations

from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ..dbapi2 import Connection as NativeConnection
from ..dbapi2 import Cursor as NativeCursor
from ..dbapi2 import Error, ProgrammingError
from .session import State

if TYPE_CHECKING:
    from .connection import Connection

T = TypeVar("T")
Parameters = Union[Sequence[Any], Mapping[str, Any]]


class Cursor:
    """Executes statements and hands out their rows; made by :meth:`Connection.cursor`."""

    def __init__(self, connection: Connection) -> None:
        self.iter_chunk_size = connection.iter_chunk_size
        self._conn = connection
        self._closed = False
        self._native: Optional[NativeCursor] = None
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
        return await self._execute(lambda cursor: cursor.execute(sql, values), self._conn.is_read(sql))

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
        session = self._conn._session

        def close(connection: NativeConnection) -> None:
            # Also when a thread has the call at last: the connection may be given back until then.
            if native is not None and self._generation == session.generation:
                native.close()

        if native is not None and self._generation == session.generation:
            if self._description is not None and session.state is State.OPEN:
                await session.call(close, reads=True)

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
        arraysize: int = self._attributes.get("arraysize", 1)
        return arraysize

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
    def connection(self) -> NativeConnection:
        """The native connection."""
        return self._conn._conn

    def _set(self, name: str, value: Any) -> None:
        if self._native is not None:
            setattr(self._native, name, value)
        self._attributes[name] = value

    async def _execute(self, use: Callable[[NativeCursor], object], reads: bool) -> Cursor:
        def execute(connection: NativeConnection) -> None:
            cursor = self._take(connection)
            was_open = connection.in_transaction
            try:
                use(cursor)
            finally:
                try:
                    self._note_state(cursor)
                except Error:
                    # The turn, in which a row count is certain, did not come: the call fails, and has done nothing.
                    if not was_open:
                        connection._end("ROLLBACK")
                    raise

        self._check_open()
        await self._conn._session.call(execute, reads)
        return self

    async def _fetch(self, use: Callable[[NativeCursor], T], nothing: T) -> T:
        def fetch(connection: NativeConnection) -> T:
            # Given back meanwhile: then all rows had been fetched.
            if self._native is None or self._generation != self._conn._session.generation:
                return nothing
            rows = use(self._native)
            self._note_state(self._native)
            return rows

        self._check_open()
        return await self._conn._session.call(fetch, reads=True)

    def _take(self, connection: NativeConnection) -> NativeCursor:
        if self._native is None or self._generation != self._conn._session.generation:
            self._native = connection.cursor()
            self._generation = self._conn._session.generation
            for name, value in self._attributes.items():
                setattr(self._native, name, value)
        return self._native

    def _note_state(self, native: NativeCursor) -> None:
        self._description = native.description
        self._rowcount = native.rowcount
        self._lastrowid = native.lastrowid

    def _check_open(self) -> None:
        if self._closed:
            raise ProgrammingError("Cannot operate on a closed cursor.")
