"""The content of a payload, for people and for JSON: kernels, tensors, graphs, executables. Bulk is
never copied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from mblob.binary.elf_records import EM_AMDGPU, EM_CUDA, layout_of
from mblob.binary.file_kind import ELF_MAGIC
from mblob.errors import FormatError
from mblob.format import graph_json, safetensors
from mblob.format.grammar import FunctionInfo, Grammars, decode_payload, text
from mblob.format.type_keys import (
    DEVICE_KEYS,
    EXAMPLE_JSON,
    EXECUTABLES,
    RELAY_EXECUTABLE,
    SAFETENSORS,
)
from mblob.inspect import graph_summary
from mblob.inspect.tensors import (
    StoredTensor,
    dtype_decoder,
    is_param_dict,
    placed,
    relax_program,
    stored_tensors,
    tensors_of,
)
from mblob.named_tuple import NamedTuple

_HEAD = 4096  # bytes of code that are searched for its target


class Tensor(NamedTuple):
    """One tensor in a payload.

    Attributes:
        name: in its module; constants of virtual machines have none, and are counted.
        dtype: as TVM writes it, "float32".
        shape: elements per dimension.
        offset: of its data in the payload, in bytes.
        size: bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class DecodedPayload(NamedTuple):
    """Content of a payload.

    Attributes:
        facts: for JSON, by the names of the schema: "kernels", "graph", "executable", "symbol", ...
        kernels: of a device module.
        tensors: in stored order; a name may occur twice.
        problem: the error that prevented reading (the rest of) it, or None.
    """

    facts: Mapping[str, Any] = MappingProxyType({})
    kernels: tuple[FunctionInfo, ...] = ()
    tensors: tuple[Tensor, ...] = ()
    problem: FormatError | None = None


NOTHING = DecodedPayload()  # of bytes that nothing describes: one for all of them


def read_content(key: str, payload: memoryview, grammars: Grammars) -> DecodedPayload:
    """Describe a payload. A damaged one has a `problem`; nothing is raised.

    Args:
        key: its type key.
        grammars: of the dialect.
    """
    try:
        # a parameter dictionary is known by its magic
        if key == SAFETENSORS or key not in grammars:
            described = _described(tensors_of(key, payload, grammars))
            facts = _parameters(payload, described) if key == SAFETENSORS else {}
            return DecodedPayload(facts, tensors=described) if described else NOTHING
        fields = decode_payload(key, payload, grammars)
        if key in DEVICE_KEYS:
            return _device(fields)
        if key in EXECUTABLES:
            return _executable(key, payload, fields["code"], grammars)
        tensors = (
            tensors_of(key, payload, grammars)
            if "params" in fields or "constants" in fields
            else []
        )
        return _general(key, fields, _described(tensors))
    except FormatError as error:
        return DecodedPayload(problem=error)


def check(key: str, payload: memoryview, grammars: Grammars) -> bool:
    """Hold a payload against what is known of its key: its grammar, and that of the graph or the
    executable in it.

    Returns:
        Whether anything is known of it; what nothing is known of is not checked.

    Raises:
        FormatError: the `problem` of its content.
    """
    problem = read_content(key, payload, grammars).problem
    if problem is not None:
        raise problem
    return key == SAFETENSORS or key in grammars or is_param_dict(payload)


def check_stored(place: str, key: str, payload: memoryview, grammars: Grammars) -> bool:
    """`check` of a payload in a file.

    Args:
        place: of the payload; begins errors.
    """
    try:
        return check(key, payload, grammars)
    except FormatError as error:
        error.prefix(f"{place} breaks the grammar of its key")
        raise


def _described(tensors: Iterable[StoredTensor]) -> tuple[Tensor, ...]:
    return tuple(Tensor(t.name, str(t.dtype), t.shape, t.offset, len(t.data)) for t in tensors)


def _parameters(payload: memoryview, tensors: Iterable[Tensor]) -> dict[str, Any]:
    """Of weights that are the parameters of a program: their order, and bytes that a machine copies."""
    order = safetensors.order_of(payload)
    if order is None:
        return {}
    data = safetensors.data_offset(payload, payload.nbytes)
    copied = sum(t.size for t in tensors if (t.offset - data) % safetensors.ALIGNMENT)
    return {"parameters": order, "copied": copied}


def _device(fields: dict[str, Any]) -> DecodedPayload:
    kernels = tuple(fields.get("functions", {}).values())
    facts: dict[str, Any] = {}
    if "fmt" in fields:
        facts["fmt"] = text(fields["fmt"][:64])
    if kernels:
        facts["kernels"] = [kernel_json(k) for k in kernels]
    if "data" in fields:
        facts["code"] = {"size": len(fields["data"]), **_kind_of_code(fields["data"])}
    for name in ("sources", "shaders"):
        if isinstance(fields.get(name), dict):
            facts["shaders"] = [{"name": n, "size": len(code)} for n, code in fields[name].items()]
    return DecodedPayload(facts, kernels)


def kernel_json(k: FunctionInfo) -> dict[str, Any]:
    """A kernel as the schema has it."""
    found: dict[str, Any] = {
        "name": k.name,
        "arg_types": [str(t) for t in k.arg_types],
        "launch_param_tags": list(k.launch_param_tags),
    }
    if any(k.arg_extra_tags):
        found["arg_extra_tags"] = list(k.arg_extra_tags)
    return found


def _kind_of_code(code: memoryview) -> dict[str, str]:
    """Kind of device code by its first bytes, which its label need not tell, and the processor it
    is for."""
    head = bytes(code[:_HEAD])
    if head[:4] == ELF_MAGIC:
        header = layout_of(64, "<").ehdr
        machine, flags = (header.field_at(head, name) for name in ("e_machine", "e_flags"))
        if machine == EM_CUDA and len(head) >= header.size:
            return {"kind": "cubin", "target": f"sm_{flags & 0xFF or flags >> 8 & 0xFF}"}
        return {"kind": "hsaco" if machine == EM_AMDGPU else "elf"}
    if head[:4] == b"\x50\xed\x55\xba":
        return {"kind": "fatbin"}
    if head[:4] in (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03"):
        return {"kind": "spirv"}
    if head[:4] == b"MTLB":
        return {"kind": "metallib"}
    if target := re.search(rb"^\s*\.target\s+(\w+)", head, re.MULTILINE):
        return {"kind": "ptx", "target": target[1].decode("ascii", "replace")}
    return {"kind": "text" if b"\0" not in head.rstrip(b"\0") else "binary"}


def _executable(
    key: str, payload: memoryview, code: memoryview, grammars: Grammars
) -> DecodedPayload:
    """The program of a virtual machine; other libraries do not need what reads them."""
    from mblob.inspect import relax_summary, relay_summary

    base = len(payload) - len(code)
    if key == RELAY_EXECUTABLE:
        facts, arrays = relay_summary.summarize(code)
    else:
        program = relax_program(code, grammars)
        facts = relax_summary.summarize(program, dtype_decoder(grammars))
        arrays = program.arrays()
    return DecodedPayload(
        {"executable": facts}, tensors=_described(stored_tensors(placed(arrays, base), grammars))
    )


def _general(key: str, fields: dict[str, Any], tensors: tuple[Tensor, ...]) -> DecodedPayload:
    """Modules of named fields: strings, lists of names, arrays, a graph."""
    facts: dict[str, Any] = {}
    problem = None
    for name, value in fields.items():
        if name in GRAPH_FIELDS and (name != "graph_json" or key != EXAMPLE_JSON):
            if len(value) > graph_json.JSON_LIMIT:
                continue
            try:
                facts["graph"] = graph_summary.summarize(value)
            except graph_json.GraphError as error:
                if name == "graph_json":  # of nodes_json nobody says more than that it is a text
                    problem = FormatError(f"{key}: {error}", code="payload")
        elif name in ("data", "code"):
            facts["code"] = {"size": len(value), **_kind_of_code(value)}
        elif name in _READERS:
            facts[name] = _READERS[name](value)
        elif name == "symbols":
            facts["symbols"] = value
    return DecodedPayload(facts, (), tensors, problem)


def _short(value: memoryview) -> str:
    return text(value[:4096])


def _list(value: list[memoryview]) -> list[str]:
    return [text(v) for v in value]


GRAPH_FIELDS = ("graph_json", "nodes_json")
_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("symbol", "module_name", "fmt", "runtime", "export_path", "version"), _short),
    **dict.fromkeys(("const_names", "func_names"), _list),
    **dict.fromkeys(("inputs", "outputs", "batch"), int),
}
