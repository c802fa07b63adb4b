"""Several processes of one worker at one database, and what became of it.

The workers of ``programs`` are unmodified users of their drivers: which library they get, LD_PRELOAD alone decides. A *job* is what all workers of
a crowd do. What they say to have done must be in the database afterwards, no more and no less: ``Outcome.broken`` names each promise that is not kept.

A crowd is only measured when the library was really used: it is looked for among the mapped files of every worker that is ready.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Optional

PROGRAMS = Path(__file__).resolve().parent / "programs"
TREE = PROGRAMS.parents[3]
DROPIN = Path(os.environ.get("MANYHANDS_DROPIN") or TREE / "target" / "dropin")
"""Ours in ``lib``, plain SQLite of the same version in ``stock``, the headers of both in ``include``."""
BUILT = TREE / ".suites" / "drivers"
"""What the workers of compiled languages become."""
XERIAL = "3.50.3.0"
"""Which version of Xerial's sqlite-jdbc."""
JOBS = ("insert", "read-then-write", "prepared", "select")
ITEMS = 1000
HANGS_AFTER_S = 60
"""What workers may take beyond their seconds: waits of the busy timeout, and a busy machine."""
SCHEMA = """
CREATE TABLE event (id INTEGER PRIMARY KEY, writer INTEGER NOT NULL, n INTEGER NOT NULL);
CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE item (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
INSERT INTO counter VALUES (1, 0);
"""

Words = list[str]


def library(engine: str) -> Path:
    """The file that is preloaded for an engine: "stock" or "manyhands"."""
    return DROPIN / ("stock" if engine == "stock" else "lib") / "libsqlite3.so.0"


@dataclass(frozen=True)
class Driver:
    """One worker: how it is started, and what that takes."""

    name: str
    interpreter: str
    script: str = ""
    build: Optional[Callable[[str], Words]] = None
    """Makes the command, for what is compiled or has packages of its own; given the path of ``interpreter``."""

    def command(self) -> Optional[Words]:
        """What starts the worker; None when the interpreter or compiler is not installed."""
        program = shutil.which(self.interpreter)
        if program is None:
            return None
        return self.build(program) if self.build else [program, str(PROGRAMS / self.script)]


def build_c(compiler: str) -> Words:
    program = BUILT / "worker-c"
    BUILT.mkdir(parents=True, exist_ok=True)
    words = ["-O1", "-Wall", f"-I{DROPIN / 'include'}", str(PROGRAMS / "worker.c"), f"-L{DROPIN / 'stock'}", "-l:libsqlite3.so.0"]
    subprocess.run([compiler, *words, "-o", str(program)], check=True)
    return [str(program)]


def build_go(go: str) -> Words:
    """The driver's tag libsqlite3 links with a library that is there; whose it is does not matter, since another one is preloaded."""
    program = BUILT / "worker-go"
    BUILT.mkdir(parents=True, exist_ok=True)
    subprocess.run([go, "build", "-tags", "libsqlite3", "-o", str(program), "."], cwd=PROGRAMS / "go", check=True, env={**os.environ, **go_flags()})
    return [str(program)]


def go_flags() -> dict[str, str]:
    return {"CGO_CFLAGS": f"-O1 -I{DROPIN / 'include'}", "CGO_LDFLAGS": f"-L{DROPIN / 'stock'}"}


def build_node(node: str) -> Words:
    """The addon is compiled from its source beside an amalgamation that is empty: the preloaded library has the functions.

    It takes node's headers below /usr/include, as its Debian packages bring them. A node that has SQLite in itself (22.5 and newer) would
    serve the functions before the preloaded library does, and needs the drop-in's loader in place of the empty file.
    """
    folder = BUILT / "node"
    amalgamation = folder / "amalgamation"
    addon = folder / "node_modules" / "better-sqlite3" / "build" / "Release" / "better_sqlite3.node"
    if not addon.exists():
        amalgamation.mkdir(parents=True, exist_ok=True)
        for header in (DROPIN / "include").iterdir():
            shutil.copy(header, amalgamation)
        (amalgamation / "sqlite3.c").write_text("typedef int nothing;\n")
        (folder / "package.json").write_text("{}\n")
        flags = ("--build-from-source", f"--sqlite3={amalgamation}", "--nodedir=/usr", "--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run(["npm", "install", *flags, "better-sqlite3@12"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    shutil.copy(PROGRAMS / "worker.js", folder)
    return [node, str(folder / "worker.js")]


def build_java(java: str) -> Words:
    """Xerial's classes from Maven; their JNI library from their sources and the loader, which takes the library that MANYHANDS_LIBRARY names."""
    folder = BUILT / "java"
    jar, jni = folder / f"sqlite-jdbc-{XERIAL}.jar", folder / "libsqlitejdbc.so"
    loader = DROPIN.resolve() / "loader"
    if not jni.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for kind in ("jar", "jar:sources"):
            artifact = f"-Dartifact=org.xerial:sqlite-jdbc:{XERIAL}:{kind}"
            subprocess.run(["mvn", "-q", "dependency:copy", artifact, f"-DoutputDirectory={folder}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["jar", "xf", f"sqlite-jdbc-{XERIAL}-sources.jar"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        native = folder / "org" / "sqlite" / "core"
        words = ["javac", "-proc:none", "-cp", str(jar), "-h", ".", "-d", "classes", str(native / "NativeDB.java")]
        subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (folder / "org_sqlite_core_NativeDB.h").rename(folder / "NativeDB.h")
        headers = Path(java).resolve().parents[1] / "include"
        words = ["-shared", "-fPIC", "-O2", "-I.", f"-I{loader}", f"-I{headers}", f"-I{headers / 'linux'}", "-o", jni.name]
        subprocess.run(["cc", *words, str(native / "NativeDB.c"), str(loader / "sqlite3.c")], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["javac", "-proc:none", "-d", str(folder / "worker"), "-cp", str(jar), str(PROGRAMS / "Worker.java")], check=True)
    return [java, "-cp", f"{jar}:{folder / 'worker'}", f"-Dorg.sqlite.lib.path={folder.resolve()}", "Worker"]


DRIVERS = (
    Driver("php-pdo", "php", "worker.php"),
    # Debian's own: other builds of CPython have SQLite linked into themselves.
    Driver("python-sqlite3", "/usr/bin/python3", "worker.py"),
    Driver("perl-dbd-sqlite", "perl", "worker.pl"),
    Driver("tcl-sqlite3", "tclsh", "worker.tcl"),
    Driver("ruby-sqlite3", "ruby", "worker.rb"),
    Driver("c", "cc", build=build_c),
    Driver("go-mattn", "go", build=build_go),
    Driver("node-better-sqlite3", "node", build=build_node),
    Driver("java-xerial", "java", build=build_java),
)
PACKAGED = DRIVERS[:6]
"""The drivers that Debian's packages bring."""


@dataclass(frozen=True)
class Outcome:
    """What the workers of a crowd have told, and what was not true of it."""

    done: int
    errors: int
    first_error: str
    wait_ms_max: float
    per_second: float
    sqlite: str
    broken: tuple[str, ...]


def run_crowd(command: Words, preloaded: Path, job: str, processes: int, seconds: float, path: Path) -> Outcome:
    """Workers in processes of their own do a job at a new database, all of them at once."""
    create(path)
    # The second is for the loader in drivers that compile SQLite in.
    environment = {**os.environ, "LD_PRELOAD": str(preloaded), "MANYHANDS_LIBRARY": str(preloaded.resolve())}
    workers = [
        subprocess.Popen([*command, str(path), str(seconds), job, str(writer)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for writer in range(processes)
    ]
    # A read of a pipe has no deadline: it ends when the worker does.
    deadline = threading.Timer(seconds + HANGS_AFTER_S, end, [workers])
    deadline.start()
    try:
        for worker in workers:
            await_ready(worker, preloaded)
        for worker in workers:
            stream(worker.stdin).write("go\n")
            stream(worker.stdin).flush()
        told = [listen(worker) for worker in workers]
    finally:
        deadline.cancel()
        end(workers)
        for worker in workers:
            worker.communicate()
    for answer in told:
        if answer["sqlite"] != version():
            raise ChildProcessError(f"uses SQLite {answer['sqlite']}, and not {version()}")
    return Outcome(
        done=sum(answer["done"] for answer in told),
        errors=sum(answer["errors"] for answer in told),
        first_error=next((answer["first_error"] for answer in told if answer["first_error"]), ""),
        wait_ms_max=max(answer["wait_ms_max"] for answer in told),
        per_second=sum(answer["done"] / answer["seconds"] for answer in told),
        sqlite=told[0]["sqlite"],
        broken=tuple(find_broken(path, job, told)),
    )


def version() -> str:
    """Of both libraries, by their header."""
    found = re.search(r'^#define SQLITE_VERSION +"(.*)"', (DROPIN / "include" / "sqlite3.h").read_text(), re.MULTILINE)
    assert found, "sqlite3.h has no version"
    return found[1]


def end(workers: Sequence[subprocess.Popen[str]]) -> None:
    for worker in workers:
        worker.kill()


def create(path: Path) -> None:
    """The database in WAL mode, made by the SQLite of this process."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode=WAL")
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO item VALUES (?, ?)", ((key, key * 7) for key in range(1, ITEMS + 1)))


def await_ready(worker: subprocess.Popen[str], preloaded: Path) -> None:
    """The worker has opened its connection, and with the library that is to be looked at."""
    line = stream(worker.stdout).readline()
    if line != "ready\n":
        raise ChildProcessError(f"not ready, ended with {worker.wait()}: {line!r}")
    if str(preloaded.resolve()) not in Path(f"/proc/{worker.pid}/maps").read_text():
        raise ChildProcessError(f"{preloaded} is not loaded")


def listen(worker: subprocess.Popen[str]) -> dict[str, Any]:
    """What the worker has told in its last line."""
    line = stream(worker.stdout).read()
    if worker.wait() != 0:
        raise ChildProcessError(f"ended with {worker.returncode} after {line!r}")
    told: dict[str, Any] = json.loads(line)
    return told


def stream(pipe: Optional[IO[str]]) -> IO[str]:
    assert pipe is not None, "workers are started with pipes"
    return pipe


def find_broken(path: Path, job: str, told: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Each way in which the database is not what the workers have told; the SQLite of this process looks."""
    with closing(sqlite3.connect(path)) as database:
        [(integrity,)] = database.execute("PRAGMA integrity_check").fetchall()
        if integrity != "ok":
            yield f"integrity_check: {integrity}"
        rows = {writer: (count, ids) for writer, count, ids in database.execute("SELECT writer, count(*), sum(id) FROM event GROUP BY writer")}
        [(counter,)] = database.execute("SELECT n FROM counter")
    counted = sum(answer["done"] for answer in told) if job == "read-then-write" else 0
    if counter != counted:
        yield f"the counter is {counter}, and {counted} were acknowledged"
    for writer, answer in enumerate(told):
        count, ids = rows.get(writer, (0, 0))
        acknowledged = answer["done"] if job in ("insert", "prepared") else 0
        if count != acknowledged:
            yield f"writer {writer} has {count} rows, and {acknowledged} were acknowledged"
        elif job == "prepared" and ids != answer["id_sum"]:
            yield f"the ids of writer {writer} sum up to {ids}, and it was told {answer['id_sum']}"
