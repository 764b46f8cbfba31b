"""What the payload of each type key looks like: docs/format.md, section 3.

Classic payloads carry no length; a reader without an index must walk them. Each key has a grammar, declared as
data: a sequence of named fields. Where two releases wrote two layouts under one key, a function picks the
grammar by the payload's first string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mblob.bytes.wire import Cursor, encode_string, encode_strings, encode_u64
from mblob.dtype import DataType
from mblob.format.ndarray import ArrayRecord, read_ndarray

Read = Callable[[Cursor, str], Any]
Grammar = Sequence[tuple[str, Read]]
Grammars = Mapping[str, "Grammar | Callable[[Cursor], Grammar]"]


class FunctionInfo(NamedTuple):
    """A device kernel: parameter types in order, launch tags (`blockIdx.x`, `threadIdx.x`, ...); in the ffi dialect a
    number for each parameter, too (1: a descriptor of CUDA's tensor maps)."""

    name: str
    arg_types: tuple[DataType, ...]
    launch_param_tags: tuple[str, ...]
    arg_extra_tags: tuple[int, ...] = ()


# -- fields ---------------------------------------------------------------------------------------------


def string(c: Cursor, what: str) -> memoryview:
    return c.string(what)


def strings(c: Cursor, what: str) -> list[memoryview]:
    return [c.string(what) for _ in range(c.count(what, 8))]


def i32(c: Cursor, what: str) -> int:
    return c.i32(what)


def function_map(c: Cursor, what: str) -> dict[str, FunctionInfo]:
    """unordered_map<string, FunctionInfo>; the inner name is written empty, the key is the kernel's name."""
    functions: dict[str, FunctionInfo] = {}
    for _ in range(c.count(what, 32)):
        info = function_info(c, what)
        functions[info.name] = info
    return functions


def function_info(c: Cursor, what: str) -> FunctionInfo:
    name = text(c.string(f"{what}.name"))
    c.skip_string(f"{what}.name")
    types = c.take(4 * c.count(f"{what}.arg_types", 4), f"{what}.arg_types")
    tags = tuple(text(tag) for tag in strings(c, f"{what}.launch_param_tags"))
    args = tuple(DataType.from_bytes(types[i : i + 4]) for i in range(0, len(types), 4))
    return FunctionInfo(name, args, tags)


def string_map(c: Cursor, what: str) -> dict[str, memoryview]:
    return {text(c.string(what)): c.string(what) for _ in range(c.count(what, 16))}


def shader_map(c: Cursor, what: str) -> dict[str, memoryview]:
    """map<string, {u32 flag, vector<u32> words}>."""
    shaders = {}
    for _ in range(c.count(what, 20)):
        name = text(c.string(what))
        c.skip(4, f"{what}.flag")
        shaders[name] = c.take(4 * c.count(f"{what}.words", 4), f"{what}.words")
    return shaders


def named_arrays(c: Cursor, what: str) -> dict[str, ArrayRecord]:
    return dict(named_array_pairs(c, what))


def named_array_pairs(c: Cursor, what: str) -> list[tuple[str, ArrayRecord]]:
    """u64 n, vector<string> names (n of them), n arrays."""
    start = c.pos
    count = c.u64(what)
    names = [text(n) for n in strings(c, f"{what}.names")]
    if count != len(names):
        raise c.fail(f"{what}: {count} arrays, {len(names)} names", at=start)
    return [(name, read_ndarray(c, f"{what}[{name!r}]")) for name in names]


def constants(c: Cursor, what: str) -> dict[str, ArrayRecord]:
    return dict(constant_pairs(c, what))


def constant_pairs(c: Cursor, what: str) -> list[tuple[str, ArrayRecord]]:
    """vector<string> names, u64 n (the same count), n arrays."""
    names = [text(n) for n in strings(c, f"{what}.names")]
    start = c.pos
    count = c.u64(what)
    if count != len(names):
        raise c.fail(f"{what}: {len(names)} names, {count} arrays", at=start)
    return [(name, read_ndarray(c, f"{what}[{name!r}]")) for name in names]


def symbol_constants(c: Cursor, what: str) -> dict[str, list[str]]:
    """vector<string> symbols, u64 n (the same count), n vector<string>."""
    symbols = [text(s) for s in strings(c, f"{what}.symbols")]
    start = c.pos
    count = c.u64(what)
    if count != len(symbols):
        raise c.fail(f"{what}: {len(symbols)} symbols, {count} lists", at=start)
    return {symbol: [text(v) for v in strings(c, what)] for symbol in symbols}


def ethos_n(c: Cursor, what: str) -> None:
    """u64 n, n * {string name, string stream, then for inputs and outputs: u64 k, k u32 orders, k u32 sizes}."""
    for _ in range(c.count(what, 32)):
        c.skip_string(f"{what}.name")
        c.skip_string(f"{what}.command_stream")
        for side in ("inputs", "outputs"):
            c.skip(8 * c.count(f"{what}.{side}", 8), f"{what}.{side}")


# -- grammars -------------------------------------------------------------------------------------------

SOURCE: Grammar = (("fmt", string), ("functions", function_map), ("data", string))
METAL_KERNELS: Grammar = (("version", string), ("sources", string_map), ("functions", function_map), ("fmt", string))
SPIRV: Grammar = (("functions", function_map), ("shaders", shader_map))
VULKAN: Grammar = (("fmt", string), ("functions", function_map), ("shaders", shader_map))
WEBGPU: Grammar = (("functions", function_map), ("sources", string_map))
JSON: Grammar = (("symbol", string), ("graph_json", string), ("const_names", strings))
CONSTANTS: Grammar = (("constants", constants), ("symbols", symbol_constants))
GRAPH: Grammar = (("graph_json", string), ("params", named_arrays), ("module_name", string))
AOT: Grammar = (("params", named_arrays), ("module_name", string))
EXECUTABLE: Grammar = (("code", string),)
PAIR: Grammar = (("symbol", string), ("data", string))
MRVL_SIM: Grammar = (("symbol", string), ("nodes_json", string), ("data", string))

OPENCL_FORMATS = {b"cl", b"clbin", b"xclbin", b"awsxclbin", b"aocx"}


def first_string(c: Cursor) -> bytes:
    """The first string of a payload if it is short enough to be a format name, else b""."""
    ahead = Cursor(c.data, c.pos, c.end)
    if ahead.left < 8 or (size := ahead.u64("fmt")) > min(ahead.left, 64):
        return b""
    return bytes(ahead.take(size, "fmt"))


def _metal(c: Cursor) -> Grammar:
    return SOURCE if first_string(c) in (b"metal", b"metallib") else METAL_KERNELS


def _opencl(c: Cursor) -> Grammar:
    return SOURCE if first_string(c) in OPENCL_FORMATS else SPIRV


def _vulkan(c: Cursor) -> Grammar:
    return VULKAN if first_string(c) == b"vulkan" else SOURCE


def _webgpu(c: Cursor) -> Grammar:
    # A compiler without the WebGPU runtime writes the generic source form, with "wgsl" or "webgpu" in front.
    return SOURCE if first_string(c) in (b"wgsl", b"webgpu") else WEBGPU


DEVICE_KEYS = ("cuda", "hip", "hsaco", "opencl", "metal", "vulkan", "webgpu", "opengl", "hexagon")  # list kernels
JSON_KEYS = (
    "dnnl_json", "tensorrt", "arm_compute_lib", "bnns_json", "clml", "cublas_json", "cudnn_json", "hipblas_json",
    "nnapi", "msc_tensorrt",
)  # fmt: skip

GRAMMARS: Grammars = {
    **dict.fromkeys(("cuda", "hip", "hsaco", "opengl", "hexagon"), SOURCE),
    "opencl": _opencl,
    "metal": _metal,
    "vulkan": _vulkan,
    "webgpu": _webgpu,
    **dict.fromkeys(JSON_KEYS, JSON),
    **dict.fromkeys(("const_loader", "metadata"), CONSTANTS),
    "metadata_module": (),
    **dict.fromkeys(("GraphExecutorFactory", "GraphRuntimeFactory"), GRAPH),
    "AotExecutorFactory": AOT,
    **dict.fromkeys(("VMExecutable", "relax.Executable", "relax.VMExecutable"), EXECUTABLE),
    **dict.fromkeys(("coreml", "torch"), PAIR),
    "VitisAIRuntime": (("runtime", string), ("export_path", string), ("symbol", string), ("const_names", strings)),
    "mrvl_sim": MRVL_SIM,
    "mrvl_hw": (*MRVL_SIM, ("inputs", i32), ("outputs", i32), ("batch", i32)),
    "ethos-n": (("networks", ethos_n),),
    "examplejson": (("graph_json", string),),
    "c": (("code", string), ("fmt", string), ("func_names", strings), ("const_names", strings)),
    "static_library": (("data", string), ("func_names", strings)),
}


def text(raw: memoryview | bytes) -> str:
    """Text of a name from a file; bytes that are not UTF-8 are shown as such, never refused."""
    return bytes(raw).decode("utf-8", "backslashreplace")


def read_payload(key: str, cursor: Cursor, grammars: Grammars = GRAMMARS) -> dict[str, Any]:
    """Walk one payload and return its fields; the cursor ends behind it. Strings are views, nothing is copied.

    Args:
        grammars: those of the dialect.

    Raises:
        FormatError: "unknown_key" if the key has no grammar, "payload" or "truncated" if it breaks it.
    """
    grammar = grammars.get(key)
    if grammar is None:
        raise cursor.fail(
            f"type key {key!r} has no known payload grammar and there is no index: what follows cannot be read",
            "unknown_key",
        )
    if callable(grammar):
        grammar = grammar(cursor)
    return {name: read(cursor, f"{key}.{name}") for name, read in grammar}


def decode_payload(key: str, payload: memoryview, grammars: Grammars = GRAMMARS) -> dict[str, Any]:
    """Fields of a whole payload ({} for a key without a grammar).

    Raises:
        FormatError: it breaks its grammar, or bytes follow.
    """
    if key not in grammars:
        return {}
    cursor = Cursor(payload)
    fields = read_payload(key, cursor, grammars)
    if cursor.left:
        raise cursor.fail(f"{key}: {cursor.left} bytes follow the payload")
    return fields


def encode_function_map(functions: Iterable[FunctionInfo]) -> bytes:
    """`fmap` of a device module, in the order given."""
    items = list(functions)
    out = [encode_u64(len(items))]
    for f in items:
        out += [encode_string(f.name), encode_string(""), encode_u64(len(f.arg_types))]
        out += [t.to_bytes() for t in f.arg_types]
        out.append(encode_strings(f.launch_param_tags))
    return b"".join(out)
