"""The interpreter exits, and what it finds then still uses connections: generators, finalizers, threads, tasks.
Nothing can be imported at that time, so that a process died of an exception whose class was to be imported.

Each is played on every interpreter that is installed, with the library as it was built for all of them."""

import subprocess

import pytest
from interpreters import ENVIRONMENT, INTERPRETERS

import manyhands

PRELUDE = """
import sys, warnings
warnings.simplefilter("ignore")
import manyhands as m
path = sys.argv[1]
c = m.connect(path, check_same_thread=False)
c.executescript("CREATE TABLE t (n); CREATE TABLE u (n UNIQUE); INSERT INTO t VALUES (1), (2), (3)")
"""

# What still uses a connection, by its name; what comes first is what the names refer to.
EXITS = {
    "generator_with": """
def g():
    with c: yield
G = g(); next(G)
""",
    "generator_try": """
def g():
    try:
        yield
    finally:
        c.execute('INSERT INTO t VALUES (2)'); c.commit(); c.close()
G = g(); next(G)
""",
    "generator_error": """
def g():
    try:
        yield
    finally:
        c.execute('SELECT * FROM missing')
G = g(); next(G)
""",
    "generator_constraint": """
def g():
    try:
        yield
    finally:
        c.execute('INSERT INTO u VALUES (1)'); c.execute('INSERT INTO u VALUES (1)')
G = g(); next(G)
""",
    "contextmanager": """
import contextlib
@contextlib.contextmanager
def s():
    try:
        yield c; c.commit()
    except BaseException:
        c.rollback(); raise
    finally: c.close()
S = s(); S.__enter__()
""",
    "del_uses": """
class A:
    def __del__(self):
        c.execute('INSERT INTO t VALUES (3)'); c.commit(); c.execute('SELECT :a', {'a': 1}).fetchall()
A.a = a = A(); sys.a = a
""",
    "del_uses_own": """
class A:
    def __init__(self): self.c = m.connect(path)
    def __del__(self):
        self.c.execute('INSERT INTO t VALUES (3)'); self.c.commit(); self.c.execute('SELECT :a', {'a': 1}).fetchall()
        try: self.c.execute('bad')
        except Exception as e: pass
sys.a = A()
""",
    "del_connects_self": """
class A:
    connect = staticmethod(m.connect); path=path
    def __del__(self):
        x = self.connect(self.path); x.execute('INSERT INTO t VALUES (3)'); x.commit(); x.close()
sys.a = A()
""",
    "del_cycle": """
class A:
    def __init__(self): self.c = m.connect(path); self.me = self
    def __del__(self):
        self.c.execute('INSERT INTO t VALUES (3)'); self.c.commit()
A()
""",
    "mapping": """
import types
class A:
    def __init__(self): self.c = m.connect(path); self.p = types.MappingProxyType({'a': 1})
    def __del__(self):
        assert self.c.execute('SELECT :a', self.p).fetchall() == [(1,)]
sys.a = A()
""",
    "unclosed": """
c.execute('INSERT INTO t VALUES (2)')
cur = c.execute('SELECT * FROM t'); b = m.connect(path)
""",
    "unclosed_cursor_rows": """
cur = c.execute('SELECT * FROM t'); cur.fetchone(); sys.cur = cur
""",
    "unclosed_turn": """
c.execute('BEGIN IMMEDIATE'); c.execute('INSERT INTO t VALUES (2)'); sys.c = c
""",
    "atexit": """
import atexit
atexit.register(lambda: (c.execute('INSERT INTO t VALUES (2)'), c.commit(), c.close()))
""",
    "atexit_error": """
import atexit
def f():
    try: c.execute('bad')
    except m.OperationalError: pass
atexit.register(f)
""",
    "daemon": """
import threading, time
def w():
    d = m.connect(path)
    while True: d.execute('INSERT INTO t VALUES (4)'); d.commit()
[threading.Thread(target=w, daemon=True).start() for _ in range(3)]
time.sleep(.1)
""",
    "daemon_errors": """
import threading, time
def w():
    d = m.connect(path)
    while True:
        try: d.execute('bad')
        except m.Error: pass
[threading.Thread(target=w, daemon=True).start() for _ in range(3)]
time.sleep(.05)
""",
    "daemon_waits": """
import threading, time
c.execute('BEGIN IMMEDIATE')
def w():
    d = m.connect(path)
    d.execute('INSERT INTO t VALUES (4)'); d.commit()
[threading.Thread(target=w, daemon=True).start() for _ in range(3)]
time.sleep(.1)
""",
    "pool": """
import concurrent.futures as f
p = f.ThreadPoolExecutor(4)
def w():
    d = m.connect(path, check_same_thread=False); d.execute('INSERT INTO t VALUES (1)'); sys.last = d; return d
for _ in range(8): p.submit(w)
""",
    "pool_generator": """
import concurrent.futures as f
p = f.ThreadPoolExecutor(2)
def g():
    d = m.connect(path)
    with d: yield d
G = []
def w():
    x = g(); next(x); G.append(x)
p.submit(w).result()
""",
    "task": """
import asyncio
async def t():
    d = m.connect(path)
    with d:
        d.execute('INSERT INTO t VALUES (1)')
        await asyncio.sleep(100)
async def main():
    global k; k = asyncio.create_task(t()); await asyncio.sleep(.01)
asyncio.run(main())
""",
    "loop_left": """
import asyncio
async def t():
    d = m.connect(path)
    with d:
        d.execute('INSERT INTO t VALUES (1)')
        await asyncio.sleep(100)
loop = asyncio.new_event_loop()
k = loop.create_task(t()); loop.run_until_complete(asyncio.sleep(.01))
""",
    "async_generator": """
import asyncio
async def t():
    d = m.connect(path)
    with d:
        yield d
loop = asyncio.new_event_loop()
k = t(); loop.run_until_complete(k.__anext__())
""",
    "function": """
c.create_function('f', 1, lambda x: x); cur = c.execute('SELECT f(n) FROM t'); cur.fetchone()
c.set_trace_callback(print); sys.c = c; sys.cur = cur
""",
    "blob": """
c.execute('CREATE TABLE b (x)'); c.execute('INSERT INTO b VALUES (zeroblob(9))'); c.commit()
b = c.blobopen('b', 'x', 1) if hasattr(c, 'blobopen') else None; sys.b = b
""",
    "exit_in_thread": """
import threading, os, time
def w():
    d = m.connect(path); d.execute('INSERT INTO t VALUES (1)'); sys.exit(3)
t = threading.Thread(target=w); t.start()
""",
    "sys_exit_in_block": """
try:
    with c: c.execute('INSERT INTO t VALUES (1)'); sys.exit(0)
finally: pass
""",
    "kill_thread_local": """
import threading
l = threading.local(); l.c = m.connect(path); l.c.execute('INSERT INTO t VALUES (1)')
def w():
    l.c = m.connect(path); l.c.execute('SELECT 1')
t = threading.Thread(target=w); t.start(); t.join()
""",
    "exitstack": """
import contextlib
s = contextlib.ExitStack(); s.enter_context(c); s.enter_context(contextlib.closing(m.connect(path)))
def g():
    with s: yield
G = g(); next(G)
""",
    "weakref_finalize": """
import weakref
class A: pass
a = A(); weakref.finalize(a, lambda: (c.execute('INSERT INTO t VALUES (9)'), c.commit()))
""",
    "row": """
c.row_factory = m.Row; r = c.execute('SELECT * FROM t').fetchone(); sys.r = r
""",
    "sub_factory": """
class C(m.Connection):
    def __del__(self):
        try: self.execute('bad')
        except Exception: pass
x = m.connect(path, factory=C); sys.x = x
""",
    "cached_prop": """
class S:
    c = m.connect(path)
    @classmethod
    def g(cls):
        while True:
            with cls.c: yield
G = S.g(); next(G); S.G = G
""",
    "aio_left": """
import asyncio
from manyhands import aio
async def main():
    global d
    d = await aio.connect(path); await d.execute('INSERT INTO t VALUES (1)')
asyncio.run(main())
""",
    "aio_task_left": """
import asyncio
from manyhands import aio
async def t():
    async with aio.connect(path) as d:
        await d.execute('INSERT INTO t VALUES (1)'); await asyncio.sleep(100)
loop = asyncio.new_event_loop(); k = loop.create_task(t()); loop.run_until_complete(asyncio.sleep(.1))
""",
    "aio_forgotten": """
import asyncio
from manyhands import aio
async def main():
    for _ in range(20):
        d = await aio.connect(path); await d.execute('SELECT 1'); sys.l = [d]; sys.l.append(sys.l)
asyncio.run(main())
""",
    "transaction": """
def g():
    with c.transaction(): yield
G = g(); next(G)
""",
    "transaction_immediate": """
def g():
    with c.transaction('immediate'): yield
G = g(); next(G)
""",
}


@pytest.mark.parametrize("version", sorted(INTERPRETERS))
def test_the_interpreter_exits_in_order(version, tmp_path):
    failed = {}
    for name, program in EXITS.items():
        command = [INTERPRETERS[version], "-c", PRELUDE + program, str(tmp_path / f"{name}.db")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
        if done.returncode != 0 or "panicked" in done.stderr:
            failed[name] = (done.returncode, done.stderr[-400:])
    assert failed == {}


@pytest.mark.parametrize("version", sorted(INTERPRETERS))
def test_a_generator_commits_when_the_interpreter_exits(version, tmp_path):
    """Its connection is found together with it, and is closed after it."""
    command = [INTERPRETERS[version], "-c", PRELUDE + EXITS["generator_try"], str(tmp_path / "app.db")]
    subprocess.run(command, check=True, timeout=60, env=ENVIRONMENT)
    connection = manyhands.connect(tmp_path / "app.db")
    assert connection.execute("SELECT count(*) FROM t WHERE n = 2").fetchone() == (2,)
    connection.close()
