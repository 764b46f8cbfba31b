"""Starting compilers so that none is lost when a signal arrives."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable


class Starting(threading.Thread):
    """The start of a process, in a thread of its own.

    A signal's exception can come between the beginning of a process and its caller's knowing of it,
    but only in the main thread; there the process would be lost, and run on.
    """

    def __init__(self, start: Callable[[], subprocess.Popen[bytes] | None]) -> None:
        super().__init__(daemon=True)
        self._start_process = start
        self._done = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.process = self._start_process()
        except Exception as exc:  # it is raised where the process is waited for
            self.error = exc
        finally:
            self._done.set()

    def wait(self) -> subprocess.Popen[bytes] | None:
        """The process.

        Raises:
            What starting it raised.
        """
        self.start()
        self._done.wait()
        if self.error:
            raise self.error
        return self.process

    def begun(self) -> subprocess.Popen[bytes] | None:
        """The process after an exception in `wait`, which may have come before the thread ran: then
        there is none."""
        self._done.wait(5)
        return self.process
