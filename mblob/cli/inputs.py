"""The inputs of the library that `build` or `add` writes: options, and words that mean the same. A
word is told by what it names: a source, an object, weights, a manifest, or KEY=FILE."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mblob.binary.file_kind import ELF_MAGIC, SNIFF_SIZE, linkable_kind
from mblob.cli.report import UsageError, print_warning
from mblob.source_suffixes import FORMAT_OF, SHOWN, SOURCES, WEIGHTS

# The option that a word stands for, by the suffix of its file.
OPTION_OF = {
    **dict.fromkeys(SOURCES, "kernel"),
    **dict.fromkeys((".o", ".a", ".tar", ".tgz"), "object"),
    **dict.fromkeys(WEIGHTS, "weights"),
    ".toml": "manifest",
}
# Files of torch.save, as a zip file or a pickle: of these the packager says what to save instead.
_OF_TORCH = ((".pt", ".pth", ".bin", ".ckpt"), (b"PK\3\4", b"\x80"))
# Files that may be several things, and what says which.
_WAYS = {
    ".json": {"graph": "--graph {file}", "blob": "{key}={file}"},
    ".params": {"params": "--params {file}", "weights": "--weights {file}"},
}
_EXPECTED = {
    "kernel": f"a source in {', '.join(SHOWN.values())}",
    "object": "an object (.o, .a, .tar, or a folder of these)",
    "weights": "weights (.safetensors, .npz, .npy)",
    "manifest": "a manifest (.toml)",
    "blob": "KEY=FILE",
}


def check_output(verb: str, output: object, example: str) -> None:
    """Refuse `-o -`.

    Raises:
        UsageError: with the remedy.
    """
    if str(output) == "-":
        raise UsageError(
            f"{verb}: -o -: a library is written to a file, not to stdout", hint=f"-o {example}"
        )


def add_inputs(parser: argparse.ArgumentParser, title: str, words: str) -> Any:
    """Add what both verbs take.

    Args:
        title: of the group of options.
        words: what the verb takes as words.

    Returns:
        The group, for options of one verb.
    """
    parser.add_argument(
        "inputs",
        metavar="INPUT",
        nargs="*",
        help=f"{words}, in any order; the options below say the same",
    )
    group = parser.add_argument_group(f"{title}; each option may be repeated")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    group.add_argument(
        "--kernel", metavar="FILE", help=f"source in {', '.join(SHOWN.values())}", **repeated
    )
    group.add_argument(
        "--object",
        metavar="FILE",
        help="object, archive, or the .tar of a library or a folder with its members",
        **repeated,
    )
    group.add_argument(
        "--function",
        metavar="PROTOTYPE",
        action="append",
        help="name or prototype of a C function that becomes callable; no others of the new code are then, but with "
        "'*' beside it (default: all of the sources, and of objects with debug information)",
    )
    group.add_argument("--no-functions", action="store_true", help="make no C function callable")
    group.add_argument(
        "--blob",
        metavar="KEY=FILE",
        help="file to pack as it is; programs find it by KEY",
        **repeated,
    )
    group.add_argument(
        "--weights", metavar="FILE", help="weights: .safetensors, .npz or .npy", **repeated
    )
    return group


def find_library(args: argparse.Namespace) -> None:
    """Let FILE, the first word, be the library to add to, wherever it is among the words: the only
    shared library, or else the first .tar, folder or object."""
    first = len(args.inputs)
    for is_library, most in (
        (is_shared, 1),
        (_is_tar, first),
        (_is_folder, first),
        (_is_object, first),
    ):
        found = [word for word in args.inputs if is_library(word)]
        if is_library(args.file):
            return
        if 0 < len(found) <= most:
            args.inputs.remove(found[0])
            args.inputs.insert(0, args.file)
            args.file = found[0]
            return


def _is_tar(word: str) -> bool:
    return Path(word).suffix == ".tar"


def _is_folder(word: str) -> bool:
    return Path(word).is_dir()


def _is_object(word: str) -> bool:
    return Path(word).suffix in (".o", ".a")


def is_shared(word: str) -> bool:
    """True if a word names a shared library."""
    if not Path(word).is_file():
        return False
    with Path(word).open("rb") as file:
        start = file.read(SNIFF_SIZE)
    return start.startswith(ELF_MAGIC) and linkable_kind(start) is None


def sort_words(args: argparse.Namespace) -> None:
    """Put each word among the values of the option that it stands for, in the order of the command line.

    Raises:
        UsageError: a word that stands for none. OSError: no such file.
    """
    places = {text: i for i, text in reversed(list(enumerate(args.command_line)))}
    for word in args.inputs:
        option = "blob" if "=" in word and not Path(word).is_file() else _option_of(args, word)
        if option == "blob":
            _tell_of_files(word, quiet=args.quiet)
        setattr(args, option, [*getattr(args, option), word])
    for word in args.weights:
        name, equals, file = word.partition("=")
        if equals and not Path(word).exists() and Path(file).exists():
            raise UsageError(
                f"{args.verb}: --weights {word}: no file of this name; {args.verb} packs tensors by the names that they"
                " have in FILE, swap replaces the tensor NAME of NAME=FILE",
                hint=f"--weights {file}"
                + (f", or --blob {word} for a file that is packed as it is" if name else ""),
            )
    for option in {*OPTION_OF.values(), "blob"} if args.inputs else ():
        values: list[str] = getattr(args, option, [])
        at = {value: places.get(f"--{option}={value}", places.get(value, 0)) for value in values}
        values.sort(key=at.__getitem__)


def _tell_of_files(word: str, *, quiet: bool) -> None:
    """Warn of weights that KEY=FILE packs as a file, whose tensors nothing finds by name, and of sources."""
    key, file = named(word, "expected KEY=FILE")
    what, how = "its tensors have no names in the library", "pack tensors"
    if file.suffix in FORMAT_OF:
        what, how = "none of its functions is compiled", "compile it"
    if not quiet and file.suffix.lower() in (*WEIGHTS, *FORMAT_OF) and file.is_file():
        text = (
            f"{word}: packs the file as it is, as the payload {key!r}; {what}. To {how}, write {file};"
            f" --blob {word} packs the file without this warning"
        )
        print_warning(text, UserWarning, "", 0)


def _option_of(args: argparse.Namespace, word: str) -> str:
    path = Path(word)
    is_tar = path.stem.lower().endswith(".tar") and path.suffix.lower() in (".gz", ".bz2", ".xz")
    suffix = ".tar" if is_tar else path.suffix
    option = OPTION_OF.get(suffix, OPTION_OF.get(suffix.lower()))
    if option == "kernel" and suffix not in SOURCES:
        raise UsageError(
            f"{word}: no compiler tells the language by the suffix {suffix}",
            hint=f"rename it to {path.with_suffix(suffix.lower())}",
        )
    if option is not None and hasattr(args, option):
        return option
    if path.is_dir():
        return "object"  # a folder of objects; without any, the packager says what it expects
    from mblob.packager.path_arguments import existing_file

    with existing_file(path, args.verb).open("rb") as file:
        start = file.read(SNIFF_SIZE)
    if start.startswith(ELF_MAGIC) or linkable_kind(start) == "archive":
        return "object"  # or a finished library, of which the packager says what to do with it
    if path.suffix in _OF_TORCH[0] and start.startswith(_OF_TORCH[1]):
        return "weights"
    key = path.name.partition(".")[0] or "KEY"
    ways = _WAYS.get(path.suffix, {"blob": "{key}={file}"})
    expected = [text for name, text in _EXPECTED.items() if hasattr(args, name)]
    raise UsageError(
        f"{word}: expected {', '.join(expected[:-1])} or {expected[-1]}",
        hint=", or ".join(
            way.format(file=word, key=key) for name, way in ways.items() if hasattr(args, name)
        ),
    )


def functions_of(args: argparse.Namespace) -> list[str] | None:
    """The functions that become callable; None: all.

    Raises:
        UsageError: some, and none.
    """
    if args.no_functions and args.function:
        raise UsageError(
            f"{args.verb}: --no-functions and --function exclude each other; give one of them"
        )
    return [] if args.no_functions else args.function


def blobs_of(args: argparse.Namespace) -> list[tuple[str, Path]]:
    """Key and file of each `--blob`.

    Raises:
        UsageError: one without a key, or a key twice.
    """
    found: dict[str, Path] = {}
    for text in args.blob:
        hint = "" if "=" in text else f"--blob {Path(text).stem}={text}"
        key, file = named(text, "--blob: expected KEY=FILE", hint)
        if key in found:
            raise UsageError(
                f"{found[key]} and {file}: two files for the key {key!r}; give each file its own key"
            )
        found[key] = file
    return list(found.items())


def named(text: str, expected: str, hint: str = "") -> tuple[str, Path]:
    """Name and file of `NAME=FILE`; either may have a `=` of its own, where only one way to read it
    names a file.

    Raises:
        UsageError: no name, or no file.
    """
    ways = [
        (text[:i], Path(text[i + 1 :]))
        for i, c in enumerate(text)
        if c == "=" and text[:i] and text[i + 1 :]
    ]
    if not ways:
        raise UsageError(f"{expected}, found {text!r}", hint=hint)
    return next((way for way in ways if way[1].is_file()), ways[0])
