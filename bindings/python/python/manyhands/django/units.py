"""Units of work that the application can run twice, or that only read."""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Iterator, Optional, Type, TypeVar

from django.db import DEFAULT_DB_ALIAS, transaction

from .base import DatabaseWrapper, UnitOfWork

Function = TypeVar("Function", bound=Callable[..., Any])


@contextmanager
def begin_as(using: Optional[str], mode: str) -> Iterator[UnitOfWork]:
    """The next outermost ``atomic()`` inside the ``with`` block begins in ``mode``."""
    connection = _connection(using)
    unit = UnitOfWork(mode)
    connection.next_unit = unit
    try:
        yield unit
    finally:
        connection.next_unit = None


def retry_atomic(function: Optional[Function] = None, *, using: Optional[str] = None) -> Any:
    """A decorator: runs a function in ``atomic()``, beside all others, and once more after a conflict.

    The function waits for nobody while it runs. If others have changed what it read before it could
    commit, it is rolled back and runs a second time, which holds the turn to write from its start and
    cannot conflict. So it may have effects in the database, but none elsewhere that must not happen
    twice: use ``transaction.on_commit`` for those.

    Inside another ``atomic()`` block it is a part of that block, and is not repeated: the block's
    owner decides. A view that is decorated is its own transaction also with ``ATOMIC_REQUESTS``.

    :param using: the alias of the database, the default one if left out.
    :raises TypeError: for a coroutine function, since transactions of Django are not asynchronous.
    """
    if function is None:
        return functools.partial(retry_atomic, using=using)
    if inspect.iscoroutinefunction(function):
        raise TypeError("retry_atomic() takes functions, not coroutine functions: use sync_to_async()")

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        if _connection(using).in_atomic_block:
            with transaction.atomic(using):
                return function(*arguments, **named)
        with begin_as(using, "optimistic") as unit:
            try:
                with transaction.atomic(using):
                    result = function(*arguments, **named)
            except Exception:
                if unit.conflict is None:
                    raise
        if unit.conflict is None:
            return result
        with begin_as(using, "immediate"), transaction.atomic(using):
            return function(*arguments, **named)

    return _not_in_a_request_s_transaction(run, using)


class read_only:  # noqa: N801 (used as a function)
    """A context manager and decorator: a transaction that only reads, and never queues.

    All reads show one moment, and no writer waits for them. A write raises ``OperationalError``. Inside
    another ``atomic()`` block it is a part of that block, and nothing is refused. A view that is
    decorated is its own transaction also with ``ATOMIC_REQUESTS``. ::

        with read_only():
            total = Order.objects.aggregate(Sum("amount"))

    :param using: the alias of the database, the default one if left out.
    """

    def __init__(self, using: Optional[str] = None) -> None:
        self._using = using
        self._open: list[Any] = []

    def __enter__(self) -> None:
        block = self._block()
        block.__enter__()
        self._open.append(block)

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._open.pop().__exit__(kind, error, traceback)

    def __call__(self, function: Function) -> Function:
        if inspect.iscoroutinefunction(function):
            raise TypeError("read_only() takes functions, not coroutine functions: use sync_to_async()")

        @functools.wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with self._block():
                return function(*arguments, **named)

        return _not_in_a_request_s_transaction(run, self._using)

    @contextmanager
    def _block(self) -> Iterator[None]:
        connection = _connection(self._using)
        if connection.in_atomic_block:
            with transaction.atomic(self._using):
                yield
            return
        connection.ensure_connection()
        connection.connection.execute("PRAGMA query_only = ON")
        try:
            with begin_as(self._using, "optimistic"), transaction.atomic(self._using):
                yield
        finally:
            # None when what ran inside has closed it.
            if connection.connection is not None:
                connection.connection.execute("PRAGMA query_only = OFF")


def _connection(using: Optional[str]) -> DatabaseWrapper:
    connection = transaction.get_connection(using)
    if not isinstance(connection, DatabaseWrapper):
        raise TypeError(
            f"the database {using or DEFAULT_DB_ALIAS!r} is not one of manyhands: set its ENGINE to "
            "'manyhands.django'"
        )
    return connection


def _not_in_a_request_s_transaction(view: Any, using: Optional[str]) -> Any:
    return transaction.non_atomic_requests(using or DEFAULT_DB_ALIAS)(view)
