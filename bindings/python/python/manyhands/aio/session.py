"""The calls of one connection: one after the other, each in a thread, on a native connection that comes and goes.

What always holds: one call runs at a time, and the state that the event loop sees is that of the end of the last
one, since to ask a native connection could wait for the call that runs. After a call that began a transaction the
next one waits until its task knows of that, or, when the task was cancelled, until it is rolled back: else nobody
would end it, and who holds the turn holds up all others.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from enum import Enum
from typing import Any, Callable, Deque, Dict, Generic, List, Optional, Tuple, TypeVar

from ..dbapi2 import Connection as NativeConnection
from ..dbapi2 import Error, ProgrammingError
from .threads import Process

T = TypeVar("T")


class State(Enum):
    """Of a session; it only goes forward."""

    NEW = 0
    OPEN = 1
    CLOSING = 2
    CLOSED = 3


class Session:
    """The machinery of a :class:`manyhands.aio.Connection`."""

    def __init__(self, connector: Callable[[], NativeConnection]) -> None:
        self.state = State.NEW
        self._connector: Optional[Callable[[], NativeConnection]] = connector
        # What was set on the native connection, for the next one.
        self.attributes: Dict[str, Any] = {}
        # Guards all that follows: worker threads and the event loop use it.
        self._lock = threading.Lock()
        self._native: Optional[NativeConnection] = None
        # Which native connection it is: what a cursor got from another one has come to its end.
        self.generation = 0
        # Reasons not to give the native connection back. The first is that it may have its own database.
        self._pins = 1
        self._calls: Deque[_Call[Any]] = deque()
        # Calls that were left without the lock, by what may be a finalizer; they come before the next one of the above.
        self._left: Deque[_Call[Any]] = deque()
        # The call that was sent to a pool, or whose task must still know what it began; and whether a thread has it.
        self._running: Optional[_Call[Any]] = None
        self._executing = False
        # Whether another native connection could go on in its place.
        self._plain = False
        self.in_transaction = False
        self._holds_turn = False
        # changes(), total_changes() and last_insert_rowid().
        self.counts: Optional[Tuple[int, int, int]] = None

    async def open(self) -> None:
        """Opens the native connection, so that a database that cannot be opened is an error here."""
        Process.chores.start()
        self.state = State.OPEN
        try:
            await self.call(lambda native: None, reads=True)
        except BaseException:
            # A task that was cancelled may have left a call that is still opening it.
            if self._running is None and self._native is None:
                self.state = State.CLOSED
            else:
                self.close()
            raise

    def close(self, by_chore: bool = False) -> Optional[asyncio.Future[None]]:
        """Closes it after all calls made before; what to wait for, if there is a loop and anything to close.

        :param by_chore: takes no lock, since a finalizer may be what closes it.
        """
        if self.state is not State.OPEN:
            return None
        self.state = State.CLOSING
        try:
            future = asyncio.get_running_loop().create_future()
            future.add_done_callback(self._note_closed)
        except RuntimeError:
            future = None
        call: _Call[None] = _Call(None, future, reads=True)
        if by_chore:
            # Calls that are made before the thread comes to it run after it.
            self._left.append(call)
            Process.chores.append(self._submit)
        else:
            self._submit(call)
        return future

    def abandon(self) -> None:
        """Closes it in a thread, when nobody can wait for that. A finalizer's: it takes no lock."""
        native = self._native
        if native is not None:
            Process.chores.append(lambda: Process.threads.readers.submit(native.close))

    def check(self) -> None:
        """Raises what calls raise before it was opened, and after it was closed."""
        if self.state in (State.NEW, State.CLOSED):
            raise ValueError("Connection closed")

    async def call(self, function: Callable[[NativeConnection], T], reads: bool = False) -> T:
        """Runs ``function`` with the native connection in a thread; ``reads`` if it waits for no turn."""
        self.check()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        call = _Call(function, future, reads)
        self._submit(call)
        try:
            result = await future
        except asyncio.CancelledError:
            self._cancel(call)
            raise
        except Exception:
            self._note_known(call)
            raise
        self._note_known(call)
        return result

    async def roll_back(self, function: Callable[[NativeConnection], None]) -> None:
        """Runs ``function``, which rolls back, even if the task is cancelled meanwhile: nobody else would."""
        self.check()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit(_Call(function, future, reads=True, stays=True))
        await asyncio.shield(future)

    def interrupt(self) -> None:
        """Ends the call that runs, with ``OperationalError``."""
        with self._lock:
            if self._native is not None:
                self._native.interrupt()

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute of the native connection, now and of each that follows."""
        self.check()
        with self._lock:
            if self._native is not None:
                setattr(self._native, name, value)
            self.attributes[name] = value

    def pin(self) -> None:
        """Keeps the native connection from being given back, until :meth:`unpin`."""
        with self._lock:
            self._pins += 1

    def unpin(self) -> None:
        """Undoes one :meth:`pin`."""
        with self._lock:
            self._pins -= 1
            idle = self._native is not None
        if idle:
            Process.idle.keep(self)

    def native(self) -> NativeConnection:
        """The native connection, opened if need be."""
        self.check()
        return self._take()

    def give_back(self) -> None:
        """Closes the native connection, if another one could go on in its place.

        Also when a call waits for a thread: thousands may, and each would hold what its connection has open.
        """
        with self._lock:
            if self._executing or self._pins or self._native is None or not self._plain:
                return
            native, self._native = self._native, None
            self.generation += 1
        native.close()

    def _submit(self, call: Optional[_Call[Any]] = None) -> None:
        with self._lock:
            while self._left:
                self._calls.append(self._left.popleft())
            if call is not None:
                self._calls.append(call)
            if self._running is None:
                if self._calls:
                    self._start_next()
            elif self._running.began and self._running.is_abandoned():
                self._undo()

    def _start_next(self) -> None:
        """Sends the first call to a pool. Under the lock."""
        call = self._running = self._calls.popleft()
        threads = Process.threads
        if self._holds_turn:
            pool = threads.holders
        elif self.in_transaction:
            pool = threads.transactions
        elif call.reads:
            pool = threads.readers
        else:
            pool = threads.writers
        try:
            pool.submit(_work, [self], call)
        except BaseException:
            # The interpreter ends: no call can run any more.
            self._running = None
            raise

    def run(self, call: _Call[Any]) -> Tuple[Any, Optional[BaseException]]:
        """One call, in a thread of a pool: its result or its error."""
        result, error, was_open = None, None, True
        with self._lock:
            self._executing = True
        try:
            if call.function is None:
                self._close_native()
            else:
                native = self._take_for(call)
                if native is not None:
                    was_open = call.stays or _is_in_transaction(native)
                    result = call.function(native)
        except BaseException as raised:
            error = raised
        with self._lock:
            self._executing = False
            self._pause()
            idle = self._plain
            call.began = self.in_transaction and not was_open
            if not call.began:
                self._go_on()
            elif call.is_abandoned():
                self._undo()
        if idle:
            Process.idle.keep(self)
        return result, error

    def _take_for(self, call: _Call[Any]) -> Optional[NativeConnection]:
        """The native connection, unless the call's task was cancelled. When it is later, :meth:`_cancel` says so."""
        if call.is_cancelled():
            return None
        native = self._take()
        with self._lock:
            return None if call.is_cancelled() else native

    def _take(self) -> NativeConnection:
        """The native connection, opened if it was given back."""
        with self._lock:
            if self._native is not None:
                return self._native
            connector = self._connector
        if connector is None:
            raise ProgrammingError("Cannot operate on a closed database.")
        # Without the lock: to open may wait for other processes, and the event loop would wait for the lock.
        native = connector()
        # Cursors ask in the thread that executes, when it has.
        native._count_later()
        with self._lock:
            if self._native is None and self._connector is not None:
                self._native = native
                for name, value in self.attributes.items():
                    setattr(native, name, value)
                if self.counts is not None:
                    native._resume(self.counts)
                return native
            opened_meanwhile = self._native
        native.close()
        if opened_meanwhile is None:
            raise ProgrammingError("Cannot operate on a closed database.")
        return opened_meanwhile

    def _pause(self) -> None:
        """Notes the state after a call. Under the lock."""
        self._plain = False
        if self._native is not None:
            try:
                state = self._native._pause()
            except Error:
                # It was closed behind our back, or by fork(): the next call says so.
                return
            # A cancellation that comes from now on finds no call that runs.
            self.in_transaction, self._holds_turn, self._plain, self.counts = state

    def _go_on(self) -> None:
        """The call that ran has ended: the next one runs. Under the lock."""
        self._running = None
        if self._calls:
            self._start_next()

    def _note_known(self, call: _Call[Any]) -> None:
        """The task of a call that has ended knows what it began."""
        if call.began:
            with self._lock:
                self._go_on()

    def _undo(self) -> None:
        """Rolls back the transaction that the last call began, before any other call runs. Under the lock."""
        self._calls.appendleft(_Call(lambda native: native._end("ROLLBACK"), None, reads=True, stays=True))
        self._start_next()

    def _cancel(self, call: _Call[Any]) -> None:
        """Takes back a call whose task was cancelled, ends it if it runs, or undoes what it began."""
        with self._lock:
            if call in self._calls:
                self._calls.remove(call)
                return
            if self._running is not call:
                return
            if call.began:
                self._undo()
                return
            if self._native is not None:
                # Until it has ended: see `_pause`.
                self._native._cancel()

    def _close_native(self) -> None:
        with self._lock:
            # Calls that come after this one open nothing.
            self._connector = None
            native, self._native = self._native, None
            self.generation += 1
            self.in_transaction = self._holds_turn = False
        if native is not None:
            native.close()

    def _note_closed(self, closing: object) -> None:
        self.state = State.CLOSED


class _Call(Generic[T]):
    """A function that is to run with the native connection, or ``None`` to close it; and who waits for it."""

    __slots__ = ("began", "function", "future", "reads", "stays")

    def __init__(
        self,
        function: Optional[Callable[[NativeConnection], T]],
        future: Optional[asyncio.Future[T]],
        reads: bool,
        stays: bool = False,
    ) -> None:
        self.function = function
        self.future = future
        self.reads = reads
        # Whether it stays, with what it began, when its task is cancelled.
        self.stays = stays
        # Whether it has ended, and had begun a transaction that is open.
        self.began = False

    def is_cancelled(self) -> bool:
        """Whether its task was cancelled."""
        return self.future is not None and self.future.cancelled()

    def is_abandoned(self) -> bool:
        """Whether its task was cancelled, or will never run again."""
        return self.is_cancelled() or self.future is not None and self.future.get_loop().is_closed()

    def deliver(self, result: Any, error: Optional[BaseException]) -> None:
        """Tells the task, in its loop."""
        if self.future is None:
            return
        try:
            self.future.get_loop().call_soon_threadsafe(_settle, self.future, result, error)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            pass


def _is_in_transaction(native: NativeConnection) -> bool:
    """Asked anew: what the session knows may be older than a change of ``isolation_level``, which commits."""
    try:
        return native.in_transaction
    except Error:
        # It was closed behind our back, or by fork(): the call says so, and begins nothing.
        return True


def _settle(future: asyncio.Future[Any], result: Any, error: Optional[BaseException]) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _work(holder: List[Session], call: _Call[Any]) -> None:
    """What a thread does. It keeps no session alive that its task drops when it has the result."""
    result, error = holder.pop().run(call)
    call.deliver(result, error)
