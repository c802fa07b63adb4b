"""A program closes descriptors that it did not open, as daemons do: `os.closerange(3, N)` with a database open."""

import subprocess
import sys
import textwrap

import pytest

BEGIN = """
import os, sys, time, manyhands
path = sys.argv[1]
def rows(connection): return connection.execute("SELECT count(*) FROM t").fetchone()[0]
connection = manyhands.connect(path, timeout=30, isolation_level=None)
connection.execute("CREATE TABLE IF NOT EXISTS t (v)")
connection.execute("INSERT INTO t VALUES (1)")
before = rows(connection)
"""


def run(path, text):
    """Runs `text` in a process of its own, after BEGIN."""
    program = BEGIN + text
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=100, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


CLOSE = "os.closerange(3, 256); began = time.monotonic()\n"

REUSE = """
others = [open(f"{path}.{n}", "w+b", buffering=0) for n in range(12)]
for other in others: other.write(b"another file's")
"""


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("sql", ["INSERT INTO t VALUES (2)", "SELECT count(*) FROM t", "BEGIN IMMEDIATE"])
def test_an_error_comes_at_once_and_a_new_connection_works(tmp_path, reuse, sql):
    run(
        tmp_path / "app.db",
        CLOSE
        + (REUSE if reuse else "others = []\n")
        + textwrap.dedent(f"""
        try: connection.execute({sql!r})
        except manyhands.OperationalError as error: print(error)
        else: assert {sql.startswith("SELECT")}
        assert time.monotonic() - began < 5, time.monotonic() - began
        new = manyhands.connect(path, timeout=5, isolation_level=None)
        new.execute("INSERT INTO t VALUES (3)")
        assert rows(new) == before + 1
        try: connection.execute({sql!r})
        except manyhands.OperationalError as error: assert "closed descriptors" in str(error), error
        else: assert False, "it would see another file"
        connection.close()
        new.execute("INSERT INTO t VALUES (4)")
        assert rows(new) == before + 2
        assert new.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        for other in others:
            other.seek(0)
            assert other.read() == b"another file's"
        """),
    )
