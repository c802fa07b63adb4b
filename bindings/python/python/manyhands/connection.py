"""A connection: what an application holds."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from types import TracebackType
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple, Type, Union

from . import _manyhands, errors
from .cursor import Cursor, Value

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Connection:
    """A connection to one database, made by :func:`manyhands.connect`.

    Best used by one thread at a time: threads that share it wait for each other, and share its
    transaction. Between processes it cannot be shared: after ``fork()`` the child opens its own.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(
        self,
        database: Path,
        timeout: float = 60.0,
        *,
        label: str = "",
        durability: str = "full",
        foreign_keys: bool = False,
    ) -> None:
        self._closed = True
        self._open = _manyhands.Connection(
            os.fsdecode(database), timeout, label, durability, foreign_keys
        )
        self._closed = False
        self._process = os.getpid()

    def cursor(self) -> Cursor:
        """A cursor, which executes statements one after the other."""
        return Cursor(self)

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> Cursor:
        """Executes one statement, with a value for each ``?``, and returns its rows as a cursor.

        Outside a transaction a write is durable when this returns.
        """
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Value]]) -> Cursor:
        """Executes an INSERT, UPDATE, DELETE or REPLACE once for each of ``parameters``, all or none."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql: str) -> Cursor:
        """Executes all statements of a script, one after the other, after committing an open transaction."""
        return self.cursor().executescript(sql)

    def batch(self, statements: Iterable[Tuple[str, Sequence[Value]]]) -> List[Cursor]:
        """Executes several statements, all or none, and returns a cursor for each.

        Outside a transaction they travel as one request: no other write comes between them. The error
        of the first that fails is raised; its ``statement_index`` says which it was.
        """
        listed = [(sql, parameters) for sql, parameters in statements]
        cursors = []
        for (sql, _), done in zip(listed, self._open.batch(listed)):
            cursor = self.cursor()
            cursor._take(sql, done)
            cursors.append(cursor)
        return cursors

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that holds the turn: nobody else writes until the ``with`` block ends.

        Commits at the end of the block; rolls back when the block raises.
        """
        self._open.execute("BEGIN IMMEDIATE", ())
        try:
            yield self
            self._open.commit()
        except BaseException:
            self._open.rollback()
            raise

    def commit(self) -> None:
        """Commits the transaction that ``BEGIN`` began; does nothing without one."""
        self._open.commit()

    def rollback(self) -> None:
        """Rolls back the transaction that ``BEGIN`` began; does nothing without one."""
        self._open.rollback()

    def interrupt(self) -> None:
        """Ends, from another thread, what the connection does or waits for, with OperationalError."""
        self._open.interrupt()

    def close(self) -> None:
        """Closes the connection, and rolls back an open transaction. Does nothing the second time."""
        self._closed = True
        self._open.close()

    @property
    def in_transaction(self) -> bool:
        """True between ``BEGIN`` and ``COMMIT`` or ``ROLLBACK``."""
        return self._open.in_transaction

    @property
    def total_changes(self) -> int:
        """Rows changed since the connection was made."""
        return self._open.total_changes

    @property
    def isolation_level(self) -> None:
        """Always ``None``: no transaction begins by itself."""
        return None

    def __enter__(self) -> Connection:
        """As in sqlite3: ends an open transaction with the block. It neither begins one nor closes."""
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self.rollback()
            return
        try:
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def __del__(self) -> None:
        # Closing may commit a checkpoint to the disk: here, not when the native half is freed, it
        # happens without the GIL.
        if not getattr(self, "_closed", True) and self._process == os.getpid():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()
