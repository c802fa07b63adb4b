"""The suites: what is fetched, what it needs, how it is run.

A command is written for stock and for manyhands alike; what differs between the two is the environment, or
the words in ``differs``: (stock, manyhands).
"""

from __future__ import annotations

import glob
import os
import subprocess
from dataclasses import dataclass, field, replace
from typing import Dict, List, Tuple

# Parts of Django's tests that use the database.
DJANGO_LABELS = (
    "aggregation annotations async backends basic bulk_create cache constraints dates datetimes db_functions "
    "delete delete_regress expressions fixtures force_insert_update get_or_create handlers indexes "
    "inspectdb introspection lookup many_to_many many_to_one migrations model_fields multiple_database "
    "ordering queries raw_query schema select_for_update servers sessions_tests test_utils timezones "
    "transaction_hooks transactions update update_only_fields"
).split()


@dataclass
class Suite:
    """One suite of somebody else's."""

    name: str
    source: str = ""
    """The requirement whose source distribution holds the tests; "" for tests that are installed."""
    needs: str = ""
    """Further packages, from the package index."""
    command: List[str] = field(default_factory=list)
    """The words after ``python``. ``{driver}`` is the dialect's name, ``{engine}`` Django's backend."""
    differs: Dict[str, Tuple[str, str]] = field(default_factory=dict)
    """Words of the command that stand for (stock's, ours)."""
    folder: str = "."
    """Where the command runs, relative to the source."""
    path: str = ""
    """What is on PYTHONPATH besides, relative to the source."""
    replaces: bool = True
    """Whether ``import sqlite3`` gets manyhands; otherwise the command names it."""
    python: str = ""
    """The interpreter; "" for the one of the suites."""
    is_program: bool = False
    """Whether it is a program of ``programs``: its promises are the tests, and all of them are to be kept."""


def pytest(*words: str) -> List[str]:
    return [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
        "--junitxml={results}.xml",
        *words,
    ]


def sqlalchemy(version: str, requirement: str) -> List[Suite]:
    tests = ("test/dialect/test_suite.py", "test/dialect/sqlite")
    return [
        Suite(
            f"sqlalchemy-{version}-{kind}",
            requirement,
            "pytest pytest-xdist greenlet typing_extensions aiosqlite",
            pytest("--dburi", "{dburi}", *tests[: 2 if kind == "sync" else 1]),
            {"dburi": (f"sqlite+{stock}:///suite.db", f"sqlite+{ours}:///suite.db")},
            replaces=False,
        )
        for kind, stock, ours in (
            ("sync", "pysqlite", "manyhands"),
            ("async", "aiosqlite", "aiomanyhands"),
        )
    ]


def django(version: str, requirement: str) -> Suite:
    return Suite(
        f"django-{version}",
        requirement,
        "asgiref sqlparse jinja2 pyyaml pillow tblib bcrypt argon2-cffi docutils tzdata pytz",
        [
            "-Wignore",
            "runtests.py",
            "--settings=suite_django_settings",
            "--parallel=1",
            "-v0",
            *DJANGO_LABELS,
        ],
        folder="tests",
        path=".",
        replaces=False,
    )


def program(name: str, script: str, package: str) -> Suite:
    """A program that is run once as it is, and once by ``python -m manyhands run``."""
    here = os.path.dirname(os.path.abspath(__file__))
    return Suite(
        f"program-{name}", needs=package, command=[os.path.join(here, "programs", script)], is_program=True
    )


def program_by_url(name: str, script: str, package: str) -> Suite:
    """A program that is given the URL of its database: only the dialect in it differs."""
    return replace(program(f"{name}-by-url", script, package), replaces=False)


def cpythons() -> List[Suite]:
    """The standard library's own tests, of each interpreter that has them."""
    found = []
    patterns = [os.path.expanduser("~/.pyenv/versions/3.*/bin/python"), "/usr/bin/python3"]
    for python in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        asked = "import sys, test.test_sqlite3; print('%d.%d.%d' % sys.version_info[:3])"
        answer = subprocess.run([python, "-c", asked], capture_output=True, text=True)
        if answer.returncode == 0:
            modules = (
                "backup cli dbapi dump factory hooks regression transactions types userfunctions".split()
            )
            here = os.path.dirname(os.path.abspath(__file__))
            command = [os.path.join(here, "inside", "suite_results.py"), "--installed"]
            command += [f"test.test_sqlite3.test_{module}" for module in modules]
            found.append(Suite(f"cpython-{answer.stdout.split()[-1]}", command=command, python=python))
    return found


def suites() -> List[Suite]:
    return [
        *cpythons(),
        *sqlalchemy("2.1", "sqlalchemy"),
        *sqlalchemy("2.0", "sqlalchemy<2.1"),
        django("5.2", "django<6"),
        django("4.2", "django<5"),
        Suite(
            "aiosqlite",
            "aiosqlite",
            command=["{inside}/suite_results.py", "{patch}", "aiosqlite.tests.smoke"],
            differs={"patch": ("--installed", "--aiosqlite")},
            path=".",
        ),
        Suite(
            "alembic",
            "alembic",
            "pytest pytest-xdist sqlalchemy mako black tzdata python-dateutil",
            pytest("--db", "sqlite", "tests"),
        ),
        Suite(
            "sqlmodel",
            "sqlmodel",
            "pytest sqlalchemy pydantic fastapi httpx dirty-equals coverage black jinja2 typer",
            pytest("tests"),
            path=".",
        ),
        Suite("pony", "pony", "pytest", pytest("pony/orm/tests"), path="."),
        Suite("dataset", "dataset", "pytest sqlalchemy alembic banal", pytest("test"), path="."),
        Suite(
            "sqlite-utils",
            "sqlite-utils",
            "pytest hypothesis click click-default-group pluggy sqlite-fts4 tabulate python-dateutil pip",
            pytest("tests"),
            path=".",
        ),
        Suite(
            "apscheduler",
            "apscheduler<4",
            "pytest sqlalchemy tzlocal anyio pytest-asyncio pytz",
            pytest("tests/test_jobstores.py", "-k", "sqlalchemy or memory"),
            path="src",
        ),
        Suite(
            "celery",
            "celery",
            "pytest pytest-celery pytest-subtests pytest-click sqlalchemy celery",
            pytest("t/unit/backends/test_database.py"),
            path=".",
        ),
        # Without the tests that need a server, or Django's settings, which are not in the archive.
        Suite(
            "diskcache",
            "diskcache",
            "pytest",
            pytest(*(f"tests/test_{part}.py" for part in "core deque fanout index recipes".split())),
            path=".",
        ),
        Suite(
            "huey",
            "huey",
            "peewee",
            ["{inside}/suite_results.py", "--installed"]
            + [f"huey.tests.test_{part}" for part in "api consumer priority sql_huey stats storage".split()],
            path=".",
        ),
        Suite(
            "persist-queue",
            "persist-queue",
            "pytest pytest-asyncio msgpack cbor2 aiofiles aiosqlite",
            pytest("persistqueue/tests", "--ignore=persistqueue/tests/test_mysqlqueue.py"),
            path=".",
        ),
        program("optuna", "optuna_trials.py", "optuna"),
        program_by_url("optuna", "optuna_trials.py", "optuna"),
        program("diskcache", "diskcache_stress.py", "diskcache"),
        program("huey", "huey_tasks.py", "huey"),
        program("persist-queue", "persist_queue_consumer.py", "persist-queue"),
        program("dagster", "dagster_runs.py", "dagster"),
        program("mlflow", "mlflow_runs.py", "mlflow"),
    ]
