"""Signals that end what runs by an exception: one exception at a time, and whatever cleans up
behind it is let finish.

A second Ctrl-C during the clean-up of the first would leave half of it undone: files stay,
compilers run on.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any, Optional

Handler = Callable[[int, Optional[FrameType]], Any]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MARK = "_mblob_signal"  # an attribute of exceptions that came from a handler


def _is_on_its_way() -> bool:
    """True if code runs that handles the exception of a signal: a `finally`, an `except`, the end
    of a `with`."""
    error = sys.exc_info()[1]
    return error is not None and signal_behind(error) is not None


class DeferringHandler:
    """A signal handler around another one, which raises.

    While an exception that it raised is on its way, further signals are noted in `waiting`. Should
    Python drop the exception, as it does with those in destructors, the next signal raises again. A
    signal that comes in `held` raises at its end.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.waiting: list[int] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _is_on_its_way() or _is_within(frame, _UNDISTURBED):
            self.waiting.append(number)
            return
        if _is_within(frame, _HELD):
            _late.append(number)
            return
        try:
            self._handler(number, frame)
        except BaseException as error:
            setattr(error, _MARK, True)
            raise


def held(action: Callable[[], object]) -> None:
    """Call something short in which no signal raises: what is half done in it would be lost, or
    break Python.

    That is the start of threads, since Python's end does not wait for one that has not begun, and
    crashes in it; and imports, since classes turn what is raised while they are made into a
    RuntimeError (before Python 3.12). Signals that come meanwhile, however many, raise once at its
    end.
    """
    _call(action)
    if _late:
        number = _late[-1]
        _late.clear()
        signal.raise_signal(number)  # within another `held` it waits for the end of that


def _call(action: Callable[[], object]) -> None:
    action()


_late: list[int] = []  # signals that came while `_call` ran


class DeferredSignals:
    """A block whose clean-up no signal interrupts, however many arrive.

    In the main thread the Python handlers of SIGINT, SIGTERM and SIGHUP become patient ones
    meanwhile. Signals that waited are delivered behind the block, unless it was ended by one.

    It is a class, not a generator: `__exit__` of a generator's context can be interrupted before it
    resumes that.
    """

    def __init__(self) -> None:
        self._replaced: dict[int, tuple[Handler, DeferringHandler]] = {}
        self.last: list[Callable[[], object]] = []

    def __enter__(self) -> DeferredSignals:
        _late.clear()
        self._token = _current.set(self)
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                handler = signal.getsignal(number)
                if callable(handler):
                    patient = DeferringHandler(handler)
                    self._replaced[number] = handler, patient
                    signal.signal(number, patient)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self.last:
                self.last.pop()()
        finally:
            _current.reset(self._token)
            self._restore(ended=hasattr(error, _MARK))

    def _restore(self, *, ended: bool) -> None:
        """Put the handlers back that are still ours, then deliver what waited."""
        numbers = set()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            for number, (handler, patient) in self._replaced.items():
                if signal.getsignal(number) is patient:
                    signal.signal(number, handler)
                numbers.update(patient.waiting)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in [] if ended else sorted(numbers):
            signal.raise_signal(number)


def signal_behind(error: BaseException) -> BaseException | None:
    """The exception of a signal that became `error` on its way, or is it."""
    seen = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if hasattr(found, _MARK):
            return found
        seen.add(id(found))
        found = found.__context__  # which a cause is, too
    return None


_current: ContextVar[DeferredSignals | None] = ContextVar("mblob_patience", default=None)


def at_the_end(action: Callable[[], object]) -> None:
    """Have something called when the innermost `DeferredSignals` block ends, undisturbed by
    signals; the last one first.

    Without such a block nothing happens.
    """
    patience = _current.get()
    if patience is not None:
        patience.last.append(action)


def _is_within(frame: FrameType | None, codes: frozenset[object]) -> bool:
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


# A signal may come before the first statement of these, where no `try` of theirs can catch it.
_UNDISTURBED: frozenset[object] = frozenset(
    {DeferredSignals.__enter__.__code__, DeferredSignals.__exit__.__code__}
)
_HELD: frozenset[object] = frozenset({_call.__code__})
