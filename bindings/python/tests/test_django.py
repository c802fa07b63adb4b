"""Django: the backend, its transaction modes, and units of work that run again."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Callable, Iterator

import django_project as project
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.test import AsyncClient, Client
from django_project import Counter, Part
from shared_sync import WRITERS, commits_of_waiting_writers

import manyhands
from manyhands.django import read_only, retry_atomic


@pytest.fixture
def configure(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Opens the database with other options."""
    settings = connections.settings["default"]

    def configure(**options: Any) -> None:
        connection.close()
        settings["OPTIONS"] = options

    settings["NAME"] = str(tmp_path / "app.db")
    configure()
    yield configure
    configure()


@pytest.fixture
def database(configure: Callable[..., None]) -> str:
    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(Counter)
        editor.create_model(Part)
    Counter.objects.create(pk=1)
    project.runs.clear()
    project.meanwhile.clear()
    return connections.settings["default"]["NAME"]


def change() -> None:
    """What somebody else does meanwhile: adds 100."""
    with closing(manyhands.connect(connections.settings["default"]["NAME"])) as other:
        other.execute("UPDATE project_counter SET value = value + 100")
        other.commit()


def value() -> int:
    return Counter.objects.get(pk=1).value


def add_one() -> None:
    counter = Counter.objects.get(pk=1)
    counter.value += 1
    counter.save()


def in_threads(work: Callable[[], None], count: int) -> None:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(run) for _ in range(count)]:
            done.result(60)


class holder:
    """Somebody who holds the turn to write."""

    def __enter__(self) -> None:
        self.connection = manyhands.connect(connections.settings["default"]["NAME"])
        self.connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, *error: object) -> None:
        self.connection.rollback()
        self.connection.close()


@pytest.mark.parametrize("mode", ["auto", "immediate", None, "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_read_then_write_never_conflicts(database: str, configure: Any, mode: Any) -> None:
    """With stock SQLite in its default mode, most of these fail. Django's own names still work."""
    configure(transaction_mode=mode)

    def work() -> None:
        for _ in range(5):
            with transaction.atomic():
                add_one()

    in_threads(work, 8)
    assert value() == 40


def test_optimistic_conflicts_are_operational_errors(database: str, configure: Any) -> None:
    configure(transaction_mode="optimistic")
    with pytest.raises(OperationalError) as caught:
        with transaction.atomic():
            counter = Counter.objects.get(pk=1)
            change()
            counter.value += 1
            counter.save()
    assert isinstance(caught.value.__cause__, manyhands.ConflictError)
    assert value() == 100
    with transaction.atomic():
        add_one()
    assert value() == 101


def test_after_a_conflict_the_block_writes_nothing(database: str, configure: Any) -> None:
    """The transaction is over then: what the block wrote next would be committed statement by statement."""
    configure(transaction_mode="optimistic")
    with pytest.raises(transaction.TransactionManagementError):
        with transaction.atomic():
            assert value() == 0
            change()
            try:
                # Cannot be done beside others, so what was read is compared here.
                connection.cursor().execute("CREATE TABLE another (x)")
            except OperationalError:
                pass
            Counter.objects.create(pk=2)
    assert not Counter.objects.filter(pk=2).exists()


def test_retry_atomic_runs_again_in_its_turn(database: str) -> None:
    modes = []

    @retry_atomic
    def work(argument: int) -> int:
        """Adds one."""
        before = value()
        if not modes:
            change()
        modes.append(connection.unit.mode)
        transaction.on_commit(lambda: modes.append("committed"))
        Counter.objects.filter(pk=1).update(value=before + argument)
        return before

    assert work(1) == 100
    assert modes == ["optimistic", "immediate", "committed"]
    assert value() == 101
    assert (work.__name__, work.__doc__) == ("work", "Adds one.")


def test_retry_atomic_loses_no_update(database: str) -> None:
    in_threads(lambda: [retry_atomic(add_one)() for _ in range(10)] and None, 8)
    assert value() == 80


def test_retry_atomic_is_a_part_of_an_outer_block(database: str) -> None:
    @retry_atomic(using="default")
    def work() -> None:
        add_one()

    with pytest.raises(ValueError):
        with transaction.atomic():
            work()
            assert connection.unit.mode == "auto"
            raise ValueError
    assert value() == 0


def test_a_block_whose_reads_are_stale_writes_nothing(database: str) -> None:
    """What it has read was changed before its first write: it can only be rolled back, whatever it passes over."""
    with pytest.raises(OperationalError, match="^database is locked"):
        with transaction.atomic():
            assert value() == 0
            change()
            with pytest.raises(OperationalError, match="^database is locked"), transaction.atomic():
                Counter.objects.create(pk=5)
            Counter.objects.create(pk=6)
    assert not Counter.objects.filter(pk__in=[5, 6]).exists()
    with transaction.atomic():
        add_one()
    assert value() == 101


def test_a_block_that_only_reads_waits_for_nobody(database: str) -> None:
    with closing(manyhands.connect(database)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with transaction.atomic():
            assert value() == 0
        holder.rollback()
        with transaction.atomic():
            assert value() == 0
            change()
            assert value() == 0


def test_retry_atomic_runs_again_when_the_conflict_was_swallowed(database: str) -> None:
    modes = []

    @retry_atomic
    def work() -> None:
        modes.append(connection.unit.mode)
        assert value() >= 0
        if len(modes) == 1:
            change()
            try:
                connection.cursor().execute("CREATE TABLE another (x)")
            except OperationalError:
                pass

    work()
    assert modes == ["optimistic", "immediate"]


def test_retry_atomic_passes_other_errors_on(database: str) -> None:
    runs = []

    @retry_atomic
    def work() -> None:
        runs.append(add_one())
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        work()
    assert len(runs) == 1 and value() == 0
    with pytest.raises(TypeError, match="coroutine"):
        retry_atomic(asyncio.sleep)
    with pytest.raises(TypeError, match="coroutine"):
        read_only()(asyncio.sleep)


def test_reads_never_queue(database: str, configure: Any) -> None:
    configure(timeout=5)
    with holder():
        assert value() == 0
        with read_only():
            assert value() == 0
        assert read_only()(value)() == 0


def test_read_only_shows_one_moment_and_refuses_writes(database: str) -> None:
    with read_only():
        assert value() == 0
        change()
        assert value() == 0
    assert value() == 100
    with pytest.raises(OperationalError, match="readonly"):
        with read_only():
            add_one()
    add_one()
    with transaction.atomic():
        with read_only():
            assert value() == 101
        add_one()
    assert value() == 102


def test_a_conflicting_request_runs_again(database: str, caplog: Any) -> None:
    client = Client()
    project.meanwhile.append(change)
    with caplog.at_level(logging.WARNING):
        answer = client.post("/count", {"posted": "x" * 100}).json()
    assert answer == {"value": 101, "visits": 1}
    first, second = project.runs
    assert first == {"mode": "optimistic", "fresh": True, "posted": "x" * 100, "visits": 1, "body": first["body"]}
    assert second == {**first, "mode": "immediate", "committed": True}
    assert value() == 101
    # A conflict that was dealt with is no error.
    assert caplog.records == []
    assert client.get("/count").json() == {"value": 102, "visits": 2}
    assert project.runs[-1]["mode"] == "optimistic"


def test_a_conflicting_request_with_a_file_runs_again(database: str) -> None:
    project.meanwhile.append(change)
    posted = {"posted": "y", "file": SimpleUploadedFile("a.txt", b"z" * 1000)}
    assert Client().post("/count", posted).json()["value"] == 101
    assert [run["posted"] for run in project.runs] == ["y", "y"]


def test_a_conflicting_request_runs_again_under_asgi(database: str) -> None:
    project.meanwhile.append(change)
    answer = asyncio.run(AsyncClient().post("/count", {"posted": "y"}))
    assert answer.json() == {"value": 101, "visits": 1}
    assert [(run["mode"], run["posted"]) for run in project.runs] == [("optimistic", "y"), ("immediate", "y")]


def test_a_large_request_runs_once_in_its_turn(database: str) -> None:
    posted = {"posted": "y", "file": SimpleUploadedFile("a.txt", b"z" * 50_000)}
    assert Client().post("/count", posted).json()["value"] == 1
    assert [run["mode"] for run in project.runs] == ["immediate"]


def test_a_request_that_swallows_its_conflict_runs_again(database: str) -> None:
    def change_and_move_to_turn() -> None:
        change()
        connection.cursor().execute("CREATE TABLE another (x)")

    project.meanwhile.append(change_and_move_to_turn)
    assert Client().get("/catches").json() == {"value": 101, "visits": 1}


def test_views_with_transactions_of_their_own(database: str) -> None:
    client = Client()
    assert client.get("/alone").json()["value"] == 1
    assert project.runs[-1]["mode"] != "optimistic"
    project.meanwhile.append(change)
    assert client.get("/decorated").json()["value"] == 102
    assert project.runs[-1]["mode"] == "immediate"
    with holder():
        assert client.get("/read").json() == {"value": 2 + 100}
    with pytest.raises(OperationalError, match="readonly"):
        client.get("/write-in-read")
    with pytest.raises(ValueError, match="own mistake"):
        client.get("/fails")
    with transaction.atomic():
        # Its transaction is a savepoint: no unit of work begins.
        assert client.get("/count").status_code == 200
        assert connection.next_unit is None


def test_many_requests_at_once(database: str) -> None:
    def work() -> None:
        client = Client()
        for visits in range(1, 6):
            answer = client.post("/count")
            assert answer.status_code == 200
            assert answer.json()["visits"] == visits

    in_threads(work, 8)
    assert value() == 40


def test_a_child_process_opens_a_connection_of_its_own(database: str) -> None:
    """As under gunicorn --preload, where the application has used the database before the workers fork."""
    assert value() == 0
    child = os.fork()
    if child == 0:
        try:
            add_one()
            connection.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert value() == 1


def test_a_test_database_is_copied_with_what_is_in_its_wal(database: str) -> None:
    add_one()
    creation = connection.creation
    target = creation.get_test_db_clone_settings("2")["NAME"]
    for _ in range(2):
        creation._clone_test_db("2", verbosity=0)
        with closing(manyhands.connect(target)) as copy:
            assert copy.execute("SELECT value FROM project_counter").fetchall() == [(1,)]
    creation._destroy_test_db(target, verbosity=0)
    assert [name for name in os.listdir(os.path.dirname(target)) if "app_2" in name] == []


def test_values_and_constraints(database: str) -> None:
    made = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    part = Part.objects.create(counter_id=1, name="Bolt", price=decimal.Decimal("1.25"), made=made)
    part.refresh_from_db()
    assert (part.price, part.made) == (decimal.Decimal("1.25"), made)
    assert Part.objects.filter(name__regex="^B.lt$", made__year=2026).count() == 1
    assert len(Part.objects.raw("SELECT * FROM project_part WHERE name = %(n)s", {"n": "Bolt"})) == 1
    with pytest.raises(IntegrityError):
        with transaction.atomic():
            Part.objects.create(counter_id=99, name="Nut")
    made_at_once = Part.objects.bulk_create([Part(counter_id=1, name=f"{n}") for n in range(3)])
    assert all(part.pk for part in made_at_once)
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO project_counter VALUES (%s, 5)", [(2,), (3,)])
    assert Counter.objects.count() == 3
    # The parts' foreign key is deferred to the commit.
    with pytest.raises(IntegrityError):
        Counter.objects.all().delete()
    assert (Counter.objects.count(), Part.objects.all().delete()[0]) == (3, 4)
    assert Counter.objects.all().delete()[0] == 3


def test_a_test_database_in_memory_is_copied_to_forked_processes(
    configure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the parallel test runner does it: a connection of the parent is of no use in a child."""
    monkeypatch.chdir(tmp_path)
    connections.settings["default"]["NAME"] = "file:memorydb_default?mode=memory&cache=shared"
    try:
        with connection.schema_editor() as editor:
            editor.create_model(Counter)
        Counter.objects.create(pk=1, value=7)
        connection.creation._clone_test_db("1", verbosity=0)
        child = os.fork()
        if child == 0:
            try:
                connection.creation.setup_worker_connection(1)
                add_one()
                os._exit(0 if value() == 8 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert value() == 7
    finally:
        # Django leaves a database in memory open.
        connection.connection.close()
        connection.connection = None


class Colour:
    """A type that the application has registered with this package only."""


manyhands.register_adapter(Colour, lambda colour: "red")


def test_schema_changes(database: str) -> None:
    from django.db import models

    Part.objects.create(counter_id=1, name="Bolt")
    field = models.DateField(default=datetime.date(2026, 1, 2))
    field.set_attributes_from_name("bought")
    field.model = Part
    with connection.schema_editor() as editor:
        editor.add_field(Part, field)
        assert editor.quote_value(decimal.Decimal("1.5")) == "'1.5'"
        assert editor.quote_value(Colour()) == "'red'"
        editor.remove_field(Part, field)
    assert Part.objects.get().name == "Bolt"


def test_options(database: str, configure: Any) -> None:
    configure(durability="normal", label="shop", init_command="PRAGMA cache_size = 77; PRAGMA user_version")
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone() == (1,)
        assert cursor.execute("PRAGMA cache_size").fetchone() == (77,)
        assert cursor.execute("PRAGMA foreign_keys").fetchone() == (1,)
    configure(init_command="PRAGMA synchronous=NORMAL;")
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone() == (1,)
    configure(durability_min="full", init_command="PRAGMA synchronous=OFF;")
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone() == (0,)
    configure(transaction_mode="sometimes")
    with pytest.raises(ImproperlyConfigured, match="'auto', 'optimistic' or 'immediate'"):
        connection.ensure_connection()


def test_asynchronous_queries(database: str) -> None:
    async def use() -> int:
        await Counter.objects.acreate(pk=2)
        return await Counter.objects.acount()

    assert asyncio.run(use()) == 2


def test_connections_of_threads_close(database: str) -> None:
    before = threading.active_count()
    in_threads(add_one, 4)
    assert threading.active_count() == before


def test_writers_share_a_commit(database: str) -> None:
    def write() -> None:
        try:
            Part.objects.create(counter_id=1, name="Bolt")
        finally:
            connection.close()

    assert commits_of_waiting_writers(database, write) <= WRITERS // 2
    assert Part.objects.count() == WRITERS


def test_sign(database: str) -> None:
    with connection.cursor() as cursor:
        assert cursor.execute("SELECT sign(-7), sign(0), sign(2.5), sign(NULL)").fetchone() == (-1, 0, 1, None)
