"""A program that cannot be changed: `python -m manyhands run` gives it manyhands in the place of sqlite3, to its
children too, and the environment or its URI says what its connections say nothing of."""

import os
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

import manyhands
from manyhands import aio

PROGRAM = """
    import multiprocessing, os, sqlite3, subprocess, sys
    import sqlite3.dump
    from sqlite3 import dbapi2

    def tell(queue):
        queue.put(sqlite3.__name__)

    if __name__ == "__main__":
        print(sqlite3.__name__, dbapi2.__name__, sqlite3.Connection.__module__, sys.argv[1:])
        with sqlite3.connect("app.db") as connection:
            print(connection.execute("PRAGMA busy_timeout").fetchone()[0])
        connection.close()
        child = "import sqlite3; print(sqlite3.__name__)"
        print(subprocess.check_output([sys.executable, "-c", child], text=True).strip())
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=tell, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
"""


def run(folder, *arguments, **environment):
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-m", "manyhands", "run", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(manyhands.__file__).parents[1]), **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=60)


@pytest.mark.parametrize("how", [["program.py"], ["-m", "program"], ["--timeout", "7", "program.py"],
                                 ["--timeout=7", "--label", "x", "-m", "program"]])  # fmt: skip
def test_a_program_and_its_children_have_manyhands_in_the_place_of_sqlite3(tmp_path, how):
    done = run(tmp_path, *how, "--flag", "-m")
    assert done.stderr == ""
    timeout_ms = 7000 if "-" in how[0] and "timeout" in how[0] else 5000
    first, *others = done.stdout.splitlines()
    assert first == "manyhands manyhands.dbapi2 manyhands.connection ['--flag', '-m']"
    assert others == [str(timeout_ms), "manyhands", "manyhands"]
    assert done.returncode == 0


def test_a_command_that_is_a_python_program(tmp_path):
    command = tmp_path / "bin" / "tell"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport sqlite3, sys\nprint(sqlite3.__name__, sys.argv[1:])\n")
    command.chmod(0o755)
    done = run(tmp_path, "tell", "me", PATH=f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    assert (done.stdout, done.stderr, done.returncode) == ("manyhands ['me']\n", "", 0)


def test_the_sitecustomize_of_others_is_not_lost(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('customized')")
    (tmp_path / "tell.py").write_text("import sqlite3; print(sqlite3.__name__)")
    paths = [str(tmp_path), str(Path(manyhands.__file__).parents[1])]
    done = run(tmp_path, "tell.py", PYTHONPATH=os.pathsep.join(paths))
    # Once when `run` starts, once in the program.
    assert (done.stdout, done.stderr) == ("customized\ncustomized\nmanyhands\n", "")


def test_where_manyhands_cannot_be_loaded_the_standard_module_is_there(tmp_path):
    tell = "import sys; sys.modules['manyhands._manyhands'] = None; import sqlite3; print(sqlite3.__name__)"
    (tmp_path / "tell.py").write_text(tell)
    done = run(tmp_path, "tell.py")
    assert done.stdout == "sqlite3\n"
    assert done.stderr.startswith("manyhands does not replace sqlite3 in ")


@pytest.mark.parametrize(
    "arguments, text",
    [
        ([], "which program?"),
        (["-m"], "which program?"),
        (["--durability", "some", "program.py"], "invalid choice: 'some'"),
        (["--timeout", "soon", "program.py"], "invalid float value: 'soon'"),
        (["missing.py"], "no file and no command 'missing.py'"),
    ],
)
def test_mistakes_are_told(tmp_path, arguments, text):
    done = run(tmp_path, *arguments)
    assert text in done.stderr
    assert done.returncode != 0


def timeout_of(*arguments, **named):
    with closing(manyhands.connect(*arguments, **named)) as connection:
        return connection.execute("PRAGMA busy_timeout").fetchone()[0]


def test_the_first_place_that_says_something_is_heard(path, monkeypatch):
    uri = f"file:{path}?mode=rwc&timeout=1.5#timeout=9"
    assert timeout_of(path) == 5000
    monkeypatch.setenv("MANYHANDS_TIMEOUT", "7")
    assert timeout_of(path) == 7000
    assert timeout_of(path, timeout=5.0) == 5000
    assert timeout_of(path, 6) == 6000
    assert timeout_of(uri, timeout=6, uri=True) == 1500
    monkeypatch.setenv("MANYHANDS_TIMEOUT", "")
    assert timeout_of(path) == 5000


@pytest.mark.parametrize("place", ["environment", "URI"])
def test_each_option_can_be_said_in_each_place(path, monkeypatch, place):
    """By what it does."""

    def connect(name, value, **named):
        if place == "URI":
            return manyhands.connect(f"file:{path}?{name}={value}", uri=True, isolation_level=None, **named)
        with monkeypatch.context() as patch:
            patch.setenv(f"MANYHANDS_{name.upper()}", value.replace("%20", " "))
            return manyhands.connect(path, isolation_level=None, **named)

    def reason():
        impatient = manyhands.connect(path, timeout=0, isolation_level=None)
        with closing(impatient), pytest.raises(manyhands.LockTimeout) as caught:
            impatient.execute("BEGIN IMMEDIATE")
        return caught.value.reason

    with closing(connect("transaction_mode", "immediate", label="argument")) as connection:
        connection.execute("BEGIN")
        assert "(argument)" in reason()
    with closing(connect("label", "night%20import")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "(night import)" in reason()
    with closing(connect("durability", "normal")) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
    for name, value in {
        "transaction_mode": "IMMEDIATE",
        "durability": "some",
        "durability_min": "none",
        "journal": "delete",
        "timeout": "soon",
        "wal_bytes_limit": "many",
    }.items():
        with pytest.raises(ValueError, match=f"(the URI's {name}|MANYHANDS_{name.upper()}) must be "):
            connect(name, value)
    for name, value in {"durability_min": "full", "journal": "keep", "wal_bytes_limit": "100000000"}.items():
        connect(name, value).close()


def test_asyncio_and_sqlalchemy_hear_the_environment(path, monkeypatch):
    import asyncio

    import sqlalchemy

    monkeypatch.setenv("MANYHANDS_TIMEOUT", "7")

    async def ask():
        async with aio.connect(path) as connection:
            return await connection.execute_fetchall("PRAGMA busy_timeout")

    assert asyncio.run(ask()) == [(7000,)]
    for url, timeout_ms in {"": 7000, "?timeout=3": 3000, "?wal_bytes_limit=100000000": 7000}.items():
        engine = sqlalchemy.create_engine(f"sqlite+manyhands:///{path}{url}")
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == timeout_ms
        engine.dispose()
