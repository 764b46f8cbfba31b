"""Layers of 8-bit integers of the full range, with the instructions of older processors: oneDNN alone
would sum pairs of products in 16 bits there."""

from __future__ import annotations

import itertools
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.dnnl import dnnl_graphs as ref
from tests.loader.dnnl.dnnl_graphs import CONVOLUTION, Graph, python
from tests.loader.dnnl.test_dnnl_relax import CASES

pytestmark = pytest.mark.own_process

SOME = np.random.default_rng(5)


def full(dtype: str, *shape: int) -> Any:
    """The last row holds the largest numbers only, so that each pair of products is above 16 bits."""
    limits = np.iinfo(dtype)
    array = SOME.integers(limits.min, limits.max + 1, shape).astype(dtype)
    array[-1] = limits.max
    return array


def whole(x: Any, w: Any, groups: int = 1) -> Any:
    """In float64, exact below 2 ** 53."""
    if x.ndim == 2:
        return x.astype("int64") @ w.astype("int64").T
    return ref.convolve(x, w, [1, 1], [1] * 4, [1, 1], groups).astype("int64")


class Layers(Graph):
    def layer(
        self,
        entry: Any,
        x: Any,
        w: Any,
        out: str,
        *,
        groups: int = 1,
        total: bool = False,
        **how: Any,
    ) -> tuple[Any, Any]:
        """round(relu((x * w + bias) * scale) + sum * 0.25 + 3), cut to the type; float32 and int32 as
        they are."""
        conv = x.ndim == 4
        layout, kernel = how.get("data_layout", "NCHW"), how.get("kernel_layout", "OIHW")
        spread = (1, -1, 1, 1) if conv else (1, -1)
        y = whole(x, w, groups)
        bias = SOME.integers(-9999, 9999, w.shape[0]).astype(how.pop("bias", "float32"))
        y = y + bias.astype("int64").reshape(spread)
        sent = ref.arrange(w, "OIHW", kernel) if conv else w
        weights = self.input(sent) if how.pop("passed", False) else self.const(sent)
        inputs, attrs = [entry, weights, self.const(bias)], {"bias_idx": 2, "o_scl_idx": 3}
        scale = np.ones(1, "float32")
        if out.endswith("int8"):
            scale = (SOME.uniform(0.5, 1, w.shape[0]) * 200 / abs(y).max()).astype("float32")
        inputs.append(self.const(scale))
        y = y * (scale.reshape(spread).astype("float64") if scale.size > 1 else 1)
        if out.endswith("int8"):
            inputs += [self.const(np.array(v, "float32")) for v in (3, 1, 0, 0)]
            attrs |= {"dst_zp_idx": 4, "activation": ["relu", 5, 6, 7]}
            y = np.maximum(y, 0)
            if total:
                other = full(out, *y.shape)
                sent = ref.arrange(other, "NCHW", layout) if conv else other
                inputs += [self.input(sent), self.const(np.array(0.25, "float32"))]
                attrs |= {"sum_idx": 8, "sum_scl_idx": 9}
                y = y + other * 0.25
            y = np.clip(np.rint(y + 3), np.iinfo(out).min, np.iinfo(out).max)
        if conv:
            attrs |= CONVOLUTION | {"groups": groups} | how
        shape = ref.arrange(y, "NCHW", layout).shape if conv else y.shape
        name = f"dnnl.qnn.{'conv2d' if conv else 'dense'}"
        return self.kernel(name, inputs, shape, dtype=out, out_dtype="int32", **attrs), y.astype(
            out
        )

    def give(self, entry: Any, y: Any, layout: str = "NCHW") -> Graph:
        one_step = y.dtype.name.endswith("int8")
        self.rtol, self.atol = (
            0,
            (1.01 if one_step else 0.51) / max(1.0, float(abs(y.astype("int64")).max())),
        )
        return self.result(entry, ref.arrange(y, "NCHW", layout) if y.ndim == 4 else y)


def graphs() -> list[Graph]:
    found = []
    for kind, data in itertools.product(("conv2d", "dense"), ("uint8", "int8")):
        shapes = ((2, 16, 5, 5), (16, 16, 3, 3)) if kind == "conv2d" else ((3, 64), (16, 64))
        cases: list[dict[str, Any]] = [
            {"out": "float32"},
            {"out": "int32", "bias": "int32"},
            {"out": data},
            {"out": "uint8", "total": True},
        ]
        if kind == "conv2d":
            cases += [
                {"out": "uint8", "data_layout": "NHWC", "kernel_layout": "HWIO", "total": True},
                {"out": "uint8", "data_layout": "NCHW16c", "kernel_layout": "OIHW16i16o"},
                {"out": "int8", "groups": 4},
                {"out": "float32", "groups": 16},
            ]
        else:
            cases.append({"out": "float32", "passed": True})
        for i, case in enumerate(cases):
            g = Layers(f"{kind}_{data}_{i}")
            groups, layout = case.get("groups", 1), case.get("data_layout", "NCHW")
            x = full(data, *shapes[0])
            w = full("int8", shapes[1][0], shapes[1][1] // groups, *shapes[1][2:])
            given = ref.arrange(x, "NCHW", layout) if x.ndim == 4 else x
            found.append(g.give(*g.layer(g.input(given), x, w, **case), layout))
        # the tensor between two layers is one of bytes: what the second reads was rounded
        g = Layers(f"{kind}_{data}_twice")
        x = full(data, *shapes[0])
        entry, y = g.layer(g.input(x), x, full("int8", *shapes[1]), "uint8")
        second = full("int8", 8, y.shape[1], *shapes[1][2:])
        found.append(g.give(*g.layer(entry, y, second, "uint8")))
    for data, constant in itertools.product(("uint8", "int8"), (False, True)):
        g = Layers(f"matmul_{data}_{constant:d}")
        x, w = full(data, 2, 3, 64), full("int8", 2, 16, 64)
        y = x.astype("int64") @ w.astype("int64").transpose(0, 2, 1)
        inputs = [g.input(x), g.const(w) if constant else g.input(w)]
        attrs = {"transpose_a": 0, "transpose_b": 1}
        entry = g.kernel("nn.batch_matmul", inputs, y.shape, dtype="float32", **attrs)
        found.append(g.give(entry, y.astype("float32")))
    return found


def check_all(folder: str) -> None:
    cases = [
        *graphs(),
        *(g for symbol, g in CASES.items() if symbol.startswith(("steps_", "zero_", "quantize"))),
    ]
    lib = ref.export([g.module() for g in cases], Path(folder))
    wrong = []
    for g in cases:
        try:
            g.check(lib)
        except Exception as e:
            wrong.append(f"{g.symbol}: {e}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of instructions of x86")
@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "AVX512_CORE", "ALL"])
def test_sums_of_products_of_bytes_do_not_saturate(isa: str, onednn: str, tmp_path: Path) -> None:
    code = f"from tests.loader.dnnl.test_dnnl_bytes import check_all; check_all({str(tmp_path)!r})"
    done = python(code, ONEDNN_MAX_CPU_ISA=isa, DNNL_MAX_CPU_ISA=isa)
    assert not done.returncode, done.stderr[-6000:]
