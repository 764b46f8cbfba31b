"""Constructor of device code modules: payloads of cuda, hip, opencl, metal, vulkan and webgpu
(docs/format.md, 3)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.binary.file_kind import ELF_MAGIC
from mblob.bytes.payload_source import BytesPayload, as_bytes_view
from mblob.bytes.wire import encode_map, encode_string, encode_u64
from mblob.errors import one_of
from mblob.format.grammar import FunctionInfo, encode_function_map
from mblob.format.type_keys import CUDA, HIP, HSACO, METAL, OPENCL, ROWS, VULKAN, WEBGPU
from mblob.module import Module
from mblob.packager.device.compilers import LANGUAGES, Arch, Compile, compile_device
from mblob.packager.device.functions import KernelsInCode, complete
from mblob.packager.device.kernels import (
    BUNDLE_MAGIC,
    Kernel,
    is_cubin,
    kernels_of_cubin,
    kernels_of_ptx,
    kernels_of_source,
    merged,
    names_in_hsaco,
)
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.modules.nodes import PayloadNode
from mblob.packager.modules.payload_conversion import METAL_VERSION
from mblob.packager.options import as_options
from mblob.packager.path_arguments import path_or_text

if TYPE_CHECKING:
    from mblob.typed import DeviceCode

# TVM's OpenCL runtime builds each kernel from the text behind its line
CL_DELIMITER = "// Function: "
FATBIN_MAGICS = (b"\x50\xed\x55\xba", b"\xba\x55\xed\x50")
SPIRV_MAGIC = b"\x03\x02\x23\x07"
BINARIES = (ELF_MAGIC, *FATBIN_MAGICS, SPIRV_MAGIC, BUNDLE_MAGIC, b"MTLB")

Sources = Any  # text, bytes, a path, or a mapping of these by kernel name


def device_module(
    kind: DeviceCode,
    source: Sources,
    functions: Iterable[Any] | None = None,
    fmt: str | None = None,
    *,
    compile: Compile = None,
    arch: Arch = None,
    options: str | Sequence[str] | None = None,
    launch: Sequence[str] = (),
) -> Module:
    """Kernels for a device, in the layout that TVM's runtime of that device reads.

    Args:
        kind: "cuda", "hip", "opencl", "metal", "vulkan" or "webgpu".
        source: the code: a text, bytes, or a path to either. metal, vulkan and webgpu have one
            source per kernel: a mapping from kernel name to source, or one source for all kernels.
        functions: one per kernel: a mapping {"name", "arg_types", "launch_param_tags"}, or a tuple
            in that order. arg_types are texts ("handle", "int32") in the order of the parameters;
            tags name the launch arguments that follow them ("blockIdx.x", "threadIdx.x", ...). For
            the ffi dialect a mapping may also have "arg_extra_tags": a number for each parameter, 1
            for a descriptor of a CUDA tensor map.
            For a name alone, or a mapping without arg_types, mblob reads the types from the code.
            It can do this for CUDA, HIP and OpenCL sources and PTX, if the types are unambiguous.
            None means all kernels whose types mblob can read; a warning names the others.
        fmt: format of the code ("ptx", "cubin", "hsaco", "cl", "metal", ...); by default it is
            detected. With `compile`, the format to compile to: "ptx" (default), "cubin" or "fatbin"
            for cuda, "hsaco" for hip, "spv" for opencl.
        compile: compile the source (a text or a path). True selects an installed compiler. Or give
            the name or command of one ("nvcc", "nvrtc", "clang", "hipcc", ["ccache", "nvcc"]).
        arch: architecture to compile for ("sm_90", "gfx90a"); a fatbin takes several.
        options: options of the compiler, a text or a list.
        launch: launch tags of kernels that declare none.

    Raises:
        OSError: no file at the path.
        BuildError: an unknown kind or format, a kernel without source, a type or tag that does not exist,
            types that mblob cannot read from the code (with functions=None: of any kernel), a
            kernel that is not in the code or has another number of arguments there.
        ToolchainError: no compiler, or it failed.
    """
    if kind not in tuple(_ENCODERS):
        raise BuildError(f"device_module: kind: {one_of(_ENCODERS, kind)}")
    files = [*_files_of(source)]
    if compile is None or compile is False:
        if arch is not None or options is not None:
            raise BuildError(
                "device_module: arch= and options= are for a compiler: pass compile=True, too"
            )
        if fmt and fmt not in _FORMATS[kind]:
            raise BuildError(f"device_module: fmt: for {kind}: {one_of(_FORMATS[kind], fmt)}")
        seen = _kernels_in(kind, source)
    else:
        source, fmt, seen = _compiled(kind, source, compile, fmt, arch, options)
    # Sorted by name, so that the same content gives the same bytes.
    infos = sorted(complete(functions, seen, launch), key=lambda f: f.name)
    payload, text = _ENCODERS[kind](source, infos, fmt)
    node = PayloadNode(kind, BytesPayload(payload), text, dialect="classic", kernels=infos)
    node.files = files
    return Module(node=node)


def _files_of(source: Sources) -> Iterator[Path]:
    """The files among the sources."""
    for given in source.values() if isinstance(source, Mapping) else (source,):
        code = given[1] if isinstance(given, tuple) else given  # (flag, SPIR-V)
        if isinstance(code, (str, os.PathLike)):
            path = path_or_text(code, "device_module")
            if isinstance(path, Path):
                yield path


def _kernels_in(kind: str, source: Sources) -> KernelsInCode:
    """Facts about the kernels of uncompiled code, or of a binary."""
    if kind not in LANGUAGES or isinstance(source, Mapping):
        return KernelsInCode()
    code = _read(source)
    text = _text(code.rstrip(b"\0"))
    if kind == CUDA and is_cubin(code):
        return _kernels_in_cubin(code, "device_module: the cubin", {})
    if text is None or "\0" in text or code.startswith(BINARIES):
        return KernelsInCode(opaque=True)
    ptx = kernels_of_ptx(text) if kind == CUDA else {}
    return KernelsInCode(ptx or kernels_of_source(text, kind), tuple(ptx) or None, exact=bool(ptx))


def _kernels_in_cubin(code: bytes, label: str, by_source: Mapping[str, Kernel]) -> KernelsInCode:
    """`by_source`: by its source."""
    found = kernels_of_cubin(code, label)
    sized = {name: kernel for name, kernel in found.items() if kernel is not None}
    kernels = {**by_source, **merged(dict(by_source), sized)} if sized else by_source
    return KernelsInCode(kernels, tuple(found), exact=bool(sized), opaque=True)


def _compiled(
    kind: str,
    source: Sources,
    how: Compile,
    fmt: str | None,
    arch: Arch,
    options: str | Sequence[str] | None,
) -> tuple[bytes, str, KernelsInCode]:
    """The compiled code, its format, and what it and its source tell."""
    if isinstance(source, (str, os.PathLike)):
        given = path_or_text(source, "device_module")
    elif isinstance(source, Mapping):
        raise BuildError(
            "device_module: compile= takes one source, a text or a path, with all kernels in it"
        )
    else:
        given = _read(source).decode(errors="surrogateescape")
    code, fmt = compile_device(kind, given, how, fmt, arch, options)
    text = given.read_text(errors="replace") if isinstance(given, Path) else given
    by_source = kernels_of_source(text, kind)
    if kind == HIP:
        names = names_in_hsaco(code, "device_module: the code object that was compiled")
        return code, fmt, KernelsInCode(by_source, names, opaque=True)
    if kind != CUDA:
        return code, fmt, KernelsInCode(by_source, opaque=True)
    if fmt == "cubin":
        return (
            code,
            fmt,
            _kernels_in_cubin(code, "device_module: the cubin that was compiled", by_source),
        )
    # a container that NVIDIA does not describe: what is in it is seen in PTX of the same source
    if fmt == "fatbin":
        one = arch[-1] if isinstance(arch, (list, tuple)) else arch
        ptx, _ = compile_device(kind, given, how, "ptx", one, _without_gencode(as_options(options)))
    else:
        ptx = code
    compiled = kernels_of_ptx(ptx.decode(errors="replace"))
    return (
        code,
        fmt,
        KernelsInCode(merged(by_source, compiled), tuple(compiled), exact=True, opaque=True),
    )


def _without_gencode(options: Sequence[str]) -> list[str]:
    """Options without the architectures of a fatbin, several of which PTX cannot have."""
    names = ("-gencode", "--generate-code")
    behind = [False, *(o in names for o in options)]
    return [
        o for o, value in zip(options, behind) if not value and o.partition("=")[0] not in names
    ]


# -- sources ---------------------------------------------------------------------------------------


def _read(source: Any) -> bytes:
    """Bytes of one source: text, bytes or a path."""
    if isinstance(source, (str, os.PathLike)):
        given = path_or_text(source, "device_module")
        return (
            given.read_bytes()
            if isinstance(given, Path)
            else given.encode(errors="surrogateescape")
        )
    try:
        return bytes(as_bytes_view(source))
    except TypeError:
        raise BuildTypeError(
            f"device_module: expected source as text, bytes or a path, found {type(source).__name__}"
        ) from None


def _text(code: bytes) -> str | None:
    try:
        return code.decode()
    except UnicodeDecodeError:
        return None


def _per_kernel(source: Sources, infos: list[FunctionInfo]) -> dict[str, Any]:
    """One source per kernel, sorted by name as TVM's std::map writes them."""
    if isinstance(source, Mapping):
        missing = [f.name for f in infos if f.name not in source]
        if missing:
            raise BuildError(
                f"device_module: no source for kernel {missing[0]!r}; there are {', '.join(map(str, source))}"
            )
        return dict(sorted(source.items()))
    if not infos:
        raise BuildError(
            "device_module: expected functions=, or a mapping of kernel name to source"
        )
    return {f.name: source for f in sorted(infos, key=lambda f: f.name)}


Encoded = tuple[bytes, "str | None"]


def _one_source(source: Sources, infos: list[FunctionInfo], fmt: str, code: bytes) -> Encoded:
    return encode_string(fmt) + encode_function_map(infos) + encode_string(code), _text(code)


def _cuda(source: Sources, infos: list[FunctionInfo], fmt: str | None) -> Encoded:
    code = _read(source)
    fatbin = code.startswith(FATBIN_MAGICS)
    return _one_source(
        source,
        infos,
        fmt or ("cubin" if code[:4] == ELF_MAGIC else "fatbin" if fatbin else "ptx"),
        code,
    )


def _hip(source: Sources, infos: list[FunctionInfo], fmt: str | None) -> Encoded:
    code = _read(source)
    bundle = code.startswith((ELF_MAGIC, BUNDLE_MAGIC))
    return _one_source(source, infos, fmt or ("hsaco" if bundle else "hip"), code)


def _opencl(source: Sources, infos: list[FunctionInfo], fmt: str | None) -> Encoded:
    spirv = not isinstance(source, Mapping) and _read(source).startswith(SPIRV_MAGIC)
    fmt = fmt or ("spv" if spirv else "cl")
    if fmt == "spv":
        return _shaders(encode_function_map(infos), source, infos), None
    if fmt != "cl":
        return _one_source(source, infos, fmt, _read(source))
    if isinstance(source, Mapping):
        parts = {name: _read(s).decode() for name, s in _per_kernel(source, infos).items()}
        code = "".join(f"{CL_DELIMITER}{name}\n{part}\n" for name, part in parts.items())
        return _one_source(source, infos, fmt, code.encode())
    given = _read(source)
    code = given.decode(errors="surrogateescape")
    found = sum(line.startswith(CL_DELIMITER) for line in code.splitlines())
    if not found:  # TVM's runtime wants one delimited part per kernel: each gets the whole text
        parts_text = "".join(f"{CL_DELIMITER}{f.name}\n{code}\n" for f in infos)
        code = parts_text or code
    elif found != len(infos):
        raise BuildError(
            f"device_module: the source has {found} lines '{CL_DELIMITER}<name>', functions= {len(infos)}"
        )
    payload, _ = _one_source(source, infos, fmt, code.encode(errors="surrogateescape"))
    return payload, _text(given)


def _metal(source: Sources, infos: list[FunctionInfo], fmt: str | None) -> Encoded:
    """TVM 0.13 and later."""
    sources = {name: _read(s) for name, s in _per_kernel(source, infos).items()}
    binary = any(code.startswith(b"MTLB") for code in sources.values())
    payload = encode_string(METAL_VERSION) + encode_map(sources) + encode_function_map(infos)
    payload += encode_string(fmt or ("metallib" if binary else "metal"))
    return payload, None if binary else _joined(sources)


def _webgpu(source: Sources, infos: list[FunctionInfo], fmt: str | None) -> Encoded:
    sources = {name: _read(s) for name, s in _per_kernel(source, infos).items()}
    return encode_function_map(infos) + encode_map(sources), _joined(sources)


def _vulkan(source: Sources, infos: list[FunctionInfo], fmt: str | None) -> Encoded:
    """A source is SPIR-V, or (flag, SPIR-V); bit 0 of the flag: scalars come through a uniform
    buffer."""
    return _shaders(
        encode_string(fmt or "vulkan") + encode_function_map(infos), source, infos
    ), None


def _shaders(head: bytes, source: Sources, infos: list[FunctionInfo]) -> bytes:
    """SPIR-V for each kernel, behind the fields in `head`."""
    sources = _per_kernel(source, infos)
    out = [head, encode_u64(len(sources))]
    for name, given in sources.items():
        flag, code = given if isinstance(given, tuple) else (0, given)
        words = _read(code)
        if len(words) % 4:
            raise BuildError(
                f"device_module: kernel {name!r}: SPIR-V of {len(words)} bytes, expected a multiple of 4"
            )
        out.append(
            encode_string(name)
            + int(flag).to_bytes(4, "little")
            + encode_u64(len(words) // 4)
            + words
        )
    return b"".join(out)


def _joined(sources: Mapping[str, bytes]) -> str | None:
    return _text(b"\n".join(dict.fromkeys(sources.values())))


# What `fmt` may be, by kind. SPIR-V for OpenCL has a payload of its own, which names no format;
# payloads of cuda and hip are laid out alike in every format.
_FORMATS = {
    **{kind: ROWS[kind].formats for kind in (METAL, VULKAN, WEBGPU)},
    OPENCL: (*ROWS[OPENCL].formats, "spv"),
    CUDA: ("ptx", "cubin", "fatbin", CUDA, "cu"),
    HIP: (HSACO, HIP),
}

_ENCODERS: dict[str, Callable[[Sources, list[FunctionInfo], str | None], Encoded]] = {
    CUDA: _cuda, HIP: _hip, OPENCL: _opencl, METAL: _metal, VULKAN: _vulkan, WEBGPU: _webgpu,
}  # fmt: skip
