"""Arguments that will be positional only: warned of from the same Python on as in ``sqlite3``."""

from __future__ import annotations

import functools
import sys
import warnings

# As in `typing`, which is not imported: it would cost each process a megabyte.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

# By method: the parameters that Python 3.15 takes by position only.
_POSITIONAL = {
    "create_function": ("name", "narg", "func"),
    "create_aggregate": ("name", "n_arg", "aggregate_class"),
    "set_authorizer": ("authorizer_callback",),
    "set_progress_handler": ("progress_handler",),
    "set_trace_callback": ("trace_callback",),
}


def _warning(method: str, names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    listed = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
    s = "" if len(quoted) == 1 else "s"
    return (
        f"Passing keyword argument{s} {listed} to _sqlite3.Connection.{method}() is deprecated. "
        f"Parameter{s} {listed} will become positional-only in Python 3.15."
    )


def _warns(method: Callable[..., Any], name: str, names: Sequence[str]) -> Callable[..., Any]:
    text = _warning(name, names)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs and not kwargs.keys().isdisjoint(names):
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return method(self, *args, **kwargs)

    return call


def warn_of_keywords(connection: type) -> None:
    """Makes the methods of a class of connections warn."""
    if sys.version_info >= (3, 13):
        for name, names in _POSITIONAL.items():
            setattr(connection, name, _warns(getattr(connection, name), name, names))
