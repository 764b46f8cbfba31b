"""Compilers, for packing and loading: the headers that they need, starting them so that none is
lost when a signal arrives, and their output as people need it in one line."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence

from mblob.installed import include_dir


def include_flags() -> tuple[str, str]:
    """The flags that kernels are compiled with: the folders of `mblob.h`, and of the header paths
    of TVM, tvm_ffi and DLPack.

    Raises:
        ToolchainError: the installation is incomplete.
    """
    return f"-I{include_dir()}", f"-I{include_dir() / 'mblob' / 'compat'}"


class ProcessStart(threading.Thread):
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


def as_by_default() -> Callable[[], object] | None:
    """The `preexec_fn` of `subprocess.Popen` for a compiler; None if it needs none.

    In a program that ignores SIGCHLD, compilers would ignore it too, and lose what the programs
    that they start end with.
    """
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN:
        return None
    return lambda: signal.signal(signal.SIGCHLD, signal.SIG_DFL)


# -- what they print -------------------------------------------------------------------------------

# The word, not a part of a path.
_TELLING = (
    r"(?i)(?<![\w/.-])(?:error|fatal)(?![\w/.-])|undefined reference|cannot find|multiple definition|relocation\b"
    r"|format not recognized"
)
# A driver repeats that a program failed which has said why, or says how many errors there were.
_REPEATS = (
    r"returned \d+ exit status$|command failed (?:with exit code|due to signal)|lto-wrapper failed$"
    r"|^compilation terminated\.?$|^\d+ (?:warnings?|errors?)(?: and \d+ errors?)? generated\.?$|^use the --help option"
)
# A line's first label says what it is. Lines that end so name only the place that the next one is
# about.
_LABEL = r"(?i)(?:^|\s)(error|fatal|warning|note|remark|info)(?: error)?:"
_REMARKS = ("warning", "note", "remark", "info")
_PLACE = r"[:,]$|^In file included from |^\d* ?\|"

# clang's
_NO_LINKER = r"invalid linker name in (?:argument )?'((?:-fuse-ld|--ld-path)=.+)'$"

# gcc's, of a name that it does not know; it knows some of linkers that are not installed.
_UNKNOWN_LINKER = r"unrecognized command[- ]line option ['\u2018\"](-fuse-ld=.*?)['\u2019\"](?:;|$)"


def _is_remark(line: str) -> bool:
    label = re.search(_LABEL, line)
    return re.search(_PLACE, line) is not None if label is None else label[1].lower() in _REMARKS


def first_error(output: str, command: Sequence[str] = ()) -> str:
    """The line of a tool's output that says most; "" if it printed nothing.

    Args:
        command: what was run; gcc does not say which linker it did not find.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    own = [line for line in lines if not re.search(_REPEATS, line)]
    said = [line for line in own if not _is_remark(line)]
    line = next(
        (line for line in said if re.search(_TELLING, line)), next(iter([*said, *own, *lines]), "")
    )
    options = (
        [word for word in command if word.startswith("-fuse-ld=")]
        if line.endswith("cannot find 'ld'")
        else []
    )
    missing = re.search(_NO_LINKER, line)
    if option := missing[1] if missing else next(iter(options[::-1]), ""):
        how, _, linker = option.partition("=")
        program = linker if how == "--ld-path" or "/" in linker else f"ld.{linker}"
        line = f"{line}: {option} needs {program}, which is not installed"
    elif unknown := re.search(_UNKNOWN_LINKER, line):
        option = unknown[1]
        name = option.partition("=")[2]
        what = (
            f"names {name!r}, a linker that this compiler does not know"
            if name
            else "names no linker"
        )
        line = f"{line}: {option} {what}; expected one such as bfd, gold, lld or mold"
    return line
