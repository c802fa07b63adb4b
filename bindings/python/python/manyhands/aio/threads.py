"""The threads that all connections of a process share, and which of its idle connections keep what they have open."""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Callable, Dict

if TYPE_CHECKING:
    from .session import Session

WRITERS_MAX = 16 + (os.cpu_count() or 1)
"""How many calls of a process may wait for their turn at once; as many again inside transactions."""

READERS_MAX = 4 + (os.cpu_count() or 1)
"""How many reads of a process run at once."""

# One file has one holder: reached by nobody who has fewer files.
_HOLDERS_MAX = 1000

# How many idle connections keep what they have open. Each may hold 2 MB of the database's pages.
_IDLE_MAX = 16


class Threads:
    """Four pools; each starts a thread only when none of its own is free.

    A transaction that has begun does not wait behind those that have not: each holds memory until it ends.
    """

    def __init__(self) -> None:
        self.writers = ThreadPoolExecutor(WRITERS_MAX, "manyhands-writer")
        self.transactions = ThreadPoolExecutor(WRITERS_MAX, "manyhands-transaction")
        self.readers = ThreadPoolExecutor(READERS_MAX, "manyhands-reader")
        self.holders = ThreadPoolExecutor(_HOLDERS_MAX, "manyhands-holder")


class Idle:
    """The idle connections that were used last. They keep what they have open; older ones give it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: Dict[int, weakref.ref[Session]] = {}

    def keep(self, session: Session) -> None:
        """Keeps one more."""
        with self._lock:
            # A dictionary is in the order of insertion.
            self._kept.pop(id(session), None)
            self._kept[id(session)] = weakref.ref(session)
            oldest = None
            if len(self._kept) > _IDLE_MAX:
                oldest = self._kept.pop(next(iter(self._kept)))()
        if oldest is not None:
            oldest.give_back()


class Chores:
    """What finalizers, and code that they may call, leave to be done by a thread.

    The garbage collector calls a finalizer wherever a thread allocates something, also while that thread holds a lock
    of ours, of a pool, or of the application's. A finalizer that takes a lock can wait for its own thread, for ever.
    So it only appends a chore here: of all queues only ``SimpleQueue`` may be appended to by a finalizer.
    """

    def __init__(self) -> None:
        self._chores: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_started = False

    def start(self) -> None:
        """Starts the thread, if it does not run yet. Not for finalizers."""
        with self._lock:
            if not self._is_started:
                # A daemon: it holds up no exit of the interpreter.
                threading.Thread(target=self._work_off, name="manyhands-chores", daemon=True).start()
                self._is_started = True

    def append(self, chore: Callable[[], object]) -> None:
        """Leaves something to the thread. It takes no lock."""
        self._chores.put(chore)

    def _work_off(self) -> None:
        while True:
            chore = self._chores.get()
            try:
                chore()
            except RuntimeError:
                # The interpreter ends: the pools take nothing any more.
                pass
            # Until the next one comes it keeps nothing alive.
            del chore


class Process:
    """What belongs to this process: a child that ``fork()`` makes begins with its own."""

    threads = Threads()
    idle = Idle()
    chores = Chores()


def _begin_in_child() -> None:
    Process.threads = Threads()
    Process.idle = Idle()
    Process.chores = Chores()


os.register_at_fork(after_in_child=_begin_in_child)
