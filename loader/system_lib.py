"""Statically linked libraries: modules over the process-wide table that their constructors fill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mblob import arguments
from mblob.format import exported_functions
from mblob.loader.c_functions import read_table
from mblob.loader.library_sources import signatures
from mblob.loader.opened import Origin, wrap_tree
from mblob.module import Module
from mblob.native.runtime import address_of, check, ffi, lib


def system_lib(prefix: str = "") -> Module:
    """The module of a system library: objects that were packed with `system_lib=True` and `prefix`,
    and linked into a library of this process, such as a Python extension module.

    Link that library with `-lmblob`, and load it before this call.

    Raises:
        NotFoundError: nothing in this process is registered under that prefix. A longer prefix is
            another library, even if `prefix` is "".
        FormatError, DigestError: its modules are damaged.
    """
    arguments.name("system_lib", "prefix", prefix, empty=True)
    out = ffi.new("mblob_module **")
    check(lib.mblob_system_lib(prefix.encode(), out))
    root = out[0]
    try:
        return wrap_tree(root, Origin("", None, lambda: _functions(root)))
    finally:
        lib.mblob_module_release(root)


def _functions(root: Any) -> Mapping[str, str]:
    """Functions that the library's table lists; none of a library without one. The modules live with
    the process."""
    pending = [root]
    seen: set[int] = set()
    while pending:
        module = pending.pop()
        rows = read_table(module)
        if rows:
            return signatures(exported_functions.of_table(rows))
        if address_of(module) not in seen:
            seen.add(address_of(module))
            pending += [
                lib.mblob_module_import_at(module, i)
                for i in range(lib.mblob_module_import_count(module))
            ]
    return {}
