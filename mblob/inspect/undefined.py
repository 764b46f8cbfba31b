"""The symbols that a library leaves undefined, and who is known to have them."""

from __future__ import annotations

from collections.abc import Collection

from mblob.binary.elf import ElfFile
from mblob.binary.elf_facts import versions
from mblob.binary.elf_records import (
    ET_DYN,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_TLS,
)
from mblob.binary.image import Image
from mblob.inspect.providers import MAY_BE_OURS, Undefined, provider_of

_TYPES = (STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_TLS, STT_GNU_IFUNC)


def undefined_symbols(image: Image) -> list[Undefined]:
    """What something else must, or may, provide, by name.

    Raises:
        FormatError: "elf_dynamic", "elf_truncated": the versions cannot be read.
    """
    known = versions(image) if isinstance(image, ElfFile) else {}
    told: dict[str, str] = getattr(image, "provided_by", {})
    ours: Collection[str] | None = None
    found: dict[str, Undefined] = {}
    for s in image.imports:
        weak = s.binding == STB_WEAK
        if s.type not in _TYPES or not s.name or (weak and s.name in found):
            continue
        version, file = known.get(s.offset, (None, told.get(s.name)))
        provider = provider_of(s.name, file)
        if file is None and provider in MAY_BE_OURS:
            ours = _bound_by_mblob(image) if ours is None else ours
            provider = f"{provider} or libmblob" if s.name in ours else provider
        found[s.name] = Undefined(s.name, weak, version, file, provider)
    return [found[name] for name in sorted(found)]


def _bound_by_mblob(image: Image) -> Collection[str]:
    """Names that mblob's runtime gives to a library that it opens."""
    from mblob.inspect.runtime_names import bound_here

    return bound_here(image) if isinstance(image, ElfFile) and image.e_type == ET_DYN else ()
