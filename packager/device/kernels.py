"""The kernels of device code and the types of their arguments, as far as the code itself tells them
for certain.

CUDA, HIP and OpenCL sources tell all of it; PTX tells sizes, and which 64-bit parameters are
addresses where they are used as such; cubins tell sizes, AMD's code objects names. What is not
certain is None, with the reason.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from mblob import argument_types
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import EM_CUDA, STB_GLOBAL, STT_FUNC, layout_of
from mblob.binary.file_kind import ELF_MAGIC
from mblob.dtype import DataType
from mblob.format.type_keys import CUDA, HIP, OPENCL


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        type: its type, None if the code does not tell.
        size: bytes that it takes, 0 if the code does not tell.
        doubt: why the type is not known.
    """

    type: DataType | None
    size: int
    doubt: str = ""


@dataclass(frozen=True)
class Kernel:
    name: str
    parameters: tuple[Parameter, ...]


def _parameter_of(text: str) -> Parameter:
    dtype = DataType.parse(text)
    return Parameter(dtype, dtype.itemsize)


# -- sources ---------------------------------------------------------------------------------------

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
_ATTRIBUTE = r"(?:__launch_bounds__|__attribute__|__cluster_dims__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_HEAD = rf"(?:[\w\s]|{_ATTRIBUTE})*?"
_SOURCES = {
    CUDA: re.compile(rf"__global__\b{_HEAD}\bvoid\b{_HEAD}\b(\w+)\s*\(([^(){{}}]*)\)\s*\{{"),
    OPENCL: re.compile(
        rf"(?:__kernel|\bkernel)\b{_HEAD}\bvoid\b{_HEAD}\b(\w+)\s*\(([^(){{}}]*)\)\s*\{{"
    ),
}
_SOURCES[HIP] = _SOURCES[CUDA]
_QUALIFIERS = frozenset(
    (
        "const", "volatile", "restrict", "__restrict__", "__restrict", "register", "struct", "__private", "private",
        "__global", "global", "__constant", "constant", "__grid_constant__", "read_only", "__read_only",
    )
)  # fmt: skip
_INTEGERS = {
    **{row.c: row.word for row in argument_types.TABLE if row.passed},
    **dict.fromkeys(("char", "signed char"), "int8"),
    **dict.fromkeys(("unsigned char", "uchar"), "uint8"),
    **dict.fromkeys(("short", "short int", "signed short"), "int16"),
    **dict.fromkeys(("unsigned short", "unsigned short int", "ushort"), "uint16"),
    **dict.fromkeys(("int", "signed", "signed int"), "int32"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint"), "uint32"),
    **dict.fromkeys(
        ("long", "long int", "signed long", "long long", "long long int", "ptrdiff_t"), "int64"
    ),
    **dict.fromkeys(
        ("unsigned long", "unsigned long int", "unsigned long long", "unsigned long long int"),
        "uint64",
    ),
    **dict.fromkeys(("size_t", "ulong"), "uint64"),
    "_Bool": "bool",
}


def kernels_of_source(text: str, language: str) -> dict[str, Kernel]:
    """Kernels that a source defines, by name; those of templates and macros are not seen.

    Args:
        language: "cuda", "hip" or "opencl".
    """
    plain = _COMMENTS.sub(lambda m: '""' if m[0].startswith('"') else " ", text)
    found = {}
    for match in _SOURCES[language].finditer(plain):
        if re.search(r"\btemplate\s*<[^;{}]*$", plain[: match.start()][-400:]):
            continue
        declarations = [] if match[2].strip() in ("", "void") else match[2].split(",")
        found[match[1]] = Kernel(match[1], tuple(_declared(d) for d in declarations))
    return found


def _declared(declaration: str) -> Parameter:
    """A parameter by its C declaration."""
    shown = " ".join(declaration.split())
    words = [w for w in re.findall(r"\w+", declaration) if w not in _QUALIFIERS]
    if "*" in declaration or "[" in declaration:
        if "__local" in words or "local" in words:
            return Parameter(
                None,
                0,
                f"`{shown}` is memory that a launch allocates, which a packed call cannot pass",
            )
        return _parameter_of("handle")
    if "&" not in declaration:
        # the parameter's own name may be left out
        for name in (" ".join(words), " ".join(words[:-1])):
            if name in _INTEGERS:
                return _parameter_of(_INTEGERS[name])
    return Parameter(None, 0, f"`{shown}` is of a type that is not known here")


# -- PTX -------------------------------------------------------------------------------------------

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)\s*(?:\(([^)]*)\))?")
_PARAM = re.compile(r"\.param\s+(.*?)([\w$]+)(\[\d*\])?$", re.DOTALL)
_PTX_TYPES = {
    "s8": "int8", "u8": "uint8", "s16": "int16", "u16": "uint16", "s32": "int32", "u32": "uint32", "s64": "int64",
    "f32": "float32", "f64": "float64",
}  # fmt: skip


def kernels_of_ptx(text: str) -> dict[str, Kernel]:
    """Kernels that PTX defines, by name."""
    plain = _COMMENTS.sub(" ", text)
    entries = list(_ENTRY.finditer(plain))
    found = {}
    for i, match in enumerate(entries):
        body = plain[match.end() : entries[i + 1].start() if i + 1 < len(entries) else len(plain)]
        declarations = [d.strip() for d in (match[2] or "").split(",") if d.strip()]
        found[match[1]] = Kernel(match[1], tuple(_ptx_parameter(d, body) for d in declarations))
    return found


def _ptx_parameter(declaration: str, body: str) -> Parameter:
    match = _PARAM.match(declaration)
    if match is None:
        return Parameter(None, 0, f"`{declaration}` is not understood")
    words, name, array = match[1].replace(".", " .").split(), match[2], match[3]
    kind = next((w[1:] for w in reversed(words) if re.fullmatch(r"\.[usbf]\d+", w)), "")
    size = int(kind[1:]) // 8 if kind else 0
    if array:
        length = int(array[1:-1] or 0)
        return Parameter(
            None,
            size * length,
            f"{size * length} bytes passed by value, which a packed call cannot",
        )
    if ".ptr" in words or (size == 8 and _is_address(name, body)):
        return _parameter_of("handle")
    if kind in _PTX_TYPES:
        return _parameter_of(_PTX_TYPES[kind])
    what = "a number or an address" if size == 8 else "an integer or a float"
    return Parameter(
        None, size, f"PTX does not tell whether its .{kind} parameter {name} is {what}"
    )


def _is_address(name: str, body: str) -> bool:
    """True if the parameter is loaded to a register that is then turned into an address of a state
    space."""
    loaded = re.findall(rf"\bld\.param\.[usb]64\s+(%\w+),\s*\[{re.escape(name)}\]", body)
    return any(
        re.search(rf"\bcvta\.to\.\w+\.u64\s+%\w+,\s*{re.escape(r)}\s*;", body) for r in loaded
    )


# -- cubin -----------------------------------------------------------------------------------------

_STO_CUDA_ENTRY = 0x10  # in st_other: a kernel; other global functions are for the device linker
_SVAL = 4  # the format of attributes that have bytes behind them
# of a parameter: u32 index, u16 ordinal, u16 offset, u32 with its size from bit 18 on
_KPARAM_INFO = 0x17
_KPARAM_INFO_V2 = 0x45  # of kernels that take more than 4 KiB: the size is the low 16 bits


def is_cubin(code: bytes) -> bool:
    return (
        code[:6] == b"\x7fELF\2\1"
        and layout_of(64, "<").ehdr.field_at(code, "e_machine") == EM_CUDA
    )


def kernels_of_cubin(code: bytes, label: str) -> dict[str, Kernel | None]:
    """Kernels of a cubin, by name, with the sizes of their parameters, which is all that it tells;
    None for one without attributes.

    Args:
        label: how errors call it.

    Raises:
        FormatError: no ELF file, or a damaged one.
    """
    file = ElfFile(memoryview(code), label)
    kinds = (STB_GLOBAL, STT_FUNC)
    return {
        s.name: _cubin_kernel(file, s.name)
        for s in file.symtab
        if s.is_defined and (s.binding, s.type) == kinds and s.st_other & _STO_CUDA_ENTRY
    }


def _cubin_kernel(file: ElfFile, name: str) -> Kernel | None:
    section = file.section(f".nv.info.{name}")
    if section is None:
        return None
    sizes = dict(_sizes_of_parameters(file.contents(section)))
    count = 1 + max(sizes, default=-1)
    describe = "a cubin tells its size alone, {} bytes".format
    parameters = (Parameter(None, sizes.get(i, 0), describe(sizes.get(i, 0))) for i in range(count))
    return Kernel(name, tuple(parameters))


def _sizes_of_parameters(info: memoryview) -> Iterable[tuple[int, int]]:
    """Ordinal and bytes of each parameter. An attribute: u8 format, u8 attribute, u16 value or size
    of what follows."""
    at = 0
    while len(info) - at >= 4:
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != _SVAL:
            continue
        if attribute in (_KPARAM_INFO, _KPARAM_INFO_V2) and size >= 12 and len(info) - at >= 12:
            ordinal, word = struct.unpack_from("<4xH2xI", info, at)
            yield ordinal, word >> 18 if attribute == _KPARAM_INFO else word & 0xFFFF
        at += size


# -- hsaco -----------------------------------------------------------------------------------------

BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_DESCRIPTOR = ".kd"  # behind a kernel's name: the symbol of what a launch reads


def names_in_hsaco(code: bytes, label: str) -> tuple[str, ...] | None:
    """Names of the kernels of an AMD code object, or of the first in a bundle of them; None where
    none can be seen.

    Args:
        label: how errors call it.

    Raises:
        FormatError: a damaged ELF file.
    """
    found = _bundled(code) if code.startswith(BUNDLE_MAGIC) else code
    if not found.startswith(ELF_MAGIC):
        return None
    symbols = ElfFile(memoryview(found), label).symtab
    names = (
        s.name
        for s in symbols
        if s.is_defined and s.binding == STB_GLOBAL and s.name.endswith(_DESCRIPTOR)
    )
    return tuple(name[: -len(_DESCRIPTOR)] for name in names)


def _bundled(code: bytes) -> bytes:
    """The first code object in a bundle, which has a count, then offset, size and target of each;
    b"" for none."""
    at = len(BUNDLE_MAGIC) + 8
    count = int.from_bytes(code[at - 8 : at], "little")
    for _ in range(count):
        if len(code) - at < 24:
            break
        offset, size, length = struct.unpack_from("<3Q", code, at)
        target = code[at + 24 :][:length]
        if target.startswith(b"hip") and size <= len(code) and offset <= len(code) - size:
            return code[offset:][:size]
        at += 24 + length
    return b""


# -- both ------------------------------------------------------------------------------------------


def merged(*sources: dict[str, Kernel]) -> dict[str, Kernel]:
    """The kernels of several views of the same code, merged. The last view that lists kernels, the
    compiled one, decides which there are; types come from the first view that is certain."""
    views = [s for s in sources if s]
    if not views:
        return {}
    return {name: _merged_kernel(name, [v[name] for v in views if name in v]) for name in views[-1]}


def _merged_kernel(name: str, views: Iterable[Kernel]) -> Kernel:
    views = list(views)
    counts = {len(v.parameters) for v in views}
    # the preprocessor may have chosen among several definitions: the compiled one counts
    if len(counts) != 1:
        return views[-1]
    columns = zip(*(v.parameters for v in views))
    return Kernel(
        name,
        tuple(next((p for p in column if p.type is not None), column[-1]) for column in columns),
    )
