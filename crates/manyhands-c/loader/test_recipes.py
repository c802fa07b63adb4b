"""docs/languages.md is right: its blocks are run as they stand, and the program of each writes through Manyhands.

    python3 -m pytest crates/manyhands-c/loader                        what needs no packages
    MANYHANDS_RECIPES=all python3 -m pytest crates/manyhands-c/loader  all of it, minutes

A fence with a file's name after the language is that file. A block of commands says ``tested``, or ``tested fetches`` if it gets packages; no other
block of commands is on the page. That the library was used is seen by the queue file, which only Manyhands makes.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sqlite3
import subprocess
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[3]
PAGE = TREE / "docs" / "languages.md"
DROPIN = Path(os.environ.get("MANYHANDS_DROPIN") or TREE / "target" / "dropin").resolve()
ALL = os.environ.get("MANYHANDS_RECIPES") == "all"
FENCE = re.compile(r"^```(\w+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
HANGS_AFTER_S = 600
IN_CREATE = 0x100


@dataclass(frozen=True)
class Recipe:
    """Commands, and the files of their section."""

    title: str
    files: dict[str, str]
    commands: str
    fetches: bool


def read_page() -> list[Recipe]:
    found = []
    for section in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        blocks = FENCE.findall(text)
        files = {info: body for language, info, body in blocks if language != "sh"}
        found += [Recipe(title, files, body, info == "tested fetches") for language, info, body in blocks if language == "sh"]
    return found


RECIPES = read_page()


class Creations:
    """The names of all files that are made in a folder, also of those that are gone again."""

    def __init__(self, folder: Path) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), IN_CREATE) > 0

    def names(self) -> set[str]:
        """All that were made until now; the watch ends."""
        events = b""
        try:
            while True:
                events += os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            os.close(self.descriptor)
        names = set()
        while events:
            length = int.from_bytes(events[12:16], "little")
            names.add(os.fsdecode(events[16 : 16 + length].rstrip(b"\0")))
            events = events[16 + length :]
        return names


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newer node than some systems have, with its headers, as a package of npm's."""
    folder = tmp_path_factory.mktemp("node")
    package = "node-linux-" + {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    (folder / "package.json").write_text("{}\n")
    subprocess.run(["npm", "install", f"{package}@24", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True)
    return folder / "node_modules" / package


@pytest.mark.parametrize(
    "recipe", [it for it in RECIPES if ALL or not it.fetches], ids=lambda recipe: f"{recipe.title}: {recipe.commands.splitlines()[0]}"
)
def test_a_recipe_writes_through_manyhands(recipe: Recipe, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for name, text in recipe.files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with closing(sqlite3.connect(tmp_path / "app.db")) as database, database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    made = Creations(tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MANYHANDS_") and name != "LD_PRELOAD"}
    environment |= {"DROPIN": str(DROPIN), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    if "npm " in recipe.commands:
        node = request.getfixturevalue("node")
        # node-gyp fetches the headers from node's site otherwise.
        environment |= {"npm_config_nodedir": str(node), "PATH": f"{node / 'bin'}:{environment['PATH']}"}
    ended = subprocess.run(
        ["sh", "-eu"], input=recipe.commands, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=HANGS_AFTER_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    # Maven sends colours although nobody sees them.
    assert re.sub(r"\x1b\[\d*m", "", ended.stdout).splitlines()[-1] == "notes: 1"
    assert "app.db-hands" in made.names(), "SQLite alone did it"
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        assert database.execute("SELECT count(*) FROM note").fetchall() == [(1,)]


def test_each_block_of_commands_is_tested() -> None:
    infos = {info for language, info, _ in FENCE.findall(PAGE.read_text()) if language == "sh"}
    assert infos == {"tested", "tested fetches"}
    assert len(FENCE.findall(PAGE.read_text())) == PAGE.read_text().count("```") / 2


def test_plain_sqlite_leaves_no_trace_of_manyhands(tmp_path: Path) -> None:
    """The witness of the other tests: without the library it has nothing to say."""
    made = Creations(tmp_path)
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE note (id INTEGER PRIMARY KEY)")
    names = made.names()
    assert "app.db-wal" in names and "app.db-hands" not in names
