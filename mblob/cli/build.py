"""`mblob-pack build`: kernels, objects, blobs and weights into one shared library."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.bytes.sink import listening
from mblob.cli.inputs import add_inputs, blobs_of, check_output, functions_of, is_shared, sort_words
from mblob.cli.progress import progress, remarks, watched_files
from mblob.cli.report import PROGRAM, UsageError, one_line
from mblob.cli.verbs import VERBS
from mblob.cli.written import tell_written
from mblob.errors import MblobError, listed

if TYPE_CHECKING:
    from mblob.packager.link.build import BuildPlan

NAME = "build"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. Each input is told by its name.",
        epilog="example: mblob-pack build vadd.c model.safetensors -o deploy.so "
        "--function 'void vadd(const float *a, const float *b, float *c, int64_t n)' -- -O3 -march=native; "
        "mblob-pack build add.c --graph graph.json --params model.safetensors "
        "--function 'void add(const float a[8], const float b[8], float c[8])' -o model.so",
    )
    add_options(parser)
    parser.usage = "mblob-pack build INPUT... -o deploy.so [options] [-- CFLAGS...]"
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `build` and `standalone` take."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="deploy.so",
        help="the library to write (or .tar: objects to link)",
    )
    add = add_inputs(
        parser,
        "inputs",
        "source, object, archive, .tar of a library, weights, KEY=FILE (any file), or a manifest (.toml), whose paths "
        "are relative to its folder",
    )
    add.add_argument(
        "--packed",
        metavar="NAME",
        action="append",
        default=[],
        help="let TVM up to 0.20 call the function NAME: give its packed function the symbol NAME, and "
        "hide the C function. `--packed name` does this for all functions with a prototype",
    )
    add.add_argument(
        "--align",
        metavar="N",
        type=int,
        help="align the files of --blob to N bytes in the file and in memory: a power of two up to 4096. "
        "TVM then finds them empty",
    )
    add.add_argument(
        "--carry",
        metavar="FILE",
        action="append",
        default=[],
        help="plug-in that the library carries: a source, object or archive, or the name of a plug-in of "
        "mblob",
    )
    model = parser.add_argument_group("a model: a graph that calls the functions")
    model.add_argument("--graph", metavar="FILE", help="JSON of the graph")
    model.add_argument(
        "--params",
        metavar="FILE",
        help="its parameters: .safetensors, or a file of save_param_dict. Without --graph: those of a Relax program, "
        "also .npz or a folder with tensor-cache.json, in the order of the file",
    )
    model.add_argument(
        "--order",
        metavar="FILE",
        help="JSON list of names in --params, all or some, in the order of the Relax program",
    )
    model.add_argument(
        "--name", metavar="NAME", help="name of the model in the library (default: default)"
    )
    how = parser.add_argument_group("output")
    how.add_argument(
        "--dialect",
        choices=("classic", "ffi"),
        help="classic: for TVM 0.5-0.20 (default); ffi: for TVM 0.22 and later, and tvm_ffi. Inputs of one dialect, "
        "such as objects that TVM compiled, have their own default: that dialect",
    )
    how.add_argument(
        "--embed",
        choices=("auto", "grow", "object", "c", "append"),
        help="how the packed modules get into the library: grow (into the linked file), object or c (as an input of "
        "the linker), append (behind the linked file), auto (default: grow where this is possible)",
    )
    how.add_argument(
        "--digest",
        choices=("crc32", "sha256", "none"),
        help="digest of each payload (default: crc32)",
    )
    how.add_argument(
        "--no-index",
        action="store_true",
        help="write only TVM's bytes: no index, no digests. mblob then cannot open a library of the "
        "classic dialect that has a --blob KEY of your own",
    )
    how.add_argument(
        "--system-lib",
        action="store_true",
        help="write a system library for static linking: a .o, a .a, or a .tar of objects",
    )
    how.add_argument(
        "--prefix",
        metavar="PREFIX",
        help="prefix of the symbols of a system library; programs find the library by it. Of a standalone library, "
        "prefix of its C functions (default: the name of the output)",
    )
    how.add_argument(
        "--standalone",
        action="store_true",
        help="link the runtime into the library, with a C interface: the verb standalone does the same",
    )
    how.add_argument(
        "--header",
        metavar="FILE.h",
        help="write the header of the interface of a standalone library",
    )
    how.add_argument(
        "--shape",
        metavar="NAME=TYPE[SHAPE]",
        action="append",
        default=[],
        help="type and shape of an input or output of a standalone library, where the model does not tell them, such "
        "as data=float32[1,3]",
    )
    how.add_argument(
        "--no-reuse",
        action="store_true",
        help="do not share blocks on disk with the library that this one replaces",
    )
    how.add_argument("--cc", metavar="CC", help="compiler (default: $CC, else cc)")
    how.add_argument(
        "--target", metavar="TRIPLE", help="machine to build for, such as aarch64-linux-gnu"
    )
    how.add_argument(
        "--depfile",
        metavar="FILE",
        help="write a make rule that lists all files that were read, headers included. make, ninja and "
        "CMake use it to know when to pack again",
    )
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="no progress on a terminal, no warnings, not what was written",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object, schema mblob/build/1, on stdout"
    )
    parser.set_defaults(manifest=[])


SWITCH_INTERVAL = 5e-5  # seconds: half of what a step of the copy takes


def run(args: argparse.Namespace) -> int:
    """Make a plan of manifest and flags, and carry it out; or write a finished library with its runtime."""
    finished = next(filter(is_shared, args.inputs), None) if args.standalone else None
    if finished is not None:
        return _join_runtime(args, finished)
    from mblob.packager.link.build import build

    plan = make_plan(args)
    # The thread that copies a large payload wants the interpreter for an instant after each 256
    # KiB; by default it would wait 5 ms for it whenever this one is at work.
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        shown = progress(total_size(plan), sys.stderr, quiet=args.quiet)
        with remarks(quiet=args.quiet), shown as advance, listening(advance):
            converted = build(plan)
    except ValueError as error:
        if isinstance(error, MblobError):
            raise
        raise UsageError(str(error)) from error
    for name, file in () if args.quiet else converted.items():
        print(
            one_line(
                f"{PROGRAM}: info: {file} is of the {name} dialect, {plan.output} of the {plan.dialect} dialect:"
                " modules were converted and functions got adapters, as convert does"
            ),
            file=sys.stderr,
        )
    if not (args.quiet or plan.functions or plan.graph) and plan.kernels and plan.index:
        tell_of_plain_functions(plan.output)
    tell_result(args, plan.output, wants_all=plan.functions is None)
    return 0


# What of a command line has a meaning for a finished library.
_OF_FINISHED = {
    "cc", "cflags", "command_line", "header", "inputs", "json", "no_reuse", "output", "prefix", "quiet", "run", "shape",
    "standalone", "target", "verb",
}  # fmt: skip


def _join_runtime(args: argparse.Namespace, finished: str) -> int:
    """Write a finished library with its runtime: it is the only input."""
    from mblob.packager.edit.standalone import standalone

    others = [word for word in args.inputs if word != finished]
    given = (name for name, value in vars(args).items() if value not in (None, [], False))
    others += [f"--{name.replace('_', '-')}" for name in given if name not in _OF_FINISHED]
    if others:
        raise UsageError(
            f"standalone: {finished} is already linked, so it must be the only input; found {others[0]}",
            hint=f"mblob-pack add {finished} INPUT... -o all.so, and then mblob-pack standalone all.so -o whole.so",
        )
    if args.output is None:
        raise UsageError("standalone: expected -o whole.so")
    check_output("standalone", args.output, "whole.so")
    with remarks(quiet=args.quiet), watched_files(args, finished):
        standalone(
            finished, args.output, prefix=args.prefix or "", header=args.header, shapes=shapes_of(args),
            cc=args.cc, target=args.target, options=args.cflags,
        )  # fmt: skip
    tell_result(args, Path(args.output))
    return 0


def tell_result(args: argparse.Namespace, output: Path, *, wants_all: bool = False) -> None:
    """Say what was written, for people, as `tell_written`, and with `--json`."""
    tell_written(output, quiet=args.quiet, wants_all=wants_all)
    if args.json:
        report = {"schema": "mblob/build/1", "file": str(output), "size": output.stat().st_size}
        print(json.dumps(report, indent=2))


def tell_of_plain_functions(output: Path) -> None:
    """Say on stderr how the functions of a library become callable, if it has only plain ones."""
    if output.suffix != ".so":
        return
    from mblob.inspect.library import Library  # a build imports it when compilers have run

    with Library(output, verify="off", partial=True) as library:
        plain = library.plain_functions
        if plain and not library.packed_functions:
            reasons = {row.name: row.comment for row in library.function_table if row.comment}
            is_told = reasons.keys() >= set(plain)  # else one can be packed by its name
            reason = next(iter(reasons.items()), None) if is_told else None
            print(
                f"{PROGRAM}: info: {output} has only plain C functions ({listed(plain, 6)}); to call one by mblob,"
                f" pack it with its prototype: --function PROTOTYPE"
                if reason is None
                else f"{PROGRAM}: info: {output} has only plain C functions ({listed(plain, 6)}), which mblob cannot"
                f" call; {reason[0]}: {reason[1]}",
                file=sys.stderr,
            )


def total_size(plan: BuildPlan) -> int:
    """Bytes of all blobs and weights; a file that is missing counts as none, the build will name
    it."""
    files = [path for _, path in plan.blobs] + list(plan.weights)
    return sum(path.stat().st_size for path in files if path.exists())


def make_plan(args: argparse.Namespace) -> BuildPlan:
    """The plan that the command line asks for: the manifest's, with what the flags add and
    override."""
    from mblob.packager.link.build import BuildPlan

    sort_words(args)
    if len(args.manifest) > 1:
        raise UsageError(f"{args.manifest[0]} and {args.manifest[1]}: two manifests, expected one")
    if not args.manifest and args.output is None:
        raise UsageError("build: expected -o deploy.so, or a manifest that names its output")
    output = None if args.output is None else Path(args.output)
    if not args.manifest:
        plan = BuildPlan(output=output or Path())
    else:
        from mblob.packager.link.manifest import load

        plan = load(args.manifest[0], output)
    changes: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("dialect", "embed", "digest", "cc", "target", "prefix", "name", "align")
        if getattr(args, name) is not None
    }
    changes.update(
        (name, Path(getattr(args, name)))
        for name in ("graph", "params", "order", "depfile", "header")
        if getattr(args, name) is not None
    )
    if args.shape:
        changes["shapes"] = {**(plan.shapes or {}), **shapes_of(args)}
    if args.no_index:
        changes["index"] = False
    if args.no_reuse:
        changes["reuse"] = False
    if args.system_lib:
        changes["system_lib"] = True
    if args.standalone:
        changes["standalone"] = True
    if (functions := functions_of(args)) is not None:
        changes["functions"] = functions and [*(plan.functions or ()), *functions]
    plan = plan._replace(
        kernels=[*plan.kernels, *map(Path, args.kernel)],
        objects=[*plan.objects, *map(Path, args.object)],
        weights=[*plan.weights, *map(Path, args.weights)],
        carry=[*plan.carry, *args.carry],
        packed=[*plan.packed, *args.packed],
        blobs=[*plan.blobs, *blobs_of(args)],
        options=[*plan.options, *args.cflags],
        **changes,
    )
    check_output(NAME, plan.output, "deploy.so")
    return plan


def shapes_of(args: argparse.Namespace) -> dict[str, str]:
    """Name and text of each `--shape`; a name may have a `=`, and a text has none.

    Raises:
        UsageError: one without a name.
    """
    found = [text.rpartition("=") for text in args.shape]
    if wrong := next((text for (name, _, _), text in zip(found, args.shape) if not name), None):
        raise UsageError(f"--shape: expected NAME=TYPE[SHAPE], found {wrong!r}")
    return {name: text for name, _, text in found}
