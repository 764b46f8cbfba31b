"""Children of a process whose other threads are amid anything: they open, call and drop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# What threads and children do, and `check_child`, which ends a child that hangs.
START = """
import os, signal, sys, threading
import numpy as np
import mblob
warnings = __import__("warnings"); warnings.simplefilter("ignore", DeprecationWarning)
path = sys.argv[1]
toy = lambda payload, ctx: mblob.Module(ctx.type_key, functions={"value": lambda: 3})

def use():
    lib = mblob.load_module(path, loaders={"test_key": toy})
    a, c = np.ones(8, "f"), np.zeros(8, "f")
    lib["vadd"](a, a, c)
    assert c.tolist() == [2] * 8 and lib["give_int"]() == -7 and lib["value"]() == 3
    mblob.register_func("test.forks", lambda: 5, override=True)
    assert mblob.get_global_func("test.forks")() == 5
    try:
        mblob.load_module("/nowhere/x.so")
    except OSError as error:
        assert "x.so" in str(error)
    else:
        raise AssertionError

def fork(work=use):
    child = os.fork()
    if not child:
        signal.alarm(20)
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0

use()
"""

FORKS_AMID_THREADS = """
ended = threading.Event()
def on():
    while not ended.is_set():
        use()
threads = [threading.Thread(target=on) for _ in range(4)]
for thread in threads: thread.start()
try:
    for _ in range(40): fork()
    fork(fork)
finally:
    ended.set()
for thread in threads: thread.join()
use()
"""

FORK_AMID_A_LOADER = """
inside, go_on = threading.Event(), threading.Event()
parent = os.getpid()
def slow(payload, ctx):
    if os.getpid() == parent:
        inside.set()
        go_on.wait()
    return toy(payload, ctx)
lib = mblob.load_module(path, loaders={"test_key": slow})
thread = threading.Thread(target=lambda: lib["value"]())
thread.start()
inside.wait()
try:
    fork(lambda: [use(), lib["value"]()])
finally:
    go_on.set()
thread.join()
"""

A_LOADER_FORKS = """
def forks(payload, ctx):
    fork()
    return toy(payload, ctx)
lib = mblob.load_module(path, loaders={"test_key": forks})
assert lib["value"]() == 3
"""


def check(tree_library: Callable[..., Path], tmp_path: Path, script: str) -> None:
    library = tree_library(
        tmp_path / "lib.so", [("library", None), ("test_key", b"payload")], [[1], []]
    )
    command = [sys.executable, "-c", START + script, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_children_work_amid_threads_that_open_call_and_drop(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    check(tree_library, tmp_path, FORKS_AMID_THREADS)


def test_a_child_opens_a_module_that_a_thread_of_its_parent_is_opening(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    check(tree_library, tmp_path, FORK_AMID_A_LOADER)


def test_a_loader_may_fork(tree_library: Callable[..., Path], tmp_path: Path) -> None:
    check(tree_library, tmp_path, A_LOADER_FORKS)
