"""The process `mblob-pack`: what signals do to it from its first moment to its last.

Nothing that takes time is imported above: an interrupt is one line and an exit code, also while the
rest is loaded.
"""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
_LINE = "mblob-pack: interrupted\n"


def main(argv: list[str] | None = None) -> int:
    """Run `mblob-pack`.

    Args:
        argv: the arguments without the program's name, for callers that have a process, and signal
            handlers, of their own. None: those of this process, which ends with this call.

    Returns:
        The exit code.
    """
    own = argv is None
    try:
        if own:
            _leave_on_signals()
            # entries by the hundred thousand are no garbage to look for
            gc.set_threshold(200_000, 10, 10)
            sys.setswitchinterval(0.0005)  # who starts a compiler waits for no imports
            from mblob.cli.late_modules import (
                load_when_called,
                load_when_used,
                without_translations,
            )

            # Of pyelftools, for its debugging aids alone, which takes longer than all else of it; of
            # pathlib, subprocess and shutil; and what few commands need.
            load_when_used(
                "dataclasses", "inspect", "pdb", "traceback", "ipaddress", "bz2", "lzma",
                "json", "shlex", "zlib", "locale", "binascii", "copy", "ntpath",
            )  # fmt: skip
            # Of pyelftools, what shows, and what tells of lines, frames, places and units of types.
            late = "construct.debug construct.lib.bitstream construct.lib.hex dwarf.aranges dwarf.callframe"
            late += " dwarf.dwarf_expr dwarf.lineprogram dwarf.locationlists dwarf.namelut dwarf.ranges dwarf.typeunit"
            load_when_called("pprint", *(f"elftools.{name}" for name in late.split()))
            without_translations()
        from mblob.cli.command_line import execute

        if own:
            _unwind_on_signals()
        code = execute(sys.argv[1:] if argv is None else argv)
        if own:
            _ignore_signals()
            _end(code)
    except BaseException as error:
        if own:
            _ignore_signals()
        from mblob.interrupts import signal_behind

        ended = signal_behind(error)
        if isinstance(ended or error, KeyboardInterrupt):
            code = INTERRUPTED
            if sys.stderr is not None:  # closed by the caller
                sys.stderr.write(_LINE)
        elif own and isinstance(ended, SystemExit):
            code = ended.code if isinstance(ended.code, int) else 1
        else:
            raise
        if own:
            _end(code)
    return code


def _end(code: int) -> None:
    """End the process without taking the interpreter apart, which takes as long as copying 64 MiB.
    Not where code of a library ran: it may have left something to C's streams."""
    if "mblob.loader" in sys.modules:
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return  # which the interpreter's own end tells
    os._exit(code)


def _leave_on_signals() -> None:
    """Until there is something to clean up; an interrupt that is ignored, as under nohup or `&`,
    stays ignored."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(_number: int, _frame: object) -> None:
    try:
        os.write(2, _LINE.encode())
    finally:
        os._exit(INTERRUPTED)


def _unwind_on_signals() -> None:
    """Leave through `finally` clauses, which remove temporary files, undisturbed by further
    signals."""
    import signal

    from mblob.interrupts import DeferringHandler

    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, DeferringHandler(signal.default_int_handler))
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, DeferringHandler(_terminate))


def _terminate(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _ignore_signals() -> None:
    """The end is decided; what Python still does must not be told otherwise."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
