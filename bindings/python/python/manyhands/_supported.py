"""Refuses the interpreters in which this package does not work, before anything of it is loaded.

A sub-interpreter: the native half belongs to one interpreter, and a process whose sub-interpreter had a connection open
never exited. A free-threaded build: the native half relies on the GIL, and would bring it back for all.
"""

from __future__ import annotations

import sys


def _is_main_interpreter() -> bool:
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
    except ImportError:
        # A build without them.
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


if "t" in getattr(sys, "abiflags", ""):
    raise ImportError(
        "manyhands does not support free-threaded builds of Python: use one with the GIL "
        f"(python{sys.version_info[0]}.{sys.version_info[1]}, without a t at its end)"
    )

if not _is_main_interpreter():
    raise ImportError(
        "manyhands works in the main interpreter only, and this is a sub-interpreter; "
        "with mod_wsgi: WSGIApplicationGroup %{GLOBAL}"
    )
