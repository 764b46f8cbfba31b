"""`mblob-pack inspect`: what is in a library. It reads the file and never runs code of it."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from mblob.cli.report import human_size, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mblob.library import EntryView, Library
    from mblob.plugin_table import Plugin

NAME = "inspect"
DEPTH = 64  # levels of the tree that are drawn; each costs four columns on every line below it
LISTED = 12  # undefined symbols that the summary names


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = "show what is in a library, without running it"
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}. --functions prints one function a line: the name of one that is called through "
        "load_module and run, or `plain NAME(TYPES)` for the plain C form, which dlopen hosts call.",
        epilog="example: mblob-pack inspect deploy.so --functions | grep -v '^plain '",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--tree", action="store_true", help="only the tree of modules")
    form.add_argument("--json", action="store_true", help="one JSON object, schema mblob/inspect/1")
    form.add_argument("--functions", action="store_true", help="only the functions, one per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print what was asked for.

    Raises:
        FormatError: the file is damaged, or no model library ("not_elf", "no_blob": exit code 3).
    """
    from mblob.errors import FormatError
    from mblob.library import open_library

    refuse_linkable(args.file)
    with open_library(args.file, partial=True) as library:
        if not library.is_model_library:
            raise FormatError(
                f"{args.file}: not a model library: it has no blob, and exports no name of TVM's or mblob's",
                code="no_blob",
            )
        if args.json:
            print(json.dumps(library.to_json(), indent=2))
            return report_problems(library)
        lines = tree_lines if args.tree else function_lines if args.functions else summary_lines
        for line in lines(library):
            print(line)
        return report_problems(library)


def refuse_linkable(file: str) -> None:
    """Say what to do with a file that holds objects, not yet a library.

    Raises:
        FormatError: it is one ("no_blob").
    """
    from pathlib import Path

    from mblob.errors import FormatError
    from mblob.file_kind import NAMES, SNIFF_SIZE, linkable_kind

    if not Path(file).is_file():  # a pipe would block; open_library has the words for what is no file
        return
    with Path(file).open("rb") as opened:
        kind = linkable_kind(opened.read(SNIFF_SIZE))
    if kind is not None:
        raise FormatError(
            f"{file}: {NAMES[kind]}, inspect looks into shared libraries: load it (mblob.load_module links it), or "
            "link it to a .so",
            code="no_blob",
        )


def report_problems(library: Library) -> int:
    """Say on stderr what kept part of the file from being read; the exit code."""
    problems = [d["message"] for d in library.diagnostics if d["severity"] == "error"]
    for message in problems:
        print(f"mblob-pack: error: {one_line(message)}", file=sys.stderr)
    return 1 if problems else 0


def tree_lines(library: Library) -> Iterator[str]:
    """The tree of modules as text, a line each. What is imported twice is unfolded the first time only, and what is
    deeper than DEPTH levels is only counted."""
    entries = library.entries
    unfolded: set[int] = set()
    # (entry, its level, what stands before it, what stands before its imports); no recursion: a file may nest deep.
    stack = [(0, 0, "", "")]
    while stack:
        index, depth, lead, below = stack.pop()
        entry = entries[index]
        note = ""
        if entry.imports and index in unfolded:
            note = " (imports: see above)"
        elif entry.imports and depth == DEPTH:
            note = f" ({len(entry.imports)} imports deeper than {DEPTH} levels: see --json)"
        yield f"{lead}{describe(entry)}{note}"
        if note:
            continue
        unfolded.add(index)
        for i, child in reversed(list(enumerate(entry.imports))):
            last = i == len(entry.imports) - 1
            stack.append((child, depth + 1, below + ("└── " if last else "├── "), below + ("    " if last else "│   ")))


def describe(entry: EntryView) -> str:
    """One entry in one line: index, key, and for a payload its size and place."""
    text = f"[{entry.index}] {one_line(entry.type_key)}"
    if entry.offset is not None:
        text += f"  {human_size(entry.size)} at {entry.offset:#x}"
    return text


def function_lines(library: Library) -> Iterator[str]:
    """Packed functions by name; plain C functions as `plain NAME(TYPES)`, the symbol and its argument types."""
    for name in library.packed_functions:
        yield one_line(name)
    for row in library.function_table:
        if row.abi == "plain":
            yield one_line(f"plain {row.symbol}({row.types})")


def described_functions(library: Library) -> list[str]:
    """One line for each function, whether it has a packed form, a plain one, or both."""
    plain = {row.name: one_line(f"{row.symbol}({row.types})") for row in library.function_table if row.abi == "plain"}
    packed = set(library.packed_functions)
    lines = []
    for name in sorted(packed | plain.keys()):
        text = one_line(name)
        if name in plain:
            text = f"{text}  and plain C: {plain[name]}" if name in packed else f"{plain[name]}  plain C only"
        lines.append(text)
    return lines


def kernel_lines(library: Library) -> list[str]:
    """One line for each kernel of a device module: its entry, argument types and launch tags."""
    from mblob.library import listed_kernels

    return [
        one_line(
            f"[{entry.index}] {k.name}({', '.join(map(str, k.arg_types))})"
            + (f"  launch: {', '.join(k.launch_param_tags)}" if k.launch_param_tags else "")
        )
        for entry in library.entries
        for k in listed_kernels(entry)
    ]


def summary_lines(library: Library) -> Iterator[str]:
    """The whole library on one screen."""
    target = library.target
    yield one_line(str(library.path))
    yield f"  target     {target['machine']}, {target['bits']} bits, {target['endian']} endian"
    yield f"  blob       {_blob_text(library)}"
    yield f"  modules    {len(library.entries)}"
    for line in tree_lines(library):
        yield f"    {line}"
    functions = described_functions(library)
    yield f"  functions  {len(functions)}"
    for line in functions:
        yield f"    {line}"
    if library.plugins:
        yield f"  plug-ins   {len(library.plugins)}"
        for plugin in library.plugins:
            yield f"    {one_line(describe_plugin(plugin))}"
    kernels = kernel_lines(library)
    if kernels:
        yield f"  kernels    {len(kernels)}"
    for line in kernels:
        yield f"    {line}"
    undefined = library.undefined
    shown = ", ".join(undefined[:LISTED]) + (", ..." if len(undefined) > LISTED else "")
    yield f"  undefined  {len(undefined)}" + (f": {one_line(shown)}" if undefined else "")
    for remark in library.diagnostics:
        yield f"  {remark['severity']}: {one_line(remark['message'])}"


def describe_plugin(plugin: Plugin) -> str:
    """A plug-in that the library carries, in one line: name, version, what it is for, what it needs."""
    text = f"{plugin.name} {plugin.version}".rstrip()
    if plugin.type_keys:
        text += f"  opens {', '.join(plugin.type_keys)}"
    if plugin.devices:
        text += f"  devices {', '.join(map(str, plugin.devices))}"
    return f"{text}  needs {plugin.needs}" if plugin.needs else text


def _blob_text(library: Library) -> str:
    blob = library.blob
    if blob is None:
        return "none"
    text = f"{blob.dialect}, {human_size(blob.size)} at {library.blob_offset:#x}"
    if blob.index_offset is None:
        return f"{text}, no index"
    return f"{text}, index by {one_line(blob.producer) or 'unknown'} for {one_line(blob.target) or 'any target'}"
