"""The interpreters of this machine for which the package is built: one library for all."""

import glob
import os
import subprocess
import sys
from pathlib import Path

import manyhands

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(manyhands.__file__).parents[1])}


def _found():
    found = {}
    others = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))
    for path in [*others, "/usr/bin/python3", sys.executable]:
        if not os.path.exists(path):
            continue
        version = subprocess.check_output([path, "-c", "import sys; print(*sys.version_info[:2])"], text=True)
        major, minor = map(int, version.split())
        if (major, minor) >= (3, 9):
            found[f"{major}.{minor}"] = path
    return found


# By version.
INTERPRETERS = _found()
