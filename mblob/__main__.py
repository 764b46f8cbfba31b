"""`python -m mblob`: what compiles and links C programs with the installed mblob. Each option prints
one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from mblob import installed
from mblob.errors import MblobError

PRINTED = {
    "--cflags": (installed.cflags, "options for a C compiler: -I and the folder of mblob.h"),
    "--libs": (installed.libs, "options for a linker; the program finds libmblob when it runs"),
    "--includedir": (installed.get_include, "the folder of mblob.h"),
    "--libdir": (
        installed.get_library_dir,
        "the folder of libmblob.so; with mblob[pack] of libmblob.a, too",
    ),
    "--amalgamation": (
        installed.get_amalgamation,
        "the path of mblob.c: libmblob as one C file, of mblob[pack]",
    ),
    "--cmakedir": (installed.cmake_dir, "the folder of mblobConfig.cmake, for -Dmblob_DIR="),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print what the options ask for, in their order.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m mblob",
        allow_abbrev=False,
        description="How to compile and link C programs with this mblob. To pack and load: mblob-pack.",
        epilog="example: cc host.c -o host $(python -m mblob --cflags) $(python -m mblob --libs)",
    )
    for option, (_, text) in PRINTED.items():
        parser.add_argument(option, dest="wanted", action="append_const", const=option, help=text)
    wanted = parser.parse_args(argv).wanted
    if not wanted:
        parser.error(f"expected one of {', '.join(PRINTED)}")
    try:
        for option in wanted:
            print(PRINTED[option][0]())
    except MblobError as error:
        print(f"python -m mblob: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
