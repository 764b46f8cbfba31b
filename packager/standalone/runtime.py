"""The runtime of standalone libraries as an object: `mblob.c` with `runtime.c` behind it. It is compiled once for each
compiler and choice of executors, and kept in the cache of the user."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mblob.installed import get_amalgamation
from mblob.packager.compile.commands import LTO
from mblob.packager.compile.host_objects import machine_options
from mblob.packager.compile.processes import Job, run_all
from mblob.packager.compile.toolchain import Toolchain, programs_of
from mblob.packager.standalone.interface import text_of
from mblob.temporary import replacing

# Functions that slots lead to: objects of the library may define others of these names (slot_shims.py).
_RENAMED = (
    "TVMFuncCall", "TVMAPISetLastError", "TVMBackendGetFuncFromEnv", "TVMBackendAllocWorkspace",
    "TVMBackendFreeWorkspace", "TVMBackendParallelLaunch", "TVMBackendParallelBarrier", "TVMBackendRunOnce",
)  # fmt: skip
_OPTIONS = (
    "-std=gnu11", "-Os", "-w", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-fno-strict-aliasing", "-pthread", "-g0",
)  # fmt: skip
# Exceptions of C++ end as errors, which takes tables for unwinding. C throws none.
_CATCHING = ("-fexceptions",)
_NOT_CATCHING = (
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-U__GCC_HAVE_DWARF2_CFI_ASM",
)  # fmt: skip
_NO_MACHINE = ("-g", "-O", "-fsanitize", *LTO)  # options that decide no ABI of this code


def compiled(
    tools: Toolchain, macros: Sequence[str], options: Sequence[str], work: Path, *, catches: bool
) -> Path:
    """The object, in `work`.

    Args:
        macros: what mblob.c has to have.
        options: the caller's; those that decide the ABI apply.
        catches: code of the library may throw.

    Raises:
        ToolchainError: the compiler refuses it, or the installation is incomplete.
    """
    own = [o for o in machine_options(options) if not o.startswith(_NO_MACHINE)]
    words = (*tools.cc, *_OPTIONS, *(_CATCHING if catches else _NOT_CATCHING), *own)
    source = _source(tuple(macros))
    output = work / "mblob_runtime.o"
    kept = _place(words, source)
    if kept is not None and _is_ours(kept):
        shutil.copyfile(kept, output)
        return output
    (work / "mblob_runtime.c").write_text(source, encoding="utf-8")
    command = (*words, "-c", "mblob_runtime.c", "-o", output.name)
    run_all([Job("the runtime (mblob.c)", command, compiler=tools.cc)], work)
    if kept is not None:
        with suppress(OSError):  # a cache that cannot be written is none
            kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(kept) as temporary:
                shutil.copyfile(output, temporary)
    return output


# -- the source ------------------------------------------------------------------------------------


def _source(macros: tuple[str, ...]) -> str:
    chosen = (
        macros
        if any(m.startswith("MBLOB_WITH_") for m in macros)
        else (*macros, "MBLOB_PROFILE_CORE")
    )
    defined = [
        f"#define {name}" for name in ("MBLOB_STANDALONE", "MBLOB_STATIC", "TVM_DLL", *chosen)
    ]
    renamed = [f"#define {name} mblob_alone_{name}" for name in _RENAMED]
    mblob = Path(get_amalgamation()).read_text(encoding="utf-8")
    parts = (*defined, *renamed, mblob, text_of("runtime.h"), text_of("runtime.c"))
    return "\n".join(parts)


# -- the cache -------------------------------------------------------------------------------------


def _place(words: Sequence[str], source: str) -> Path | None:
    """The file of an object in the cache; None without one."""
    folder = _folder()
    if folder is None:
        return None
    key = repr((*words, *programs_of(words), source))
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()}.o"


def _folder() -> Path | None:
    """The folder; csrc/plugins/opencl/cl_cache.c finds its own in the same way."""
    if os.environ.get("MBLOB_CACHE") == "0":
        return None
    if own := os.environ.get("MBLOB_CACHE_DIR"):
        return Path(own) / "standalone"
    xdg, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if xdg.startswith("/"):
        return Path(xdg) / "mblob" / "standalone"
    return Path(home) / ".cache" / "mblob" / "standalone" if home.startswith("/") else None


def _is_ours(path: Path) -> bool:
    """True if a file is there, and nobody else can have written it: its code would run as the user's."""
    with suppress(OSError):
        s = path.lstat()
        return stat.S_ISREG(s.st_mode) and s.st_uid == os.geteuid() and not s.st_mode & 0o022
    return False
