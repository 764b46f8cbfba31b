"""`tvm.runtime.module`: libraries and what this process can run."""

from __future__ import annotations

import os
from collections.abc import Sequence

import mblob
from mblob import Module as Module
from mblob import load_module as load_module
from mblob import system_lib as system_lib
from mblob.benchmark import BenchmarkResult as BenchmarkResult


def load_static_library(path: str | os.PathLike[str], func_names: Sequence[str]) -> Module:
    """`mblob.static_library`: an object file or an archive, to be imported and exported.

    Args:
        func_names: names of its packed functions.
    """
    return mblob.static_library(path, func_names)


def enabled(target: str) -> bool:
    """True if this process can run code for a target: "llvm", "opencl", "graph_executor", ..."""
    return bool(mblob.get_global_func("runtime.RuntimeEnabled")(target))


def num_threads() -> int:
    """The number of threads of a parallel loop."""
    return int(mblob.get_global_func("runtime.NumThreads")())


__all__ = [
    "BenchmarkResult",
    "Module",
    "enabled",
    "load_module",
    "load_static_library",
    "num_threads",
    "system_lib",
]
