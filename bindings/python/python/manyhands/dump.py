"""A database as SQL text, in the form of the sqlite3 shell's ``.dump``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Iterator, List, Optional

if TYPE_CHECKING:
    from .dbapi2 import Connection, Cursor


def _name(text: str) -> str:
    """An identifier, quoted."""
    return '"' + text.replace('"', '""') + '"'


def _string(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def _rows_of(cursor: Cursor, table: str) -> Iterator[str]:
    """An INSERT for each row of a table. SQLite itself writes the values."""
    cursor.execute(f"PRAGMA table_info({_name(table)})")
    values = "||','||".join(f"quote({_name(column[1])})" for column in cursor.fetchall())
    beginning = _string(f"INSERT INTO {_name(table)} VALUES(")
    for (insert,) in cursor.execute(f"SELECT {beginning}||{values}||');' FROM {_name(table)}"):
        yield insert


def _counters(cursor: Cursor) -> Iterator[str]:
    """What restores the highest ids that tables with AUTOINCREMENT have had."""
    yield 'DELETE FROM "sqlite_sequence";'
    for table, highest in cursor.execute('SELECT name, seq FROM "sqlite_sequence"'):
        yield f'INSERT INTO "sqlite_sequence" VALUES({_string(table)},{highest});'


def _iterdump(connection: Connection, *, filter: Optional[str] = None) -> Iterator[str]:
    """See ``Connection.iterdump``."""
    cursor = connection.cursor()
    # Rows are tuples here, whatever the connection makes of them.
    cursor.row_factory = None
    pattern = filter or "%"

    # As sqlite3 does, from the same Python on.
    if sys.version_info >= (3, 13) and cursor.execute("PRAGMA foreign_key_check").fetchall():
        yield "PRAGMA foreign_keys=OFF;"
    yield "BEGIN TRANSACTION;"

    counters: List[str] = []
    schema_is_writable = False
    cursor.execute(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = 'table' AND sql IS NOT NULL AND name LIKE ? ORDER BY name",
        (pattern,),
    )
    for table, sql in cursor.fetchall():
        if table == "sqlite_sequence":
            counters = list(_counters(cursor))
            continue
        if table == "sqlite_stat1":
            # It comes into being by this.
            yield 'ANALYZE "sqlite_master";'
        elif table.startswith("sqlite_"):
            continue
        elif sql.upper().startswith("CREATE VIRTUAL TABLE"):
            # To create it would create its tables too, and those are in this text themselves.
            if not schema_is_writable:
                schema_is_writable = True
                yield "PRAGMA writable_schema=ON;"
            yield (
                "INSERT INTO sqlite_master(type,name,tbl_name,rootpage,sql)"
                f"VALUES('table',{_string(table)},{_string(table)},0,{_string(sql)});"
            )
            continue
        else:
            yield f"{sql};"
        yield from _rows_of(cursor, table)

    cursor.execute(
        "SELECT sql FROM sqlite_master"
        " WHERE type IN ('index', 'trigger', 'view') AND sql IS NOT NULL AND name LIKE ?",
        (pattern,),
    )
    for (sql,) in cursor.fetchall():
        yield f"{sql};"
    if schema_is_writable:
        yield "PRAGMA writable_schema=OFF;"
    # Last, since the INSERTs count too.
    yield from counters
    yield "COMMIT;"
