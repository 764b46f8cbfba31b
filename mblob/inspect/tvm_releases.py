"""Which releases of TVM can have written a library. No file says it, so each fact that tells
narrows the range."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from mblob.format import classic, ffi_dialect
from mblob.format.blob_model import Blob
from mblob.format.exported_functions import ffi_name
from mblob.format.type_keys import FIRST, LAST, METAL, ROWS
from mblob.inspect.contents import DecodedPayload
from mblob.module import ENTRY_NAME
from mblob.named_tuple import NamedTuple

# Names that a library defines (the runtime writes their address into them) or leaves undefined.
_NAMES = {
    "TVMFuncCall": (5, 20), "TVMAPISetLastError": (5, 20), "TVMFFIFunctionCall": (21, LAST),
    "TVMFFIErrorSetRaisedFromCStr": (21, LAST), "TVMFFIErrorSetRaisedFromCStrParts": (24, LAST),
    "TVMFFIEnvModLookupFromImports": (26, LAST), "TVMFFIHandleInitOnce": (26, LAST), "TVMBackendRunOnce": (5, 25),
    "TVMBackendGetFuncFromEnv": (5, 25), "TVMBackendAnyListMoveFromPackedReturn": (16, LAST),
    "TVMBackendAnyListSetPackedArg": (16, LAST), "TVMBackendAnyListResetItem": (16, LAST),
    "TVMFFIEnvModRegisterSystemLibSymbol": (22, LAST), "TVMBackendRegisterSystemLibSymbol": (5, 21),
}  # fmt: skip
_SYMBOLS = {
    classic.CONTEXT: (5, 20),
    ffi_dialect.CONTEXT_OF_0_21: (21, 21),
    ffi_dialect.CONTEXT: (22, LAST),
    classic.SYMBOL: (5, 20),
    ffi_dialect.SYMBOL: (22, LAST),
    ffi_dialect.SYMBOL_OF_0_21: (21, 21),
}
_TAGS = (
    ("tirx.use_required_block_dimension", (27, LAST)),
    ("tirx.", (24, LAST)),
    ("tir.", (8, 23)),
)


class Fact(NamedTuple):
    """A property that only libraries of the releases 0.`first` to 0.`last` have."""

    text: str
    first: int
    last: int


class Releases(NamedTuple):
    """The releases of TVM that can have written a library.

    Attributes:
        first, last: the range, such as "0.8" and "0.19". Both are None if there are no facts, or
            if they contradict each other.
        dialect: "classic" or "ffi", also of a library without a blob; None if unknown.
        facts: properties of the library that narrowed the range.
        contradiction: no release fits all facts.
    """

    first: str | None
    last: str | None
    dialect: str | None
    facts: tuple[Fact, ...]
    contradiction: bool

    @property
    def range(self) -> str | None:
        """ "0.8 - 0.19", "0.7", or None."""
        if self.first is None:
            return None
        return self.first if self.first == self.last else f"{self.first} - {self.last}"

    def to_json(self) -> dict[str, Any]:
        return {
            "tvm": self.range,
            "first": self.first,
            "last": self.last,
            "dialect": self.dialect,
            "facts": [
                {"fact": f.text, "first": f"0.{f.first}", "last": f"0.{f.last}"} for f in self.facts
            ],
        }


def releases_of(
    blob: Blob | None,
    contents: Sequence[tuple[str, DecodedPayload]],
    exports: Mapping[str, bool],
    undefined: Set[str],
    prefixes: Sequence[str] = (),
) -> Releases:
    """Judge a library.

    Args:
        contents: type key and content of each entry.
        exports: names that it defines, without a prefix, and whether each is a function's.
        undefined: names that it needs.
        prefixes: of system libraries in it.
    """
    facts = [*_names(exports, undefined), *_of_blob(blob)]
    for key, content in contents:
        facts += _of_entry(key, content, blob)
    if any(prefixes):
        facts.append(Fact("names have a prefix", 13, LAST))
    unique = tuple(dict.fromkeys(facts))
    if not unique:
        return Releases(first=None, last=None, dialect=None, facts=(), contradiction=False)
    first, last = max(f.first for f in unique), min(f.last for f in unique)
    if first > last:
        known = blob.dialect if blob else None
        return Releases(first=None, last=None, dialect=known, facts=unique, contradiction=True)
    dialect = blob.dialect if blob else "ffi" if first >= 21 else "classic" if last <= 20 else None
    return Releases(f"0.{first}", f"0.{last}", dialect, unique, contradiction=False)


def _names(exports: Mapping[str, bool], undefined: Set[str]) -> Iterator[Fact]:
    for name, (first, last) in _NAMES.items():
        if f"__{name}" in exports:
            yield Fact(f"defines __{name}", first, last)
        elif name in undefined:
            yield Fact(f"needs {name}", first, last)
    for name, (first, last) in _SYMBOLS.items():
        if name in exports:
            yield Fact(f"defines {name}", first, last)
    if ENTRY_NAME in exports:
        what = "function" if exports[ENTRY_NAME] else "text"
        yield Fact(f"{ENTRY_NAME} is a {what}", 8 if exports[ENTRY_NAME] else FIRST, 21)
    if any(ffi_name(n) is not None for n in exports.keys() - _SYMBOLS.keys()):
        yield Fact("functions are named __tvm_ffi_NAME", 22, LAST)


def _of_blob(blob: Blob | None) -> Iterator[Fact]:
    if blob is None or blob.producer:  # of ours TVM wrote nothing
        return
    libraries = [e for e in blob.entries if e.offset is None]
    if blob.dialect == "classic" and not blob.has_tree and len(blob.entries) > 1:
        yield Fact("the blob has no import tree", 5, 6)
    elif blob.dialect == "classic" and blob.has_tree and len(blob.entries) > 1:
        yield Fact("the blob has an import tree", 7, 20)
    if any(list(e.imports) != sorted(e.imports) for e in blob.entries):
        yield Fact("imports are not sorted", 7, 7)
    if len(libraries) > 1:
        yield Fact("several modules stand for the library", 7, 7)
    if not libraries and blob.has_tree:
        yield Fact("no module stands for the library", 14, LAST)


def _of_entry(key: str, content: DecodedPayload, blob: Blob | None) -> Iterator[Fact]:
    row = ROWS.get(key)
    if row is not None and (row.first, row.last) != (FIRST, LAST):
        yield Fact(f"has a module {key}", row.first, row.last)
    executable = content.facts.get("executable", {})
    if executable.get("machine") == "relay":
        found = re.match(r"0\.([0-9]{1,2})", executable["version"])
        if found and FIRST <= int(found[1]) <= LAST:
            yield Fact(
                f"an executable says version {executable['version']}", int(found[1]), int(found[1])
            )
    elif (
        executable.get("machine") == "relax"
        and blob is not None
        and blob.symbol == ffi_dialect.SYMBOL
    ):
        if executable["layout"] == 2:
            yield Fact("an executable has memory scopes", 23, LAST)
        else:
            yield Fact("an executable has no memory scopes", 22, 22)
    if key == METAL and blob is not None and blob.dialect == "classic":
        one = "code" in content.facts
        yield Fact(
            "metal code in one text" if one else "metal code per kernel",
            *((5, 12) if one else (13, 20)),
        )
    for tag in {t for k in content.kernels for t in k.launch_param_tags}:
        for start, (first, last) in _TAGS:
            if tag.startswith(start):
                yield Fact(f"a kernel is launched with {tag}", first, last)
                break
