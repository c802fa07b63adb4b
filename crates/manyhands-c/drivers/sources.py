"""Where the drivers' own test suites come from; all of it lies in .suites, and none of it is committed.

Debian's package sources are fetched with apt-get as it is set up here, with lists of its own: /etc stays as it is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from crowd import PROGRAMS, TREE, Words

SUITES = TREE / ".suites"
WORK = SUITES / "drivers"
APT = SUITES / "apt"


class Unavailable(Exception):
    """A suite that cannot be had here; the others go on."""


def run(words: Sequence[str], folder: Path = TREE) -> str:
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if ended.returncode != 0:
        raise Unavailable(f"{' '.join(words)}: {ended.stderr.strip()[-500:]}")
    return ended.stdout


def debian_source(package: str) -> Path:
    """The unpacked source of a package, without Debian's patches: an older one than what is installed where only that can be fetched."""
    folder = WORK / "sources" / package
    if not folder.exists():
        print(f"fetching the source of {package}", file=sys.stderr)
        downloads = folder.with_suffix(".download")
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir(parents=True)
        apt = prepare_apt()
        try:
            run([*apt, "source", "--tar-only", "-qq", package], downloads)
        except Unavailable:
            run([*apt, "source", "--tar-only", "-qq", f"{package}/{release()}"], downloads)
        [archive] = downloads.glob("*.orig.tar.*[!c]")
        with tarfile.open(archive) as tar:
            tar.extractall(downloads)
        [tree] = [path for path in downloads.iterdir() if path.is_dir()]
        tree.rename(folder)
        shutil.rmtree(downloads)
    return folder


def release() -> str:
    """The name of this Debian: "bookworm"."""
    words = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return words["VERSION_CODENAME"].strip('"')


def prepare_apt() -> Words:
    """apt-get with the sources of the places that packages come from."""
    places, lists = APT / "sources", APT / "lists"
    words = [f"Dir::Etc::sourceparts={places}", "Dir::Etc::sourcelist=/dev/null", f"Dir::State::lists={lists}"]
    apt = ["apt-get", *(part for word in words for part in ("-o", word))]
    if not places.exists():
        places.mkdir(parents=True)
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        installed = Path("/etc/apt/sources.list.d/debian.sources")
        listed = Path("/etc/apt/sources.list")
        if installed.exists():
            (places / installed.name).write_text(installed.read_text().replace("Types: deb\n", "Types: deb-src\n"))
        elif listed.exists():
            lines = [f"deb-src {line[4:]}" for line in listed.read_text().splitlines() if line.startswith("deb ")]
            (places / "debian.list").write_text("\n".join(lines) + "\n")
        run([*apt, "update", "-qq"])
    return apt


def go_source() -> Path:
    """A copy of the module that the worker of Go names: the module cache is read-only, and the tests write beside themselves."""
    folder = WORK / "sources" / "go-sqlite3"
    if not folder.exists():
        cached = json.loads(run(["go", "mod", "download", "-json", "github.com/mattn/go-sqlite3"], PROGRAMS / "go"))["Dir"]
        shutil.copytree(cached, folder)
        run(["chmod", "-R", "u+w", str(folder)])
    return folder
