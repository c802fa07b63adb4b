"""The DB-API (PEP 249), with the names of the standard module ``sqlite3``."""

from __future__ import annotations

import collections.abc
import datetime
import sys as _sys
import time
import warnings as _warnings

from ._manyhands import *  # noqa: F403
from ._manyhands import Row, register_adapter, register_converter, sqlite_version
from .connection import Connection as Connection
from .connection import connect as connect
from .connection import retrying as retrying
from .errors import ConflictError as ConflictError
from .errors import DatabaseError as DatabaseError
from .errors import DataError as DataError
from .errors import Error as Error
from .errors import IntegrityError as IntegrityError
from .errors import InterfaceError as InterfaceError
from .errors import InternalError as InternalError
from .errors import LockTimeout as LockTimeout
from .errors import NotSupportedError as NotSupportedError
from .errors import OperationalError as OperationalError
from .errors import ProgrammingError as ProgrammingError
from .errors import Warning as Warning

apilevel = "2.0"
paramstyle = "qmark"
threadsafety = 3
sqlite_version_info = tuple(int(part) for part in sqlite_version.split("."))

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


def _register_adapters_and_converters() -> None:
    def warn(what: str) -> None:
        if _sys.version_info >= (3, 12):
            _warnings.warn(
                f"The default {what} is deprecated as of Python 3.12; "
                "see the sqlite3 documentation for suggested replacement recipes",
                DeprecationWarning,
                stacklevel=3,
            )

    def adapt_date(value: datetime.date) -> str:
        warn("date adapter")
        return value.isoformat()

    def adapt_datetime(value: datetime.datetime) -> str:
        warn("datetime adapter")
        return value.isoformat(" ")

    def convert_date(value: bytes) -> datetime.date:
        warn("date converter")
        return datetime.date(*map(int, value.split(b"-")))

    def convert_timestamp(value: bytes) -> datetime.datetime:
        warn("timestamp converter")
        date, time_of_day = value.split(b" ")
        year, month, day = map(int, date.split(b"-"))
        whole, _, fraction = time_of_day.partition(b".")
        hour, minute, second = map(int, whole.split(b":"))
        microsecond = int(fraction.decode().ljust(6, "0")[:6]) if fraction else 0
        return datetime.datetime(year, month, day, hour, minute, second, microsecond)

    register_adapter(datetime.date, adapt_date)
    register_adapter(datetime.datetime, adapt_datetime)
    register_converter("date", convert_date)
    register_converter("timestamp", convert_timestamp)


_register_adapters_and_converters()

collections.abc.Sequence.register(Row)

_deprecated_names = frozenset({"version", "version_info"})

if _sys.version_info < (3, 12):

    def enable_shared_cache(do_enable: int) -> None:
        """Does nothing: a shared cache makes no sense here. Removed from Python 3.12."""
        _warnings.warn(
            "enable_shared_cache is deprecated and will be removed in Python 3.12.",
            DeprecationWarning,
            stacklevel=2,
        )


def _deprecated_value(module: str, name: str) -> object:
    if name == "OptimizedUnicode" and _sys.version_info < (3, 12):
        _warnings.warn(
            "OptimizedUnicode is deprecated and will be removed in Python 3.12.",
            DeprecationWarning,
            stacklevel=3,
        )
        return str
    if name not in _deprecated_names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if _sys.version_info >= (3, 12):
        _warnings.warn(
            f"{name} is deprecated and will be removed in Python 3.14",
            DeprecationWarning,
            stacklevel=3,
        )
    return "2.6.0" if name == "version" else (2, 6, 0)


def __getattr__(name: str) -> object:
    return _deprecated_value(__name__, name)
