"""The summaries of programs of Relay's virtual machine: docs/format.md, section 3. The C reader of
the machine reads them."""

from __future__ import annotations

from typing import Any

from mblob.format.grammar import text
from mblob.format.ndarray import ArrayRecord, array_of_view
from mblob.native import programs
from mblob.native.programs import ffi

_VERSION = 64  # bytes of one that are shown


def summarize(code: memoryview) -> tuple[dict[str, Any], list[tuple[str, ArrayRecord]]]:
    """A program in short, as the schema has it; and its constants by name, but for those that are
    bound late. Offsets count from the code.

    Raises:
        FormatError: "payload", "truncated".
    """
    read = programs.read_relay(code)
    constants = [read.constants[i] for i in range(read.constant_count)]
    ends = ffi.unpack(read.constant_places, len(constants) + 1)[1:]
    functions = [_function(read.functions[i]) for i in range(read.function_count)]
    facts = {
        "machine": "relay",
        "version": text(ffi.string(read.version)[:_VERSION]),
        "devices": [_device(read.devices[i], read.scopes[i]) for i in range(read.device_count)],
        "globals": _names(read.globals.names, read.globals.count),
        "functions": functions,
        "primitives": _names(read.primitives.names, read.primitives.count),
        "constants": len(constants),
        "late_constants": [text(ffi.string(c.name)) for c in constants if c.name],
    }
    return facts, [
        (f"constant {i}", array_of_view(code, c.view, end))
        for i, (c, end) in enumerate(zip(constants, ends))
        if not c.name
    ]


def _names(names: Any, count: int) -> list[str]:
    return [text(ffi.string(names[i])) for i in range(count)]


def _device(device: Any, scope: Any) -> dict[str, Any]:
    name = text(programs.slice_bytes(scope))
    return {"type": int(device.device_type), "id": device.device_id, "scope": name}


def _function(f: Any) -> dict[str, Any]:
    params = _names(f.params, f.param_count)
    return {
        "name": text(ffi.string(f.name)),
        "kind": "vm",
        "num_args": len(params),
        "registers": f.register_count,
        "instructions": f.code_count,
        "params": params,
    }
