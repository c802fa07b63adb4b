"""Many writers, one ordinary SQLite file: a DB-API module.

Open the file through this module instead of ``sqlite3``, in as many threads and processes as you like::

    import manyhands

    connection = manyhands.connect("app.db")
    connection.execute("CREATE TABLE IF NOT EXISTS hit (worker INTEGER)")
    connection.execute("INSERT INTO hit VALUES (?)", (7,))

    with connection.transaction():          # nobody else writes meanwhile
        (count,) = connection.execute("SELECT count(*) FROM hit").fetchone()
        connection.execute("INSERT INTO hit VALUES (?)", (count,))

    connection.batch([                      # all or none, in one trip through the queue
        ("UPDATE hit SET worker = worker + ?", (1,)),
        ("DELETE FROM hit WHERE worker > ?", (100,)),
    ])
    connection.close()

The names are those of the standard ``sqlite3`` module. What differs today:

* Autocommit only, as ``sqlite3`` with ``isolation_level=None``: a statement outside ``BEGIN`` commits by
  itself, and is durable when the call returns.
* ``executemany`` is all or none.
* Parameters are positional (``?``, ``?1``); a mapping raises ``ProgrammingError``.
* All rows of a result are read when ``execute`` returns. ``description`` is ``None`` without rows.
* No adapters, converters, row factories, user functions or backups yet.
* A thread that waits in a call sees Ctrl-C when the call ends; ``timeout`` bounds the wait.

The whole surface of ``sqlite3`` is the next step.
"""

from __future__ import annotations

from .connection import Connection, Path
from .cursor import Cursor
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    LockTimeout,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
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
    "LockTimeout",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
"""The version of the DB-API."""

paramstyle = "qmark"
"""Parameters are written ``?``."""

threadsafety = 2
"""Threads may share the module and connections, not cursors."""


def connect(
    database: Path,
    timeout: float = 60.0,
    *,
    label: str = "",
    durability: str = "full",
    foreign_keys: bool = False,
) -> Connection:
    """Opens a database, and creates it if it does not exist. ``":memory:"`` is private and has no queue.

    :param timeout: how many seconds a write waits for its turn before :class:`LockTimeout`.
    :param label: a name for the connection, shown to others who wait for it: up to 40 bytes.
    :param durability: what a write survives when its call has returned: ``"full"``, also a power cut;
        ``"normal"``, the death of any process.
    :param foreign_keys: whether foreign keys are enforced.
    """
    return Connection(
        database, timeout, label=label, durability=durability, foreign_keys=foreign_keys
    )
