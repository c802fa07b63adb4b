"""The DB-API (PEP 249), with the names of the standard module ``sqlite3``."""

from __future__ import annotations

import collections.abc
import datetime
import os
import sys
import time
import warnings
from typing import Any, Union

from . import _manyhands
from ._manyhands import *  # noqa: F401,F403
from ._manyhands import Cursor, Row, register_adapter, register_converter
from .errors import (
    ConflictError,
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

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

apilevel = "2.0"
paramstyle = "qmark"
threadsafety = 3
sqlite_version_info = tuple(int(part) for part in _manyhands.sqlite_version.split("."))

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = memoryview


def DateFromTicks(ticks: float) -> datetime.date:
    """The local date of a time in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of a time in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local date and time of a time in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


class Connection(_manyhands.Connection):
    """A connection to one database, made by :func:`connect`."""

    __slots__ = ()

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError


def connect(database: Path, *args: Any, factory: type = Connection, **kwargs: Any) -> Any:
    """Opens a database, and creates it if it does not exist."""
    return factory(database, *args, **kwargs)


collections.abc.Sequence.register(Row)

_deprecated_names = frozenset({"version", "version_info"})


def _deprecated_value(module: str, name: str) -> object:
    if name not in _deprecated_names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if sys.version_info >= (3, 12):
        warnings.warn(
            f"{name} is deprecated and will be removed in Python 3.14",
            DeprecationWarning,
            stacklevel=3,
        )
    return "2.6.0" if name == "version" else (2, 6, 0)


def __getattr__(name: str) -> object:
    return _deprecated_value(__name__, name)
