"""Many hands: processes, threads, and the standard module on the same file at the same time."""

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest

import manyhands

PROCESSES, INSERTS = 8, 200


def insert_many(path, worker):
    connection = manyhands.connect(path, isolation_level=None, label=f"worker {worker}")
    for number in range(INSERTS):
        connection.execute("INSERT INTO hit (worker, number) VALUES (?, ?)", (worker, number))
    connection.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_lose_nothing(path, connection, method):
    connection.execute("CREATE TABLE hit (worker, number, UNIQUE (worker, number))")
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=insert_many, args=(path, n)) for n in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    counts = connection.execute("SELECT worker, count(*) FROM hit GROUP BY worker ORDER BY worker")
    assert counts.fetchall() == [(worker, INSERTS) for worker in range(PROCESSES)]
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def use_inherited(connection, path, answers):
    try:
        connection.execute("INSERT INTO t VALUES ('by the child')")
    except manyhands.ProgrammingError as error:
        answers.put(str(error))
    connection.close()
    own = manyhands.connect(path, isolation_level=None)
    own.execute("INSERT INTO t VALUES ('by its own')")
    own.close()


def test_a_child_is_told_to_open_its_own(path, connection):
    connection.execute("CREATE TABLE t (v)")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=use_inherited, args=(connection, path, answers))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert "opened before fork()" in answers.get(timeout=5)
    connection.execute("INSERT INTO t VALUES ('by the parent')")
    assert connection.execute("SELECT v FROM t").fetchall() == [("by its own",), ("by the parent",)]


def test_threads_lose_nothing_with_and_without_connections_of_their_own(path, connection):
    connection.execute("CREATE TABLE counter (n)")
    connection.execute("INSERT INTO counter VALUES (0)")
    failures = []

    def count(connection):
        try:
            for _ in range(100):
                connection.execute("UPDATE counter SET n = n + 1")
        except BaseException as error:
            failures.append(error)

    own = [manyhands.connect(path, isolation_level=None, check_same_thread=False) for _ in range(4)]
    threads = [threading.Thread(target=count, args=(each,)) for each in [*own, connection, connection]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in own:
        each.close()
    assert failures == []
    assert connection.execute("SELECT n FROM counter").fetchone() == (600,)


def test_the_standard_module_writes_the_same_file_in_the_same_process(path, connection):
    """Its POSIX locks belong to the process, so that a second copy of SQLite would pass or drop them;
    Manyhands takes locks that the kernel keeps apart."""
    connection.execute("CREATE TABLE t (who, number, UNIQUE (who, number))")
    failures = []

    def write(open_connection, who):
        try:
            for number in range(100):
                other = open_connection()
                other.execute("INSERT INTO t VALUES (?, ?)", (who, number))
                assert other.execute("SELECT count(*) FROM t WHERE who = ?", (who,)).fetchone() == (number + 1,)
                if number % 10 == 0:  # Closing is what drops POSIX locks.
                    other.close()
                    keep.pop(who)
        except BaseException as error:
            failures.append((who, error))
        finally:
            if who in keep:
                keep.pop(who).close()

    keep = {}

    def kept(who, open_connection):
        def get():
            if who not in keep:
                keep[who] = open_connection()
            return keep[who]
        return get

    def stock():
        return sqlite3.connect(path, timeout=30, isolation_level=None)

    def ours():
        return manyhands.connect(path, isolation_level=None)

    threads = [
        threading.Thread(target=write, args=(kept(who, open_connection), who))
        for who, open_connection in [("stock 1", stock), ("stock 2", stock), ("ours 1", ours), ("ours 2", ours)]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (400,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_each_respects_a_write_lock_of_the_other_in_the_same_process(path, connection):
    connection.execute("CREATE TABLE t (v)")
    stock = sqlite3.connect(path, timeout=0, isolation_level=None)
    with connection.transaction("immediate"):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            stock.execute("BEGIN IMMEDIATE")
    stock.execute("BEGIN IMMEDIATE")
    impatient = manyhands.connect(path, timeout=0.2, isolation_level=None)
    with pytest.raises(manyhands.LockTimeout) as caught:
        impatient.execute("INSERT INTO t VALUES (1)")
    assert str(caught.value) == "database is locked"
    assert "another SQLite program" in caught.value.reason
    stock.execute("ROLLBACK")
    impatient.execute("INSERT INTO t VALUES (1)")
    impatient.close()
    stock.close()


def test_a_reader_that_does_not_end_is_named(path, connection):
    connection.execute("CREATE TABLE t (v)")
    stock = sqlite3.connect(path, isolation_level=None)
    stock.execute("BEGIN")
    stock.execute("SELECT * FROM t").fetchall()
    limited = manyhands.connect(path, timeout=0.3, isolation_level=None, wal_bytes_limit=5 << 20)
    with pytest.raises(manyhands.LockTimeout) as caught:
        for _ in range(100):
            limited.execute("INSERT INTO t VALUES (zeroblob(200000))")
    assert str(caught.value) == "database is locked"
    assert f"process {os.getpid()} (" in caught.value.reason
    assert "another SQLite program, has been reading for" in caught.value.reason
    stock.execute("COMMIT")
    for _ in range(50):
        limited.execute("INSERT INTO t VALUES (zeroblob(200000))")
    assert os.path.getsize(f"{path}-wal") < 7 << 20
    limited.close()
    stock.close()


def hold_the_turn(path, held, release):
    connection = manyhands.connect(path, label="importer")
    with connection.transaction("immediate"):
        held.set()
        release.wait(30)
    connection.close()


@pytest.mark.parametrize("timeout", [0, 0.3])
def test_a_timeout_names_who_holds_the_turn(path, connection, timeout):
    """In its attributes: programs such as diskcache compare the text with "database is locked"."""
    connection.execute("CREATE TABLE t (v)")
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    holder = context.Process(target=hold_the_turn, args=(path, held, release))
    holder.start()
    assert held.wait(30)
    impatient = manyhands.connect(path, timeout=timeout, isolation_level=None)
    try:
        with pytest.raises(manyhands.LockTimeout) as caught:
            impatient.execute("INSERT INTO t VALUES (1)")
    finally:
        release.set()
        holder.join(30)
        impatient.close()
    assert (str(caught.value), caught.value.args) == ("database is locked", ("database is locked",))
    assert caught.value.reason.startswith(f"timed out after {timeout:.1f} s waiting for the turn to write")
    assert f"process {holder.pid} (importer) has been writing for" in caught.value.reason
    assert caught.value.__notes__ == [caught.value.reason]
    assert caught.value.sqlite_errorname == "SQLITE_BUSY"
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_statement_can_be_interrupted_and_the_interpreter_runs_meanwhile(connection):
    """Also shows that the GIL is released: this thread could not interrupt otherwise."""
    # Half a minute, rather than for ever: a test that goes wrong has to end.
    long = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000)"
        " SELECT max(i) FROM n"
    )
    caught = []

    def run():
        try:
            connection.execute(long)
        except manyhands.OperationalError as error:
            caught.append(error.sqlite_errorname)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 10
    # One that comes before the statement began ends nothing, so it is repeated.
    while thread.is_alive() and time.monotonic() < deadline:
        connection.interrupt()
        thread.join(0.05)
    assert caught == ["SQLITE_INTERRUPT"]
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_children_forked_while_threads_write_open_their_own(path, connection):
    """A child has only the thread that forked; a lock that another one held stays locked in it."""
    connection.execute("CREATE TABLE hit (worker, number)")
    stop = threading.Event()

    def write():
        own = manyhands.connect(path, isolation_level=None)
        while not stop.is_set():
            own.execute("INSERT INTO hit VALUES (-1, 0)")
        own.close()

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    codes = []
    try:
        for child_number in range(10):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    own = manyhands.connect(path, timeout=10, isolation_level=None)
                    own.execute("INSERT INTO hit VALUES (?, 0)", (child_number,))
                    own.close()
                    code = 0
                finally:
                    os._exit(code)
            deadline = time.monotonic() + 20
            done, status = os.waitpid(child, os.WNOHANG)
            while not done and time.monotonic() < deadline:
                time.sleep(0.005)
                done, status = os.waitpid(child, os.WNOHANG)
            if not done:
                os.kill(child, 9)
                _, status = os.waitpid(child, 0)
            codes.append(status)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 10
    assert connection.execute("SELECT count(*) FROM hit WHERE worker >= 0").fetchone() == (10,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def make_and_hold(path, ready, done):
    connection = manyhands.connect(path)
    connection.execute("CREATE TABLE old (n)")
    ready.set()
    done.wait(60)
    connection.close()


def test_a_deleted_database_is_not_in_the_way_of_the_next(tmp_path):
    # A process keeps a database that it has closed for a while, if another one has it open. When both were done
    # with it and it was deleted, the kept connection's locks said that the next one at its path was in use.
    path = str(tmp_path / "again.db")
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=make_and_hold, args=(path, ready, done))
    other.start()
    assert ready.wait(60)
    first = manyhands.connect(path, timeout=0)
    first.execute("INSERT INTO old VALUES (1)")
    first.commit()
    first.close()
    done.set()
    other.join(60)
    os.remove(path)

    one, two = (manyhands.connect(path, timeout=0) for _ in range(2))
    assert one.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    one.execute("CREATE TABLE new (n)")
    one.execute("INSERT INTO new VALUES (1)")
    with pytest.raises(manyhands.OperationalError, match="database is locked"):
        two.execute("INSERT INTO new VALUES (2)")
    one.commit()
    assert two.execute("SELECT n FROM new").fetchall() == [(1,)]
    one.close()
    two.close()
def test_what_a_cursor_has_counted_may_be_read_by_another_thread(connection):
    """As with sqlite3: asyncio adapters execute in a thread, and read these in the event loop."""
    connection.execute("CREATE TABLE hit (worker INTEGER PRIMARY KEY, number)")
    connection.execute("BEGIN")
    cursor = connection.execute("INSERT INTO hit (number) VALUES (1)")
    seen = []

    def read():
        seen.extend((cursor.rowcount, cursor.lastrowid, cursor.description, connection.in_transaction))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert seen == [1, 1, None, True]


def test_a_timeout_names_the_thread_of_this_process_that_holds_the_turn(path, connection):
    connection.execute("CREATE TABLE t (v)")
    held, release = threading.Event(), threading.Event()

    def hold():
        holder = manyhands.connect(path)
        with holder.transaction("immediate"):
            holder.execute("INSERT INTO t VALUES (7)")
            held.set()
            release.wait(30)
        holder.close()

    thread = threading.Thread(target=hold, name="night import")
    thread.start()
    assert held.wait(30)
    impatient = manyhands.connect(path, timeout=0, isolation_level=None)
    with pytest.raises(manyhands.LockTimeout) as caught:
        impatient.execute("INSERT INTO t VALUES (1)")
    release.set()
    thread.join()
    impatient.close()
    assert f"thread {thread.native_id} of this process has been writing for" in caught.value.reason
    assert "executed `INSERT INTO t VALUES (7)` last" in caught.value.reason
    assert "(the thread is 'night import')" in caught.value.reason


def test_two_connections_of_a_thread_that_wait_for_each_other(path, connection):
    """Below gevent all tasks are one thread, which stands still while one of them waits for another: for 5 s, as with
    sqlite3, and not for as long as the program was ready to wait for others."""
    connection.execute("CREATE TABLE t (v)")
    holder = manyhands.connect(path, isolation_level=None)
    patient = manyhands.connect(path, isolation_level=None, timeout=60)
    holder.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(manyhands.LockTimeout) as caught:
        patient.execute("BEGIN IMMEDIATE")
    assert time.monotonic() - began < 30
    assert f"another connection of the very thread that waits, {threading.get_native_id()}," in caught.value.reason
    assert "executed `BEGIN IMMEDIATE` last" in caught.value.reason
    holder.close()
    patient.close()


def test_the_first_write_of_a_new_database_leaves_attached_ones_as_they_are(path, tmp_path):
    """It is switched to WAL mode then, and was so with all that was attached: a database in another mode too, and
    itself, for which it then waited."""
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as stock:
        stock.execute("CREATE TABLE t (n)")
    with closing(manyhands.connect(path, isolation_level=None)) as connection:
        connection.execute(f"ATTACH '{other}' AS other")
        connection.execute(f"ATTACH '{path}' AS itself")
        connection.execute("CREATE TABLE itself.t (n)")
        connection.execute("INSERT INTO main.t VALUES (1)")
        assert connection.execute("PRAGMA other.journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA main.journal_mode").fetchone() == ("wal",)
    with closing(sqlite3.connect(other)) as stock:
        assert stock.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_signal_handler_uses_other_connections_while_one_waits(path, connection):
    """docs/python-compat.md says what it can do with the one that waits: it would wait for itself."""
    connection.execute("CREATE TABLE t (v)")
    waits = manyhands.connect(path, isolation_level=None, timeout=30)
    told = []

    def handle(number, frame):
        try:
            waits.commit()
        except manyhands.ProgrammingError:
            pass
        else:
            # It does not wait yet.
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            return
        with pytest.raises(manyhands.ProgrammingError):
            waits.close()
        told.append(connection.execute("SELECT count(*) FROM t").fetchone())
        connection.execute("COMMIT")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        connection.execute("BEGIN IMMEDIATE")
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        waits.execute("INSERT INTO t VALUES (1)")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert told == [(0,)]
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)
    waits.close()
