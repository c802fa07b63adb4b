"""Connections: what is more comfortable to say in Python than in Rust."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings

from . import _keywords, _manyhands, errors

# As in `typing`, which is not imported: it would cost each process a megabyte.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Callable, Iterator, Optional, TypeVar, Union, overload

    Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
    _Function = TypeVar("_Function", bound=Callable[..., Any])
    _Made = TypeVar("_Made")

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

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    if not TYPE_CHECKING:
        # What `inspect.signature` shows of a connection, which can be called.
        __text_signature__ = "(sql, /)"

        if sys.version_info >= (3, 13):

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                """The arguments are those of :func:`connect`."""
                _warn_of_positional(len(args), "_sqlite3.Connection")
                super().__init__(*args, **kwargs)

    @contextlib.contextmanager
    def transaction(self, mode: Optional[str] = None) -> Iterator[Connection]:
        """A transaction for a ``with`` block: commits at its end, rolls back when it raises.

        Once an error has ended it (a conflict, ``OR ROLLBACK``, a full disk), what follows in the block is refused, and
        its end raises :class:`OperationalError`: nothing of it was committed.

        :param mode: ``"optimistic"``: blocks nobody, and raises :class:`ConflictError` at its end if
            others have changed what it saw. ``"immediate"``: waits for the turn to write, and holds it.
            ``"read"``: one snapshot; writes are refused. ``None``: what a plain ``BEGIN`` means, as the
            connection's ``transaction_mode`` says.
        :raises OperationalError: when a transaction is open already.
        """
        self._begin(mode)
        try:
            yield self
            self._end("COMMIT")
        except BaseException:
            self._end("ROLLBACK")
            raise


_keywords.warn_of_keywords(Connection)
_manyhands._note_public_class(Connection)


if TYPE_CHECKING:

    @overload
    def connect(
        database: Path,
        timeout: float = 5.0,
        detect_types: int = 0,
        isolation_level: Optional[str] = "",
        check_same_thread: bool = True,
        cached_statements: int = 128,
        uri: bool = False,
        *,
        autocommit: Union[bool, int] = ...,
        label: str = "",
        durability: str = "full",
        transaction_mode: str = "auto",
        wal_bytes_limit: Optional[int] = None,
        durability_min: str = "normal",
        journal: str = "wal",
    ) -> Connection: ...

    @overload
    def connect(database: Path, *args: Any, factory: Callable[..., _Made], **kwargs: Any) -> _Made: ...


def connect(*args: Any, **kwargs: Any) -> Any:
    """Opens a database, and creates it if it does not exist.

    The parameters are those of ``sqlite3.connect``:

    :param database: a path, or ``":memory:"``, which nobody else sees.
    :param timeout: how many seconds a write waits for its turn, and any statement for a lock of another
        SQLite program, before :class:`LockTimeout`. Default: 5. With 0 nothing waits: the first write of a
        transaction takes the turn, or fails.
    :param detect_types: ``PARSE_DECLTYPES`` and ``PARSE_COLNAMES``, for converters.
    :param isolation_level: which ``BEGIN`` precedes an INSERT, UPDATE, DELETE or REPLACE outside a
        transaction: ``""`` and ``"DEFERRED"``: as ``transaction_mode`` says; ``"IMMEDIATE"`` and
        ``"EXCLUSIVE"``: waits for the turn to write, and holds it; ``None``: none.
    :param check_same_thread: whether other threads are refused. They may share a connection, and its
        transaction; one waits for the other.
    :param factory: makes the connection, of all arguments. Default: :class:`Connection`.
    :param cached_statements: how many statements are remembered by their text.
    :param uri: whether ``database`` may be a ``file:`` URI.
    :param autocommit: ``LEGACY_TRANSACTION_CONTROL``: as ``isolation_level`` says. ``True``: SQLite's own
        autocommit. ``False``: a transaction is always open.

    And six that ``sqlite3`` does not have:

    :param label: a name for the connection, shown to others who wait for it: up to 40 bytes.
    :param durability: what a write survives when its call has returned: ``"full"``, also a power cut;
        ``"normal"``, the death of any process. It is the default of ``PRAGMA synchronous``, which each connection
        may set as in ``sqlite3``: ``OFF`` and ``NORMAL`` mean ``"normal"``, ``FULL`` and ``EXTRA`` mean ``"full"``.
    :param transaction_mode: what a plain ``BEGIN`` means. ``"auto"``: the transaction blocks nobody while it
        only writes, and takes the turn from the moment its caller would see something; it never conflicts.
        ``"optimistic"``: it blocks nobody, and its commit raises :class:`ConflictError` when others have
        changed what it saw. ``"immediate"``: it waits for the turn, and holds it; not
        with ``autocommit=False``, where a transaction is always open.
    :param wal_bytes_limit: how many bytes of the WAL a reader that does not end may keep from being reused
        before writes wait for it, up to ``timeout``, and then raise :class:`LockTimeout`, which names it.
        Each process that writes needs the limit. Default: ``None``, none.
    :param durability_min: what a write survives at least, whatever ``PRAGMA synchronous`` says: ``"full"`` or
        ``"normal"``.
    :param journal: what becomes of a database that is in another journal mode than WAL. ``"wal"``: it is switched;
        ``"keep"``: it stays as it is, and is plain SQLite's until somebody switches it.

    These, and ``timeout``, may also be parameters of a ``file:`` URI (``file:app.db?transaction_mode=immediate``),
    which are heard before the arguments; and, for a program that cannot be changed, variables of the environment,
    heard where nothing else says something: ``MANYHANDS_TRANSACTION_MODE`` and so on.

    :raises OperationalError: when the file cannot be opened.
    :raises ValueError: for an argument that has no meaning.
    """
    if len(args) <= 1 and "factory" not in kwargs:
        return Connection(*args, **kwargs)
    _warn_of_positional(len(args), "sqlite3.connect")
    factory = kwargs.get("factory", args[5] if len(args) > 5 else Connection)
    if factory is Connection:
        # By keyword, not to warn twice.
        named = dict(zip(_POSITIONAL, args))
        if repeated := named.keys() & kwargs.keys():
            raise TypeError(f"connect() got multiple values for argument {min(repeated)!r}")
        kwargs.update(named)
        return Connection(**kwargs)
    return factory(*args, **kwargs)


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
