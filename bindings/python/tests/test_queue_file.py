"""Errors about the file beside the database look like those of SQLite."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import manyhands


def make(path: Path) -> None:
    with manyhands.connect(path) as connection:
        connection.execute("CREATE TABLE t (v)")
    connection.close()


def check(error: manyhands.Error, name: str, text: str) -> None:
    assert (error.sqlite_errorcode, error.sqlite_errorname) == (getattr(manyhands, name), name)
    assert isinstance(error, sqlite3.OperationalError)
    assert text in str(error)


def test_a_queue_file_that_cannot_be_opened(path: Path) -> None:
    make(path)
    Path(f"{path}-hands").mkdir()
    with pytest.raises(manyhands.OperationalError) as raised:
        manyhands.connect(path)
    check(raised.value, "SQLITE_CANTOPEN", "app.db-hands")


def test_a_database_that_was_moved_away(path: Path) -> None:
    make(path)
    connection = manyhands.connect(path, isolation_level=None)
    path.rename(f"{path}.moved")
    with pytest.raises(manyhands.OperationalError) as raised:
        for _ in range(1000):
            connection.execute("INSERT INTO t VALUES (1)")
    check(raised.value, "SQLITE_READONLY_DBMOVED", "was replaced, renamed or deleted")
    connection.close()


def test_descriptors_that_the_program_has_closed(path: Path) -> None:
    make(path)
    program = f"""
import os, manyhands
connection = manyhands.connect({str(path)!r}, isolation_level=None)
connection.execute("INSERT INTO t VALUES (1)")
os.closerange(3, 256)
try: connection.execute("INSERT INTO t VALUES (1)")
except manyhands.OperationalError as error: print(error.sqlite_errorname)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "SQLITE_IOERR_LOCK\n", done.stderr
