"""Many threads at once: calling, opening, looking up, running loaders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob


def run(work: Callable[[int], None], count: int = 8) -> None:
    """Run `work` in threads; the first failure is raised here."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def body(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


def test_threads_call_one_function(kernels: Path) -> None:
    vadd = mblob.load_module(kernels)["vadd"]

    def work(i: int) -> None:
        a, c = np.full(100, i, "f"), np.zeros(101, "f")
        for _ in range(300):
            vadd(a, a, c[1:])
        assert (c[1:] == 2 * i).all()

    run(work)


def test_threads_open_call_and_drop_libraries(kernels: Path) -> None:
    def work(i: int) -> None:
        for _ in range(60):
            assert mblob.load_module(kernels)["give_int"]() == -7

    run(work)


def test_errors_of_threads_are_their_own(kernels: Path) -> None:
    lib = mblob.load_module(kernels)

    def raises(i: int) -> None:
        raise KeyError(i)

    def work(i: int) -> None:
        for _ in range(100):
            with pytest.raises(KeyError) as caught:
                lib["call_it"](raises, i)
            assert caught.value.args == (i,)

    run(work)


def test_a_loader_runs_once_for_many_threads(
    tree_library: Callable[..., Path], tmp_path: Path
) -> None:
    path = tree_library(tmp_path / "t.so", [("library", None), ("test_threads", b"")], [[1], []])
    calls = []

    def loader(payload: memoryview, ctx: Any) -> mblob.Module:
        calls.append(1)
        time.sleep(0.05)  # the others wait for it
        return mblob.Module(ctx.type_key, functions={"value": lambda: 9})

    lib = mblob.load_module(path, loaders={"test_threads": loader})

    def work(i: int) -> None:
        assert (lib["value"] if i % 2 else lambda: lib["call_by_name"]("value"))() == 9

    run(work)
    assert calls == [1]
