"""mblob inside one process: packing, opening, calls."""

from __future__ import annotations

import ctypes
import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import worker

import mblob

CALLS: dict[str, Callable[[int], object]] = {}
NETWORKS: dict[str, Callable[[], Any]] = {}


def export(object_file: str, payload: str, output: str, digest: str) -> dict[str, float]:
    """Pack an object and a payload, both files."""

    def action() -> None:
        module = mblob.static_library(object_file)
        module.import_module(mblob.blob_module("raw", payload))
        mblob.export_library(module, output, digest=digest)

    return worker.sampled(action)


def load(path: str, count: int, size: int) -> dict[str, float]:
    """Open a library and list its entries: so many payloads of so many bytes each."""

    def action() -> object:
        module = mblob.load_module(path)
        sizes = [(m.type_key, m.payload.nbytes) for m in module.imported_modules]
        assert sizes == [("raw", size)] * count
        return module

    return worker.sampled(action, with_faults=True)


def look(path: str, count: int, size: int) -> dict[str, float]:
    """The same without running any of it."""

    def action() -> object:
        library = mblob.open(path)
        sizes = [(e.type_key, e.size) for e in library.entries[1:]]
        assert sizes == [("raw", size)] * count
        return library

    return worker.sampled(action, with_faults=True)


def dlopen(path: str) -> dict[str, float]:
    """The dynamic linker alone, opening and closing."""
    unload = ctypes.CDLL(None).dlclose
    unload.argtypes = [ctypes.c_void_p]
    return worker.sampled(lambda: unload(ctypes.CDLL(path)._handle), with_faults=True)


def replace(path: str, place: str, count: int) -> dict[str, int]:
    """Load, call and drop a library, of which a new copy takes the place each time; what the
    process has then."""
    import numpy as np

    a, b, c = (np.ones(4, np.float32) for _ in range(3))
    for _ in range(count):
        shutil.copyfile(path, f"{place}.new")
        Path(f"{place}.new").replace(place)
        c[:] = 0
        mblob.load_module(place)["add4"](a, b, c)
        assert c[3] == 2
    gc.collect()
    process = Path("/proc/self")
    return {
        "memory": worker.resident(),
        "mappings": len((process / "maps").read_text().splitlines()),
        "descriptors": len(list((process / "fd").iterdir())),
    }


def prepare(path: str) -> None:
    """Make the loops of calls; the library at `path` has `add4`, which takes three arrays of 4
    floats."""
    import numpy as np

    library = mblob.load_module(path)
    function = library["add4"]
    a, b, c = (np.ones(4, np.float32) for _ in range(3))
    # floats between the addresses of floats: the kernel gets aligned copies
    x, y, z = (np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32) for _ in range(3))
    views = [memoryview(bytearray(16)).cast("f") for _ in range(3)]
    bound, add = function.bind(a, b, c), np.add
    bound()
    assert c.tolist() == [2.0] * 4

    def loop(call: Callable[..., Any], *arguments: Any) -> Callable[[int], None]:
        p, q, r = arguments

        def run(count: int) -> None:
            for _ in range(count):
                call(p, q, r)

        return run

    def attribute(count: int) -> None:
        for _ in range(count):
            library.add4(a, b, c)

    def item(count: int) -> None:
        for _ in range(count):
            library["add4"](a, b, c)

    def prepared(count: int) -> None:
        for _ in range(count):
            bound()

    def numpy(count: int) -> None:
        for _ in range(count):
            add(a, b, out=c)

    own = ctypes.CDLL(path).add4
    array = np.ctypeslib.ndpointer(np.float32, shape=(4,), flags="C")
    own.restype, own.argtypes = None, [array] * 3
    if hasattr(mblob.Module, "ctypes"):  # an earlier commit has none
        CALLS["ctypes"] = loop(library.ctypes.add4, a, b, c)
    CALLS.update(
        own_ctypes=loop(own, a, b, c),
        aligned=loop(function, a, b, c),
        copied=loop(function, x, y, z),
        views=loop(function, *views),
        attribute=attribute,
        item=item,
        bound=prepared,
        numpy=numpy,
    )


def prepare_tensors(view: str, object: str) -> None:
    """Make loops of calls with one tensor, which C takes as a `DLTensor *`, and C++ as an object."""
    import numpy as np

    memory = np.zeros(4 + 64, np.uint8)  # aligned as both take it without a copy
    x = memory[-memory.ctypes.data % 64 :][:4].view(np.float32)
    for name, path in (("view", view), ("object", object)):
        function = mblob.load_module(path)["rank"]
        assert function(x) == 1
        CALLS[name] = worker.repeated(function, x)


def call(case: str, count: int) -> dict[str, float]:
    return worker.per_call(CALLS[case], count)


def prepare_relax(folder: str, shapes: dict[str, list[int]]) -> dict[str, float]:
    """Make loops of calls of `main` of Relax programs; the sums of what it gives."""
    import numpy as np

    sums = {}
    for name, shape in shapes.items():
        program = mblob.load_module(f"{folder}/relax_{name}.so")
        function = mblob.relax.VirtualMachine(program, mblob.cpu(0))["main"]
        x = mblob.array(np.full(shape, 0.5, "float32"))
        CALLS[name] = worker.repeated(function, x)
        sums[name] = float(function(x).numpy().sum())
    return sums


def prepare_network(case: str, path: str, io: str) -> float:
    """Make the action of a network; how far its results are from those of another, at most.

    Args:
        io: .npz with inputs x0, x1, ... and results y0, y1, ...
    """
    import numpy as np

    with np.load(io) as file:
        arrays = dict(file)
    given = [arrays[name] for name in sorted(arrays) if name.startswith("x")]
    function = mblob.relax.VirtualMachine(mblob.load_module(path), mblob.cpu(0))["main"]
    NETWORKS[case] = lambda: function(*given)
    results = NETWORKS[case]()
    results = results if isinstance(results, (list, tuple)) else [results]
    return max(float(abs(t.numpy() - arrays[f"y{i}"]).max()) for i, t in enumerate(results))


def call_network(case: str) -> dict[str, float]:
    """The second of two calls: the first one wakes the threads."""
    NETWORKS[case]()
    return worker.sampled(NETWORKS[case])


if __name__ == "__main__":
    actions = (
        export, load, look, replace, dlopen, prepare, prepare_tensors, call, prepare_relax,
        prepare_network, call_network, worker.installed_bytes, worker.mapped_bytes,
    )  # fmt: skip
    worker.serve({f.__name__: f for f in actions})
