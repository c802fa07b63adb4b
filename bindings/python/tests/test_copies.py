"""Blobs in pieces, backups of live files, databases as bytes and as SQL."""

import contextlib
import gc
import multiprocessing
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

import manyhands


@pytest.fixture
def blobs(path, connection):
    connection.executescript("CREATE TABLE file (content); INSERT INTO file VALUES (zeroblob(10))")
    return connection


def in_thread(work):
    """Starts work; the result waits for it, and gives what it returned."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()

    def result():
        thread.join(30)
        assert not thread.is_alive()
        return results[0]

    return result


def insert(path):
    with contextlib.closing(manyhands.connect(path, isolation_level=None)) as connection:
        began = time.monotonic()
        connection.execute("INSERT INTO file VALUES ('other')")
        return time.monotonic() - began


def contents(path):
    with contextlib.closing(sqlite3.connect(path)) as stock:
        return [row[0] for row in stock.execute("SELECT content FROM file ORDER BY rowid")]


@pytest.mark.parametrize("ending", ["close", "with", "forgotten", "connection closed"])
def test_a_blob_that_writes_holds_the_turn(path, blobs, ending):
    blob = blobs.blobopen("file", "content", 1)
    blob.write(b"abc")
    waits = in_thread(lambda: insert(path))
    time.sleep(0.05)
    assert contents(path) == [bytes(10)]
    if ending == "close":
        blob.close()
    elif ending == "with":
        with blob:
            pass
    elif ending == "forgotten":
        del blob
        gc.collect()
    else:
        blobs.close()
    assert waits() > 0.03
    assert contents(path) == [b"abc" + bytes(7), "other"]


def test_a_blob_in_each_kind_of_transaction(path, blobs):
    for mode in ("optimistic", "immediate", None):
        with blobs.transaction(mode):
            with blobs.blobopen("file", "content", 1) as blob:
                blob[2:6:2] = b"xy"
                assert blob[2:5] == b"x\0y"
                waits = in_thread(lambda: insert(path))
        assert waits() >= 0
    assert contents(path) == [b"\0\0x\0y" + bytes(5)] + ["other"] * 3
    # Legacy transaction control: what is open is what the blob writes in.
    with contextlib.closing(manyhands.connect(path)) as legacy:
        legacy.execute("INSERT INTO file VALUES (zeroblob(3))")
        with legacy.blobopen("file", "content", legacy.execute("SELECT max(rowid) FROM file").fetchone()[0]) as blob:
            blob.write(b"new")
        legacy.rollback()
    assert b"new" not in contents(path)


def test_a_blob_that_reads_waits_for_nobody(path, blobs):
    with blobs.blobopen("file", "content", 1, readonly=True) as blob:
        insert(path)
        assert blob.read() == bytes(10)
        blobs.execute("INSERT INTO file VALUES (1)")


def use_inherited(blob, answers):
    for use in (blob.read, blob.close):
        try:
            use()
        except manyhands.ProgrammingError as error:
            answers.put(str(error))


def test_a_child_does_not_touch_an_inherited_blob(path, blobs):
    blob = blobs.blobopen("file", "content", 1)
    blob.write(b"parent")
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=use_inherited, args=(blob, answers))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert all("before fork()" in answers.get(timeout=5) for _ in range(2))
    blob.write(b"!")
    blob.close()
    assert contents(path) == [b"parent!" + bytes(3)]


def move_cents(path, stop):
    connection = manyhands.connect(path, isolation_level=None)
    while not stop.is_set():
        with connection.transaction("optimistic"):
            connection.execute("UPDATE account SET cents = cents - 1 WHERE id = 1")
            connection.execute("UPDATE account SET cents = cents + 1 WHERE id = 2")
    connection.close()


def test_a_backup_of_a_live_file_is_consistent(path, tmp_path, connection):
    connection.executescript(
        """CREATE TABLE account (id INTEGER PRIMARY KEY, cents, filler);
           INSERT INTO account VALUES (1, 1000, zeroblob(50000)), (2, 0, zeroblob(50000))"""
    )
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    movers = [context.Process(target=move_cents, args=(path, stop)) for _ in range(2)]
    for mover in movers:
        mover.start()
    try:
        for name in (":memory:", str(tmp_path / "copy.db")):
            for _ in range(20):
                with contextlib.closing(manyhands.connect(name, isolation_level=None)) as target:
                    connection.backup(target)
                    assert target.execute("SELECT sum(cents) FROM account").fetchone() == (1000,)
                    assert target.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        stop.set()
        for mover in movers:
            mover.join(30)
    assert [mover.exitcode for mover in movers] == [0, 0]


@pytest.mark.parametrize("autocommit", [True, False, manyhands.LEGACY_TRANSACTION_CONTROL])
def test_the_target_of_a_backup_belongs_to_it(tmp_path, connection, autocommit):
    connection.executescript("CREATE TABLE file (content); INSERT INTO file VALUES (zeroblob(50000))")
    copy = tmp_path / "copy.db"
    with contextlib.closing(manyhands.connect(copy, autocommit=True)) as first:
        first.execute("CREATE TABLE file (content)")
    waits = []

    def progress(status, remaining, total):
        with pytest.raises(manyhands.ProgrammingError, match="target of a backup"):
            target.execute("SELECT 1")
        if not waits:
            waits.append(in_thread(lambda: insert(copy)))
            time.sleep(0.05)
            # The source can be used: what it writes is copied too.
            connection.execute("INSERT INTO file VALUES ('late')")

    def fails(status, remaining, total):
        raise LookupError("no more")

    with contextlib.closing(manyhands.connect(copy, autocommit=autocommit)) as target:
        connection.backup(target, pages=5, progress=progress)
        assert waits[0]() > 0.03, "others wait for the target"
        target.execute("INSERT INTO file VALUES ('after')")
        if target.in_transaction:
            with pytest.raises(manyhands.OperationalError, match="in use"):
                connection.backup(target)
        target.commit()
        # One that fails leaves all as it was.
        with pytest.raises(LookupError, match="no more"):
            connection.backup(target, pages=1, progress=fails)
        rows = target.execute("SELECT content FROM file WHERE typeof(content) = 'text'").fetchall()
        assert sorted(rows) == [("after",), ("late",), ("other",)]


INTERRUPTED = """
import os, signal, sys, threading
import manyhands
holder = manyhands.connect(sys.argv[1], isolation_level=None)
holder.execute("CREATE TABLE t (v)")
holder.execute("BEGIN IMMEDIATE")
source = manyhands.connect(":memory:")
target = manyhands.connect(sys.argv[1], isolation_level=None, timeout=30)
# A shell that starts a program in the background lets it ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    source.backup(target)
except KeyboardInterrupt:
    print("interrupted")
holder.rollback()
target.execute("INSERT INTO t VALUES (1)")
print(target.execute("SELECT v FROM t").fetchall())
"""


def test_control_c_ends_a_backup_that_waits(path):
    """It is raised there, and not by the next call of the target, which succeeds."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(path)], capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n[(1,)]\n", "", 0)


def test_bytes_make_a_database_in_memory(path, connection):
    connection.executescript("CREATE TABLE file (content); INSERT INTO file VALUES (1)")
    data = connection.serialize()
    with contextlib.closing(manyhands.connect(":memory:", isolation_level=None)) as memory:
        memory.deserialize(data)
        memory.execute("INSERT INTO file VALUES (2)")
        assert memory.execute("SELECT content FROM file").fetchall() == [(1,), (2,)]
    assert contents(path) == [1]


def test_a_dump_makes_the_database_anew(connection):
    connection.executescript(
        """CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY AUTOINCREMENT, "a 'b'" TEXT, x BLOB, r REAL);
           INSERT INTO "odd ""name" VALUES (1, 'it''s', x'00ff', 0.1), (5, NULL, '', -1e300);
           DELETE FROM "odd ""name" WHERE id = 5;
           CREATE INDEX i ON "odd ""name" (x); CREATE VIEW v AS SELECT id FROM "odd ""name";
           CREATE VIRTUAL TABLE words USING fts5(word); INSERT INTO words VALUES ('manuscript');
           ANALYZE"""
    )
    dump = "\n".join(connection.iterdump())
    with contextlib.closing(sqlite3.connect(":memory:")) as stock:
        stock.executescript(dump)
        assert stock.execute('SELECT * FROM "odd ""name"').fetchall() == [(1, "it's", b"\0\xff", 0.1)]
        assert stock.execute("SELECT seq FROM sqlite_sequence").fetchall() == [(5,)]
        assert stock.execute("SELECT * FROM v").fetchall() == [(1,)]
    assert "INSERT INTO \"odd \"\"name\" VALUES(1,'it''s',X'00FF',0.1);" in dump.splitlines()
    assert list(connection.iterdump(filter="v")) == [
        "BEGIN TRANSACTION;",
        'CREATE VIEW v AS SELECT id FROM "odd ""name";',
        "COMMIT;",
    ]


def shell(*arguments, text=""):
    command = [sys.executable, "-m", "manyhands", *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_the_shell(path):
    assert shell(path, "CREATE TABLE t (a)") == (0, "", "")
    code, out, err = shell(path, text="INSERT INTO t\nVALUES (7);\nSELECT * FROM t;\nsel;\n.quit\n")
    assert (code, out.count("(7,)\n")) == (0, 1)
    assert "OperationalError (SQLITE_ERROR): near" in err and str(path) in err
    assert shell(path, "SELECT a FROM t") == (0, "(7,)\n", "")
    assert shell(path, "sel")[0] == 1
