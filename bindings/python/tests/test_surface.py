"""The DB-API, beside the standard module: the same calls, the same answers."""

import gc
import pickle
import re
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

import manyhands


@pytest.fixture(params=[manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def either(request, path):
    """A connection of Manyhands, and one of sqlite3 that promises the same."""
    connection = request.param.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    yield connection
    connection.close()


def test_a_cursor_fetches_like_sqlite3(either):
    assert either.executemany("INSERT INTO t (b) VALUES (?)", [(n,) for n in "abcdef"]).rowcount == 6
    cursor = either.cursor()
    assert cursor.execute("SELECT a, b AS name FROM t ORDER BY a") is cursor
    assert [column[0] for column in cursor.description] == ["a", "name"]
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.rowcount == -1
    assert cursor.fetchone() == (1, "a")
    assert cursor.fetchmany() == [(2, "b")]
    assert cursor.fetchmany(2) == [(3, "c"), (4, "d")]
    assert next(cursor) == (5, "e")
    assert list(cursor) == [(6, "f")]
    assert (cursor.fetchone(), cursor.fetchall(), cursor.connection) == (None, [], either)


def test_counts_are_those_of_sqlite3(either):
    cursor = either.execute("INSERT INTO t VALUES (7, 'x'), (9, 'y')")
    assert (cursor.rowcount, cursor.lastrowid, cursor.description) == (2, 9, None)
    assert either.execute(" update t SET b = 'z'").rowcount == 2
    assert either.execute("UPDATE t SET b = 'z' WHERE a = 1").rowcount == 0
    assert either.execute("CREATE TABLE u (x)").rowcount == -1
    assert either.total_changes == 4
    assert either.execute("INSERT INTO t (b) VALUES (1) RETURNING a").fetchall() == [(10,)]


def test_what_a_script_gives_no_value_is_null(either):
    either.executescript("INSERT INTO t VALUES (7, ?); INSERT INTO t VALUES (:a, ?5); UPDATE t SET b = 1 WHERE a = 8")
    assert either.execute("SELECT * FROM t").fetchall() == [(7, None), (8, 1)]


def test_transactions_end_as_in_sqlite3(either):
    count = "SELECT count(*) FROM t"
    with either:
        assert not either.in_transaction
        either.execute("BEGIN")
        either.execute("INSERT INTO t (b) VALUES (1)")
        assert either.in_transaction
    assert (either.in_transaction, either.execute(count).fetchone()) == (False, (1,))
    with pytest.raises(KeyError):
        with either:
            either.execute("BEGIN")
            either.execute("DELETE FROM t")
            raise KeyError
    assert (either.in_transaction, either.execute(count).fetchone()) == (False, (1,))
    either.commit()
    either.rollback()
    either.execute("BEGIN")
    either.executescript("INSERT INTO t (b) VALUES (2); INSERT INTO t (b) VALUES (3);")
    assert (either.in_transaction, either.execute(count).fetchone()) == (False, (3,))


@pytest.mark.parametrize(
    "sql, name",
    [
        ("INSERT INTO t VALUES (1, 2)", "IntegrityError"),
        ("SELECT * FROM missing", "OperationalError"),
        ("INSERT INTO t VALUES ('text', 1)", "IntegrityError"),
        ("SELECT ?", "ProgrammingError"),
    ],
)
def test_errors_have_the_class_text_and_code_of_sqlite3(either, sql, name):
    either.execute("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(getattr(either, name)) as caught:
        either.execute(sql)
    error = caught.value
    expected = {
        "INSERT INTO t VALUES (1, 2)": ("UNIQUE constraint failed: t.a", "SQLITE_CONSTRAINT_PRIMARYKEY", 1555),
        "SELECT * FROM missing": ("no such table: missing", "SQLITE_ERROR", 1),
        "INSERT INTO t VALUES ('text', 1)": ("datatype mismatch", "SQLITE_MISMATCH", 20),
    }.get(sql)
    # sqlite3 has had the codes since Python 3.11.
    if expected and hasattr(error, "sqlite_errorname"):
        assert (str(error), error.sqlite_errorname, error.sqlite_errorcode) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("INSERT INTO missing DEFAULT VALUES",),
        ("INSERT INTO missing VALUES (?)", (1,)),
        ("INSERT INTO t VALUES (1, 2",),
        ("UPDATE t SET missing = 1",),
    ],
)
def test_what_does_not_compile_begins_no_transaction(either, arguments):
    either.isolation_level = ""
    with pytest.raises((manyhands.OperationalError, sqlite3.OperationalError)):
        either.execute(*arguments)
    assert not either.in_transaction
    with pytest.raises((manyhands.OperationalError, sqlite3.OperationalError)):
        either.executemany(arguments[0], [])
    assert not either.in_transaction
    either.execute("INSERT INTO t (b) VALUES ('a question?')")
    assert either.in_transaction


@pytest.mark.parametrize(
    "sql, parameters",
    [
        ("INSERT INTO t (b) VALUES (?)", (1, 2)),
        ("INSERT INTO t (b) VALUES (?)", ()),
        ("INSERT INTO t (b) VALUES (?)", (object(),)),
        ("INSERT INTO t (b) VALUES (:b)", {}),
        ("UPDATE t SET b = 1", (1,)),
    ],
)
def test_a_statement_with_wrong_parameters_begins_a_transaction(either, sql, parameters):
    either.isolation_level = ""
    with pytest.raises((manyhands.ProgrammingError, sqlite3.ProgrammingError)):
        either.execute(sql, parameters)
    assert either.in_transaction


@pytest.mark.parametrize("sql", ["", " -- a comment", "/* another */ ;", ";"])
def test_text_without_a_statement_leaves_lastrowid(either, sql):
    cursor = either.cursor().execute(sql)
    assert (cursor.lastrowid, cursor.rowcount, cursor.description) == (None, -1, None)
    cursor.execute("INSERT INTO t VALUES (7, 1)")
    either.execute("INSERT INTO t VALUES (9, 1)")
    assert cursor.execute(sql).lastrowid == 7
    assert cursor.execute("SELECT 1").lastrowid == 9


@pytest.mark.parametrize("parameter", ["?", "?1", ":a", "@a", "$a", "#a"])
def test_a_parameter_without_a_value(either, parameter):
    with pytest.raises((manyhands.ProgrammingError, sqlite3.ProgrammingError), match="uses 1, and there are 0"):
        either.execute(f"INSERT INTO t (b) VALUES ({parameter})")
    with pytest.raises((manyhands.ProgrammingError, sqlite3.ProgrammingError), match="uses 0, and there are 1"):
        either.execute("INSERT INTO t DEFAULT VALUES", (1,))


def test_executemany_takes_statements_that_write_only(either):
    with pytest.raises(either.ProgrammingError):
        either.executemany("SELECT ?", [(1,)])
    assert either.executemany("INSERT INTO t VALUES (?, 1)", []).rowcount == 0
    either.isolation_level = ""
    for nothing in ("", "-- nothing", "WITH n AS (SELECT 1) SELECT 1", "PRAGMA user_version", "BEGIN"):
        with pytest.raises(either.ProgrammingError, match="can only execute DML"):
            either.executemany(nothing, [()])
    for writes in ("WITH n AS (SELECT ?) INSERT INTO t (b) SELECT * FROM n", "CREATE TABLE u (x)"):
        items = [(1,), (2,)] if "?" in writes else [()]
        assert either.executemany(writes, items).rowcount == -1
        assert not either.in_transaction
    assert either.execute("SELECT b FROM t").fetchall() == [(1,), (2,)]
    assert either.execute("SELECT * FROM u").fetchall() == []


def test_a_closed_connection_says_so(either):
    either.close()
    either.close()
    for use in (lambda: either.execute("SELECT 1"), lambda: either.in_transaction, either.interrupt):
        with pytest.raises(either.ProgrammingError, match="Cannot operate on a closed database"):
            use()


def test_rows_are_counted_behind_a_comment_too(connection):
    connection.execute("CREATE TABLE t (v)")
    assert connection.execute("-- one\n/* * */ insert into t VALUES (1)").rowcount == 1
    assert connection.execute("/* insert */ SELECT 1").rowcount == -1


def test_executemany_keeps_what_came_before_an_error(either):
    """Each set of parameters is a transaction of its own outside of one, as in sqlite3."""
    with pytest.raises(either.IntegrityError):
        either.executemany("INSERT INTO t VALUES (?, 0)", [(1,), (2,), (3,), (4,), (1,), (5,)])
    assert either.execute("SELECT a FROM t").fetchall() == [(1,), (2,), (3,), (4,)]


def test_executemany_executes_what_an_iterator_gave_before_it_failed(either):
    def sets():
        yield (1,)
        yield (2,)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        either.executemany("INSERT INTO t VALUES (?, 0)", sets())
    assert either.execute("SELECT a FROM t").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("level", [None, "", "IMMEDIATE"])
def test_executemany_asks_for_an_item_when_the_one_before_is_written(either, level):
    either.isolation_level = level
    inside = []

    def numbers():
        for _ in range(3):
            inside.append(either.in_transaction)
            yield either.execute("SELECT count(*) + 1 FROM t").fetchone()

    assert either.executemany("INSERT INTO t (a) VALUES (?)", numbers()).rowcount == 3
    assert inside == [level is not None] * 3

    def new_words():
        for word in ["x", "y", "x", "y", "z"]:
            if not either.execute("SELECT 1 FROM t WHERE b = ?", (word,)).fetchone():
                yield (word,)

    either.executemany("INSERT INTO t (b) VALUES (?)", new_words())
    rows = either.execute("SELECT a, b FROM t").fetchall()
    assert rows == [(1, None), (2, None), (3, None), (4, "x"), (5, "y"), (6, "z")]


def test_executemany_leaves_what_comes_after_an_error(either):
    either.isolation_level = "DEFERRED"
    items = iter([(1,), (1,), (2,), (3,)])
    with pytest.raises(either.IntegrityError):
        either.executemany("INSERT INTO t (a) VALUES (?)", items)
    assert list(items) == [(2,), (3,)]
    with pytest.raises(either.ProgrammingError):
        either.executemany("INSERT INTO t (a) VALUES (?)", [(7,), (), (8,)])
    assert either.execute("SELECT a FROM t").fetchall() == [(1,), (7,)]


def test_executemany_of_nothing_begins_a_transaction(either):
    either.isolation_level = "DEFERRED"
    either.executemany("INSERT INTO t (a) VALUES (?)", iter([]))
    assert either.in_transaction
    either.rollback()
    with pytest.raises(either.ProgrammingError):
        either.executemany("INSERT INTO t (a) VALUES (?)", iter([()]))
    assert either.in_transaction


def test_rows_are_stepped_as_they_are_asked_for(either):
    """An endless SELECT shows its first rows; an error comes with the row before the one that fails."""
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    cursor = either.execute(endless)
    assert [next(cursor), cursor.fetchmany(2), cursor.fetchone()] == [(1,), [(2,), (3,)], (4,)]
    cursor.close()
    failing = "SELECT abs(v) FROM (SELECT 1 AS v UNION ALL SELECT 2 UNION ALL SELECT -9223372036854775808)"
    cursor = either.execute(failing)
    assert cursor.fetchone() == (1,)
    with pytest.raises(either.OperationalError, match="integer overflow"):
        cursor.fetchone()
    assert cursor.fetchone() is None


def test_a_row_that_python_cannot_show_is_shown_again(either):
    """It was not in UTF-8: the application takes it as bytes, and goes on."""
    rows = "SELECT 'a' UNION ALL SELECT CAST(x'FF41' AS TEXT) UNION ALL SELECT 'b' UNION ALL SELECT 'c'"
    for before, ask in ((1, "fetchone"), (0, "fetchall"), (1, "fetchmany"), (1, "__next__")):
        either.text_factory = str
        cursor = either.execute(rows)
        assert cursor.fetchmany(before) == [("a",)] if before else True
        for _ in range(2):
            with pytest.raises(either.OperationalError, match="Could not decode to UTF-8"):
                getattr(cursor, ask)()
        either.text_factory = bytes
        assert cursor.fetchall() == [(b"\xffA",), (b"b",), (b"c",)]
        assert cursor.fetchone() is None


def test_a_snapshot_ends_with_the_last_row(path, either):
    """A cursor that is kept after its last row must not keep others from being seen."""
    either.execute("INSERT INTO t VALUES (1, 1)")
    kept = either.execute("SELECT count(*) FROM t")
    assert kept.fetchone() == (1,)
    other = sqlite3.connect(path)
    other.execute("INSERT INTO t VALUES (2, 1)")
    other.commit()
    other.close()
    assert either.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_a_subclass_makes_its_own_cursors(path):
    class Upper(manyhands.Cursor):
        def fetchone(self):
            (text,) = super().fetchone()
            return text.upper()

    class Loud(manyhands.Connection):
        def cursor(self):
            return super().cursor(Upper)

    connection = manyhands.connect(path, factory=Loud)
    assert connection.execute("SELECT 'a'").fetchone() == "A"
    connection.close()


def test_a_batch_is_all_or_none_and_returns_what_each_did(connection):
    connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER CHECK (cents >= 0))")
    connection.execute("INSERT INTO account VALUES (1, 500), (2, 0)")
    move = [
        ("UPDATE account SET cents = cents + ? WHERE id = 2", (300,)),
        ("UPDATE account SET cents = cents - ? WHERE id = 1 RETURNING cents", (300,)),
    ]
    first, second = connection.batch(move)
    assert (first.rowcount, second.description[0][0], second.fetchall()) == (1, "cents", [(200,)])
    with pytest.raises(manyhands.IntegrityError, match="statement 1 of the batch") as caught:
        connection.batch(move)
    assert caught.value.sqlite_errorname == "SQLITE_CONSTRAINT_CHECK"
    assert caught.value.statement_index == 1
    assert connection.execute("SELECT cents FROM account").fetchall() == [(200,), (300,)]
    (total,) = connection.batch(["SELECT sum(cents) FROM account"])
    assert total.fetchone() == (500,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"durability": "off"},
        {"durability_min": "off"},
        {"journal": "delete"},
        {"transaction_mode": "BEGIN"},
        {"isolation_level": "never"},
        {"autocommit": 2},
    ],
)
def test_wrong_choices_are_refused(path, wrong):
    with pytest.raises(ValueError):
        manyhands.connect(path, **wrong)
    assert not path.exists()


def test_a_forgotten_connection_warns_and_closes(path):
    connection = manyhands.connect(path)
    connection.execute("CREATE TABLE t (v)")
    with pytest.warns(ResourceWarning, match="unclosed"):
        del connection
        gc.collect()


def test_close_leaves_one_plain_file(path):
    connections = [manyhands.connect(path) for _ in range(3)]
    connections[0].execute("CREATE TABLE t (v)")
    connections[1].execute("INSERT INTO t VALUES (1)")
    connections[1].commit()
    for connection in connections:
        connection.close()
    left = {file.name for file in path.parent.iterdir()}
    assert left == {"app.db"}
    plain = sqlite3.connect(path)
    assert plain.execute("SELECT v FROM t").fetchall() == [(1,)]
    plain.close()


def test_what_distributions_build_into_sqlite(path):
    connection = manyhands.connect(path)
    row = connection.execute("SELECT floor(1.5), sqrt(2.25), mod(7, 4), round(pi(), 4)").fetchone()
    assert row == (1, 1.5, 3, 3.1416)
    many = range(100_000)
    assert connection.execute(f"SELECT {'+'.join('?' * 1000)}", [1] * 1000).fetchone() == (1000,)
    rows = ",".join("(?)" for _ in many)
    connection.execute("CREATE TABLE t (n)")
    connection.execute(f"INSERT INTO t VALUES {rows}", list(many))
    connection.commit()
    assert connection.execute("SELECT count(*), sum(n) FROM t").fetchone() == (len(many), sum(many))
    connection.close()


ERRORS = [name for name in dir(sqlite3) if isinstance(getattr(sqlite3, name), type)]
ERRORS = [name for name in ERRORS if issubclass(getattr(sqlite3, name), Exception)]


@pytest.mark.parametrize("name", ERRORS)
def test_each_exception_is_one_of_sqlite3_too(name):
    """Programs that change their URL only go on catching what they caught."""
    ours, theirs = getattr(manyhands, name), getattr(sqlite3, name)
    assert issubclass(ours, theirs) and ours is not theirs
    assert getattr(manyhands.Connection, name) is ours
    copy = pickle.loads(pickle.dumps(ours("text")))
    assert (type(copy), str(copy)) == (ours, "text")


def test_what_is_raised_is_caught_as_an_error_of_sqlite3(path):
    with closing(manyhands.connect(path)) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            connection.execute("SELECT * FROM missing")


def test_without_the_standard_module_the_exceptions_are_there_all_the_same():
    """Some interpreters are built without it."""
    program = """
        import sys
        sys.modules["_sqlite3"] = None
        import manyhands
        try:
            manyhands.connect(":memory:").execute("SELECT * FROM missing")
        except manyhands.DatabaseError as error:
            print(*(base.__name__ for base in type(error).__mro__), error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    bases = "OperationalError DatabaseError Error Exception BaseException object"
    assert done.stdout.strip() == f"{bases} no such table: missing"


@pytest.mark.parametrize("isolation_level", [None, ""])
@pytest.mark.parametrize(
    "options, timeout_ms", [({}, 5000), ({"timeout": 3}, 3000), ({"timeout": 0.2}, 200), ({"timeout": 0}, 0)]
)
@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def test_the_timeout_is_told(path, module, options, timeout_ms, isolation_level):
    with closing(module.connect(path, isolation_level=isolation_level, **options)) as connection:
        assert connection.execute("PRAGMA busy_timeout").fetchall() == [(timeout_ms,)]
        cursor = connection.execute("PRAGMA busy_timeout = 700")
        assert (cursor.fetchall(), cursor.description[0][0]) == ([(700,)], "timeout")
        cursor = connection.execute("PRAGMA busy_timeout")
        assert (cursor.fetchall(), cursor.description[0][0]) == ([(700,)], "timeout")
        cursor = connection.execute("PRAGMA wal_autocheckpoint")
        assert (cursor.fetchall(), cursor.description[0][0]) == ([(1000,)], "wal_autocheckpoint")


@pytest.mark.parametrize("module", [manyhands, sqlite3], ids=["manyhands", "sqlite3"])
def test_a_row_shows_itself_as_in_sqlite3(module):
    with closing(module.connect(":memory:")) as connection:
        connection.row_factory = module.Row
        row = connection.execute("SELECT 1 AS a").fetchone()
        assert re.fullmatch(rf"<{module.__name__}\.Row object at 0x[0-9a-f]+>", repr(row))
