"""`mblob-pack import`: a model of ONNX as a library, through apache-tvm."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mblob.cli.inputs import check_output
from mblob.cli.progress import remarks
from mblob.cli.report import UsageError, one_line
from mblob.cli.verbs import VERBS
from mblob.cli.written import tell_written
from mblob.errors import IncompatibleError, KernelError
from mblob.temporary import replacing, temporary_folder

NAME = "import"
# Difference between two outputs: as a part of the largest value, and what rounding alone may make.
RELATIVE, ROUNDING = 1e-4, 1e-6
# Operators of ONNX that round to steps: a small difference before them may be one of steps behind.
_ROUNDING = re.compile("(Dynamic)?QuantizeLinear|QLinear.*")
_TIMES = 4  # that steps are changed
# Of the sizes that open ones get (the second has twice that size, the third three times), until onnxruntime took some.
_BASES, _ENOUGH = (1, 2, 32), 2


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. apache-tvm compiles it: pip install 'mblob[onnx]'. The library needs neither to run.",
        epilog="example: mblob-pack import model.onnx -o net.so --shape x=1,3,32,32",
    )
    parser.add_argument("file", metavar="MODEL", help="model (.onnx)")
    parser.add_argument(
        "-o", "--output", metavar="OUT", required=True, help="the library to write (.so, or .tar)"
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=1,3,224,224",
        action="append",
        default=[],
        help="whole shape of an input of which the model leaves a size open; may be repeated. A name in place of a"
        " number, as in x=n,3,224,224, leaves that size open: each call chooses it",
    )
    parser.add_argument(
        "--engine",
        choices=("dnnl",),
        help="give what it takes to an engine: dnnl is oneDNN. TVM compiles the rest (default: all)",
    )
    parser.add_argument(
        "--carry",
        metavar="FILE",
        action="append",
        default=[],
        help="plug-in that the library carries: `--carry dnnl` with this engine",
    )
    parser.add_argument(
        "--prepack",
        action="store_true",
        help="store weights also in the engine's format for this machine: a faster start on the same kind of processor"
        " (needs --engine)",
    )
    parser.add_argument(
        "--params-outside",
        action="store_true",
        help="weights are tensors beside the code, under their names in MODEL, which `mblob-pack swap` replaces; not"
        " those that the engine uses (default: constants of the code)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the library and onnxruntime on random inputs; if they differ, it is an error and nothing is written",
    )
    parser.add_argument(
        "--check-size",
        metavar="NAME=N",
        action="append",
        default=[],
        help="size for --check of one that --shape leaves open, as in n=4; may be repeated (default: several)",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="no progress, no warnings, not what was written"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, compile, compare, write."""
    check_output(NAME, args.output, "model.so")
    shapes = shapes_of(args.shape)
    sizes = sizes_of(args.check_size, shapes)
    if args.check_size and not args.check:
        raise UsageError("--check-size is for --check", hint="add --check")
    if args.prepack and not args.engine:
        raise UsageError("--prepack stores weights of an engine", hint="add --engine dnnl")
    reference = _onnxruntime() if args.check else None
    import mblob
    from mblob.packager.path_arguments import check_output as check_inputs

    check_inputs(Path(args.output), [("the model", Path(args.file))])

    def tell(text: str) -> None:
        if not args.quiet:
            print(one_line(text), file=sys.stderr, flush=True)

    relax = mblob.byoc.relax
    with remarks(quiet=args.quiet):
        module = relax.from_onnx(args.file, shapes, params_outside=args.params_outside)
        tell(f"read {args.file}")
        lib = relax.build(module, engine=args.engine, trace=tell, prepack=args.prepack)
        tell("compiled")
        output = Path(args.output)
        if reference is None or output.suffix == ".tar":
            if reference is not None:
                with temporary_folder() as folder:
                    lib.export_library(folder / "checked.so", carry=args.carry)
                    _check(reference, args.file, shapes, sizes, folder / "checked.so", tell)
            lib.export_library(output, carry=args.carry)
        else:
            with replacing(output) as unchecked:
                lib.export_library(unchecked, carry=args.carry)
                _check(reference, args.file, shapes, sizes, unchecked, tell)
    tell_written(args.output, quiet=args.quiet)
    return 0


def shapes_of(texts: Sequence[str]) -> dict[str, list[int | str]]:
    """Name and shape of each `--shape`; a name may have a `=`. A size that each call tells is a word.

    Raises:
        UsageError: one that has another form, or a name twice.
    """
    found: dict[str, list[int | str]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        words = re.split("[,x]" if re.fullmatch("[0-9,x]*", sizes) else ",", sizes)
        known = all(re.fullmatch("[0-9]{1,18}|[A-Za-z_][A-Za-z0-9_]*", word) for word in words)
        if not name or not known:
            raise UsageError(f"--shape: expected NAME=SIZES, as in x=n,3,224,224, found {text!r}")
        if name in found:
            raise UsageError(f"--shape: given twice for {name}, expected once")
        found[name] = [int(word) if word[0].isdigit() else word for word in words]
    return found


def sizes_of(
    texts: Sequence[str], shapes: Mapping[str, Sequence[int | str]]
) -> list[dict[str, int]]:
    """The sets of sizes for --check, by the names that `--shape` gives to open ones; one empty set if it gives none.

    Raises:
        UsageError: a `--check-size` that has another form, or is of no such name.
    """
    names = dict.fromkeys(word for shape in shapes.values() for word in shape if type(word) is str)
    given: dict[str, int] = {}
    for text in texts:
        name, _, size = text.partition("=")
        if not re.fullmatch("[1-9][0-9]{0,17}", size):
            raise UsageError(f"--check-size: expected NAME=N, as in n=4, found {text!r}")
        if name not in names:
            known = f"--shape names {', '.join(names)}" if names else "--shape leaves none open"
            raise UsageError(f"--check-size: {name!r} is no open size; {known}")
        given[name] = int(size)
    sets = [{name: base * i for i, name in enumerate(names, 1)} | given for base in _BASES]
    return [row for i, row in enumerate(sets) if row not in sets[:i]]


# -- the comparison --------------------------------------------------------------------------------


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise IncompatibleError("--check needs onnxruntime: pip install onnxruntime") from error
    return onnxruntime


def _check(
    reference: Any,
    file: str,
    shapes: Mapping[str, Sequence[int | str]],
    sizes: Sequence[Mapping[str, int]],
    library: Path,
    tell: Any,
) -> None:
    """Compare the outputs of a library with those of onnxruntime, for the first sets of sizes that it takes.

    Raises:
        IncompatibleError: onnxruntime cannot run the model. KernelError: an output differs.
    """
    import onnx

    import mblob

    refused, count = "", 0
    try:
        session = reference.InferenceSession(file, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise IncompatibleError(f"{file}: onnxruntime cannot run this model: {error}") from error
    nodes = onnx.load(file, load_external_data=False).graph.node
    whole, rounds = _inputs_of_bytes(nodes), any(_ROUNDING.fullmatch(n.op_type) for n in nodes)
    machine = mblob.relax.VirtualMachine(mblob.load_module(library), mblob.cpu())
    params = [machine.params] if machine.params else []
    for row in sizes:
        if count == _ENOUGH:
            break
        at = "".join(f" {name}={size}" for name, size in row.items())
        try:
            inputs = {
                i.name: _random(
                    i.type,
                    [int(row.get(n, n)) for n in shapes.get(i.name, i.shape)],
                    i.name in whole,
                )
                for i in session.get_inputs()
            }
            expected = session.run(None, inputs)
        except Exception as error:
            refused = f"onnxruntime cannot run this model{at and f' with{at}'}: {error}"
            continue
        count += 1
        found = machine["main"](*inputs.values(), *params)
        found = found if isinstance(found, (list, tuple)) else [found]
        moved = _moved(reference, file, inputs, expected) if rounds else [0.0] * len(expected)
        for output, wanted, tensor, by in zip(session.get_outputs(), expected, found, moved):
            tell(f"check{at}: {compared(output.name, wanted, tensor.numpy(), by)}")
    if not count:
        more = "; --check-size gives other sizes" if sizes[0] else ""
        raise IncompatibleError(f"{file}: {refused}{more}")


def _moved(
    reference: Any, file: str, inputs: Mapping[str, Any], expected: Sequence[Any]
) -> list[float]:
    """The largest change of each output of onnxruntime where it does not optimize, and where the steps to which a
    network rounds change by a part of RELATIVE."""
    import onnx

    found = [0.0] * len(expected)
    options = reference.SessionOptions()
    options.log_severity_level = 3  # errors: the first session told the rest
    options.graph_optimization_level = reference.GraphOptimizationLevel.ORT_DISABLE_ALL
    for model in (file, *_with_other_steps(onnx, onnx.load(file))):
        session = reference.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        for i, y in enumerate(session.run(None, inputs)):
            found[i] = max(found[i], _difference(expected[i], y))
    return found


def _with_other_steps(onnx: Any, model: Any) -> Iterator[bytes]:
    """The model, with other sizes of steps each time."""
    import numpy as np

    nodes = model.graph.node
    of_data = {n for node in nodes if node.op_type == "DynamicQuantizeLinear" for n in node.output}
    rounding = [
        node
        for node in nodes
        if _ROUNDING.fullmatch(node.op_type)
        or node.op_type == "DequantizeLinear"
        or (node.op_type == "Mul" and not of_data.isdisjoint(node.input))
    ]
    names = {name for node in rounding for name in node.input}
    constants = [node for node in nodes if node.op_type == "Constant"]
    tensors = [
        *(t for t in model.graph.initializer if t.name in names),
        *(a.t for node in constants if node.output[0] in names for a in node.attribute),
    ]
    arrays = [(t, onnx.numpy_helper.to_array(t)) for t in tensors]
    steps = [(t, array) for t, array in arrays if array.dtype.kind == "f"]
    random = np.random.default_rng(1)
    for _ in range(_TIMES):
        for tensor, array in steps:
            other = array * (1 + _relative(array) * random.uniform(-1, 1, array.shape))
            changed = onnx.numpy_helper.from_array(other.astype(array.dtype), tensor.name)
            tensor.CopyFrom(changed)
        yield model.SerializeToString()


def _relative(array: Any) -> float:
    """A difference that rounding may make, as a part of a number: more in float16."""
    import numpy as np

    rounding = float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0
    return max(RELATIVE, 4 * rounding)


def _difference(wanted: Any, other: Any) -> float:
    """The largest difference of two arrays; what is infinite or no number in both at once does not differ."""
    import numpy as np

    a, b = wanted.astype("float64"), other.astype("float64")
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):  # of infinities
        return float(np.abs(np.where(equal, 0.0, a - b)).max(initial=0.0))


def compared(name: str, wanted: Any, ours: Any, moved: float = 0.0) -> str:
    """The difference between two arrays of an output, as text.

    Args:
        moved: the change of the output where the steps to which the network rounds hardly change.

    Raises:
        KernelError: it is more than rounding makes.
    """
    import numpy as np

    if ours.shape != wanted.shape or ours.dtype != wanted.dtype:
        raise KernelError(
            f"--check: {name}: expected {wanted.dtype}{list(wanted.shape)} as of onnxruntime, found"
            f" {ours.dtype}{list(ours.shape)}"
        )
    numbers = wanted.astype("float64")
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    difference = _difference(wanted, ours)
    text = f"{name}: largest difference {difference:.1e}, largest value {largest:.3g}"
    if moved:
        text += f", {moved:.1e} in onnxruntime if steps change by {RELATIVE:.0e}"
    if not difference <= max(_relative(wanted) * largest, ROUNDING, 2 * moved):
        raise KernelError(f"--check: the outputs differ from onnxruntime's: {text}")
    return text


def _inputs_of_bytes(nodes: Sequence[Any]) -> set[str]:
    """The inputs that a network only takes as steps: all numbers of their type have a meaning."""
    others = {
        name
        for node in nodes
        if not (_ROUNDING.fullmatch(node.op_type) or node.op_type == "DequantizeLinear")
        for name in node.input
    }
    return {name for node in nodes for name in node.input[:1] if name not in others}


def _random(kind: str, shape: Sequence[int], whole: bool = False) -> Any:
    """An array for an input of a type of onnxruntime, such as `tensor(float)`.

    Args:
        whole: integers are of all numbers of the type.
    """
    import numpy as np

    name = kind.partition("(")[2].rstrip(")")
    dtype = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
    random = np.random.default_rng(0)
    if dtype.kind == "f":
        return random.random(shape).astype(dtype)
    if whole and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
    return random.integers(0, 2, shape).astype(dtype)  # also for indices
