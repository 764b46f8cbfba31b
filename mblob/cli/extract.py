"""`mblob-pack extract`: payloads as files, device code and graphs as texts. No code of the library runs."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mblob.library import EntryView, Library

NAME = "extract"
CHUNK = 1 << 18  # bytes written at a time
SUFFIX = re.compile(r"[a-z0-9_]{1,12}")  # formats of payloads that may end a file name


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = "write payloads of a library to files, without running it"
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=f"{summary}: each as INDEX-KEY.payload, byte for byte; the code of device modules and the text of "
        "graphs beside it as INDEX-KEY.FMT. Files that exist are not replaced. Prints the names of the files.",
        epilog="example: mblob-pack extract deploy.so --entry cuda -o parts",
    )
    parser.add_argument("file", metavar="FILE", help="shared library, packed by mblob or by TVM")
    parser.add_argument(
        "--entry", action="append", metavar="N|KEY", help="only these: an index, or a type key; may be repeated"
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write to, made if needed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the files.

    Raises:
        FormatError: the file is damaged, or no model library.
        UsageError: no such entry.
        OSError: a file exists, or cannot be written.
    """
    from pathlib import Path

    from mblob.cli.inspect import refuse_linkable, report_problems
    from mblob.errors import FormatError
    from mblob.library import open_library

    refuse_linkable(args.file)
    with open_library(args.file, partial=True) as library:
        if library.blob is None:
            raise FormatError(f"{args.file}: it has no blob, so there is nothing to extract", code="no_blob")
        entries = chosen(library, args.entry)
        folder = Path(args.output)
        folder.mkdir(parents=True, exist_ok=True)
        for entry in entries:
            for path in write_entry(entry, folder):
                print(path)
        return report_problems(library)


def chosen(library: Library, wanted: list[str] | None) -> list[EntryView]:
    """The entries that were asked for, each once; all with a payload if none were.

    Raises:
        UsageError: one that is not there, or has no payload.
    """
    from mblob.cli.report import UsageError

    if wanted is None:
        return [e for e in library.entries if e.offset is not None]
    found: dict[int, EntryView] = {}
    for word in wanted:
        matches = [e for e in library.entries if word in (str(e.index), e.type_key)]
        if not matches:
            known = ", ".join(f"{e.index} ({e.type_key})" for e in library.entries[:20])
            raise UsageError(f"extract: no entry {word!r} in {library.path}; there are {known}")
        with_payload = [e for e in matches if e.offset is not None]
        if not with_payload:
            raise UsageError(f"extract: entry {word!r} is the library itself, which has no payload")
        found.update((e.index, e) for e in with_payload)
    return [found[i] for i in sorted(found)]


def write_entry(entry: EntryView, folder: Path) -> Iterator[Path]:
    """Write the payload, and what can be read in it; the files."""
    name = f"{entry.index}-{re.sub(r'[^A-Za-z0-9_.-]', '_', entry.type_key)[:80]}"
    yield write_new(folder / f"{name}.payload", entry.view())
    content = readable(entry)
    if content is not None:
        yield write_new(folder / f"{name}.{content[0]}", content[1])


def readable(entry: EntryView) -> tuple[str, memoryview] | None:
    """The code or text inside a payload, and the suffix of its file; None if there is no more than the payload."""
    from mblob.errors import FormatError

    try:
        fields = entry.fields()
    except FormatError:  # an index told where it is; `inspect` says what is wrong with it
        return None
    fmt = bytes(fields.get("fmt", b"")).decode("ascii", "replace")
    suffix = fmt if SUFFIX.fullmatch(fmt) and fmt != "payload" else "txt"
    if "functions" in fields and "data" in fields:
        return suffix if suffix != "txt" else "code", fields["data"]
    source = entry.source()
    if not source:
        return None
    if any(name.endswith("json") for name in fields):
        suffix = "json"
    elif entry.type_key == "webgpu":
        suffix = "wgsl"
    return suffix, memoryview(source.encode())


def write_new(path: Path, data: memoryview) -> Path:
    """Write a file that is not there yet.

    Raises:
        FileExistsError: it is.
    """
    with path.open("xb") as file:
        for start in range(0, len(data), CHUNK):
            file.write(data[start : start + CHUNK])
    return path
