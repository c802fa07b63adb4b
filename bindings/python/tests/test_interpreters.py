"""Where the package does not work it says so, before it is loaded: a process whose sub-interpreter had a connection
open never exited."""

import subprocess
import sys

import pytest
from interpreters import ENVIRONMENT, INTERPRETERS

PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

# Each way to ask for a module of the package.
ATTEMPT = '''
for name in ["", ".dbapi2", "._manyhands", ".errors"]:
    try:
        __import__("manyhands" + name)
        print("loaded")
    except ImportError as error:
        print(str(error).partition(",")[0])
sys = __import__("sys")
print([name for name in sys.modules if name.startswith("manyhands")])
'''

if sys.argv[1] == "main first":
    import manyhands
other = interpreters.create()
run = getattr(interpreters, "exec", None) or interpreters.run_string
assert run(other, ATTEMPT) is None
interpreters.destroy(other)
import manyhands
print(manyhands.connect(":memory:").execute("SELECT 1").fetchall())
"""


@pytest.mark.parametrize("order", ["main first", "main last"])
@pytest.mark.parametrize("version", sorted(INTERPRETERS))
def test_a_sub_interpreter_is_refused_and_the_main_one_works(version, order):
    command = [INTERPRETERS[version], "-W", "ignore", "-c", PROGRAM, order]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    refused = "manyhands works in the main interpreter only"
    assert done.stdout.splitlines() == [*[refused] * 4, "[]", "[(1,)]"]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_free_threaded_build_is_refused():
    """None is at hand: one says what it is by its flag."""
    program = "import sys; sys.abiflags += 't'; import manyhands"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: manyhands does not support free-threaded builds of Python" in done.stderr
