"""Runs unittest suites and writes what became of each test: {id: "passed" | "skipped" | "failed"}."""

import importlib.util
import json
import os
import sys
import unittest


class Result(unittest.TextTestResult):
    """Notes each test; a test is what its worst subtest is."""

    outcomes = {}

    def stopTest(self, test):
        super().stopTest(test)
        self.outcomes.setdefault(test.id(), "passed")

    def note(self, test, outcome):
        test = getattr(test, "test_case", test)
        if self.outcomes.get(test.id()) != "failed":
            self.outcomes[test.id()] = outcome

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed")

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "failed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "failed")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.note(test, "failed")


def write():
    with open(os.environ["SUITE_RESULTS"], "w") as file:
        json.dump(Result.outcomes, file, indent=0, sort_keys=True)


def run(modules):
    suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    unittest.TextTestRunner(resultclass=Result, verbosity=0).run(suite)
    write()


def run_with_our_aiosqlite(modules):
    """The tests import aiosqlite; what they get of it is manyhands.aio."""
    import aiosqlite
    import aiosqlite.core

    import manyhands.aio

    for module in (aiosqlite, aiosqlite.core):
        for name in ("connect", "Connection", "Cursor"):
            setattr(module, name, getattr(manyhands.aio, name))
    run(modules)


try:
    from django.test.runner import DiscoverRunner
except ImportError:
    pass
else:

    class DjangoRunner(DiscoverRunner):
        """Django's runner, with the results of this module."""

        def get_resultclass(self):
            return Result

        def run_suite(self, suite, **named):
            try:
                return super().run_suite(suite, **named)
            finally:
                write()


if __name__ == "__main__":
    mode, modules = sys.argv[1], sys.argv[2:]
    modules = [name for name in modules if importlib.util.find_spec(name)]
    if mode == "--aiosqlite":
        run_with_our_aiosqlite(modules)
    else:
        run(modules)
