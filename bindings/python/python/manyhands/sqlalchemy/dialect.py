"""The dialects ``sqlite+manyhands`` and ``sqlite+aiomanyhands``, and their pools.

What always holds: an isolation level is a property of the driver's connection, so it survives the pool and ends
with ``reset_isolation_level``, as stock levels do; a process made by ``fork()`` is handed no connection of its
parent's.

SQLAlchemy puts a function of its own in the place of SQLite's ``floor()``, which answers with a float where its own
has an integer. A connection with such a function executes all of its writes itself, and they share no sync with those
of others. So it keeps SQLite's, and ``func.floor()`` is compiled to what gives the integer.
"""

from __future__ import annotations

import os
from contextlib import suppress
from types import ModuleType
from typing import Any, Callable, Dict, List, MutableMapping, Optional, Type
from weakref import WeakKeyDictionary

from sqlalchemy import event, exc, pool
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_dbapi,
    SQLiteDialect_aiosqlite,
)
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL
from sqlalchemy.util import await_only

from ..dbapi2 import Connection as NativeConnection

# Keywords of connect() that a URL may carry, besides those of the stock dialect.
_URL_KEYWORDS = ("label", "durability", "durability_min", "transaction_mode", "wal_bytes_limit", "journal")

# Levels whose transactions the dialect begins itself, before their first statement, as blocks of the driver: once an
# error has ended one, nothing is executed before its rollback.
_BEGIN = {"IMMEDIATE": "immediate", "OPTIMISTIC": "optimistic"}


class _WithoutFloor:
    """A connection that takes all functions but ``floor``."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def create_function(self, name: str, *arguments: Any, **named: Any) -> None:
        if name != "floor":
            self._connection.create_function(name, *arguments, **named)


class _Compiler(SQLiteCompiler):
    """Gives ``func.floor()`` the integers that it has with SQLAlchemy's function."""

    def visit_floor_func(self, function: Any, **named: Any) -> str:
        return f"CAST(floor{self.function_argspec(function, **named)} AS INTEGER)"


class _Common:
    """What both dialects have in common."""

    supports_statement_cache = True
    statement_compiler = _Compiler

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        # Of driver connections at one of the levels of _BEGIN.
        self._levels: MutableMapping[Any, str] = WeakKeyDictionary()

    def create_connect_args(self, url: URL) -> Any:
        ours: Dict[str, Any] = {name: url.query[name] for name in _URL_KEYWORDS if name in url.query}
        if "wal_bytes_limit" in ours:
            ours["wal_bytes_limit"] = int(ours["wal_bytes_limit"])
        positional, named = super().create_connect_args(url.difference_update_query(ours))
        return positional, {**named, **ours}

    def on_connect(self) -> Callable[[Any], None]:
        stock = super().on_connect()
        return lambda dbapi_connection: stock(_WithoutFloor(dbapi_connection))

    def get_isolation_level_values(self, dbapi_connection: Any) -> List[str]:
        return [*super().get_isolation_level_values(dbapi_connection), *_BEGIN]

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        driver_connection = self.get_driver_connection(dbapi_connection)
        if level in _BEGIN:
            # The driver leaves transactions alone; do_begin() begins them.
            dbapi_connection.isolation_level = None
            self._levels[driver_connection] = level
        else:
            self._levels.pop(driver_connection, None)
            super().set_isolation_level(dbapi_connection, level)

    def get_isolation_level(self, dbapi_connection: Any) -> str:
        level = self._levels.get(self.get_driver_connection(dbapi_connection))
        return level or super().get_isolation_level(dbapi_connection)

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        if self.get_driver_connection(dbapi_conn) in self._levels:
            return False
        return super().detect_autocommit_setting(dbapi_conn)

    def do_begin(self, dbapi_connection: Any) -> None:
        level = self._levels.get(dbapi_connection.driver_connection)
        if level is not None:
            dbapi_connection._begin(_BEGIN[level])

    def do_commit(self, dbapi_connection: Any) -> None:
        try:
            super().do_commit(dbapi_connection)
        except BaseException:
            # SQLAlchemy takes the transaction for ended, and rolls nothing back.
            with suppress(self.dbapi.Error):
                dbapi_connection.rollback()
            raise


class _ForkAware:
    """A pool without a limit of overflow, and without its parent's connections after ``fork()``.

    Stock pools let threads wait for one of 15 connections and then fail. Connections to a file are cheap
    here, and writers that wait together commit together, so more are opened instead.
    """

    def __init__(self, creator: Any, pool_size: int = 5, max_overflow: int = -1, **named: Any) -> None:
        super().__init__(creator, pool_size=pool_size, max_overflow=max_overflow, **named)
        event.listen(self, "connect", _note_process)
        event.listen(self, "checkout", _check_process)


def _note_process(dbapi_connection: Any, record: Any) -> None:
    record.info["manyhands_process"] = os.getpid()


def _check_process(dbapi_connection: Any, record: Any, proxy: Any) -> None:
    process = record.info.get("manyhands_process")
    if process != os.getpid():
        # Not closed: it is the parent's. DisconnectionError makes the pool open another one.
        record.dbapi_connection = proxy.dbapi_connection = None
        raise exc.DisconnectionError(f"the connection was opened by process {process}")


class Pool(_ForkAware, pool.QueuePool):
    """See :class:`_ForkAware`."""


class AsyncPool(_ForkAware, pool.AsyncAdaptedQueuePool):
    """See :class:`_ForkAware`."""


class Dialect(_Common, SQLiteDialect_pysqlite):
    """``sqlite+manyhands``."""

    driver = "manyhands"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        from manyhands import dbapi2

        return dbapi2

    def on_connect(self) -> Callable[[Any], None]:
        common = super().on_connect()

        def note(dbapi_connection: Any) -> None:
            common(dbapi_connection)
            # A pool hands it from thread to thread, and SQLAlchemy asks in that which has executed.
            if isinstance(dbapi_connection, NativeConnection):
                dbapi_connection._count_later()

        return note

    @classmethod
    def get_pool_class(cls, url: URL) -> Type[pool.Pool]:
        return Pool if cls._is_url_file_db(url) else super().get_pool_class(url)


class AsyncAdaptedConnection(AsyncAdapt_aiosqlite_connection):
    """A connection of :mod:`manyhands.aio` as SQLAlchemy's synchronous half sees it."""

    __slots__ = ()

    @property
    def isolation_level(self) -> Optional[str]:
        return self._connection.isolation_level

    @isolation_level.setter
    def isolation_level(self, value: Optional[str]) -> None:
        self._wait(self._connection.set_isolation_level(value))

    def _begin(self, mode: str) -> None:
        self._wait(self._connection._begin(mode))

    def rollback(self) -> None:
        self._wait(self._connection.rollback())

    def commit(self) -> None:
        self._wait(self._connection.commit())

    def _wait(self, awaitable: Any) -> None:
        try:
            await_only(awaitable)
        except Exception as error:
            self._handle_exception(error)


class AsyncAdaptedModule(AsyncAdapt_aiosqlite_dbapi):
    """:mod:`manyhands.aio` as a DB-API module."""

    def connect(self, *arguments: Any, **named: Any) -> AsyncAdaptedConnection:
        creator = named.pop("async_creator_fn", None) or self.aiosqlite.connect
        return AsyncAdaptedConnection(self, await_only(creator(*arguments, **named)))


class AsyncDialect(_Common, SQLiteDialect_aiosqlite):
    """``sqlite+aiomanyhands``."""

    driver = "aiomanyhands"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> AsyncAdaptedModule:
        from manyhands import aio, dbapi2

        return AsyncAdaptedModule(aio, dbapi2)

    @classmethod
    def get_pool_class(cls, url: URL) -> Type[pool.Pool]:
        return AsyncPool if cls._is_url_file_db(url) else super().get_pool_class(url)
