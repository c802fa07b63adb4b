"""Several processes of one program at one database, and what became of it.

A program imports what it judges unchanged, and uses its public interface only. Started without arguments it is the
parent: it begins with an empty folder, starts copies of itself that work side by side, and prints one JSON line:

    {"promises": {"no error": true, ...}, "figures": {"seconds": 1.5, ...}}

A promise is what a user of the program counts on. Copies are started as programs of their own, since such are what
meets at one file: nothing is inherited but the environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, List

SECONDS_MAX = 300


def folder() -> str:
    """An empty folder on the disk of the suite's files."""
    return tempfile.mkdtemp(dir=os.environ.get("SUITE_FILES"))


def crowd(count: int, role: str, *words: object) -> List[subprocess.Popen[str]]:
    """Starts copies of this program; each gets its role, its number and the words."""
    return [
        subprocess.Popen(
            [sys.executable, sys.argv[0], role, str(number), *map(str, words)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]


def answers(copies: List[subprocess.Popen[str]]) -> List[Any]:
    """What the copies have printed, when all have ended; one that failed or hangs answers None."""
    told = []
    for copy in copies:
        try:
            line, _ = copy.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            copy.kill()
            line = copy.communicate()[0]
        told.append(json.loads(line.splitlines()[-1]) if copy.returncode == 0 else None)
    return told


class Errors:
    """Counts what a piece of work raises, and goes on; the tracebacks are in the suite's log."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Errors":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if isinstance(error, Exception):
            self.count += 1
            traceback.print_exception(kind, error, trace, file=sys.stderr)
            return True
        return False


def tell(promises: Dict[str, bool], figures: Dict[str, Any]) -> None:
    """The program's one line."""
    print(json.dumps({"promises": promises, "figures": figures}), flush=True)


def play(parent: Callable[[], None], **roles: Callable[..., Any]) -> None:
    """Runs the part of the program that this process is; a copy prints what its role returns."""
    if len(sys.argv) == 1:
        parent()
    else:
        print(json.dumps(roles[sys.argv[1]](int(sys.argv[2]), *sys.argv[3:])), flush=True)
