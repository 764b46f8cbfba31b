"""Programs of Relax from C, over mblob.h alone: each case that TVM's own machine was recorded
with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mblob.dtype import DataType
from tests.e2e.programs import run
from tests.loader.executors.test_relax_golden import CLASSIC, LIBRARIES

Value = Mapping[str, Any]


class Words:
    """Cases as `golden_relax` reads them."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays
        self.played: dict[int, int] = {}  # which of the written cases a recorded one is
        self.count = 0

    def value(self, v: Value) -> Iterator[object]:
        kind = v["t"]
        yield kind
        if kind == "tensor":
            yield from self.tensor(v)
        elif kind in ("int", "bool"):
            yield int(v["v"])
        elif kind == "float":
            yield float(v["v"]).hex()
        elif kind == "str":
            yield "x" + v["v"].encode().hex()
        elif kind == "dtype":
            yield from DataType.parse(v["v"])[:2]
        elif kind == "shape":
            yield from (len(v["v"]), *v["v"])
        elif kind == "tuple":
            yield len(v["v"])
            for item in v["v"]:
                yield from self.value(item)
        elif kind == "function":
            yield v["name"]
        elif kind == "result":
            path = v.get("path", [])
            yield from (self.played[v["case"]], len(path), *path)

    def tensor(self, v: Value) -> Iterator[object]:
        array = self.arrays[v["key"]] if "key" in v else np.array(v["v"], v["dtype"])
        array = np.ascontiguousarray(array).reshape(v["shape"])
        yield from DataType.parse(v["dtype"])[:2]
        yield from (array.ndim, *array.shape, "x" + array.tobytes().hex())

    def case(self, number: int, case: Mapping[str, Any]) -> Iterator[object]:
        yield from ("\ncase", case.get("via", "call"), case["function"], len(case["args"]))
        for v in case["args"]:
            yield from self.value(v)
        if "error" in case:
            yield from ("error", case["error"]["kind"], "x" + said(case["error"]["text"]).hex())
        else:
            yield from self.result(case["result"], case)
        for i, v in case.get("mutates", {}).items():
            yield from ("mutates", i, *self.value(v))
        self.played[number] = self.count
        self.count += 1
        if "then" in case:
            rest = case["then"]["invoke_closure"]
            yield from ("\ncase", "invoke_closure", "-", 1 + len(rest), "result", self.count - 1, 0)
            for v in rest:
                yield from self.value(v)
            yield from self.result(case["then"]["result"], case)
            self.count += 1

    def result(self, v: Value, case: Mapping[str, Any]) -> Iterator[object]:
        yield from ("result", case.get("rtol", 1e-6), case.get("atol", 1e-6), *self.value(v))


def said(text: str) -> bytes:
    """What of TVM's text is compared: not the expression that failed, nor types in a signature."""
    wanted = text.rpartition(" : ")[2].partition(" is false: ")
    part = (wanted[2] or wanted[0]).rstrip(".")
    return (
        "Expected `" + part.partition("Expected `")[2] if "Expected `" in part else part
    ).encode()


@pytest.mark.parametrize("name", [*LIBRARIES, *(f"classic/relax_{r}" for r in CLASSIC)])
def test_every_case_gives_from_c_what_tvm_gives(
    variant: Path, golden: Path, tmp_path: Path, name: str
) -> None:
    """AddressSanitizer tells what is not given back."""
    library = golden / "relax" / f"{name}.so"
    if not library.exists():
        pytest.skip(f"no golden library {name}")
    is_classic = name.startswith("classic/")
    facts = library.parent / "classic.json" if is_classic else library.with_suffix(".json")
    cases = json.loads(facts.read_text())["cases"]
    cases = [c for c in cases if library.stem in c.get("only", [library.stem])]
    words = Words({} if is_classic else dict(np.load(library.with_suffix(".npz"))))
    text = [" ".join(map(str, words.case(i, case))) for i, case in enumerate(cases)]
    (tmp_path / "cases").write_text(" ".join(text) + "\n")
    env = {**os.environ, "MBLOB_PLUGIN_PATH": str(variant / "ffi")}
    done = run(variant / "golden_relax", library, tmp_path / "cases", env=env)
    assert int(done.stdout) == words.count >= len(cases) > 0
