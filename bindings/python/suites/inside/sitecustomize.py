"""Chooses and counts the driver, in every Python process of a suite; Python imports this when it starts.

SUITE_DRIVER      "stock", "manyhands" (the frameworks choose it by its name), or "replaced":
                  ``import sqlite3`` gets manyhands.
SUITE_CONNECTIONS the folder in which each process leaves how many connections each driver has opened.
"""

import atexit
import collections
import json
import os
import sys

opened = collections.Counter()


def count(event, arguments):
    if event == "sqlite3.connect":
        opened["sqlite3"] += 1


def count_ours():
    import manyhands

    native = manyhands.dbapi2.Connection.__mro__[1]

    # Not around connect(): tests look at the line that a warning names.
    def new(cls, *arguments, **named):
        opened["manyhands"] += 1
        return native.__new__(cls, *arguments, **named)

    manyhands.dbapi2.Connection.__new__ = new
    return manyhands


def replace(manyhands):
    sys.modules["sqlite3"] = manyhands
    for name in ("dbapi2", "dump", "__main__"):
        try:
            module = __import__(f"manyhands.{name}", fromlist=[name])
        except ImportError:
            continue
        sys.modules[f"sqlite3.{name}"] = module


def leave_counts(process):
    if os.getpid() == process and opened:
        with open(os.path.join(os.environ["SUITE_CONNECTIONS"], str(process)), "w") as file:
            json.dump(opened, file)


def count_in_child():
    opened.clear()
    atexit.register(leave_counts, os.getpid())


driver = os.environ.get("SUITE_DRIVER")
if driver:
    sys.addaudithook(count)
    if driver != "stock":
        ours = count_ours()
        if driver == "replaced":
            replace(ours)
    atexit.register(leave_counts, os.getpid())
    os.register_at_fork(after_in_child=count_in_child)
