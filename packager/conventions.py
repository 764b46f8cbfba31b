"""Calling conventions that are not C's of the machine: packed functions, and what calls them, know C's alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mblob.packager.errors import BuildError

# By machine: attributes of functions that compilers heed there, and that debug information of gcc leaves out.
ATTRIBUTES = {
    "x86_64": ("ms_abi",),
    "i386": ("stdcall", "fastcall", "thiscall", "regparm", "sseregparm"),
    "arm": ("pcs",),
}
_ALL = frozenset(
    (*(a for of_machine in ATTRIBUTES.values() for a in of_machine), "vectorcall", "regcall", "preserve_most",
     "preserve_all", "preserve_none", "swiftcall", "swiftasynccall", "intel_ocl_bicc", "aarch64_vector_pcs",
     "aarch64_sve_pcs", "riscv_vector_cc")
)  # fmt: skip
WORD = re.compile(rf"\b_*({'|'.join(sorted(_ALL))})_*\b")
# Other attributes that a call depends on: they change the type that they stand at.
_OF_TYPES = r"\b_*(mode|vector_size|ext_vector_type|address_space)_*\b"
# Options of compilers that choose one for all functions, also for packed ones.
_OPTIONS = ("-mabi=ms", "-mrtd", "-mregparm=", "-msseregparm", "-fcall-used-", "-fcall-saved-")
REFUSED = (
    "has a calling convention of its own{}, expected that of C; remove it there, or give a function without it that"
    " calls this one"
)


def check_options(options: Sequence[str], where: str) -> None:
    """Refuse options that choose a calling convention.

    Args:
        where: what the error calls them.

    Raises:
        BuildError: naming the option.
    """
    for option in options:
        if option.startswith(_OPTIONS):
            raise BuildError(
                f"{where}: {option} changes how functions are called, and mblob calls them as C does; leave it out"
            )


def may_tell(text: str, options: Sequence[str]) -> bool:
    """True if a source may have such an attribute once it is preprocessed; headers of the system
    have none."""
    return bool(
        re.search(r"^\s*#\s*include\s*[^<\s]", text, re.MULTILINE)
        or WORD.search(text)
        or "-include" in options
        or any(map(WORD.search, options))
    )


_GROUP = r"\b__(?:attribute(?:__)?|declspec)\s*\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)|\[\[.*?\]\]"


def without_attributes(prototype: str) -> str:
    """The text of a prototype without attributes.

    Raises:
        BuildError: a call depends on one.
    """
    for group in re.findall(_GROUP, prototype):
        if found := WORD.search(group) or re.search(_OF_TYPES, group):
            of_type = found.re is not WORD
            why = (
                "write the type itself"
                if of_type
                else "give a function without it that calls this one"
            )
            raise BuildError(
                f"functions: {prototype.strip()!r}: the attribute {found[1]} changes how the function is called; {why}"
            )
    return re.sub(_GROUP, " ", prototype)
