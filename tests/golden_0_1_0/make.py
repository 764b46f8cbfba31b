"""Makes a library of each kind. The files beside this one are what mblob 0.1.0 made on x86-64; they are
never made again: later versions must open those.

python -m tests.golden_0_1_0.make FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import mblob
from tests.e2e.targets.test_targets import relax
from tests.loader import payloads
from tests.loader.conftest import KERNELS
from tests.loader.executors import test_aot_executor as aot
from tests.loader.executors import vm_programs
from tests.loader.executors.test_relax_params import ARRAYS
from tests.loader.executors.test_relax_params import program as relax_program
from tests.packager.edit.test_add_params import TEN, graph
from tests.packager.plugins import plugin
from tests.packager.standalone.test_relay import relay_program

DIALECTS = ("classic", "ffi")
SCALE = "void scale(float x[3], float by) { for (int i = 0; i < 3; ++i) x[i] *= by; }\n"
PREDICT = """void predict(const float x[3], const float w[2][3], float y[2]) {
  for (int r = 0; r < 2; ++r) y[r] = w[r][0] * x[0] + w[r][1] * x[1] + w[r][2] * x[2];
}
"""
WEIGHTS = {"w": np.arange(6, dtype="float32").reshape(2, 3), "b": np.ones(3, "int8")}
CONFIG = b'{"labels": ["cat", "dog"]}'
SMALL = [
    "-Os",
    "-s",
    "-fno-asynchronous-unwind-tables",
    "-Wl,-z,noseparate-code",
    "-Wl,--build-id=none",
]


def host() -> mblob.Module:
    return mblob.csource_module(SCALE)


def with_data() -> mblob.Module:
    made = host()
    made.import_module(mblob.safetensors_module(WEIGHTS))
    made.import_module(mblob.blob_module("config", CONFIG))
    return made


def make_standalone(path: Path) -> None:
    """Write a library with its runtime, whose functions are `alone_open` and so on."""
    made = mblob.csource_module(PREDICT)
    made.import_module(mblob.safetensors_module({"w": WEIGHTS["w"]}))
    made.export_library(path, standalone=True, prefix="alone", options=SMALL)


def make_classic(folder: Path) -> None:
    """Write models that the classic dialect alone has, but for graphs."""
    words: dict[str, Any] = {"dialect": "classic", "options": SMALL}
    factory = mblob.blob_module("AotExecutorFactory", payloads.aot_factory({"w_0": aot.W}, "m"))
    factory.import_module(mblob.csource_module(KERNELS + aot.MODEL, functions=[]))
    factory.export_library(folder / "aot.so", **words)
    relay_program(vm_programs.arithmetic()).export_library(folder / "relay.so", **words)
    relax("classic").export_library(folder / "relax.so", **words)


def make(folder: Path) -> None:
    """Write all libraries."""
    for dialect in DIALECTS:
        end = "" if dialect == "classic" else f"_{dialect}"
        words: dict[str, Any] = {"dialect": dialect, "options": SMALL}
        host().export_library(folder / f"kernels{end}.so", **words)
        with_data().export_library(folder / f"weights{end}.so", **words)
        with_data().export_library(folder / f"digests{end}.so", digest="sha256", **words)
        carries = host()
        carries.import_module(mblob.blob_module("toy_key", bytes(27)))
        carried = [mblob.csource_module(plugin())]
        carries.export_library(folder / f"carried{end}.so", carry=carried, **words)
        joined = folder / f"joined{end}.so"
        host().export_library(joined, **words)
        (folder / "half.c").write_text("int half(int x) { return x / 2; }\n")
        mblob.add(joined, kernels=folder / "half.c", weights=WEIGHTS)
        (folder / "half.c").unlink()
    graph(folder / "graph.so", w=TEN)
    mblob.strip_index(folder / "graph.so", folder / "no_index.so")
    make_classic(folder)
    program = relax_program()
    program.import_module(mblob.safetensors_module(ARRAYS, order=True))
    program.export_library(folder / "relax_ffi.so", dialect="ffi", options=SMALL)
    make_standalone(folder / "standalone.so")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
