"""Contents of the payloads of an opened library: tensors, which are views into the mapped file, a
text, the name of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mblob.arguments import wrong_type
from mblob.errors import FormatError, MblobError, did_you_mean, listed
from mblob.format import safetensors
from mblob.format.grammar import (
    FFI_GRAMMARS,
    FFI_GRAMMARS_OF_0_21,
    GRAMMARS,
    Grammars,
    decode_payload,
)
from mblob.format.ndarray import PARAMS_MAGIC, read_param_dict
from mblob.format.type_keys import AOT_FACTORY, EXECUTABLES, GRAPHS, RELAY_EXECUTABLE, SAFETENSORS
from mblob.inspect import source_text
from mblob.inspect import tensors as tensors_in
from mblob.loader import _call
from mblob.loader.benchmark import how_to_run
from mblob.loader.opened import OpenedNode
from mblob.loader.tensor import Tensor
from mblob.module import ENTRY_NAME
from mblob.native.runtime import lib, text


def load_param_dict(data: Any) -> dict[str, Tensor]:
    """Named tensors of a serialized parameter dictionary (`save_param_dict`): views into `data`.

    Raises:
        FormatError: `data` is no parameter dictionary, or it is damaged.
    """
    try:
        memoryview(data)
    except TypeError:
        raise wrong_type("load_param_dict", "data", "bytes-like", data) from None
    return records_as_tensors(read_param_dict(data))


def source(node: OpenedNode, fmt: str) -> str | None:
    """The text of a module, as of `Module.get_source`."""
    return source_text.source_of(node.type_key, node.payload(), fmt, _grammars(node))


def model_name(node: OpenedNode) -> str | None:
    """Of a factory the function that makes its executors; None where there is none."""
    try:
        fields = decode_payload(node.type_key, node.payload(), _grammars(node))
        name = fields.get("module_name")
        return None if name is None else bytes(name).decode()
    except (MblobError, ValueError):
        return None  # damaged: opening it says how


def program_hint(node: OpenedNode, name: str) -> str | None:
    """Of a virtual machine's program, whose functions are none of its module: the call that gives
    the function `name`, or what the program has; of a model that has no such function, how to run it; None of
    other modules."""
    if node.type_key in (*GRAPHS, AOT_FACTORY) and name in (ENTRY_NAME, "main", "run"):
        return how_to_run(node.module).removeprefix("; ")
    if node.type_key not in EXECUTABLES:
        return None
    list_names: Any = node.find("get_function_names")
    known = str(list_names()).splitlines() if list_names is not None else []
    is_relay = node.type_key == RELAY_EXECUTABLE

    def call(function: str) -> str:
        machine = f"mblob.{'vm' if is_relay else 'relax'}.VirtualMachine(lib, mblob.cpu())"
        return f"{machine}.invoke({function!r}, x)" if is_relay else f"{machine}[{function!r}](x)"

    if name in known:
        return f"{name!r} is a function of its program: {call(name)}"
    kernels = [other for module in node.module.walk() for other in module._node.functions()]
    close = did_you_mean(name, [*known, *kernels])
    return f"its program has: {listed(known)}; call {call(known[0])}{close}" if known else None


def _grammars(node: OpenedNode) -> Grammars:
    is_ffi = text(lib.mblob_module_dialect(node.handle)) == "ffi"
    return FFI_GRAMMARS if is_ffi else GRAMMARS


def tensors(node: OpenedNode) -> Mapping[str, Tensor] | None:
    """The tensors of a payload by name (a safetensors file, a parameter dictionary, an executor's
    factory; constants of a virtual machine's program are `constant 3`), views into the mapped file;
    None if its type key holds none, whatever its bytes are.

    Raises:
        FormatError: it breaks its format.
    """
    key, payload, grammars = node.type_key, node.payload(), _grammars(node)
    if key == SAFETENSORS:
        return tensors_of_safetensors(payload)
    if payload.nbytes >= 8 and int.from_bytes(payload[:8], "little") == PARAMS_MAGIC:
        return records_as_tensors(read_param_dict(payload))
    fields = grammars.get(key, ())
    names = set() if callable(fields) else set(dict(fields))
    if "params" in names:
        return records_as_tensors(decode_payload(key, payload, grammars)["params"])
    return (
        _constants(key, payload, grammars) if key in EXECUTABLES or "constants" in names else None
    )


def _constants(key: str, payload: memoryview, grammars: Grammars) -> dict[str, Tensor] | None:
    """None of a damaged payload: who runs the module says so."""
    # the runtime does not tell the dialects of ffi apart
    for known in (grammars, FFI_GRAMMARS_OF_0_21) if grammars is FFI_GRAMMARS else (grammars,):
        try:
            found = tensors_in.tensors_of(key, payload, known)
        except FormatError:
            continue
        return {t.name: _call.tensor_view(t.data, t.shape, (*t.dtype,)) for t in found}
    return None


def tensors_of_safetensors(data: memoryview) -> dict[str, Tensor]:
    """Tensors of a safetensors file in memory, in the order of their data.

    Elements of 4 and 6 bits (F4, F6_E2M3, F6_E3M2) are given as the bytes they are packed in:
    uint8, one dimension.

    Raises:
        FormatError: "payload": the header or a tensor does not fit.
    """
    offset, entries = safetensors.read(data)
    body = data[offset:]
    found = {}
    for entry in entries:
        dtype, shape = entry.layout
        found[entry.name] = _call.tensor_view(
            body[entry.begin : entry.end], shape, (dtype.code, dtype.bits, dtype.lanes)
        )
    return found


def records_as_tensors(records: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors over the data of `mblob.format.ndarray.ArrayRecord`s."""
    return {
        name: _call.tensor_view(r.data, r.shape, (r.dtype.code, r.dtype.bits, r.dtype.lanes))
        for name, r in records.items()
    }
