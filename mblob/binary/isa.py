"""Which processors a library needs, and how its code calls: from notes, attributes and flags of an
ELF file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import NT_GNU_PROPERTY_TYPE_0

_X86_LEVELS = ("x86-64-baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4")
_X86_FEATURES = ("IBT", "SHSTK", "LAM_U48", "LAM_U57")
# GNU property types: what the bits mean, on machines where the type has that meaning.
_PROPERTIES = {
    ("x86", 0xC0000002): ("", _X86_FEATURES),
    ("x86", 0xC0008002): ("needs ", _X86_LEVELS),
    ("x86", 0xC0010002): ("uses ", _X86_LEVELS),
    ("aarch64", 0xC0000000): ("", ("BTI", "PAC", "GCS")),
    ("riscv", 0xC0000000): ("", ("Zicfilp", "Zicfiss")),
}
_FAMILIES = {"i386": "x86", "x86_64": "x86", "aarch64": "aarch64", "riscv": "riscv"}

_ARM_ARCHITECTURES = (
    "pre-v4", "v4", "v4T", "v5T", "v5TE", "v5TEJ", "v6", "v6KZ", "v6T2", "v6K", "v7", "v6-M", "v6S-M", "v7E-M", "v8-A",
    "v8-R", "v8-M.base", "v8-M.main",
)  # fmt: skip
_ARM_FP = {
    1: "VFPv1",
    2: "VFPv2",
    3: "VFPv3",
    4: "VFPv3-D16",
    5: "VFPv4",
    6: "VFPv4-D16",
    7: "FP-ARMv8",
    8: "FPv5-D16",
}
_ARM_SIMD = {1: "NEON", 2: "NEON with FMA", 3: "NEON of ARMv8", 4: "NEON of ARMv8.1"}
_ARM_TEXT_TAGS = (4, 5, 32, 65, 67)  # texts; of other tags from 32 on the odd ones
_RISCV_FLOATS = ("soft float", "single float", "double float", "quad float")
_PPC_ABIS = {1: "ELFv1", 2: "ELFv2"}
_LOONGARCH_FLOATS = {1: "soft float", 2: "single float", 3: "double float"}
_MIPS_ARCHS = (
    "mips1", "mips2", "mips3", "mips4", "mips5", "mips32", "mips64", "mips32r2", "mips64r2", "mips32r6", "mips64r6",
)  # fmt: skip


def hints(elf: ElfFile) -> list[str]:
    """The hints of the file, in the order of its sources: flags of the header, attributes,
    properties."""
    found = list(_of_flags(elf))
    if elf.machine == "arm":
        found += _attributes(elf, ".ARM.attributes", "aeabi", _arm_attributes)
    elif elf.machine == "riscv":
        found += _attributes(elf, ".riscv.attributes", "riscv", _riscv_attributes)
    return found + list(_properties(elf))


def _of_flags(elf: ElfFile) -> Iterator[str]:
    flags, machine = elf.e_flags, elf.machine
    if machine == "arm":
        if flags >> 24:
            yield f"EABI{flags >> 24}"
        if flags & 0x600:
            yield "hard float" if flags & 0x400 else "soft float"
    elif machine == "riscv":
        yield f"RV{elf.bits}"
        yield _RISCV_FLOATS[flags >> 1 & 3]
        yield from (name for bit, name in ((1, "C"), (8, "E"), (16, "TSO")) if flags & bit)
    elif machine == "mips":
        arch = flags >> 28
        yield _MIPS_ARCHS[arch] if arch < len(_MIPS_ARCHS) else f"arch {arch}"
        yield from (
            name for bit, name in ((0x20, "N32"), (0x400, "NaN 2008"), (0x4, "CPIC")) if flags & bit
        )
    elif machine == "ppc64" and flags & 3 in _PPC_ABIS:
        yield _PPC_ABIS[flags & 3]
    elif machine == "loongarch" and flags & 7 in _LOONGARCH_FLOATS:
        yield _LOONGARCH_FLOATS[flags & 7]
    elif flags and machine not in ("cuda", "amdgpu", "ppc64", "loongarch"):
        yield f"e_flags {flags:#x}"


def _properties(elf: ElfFile) -> Iterator[str]:
    """The records of .note.gnu.property, each with data behind it that is padded to a word."""
    family, head = _FAMILIES.get(elf.machine, ""), elf.layout.property
    order = "little" if elf.byte_order == "<" else "big"
    for owner, kind, desc, _ in elf.notes():
        if owner != b"GNU" or kind != NT_GNU_PROPERTY_TYPE_0:
            continue
        at = 0
        while len(desc) - at >= head.size:
            number, size = head.unpack_from(desc, at)
            at += head.size
            value = int.from_bytes(desc[at : at + min(size, 4)], order)  # type: ignore[arg-type]
            if size > len(desc) - at:
                return
            if (family, number) in _PROPERTIES:
                lead, names = _PROPERTIES[family, number]
                yield from (f"{lead}{name}" for i, name in enumerate(names) if value >> i & 1)
            at += size + -size % elf.layout.word.size


def _attributes(
    elf: ElfFile, section: str, vendor: str, read: Callable[[memoryview], Iterator[str]]
) -> Iterator[str]:
    """Build attributes: 'A', then per vendor u32 size, name, sub-sections of tag, u32 size, pairs
    (tag 1: the file)."""
    data = elf.section_bytes(section)
    if bytes(data[:1]) != b"A":
        return
    order = "little" if elf.byte_order == "<" else "big"
    at = 1
    while len(data) - at >= 4:
        size = int.from_bytes(data[at : at + 4], order)  # type: ignore[arg-type]
        if size < 4 or size > len(data) - at:
            return
        body = data[at + 4 : at + size]
        at += size
        name = vendor.encode() + b"\0"
        if bytes(body[: len(name)]) != name or len(body) - len(name) < 5 or body[len(name)] != 1:
            continue
        length = int.from_bytes(body[len(name) + 1 : len(name) + 5], order)  # type: ignore[arg-type]
        yield from read(body[len(name) + 5 : len(name) + max(5, min(length, len(body)))])


def _pairs(data: memoryview, texts: Callable[[int], bool]) -> Iterator[tuple[int, int | str]]:
    """Tags with their values; a damaged end is left out."""
    at = 0

    def uleb() -> int | None:
        nonlocal at
        value = shift = 0
        while at < len(data) and shift < 63:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        return None

    while (tag := uleb()) is not None:
        if not texts(tag):
            value = uleb()
            if value is None:
                return
            yield tag, value
            continue
        if tag == 32:  # compatibility: a number, then a text
            uleb()
        end = bytes(data[at : at + 4096]).find(b"\0")
        if end < 0:
            return
        yield tag, bytes(data[at : at + end]).decode("utf-8", "backslashreplace")
        at += end + 1


def _arm_attributes(data: memoryview) -> Iterator[str]:
    for tag, value in _pairs(data, lambda t: t in _ARM_TEXT_TAGS or (t > 32 and t % 2 == 1)):
        if isinstance(value, str):
            if tag == 5:
                yield f"cpu {value}"
        elif tag == 6:
            yield f"arm{_ARM_ARCHITECTURES[value] if value < len(_ARM_ARCHITECTURES) else f' architecture {value}'}"
        elif tag == 10 and value in _ARM_FP:
            yield _ARM_FP[value]
        elif tag == 12 and value in _ARM_SIMD:
            yield _ARM_SIMD[value]
        elif tag == 28 and value == 1:
            yield "arguments in VFP registers"


def _riscv_attributes(data: memoryview) -> Iterator[str]:
    for tag, value in _pairs(data, lambda t: t % 2 == 1):
        if tag == 5:
            yield str(value)
        elif tag == 4:
            yield f"stack aligned to {value}"
