"""The DB-API (PEP 249), with the names of the standard module ``sqlite3``."""

from __future__ import annotations

import collections.abc
import contextlib
import datetime
import functools
import os
import sys
import time
import warnings
from typing import Any, Callable, Iterator, Optional, TypeVar, Union

from . import _keywords, _manyhands
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


_POSITIONAL = (
    "database",
    "timeout",
    "detect_types",
    "isolation_level",
    "check_same_thread",
    "factory",
    "cached_statements",
    "uri",
)


def _warn_of_positional(count: int, what: str) -> None:
    # As sqlite3 does, from the same Python on.
    if count > 1 and sys.version_info >= (3, 13):
        warnings.warn(
            f"Passing more than 1 positional argument to {what}() is deprecated. Parameters 'timeout', "
            "'detect_types', 'isolation_level', 'check_same_thread', 'factory', 'cached_statements' and "
            "'uri' will become keyword-only parameters in Python 3.15.",
            DeprecationWarning,
            stacklevel=3,
        )


class Connection(_manyhands.Connection):
    """A connection to one database; see :func:`connect`.

    For one thread, unless ``check_same_thread=False``: threads that share it wait for each other, and
    share its transaction. Processes cannot share it: after ``fork()`` the child opens its own.
    """

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

    # What `inspect.signature` shows of a connection, which can be called.
    __text_signature__ = "(sql, /)"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """The arguments are those of :func:`connect`."""
        _warn_of_positional(len(args), "_sqlite3.Connection")
        super().__init__(*args, **kwargs)

    @contextlib.contextmanager
    def transaction(self, mode: Optional[str] = None) -> Iterator[Connection]:
        """A transaction for a ``with`` block: commits at its end, rolls back when it raises.

        :param mode: ``"optimistic"``: blocks nobody, and raises :class:`ConflictError` at its end if
            others have changed what it saw. ``"immediate"``: waits for the turn to write, and holds it.
            ``"read"``: one snapshot; writes are refused. ``None``: what a plain ``BEGIN`` means, as the
            connection's ``transaction_mode`` says.
        :raises OperationalError: when a transaction is open already.
        """
        self._begin(mode)
        try:
            yield self
            if self.in_transaction:
                self._end("COMMIT")
        except BaseException:
            if self.in_transaction:
                self._end("ROLLBACK")
            raise


_keywords.warn_of_keywords(Connection)


def connect(*args: Any, **kwargs: Any) -> Any:
    """Opens a database, and creates it if it does not exist."""
    _warn_of_positional(len(args), "sqlite3.connect")
    factory = kwargs.get("factory", args[5] if len(args) > 5 else Connection)
    if factory is Connection:
        # Not to warn twice.
        return Connection(*args[:1], **dict(zip(_POSITIONAL[1:], args[1:])), **kwargs)
    return factory(*args, **kwargs)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def retrying(source: Union[Connection, Callable[[], Connection]]) -> Callable[[_Function], _Function]:
    """A decorator: calls a function in a transaction, once more if it conflicts; see :meth:`Connection.run`.

    ::

        @manyhands.retrying(connection)
        def transfer(connection, cents, payer, payee): ...

        transfer(500, 1, 2)

    :param source: the connection, or a callable that gives the one to use each time.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            connection = source if isinstance(source, _manyhands.Connection) else source()
            return connection.run(lambda connection: function(connection, *args, **kwargs))

        return run  # type: ignore[return-value]

    return decorate


def _register_adapters_and_converters() -> None:
    def warn(what: str) -> None:
        if sys.version_info >= (3, 12):
            warnings.warn(
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

if sys.version_info < (3, 12):

    def enable_shared_cache(do_enable: int) -> None:
        """Does nothing: a shared cache makes no sense here. Removed from Python 3.12."""
        warnings.warn(
            "enable_shared_cache is deprecated and will be removed in Python 3.12.",
            DeprecationWarning,
            stacklevel=2,
        )


def _deprecated_value(module: str, name: str) -> object:
    if name == "OptimizedUnicode" and sys.version_info < (3, 12):
        warnings.warn(
            "OptimizedUnicode is deprecated and will be removed in Python 3.12.",
            DeprecationWarning,
            stacklevel=3,
        )
        return str
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
