"""The backend: Django's SQLite backend, whose connections are manyhands'.

What always holds: the outermost ``atomic()`` begins in the mode of its *unit of work*, which is the
setting's unless :mod:`.units` or the middleware has announced another one; a unit that was lost to a
conflict is over, and the rest of its block touches the database no more; a process made by ``fork()``
opens connections of its own.
"""

from __future__ import annotations

import datetime
import decimal
import os
import weakref
from collections.abc import Mapping
from itertools import tee
from typing import Any, Dict, Iterable, Optional

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.sqlite3 import base as stock
from django.db.backends.sqlite3._functions import register as register_functions
from django.utils.asyncio import async_unsafe
from django.utils.dateparse import parse_date, parse_datetime, parse_time

from manyhands import dbapi2 as Database

from .creation import DatabaseCreation
from .features import DatabaseFeatures
from .schema import DatabaseSchemaEditor

# The values that models store and load, as Django registers them with the sqlite3 module.
Database.register_converter("bool", b"1".__eq__)
Database.register_converter("date", stock.decoder(parse_date))
Database.register_converter("time", stock.decoder(parse_time))
Database.register_converter("datetime", stock.decoder(parse_datetime))
Database.register_converter("timestamp", stock.decoder(parse_datetime))
Database.register_adapter(decimal.Decimal, str)
Database.register_adapter(datetime.date, datetime.date.isoformat)
Database.register_adapter(datetime.datetime, lambda value: value.isoformat(" "))

# How a unit of work begins. Plain BEGIN means what the connection's own mode says: "auto".
_BEGIN = {
    "auto": "BEGIN",
    "optimistic": "BEGIN CONCURRENT",
    "immediate": "BEGIN IMMEDIATE",
    # Django's own names, for settings that are kept as they were.
    "deferred": "BEGIN DEFERRED",
    "exclusive": "BEGIN EXCLUSIVE",
}


class _WithoutSign:
    """A connection that takes all functions but SIGN, which SQLite has itself.

    With one of its own in the place of a built-in function a connection executes all of its writes itself, and they
    share no sync with those of others.
    """

    def __init__(self, connection: Database.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def create_function(self, name: str, *arguments: Any, **named: Any) -> None:
        if name.upper() != "SIGN":
            self._connection.create_function(name, *arguments, **named)


class UnitOfWork:
    """One outermost ``atomic()`` block."""

    __slots__ = ("conflict", "mode")

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.conflict: Optional[Database.ConflictError] = None
        """Why the unit was lost: others have changed what it had read."""


class DatabaseWrapper(stock.DatabaseWrapper):
    """A connection of Django's."""

    Database = Database
    SchemaEditorClass = DatabaseSchemaEditor
    creation_class = DatabaseCreation
    features_class = DatabaseFeatures

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.transaction_mode = "auto"
        self.init_commands = []
        self.unit = UnitOfWork("auto")
        # What the next outermost atomic() is to be, if not a unit in the setting's mode.
        self.next_unit: Optional[UnitOfWork] = None
        _wrappers.add(self)

    def get_connection_params(self) -> Dict[str, Any]:
        settings = self.settings_dict
        ours = dict(settings["OPTIONS"])
        mode = str(ours.pop("transaction_mode", None) or os.environ.get("MANYHANDS_TRANSACTION_MODE") or "auto").lower()
        if mode not in _BEGIN:
            raise ImproperlyConfigured(
                f"settings.DATABASES[{self.alias!r}]['OPTIONS']['transaction_mode'] is {mode!r}; use "
                "'auto', 'optimistic' or 'immediate'."
            )
        init_command = ours.pop("init_command", "")
        self.settings_dict = {**settings, "OPTIONS": ours}
        try:
            parameters = super().get_connection_params()
        finally:
            self.settings_dict = settings
        self.transaction_mode = mode
        self.init_commands = [command for command in init_command.split(";") if command.strip()]
        return {"transaction_mode": "auto", **parameters}

    @async_unsafe
    def get_new_connection(self, conn_params: Dict[str, Any]) -> Database.Connection:
        connection = Database.connect(**conn_params)
        # Django hands a connection from thread to thread, and asks in that which has executed.
        connection._count_later()
        register_functions(_WithoutSign(connection))
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA legacy_alter_table = OFF")
        for command in self.init_commands:
            connection.execute(command)
        return connection

    def create_cursor(self, name: Optional[str] = None) -> CursorWrapper:
        cursor = self.connection.cursor(factory=CursorWrapper)
        cursor.database = self
        return cursor

    def _start_transaction_under_autocommit(self) -> None:
        self.unit = self.next_unit or UnitOfWork(self.transaction_mode)
        self.next_unit = None
        self.cursor().execute(_BEGIN[self.unit.mode])
        self.connection._guard()

    def _commit(self) -> None:
        try:
            super()._commit()
        except self.Database.Error as error:
            self.note_conflict(error)
            raise
        except Exception as error:
            # Django's own exceptions have the driver's as their cause.
            self.note_conflict(error.__cause__)
            raise

    def note_conflict(self, error: Optional[BaseException]) -> None:
        """Remembers that the unit of work was lost, if ``error`` says so.

        The transaction is over then. Until the outermost block ends, Django refuses further statements.
        """
        if isinstance(error, Database.ConflictError):
            self.unit.conflict = error
            if self.in_atomic_block:
                self.needs_rollback = True


class CursorWrapper(Database.Cursor):
    """Executes statements with Django's placeholders, ``%s`` and ``%(name)s``."""

    database: DatabaseWrapper

    convert_query = stock.SQLiteCursorWrapper.convert_query

    def execute(self, query: str, params: Any = None) -> CursorWrapper:
        try:
            if params is None:
                return super().execute(query)
            return super().execute(self._with_placeholders(query, params), params)
        except Database.ConflictError as error:
            self.database.note_conflict(error)
            raise

    def executemany(self, query: str, param_list: Iterable[Any]) -> CursorWrapper:
        first, param_list = tee(iter(param_list))
        try:
            return super().executemany(self._with_placeholders(query, next(first, None)), param_list)
        except Database.ConflictError as error:
            self.database.note_conflict(error)
            raise

    def _with_placeholders(self, query: str, params: Any) -> str:
        if isinstance(params, Mapping):
            return self.convert_query(query, param_names=list(params))
        return self.convert_query(query)


_wrappers: weakref.WeakSet[DatabaseWrapper] = weakref.WeakSet()


def _forget_inherited_connections() -> None:
    """A child process opens the database anew; what its parent had open stays the parent's."""
    for wrapper in list(_wrappers):
        if wrapper.connection is None or wrapper.is_in_memory_db():
            continue
        wrapper.connection = None
        if wrapper.in_atomic_block:
            wrapper.closed_in_transaction = True
            wrapper.needs_rollback = True


os.register_at_fork(after_in_child=_forget_inherited_connections)
