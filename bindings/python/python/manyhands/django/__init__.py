"""Django on one SQLite file with many writers: ``ENGINE = "manyhands.django"``.

The backend is Django's own for SQLite (4.2 and later) over this package's connections::

    DATABASES = {
        "default": {
            "ENGINE": "manyhands.django",
            "NAME": BASE_DIR / "db.sqlite3",
            "ATOMIC_REQUESTS": True,
            "OPTIONS": {"transaction_mode": "auto", "durability": "full", "label": "shop"},
        }
    }

What ``OPTIONS`` may hold besides what Django's SQLite backend takes:

``transaction_mode``
    How ``atomic()`` begins. ``"auto"``, the default, never conflicts: the block works beside others
    while it only writes, and waits for its turn to write before its first read. ``"immediate"`` waits
    for its turn at once. ``"optimistic"`` never waits before the commit, and there raises
    ``OperationalError`` when something that the block has read is no longer so.
``durability``
    What a commit survives: ``"full"``, the default, also a power cut; ``"normal"``, the death of any
    process. ``PRAGMA synchronous`` in ``init_command`` says the same, as in Django's own backend.
``durability_min``
    What a commit survives at least, whatever ``PRAGMA synchronous`` says: ``"normal"`` by default.
``label``
    A name for the connection, shown to others who wait for it: up to 40 bytes.
``wal_bytes_limit``
    How many bytes of the WAL a reader that does not end may keep from being reused before writers wait for
    it, and are told who it is: ``None``, no limit, by default.
``journal``
    ``"keep"`` leaves a database that is in another journal mode than WAL as it is: plain SQLite. ``"wal"`` by default.
``timeout``
    How many seconds a writer waits for its turn: 5 by default.

Where a piece of work can be run twice, optimistic work is one line: :func:`retry_atomic` for a
function, :class:`RetryMiddleware` for all views, :func:`read_only` for what only reads.
"""

from .middleware import RetryMiddleware
from .units import read_only, retry_atomic

__all__ = ["RetryMiddleware", "read_only", "retry_atomic"]
