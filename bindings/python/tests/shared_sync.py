"""Whether writers that wait at the same time share one commit, and so one sync."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Callable

import manyhands

WRITERS = 8


def commits_of_waiting_writers(path: Any, write: Callable[[], None]) -> int:
    """How many commits it takes that ``write`` is called in so many threads, while somebody holds the turn at first."""
    with closing(manyhands.connect(path, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(WRITERS) as threads:
            writers = [threads.submit(write) for _ in range(WRITERS)]
            # They wait, and nobody can tell from outside. One that is late makes one commit more.
            time.sleep(1)
            before = _commits(path)
            holder.execute("ROLLBACK")
            for writer in writers:
                writer.result(60)
        return _commits(path) - before


def _commits(path: Any) -> int:
    """The commit frames in the -wal file (https://sqlite.org/fileformat2.html#the_write_ahead_log, 4.1)."""
    wal = Path(f"{os.fspath(path)}-wal").read_bytes()
    frame_bytes = 24 + int.from_bytes(wal[8:12], "big")
    salt = wal[16:24]
    frames = (wal[at : at + 24] for at in range(32, len(wal), frame_bytes))
    return sum(1 for frame in frames if frame[8:16] == salt and frame[4:8] != bytes(4))
