"""What the payload of each type key looks like in the ffi dialect (TVM 0.21 and later): docs/format.md, section 11.

Where nothing changed, the grammar is the one of `mblob.format.grammar`.
"""

from __future__ import annotations

from typing import Any

from mblob.bytes.wire import Cursor
from mblob.format import grammar
from mblob.format.grammar import Grammar, Grammars, function_info, string, string_map


def function_map(c: Cursor, what: str) -> dict[str, grammar.FunctionInfo]:
    """Kernels; behind the launch tags of each a vector<i32>, one number for each parameter (or none at all)."""
    functions = {}
    for _ in range(c.count(what, 40)):
        info = function_info(c, what)
        extra = tuple(c.i32(f"{what}.arg_extra_tags") for _ in range(c.count(f"{what}.arg_extra_tags", 4)))
        types = tuple(t.of_ffi() for t in info.arg_types)
        functions[info.name] = info._replace(arg_types=types, arg_extra_tags=extra)
    return functions


def rest(c: Cursor, what: str) -> memoryview:
    """All that is left: a payload with a grammar of its own, which is not read here."""
    return c.take(c.left, what)


SOURCE: Grammar = (("fmt", string), ("functions", function_map), ("data", string))
SHADERS: Grammar = (("fmt", string), ("functions", function_map), ("sources", string_map))
METAL_OF_0_21: Grammar = (("version", string), ("sources", string_map), ("functions", function_map), ("fmt", string))
WEBGPU: Grammar = (("functions", function_map), ("sources", string_map))


def _metal(c: Cursor) -> Grammar:
    return SHADERS if grammar.first_string(c) in (b"metal", b"metallib") else METAL_OF_0_21


def _webgpu(c: Cursor) -> Grammar:
    return SOURCE if grammar.first_string(c) in (b"wgsl", b"webgpu") else WEBGPU


_DEVICES: dict[str, Any] = {
    **dict.fromkeys(("cuda", "hip", "hsaco", "opencl", "hexagon"), SOURCE),
    "metal": _metal,
    "vulkan": SHADERS,
    "webgpu": _webgpu,
}
_SAME = ("const_loader", "coreml", "c", "static_library", *grammar.JSON_KEYS)

# From 0.22 on every payload has its length; 0.21 wrote the executable as one string.
GRAMMARS: Grammars = {
    **{key: grammar.GRAMMARS[key] for key in _SAME},
    **_DEVICES,
    "relax.VMExecutable": (("code", rest),),
}
GRAMMARS_OF_0_21: Grammars = {**GRAMMARS, "relax.VMExecutable": grammar.EXECUTABLE}
