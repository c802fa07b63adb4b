"""A cursor: executes a statement and hands out its rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import errors

if TYPE_CHECKING:
    from ._manyhands import Done
    from .connection import Connection

Value = Union[None, int, float, str, bytes, bytearray, memoryview]
Row = Tuple[Any, ...]

# The statements that sqlite3 counts rows for: after white space and comments, one of four words.
_CHANGES_ROWS = re.compile(
    r"(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*(?:insert|update|delete|replace)\b", re.IGNORECASE
)


class Cursor:
    """Made by :meth:`Connection.cursor` and :meth:`Connection.execute`.

    All rows of a result are in memory when ``execute`` returns; fetching waits for nothing.
    """

    arraysize: int = 1
    """How many rows :meth:`fetchmany` returns by default."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: Iterator[Row] = iter(())
        self._columns: Optional[Tuple[str, ...]] = None
        self._rowcount = -1
        self._lastrowid: Optional[int] = None

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> Cursor:
        """Executes one statement, with a value for each ``?``."""
        self._forget()
        self._take(sql, self._connection._open.execute(sql, parameters))
        return self

    def executemany(self, sql: str, parameters: Iterable[Sequence[Value]]) -> Cursor:
        """Executes an INSERT, UPDATE, DELETE or REPLACE once for each of ``parameters``, all or none."""
        self._forget()
        if not _CHANGES_ROWS.match(sql):
            raise errors.ProgrammingError("executemany() can only execute DML statements.")
        self._rowcount = self._connection._open.execute_many(sql, list(parameters))
        return self

    def executescript(self, sql: str) -> Cursor:
        """See :meth:`Connection.executescript`."""
        self._forget()
        self._connection._open.execute_script(sql)
        return self

    def fetchone(self) -> Optional[Row]:
        """The next row, ``None`` after the last."""
        return next(self._rows, None)

    def fetchmany(self, size: Optional[int] = None) -> List[Row]:
        """Up to ``size`` further rows."""
        count = self.arraysize if size is None else size
        return [row for _, row in zip(range(count), self._rows)]

    def fetchall(self) -> List[Row]:
        """All further rows."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    def close(self) -> None:
        """Forgets the rows."""
        self._forget()

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing; the DB-API asks for it."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Does nothing; the DB-API asks for it."""

    @property
    def connection(self) -> Connection:
        """The connection that made the cursor."""
        return self._connection

    @property
    def description(self) -> Optional[Tuple[Tuple[Any, ...], ...]]:
        """The columns' names, each first in a tuple of seven; ``None`` for a result without rows."""
        if self._columns is None:
            return None
        return tuple((name, None, None, None, None, None, None) for name in self._columns)

    @property
    def rowcount(self) -> int:
        """Rows changed by an INSERT, UPDATE, DELETE or REPLACE; -1 for other statements."""
        return self._rowcount

    @property
    def lastrowid(self) -> Optional[int]:
        """The rowid of the connection's last insert, as of the last ``execute``."""
        return self._lastrowid

    def _forget(self) -> None:
        self._rows = iter(())
        self._columns = None
        self._rowcount = -1

    def _take(self, sql: str, done: Done) -> None:
        rows, self._columns, changes, self._lastrowid = done
        self._rows = iter(rows)
        self._rowcount = changes if _CHANGES_ROWS.match(sql) else -1
