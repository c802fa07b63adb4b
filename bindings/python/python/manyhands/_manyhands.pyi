"""The native half of the package; what is public is re-exported by `manyhands` and `manyhands.dbapi2`."""

import os
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Final,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    SupportsIndex,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
)

from typing_extensions import Buffer, Self, disjoint_base, final

_Path = Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]
_Parameters = Union[Sequence[Any], Mapping[str, Any]]
_IsolationLevel = Optional[str]
_SqliteValue = Union[str, bytes, int, float, None]
_Column = Tuple[str, None, None, None, None, None, None]
_Result = TypeVar("_Result")
_Cursor = TypeVar("_Cursor", bound=Cursor)

class _Aggregate(Protocol):
    def step(self, value: Any, /) -> object: ...
    def finalize(self) -> _SqliteValue: ...

sqlite_version: str
adapters: Dict[Tuple[Type[Any], Type[Any]], Callable[[Any], Any]]
converters: Dict[str, Callable[[bytes], Any]]

def _note_public_class(class_: Type[Connection], /) -> None: ...
def adapt(obj: Any, proto: Any = ..., alternate: Any = ..., /) -> Any: ...
def complete_statement(statement: str) -> bool: ...
def enable_callback_tracebacks(enable: bool, /) -> None: ...
def register_adapter(type: Type[_Result], adapter: Callable[[_Result], Any], /) -> None: ...
def register_converter(typename: str, converter: Callable[[bytes], Any], /) -> None: ...

@final
class PrepareProtocol:
    def __new__(cls) -> Self: ...

@disjoint_base
class Connection:
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...
    def __init__(
        self,
        database: _Path,
        timeout: float = 5.0,
        detect_types: int = 0,
        isolation_level: _IsolationLevel = "",
        check_same_thread: bool = True,
        factory: object = None,
        cached_statements: int = 128,
        uri: bool = False,
        *,
        autocommit: Union[bool, int] = -1,
        label: str = "",
        durability: str = "full",
        transaction_mode: str = "auto",
        wal_bytes_limit: Optional[int] = None,
        durability_min: str = "normal",
        journal: str = "wal",
    ) -> None: ...
    def __call__(self, sql: str, /) -> object: ...
    def __del__(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> Literal[False]: ...
    def _begin(self, mode: Optional[str], /) -> None: ...
    def _end(self, how: str, /) -> None: ...
    def _guard(self) -> None: ...
    def _cancel(self) -> None: ...
    def _count_later(self) -> None: ...
    def _pause(self) -> Tuple[bool, bool, bool, Tuple[int, int, int]]: ...
    def _resume(self, counts: Tuple[int, int, int]) -> None: ...
    @property
    def in_transaction(self) -> bool: ...
    @property
    def total_changes(self) -> int: ...
    @property
    def autocommit(self) -> int: ...
    @autocommit.setter
    def autocommit(self, value: Union[bool, int], /) -> None: ...
    @property
    def isolation_level(self) -> _IsolationLevel: ...
    @isolation_level.setter
    def isolation_level(self, value: _IsolationLevel, /) -> None: ...
    @property
    def row_factory(self) -> Any: ...
    @row_factory.setter
    def row_factory(self, value: Any, /) -> None: ...
    @property
    def text_factory(self) -> Any: ...
    @text_factory.setter
    def text_factory(self, value: Any, /) -> None: ...
    def backup(
        self,
        target: Connection,
        *,
        pages: int = ...,
        progress: Optional[Callable[[int, int, int], object]] = None,
        name: str = "main",
        sleep: float = 0.25,
    ) -> None: ...
    def batch(self, statements: Iterable[Union[str, Tuple[str, _Parameters]]], /) -> List[Cursor]: ...
    def blobopen(
        self, table: str, column: str, rowid: int, /, *, readonly: bool = False, name: str = "main"
    ) -> Blob: ...
    def close(self) -> None: ...
    def commit(self) -> None: ...
    def create_aggregate(
        self, name: str, n_arg: int, aggregate_class: Optional[Callable[[], _Aggregate]]
    ) -> None: ...
    def create_collation(
        self, name: str, callback: Optional[Callable[[str, str], int]], /
    ) -> None: ...
    def create_function(
        self,
        name: str,
        narg: int,
        func: Optional[Callable[..., _SqliteValue]],
        *,
        deterministic: bool = False,
    ) -> None: ...
    def create_window_function(
        self, name: str, num_params: int, aggregate_class: Optional[Callable[[], Any]], /
    ) -> None: ...
    @overload
    def cursor(self, factory: None = ...) -> Cursor: ...
    @overload
    def cursor(self, factory: Callable[[Any], _Cursor]) -> _Cursor: ...
    def deserialize(self, data: Union[str, Buffer], /, *, name: str = "main") -> None: ...
    def enable_load_extension(self, enable: bool, /) -> None: ...
    def execute(self, sql: str, parameters: _Parameters = ..., /) -> Cursor: ...
    def executemany(self, sql: str, parameters: Iterable[_Parameters], /) -> Cursor: ...
    def executescript(self, sql_script: str, /) -> Cursor: ...
    def getconfig(self, op: int, /) -> bool: ...
    def getlimit(self, category: int, /) -> int: ...
    def interrupt(self) -> None: ...
    def iterdump(self, *, filter: Optional[str] = None) -> Iterator[str]: ...
    def load_extension(self, name: str, /, *, entrypoint: Optional[str] = None) -> None: ...
    def rollback(self) -> None: ...
    def run(self, function: Callable[[Self], _Result], /) -> _Result: ...
    def serialize(self, *, name: str = "main") -> bytes: ...
    def set_authorizer(
        self,
        authorizer_callback: Optional[
            Callable[[int, Optional[str], Optional[str], Optional[str], Optional[str]], int]
        ],
    ) -> None: ...
    def set_progress_handler(
        self, progress_handler: Optional[Callable[[], Optional[int]]], n: int
    ) -> None: ...
    def set_trace_callback(self, trace_callback: Optional[Callable[[str], object]]) -> None: ...
    def setconfig(self, op: int, enable: bool = True, /) -> None: ...
    def setlimit(self, category: int, limit: int, /) -> int: ...

@disjoint_base
class Cursor:
    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self: ...
    def __init__(self, connection: Connection, /) -> None: ...
    @property
    def connection(self) -> Connection: ...
    @property
    def description(self) -> Optional[Tuple[_Column, ...]]: ...
    @property
    def lastrowid(self) -> Optional[int]: ...
    @property
    def rowcount(self) -> int: ...
    @property
    def arraysize(self) -> int: ...
    @arraysize.setter
    def arraysize(self, value: int, /) -> None: ...
    @property
    def row_factory(self) -> Any: ...
    @row_factory.setter
    def row_factory(self, value: Any, /) -> None: ...
    def close(self) -> None: ...
    def execute(self, sql: str, parameters: _Parameters = ..., /) -> Self: ...
    def executemany(self, sql: str, seq_of_parameters: Iterable[_Parameters], /) -> Self: ...
    def executescript(self, sql_script: str, /) -> Self: ...
    def fetchall(self) -> List[Any]: ...
    def fetchmany(self, size: Optional[int] = None) -> List[Any]: ...
    def fetchone(self) -> Any: ...
    def setinputsizes(self, sizes: object, /) -> None: ...
    def setoutputsize(self, size: object, column: object = None, /) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...

@disjoint_base
class Row:
    def __new__(cls, cursor: Cursor, data: Tuple[Any, ...], /) -> Self: ...
    def keys(self) -> List[str]: ...
    @overload
    def __getitem__(self, key: Union[SupportsIndex, str], /) -> Any: ...
    @overload
    def __getitem__(self, key: slice, /) -> Tuple[Any, ...]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ge__(self, value: object, /) -> bool: ...
    def __gt__(self, value: object, /) -> bool: ...
    def __le__(self, value: object, /) -> bool: ...
    def __lt__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...

@final
class Blob:
    def close(self) -> None: ...
    def read(self, length: int = ..., /) -> bytes: ...
    def write(self, data: Buffer, /) -> None: ...
    def seek(self, offset: int, origin: int = 0, /) -> None: ...
    def tell(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
        /,
    ) -> Literal[False]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> bytes: ...
    @overload
    def __setitem__(self, key: SupportsIndex, value: int, /) -> None: ...
    @overload
    def __setitem__(self, key: slice, value: Buffer, /) -> None: ...

LEGACY_TRANSACTION_CONTROL: Final[int]
PARSE_COLNAMES: Final[int]
PARSE_DECLTYPES: Final[int]
SQLITE_ABORT: Final[int]
SQLITE_ABORT_ROLLBACK: Final[int]
SQLITE_ALTER_TABLE: Final[int]
SQLITE_ANALYZE: Final[int]
SQLITE_ATTACH: Final[int]
SQLITE_AUTH: Final[int]
SQLITE_AUTH_USER: Final[int]
SQLITE_BUSY: Final[int]
SQLITE_BUSY_RECOVERY: Final[int]
SQLITE_BUSY_SNAPSHOT: Final[int]
SQLITE_BUSY_TIMEOUT: Final[int]
SQLITE_CANTOPEN: Final[int]
SQLITE_CANTOPEN_CONVPATH: Final[int]
SQLITE_CANTOPEN_DIRTYWAL: Final[int]
SQLITE_CANTOPEN_FULLPATH: Final[int]
SQLITE_CANTOPEN_ISDIR: Final[int]
SQLITE_CANTOPEN_NOTEMPDIR: Final[int]
SQLITE_CANTOPEN_SYMLINK: Final[int]
SQLITE_CONSTRAINT: Final[int]
SQLITE_CONSTRAINT_CHECK: Final[int]
SQLITE_CONSTRAINT_COMMITHOOK: Final[int]
SQLITE_CONSTRAINT_DATATYPE: Final[int]
SQLITE_CONSTRAINT_FOREIGNKEY: Final[int]
SQLITE_CONSTRAINT_FUNCTION: Final[int]
SQLITE_CONSTRAINT_NOTNULL: Final[int]
SQLITE_CONSTRAINT_PINNED: Final[int]
SQLITE_CONSTRAINT_PRIMARYKEY: Final[int]
SQLITE_CONSTRAINT_ROWID: Final[int]
SQLITE_CONSTRAINT_TRIGGER: Final[int]
SQLITE_CONSTRAINT_UNIQUE: Final[int]
SQLITE_CONSTRAINT_VTAB: Final[int]
SQLITE_CORRUPT: Final[int]
SQLITE_CORRUPT_INDEX: Final[int]
SQLITE_CORRUPT_SEQUENCE: Final[int]
SQLITE_CORRUPT_VTAB: Final[int]
SQLITE_CREATE_INDEX: Final[int]
SQLITE_CREATE_TABLE: Final[int]
SQLITE_CREATE_TEMP_INDEX: Final[int]
SQLITE_CREATE_TEMP_TABLE: Final[int]
SQLITE_CREATE_TEMP_TRIGGER: Final[int]
SQLITE_CREATE_TEMP_VIEW: Final[int]
SQLITE_CREATE_TRIGGER: Final[int]
SQLITE_CREATE_VIEW: Final[int]
SQLITE_CREATE_VTABLE: Final[int]
SQLITE_DBCONFIG_DEFENSIVE: Final[int]
SQLITE_DBCONFIG_DQS_DDL: Final[int]
SQLITE_DBCONFIG_DQS_DML: Final[int]
SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE: Final[int]
SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE: Final[int]
SQLITE_DBCONFIG_ENABLE_COMMENTS: Final[int]
SQLITE_DBCONFIG_ENABLE_FKEY: Final[int]
SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER: Final[int]
SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION: Final[int]
SQLITE_DBCONFIG_ENABLE_QPSG: Final[int]
SQLITE_DBCONFIG_ENABLE_TRIGGER: Final[int]
SQLITE_DBCONFIG_ENABLE_VIEW: Final[int]
SQLITE_DBCONFIG_LEGACY_ALTER_TABLE: Final[int]
SQLITE_DBCONFIG_LEGACY_FILE_FORMAT: Final[int]
SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE: Final[int]
SQLITE_DBCONFIG_RESET_DATABASE: Final[int]
SQLITE_DBCONFIG_REVERSE_SCANORDER: Final[int]
SQLITE_DBCONFIG_STMT_SCANSTATUS: Final[int]
SQLITE_DBCONFIG_TRIGGER_EQP: Final[int]
SQLITE_DBCONFIG_TRUSTED_SCHEMA: Final[int]
SQLITE_DBCONFIG_WRITABLE_SCHEMA: Final[int]
SQLITE_DELETE: Final[int]
SQLITE_DENY: Final[int]
SQLITE_DETACH: Final[int]
SQLITE_DONE: Final[int]
SQLITE_DROP_INDEX: Final[int]
SQLITE_DROP_TABLE: Final[int]
SQLITE_DROP_TEMP_INDEX: Final[int]
SQLITE_DROP_TEMP_TABLE: Final[int]
SQLITE_DROP_TEMP_TRIGGER: Final[int]
SQLITE_DROP_TEMP_VIEW: Final[int]
SQLITE_DROP_TRIGGER: Final[int]
SQLITE_DROP_VIEW: Final[int]
SQLITE_DROP_VTABLE: Final[int]
SQLITE_EMPTY: Final[int]
SQLITE_ERROR: Final[int]
SQLITE_ERROR_KEY: Final[int]
SQLITE_ERROR_MISSING_COLLSEQ: Final[int]
SQLITE_ERROR_RESERVESIZE: Final[int]
SQLITE_ERROR_RETRY: Final[int]
SQLITE_ERROR_SNAPSHOT: Final[int]
SQLITE_ERROR_UNABLE: Final[int]
SQLITE_FORMAT: Final[int]
SQLITE_FULL: Final[int]
SQLITE_FUNCTION: Final[int]
SQLITE_IGNORE: Final[int]
SQLITE_INSERT: Final[int]
SQLITE_INTERNAL: Final[int]
SQLITE_INTERRUPT: Final[int]
SQLITE_IOERR: Final[int]
SQLITE_IOERR_ACCESS: Final[int]
SQLITE_IOERR_AUTH: Final[int]
SQLITE_IOERR_BADKEY: Final[int]
SQLITE_IOERR_BEGIN_ATOMIC: Final[int]
SQLITE_IOERR_BLOCKED: Final[int]
SQLITE_IOERR_CHECKRESERVEDLOCK: Final[int]
SQLITE_IOERR_CLOSE: Final[int]
SQLITE_IOERR_CODEC: Final[int]
SQLITE_IOERR_COMMIT_ATOMIC: Final[int]
SQLITE_IOERR_CONVPATH: Final[int]
SQLITE_IOERR_CORRUPTFS: Final[int]
SQLITE_IOERR_DATA: Final[int]
SQLITE_IOERR_DELETE: Final[int]
SQLITE_IOERR_DELETE_NOENT: Final[int]
SQLITE_IOERR_DIR_CLOSE: Final[int]
SQLITE_IOERR_DIR_FSYNC: Final[int]
SQLITE_IOERR_FSTAT: Final[int]
SQLITE_IOERR_FSYNC: Final[int]
SQLITE_IOERR_GETTEMPPATH: Final[int]
SQLITE_IOERR_IN_PAGE: Final[int]
SQLITE_IOERR_LOCK: Final[int]
SQLITE_IOERR_MMAP: Final[int]
SQLITE_IOERR_NOMEM: Final[int]
SQLITE_IOERR_RDLOCK: Final[int]
SQLITE_IOERR_READ: Final[int]
SQLITE_IOERR_ROLLBACK_ATOMIC: Final[int]
SQLITE_IOERR_SEEK: Final[int]
SQLITE_IOERR_SHMLOCK: Final[int]
SQLITE_IOERR_SHMMAP: Final[int]
SQLITE_IOERR_SHMOPEN: Final[int]
SQLITE_IOERR_SHMSIZE: Final[int]
SQLITE_IOERR_SHORT_READ: Final[int]
SQLITE_IOERR_TRUNCATE: Final[int]
SQLITE_IOERR_UNLOCK: Final[int]
SQLITE_IOERR_VNODE: Final[int]
SQLITE_IOERR_WRITE: Final[int]
SQLITE_LIMIT_ATTACHED: Final[int]
SQLITE_LIMIT_COLUMN: Final[int]
SQLITE_LIMIT_COMPOUND_SELECT: Final[int]
SQLITE_LIMIT_EXPR_DEPTH: Final[int]
SQLITE_LIMIT_FUNCTION_ARG: Final[int]
SQLITE_LIMIT_LENGTH: Final[int]
SQLITE_LIMIT_LIKE_PATTERN_LENGTH: Final[int]
SQLITE_LIMIT_SQL_LENGTH: Final[int]
SQLITE_LIMIT_TRIGGER_DEPTH: Final[int]
SQLITE_LIMIT_VARIABLE_NUMBER: Final[int]
SQLITE_LIMIT_VDBE_OP: Final[int]
SQLITE_LIMIT_WORKER_THREADS: Final[int]
SQLITE_LOCKED: Final[int]
SQLITE_LOCKED_SHAREDCACHE: Final[int]
SQLITE_LOCKED_VTAB: Final[int]
SQLITE_MISMATCH: Final[int]
SQLITE_MISUSE: Final[int]
SQLITE_NOLFS: Final[int]
SQLITE_NOMEM: Final[int]
SQLITE_NOTADB: Final[int]
SQLITE_NOTFOUND: Final[int]
SQLITE_NOTICE: Final[int]
SQLITE_NOTICE_RBU: Final[int]
SQLITE_NOTICE_RECOVER_ROLLBACK: Final[int]
SQLITE_NOTICE_RECOVER_WAL: Final[int]
SQLITE_OK: Final[int]
SQLITE_OK_LOAD_PERMANENTLY: Final[int]
SQLITE_OK_SYMLINK: Final[int]
SQLITE_PERM: Final[int]
SQLITE_PRAGMA: Final[int]
SQLITE_PROTOCOL: Final[int]
SQLITE_RANGE: Final[int]
SQLITE_READ: Final[int]
SQLITE_READONLY: Final[int]
SQLITE_READONLY_CANTINIT: Final[int]
SQLITE_READONLY_CANTLOCK: Final[int]
SQLITE_READONLY_DBMOVED: Final[int]
SQLITE_READONLY_DIRECTORY: Final[int]
SQLITE_READONLY_RECOVERY: Final[int]
SQLITE_READONLY_ROLLBACK: Final[int]
SQLITE_RECURSIVE: Final[int]
SQLITE_REINDEX: Final[int]
SQLITE_ROW: Final[int]
SQLITE_SAVEPOINT: Final[int]
SQLITE_SCHEMA: Final[int]
SQLITE_SELECT: Final[int]
SQLITE_TOOBIG: Final[int]
SQLITE_TRANSACTION: Final[int]
SQLITE_UPDATE: Final[int]
SQLITE_WARNING: Final[int]
SQLITE_WARNING_AUTOINDEX: Final[int]
