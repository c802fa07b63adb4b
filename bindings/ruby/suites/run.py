"""Runs the tests of the gem sqlite3, as they are, with that gem and with manyhands, and compares test by test.

    python bindings/ruby/suites/run.py [--again] [--stored] [--ours]

They come from Debian's source of its package, and run in a chroot of that Debian, which has another Ruby than the one that `make test` runs
with; the gem's own tests run there too (--ours: only these). The chroot and all else lies in .suites; it takes root and mmdebstrap.

The suite is *kept* when every test that passes with the stock gem passes with manyhands, but for the differences that docs/ruby-compat.json
lists with their reasons, and when each of these is still one (those on fast machines need not be).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TREE / "crates" / "manyhands-c" / "drivers"))
from results import Outcomes, read_minitest  # noqa: E402

RELEASE = "forky"
"""The Debian whose packages are tested: sqlite3-ruby 2.9, Ruby 3.3."""
PACKAGES = "ruby,ruby-dev,ruby-minitest,ruby-sqlite3,libclang1-21,gcc,libc6-dev,sqlite3"
WORK = TREE / ".suites" / "ruby"
CHROOT = WORK / RELEASE
SOURCE = WORK / "sqlite3-ruby"
KNOWN = TREE / "docs" / "ruby-compat.json"
SECONDS_MAX = 600
APT = ("--aptopt=Acquire::Check-Valid-Until \"false\"", "--aptopt=Apt::Install-Recommends \"false\"")
ALL_TESTS = "Dir['test/test_*.rb'].sort.each { |file| require \"./#{file}\" }"
ENGINES = {"stock": [], "manyhands": [f"-I{TREE}/bindings/ruby/lib", "-rmanyhands/sqlite3"]}


def main() -> int:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--again", action="store_true", help="run the stock half too if its results are there")
    parser.add_argument("--stored", action="store_true", help="run nothing: compare what the last runs left")
    parser.add_argument("--ours", action="store_true", help="run only the gem's own tests")
    options = parser.parse_args()
    if not options.stored:
        prepare()
        status, output = in_chroot(TREE / "bindings" / "ruby", ["ruby", "-w", "-Itest", "-e", ALL_TESTS])
        print(output[-3000:])
        if status != 0:
            print("the gem's own tests failed")
            return 1
        if options.ours:
            return 0
        for engine in ENGINES:
            if options.again or engine != "stock" or not results_of(engine).exists():
                run_half(engine)
    return 0 if compare() else 1


def prepare() -> None:
    """The chroot, the source, and the gem built there."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.exit("the suites run in a chroot: that takes root, and the package mmdebstrap")
    WORK.mkdir(parents=True, exist_ok=True)
    if not (CHROOT / "usr" / "bin" / "ruby").exists():
        print(f"making a chroot of {RELEASE}", file=sys.stderr)
        shutil.rmtree(CHROOT, ignore_errors=True)
        line = f"deb {mirror()} {RELEASE} main"
        subprocess.run(["mmdebstrap", "--variant=apt", *APT, f"--include={PACKAGES}", RELEASE, str(CHROOT), line], check=True)
    if not SOURCE.exists():
        fetch_source(WORK / "download")
    status, output = in_chroot(TREE, ["bindings/ruby/build.sh"])
    if status != 0:
        sys.exit(output)


def fetch_source(downloads: Path) -> None:
    """By the apt of this machine, with a list of its own."""
    shutil.rmtree(downloads, ignore_errors=True)
    (downloads / "lists" / "partial").mkdir(parents=True)
    (downloads / "sources.list").write_text(f"deb-src {mirror()} {RELEASE} main\n")
    words = [f"Dir::Etc::sourcelist={downloads}/sources.list", "Dir::Etc::sourceparts=/dev/null", f"Dir::State::lists={downloads}/lists"]
    apt = ["apt-get", "-qq", *(part for word in [*words, "Dir::State::status=/dev/null", "Acquire::Check-Valid-Until=false"] for part in ("-o", word))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "source", "--download-only", "--tar-only", "ruby-sqlite3"], cwd=downloads, check=True)
    [archive] = downloads.glob("*.orig.tar.*[!c]")
    with tarfile.open(archive) as tar:
        tar.extractall(downloads / "unpacked")
    [tree] = (downloads / "unpacked").iterdir()
    shutil.move(tree, SOURCE)
    shutil.rmtree(downloads)


def mirror() -> str:
    """Where this machine's packages come from."""
    places = [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    text = "".join(place.read_text() for place in places if place.exists())
    found = re.search(r"^(?:URIs: *|deb (?:\[.*\] )?)(\S+)", text, re.MULTILINE)
    if found is None:
        sys.exit("where do packages come from? neither debian.sources nor sources.list in /etc/apt says")
    return found[1]


def in_chroot(folder: Path, words: list[str]) -> tuple[int, str]:
    """Executes a command in the chroot, with this tree and the Rust of its user; gives its status and what it has printed."""
    home = Path.home()
    mounts = [TREE, *(path for path in (home / ".cargo", home / ".rustup") if path.exists())]
    steps = [f"mount --rbind /dev {CHROOT}/dev", f"mount -t proc proc {CHROOT}/proc", f"mount -t tmpfs tmpfs {CHROOT}/tmp"]
    for path in mounts:
        inside = Path(f"{CHROOT}{path}")
        inside.mkdir(parents=True, exist_ok=True)
        # Not all of the tree: the chroot itself lies in it.
        steps.append(f"mount --bind {path} {inside}")
    environment = ["env", "-i", f"HOME={home}", f"PATH={home}/.cargo/bin:/usr/bin:/bin", "LANG=C.UTF-8"]
    command = f"cd {shlex.quote(str(folder))} && exec {shlex.join(words)}"
    # A mount namespace of its own: whatever happens, nothing stays mounted.
    script = " && ".join([*steps, f"exec chroot {CHROOT} {shlex.join(environment)} sh -c {shlex.quote(command)}"])
    ended = subprocess.run(
        ["timeout", "--kill-after=5", str(SECONDS_MAX), "unshare", "--mount", "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return ended.returncode, ended.stdout


def results_of(engine: str) -> Path:
    return WORK / f"{engine}.json"


def run_half(engine: str) -> None:
    """Writes the outcomes beside the log. What is printed first names the classes that were tested."""
    words = ["ruby", *ENGINES[engine], "-Itest", "-e", f"require 'sqlite3'; puts SQLite3::Database.name; {ALL_TESTS}", "--", "-v", "--seed", "1"]
    _, output = in_chroot(SOURCE, words)
    results_of(engine).with_suffix(".log").write_text(output)
    outcomes = {"class": output.split("\n", 1)[0], "tests": read_minitest("", output)}
    results_of(engine).write_text(json.dumps(outcomes, indent=0, sort_keys=True))


def compare() -> bool:
    """Prints what the suite came to; true if it is kept."""
    stock, ours = (json.loads(results_of(engine).read_text()) for engine in ENGINES)
    proved = (stock["class"], ours["class"]) == ("SQLite3::Database", "Manyhands::Database")
    passed = {test for test, outcome in stock["tests"].items() if outcome == "passed"}
    lost = sorted(test for test in passed if ours["tests"].get(test) != "passed")
    explained = json.loads(KNOWN.read_text())
    known = explained["differences"]
    unexplained = [test for test in lost if not any(part in test for part in [*known, *explained["on fast machines"]])]
    past = [part for part in known if not any(part in test for test in lost)]
    for name, half in (("stock", stock), ("manyhands", ours)):
        print(f"ruby-sqlite3 {name:10} {counts(half['tests'])}")
    print(f"ruby-sqlite3 {len(lost)} lost, {len(unexplained)} of them unexplained")
    for test in unexplained:
        print("    lost:", test)
    for part in past:
        print("    no longer lost, and still in docs/ruby-compat.json:", part)
    if not proved:
        print(f"    not what was to be tested: {stock['class']} and {ours['class']}")
    return proved and bool(passed) and not unexplained and not past


def counts(tests: Outcomes) -> str:
    outcomes = list(tests.values())
    return ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("passed", "failed", "skipped"))


if __name__ == "__main__":
    sys.exit(main())
