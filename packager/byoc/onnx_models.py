"""Models of ONNX as Relax modules, by the frontend of apache-tvm.

mod = mblob.byoc.relax.from_onnx("model.onnx", {"x": [1, 3, 224, 224]})
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mblob.errors import did_you_mean, needs_package
from mblob.packager.byoc.onnx_folding import fold_shapes, inferred
from mblob.packager.byoc.onnx_integers import in_plain_operators
from mblob.packager.byoc.onnx_recurrent import unroll
from mblob.packager.errors import BuildError
from mblob.packager.path_arguments import checked_path

_LONGEST = 600  # characters of what TVM says


def from_onnx(
    path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    *,
    params_outside: bool = False,
) -> Any:
    """Read a model of ONNX.

    Args:
        path: of the model; files with its weights are beside it.
        shapes: name -> shape of inputs. Those that have a size which the model leaves open must be
            among them. A size that stays open is a name, `["n", 3, 224, 224]`: each call tells it.
        params_outside: `build` makes a payload of the weights, which `swap` can replace. Otherwise they
            are constants of the code.

    Returns:
        An IRModule of apache-tvm for `partition` and `build`.

    Raises:
        BuildError: the file is no model of ONNX; a shape is missing, or contradicts the model; TVM's
            frontend cannot read the model, such as for an operator that it does not know.
        IncompatibleError: apache-tvm or onnx is not installed.
    """
    path = Path(checked_path(path, "from_onnx"))
    onnx, frontend = _packages()
    with path.open("rb"):
        pass  # as the system says it
    try:
        model = onnx.load(path)
    except OSError:
        raise
    except Exception as error:
        raise BuildError(f"{path}: no model of ONNX, or a damaged one: {said(error)}") from error
    if not model.graph.output:
        raise BuildError(f"{path}: no model of ONNX, or a damaged one: it has no outputs")
    fixed = _shapes(str(path), model.graph, shapes or {})
    known = inferred(onnx, model, fixed)
    in_plain_operators(onnx, model, known, keep_weights=params_outside)
    fold_shapes(onnx, model, fixed, keep_weights=params_outside)
    unroll(onnx, model, inferred(onnx, model, fixed))
    with warnings.catch_warnings(record=True) as told:  # of what the frontend then fails for
        warnings.simplefilter("always")
        try:
            module = frontend.from_onnx(
                model, shape_dict=fixed, keep_params_in_input=params_outside
            )
        except Exception as error:
            why = [*(said(w.message) for w in told if w.category is UserWarning), said(error)]
            raise BuildError(f"{path}: TVM cannot read this model: {why[0]}") from error
    for warning in told:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return module


def _packages() -> tuple[Any, Any]:
    package = "onnx"
    try:
        import onnx

        package = "apache-tvm"
        from tvm.relax.frontend import onnx as frontend
    except ImportError as error:
        raise needs_package("reading models of ONNX", package, "onnx") from error
    return onnx, frontend


def said(error: BaseException | Warning | str) -> str:
    """The text of an error of others in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _shapes(
    path: str, graph: Any, given: Mapping[str, Sequence[int | str]]
) -> dict[str, list[int]]:
    """The shape of each input of the model that has no size left open; others are written into it."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: _dimensions(value) for value in graph.input if value.name not in weights}
    for name in given:
        if name not in inputs:
            there = ", ".join(inputs) or "none"
            raise BuildError(
                f"{path}: shapes= names {name!r}, which is no input; there are: {there}{did_you_mean(name, inputs)}"
            )
    found, open_ = {}, []
    for name, sizes in inputs.items():
        shape = [*given.get(name, sizes or ())]
        if name in given and not _fits(shape, sizes):
            raise BuildError(
                f"{path}: shapes= has {[*given[name]]} for {name}, expected positive sizes that fit"
                f" {_shown(name, sizes)}"
            )
        named = any(not isinstance(size, int) for size in shape)
        if (named and name not in given) or (sizes is None and not shape):
            open_.append(_shown(name, sizes))
        elif named:
            _leave_open(next(value for value in graph.input if value.name == name), shape)
        else:
            found[name] = [int(size) for size in shape]
    if open_:
        raise BuildError(
            f"{path}: the sizes of these inputs are open: {', '.join(open_)}; give each a whole shape by shapes="
        )
    return found


def _leave_open(value: Any, shape: Sequence[int | str]) -> None:
    """Write a shape with names into an input of the model."""
    dimensions = value.type.tensor_type.shape.dim
    del dimensions[:]
    for size in shape:
        dimension = dimensions.add()
        if isinstance(size, int):
            dimension.dim_value = size
        else:
            dimension.dim_param = size


def _dimensions(value: Any) -> list[int | str] | None:
    """The sizes of an input, the name or "?" of those that are open; None if their number is, too."""
    shape = value.type.tensor_type
    if not shape.HasField("shape"):
        return None
    return [
        d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else d.dim_param or "?"
        for d in shape.shape.dim
    ]


def _fits(shape: Sequence[object], sizes: Sequence[int | str] | None) -> bool:
    if not all(
        re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", size)
        if isinstance(size, str) and sizes is not None
        else isinstance(size, int) and size > 0
        for size in shape
    ):
        return False
    return sizes is None or (
        len(shape) == len(sizes)
        and all(isinstance(wanted, str) or wanted == size for wanted, size in zip(sizes, shape))
    )


def _shown(name: str, sizes: Sequence[int | str] | None) -> str:
    return f"{name}[{'...' if sizes is None else ','.join(map(str, sizes))}]"
