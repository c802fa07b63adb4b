"""``python -m manyhands run``: a program that cannot be changed, with manyhands in the place of ``sqlite3``.

The program starts as it would without us, in this process's place, with a folder more on its path, from which Python
imports ``sitecustomize``. Its children inherit the path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, NoReturn, Sequence, Tuple

_USAGE = "python -m manyhands run [OPTION VALUE]... (SCRIPT | -m MODULE | COMMAND) [ARGUMENT]..."

# As `connect` has them.
_OPTIONS: Dict[str, Dict[str, Any]] = {
    "timeout": {"type": float, "help": "how many seconds a write waits for its turn (default: 5)"},
    "transaction-mode": {
        "choices": ["auto", "optimistic", "immediate"],
        "help": "what a plain BEGIN means (default: auto)",
    },
    "durability": {
        "choices": ["full", "normal"],
        "help": "what a commit survives: full, also a power cut; normal, the death of any process (default: full)",
    },
    "durability-min": {
        "choices": ["full", "normal"],
        "help": "the same, whatever PRAGMA synchronous says (default: normal)",
    },
    "journal": {
        "choices": ["wal", "keep"],
        "help": "what becomes of a database in another journal mode than WAL: it is switched, or stays (default: wal)",
    },
    "label": {"help": "a name for the program, shown to others who wait for it"},
    "wal-bytes-limit": {
        "type": int,
        "help": "how many bytes of the WAL a reader that does not end may hold back before writes wait for it",
    },
}


def _split(arguments: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Our options, and the program with its arguments."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-m":
        at += 1 if "=" in arguments[at] or arguments[at] in ("-h", "--help") else 2
    return list(arguments[:at]), list(arguments[at:])


def _command(program: List[str]) -> List[str]:
    """How the program is started."""
    interpreter = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
    is_package = os.path.isfile(os.path.join(program[0], "__main__.py"))
    if program[0] == "-m" or os.path.isfile(program[0]) or is_package:
        return [*interpreter, *program]
    found = shutil.which(program[0])
    if found is None:
        sys.exit(f"python -m manyhands run: there is no file and no command {program[0]!r}")
    # Python programs that it starts, itself among them, find us on their path.
    return [found, *program[1:]]


def main(arguments: Sequence[str]) -> NoReturn:
    """Starts the program in the place of this process."""
    ours, program = _split(arguments)
    parser = argparse.ArgumentParser(prog="python -m manyhands run", usage=_USAGE, description=__doc__)
    for name, option in _OPTIONS.items():
        parser.add_argument(f"--{name}", **option)
    chosen = vars(parser.parse_args(ours))
    if not program or program == ["-m"]:
        parser.error("which program?")
    if sys.flags.ignore_environment:
        sys.exit("python -m manyhands run: does not work with -E or -I, which keep Python from looking at PYTHONPATH")
    environment = dict(os.environ)
    for name, value in chosen.items():
        if value is not None:
            environment[f"MANYHANDS_{name.upper()}"] = str(value)
    folders = [os.path.dirname(os.path.abspath(__file__)), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment["PYTHONPATH"] = os.pathsep.join(folder for folder in dict.fromkeys(folders) if folder)
    command = _command(program)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment)
