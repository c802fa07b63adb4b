"""A site to measure: the example `news` under Puma, on Debian's Ruby and Rails, of this machine or of a chroot.

A *ground* is where Ruby runs: `here`, or the folder of a chroot, which the tree is mounted into at its own path. A site has its own database, a copy of a
seeded one. It is started afresh when a request was not answered: whatever it waits for would fall upon the next cell.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).resolve().parent.parent.parent
NEWS = ROOT / "bindings/ruby/examples/news"
STOCK = Path(__file__).resolve().parent / "stock.rb"
STARTS_WITHIN_S = 60
ENDS_WITHIN_S = 5


@dataclass(frozen=True)
class Engine:
    """What the site writes through."""

    kind: str
    synchronous: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.synchronous}"

    def environment(self, gem: str) -> dict[str, str]:
        if self.kind == "manyhands":
            return {"ADAPTER": "manyhands", "SYNCHRONOUS": self.synchronous, "RUBYOPT": f"-W0 -I{gem}"}
        mode = self.kind.removeprefix("stock-")
        return {"ADAPTER": "sqlite3", "STOCK_MODE": mode, "SYNCHRONOUS": self.synchronous, "RUBYOPT": f"-W0 -r{STOCK}"}


ENGINES = [Engine(kind, synchronous) for kind in ("stock-deferred", "stock-immediate", "stock-handler", "manyhands") for synchronous in ("full", "normal")]


@dataclass(frozen=True)
class Ground:
    """Where Ruby runs, and where the gem that was built for this Ruby is."""

    chroot: Optional[Path]
    gem: str

    def command(self, words: list[str], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        kept = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
        if self.chroot is None:
            return words, {**kept, **environment}
        pairs = [f"{name}={value}" for name, value in {**kept, "PATH": "/usr/bin:/bin", **environment}.items()]
        # `env -C` goes where the tree is mounted.
        return ["chroot", str(self.chroot), "env", "-i", "-C", str(NEWS), *pairs, *words], dict(os.environ)

    def run(self, words: list[str], environment: dict[str, str]) -> str:
        command, environment = self.command(words, environment)
        done = subprocess.run(command, env=environment, cwd=NEWS, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} has failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def circumstances(self) -> dict[str, str]:
        versions = "RUBY_VERSION, Rails::VERSION::STRING, Puma::Const::PUMA_VERSION, SQLite3::VERSION, SQLite3::SQLITE_VERSION"
        script = f"require 'rails'; require 'puma/const'; require 'sqlite3'; puts {versions}"
        ruby, rails, puma, driver, sqlite = self.run(["ruby", "-W0", "-e", script], {}).split()
        return {"ruby": ruby, "rails": rails, "puma": puma, "sqlite3-ruby": driver, "sqlite": sqlite}


@dataclass
class Site:
    """One configuration, running or not."""

    ground: Ground
    engine: Engine
    workers: int
    threads: int
    pause_ms: float
    database: Path
    port: int
    process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        if self.answers():
            raise RuntimeError(f"another site answers at port {self.port}: end it first")
        environment = {
            **self.engine.environment(self.ground.gem),
            "DATABASE": str(self.database),
            "WORKERS": str(self.workers),
            "THREADS": str(self.threads),
            "PAUSE_MS": str(self.pause_ms),
            "PORT": str(self.port),
        }
        command, environment = self.ground.command(["puma", "-C", "config/puma.rb"], environment)
        with self.database.with_suffix(".puma").open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, cwd=NEWS, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"{self.engine.name} does not start: see {log.name}")
            time.sleep(0.05)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/posts/1", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """Ends the whole session: a site that stands still does not end by itself."""
        if self.process is None:
            return
        group = self.process.pid
        self.process.terminate()
        try:
            self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process = None

    def processor_seconds(self) -> float:
        """What its processes have used until now."""
        assert self.process is not None
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.process.pid:  # its session
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def rows(self) -> int:
        with closing(sqlite3.connect(self.database)) as connection:
            [(rows,)] = connection.execute("SELECT (SELECT count(*) FROM posts) + (SELECT count(*) FROM comments)")
        return int(rows)


def seed(ground: Ground, into: Path) -> None:
    """One seeded database in WAL mode, made through stock SQLite."""
    if into.exists():
        return
    building = into.with_suffix(".building")
    remove(building)
    environment = {**Engine("stock-deferred", "full").environment(ground.gem), "DATABASE": str(building)}
    ground.run(["ruby", "bin/rails", "db:schema:load", "db:seed"], {**environment, "DISABLE_DATABASE_ENVIRONMENT_CHECK": "1"})
    with closing(sqlite3.connect(building)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    building.rename(into)


def copy(seeded: Path, into: Path) -> None:
    remove(into)
    shutil.copyfile(seeded, into)


def remove(database: Path) -> None:
    for end in ("", "-wal", "-shm", "-hands", "-journal"):
        database.with_name(database.name + end).unlink(missing_ok=True)
