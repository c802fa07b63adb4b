"""Loads an extension into the sqlite3 of Debian's Python, and asks it what a file has: extension.py PATH FILE

FILE has a statement in each line. What each answers goes to SUITE_RESULTS as the name of a test: where another library answers something else, that test
is not there.
"""

import json
import os
import sqlite3
import sys
from pathlib import Path

path, statements = sys.argv[1], Path(sys.argv[2])
told = {}
database = sqlite3.connect(Path(os.environ["TMPDIR"]) / "extension.db", isolation_level=None)
database.enable_load_extension(True)
database.load_extension(path)
for line in statements.read_text().splitlines():
    if line and not line.startswith("--"):
        try:
            answer = repr(database.execute(line).fetchall())
        except sqlite3.Error as error:
            answer = f"{type(error).__name__}: {error}"
        told[f"{line} -> {answer[:300]}"] = "passed"
database.close()
Path(os.environ["SUITE_RESULTS"]).write_text(json.dumps(told))
