"""Payloads of one dialect in the grammar of the other: docs/format.md, sections 3 and 11.

What a kind says is the same in both; they differ in how kernels, types and shaders are written, and
in which kinds there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mblob.bytes.payload_source import BytesPayload
from mblob.bytes.wire import Cursor, encode_map, encode_string, encode_strings, encode_u64
from mblob.dtype import FLOAT8_E3M4, OF_DLPACK, SMALL_FLOATS, DataType
from mblob.errors import FormatError
from mblob.format import safetensors
from mblob.format.blob_plan import OutEntry
from mblob.format.grammar import (
    FFI_GRAMMARS,
    FFI_GRAMMARS_OF_0_21,
    GRAMMARS,
    FunctionInfo,
    Grammars,
    decode_payload,
    encode_function_map,
    function_map,
    text,
)
from mblob.format.ndarray import ArrayRecord, encode_header
from mblob.format.type_keys import (
    CONST_LOADER,
    CUDA,
    EXECUTABLES,
    HEXAGON,
    HIP,
    HSACO,
    METAL,
    OPENCL,
    RELAX_EXECUTABLE,
    RELAX_EXECUTABLE_OF_0_16,
    RELAX_EXECUTABLES,
    ROWS,
    SAFETENSORS,
    TABLE,
    VULKAN,
    WEBGPU,
    letters,
)
from mblob.inspect import payload_layouts
from mblob.module import Module
from mblob.node import to_write
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import PayloadNode, PiecesPayload, node_of
from mblob.packager.path_arguments import TAKEN_KEYS, check_key

Fields = Mapping[str, Any]
Pieces = list[Any]  # bytes-like; what is large is a view

METAL_VERSION = "0.1.0"  # what TVM's writer says; its reader ignores it

_GRAMMARS: dict[str, Grammars] = {
    "classic": GRAMMARS,
    "ffi": FFI_GRAMMARS,
    "ffi 0.21": FFI_GRAMMARS_OF_0_21,
}
# Kinds that both dialects write alike: neither kernels nor arrays, which have numbers of types.
_SAME = frozenset(
    r.key for r in TABLE if r.classic == r.ffi and not set(letters(r.classic)) & set("fncr")
)

# Types that the dialects number differently: TVM 0.19 and before, DLPack 1.1 and later.
_TYPES = {
    (1, 1): OF_DLPACK["bool"],
    SMALL_FLOATS["e4m3_float8"]: SMALL_FLOATS["float8_e4m3fn"],
    SMALL_FLOATS["e5m2_float8"]: SMALL_FLOATS["float8_e5m2"],
    SMALL_FLOATS["float8_e3m4"]: OF_DLPACK["float8_e3m4"],
}
_TYPES_BACK = {new: old for old, new in _TYPES.items()}
_TYPES_OF_0_21 = {(1, 1): OF_DLPACK["bool"]}  # all others are those of later releases

# Launch tags that are called otherwise since TVM 0.24, and those that the classic dialect does not
# have.
_TAGS = {"tir.use_dyn_shared_memory": "tirx.use_dyn_shared_memory"}
_TAGS_BACK = {new: old for old, new in _TAGS.items()}
_FFI_TAGS = ("clusterCtaIdx.", "preferredClusterCtaIdx.", "tirx.")


def check_node(node: PayloadNode, dialect: str) -> None:
    """Refuse a payload that a dialect cannot write as it is.

    Raises:
        BuildError: as of `out_entry`.
    """
    _check_kernels(node, dialect)
    if node.is_unread:
        check(node.type_key, node.payload(), dialect)


def _check_kernels(node: PayloadNode, dialect: str) -> None:
    if dialect == "classic":
        for kernel in node.kernels:
            to_classic(node.type_key, kernel)


def converted_entry(module: Module, dialect: str) -> OutEntry:
    """The entry of a module of another dialect, or of an opened library: `out_entry` of `blob_stream`."""
    node = node_of(module)
    written = node.dialect or dialect
    if isinstance(node, PayloadNode):
        _check_kernels(node, dialect)
        pieces = convert_payload(node.type_key, node.payload(), written, dialect, node.kernels)
        return OutEntry(key_in(node.type_key, dialect), PiecesPayload(pieces), (), node.data)
    payload = to_write(module)
    if not node.is_opened:  # made by the program that exports it
        check_key(module.type_key, "export_library")
        if module.type_key in ROWS or module.type_key == SAFETENSORS:
            check(module.type_key, payload, written)
    payload_layouts.check_whole(module.type_key, payload)
    if module.type_key == SAFETENSORS:
        data_offset = safetensors.data_offset(payload, payload.nbytes)
        return OutEntry(
            SAFETENSORS,
            BytesPayload(payload),
            imports=(),
            data=True,
            alignment=safetensors.ALIGNMENT,
            align_at=data_offset,
        )
    pieces = convert_payload(module.type_key, payload, written, dialect)
    return OutEntry(key_in(module.type_key, dialect), PiecesPayload(pieces), (), node.data)


def convert_payload(
    kind: str, payload: memoryview, source: str, target: str, extra: Sequence[FunctionInfo] = ()
) -> Pieces:
    """A payload in the grammar of another dialect, in pieces that may be views of it.

    Args:
        kind: its type key. A kind without a grammar in the dialect it comes from is somebody's own:
            its bytes stay.
        source, target: "classic" or "ffi"; "ffi 0.21" for what that release wrote.
        extra: kernels with what the classic grammar cannot say of them.

    Raises:
        BuildError: the other dialect has no such kind, or cannot say what the payload says.
        FormatError: the payload breaks its grammar.
    """
    if source == target and not extra:
        return [payload]
    check_kind(kind, target, known_to=source)
    if kind not in _GRAMMARS[source] or kind in _SAME:
        return [payload]
    fields: Fields = decode_payload(kind, payload, _GRAMMARS[source])
    if kind in RELAX_EXECUTABLES:
        return _relax(kind, fields["code"], source, target)
    if kind == CONST_LOADER:
        return _const_loader(fields, target)
    if kind == VULKAN and source == "classic":
        fields = _vulkan_fields(payload)
    encode = (_TO_FFI if target == "ffi" else _TO_CLASSIC)[kind]
    return [encode(kind, fields, _kernels(kind, fields, extra, target))]


def check_kind(kind: str, target: str, known_to: str) -> None:
    """Refuse a kind that one dialect has and the other has not.

    Raises:
        BuildError: naming it, and why.
    """
    if kind in _GRAMMARS[known_to] and key_in(kind, target) not in _GRAMMARS[target]:
        reason = ROWS[kind].no_ffi or "no release of TVM has both"
        raise BuildError(f"{kind!r} is not a kind of the {target} dialect: {reason}")


def check(key: str, payload: memoryview, dialect: str) -> None:
    """Refuse bytes of a caller's that the readers of their key cannot read.

    Raises:
        BuildError: they break the grammar of the key, or are no program of it.
    """
    try:
        if key == SAFETENSORS:
            safetensors.read(payload)
        else:
            decode_payload(key, payload, _GRAMMARS[dialect])
        if key in EXECUTABLES:
            from mblob.inspect import contents

            contents.check(key, payload, _GRAMMARS[dialect])
    except FormatError as error:
        raise BuildError(
            f"the payload of {key!r} breaks the grammar that modules of this type key have: {error};"
            f" give data of your own another key, such as 'my_{key}': {TAKEN_KEYS}"
        ) from None


def key_in(kind: str, target: str) -> str:
    """The key that a kind has in a dialect: Relax's programs have another one since TVM 0.20."""
    return RELAX_EXECUTABLE if kind == RELAX_EXECUTABLE_OF_0_16 and target == "ffi" else kind


# -- kernels ---------------------------------------------------------------------------------------


def _kernels(
    kind: str, fields: Fields, extra: Sequence[FunctionInfo], target: str
) -> list[FunctionInfo]:
    more = {f.name: f.arg_extra_tags for f in extra}
    functions: Mapping[str, FunctionInfo] = fields["functions"]
    made = []
    for name, f in functions.items():
        f = f._replace(arg_extra_tags=more.get(name, f.arg_extra_tags))
        made.append(_to_ffi(kind, f) if target == "ffi" else to_classic(kind, f))
    return made


def _to_ffi(kind: str, f: FunctionInfo) -> FunctionInfo:
    """As TVM has it: a 0 for each parameter, but for webgpu, whose generator gives none."""
    tags = tuple(_TAGS.get(tag, tag) for tag in f.launch_param_tags)
    extra = f.arg_extra_tags or (() if kind == WEBGPU else (0,) * len(f.arg_types))
    return FunctionInfo(f.name, tuple(_mapped(t, _TYPES) for t in f.arg_types), tags, extra)


def to_classic(kind: str, f: FunctionInfo) -> FunctionInfo:
    """A kernel as the classic dialect says it.

    Raises:
        BuildError: it cannot.
    """
    if any(f.arg_extra_tags):
        i = next(i for i, tag in enumerate(f.arg_extra_tags) if tag)
        raise BuildError(
            f"{kind}: kernel {f.name!r}: argument {i} is a tensor map, which the classic dialect cannot say;"
            " use dialect='ffi'"
        )
    tags = tuple(_TAGS_BACK.get(tag, tag) for tag in f.launch_param_tags)
    for tag in tags:
        if tag.startswith(_FFI_TAGS):
            raise BuildError(
                f"{kind}: kernel {f.name!r}: the classic dialect has no launch tag {tag!r}; use dialect='ffi'"
            )
    return FunctionInfo(
        f.name, tuple(_classic_type(t, f"{kind}: kernel {f.name!r}") for t in f.arg_types), tags
    )


def _classic_type(t: DataType, what: str) -> DataType:
    found = _mapped(t, _TYPES_BACK)
    if found.code == FLOAT8_E3M4:
        raise BuildError(f"{what}: the classic dialect has no type float8_e3m4; use dialect='ffi'")
    return found


def _mapped(t: DataType, types: Mapping[tuple[int, int], tuple[int, int]]) -> DataType:
    return DataType(*types.get((t.code, t.bits), (t.code, t.bits)), t.lanes)


def encode_ffi_functions(functions: Sequence[FunctionInfo]) -> bytes:
    """`fmap` of the ffi dialect, in the order given."""
    out = [encode_u64(len(functions))]
    for f in functions:
        out += [encode_string(f.name), encode_string(f.name), encode_u64(len(f.arg_types))]
        out += [t.to_bytes() for t in f.arg_types]
        out.append(encode_strings(f.launch_param_tags))
        tags = b"".join(tag.to_bytes(4, "little", signed=True) for tag in f.arg_extra_tags)
        out.append(encode_u64(len(f.arg_extra_tags)) + tags)
    return b"".join(out)


# -- to ffi ----------------------------------------------------------------------------------------


def _sources_of(fields: Fields, kernels: Sequence[FunctionInfo]) -> dict[str, bytes]:
    """One source per kernel; where all share one, each gets it."""
    if "sources" in fields:
        return {name: bytes(code) for name, code in fields["sources"].items()}
    return {f.name: bytes(fields["data"]) for f in kernels}


def _ffi_source(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    if "shaders" in fields:
        raise BuildError(
            f"{kind}: SPIR-V, for which the ffi dialect has no {kind} payload; pack OpenCL C"
        )
    return (
        encode_string(bytes(fields["fmt"]))
        + encode_ffi_functions(kernels)
        + encode_string(bytes(fields["data"]))
    )


def _ffi_shaders(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    return (
        encode_string(bytes(fields["fmt"]))
        + encode_ffi_functions(kernels)
        + encode_map(_sources_of(fields, kernels))
    )


def _ffi_webgpu(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    return encode_ffi_functions(kernels) + encode_map(_sources_of(fields, kernels))


def _vulkan_fields(payload: memoryview) -> Fields:
    """A classic payload with the shaders as they stand there: flag and words.

    Raises:
        BuildError: no SPIR-V.
    """
    c = Cursor(payload)
    fmt = bytes(c.string("vulkan.fmt"))
    if fmt != b"vulkan":
        raise BuildError(f"vulkan: format {fmt[:40]!r}, expected SPIR-V for the ffi dialect")
    functions, shaders = function_map(c, "vulkan.functions"), {}
    for _ in range(c.count("vulkan.shaders", 20)):
        name, at = text(c.string("vulkan.shaders")), c.pos
        c.skip(4, "vulkan.shaders.flag")
        c.skip(4 * c.count("vulkan.shaders.words", 4), "vulkan.shaders.words")
        shaders[name] = payload[at : c.pos]
    return {"fmt": fmt, "functions": functions, "sources": shaders}


# -- to classic ------------------------------------------------------------------------------------


def _classic_source(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    return (
        encode_string(bytes(fields["fmt"]))
        + encode_function_map(kernels)
        + encode_string(bytes(fields["data"]))
    )


def _classic_metal(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    head = encode_string(METAL_VERSION) + encode_map(_sources_of(fields, kernels))
    return head + encode_function_map(kernels) + encode_string(bytes(fields["fmt"]))


def _classic_webgpu(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    return encode_function_map(kernels) + encode_map(_sources_of(fields, kernels))


def _classic_vulkan(kind: str, fields: Fields, kernels: list[FunctionInfo]) -> bytes:
    out = [
        encode_string(bytes(fields["fmt"])),
        encode_function_map(kernels),
        encode_u64(len(fields["sources"])),
    ]
    for name, shader in fields["sources"].items():
        words = len(shader) - 12
        if words < 0 or words % 4 or int.from_bytes(shader[4:12], "little") != words // 4:
            raise FormatError(
                f"{kind}: kernel {name!r}: a shader of {len(shader)} bytes, expected a flag and words",
                code="payload",
            )
        out += [encode_string(name), bytes(shader)]
    return b"".join(out)


Encode = Callable[[str, Fields, "list[FunctionInfo]"], bytes]

_SOURCES = (CUDA, HIP, HSACO, OPENCL, HEXAGON)
_TO_FFI: dict[str, Encode] = {
    **dict.fromkeys(_SOURCES, _ffi_source),
    **dict.fromkeys((METAL, VULKAN), _ffi_shaders),
    WEBGPU: _ffi_webgpu,
}
_TO_CLASSIC: dict[str, Encode] = {
    **dict.fromkeys(_SOURCES, _classic_source),
    METAL: _classic_metal,
    WEBGPU: _classic_webgpu,
    VULKAN: _classic_vulkan,
}


# -- programs --------------------------------------------------------------------------------------


def _relax(kind: str, code: memoryview, source: str, target: str) -> Pieces:
    def mapped(dtype: DataType, what: str) -> DataType:
        if target != "ffi":
            return _classic_type(dtype, what)
        return _mapped(dtype, _TYPES if source == "classic" else _TYPES_OF_0_21)

    of_0_16 = kind == RELAX_EXECUTABLE_OF_0_16
    from mblob.packager.modules import relax_payload  # with `mblob.inspect`

    pieces = relax_payload.converted_program(kind, code, source, target, of_0_16, mapped)
    return pieces if target == "ffi" else [encode_u64(sum(map(len, pieces))), *pieces]


# -- constants -------------------------------------------------------------------------------------


def _const_loader(fields: Fields, target: str) -> Pieces:
    constants: Mapping[str, ArrayRecord] = fields["constants"]
    symbols: Mapping[str, Sequence[str]] = fields["symbols"]
    pieces: Pieces = [encode_strings(list(constants)) + encode_u64(len(constants))]
    for name, record in constants.items():
        dtype = (
            _mapped(record.dtype, _TYPES)
            if target == "ffi"
            else _classic_type(record.dtype, f"constant {name!r}")
        )
        pieces += [encode_header(dtype, record.shape, record.data.nbytes), record.data]
    lists = b"".join(encode_strings(used) for used in symbols.values())
    return [*pieces, encode_strings(list(symbols)) + encode_u64(len(symbols)) + lists]
