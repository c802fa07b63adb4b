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

* *Writers* may wait for their turn to write, and so for others. At most ``threads.WRITERS_MAX`` calls do so at
  once; more would not be faster, since those that wait together commit together.
* *Readers* wait for nobody, so they never stand behind waiting writers.
* *Holders* have the turn: all others wait for them. Each gets a thread at once, so the turn is never held by a
  connection that waits for a thread. One file has one holder, so these threads are few.

One more thread closes what was forgotten, since a finalizer may wait for nobody.

A connection that is idle, and has nothing of its own (no transaction, open cursor, function, PRAGMA …), closes what
it has open when others have been used since, and opens it again for its next call. That takes microseconds, and
thousands of idle connections cost next to nothing.

A task that is cancelled while it waits ends its wait at once; its connection stays usable. A transaction that the
cancelled call began is rolled back before the next call, since nobody knows of it. One that was open before stays
open, for the application to end; ``transaction()`` and ``run()`` roll theirs back. A cancelled ``commit()`` may have
committed.

After ``fork()`` a child opens its own connections. The threads end with the interpreter.
"""

from __future__ import annotations

import asyncio
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Dict, Optional, Union

from .. import dbapi2
from ..dbapi2 import (
    ConflictError,
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
from .connection import Connection
from .cursor import Cursor

__all__ = [
    "ConflictError",
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
        connection._session.unpin()
    return connection


def _can_be_given_back(database: str, named: Dict[str, Any]) -> bool:
    """Whether another native connection would be the same one: not for one that has its own database."""
    private = database in ("", ":memory:") or (named.get("uri", False) and "memory" in database)
    return not private and "factory" not in named
