"""What an application adds to its connection, while others write: each works as in sqlite3, and concerns nobody
else."""

import contextlib
import gc
import multiprocessing
import sqlite3
import sys
import threading
import time
import weakref

import pytest

import manyhands


def write_busily(path, stop):
    connection = manyhands.connect(path, isolation_level=None)
    while not stop.is_set():
        connection.execute("INSERT INTO busy VALUES (1)")
    connection.close()


@contextlib.contextmanager
def busy_neighbours(path):
    """Two processes that write to another table all the time."""
    with contextlib.closing(manyhands.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS busy (n)")
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    writers = [context.Process(target=write_busily, args=(path, stop)) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        stop.set()
        for writer in writers:
            writer.join(30)
    assert [writer.exitcode for writer in writers] == [0, 0]


@pytest.fixture
def other(path, connection):
    with contextlib.closing(manyhands.connect(path, isolation_level=None)) as other:
        yield other


def test_a_trigger_calls_a_python_function(path, connection, other):
    connection.create_function("double", 1, lambda number: 2 * number)
    connection.executescript(
        """CREATE TABLE item (n); CREATE TABLE doubled (n);
           CREATE TRIGGER doubles AFTER INSERT ON item BEGIN INSERT INTO doubled VALUES (double(new.n)); END"""
    )
    with busy_neighbours(path):
        for number in range(100):
            connection.execute("INSERT INTO item VALUES (?)", (number,))
        with connection.transaction("optimistic"):
            connection.execute("INSERT INTO item VALUES (100)")
            other.execute("INSERT INTO busy VALUES (2)")
        with pytest.raises(manyhands.OperationalError, match="no such function: double"):
            other.execute("INSERT INTO item VALUES (-1)")
    assert connection.execute("SELECT sum(n) FROM doubled").fetchone() == (2 * sum(range(101)),)


def test_a_function_in_an_update_of_an_optimistic_transaction(connection, other):
    connection.executescript("CREATE TABLE item (n); INSERT INTO item VALUES (10)")
    connection.create_function("double", 1, lambda number: 2 * number, deterministic=True)
    with connection.transaction("optimistic"):
        connection.execute("UPDATE item SET n = double(n)")
        other.execute("UPDATE item SET n = n + 1")
    assert other.execute("SELECT n FROM item").fetchone() == (22,)


def test_an_index_in_an_order_that_others_lack(path, connection, other):
    connection.create_collation("backwards", lambda a, b: (a < b) - (a > b))
    connection.executescript(
        "CREATE TABLE item (name); CREATE INDEX ordered ON item (name COLLATE backwards)"
    )
    with busy_neighbours(path):
        for name in "acb":
            connection.execute("INSERT INTO item VALUES (?)", (name,))
        for _ in range(10):
            with pytest.raises(
                manyhands.OperationalError, match="^no such collation sequence: backwards$"
            ):
                other.execute("INSERT INTO item VALUES ('d')")
    rows = connection.execute("SELECT name FROM item ORDER BY name COLLATE backwards").fetchall()
    assert rows == [("c",), ("b",), ("a",)]
    connection.create_collation("backwards", None)
    with pytest.raises(manyhands.OperationalError, match="no such collation sequence"):
        connection.execute("INSERT INTO item VALUES ('d')")


class Sum:
    living = weakref.WeakSet()

    def __init__(self):
        self.total = 0
        self.living.add(self)

    def step(self, value):
        if value == 8:
            raise ValueError("eight is too much")
        self.total += value

    def inverse(self, value):
        self.total -= value

    def value(self):
        return self.total

    def finalize(self):
        return self.total


def test_no_state_of_an_aggregate_remains(connection):
    connection.executescript("CREATE TABLE number (g, v)")
    connection.executemany("INSERT INTO number VALUES (?, ?)", [(n // 2, n) for n in range(10)])
    connection.create_window_function("total_of", 1, Sum)
    below = "SELECT total_of(v) FROM number WHERE v < 8"
    assert connection.execute(below).fetchall() == [(28,)]
    assert connection.execute(below + " GROUP BY g").fetchall() == [(1,), (5,), (9,), (13,)]
    over = "SELECT total_of(v) OVER (ORDER BY v ROWS 1 PRECEDING) FROM number WHERE v < 4"
    assert connection.execute(over).fetchall() == [(0,), (1,), (3,), (5,)]
    assert connection.execute("SELECT total_of(v) FROM number WHERE v > 99").fetchall() == [(None,)]
    for sql in ("SELECT total_of(v) FROM number", over.replace("< 4", "< 9")):
        with pytest.raises(
            manyhands.OperationalError, match="user-defined aggregate's 'step' method raised error"
        ):
            connection.execute(sql).fetchall()
    cursor = connection.execute(over)
    cursor.fetchone()
    cursor.close()
    gc.collect()
    assert len(Sum.living) == 0
    kind = weakref.ref(type("Other", (Sum,), {}))
    connection.create_aggregate("other", 1, kind())
    connection.create_aggregate("other", 1, None)
    gc.collect()
    assert kind() is None


@pytest.fixture
def unraised(monkeypatch):
    """What callbacks raise, and which ones."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: seen.append((it.exc_value, it.object)))
    manyhands.enable_callback_tracebacks(True)
    yield seen
    manyhands.enable_callback_tracebacks(False)


def test_a_callback_cannot_use_the_connection_that_calls_it(connection, unraised):
    def uses():
        return connection.execute("SELECT 1").fetchone()[0]

    connection.create_function("uses", 0, uses)
    with pytest.raises(
        manyhands.OperationalError, match="^user-defined function raised exception$"
    ):
        connection.execute("SELECT uses()").fetchall()
    ((error, callable_),) = unraised
    assert isinstance(error, manyhands.ProgrammingError) and "callback" in str(error)
    assert callable_ is uses
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("kind", [KeyError, UnicodeDecodeError, KeyboardInterrupt])
@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def test_what_a_collation_raises_is_raised(module, path, kind):
    connection = module.connect(path)
    connection.executescript("CREATE TABLE item (n); INSERT INTO item VALUES ('a'), ('b'), ('c')")
    asked = []

    def bad(a, b):
        asked.append((a, b))
        raise kind(*(("utf-8", b"x", 0, 1, "mine") if kind is UnicodeDecodeError else ("mine",)))

    connection.create_collation("bad", bad)
    for sql in ("DELETE FROM item WHERE n = 'b' COLLATE bad", "SELECT n FROM item ORDER BY n COLLATE bad"):
        asked.clear()
        with pytest.raises(kind, match="mine"):
            connection.execute(sql).fetchall()
        assert len(asked) == 1
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (3,)
    connection.create_collation("none", lambda a, b: None)
    assert connection.execute("SELECT 'a' = 'b' COLLATE none").fetchone() == (1,)
    connection.close()


@pytest.mark.parametrize("hook", ["set_trace_callback", "set_progress_handler", "set_authorizer", None])
@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forgotten_connection_is_collected_with_its_hooks(module, path, hook):
    """Its open transaction would keep others from writing for ever, and its files would stay open."""

    class Store:
        def __init__(self):
            self.connection = module.connect(path)
            self.connection.execute("CREATE TABLE IF NOT EXISTS item (n)")
            for name in [hook] if hook else ["set_trace_callback", "set_progress_handler", "set_authorizer"]:
                arguments = (7,) if name == "set_progress_handler" else ()
                # The second takes the place of the first.
                for _ in range(2):
                    getattr(self.connection, name)(self.call, *arguments)
            self.connection.execute("INSERT INTO item VALUES (1)")
            self.connection.execute("SELECT * FROM item").fetchall()

        def call(self, *args):
            return 0

    gone = weakref.ref(Store())
    gc.collect()
    assert gone() is None
    connection = module.connect(path, timeout=0)
    connection.execute("INSERT INTO item VALUES (2)")
    connection.commit()
    assert connection.execute("SELECT * FROM item").fetchall() == [(2,)]
    connection.close()


def test_a_callback_cannot_close_the_connection_that_calls_it(connection):
    refused = []

    def closes(*args):
        with pytest.raises(manyhands.ProgrammingError, match="callback cannot use the connection"):
            connection.close()
        refused.append(args)

    connection.create_function("closes", 0, closes)
    connection.set_trace_callback(closes)
    assert connection.execute("SELECT closes()").fetchone() == (None,)
    connection.set_trace_callback(None)
    assert len(refused) == 2
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_ends_the_call(connection, kind):
    def stops(*args):
        raise kind("stop")

    connection.executescript("CREATE TABLE item (n); INSERT INTO item VALUES ('a'), ('b')")
    connection.create_function("stops", -1, stops)
    connection.create_aggregate("stops_all", 1, type("Stops", (), {"step": stops, "finalize": stops}))
    connection.create_collation("stopping", stops)
    statements = [
        "SELECT stops(n) FROM item",
        "INSERT INTO item SELECT stops(1)",
        "SELECT stops_all(n) FROM item",
        "SELECT n FROM item ORDER BY n COLLATE stopping",
    ]
    for sql in statements:
        with pytest.raises(kind, match="stop"):
            connection.execute(sql).fetchall()
        assert connection.execute("SELECT count(*) FROM item").fetchone() == (2,)
    connection.set_progress_handler(stops, 1)
    with pytest.raises(kind, match="stop"):
        connection.execute("SELECT n FROM item").fetchall()
    connection.set_progress_handler(None, 1)
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (2,)


def test_threads_share_a_connection_whose_function_takes_its_time(connection):
    """Who waits for the connection does not keep the function from going on."""

    def slow(number):
        time.sleep(0.001)
        return number

    connection.create_function("slow", 1, slow)
    connection.executescript("CREATE TABLE number (n)")
    connection.executemany("INSERT INTO number VALUES (?)", ((n,) for n in range(50)))
    failures = []

    def work():
        try:
            for _ in range(5):
                assert len(connection.execute("SELECT slow(n) FROM number").fetchall()) == 50
                connection.execute("UPDATE number SET n = slow(n)")
                connection.create_function("quick", 0, lambda: 1)
        except manyhands.OperationalError as error:
            # SQLite's own: a function cannot be replaced while a statement runs.
            if "active statements" not in str(error):
                failures.append(error)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_an_authorizer_decides_and_is_not_asked_of_what_is_our_own(connection, other):
    connection.executescript("CREATE TABLE item (n); INSERT INTO item VALUES (1)")
    asked = set()

    def authorizer(action, first, second, database, trigger):
        asked.add((action, first))
        if (action, first) == (manyhands.SQLITE_TRANSACTION, "ROLLBACK"):
            return manyhands.SQLITE_DENY
        return manyhands.SQLITE_IGNORE if second == "n" and action == manyhands.SQLITE_READ else manyhands.SQLITE_OK

    connection.set_authorizer(authorizer)
    assert connection.execute("SELECT n FROM item").fetchall() == [(None,)]
    with pytest.raises(manyhands.DatabaseError, match="not authorized"):
        connection.execute("ROLLBACK")
    with connection.transaction("optimistic"):
        connection.execute("INSERT INTO item VALUES (2)")
        other.execute("INSERT INTO item VALUES (3)")
    connection.set_authorizer(None)
    assert connection.execute("SELECT n FROM item ORDER BY n").fetchall() == [(1,), (2,), (3,)]
    assert (manyhands.SQLITE_INSERT, "item") in asked


def test_a_trace_shows_what_the_application_does(path, connection, other):
    connection.executescript("CREATE TABLE item (n)")
    traced = []
    connection.set_trace_callback(traced.append)
    with busy_neighbours(path):
        with connection.transaction("optimistic"):
            connection.execute("UPDATE item SET n = ?", ("it's",))
            connection.execute("INSERT INTO item(rowid, n) VALUES (?, ?)", (7, 1.5))
            other.execute("INSERT INTO item VALUES (3)")
        connection.execute("DELETE FROM item")
    connection.set_trace_callback(None)
    connection.execute("SELECT 1")
    begin, *rest = traced
    assert begin.startswith("BEGIN")
    assert rest == [
        "UPDATE item SET n = 'it''s'",
        "INSERT INTO item(rowid, n) VALUES (7, 1.5)",
        "COMMIT",
        "DELETE FROM item",
    ]


def test_a_progress_handler_stops_writes_too(path, connection):
    connection.executescript("CREATE TABLE item (n)")
    many = """INSERT INTO item WITH RECURSIVE c(v) AS (VALUES (0) UNION ALL SELECT v + 1 FROM c WHERE v < 100000)
              SELECT v FROM c"""
    with busy_neighbours(path):
        connection.set_progress_handler(lambda: True, 1000)
        with pytest.raises(manyhands.OperationalError, match="interrupted") as caught:
            connection.execute(many)
        assert caught.value.sqlite_errorname == "SQLITE_INTERRUPT"
        connection.set_progress_handler(None, 1000)
        connection.execute(many)
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (100001,)


def test_limits_and_switches(path, connection):
    connection.executescript("CREATE TABLE item (id INTEGER PRIMARY KEY, n REFERENCES item)")
    with busy_neighbours(path):
        before = connection.setlimit(manyhands.SQLITE_LIMIT_LENGTH, 100)
        for _ in range(10):
            with pytest.raises(manyhands.DataError, match="string or blob too big"):
                connection.execute("INSERT INTO item (n) VALUES (?1 || ?1)", ("x" * 60,))
        assert connection.setlimit(manyhands.SQLITE_LIMIT_LENGTH, before) == 100
        connection.setconfig(manyhands.SQLITE_DBCONFIG_ENABLE_FKEY)
        for _ in range(10):
            with pytest.raises(manyhands.IntegrityError, match="FOREIGN KEY"):
                connection.execute("INSERT INTO item (n) VALUES (99)")
    assert connection.getconfig(manyhands.SQLITE_DBCONFIG_ENABLE_FKEY) is True
    with pytest.raises(ValueError, match="unknown config 'op': -1"):
        connection.getconfig(-1)
    with pytest.raises(manyhands.ProgrammingError, match="out of bounds"):
        connection.getlimit(-1)
    # Another connection is as it always is.
    with contextlib.closing(manyhands.connect(path)) as next_one:
        assert next_one.getlimit(manyhands.SQLITE_LIMIT_LENGTH) == before
        assert next_one.getconfig(manyhands.SQLITE_DBCONFIG_ENABLE_FKEY) is False


def test_extensions_are_refused_until_they_are_allowed(connection, tmp_path):
    with pytest.raises(manyhands.OperationalError, match="not authorized"):
        connection.load_extension(str(tmp_path / "none"))
    connection.enable_load_extension(True)
    with pytest.raises(manyhands.OperationalError, match="none"):
        connection.load_extension(str(tmp_path / "none"), entrypoint="start")


def test_every_name_of_the_standard_module_is_there():
    import sqlite3

    names = {name for name in dir(sqlite3) if not name.startswith("_")}
    # Removed in Python 3.12; the rest is what it imports.
    gone = {"enable_shared_cache", "OptimizedUnicode", "collections", "datetime", "time", "dbapi2"}
    assert names - gone - set(dir(manyhands)) - {"version", "version_info"} == set()
    codes = [name for name in names if name.startswith("SQLITE_")]
    assert [name for name in codes if getattr(manyhands, name) != getattr(sqlite3, name)] == []


def test_a_new_database_is_made_without_a_word_to_the_application(path):
    """Its first write switches it to WAL mode, which the application has not asked for."""
    connection = manyhands.connect(path, isolation_level=None)
    traced, asked = [], []
    connection.set_trace_callback(traced.append)
    connection.set_authorizer(lambda *question: asked.append(question[0]) or manyhands.SQLITE_OK)
    connection.execute("CREATE TABLE t (n)")
    connection.execute("INSERT INTO t VALUES (1)")
    assert traced == ["CREATE TABLE t (n)", "INSERT INTO t VALUES (1)"]
    assert manyhands.SQLITE_PRAGMA not in asked
    connection.close()
