"""ONNX's own tests of operators, with and without an engine.

`python onnx_nodes.py FOLDER [all]` writes FOLDER/told.json, one entry for each model: which operators went to the
engine, and the largest difference, of the largest value.

Models whose weights are inputs run a second time with constants in their place. What TVM's frontend or compiler
refuses without the engine is left out, and told.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import mblob

OPERATORS = """
    Abs Add AveragePool BatchNormalization Clip Concat Conv ConvTranspose DequantizeLinear Div Elu Exp Expand
    Flatten Gelu Gemm GlobalAveragePool GlobalMaxPool GroupNormalization HardSigmoid HardSwish InstanceNormalization
    LayerNormalization LeakyRelu Log LogSoftmax MatMul Max MaxPool Min Mish Mul Neg Pow PRelu QuantizeLinear
    ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Resize RMSNormalization Selu Sigmoid Slice Softmax
    Softplus Softsign Split Sqrt Squeeze Sub LSTM GRU RNN Swish Tanh Transpose Unsqueeze"""
SAMPLE = """
    Conv2d_depthwise_padded ELU PReLU_2d conv_with_strides_and_asymmetric_padding convtranspose_1d
    matmul_3d gelu_tanh_1
    averagepool_2d_count_include_pad averagepool_2d_ceil_last_window_starts_on_pad layer_normalization_4d_axis2
    resize_upsample_sizes_nearest_ceil_half_pixel resize_upsample_scales_nearest
    softmax_axis_1 logsoftmax_axis_0 hardswish reduce_max_keepdims_random squeeze operator_clip slice
    split_variable_parts_2d_opset13 expand_dim_changed"""
Case = tuple[str, Any, Sequence[Any], Sequence[Any]]


def converted() -> Iterator[Case]:
    """Models with weights, which lie in the package."""
    for path in sorted(Path(onnx.__file__).parent.glob("backend/test/data/pytorch-*/*/model.onnx")):
        sets = [[], []]
        for found, kind in zip(sets, ("input", "output")):
            files = sorted((path.parent / "test_data_set_0").glob(f"{kind}_*.pb"))
            found += [numpy_helper.to_array(onnx.load_tensor(file)) for file in files]
        yield path.parent.name.removeprefix("test_"), onnx.load(path), *sets


def nodes() -> Iterator[Case]:
    """Models of one operator."""
    for case in collect_testcases(None):
        kinds = {node.op_type for node in case.model.graph.node}
        given, wanted = case.data_sets[0]
        if kinds <= {*OPERATORS.split()} and all(
            isinstance(a, np.ndarray) for a in (*given, *wanted)
        ):
            name = case.name.removeprefix("test_")
            yield name, case.model, given, wanted
            if len(given) > 1:
                yield f"{name}, weights", with_weights(case.model, given), given[:1], wanted


def with_weights(model: Any, given: Sequence[Any]) -> Any:
    """The model with constants in place of all inputs but the first."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value, array in [*zip(model.graph.input, given)][1:]:
        made.graph.initializer.append(numpy_helper.from_array(array, value.name))
    del made.graph.input[1:]
    return made


def outputs(
    mod: Any, engine: str | None, folder: Path, given: Sequence[Any]
) -> tuple[list[Any], list[str]]:
    """All outputs, and what went where."""
    told: list[str] = []
    lib = mblob.byoc.relax.build(mod, "llvm", engine, trace=told.append)
    lib.export_library(folder / "model.so")
    machine = mblob.relax.VirtualMachine(mblob.load_module(folder / "model.so"), mblob.cpu())
    found = machine["main"](*given)
    return [t.numpy() for t in (found if isinstance(found, (list, tuple)) else [found])], told


def differences(some: Sequence[Any], others: Sequence[Any]) -> float:
    """The largest one."""
    if len(some) != len(others):
        return float("inf")
    return max(difference(one, other) for one, other in zip(some, others))


def difference(one: Any, other: Any) -> float:
    """Of the largest value, infinite for another shape."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    a, b = one.astype("float64"), other.astype("float64")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    return float(np.abs(a - b)[~same].max() / max(1, np.nanmax(np.abs(b))))


def compared(case: Case, folder: Path) -> dict[str, Any]:
    _, model, given, wanted = case
    onnx.save(model, folder / "model.onnx")
    try:
        mod = mblob.byoc.relax.from_onnx(folder / "model.onnx")
        plain, _ = outputs(mod, None, folder, given)
    except Exception as error:
        return {"refused": str(error)[:200]}
    try:
        found, told = outputs(mod, "dnnl", folder, given)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error)[:500]}"}
    right = differences(plain, wanted) <= 1e-4
    return {
        "told": told,
        "from TVM": differences(found, plain),
        "from ONNX": differences(found, wanted) if right else None,
    }


def main(folder: Path, wanted: bool) -> None:
    warnings.simplefilter("ignore")
    made = {}
    for case in (*converted(), *nodes()):
        if wanted or case[0].partition(",")[0] in SAMPLE.split():
            made[case[0]] = compared(case, folder)
    (folder / "told.json").write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["all"])
