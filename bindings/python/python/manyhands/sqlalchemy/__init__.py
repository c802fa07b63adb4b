"""SQLAlchemy on one SQLite file with many writers: ``sqlite+manyhands://`` and ``sqlite+aiomanyhands://``.

The dialects are SQLAlchemy's own for SQLite (2.0 and later) over this package's connections; URLs look as
theirs do::

    engine = create_engine("sqlite+manyhands:////srv/app.db?label=shop&durability=normal")
    engine = create_async_engine("sqlite+aiomanyhands:////srv/app.db")

As with the ``sqlite3`` module, reads come before the transaction, which begins at the first INSERT, UPDATE or
DELETE; from there on it works beside others while it only writes, and waits for its turn to write before it
sees anything that could change. It never conflicts, and readers never queue.

Two more isolation levels can be chosen for an engine, a connection or a session, by
``execution_options(isolation_level=...)``:

``"IMMEDIATE"``
    A transaction waits for its turn at its beginning. What it reads stays so until it commits.
``"OPTIMISTIC"``
    A transaction reads one moment, waits for nobody before its commit, and there raises
    ``sqlalchemy.exc.OperationalError`` (``error.orig`` is a :class:`manyhands.ConflictError`) if something that
    it has read is no longer so. If it only reads, it never queues and never conflicts.

:func:`run` and :func:`run_async` run a function in an ``"OPTIMISTIC"`` transaction, and once more, in its turn,
after a conflict.

Any number of connections may be checked out of an engine at once: they are cheap, and writers that wait for the
same sync are faster together. ``pool_size`` (5) is how many are kept; ``max_overflow`` sets a limit.
"""

from .run import run, run_async

__all__ = ["run", "run_async"]
