"""`mblob-pack run`: call one function of a library, or run its model, on data from files. It
executes its code."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.cli.arrays import devices_of, read_arguments, split_label, values_text, write_outputs
from mblob.cli.layout import add_layout, load
from mblob.cli.pages import page_target
from mblob.cli.progress import remarks
from mblob.cli.report import PROGRAM, UsageError, for_terminal, in_options
from mblob.cli.verbs import VERBS
from mblob.errors import ArgumentError, MblobError, listed
from mblob.format.functions_table import parameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from mblob.devices import Device
    from mblob.module import Module

NAME = "run"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. ARG is an array (x.npy, x.npz:key), an integer, a float, or an output array of "
        "zeros (DTYPE[SHAPE]); for a parameter that is a text, const char *, the text "
        "itself. An array for a parameter that is not const is an output, too. A model takes its inputs "
        "by name: NAME=ARG; DTYPE[SHAPE] is one of zeros. A .npy file of bfloat16 or float8 does not contain its type; "
        "write x.npy:bfloat16.",
        epilog="example: mblob-pack run deploy.so vadd a.npy b.npy 'float32[1024]' 1024 -o out.npz; "
        "mblob-pack run model.so data=x.npy -o out.npz --repeat 10 --profile",
    )
    parser.add_argument("file", metavar="FILE", help="shared library")
    parser.add_argument(
        "words",
        metavar="FUNC ARG...",
        nargs="*",
        help="function to call and its arguments in order; or inputs of the model",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT.npz",
        type=Path,
        help="write outputs here, as out0, out1, ...; the array of a file that the function may write, by the name "
        "of its parameter",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object, schema mblob/run/1, on stdout"
    )
    parser.add_argument(
        "--device",
        metavar="KIND[:N]",
        action="append",
        default=[],
        help="device of the arrays in a call (cpu, opencl, cuda:1, ...; default: cpu). A graph may use "
        "several: repeat the option; values without a device are on the first one",
    )
    model = parser.add_argument_group("models: graph and AOT executors, virtual machines")
    model.add_argument(
        "--repeat", metavar="N", type=positive, default=1, help="run it N times and print the time"
    )
    model.add_argument(
        "--profile",
        action="store_true",
        help="print the time of each operator (graph), each instruction (virtual machine), or of the "
        "whole model (AOT)",
    )
    model.add_argument(
        "--html",
        metavar="OUT.html",
        help="with --profile: write a page for a browser that shows the times",
    )
    model.add_argument(
        "--parallel",
        metavar="N",
        type=int,
        help="run independent operators of a graph on N threads; 1: one after the other; 0: one "
        "thread for each processor (default: several if the first runs show it helps)",
    )
    model.add_argument(
        "--name",
        metavar="NAME",
        default="default",
        help="name of the model in the library (default: default), or of a virtual machine's "
        "function (default: main, or the only one)",
    )
    parser.add_argument(
        "--assume",
        choices=("packed",),
        help="call a function as a packed one of TVM's if nothing says how it is called. If it is "
        "none, the call can crash",
    )
    add_layout(parser)
    parser.usage = "mblob-pack run FILE (FUNC [ARG...] | [NAME=ARG...]) [-o OUT.npz] [options]"
    parser.set_defaults(run=run)


def positive(text: str) -> int:
    """A number from 1 on, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 on, found {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Load the library, call the function or run the model, print what it gave, write its
    outputs."""

    if args.output is not None and args.output.suffix != ".npz":
        raise UsageError(f"-o {args.output}: outputs are written as a .npz file", hint="-o out.npz")
    if args.html is not None and not args.profile:
        raise UsageError("--html shows where the time went", hint="add --profile")
    check_outputs(args)
    if not args.words or split_label(args.words[0]) is not None:
        from mblob.cli.run_model import run_model

        return run_model(args)
    if args.profile or args.repeat != 1 or args.parallel is not None:
        raise UsageError(
            "--repeat, --profile and --parallel are for models, which take inputs by name: data=x.npy"
        )
    name, *words = args.words
    if len(args.device) > 1:
        raise UsageError("a function is called with arrays on one --device; graphs take several")
    values, outputs = read_arguments(words, texts_of(args.file, name))
    with remarks(quiet=False):
        module = load(args)
    outputs = outputs_of(module, name, values, outputs)
    if args.device:
        (device,) = devices_of(args.device)
        result = call_on(device, module, args.file, name, values, outputs)
    else:
        result = call(module, args.file, name, values)
    if args.output is not None:
        write_outputs(args.output, outputs)
    print_result(args, name, result, outputs)
    return 0


def texts_of(file: str, name: str) -> list[bool]:
    """Of each parameter of a function, as the library tells it, whether it is a text. No code of the file runs."""
    from mblob.inspect.library import Library

    try:
        with Library(Path(file), verify="off", partial=True) as library:
            row = next(
                (r for r in library.function_table if r.name == name and r.abi == "packed"), None
            )
            known = parameters(row.prototype) if row is not None else []
    except (MblobError, OSError):  # loading tells it
        return []
    return [p.text.startswith("const char *") and p.depth == 1 and not p.dims for p in known]


def outputs_of(
    module: Module, name: str, values: list[Any], zeros: Mapping[str, np.ndarray[Any, Any]]
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that the function may write: those of zeros as out0, out1, ..., those of files by the
    names of its parameters. A parameter that is const takes an input, which is said of zeros."""
    known = parameters(str(module.functions.get(name, "")))
    if len(known) != len(values):
        return dict(zeros)
    found: dict[str, np.ndarray[Any, Any]] = {}
    files: dict[str, np.ndarray[Any, Any]] = {}
    for i, (parameter, value) in enumerate(zip(known, values)):
        if not parameter.pointer or not hasattr(value, "__array_interface__"):
            continue
        is_zeros = any(value is array for array in zeros.values())
        if "const" not in re.split(r"[*\[]", parameter.text)[0].split():
            if is_zeros:
                found[f"out{len(found)}"] = value
            else:
                files[parameter.name or f"argument {i}"] = value
        elif is_zeros:
            what = f"argument {i} ({parameter.text})"
            print(
                for_terminal(
                    f"{PROGRAM}: note: {what} is an input, here of zeros; x.npy gives it values"
                ),
                file=sys.stderr,
            )
    for key, value in files.items():
        found[key if key not in found else f"argument {key}"] = value
    return found


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse files that cannot be written before the library's code runs, which may take long, and
    before one of them is there without the other.

    Raises:
        UsageError: both are one file, or the page is the library. OSError: there is no such folder,
            or a folder of that name.
    """
    targets = [] if args.output is None else [args.output]
    if args.html is not None and Path(args.file).exists():
        page = page_target(Path(args.file), args.html)
        if args.output is not None and page.absolute() == args.output.absolute():
            raise UsageError(f"-o and --html are both {args.html}", hint="--html report.html")
        targets += [page] if args.html != "-" else []
    for path in targets:
        if not path.parent.is_dir() or path.is_dir():
            code = errno.EISDIR if path.is_dir() else errno.ENOENT
            raise OSError(code, os.strerror(code), str(path))


def call(module: Module, file: str, name: str, values: list[Any]) -> Any:
    """Call a function of the library; what is wrong with its arguments is a usage error."""
    try:
        function = module[name]
    except AttributeError as error:
        if Path(name).suffix in (".npy", ".npz"):
            raise UsageError(_file_for_name(module, file, name)) from None
        raise UsageError(in_options(f"{file}: {error}{_of_model(module, file)}")) from None
    try:
        return function(*values)
    except ArgumentError as error:
        error.args = (f"{error}{_of_model(module, file)}", *error.args[1:])
        raise


def _of_model(module: Module, file: str) -> str:
    """Advice if the library is a model, else "": nobody needs to call its functions."""
    from mblob.cli.run_model import is_model

    if not is_model(module):
        return ""
    return f"; {file} holds a model: to run it, pass its inputs by name, mblob-pack run {file} NAME=x.npy"


def _file_for_name(module: Module, file: str, name: str) -> str:
    """The error for a file that stands in place of the name of a function."""
    from mblob.cli.run_model import is_model

    if is_model(module):
        return f"{file} holds a model; pass its inputs by name: mblob-pack run {file} NAME={name}"
    functions = list(module.functions)
    return (
        f"{name!r} is a file, expected a function of {file} and then its arguments; it has: {listed(functions)}; "
        f"mblob-pack run {file} {functions[0] if len(functions) == 1 else 'FUNC'} {name}"
    )


def call_on(
    device: Device,
    module: Module,
    file: str,
    name: str,
    values: list[Any],
    outputs: Mapping[str, np.ndarray[Any, Any]],
) -> Any:
    """Call a function with its arrays on a device; outputs come back to where they were."""
    import mblob

    try:
        mblob.get_global_func("__tvm_set_device")(device.device_type, device.device_id)
    except mblob.IncompatibleError as error:
        raise mblob.IncompatibleError(
            str(error).replace("__tvm_set_device: ", "--device ", 1)
        ) from None
    there = [mblob.array(v, device) if hasattr(v, "__array_interface__") else v for v in values]
    result = call(module, file, name, there)
    for value, tensor in zip(values, there):
        if any(value is output for output in outputs.values()):
            value[...] = tensor.numpy()
    return result


def print_result(
    args: argparse.Namespace, name: str, result: Any, outputs: Mapping[str, np.ndarray[Any, Any]]
) -> None:
    """Print the returned value, and the outputs unless they went to a file."""
    if args.json:
        rows = [
            {"name": k, "dtype": str(v.dtype), "shape": list(v.shape)} for k, v in outputs.items()
        ]
        plain = result if isinstance(result, (type(None), bool, int, float, str)) else repr(result)
        report = {
            "schema": "mblob/run/1",
            "file": args.file,
            "function": name,
            "result": plain,
            "outputs": rows,
            "output_file": None if args.output is None else str(args.output),
        }
        print(json.dumps(report, indent=2))
        return
    if result is not None:
        print(for_terminal(str(result)))
    if args.output is None:
        for label, value in outputs.items():
            print(f"{label} = {value.dtype}{list(value.shape)}{values_text(value)}")
