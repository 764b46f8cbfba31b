"""A library, and what the tests of docs/errors.md do wrong with it."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import mblob

VADD = "void vadd(const float a[n], const float b[n], float c[n], int n)"
SOURCE = """
#include <tvm/runtime/c_runtime_api.h>
int fails(TVMValue *args, int *codes, int n, TVMValue *ret, int *ret_code, void *resource) {
  (void)codes; (void)n; (void)ret; (void)ret_code; (void)resource;
  TVMAPISetLastError(args[0].v_str);
  return -1;
}
"""
VADD_SOURCE = """
void vadd(const float *a, const float *b, float *c, int n) {
  for (int i = 0; i < n; i++) c[i] = a[i] + b[i];
}
"""
GRAPH = {
    "nodes": [{"op": "null", "name": "x", "inputs": []}],
    "arg_nodes": [0],
    "heads": [[0, 0, 0]],
    "node_row_ptr": [0, 1],
    "attrs": {
        "dltype": ["list_str", ["float32"]],
        "storage_id": ["list_int", [0]],
        "shape": ["list_shape", [[2]]],
    },
}
PTX = ".version 7.0\n.target sm_70\n.visible .entry k() { ret; }"
A, C = np.ones(4, "float32"), np.zeros(4, "float32")


class Case:
    """A library in a folder of its own, and what tests do wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "t.so"
        (folder / "v.c").write_text(VADD_SOURCE)
        host = mblob.csource_module(folder / "v.c", functions=[VADD])
        host.import_module(mblob.safetensors_module({"fc.weight": np.arange(6, dtype="float32")}))
        host.export_library(self.file)
        self.lib = mblob.load_module(self.file)
        mblob.csource_module(SOURCE).export_library(folder / "fails.so")
        self.fails = mblob.load_module(folder / "fails.so")["fails"]

    def graph(self) -> Any:
        return mblob.GraphBuilder()

    def vadd(self, *arguments: Any) -> Any:
        return self.lib["vadd"](*arguments)

    def model(self) -> Any:
        return mblob.graph_executor.create(json.dumps(GRAPH), self.lib, mblob.cpu())

    def refused_by_model(self, method: str, *arguments: Any) -> None:
        self.model().module[method](*arguments)

    def changed(self, old: bytes, new: bytes) -> Path:
        data = self.file.read_bytes()
        assert data.count(old) >= 1 and len(old) == len(new)
        (self.folder / "changed.so").write_bytes(data.replace(old, new, 1))
        return self.folder / "changed.so"

    def replaced(self) -> mblob.Module:
        path = Path(shutil.copy(self.file, self.folder / "replaced.so"))
        lib = mblob.load_module(path)
        path.unlink()
        shutil.copy(self.file, path)
        return lib

    def pickle_of_another(self) -> None:
        path = Path(shutil.copy(self.file, self.folder / "other.so"))
        data = pickle.dumps(mblob.load_module(path))
        path.unlink()
        self.changed(b"fc.weight", b"fc.weighs").rename(path)
        pickle.loads(data)

    def foreign(self) -> Path:
        data = bytearray(self.file.read_bytes())
        data[18:20] = (43 if data[18] != 43 else 62).to_bytes(2, "little")  # e_machine: sparc64
        (self.folder / "foreign.so").write_bytes(data)
        return self.folder / "foreign.so"

    def unknown_key(self) -> Path:
        host = mblob.csource_module("")
        host.import_module(mblob.json_module("tensorrt", "sub", "{}", []))
        host.export_library(self.folder / "unknown.so")
        return self.folder / "unknown.so"

    def exported_twice(self) -> None:
        root = mblob.blob_module("tests.mine", iter([b"x"]))
        for name in ("first.so", "second.so"):
            root.export_library(self.folder / name)

    def opened_by(self, loader: Any) -> None:
        root = mblob.blob_module("tests.mine", b"")
        root.export_library(self.folder / "mine.so")
        mblob.load_module(self.folder / "mine.so", loaders={"tests.mine": loader})["f"]

    def throws(self) -> None:
        source = (
            '#include <stdexcept>\nextern "C" void f(void);\n'
            'void f() { throw std::out_of_range("x is too large"); }'
        )
        host = mblob.csource_module(source, "cc", functions=["void f(void)"])
        host.export_library(self.folder / "throws.so")
        mblob.load_module(self.folder / "throws.so").f()

    def broken_source(self) -> None:
        mblob.csource_module("int x(").export_library(self.folder / "b.so")
