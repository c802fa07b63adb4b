"""Transactions: what begins them, what they see, and what happens when others write meanwhile."""

import sqlite3
import subprocess
import sys
import threading

import pytest

import manyhands


@pytest.fixture
def account(path):
    with manyhands.connect(path) as connection:
        connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER)")
        connection.execute("INSERT INTO account VALUES (1, 1000), (2, 0)")
    connection.close()
    return path


def connect(path, **options):
    return manyhands.connect(path, isolation_level=None, **options)


def cents(connection, number=1):
    return connection.execute("SELECT cents FROM account WHERE id = ?", (number,)).fetchone()[0]


def test_a_conflict_says_what_was_seen_and_what_is_so_now(account):
    one, other = connect(account), connect(account)
    with pytest.raises(manyhands.ConflictError) as caught:
        with one.transaction("optimistic"):
            seen = cents(one)
            other.execute("UPDATE account SET cents = 960 WHERE id = 1")
            one.execute("UPDATE account SET cents = ? WHERE id = 1", (seen * 2,))
    error = caught.value
    assert isinstance(error, manyhands.OperationalError)
    assert (error.number, error.seen, error.now, error.tables) == (1, "(1000)", "(960)", ["account"])
    assert "SELECT cents FROM account" in error.statement
    assert error.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT" and not error.outcome_unknown
    assert (one.in_transaction, cents(one)) == (False, 960)
    one.close()
    other.close()


def test_run_calls_again_after_a_conflict_and_no_more_than_once(account):
    one, other = connect(account), connect(account)
    tries = []

    def double(connection):
        seen = cents(connection)
        if not tries:
            other.execute("UPDATE account SET cents = 960 WHERE id = 1")
        tries.append(seen)
        connection.execute("UPDATE account SET cents = ? WHERE id = 1", (seen * 2,))
        return "done"

    assert (one.run(double), tries, cents(one)) == ("done", [1000, 960], 1920)
    one.close()
    other.close()


def test_what_the_function_raises_rolls_back_and_is_not_retried(account):
    connection = connect(account)
    tries = []

    def fail(connection):
        tries.append(connection.execute("UPDATE account SET cents = 0"))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        connection.run(fail)
    assert (len(tries), connection.in_transaction, cents(connection)) == (1, False, 1000)
    connection.close()


def test_retrying_passes_arguments_and_results_on(account):
    connection = connect(account)

    @manyhands.retrying(lambda: connection)
    def move(connection, amount, *, to):
        """Moves."""
        connection.execute("UPDATE account SET cents = cents - ? WHERE id = 1", (amount,))
        connection.execute("UPDATE account SET cents = cents + ? WHERE id = ?", (amount, to))
        return cents(connection, to)

    assert (move(300, to=2), move.__doc__) == (300, "Moves.")
    assert manyhands.retrying(connection)(cents)(1) == 700
    connection.close()


def test_threads_that_run_never_fail_and_lose_nothing(account):
    failures = []

    def work():
        connection = connect(account)
        try:
            for _ in range(20):

                def add(connection):
                    seen = cents(connection)
                    connection.execute("UPDATE account SET cents = ? WHERE id = 1", (seen + 1,))

                connection.run(add)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection = connect(account)
    assert (failures, cents(connection)) == ([], 1160)
    connection.close()


def test_counts_that_nobody_asks_for_do_not_conflict(account):
    """`rowcount` and `lastrowid` are asked of the engine when they are read, and are right after the commit."""
    one, other = connect(account), connect(account)
    with one.transaction("optimistic"):
        changed = one.execute("UPDATE account SET cents = cents + 1")
        many = one.executemany("UPDATE account SET cents = cents + ?", [(1,), (2,)])
        added = one.execute("INSERT INTO account SELECT max(id) + 1, 5 FROM account")
        other.execute("INSERT INTO account VALUES (3, 7)")
    assert (changed.rowcount, many.rowcount, added.rowcount, added.lastrowid) == (3, 6, 1, 4)
    with pytest.raises(manyhands.ConflictError):
        with one.transaction("optimistic"):
            assert one.execute("UPDATE account SET cents = cents + 1").rowcount == 4
            other.execute("DELETE FROM account WHERE id = 4")
    one.close()
    assert changed.rowcount == 3
    other.close()


def test_a_row_count_that_was_not_read_can_be_read_after_close(account):
    connection = connect(account)
    cursor = connection.execute("UPDATE account SET cents = 1")
    connection.close()
    assert (cursor.rowcount, cursor.lastrowid) == (2, 0)


def test_a_transaction_that_only_reads_refuses_to_write(account):
    connection = connect(account)
    with connection.transaction("read"):
        assert cents(connection) == 1000
        with pytest.raises(manyhands.OperationalError, match="only reads"):
            connection.execute("DELETE FROM account")
    with pytest.raises(ValueError, match="mode must be"):
        with connection.transaction("exclusive"):
            pass
    connection.close()


def test_a_transaction_that_cannot_commit_is_rolled_back(path):
    connection = connect(path, durability="normal")
    connection.executescript(
        "PRAGMA foreign_keys = ON;"
        "CREATE TABLE p (id INTEGER PRIMARY KEY);"
        "CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED);"
    )
    with pytest.raises(manyhands.IntegrityError, match="FOREIGN KEY"):
        with connection.transaction():
            connection.execute("INSERT INTO c VALUES (1)")
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM c").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_synchronous_is_each_connections_own(path, durability):
    """It raised with `durability="normal"`, and had no effect with `full`."""

    def level(connection):
        return connection.execute("PRAGMA synchronous").fetchone()

    one, other = connect(path, durability=durability), connect(path, durability=durability)
    before = level(other)
    one.execute("CREATE TABLE t (a)")
    for argument, answer in {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}.items():
        assert one.execute(f"PRAGMA synchronous = {argument}").fetchall() == []
        assert level(one) == (answer,) and level(other) == before
        one.execute("BEGIN")
        one.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(manyhands.OperationalError, match="may not be changed inside a transaction"):
            one.execute("PRAGMA synchronous = NORMAL")
        one.commit()
    one.close()
    # The next one gets what it was opened with, kept connections too.
    one = connect(path, durability=durability)
    assert level(one) == before
    one.close()
    other.close()


def test_a_database_keeps_its_journal_mode_where_it_is_told_to(path):
    """To open it switches it to WAL, which its other users may not expect."""
    stock = sqlite3.connect(path)
    stock.execute("CREATE TABLE t (a)")
    connection = connect(path, journal="keep")
    connection.execute("INSERT INTO t VALUES (1)")
    assert stock.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)
    connection.close()
    connect(path).close()
    assert stock.execute("SELECT count(*) FROM t").fetchone() == (1,)
    assert stock.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    stock.close()


@pytest.mark.parametrize("mode", ["auto", "immediate"])
def test_64_threads_with_implicit_transactions_meet_no_error(path, mode):
    """Read, compute, write back, commit: with sqlite3 this fails within milliseconds."""
    setup = manyhands.connect(path)
    setup.execute("CREATE TABLE counter (n INTEGER)")
    setup.execute("INSERT INTO counter VALUES (0)")
    setup.commit()
    failures, barrier = [], threading.Barrier(64)

    def work():
        connection = manyhands.connect(path, transaction_mode=mode, timeout=60)
        try:
            barrier.wait()
            for _ in range(5):
                connection.execute("UPDATE counter SET n = n")
                (n,) = connection.execute("SELECT n FROM counter").fetchone()
                connection.execute("UPDATE counter SET n = ?", (n + 1,))
                connection.commit()
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert setup.execute("SELECT n FROM counter").fetchone() == (320,)
    setup.close()


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_cursors_stay_open_when_the_transaction_ends(path, ending):
    connection = manyhands.connect(path)
    connection.execute("CREATE TABLE t (v)")
    connection.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(300)])
    connection.commit()
    seen = []
    for (value,) in connection.execute("SELECT v FROM t ORDER BY v"):
        seen.append(value)
        connection.execute("UPDATE t SET v = v + 1000 WHERE v = ?", (value,))
        getattr(connection, ending)()
    assert seen[:300] == list(range(300))
    connection.close()


def test_autocommit_false_always_has_a_transaction(path):
    connection = manyhands.connect(path, autocommit=False)
    assert connection.in_transaction
    connection.execute("CREATE TABLE t (v)")
    connection.commit()
    connection.execute("INSERT INTO t VALUES (1)")
    connection.rollback()
    assert connection.in_transaction
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)
    connection.autocommit = True
    assert not connection.in_transaction
    connection.close()


def test_a_transaction_that_is_always_open_does_not_always_hold_the_turn(path):
    with pytest.raises(ValueError, match="use transaction_mode='auto'"):
        manyhands.connect(path, autocommit=False, transaction_mode="immediate")
    connection = manyhands.connect(path, transaction_mode="immediate")
    with pytest.raises(ValueError, match="use transaction_mode='auto'"):
        connection.autocommit = False
    assert connection.autocommit == manyhands.LEGACY_TRANSACTION_CONTROL
    assert not connection.in_transaction
    connection.close()


# The standard module has the attribute from Python 3.12 on.
AUTOCOMMIT = [manyhands, sqlite3] if sys.version_info >= (3, 12) else [manyhands]


@pytest.mark.parametrize("module", AUTOCOMMIT)
def test_autocommit_true_leaves_transactions_to_sql(path, module):
    connection = module.connect(path, autocommit=True)
    connection.execute("CREATE TABLE t (v)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (1)")
    for end in (connection.commit, connection.rollback):
        end()
        assert connection.in_transaction
    connection.isolation_level = None
    assert connection.in_transaction
    connection.execute("COMMIT")
    assert connection.execute("SELECT v FROM t").fetchall() == [(1,)]
    connection.close()
    with pytest.raises(module.ProgrammingError, match="closed"):
        connection.commit()


def test_units_of_work_end_with_autocommit_true(account):
    connection = manyhands.connect(account, autocommit=True)
    with connection.transaction():
        connection.execute("UPDATE account SET cents = 1 WHERE id = 1")
    assert (connection.in_transaction, cents(connection)) == (False, 1)
    with pytest.raises(KeyError), connection.transaction("immediate"):
        connection.execute("UPDATE account SET cents = 2 WHERE id = 1")
        raise KeyError
    assert (connection.in_transaction, cents(connection)) == (False, 1)
    connection.run(lambda it: it.execute("UPDATE account SET cents = 3 WHERE id = 1"))
    assert (connection.in_transaction, cents(connection)) == (False, 3)
    connection.close()


@pytest.mark.parametrize("module", AUTOCOMMIT)
@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_what_sql_has_ended_with_autocommit_false_cannot_be_ended_again(path, module, how):
    connection = module.connect(path, autocommit=False)
    connection.execute("CREATE TABLE t (v PRIMARY KEY)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    with pytest.raises(module.IntegrityError):
        connection.execute("INSERT OR ROLLBACK INTO t VALUES (1)")
    for _ in range(2):
        with pytest.raises(module.OperationalError, match=f"cannot {how} - no transaction is active"):
            getattr(connection, how)()
        assert not connection.in_transaction
    connection.isolation_level = ""
    connection.autocommit = False
    assert connection.in_transaction
    getattr(connection, how)()
    connection.isolation_level = None
    assert connection.in_transaction
    connection.close()


def test_after_a_conflict_with_autocommit_false_the_next_transaction_is_open(account):
    """The program did not end it, and would work without one from there on."""
    one = manyhands.connect(account, autocommit=False, transaction_mode="optimistic")
    other = connect(account)
    seen = cents(one)
    other.execute("UPDATE account SET cents = 960 WHERE id = 1")
    one.execute("UPDATE account SET cents = ? WHERE id = 1", (seen * 2,))
    with pytest.raises(manyhands.ConflictError):
        one.commit()
    assert one.in_transaction
    one.rollback()
    assert (one.in_transaction, cents(one)) == (True, 960)
    one.close()
    other.close()


SIGINT = """
import os, signal, sys, threading, time
import manyhands
path, what = sys.argv[1:]
holder = manyhands.connect(path, isolation_level=None)
connection = manyhands.connect(path, isolation_level=None)
holder.execute("BEGIN IMMEDIATE")
# A shell that starts a program in the background lets it ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    if what == "wait":
        connection.execute("INSERT INTO account VALUES (9, 9)")
    else:
        connection.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
            " SELECT max(i) FROM n").fetchone()
except KeyboardInterrupt:
    assert time.monotonic() - began < 10
    holder.rollback()
    connection.execute("INSERT INTO account VALUES (8, 8)")
    print(connection.execute("SELECT id FROM account WHERE id > 2").fetchall())
connection.close()
holder.close()
"""


@pytest.mark.parametrize("what", ["wait", "step"])
def test_control_c_ends_a_wait_and_a_long_statement(account, what):
    done = subprocess.run(
        [sys.executable, "-c", SIGINT, str(account), what], capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[(8,)]\n", "", 0)


HANDLER = """
import os, signal, sys, threading
import manyhands
heard = []
signal.signal(signal.SIGUSR1, lambda *_: (heard.append(1), holder.rollback()))
holder = manyhands.connect(sys.argv[1], isolation_level=None)
connection = manyhands.connect(sys.argv[1], isolation_level=None)
holder.execute("BEGIN IMMEDIATE")
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
connection.execute("INSERT INTO account VALUES (9, 9)")
print(heard)
connection.close()
holder.close()
"""


def test_a_signal_handler_runs_during_a_wait_and_may_use_other_connections(account):
    done = subprocess.run(
        [sys.executable, "-c", HANDLER, str(account)], capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[1]\n", "", 0)


def test_what_does_not_compile_begins_no_snapshot(account):
    one, other = connect(account, timeout=0), connect(account)
    one.execute("BEGIN")
    with pytest.raises(manyhands.OperationalError, match="syntax error"):
        one.execute("SELEC 1")
    other.execute("UPDATE account SET cents = 960 WHERE id = 1")
    one.execute("UPDATE account SET cents = cents * 2 WHERE id = 1")
    one.execute("COMMIT")
    assert cents(one) == 1920
    one.close()
    other.close()


@pytest.mark.parametrize("how", ["timeout", "interrupt"])
def test_a_commit_that_ends_while_it_waits_can_be_tried_again(account, how):
    """As in `sqlite3`, the transaction is still open."""
    one, other = connect(account, timeout=0.3 if how == "timeout" else 30), connect(account)
    one.execute("BEGIN")
    one.execute("UPDATE account SET cents = 7 WHERE id = 2")
    other.execute("BEGIN IMMEDIATE")
    if how == "interrupt":
        threading.Timer(0.1, one.interrupt).start()
    with pytest.raises(manyhands.OperationalError, match="nothing was written"):
        one.commit()
    assert one.in_transaction
    other.commit()
    one.commit()
    assert not one.in_transaction and cents(one, 2) == 7
    one.close()
    other.close()


def test_the_pragmas_of_waiting_and_of_checkpoints(account):
    """docs/python-compat.md says so, too."""
    one, other = connect(account), connect(account)

    def ask(pragma):
        return one.execute(f"PRAGMA {pragma}").fetchone()[0]

    assert (ask("busy_timeout = 200"), ask("busy_timeout")) == (200, 200)
    assert (ask("wal_autocheckpoint = 10"), ask("wal_autocheckpoint")) == (10, 10)
    with other.transaction("immediate"):
        with pytest.raises(manyhands.LockTimeout, match="timed out after 0.2 s waiting for the turn"):
            one.execute("UPDATE account SET cents = 7 WHERE id = 2")
    one.execute("CREATE TABLE page (bytes)")
    for _ in range(50):
        one.execute("INSERT INTO page VALUES (zeroblob(3000))")
    # Not after 10 pages: the file would begin again.
    assert account.with_name("app.db-wal").stat().st_size > 50 * 4096
    one.close()
    other.close()


def test_a_transaction_that_fails_where_names_are_asked_for(path):
    """A statement that does not compile takes the turn, to say so. Where that does not come, it is not executed."""
    connection, other = manyhands.connect(path, timeout=0.1), manyhands.connect(path, isolation_level=None)
    other.execute("CREATE TABLE single (a)")
    connection.execute("BEGIN")
    connection.execute("INSERT INTO single VALUES (?)", (1,))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(manyhands.LockTimeout):
        connection.execute("INSERT INTO later VALUES (:a)", {"a": 1})
    assert connection.in_transaction
    other.execute("CREATE TABLE later (a)")
    other.execute("COMMIT")
    connection.commit()
    assert other.execute("SELECT count(*) FROM later").fetchone() == (0,)
    assert other.execute("SELECT count(*) FROM single").fetchone() == (1,)
    connection.close()
    other.close()
