"""A small SQLite shell: ``python -m manyhands [FILE [SQL]]``. For ``python -m manyhands run`` see `_run`."""

from __future__ import annotations

import argparse
import code
import contextlib
import sys
from typing import Optional, Sequence, Union

from . import dbapi2

_MEMORY = ":memory:"


def _arguments(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m manyhands",
        description="Executes SQL on an SQLite database, in turn with all its writers.",
        epilog="`python -m manyhands run SCRIPT` starts a program with manyhands in the place of sqlite3.",
    )
    parser.add_argument(
        "filename",
        nargs="?",
        default=_MEMORY,
        help=f"the database; created if it does not exist (default: {_MEMORY}, which nobody else sees)",
    )
    parser.add_argument("sql", nargs="?", help="a statement; its rows are printed (default: ask for statements)")
    parser.add_argument("-v", "--version", action="version", version=f"SQLite version {dbapi2.sqlite_version}")
    return parser.parse_args(arguments)


def _execute(executor: Union[dbapi2.Connection, dbapi2.Cursor], sql: str) -> bool:
    """Prints a statement's rows, or its error; tells whether it succeeded."""
    try:
        for row in executor.execute(sql):
            print(row)
    except dbapi2.Error as error:
        name = getattr(error, "sqlite_errorname", None)
        kind = type(error).__name__ + (f" ({name})" if name else "")
        print(f"{kind}: {error}", file=sys.stderr)
        return False
    return True


class _Shell(code.InteractiveConsole):
    """Executes each statement when it is complete."""

    def __init__(self, connection: dbapi2.Connection) -> None:
        super().__init__()
        self._cursor = connection.cursor()

    def runsource(self, source: str, filename: str = "<input>", symbol: str = "single") -> bool:
        """True when more input is needed."""
        if source == ".quit":
            sys.exit(0)
        if source == ".version":
            print(dbapi2.sqlite_version)
        elif source == ".help":
            print("Type a statement, which ends with a semicolon; .version, .help, or .quit.")
        elif not dbapi2.complete_statement(source):
            return True
        else:
            _execute(self._cursor, source)
        return False


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Executes a statement, or statements as they are typed, and exits."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] == "run":
        from . import _run

        _run.main(given[1:])
    chosen = _arguments(arguments)
    connection = dbapi2.connect(chosen.filename, isolation_level=None)
    with contextlib.closing(connection):
        if chosen.sql is not None:
            sys.exit(0 if _execute(connection, chosen.sql) else 1)
        with contextlib.suppress(ImportError):
            # Lines can be edited then.
            import readline  # noqa: F401
        where = "a transient in-memory database" if chosen.filename == _MEMORY else repr(chosen.filename)
        sys.ps1, sys.ps2 = "sqlite> ", "    ... "
        _Shell(connection).interact(
            f"manyhands shell, SQLite version {dbapi2.sqlite_version}\n"
            f"Connected to {where}\n\n"
            'Type ".help" for help, ".quit" or CTRL-D to quit.',
            exitmsg="",
        )
    sys.exit(0)


if __name__ == "__main__":
    main()
