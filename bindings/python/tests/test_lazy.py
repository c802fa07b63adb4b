"""A write that cannot fail is lazy until its transaction commits or goes on; only the clock can tell."""

import fcntl
import os
import random
import sqlite3
import struct
import threading

import pytest

import manyhands

SCHEMA = """
    CREATE TABLE plain (a, b);
    CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT, a NOT NULL);
    CREATE TABLE single (a UNIQUE, b);
    CREATE TABLE keyed (k TEXT PRIMARY KEY, n INTEGER NOT NULL);
    CREATE TABLE counted (a);
    CREATE TRIGGER counts AFTER INSERT ON counted BEGIN INSERT INTO plain VALUES (new.a, 'counted'); END;"""


@pytest.fixture
def path(path):
    connection = manyhands.connect(path)
    connection.executescript(SCHEMA)
    connection.close()
    return path


def connect(path, **options):
    """A connection that knows its statement already."""
    connection = manyhands.connect(path, **options)
    connection.execute("INSERT INTO plain VALUES (?, ?)", (0, 0))
    connection.commit()
    return connection


def insert(connection, value):
    return connection.execute("INSERT INTO plain VALUES (?, ?)", (value, 0))


def rows(path):
    with sqlite3.connect(path) as stock:
        found = [row[0] for row in stock.execute("SELECT a FROM plain WHERE a <> 0 ORDER BY a")]
    stock.close()
    return found


def holds_a_snapshot(path):
    """Whether anybody reads, as the locks of the wal-index say: then something was executed."""
    F_OFD_GETLK, READ_LOCKS, COUNT = 36, 123, 5
    with open(f"{path}-shm", "rb") as shm:
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, READ_LOCKS, COUNT, 0)
        return struct.unpack("hhqqi4x", fcntl.fcntl(shm, F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK


def test_one_that_fails_after_all_fails_before_the_parameters_of_the_next(path):
    keeper, connection = connect(path), connect(path)
    insert(connection, 1)
    keeper.execute("DROP TABLE plain")
    keeper.commit()
    with pytest.raises(manyhands.OperationalError, match="no such table: plain"):
        connection.execute("INSERT INTO plain VALUES (?, ?)", (2,))
    keeper.close()
    connection.close()


def test_an_insert_alone_is_executed_at_its_commit(path):
    keeper, connection = connect(path), connect(path)
    cursor = insert(connection, 1)
    assert connection.in_transaction and not holds_a_snapshot(path)
    assert (cursor.rowcount, cursor.description, cursor.fetchall()) == (1, None, [])
    assert connection.in_transaction and not holds_a_snapshot(path) and rows(path) == []
    connection.commit()
    assert (connection.in_transaction, rows(path), cursor.lastrowid) == (False, [1], 3)
    connection.close()
    keeper.close()


@pytest.mark.parametrize(
    "goes_on",
    [
        lambda connection, cursor: cursor.lastrowid,
        lambda connection, cursor: connection.total_changes,
        lambda connection, cursor: connection.execute("SELECT 1").fetchall(),
        lambda connection, cursor: connection.execute("INSERT INTO single VALUES (2, 3)"),
        lambda connection, cursor: connection.execute("SAVEPOINT one"),
        lambda connection, cursor: connection.executemany("INSERT INTO plain VALUES (?, 1)", [(2,)]),
        lambda connection, cursor: connection.create_function("f", 0, lambda: 1),
    ],
)
def test_whatever_comes_next_it_is_executed_before(path, goes_on):
    connection = connect(path)
    cursor = insert(connection, 1)
    assert not holds_a_snapshot(path)
    goes_on(connection, cursor)
    assert connection.in_transaction
    assert connection.execute("SELECT count(*) FROM plain WHERE a = 1").fetchone() == (1,)
    assert cursor.lastrowid == 2
    connection.rollback()
    assert rows(path) == [] and not connection.in_transaction
    connection.close()


@pytest.mark.parametrize(
    "sql, values, options",
    [
        ("INSERT INTO plain VALUES (?, ?)", (1, 2), {"isolation_level": "IMMEDIATE"}),
        ("INSERT INTO plain VALUES (?, ?)", (1, 2), {"transaction_mode": "optimistic"}),
        ("INSERT INTO plain VALUES (?, ?)", (1, 2), {"timeout": 0}),
        ("INSERT INTO single VALUES (?, ?)", (1, 2), {}),
        ("INSERT INTO counted VALUES (?)", (1,), {}),
        ("UPDATE single SET a = ?", (1,), {}),
        ("DELETE FROM plain WHERE a = abs(?)", (1,), {}),
    ],
)
def test_what_is_not_certain_is_executed_at_once(path, sql, values, options):
    connection = manyhands.connect(path, **options)
    for _ in range(2):
        connection.execute(sql, values)
        assert connection.in_transaction and holds_a_snapshot(path)
        connection.rollback()
    connection.close()


@pytest.mark.parametrize(
    "sql, values, changed",
    [
        ("UPDATE plain SET b = b + ? WHERE a > ?", (1, 0), 2),
        ("UPDATE plain SET b = ? WHERE a = ?", (1, 9), 0),
        ("DELETE FROM plain WHERE a IN (?, ?)", (0, 1), 2),
        ("INSERT INTO keyed VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET n = n + excluded.n", ("x", 1), 1),
        ("INSERT OR IGNORE INTO keyed VALUES (?, ?)", ("x", 7), 0),
        ("INSERT INTO plain VALUES (?, 1), (?, 2), (5, 6)", (3, 4), 3),
    ],
)
@pytest.mark.parametrize("asks", ["before", "after", "closed", "never"])
def test_a_change_is_executed_at_its_commit_or_when_its_count_is_asked_for(path, sql, values, changed, asks):
    keeper, connection = connect(path), connect(path)
    connection.executescript("DELETE FROM plain; INSERT INTO plain VALUES (0, 0), (1, 1), (2, 2)")
    connection.execute("INSERT INTO keyed VALUES ('x', 1)")
    connection.commit()
    for _ in range(2):
        cursor = connection.execute(sql, values)
        connection.rollback()
    cursor = connection.execute(sql, values)
    assert connection.in_transaction and not holds_a_snapshot(path)
    if asks == "before":
        assert cursor.rowcount == changed and connection.in_transaction and holds_a_snapshot(path)
    elif asks == "closed":
        connection.close()
        assert cursor.rowcount == changed
        keeper.close()
        return
    total = -1 if asks == "never" else connection.total_changes
    connection.commit()
    assert not connection.in_transaction
    if asks == "after":
        assert (cursor.rowcount, connection.total_changes) == (changed, total)
    with sqlite3.connect(path) as stock:
        found = stock.execute("SELECT (SELECT sum(a * 100 + b) FROM plain), (SELECT n FROM keyed)").fetchone()
        stock.execute("DELETE FROM plain")
        stock.executescript("INSERT INTO plain VALUES (0, 0), (1, 1), (2, 2); UPDATE keyed SET n = 1")
        assert stock.execute(sql, values).rowcount == changed
        assert found == stock.execute("SELECT (SELECT sum(a * 100 + b) FROM plain), (SELECT n FROM keyed)").fetchone()
    stock.close()
    connection.close()
    keeper.close()


def test_several_are_executed_at_their_commit(path):
    keeper, connection = connect(path), connect(path)
    cursors = [insert(connection, value) for value in (1, 2, 3)]
    cursors.append(connection.execute("UPDATE plain SET a = a * ? WHERE a > ?", (10, 1)))
    cursors.append(connection.execute("DELETE FROM plain WHERE a = ?", (20,)))
    assert connection.in_transaction and not holds_a_snapshot(path)
    connection.commit()
    assert (connection.in_transaction, rows(path)) == (False, [1, 30])
    assert [cursor.rowcount for cursor in cursors] == [1, 1, 1, 2, 1]
    assert [cursor.lastrowid for cursor in cursors] == [3, 4, 5, 5, 5]
    assert connection.total_changes == 7
    connection.close()
    keeper.close()


def test_all_of_them_or_none(path):
    connection, other = connect(path, timeout=0.2), manyhands.connect(path)
    for _ in range(2):
        connection.execute("INSERT INTO numbered (a) VALUES (?)", (1,))
        connection.commit()
    insert(connection, 1)
    cursor = connection.execute("INSERT INTO numbered (a) VALUES (?)", (2,))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(manyhands.LockTimeout):
        connection.commit()
    assert connection.in_transaction
    other.execute("ALTER TABLE numbered RENAME COLUMN a TO b")
    other.commit()
    with pytest.raises(manyhands.OperationalError, match="no column named a"):
        connection.commit()
    assert (connection.in_transaction, rows(path), cursor.lastrowid) == (False, [], None)
    connection.close()
    other.close()


def test_what_loads_in_bulk_is_executed(path):
    connection = connect(path)
    for value in range(1, 65):
        insert(connection, value)
    assert not holds_a_snapshot(path)
    insert(connection, 65)
    assert holds_a_snapshot(path)
    connection.commit()
    assert rows(path) == list(range(1, 66))
    connection.close()


def test_an_error_comes_with_its_statement(path):
    connection = connect(path)
    for _ in range(2):
        connection.execute("INSERT INTO numbered (a) VALUES (?)", (1,))
        connection.commit()
    with pytest.raises(manyhands.IntegrityError, match="NOT NULL"):
        connection.execute("INSERT INTO numbered (a) VALUES (?)", (None,))
    connection.rollback()
    connection.execute("CREATE UNIQUE INDEX of_a ON plain (a)")
    with pytest.raises(manyhands.IntegrityError, match="UNIQUE"):
        insert(connection, 0)
    connection.close()


def test_a_schema_that_changed_meanwhile_fails_the_commit(path):
    connection, other = connect(path), manyhands.connect(path)
    insert(connection, 1)
    other.execute("DROP TABLE plain")
    with pytest.raises(manyhands.OperationalError, match="no such table: plain"):
        connection.commit()
    assert not connection.in_transaction
    connection.close()
    other.close()


def test_it_is_over_when_it_fails_before_what_comes_next(path):
    connection, other = connect(path), manyhands.connect(path)
    insert(connection, 1)
    other.execute("ALTER TABLE plain RENAME TO other")
    with pytest.raises(manyhands.OperationalError, match="no such table: plain"):
        connection.execute("SELECT 1")
    assert not connection.in_transaction
    assert connection.execute("SELECT 1").fetchone() == (1,)
    insert_elsewhere = "INSERT INTO other VALUES (?, ?)"
    for value in (2, 3):
        connection.execute(insert_elsewhere, (value, 0))
        connection.commit()
    other.execute("ALTER TABLE other RENAME TO plain")
    assert rows(path) == [2, 3]
    connection.close()
    other.close()


@pytest.mark.parametrize(
    "change, error",
    [
        ("CREATE UNIQUE INDEX of_a ON plain (a)", manyhands.IntegrityError),
        ("ALTER TABLE plain ADD COLUMN c", manyhands.OperationalError),
        ("DROP TABLE plain", manyhands.OperationalError),
        ("CREATE TRIGGER no BEFORE INSERT ON plain BEGIN SELECT RAISE(ABORT, 'no'); END", manyhands.IntegrityError),
    ],
)
def test_a_schema_that_others_have_changed_is_known(path, change, error):
    connection = connect(path)
    with sqlite3.connect(path) as stock:
        stock.execute(change)
    stock.close()
    with pytest.raises(error):
        insert(connection, 0)
    connection.close()


def test_a_schema_that_was_changed_beside_a_blob_is_known(path):
    connection, other = connect(path), manyhands.connect(path, isolation_level=None)
    rowid = other.execute("INSERT INTO plain VALUES (x'00', 0)").lastrowid
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TRIGGER no BEFORE INSERT ON plain BEGIN SELECT RAISE(IGNORE); END")
    with other.blobopen("plain", "a", rowid) as blob:
        blob.write(b"1")
    other.execute("COMMIT")
    assert insert(connection, 1).rowcount == 0
    connection.close()
    other.close()


def test_what_is_bound_as_null(path):
    connection = connect(path)
    for _ in range(2):
        with pytest.raises(manyhands.IntegrityError, match="NOT NULL"):
            connection.execute("INSERT INTO numbered (a) VALUES (?)", (float("nan"),))
    connection.close()


def test_a_commit_that_waits_too_long_can_be_tried_again(path):
    connection, other = connect(path, timeout=0.2), manyhands.connect(path)
    cursor = insert(connection, 1)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(manyhands.LockTimeout):
        connection.commit()
    assert connection.in_transaction
    threading.Timer(0.05, connection.interrupt).start()
    with pytest.raises(manyhands.OperationalError, match="interrupted"):
        connection.commit()
    assert connection.in_transaction
    other.rollback()
    connection.commit()
    assert (rows(path), cursor.lastrowid) == ([1], 2)
    connection.close()
    other.close()


def test_closing_drops_it(path):
    keeper, connection = connect(path), connect(path)
    cursor = insert(connection, 1)
    connection.close()
    assert (rows(path), cursor.lastrowid) == ([], 3)
    connection = connect(path)
    insert(connection, 1)
    connection.close()
    assert rows(path) == []
    keeper.close()


def test_a_child_does_not_execute_it(path):
    connection = connect(path)
    insert(connection, 1)
    child = os.fork()
    if child == 0:
        try:
            connection.commit()
        except manyhands.ProgrammingError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    connection.commit()
    assert rows(path) == [1]
    connection.close()


def test_threads_that_share_a_connection_share_it(path):
    connection = connect(path, check_same_thread=False)
    insert(connection, 1)
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(connection.execute("SELECT max(a) FROM plain")))
    thread.start()
    thread.join()
    connection.commit()
    assert (seen, rows(path)) == ([(1,)], [1])
    connection.close()


STATEMENTS = [
    ("INSERT INTO plain VALUES (?, ?)", 2),
    ("INSERT INTO plain VALUES (7, NULL)", 0),
    ("INSERT INTO plain (b) VALUES (?)", 1),
    ("INSERT INTO numbered (a) VALUES (?)", 1),
    ("INSERT INTO single VALUES (?, ?)", 2),
    ("INSERT INTO counted VALUES (?)", 1),
    ("INSERT INTO keyed VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET n = n + excluded.n", 2),
    ("INSERT OR IGNORE INTO keyed VALUES (?, ?)", 2),
    ("UPDATE keyed SET n = n + ?", 1),
    ("UPDATE plain SET b = ? WHERE a = ?", 2),
    ("UPDATE single SET b = ?", 1),
    ("DELETE FROM plain WHERE a = ?", 1),
    ("SELECT * FROM plain ORDER BY rowid", 0),
    ("SELECT changes(), total_changes()", 0),
    ("SELECT count(*), max(a) FROM numbered", 0),
    ("SAVEPOINT one", 0),
    ("ROLLBACK TO one", 0),
    ("COMMIT", 0),
]


def play(module, path, seed):
    """What a program is told that does anything in any order."""
    dice = random.Random(seed)
    told = []
    connection = module.connect(path)
    cursor = connection.cursor()

    def ask():
        what = dice.randrange(15)
        if what < 8:
            sql, count = dice.choice(STATEMENTS)
            values = [dice.choice([None, 1, 2, float("nan"), float("inf"), "x"]) for _ in range(count)]
            rows = cursor.execute(sql, values).fetchall()
            return rows, dice.random() < 0.5 and cursor.rowcount, cursor.description is None
        if what < 11:
            return connection.commit() if what < 10 else connection.rollback()
        if what == 11:
            # What was rolled back leaves gaps: ids are reserved.
            return cursor.lastrowid is None
        if what == 12:
            return connection.total_changes
        if what == 13:
            return cursor.rowcount
        return cursor.executemany("INSERT INTO plain VALUES (?, ?)", [(1, 2), (3, 4)]).rowcount

    for _ in range(40):
        try:
            answer = ask()
        except module.Error as error:
            answer = (type(error).__name__, str(error))
        told.append((answer, connection.in_transaction))
    cursor.close()
    connection.close()
    return told


@pytest.mark.parametrize("seed", range(100))
def test_any_program_is_told_the_same_as_by_sqlite3(path, tmp_path, seed):
    stock = tmp_path / "stock.db"
    with sqlite3.connect(stock) as connection:
        connection.executescript(SCHEMA)
    connection.close()
    assert play(manyhands, path, seed) == play(sqlite3, stock, seed)
    with sqlite3.connect(path) as one, sqlite3.connect(stock) as other:
        for table in ("plain", "single", "keyed"):
            ordered = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert one.execute(ordered).fetchall() == other.execute(ordered).fetchall()
    one.close()
    other.close()
