"""The exceptions of the DB-API (PEP 249), with the attributes of the sqlite3 module.

``str(error)`` is SQLite's own message. A call that failed has written nothing, unless
:attr:`Error.outcome_unknown` says so.
"""

from __future__ import annotations

# As in `typing`, which is not imported: it would cost each process a megabyte.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional


class Warning(Exception):  # noqa: A001 (the DB-API's name)
    """Here because the DB-API asks for it; never raised."""


class Error(Exception):
    """The base of all exceptions of this package."""

    sqlite_errorcode: Optional[int] = None
    """SQLite's extended result code; ``None`` when the error is not SQLite's."""

    sqlite_errorname: Optional[str] = None
    """The code's name, such as ``SQLITE_CONSTRAINT_UNIQUE``."""

    statement_index: Optional[int] = None
    """In a batch, the index of the statement that failed."""

    outcome_unknown: bool = False
    """True when it cannot be told whether the write was committed: look into the database."""


class InterfaceError(Error):
    """The interface was misused, rather than the database."""


class DatabaseError(Error):
    """The base of what the database reports."""


class DataError(DatabaseError):
    """A value is too large."""


class OperationalError(DatabaseError):
    """What is not the program's fault: a disk, a lock; but a mistake in the SQL too, as in sqlite3."""


class LockTimeout(OperationalError):
    """A write did not get its turn within the timeout. Its text says who was writing.

    ``sqlite_errorname`` is ``SQLITE_BUSY``: what handles the sqlite3 module's "database is locked"
    handles this too.
    """


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


class IntegrityError(DatabaseError):
    """A constraint was violated."""


class InternalError(DatabaseError):
    """SQLite or manyhands met an impossible state."""


class ProgrammingError(DatabaseError):
    """A mistake of the program: a closed connection, a wrong number of parameters, use after fork."""


class NotSupportedError(DatabaseError):
    """Here because the DB-API asks for it; never raised."""
