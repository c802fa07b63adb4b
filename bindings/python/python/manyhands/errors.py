"""The exceptions of the DB-API (PEP 249), with the attributes of the sqlite3 module.

Each is a subclass of the exception of the same name of the standard module, where the interpreter has that: what a
program catches as ``sqlite3.OperationalError`` it catches here too. ``str(error)`` is SQLite's own message. A call that
failed has written nothing, unless :attr:`Error.outcome_unknown` says so.
"""

from __future__ import annotations

# As in `typing`, which is not imported: it would cost each process a megabyte.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3 as _standard
    from typing import List, Optional
else:
    try:
        # What the package `sqlite3` has its classes from; the rest of that package is not needed.
        import _sqlite3 as _standard
    except ImportError:
        # An interpreter that was built without it.
        class _standard:
            Warning = Error = InterfaceError = DatabaseError = DataError = Exception
            OperationalError = IntegrityError = InternalError = ProgrammingError = NotSupportedError = Exception


class Warning(_standard.Warning):  # noqa: A001 (the DB-API's name)
    """Here because the DB-API asks for it; never raised."""


class Error(_standard.Error):
    """The base of all exceptions of this package."""

    sqlite_errorcode: Optional[int] = None
    """SQLite's extended result code; ``None`` when the error is not SQLite's."""

    sqlite_errorname: Optional[str] = None
    """The code's name, such as ``SQLITE_CONSTRAINT_UNIQUE``."""

    statement_index: Optional[int] = None
    """In a batch, the index of the statement that failed."""

    outcome_unknown: bool = False
    """True when it cannot be told whether the write was committed: look into the database."""


class InterfaceError(Error, _standard.InterfaceError):
    """The interface was misused, rather than the database."""


class DatabaseError(Error, _standard.DatabaseError):
    """The base of what the database reports."""


class DataError(DatabaseError, _standard.DataError):
    """A value is too large."""


class OperationalError(DatabaseError, _standard.OperationalError):
    """What is not the program's fault: a disk, a lock; but a mistake in the SQL too, as in sqlite3."""


class LockTimeout(OperationalError):
    """A write did not get its turn within the timeout, or a lock of another SQLite program.

    What handles the sqlite3 module's "database is locked" handles this too: its text is exactly that, and
    ``sqlite_errorname`` is ``SQLITE_BUSY``. Why, :attr:`reason` says; from Python 3.11 on a traceback shows it too.
    """

    reason: str = ""
    """How long it waited, and for whom: the process and its label, or the thread and its statement."""


class ConflictError(OperationalError):
    """Something that an optimistic transaction has seen was changed by others before its commit.

    Nothing was written; run the transaction again, or give it to :meth:`Connection.run`, which does so.
    """

    statement: str = ""
    """The statement whose result has changed."""

    number: int = 0
    """Its number in the transaction; the first is 1."""

    seen: str = ""
    """What it showed."""

    now: str = ""
    """What it shows now."""

    tables: List[str] = []
    """The tables that it reads or writes."""


class IntegrityError(DatabaseError, _standard.IntegrityError):
    """A constraint was violated."""


class InternalError(DatabaseError, _standard.InternalError):
    """SQLite or manyhands met an impossible state."""


class ProgrammingError(DatabaseError, _standard.ProgrammingError):
    """A mistake of the program: a closed connection, a wrong number of parameters, use after fork."""


class NotSupportedError(DatabaseError, _standard.NotSupportedError):
    """Here because the DB-API asks for it; never raised."""
