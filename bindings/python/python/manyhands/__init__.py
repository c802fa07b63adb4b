"""Many writers, one ordinary SQLite file: the ``sqlite3`` module without ``database is locked``.

Change one import, in as many threads and processes as you like::

    import manyhands as sqlite3

    connection = sqlite3.connect("app.db")
    connection.execute("CREATE TABLE IF NOT EXISTS hit (worker INTEGER)")
    connection.execute("INSERT INTO hit VALUES (?)", (7,))
    connection.commit()
    connection.close()
"""

# Before anything else is loaded.
from . import _supported  # noqa: F401, I001
from .dbapi2 import *  # noqa: F401,F403
from .dbapi2 import _deprecated_names, _deprecated_value  # noqa: F401


def __getattr__(name: str) -> object:
    return _deprecated_value(__name__, name)
