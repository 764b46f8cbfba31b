"""A kernel of a case of TVM's tests of today, and the texts it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

F = "float32"


@dataclass(frozen=True)
class Kernel:
    """A kernel of a case, and calls of it.

    Attributes:
        case: name of the case.
        source: a function of TVMScript, or several after a line "module"; after a line "te" a program
            that sets `parameters`, tensors of `te`; or "div ...", for `division` of `tvm_today.py`.
        calls: arguments of each call: `array`s and numbers; "nan", "inf" and "-inf" stand for those.
        target: that it is compiled for.
        pass_config: settings of TVM's passes.
    """

    case: str
    source: str
    calls: list[list[Any]] = field(default_factory=list)
    target: str = "llvm"
    pass_config: dict[str, Any] = field(default_factory=dict)


def array(dtype: str, *shape: int, start: int = 0) -> dict[str, Any]:
    """An array of ascending numbers."""
    return {"dtype": dtype, "shape": list(shape), "start": start}


def values(dtype: str, *given: float) -> dict[str, Any]:
    """An array of these numbers."""
    return {"dtype": dtype, "values": list(given)}


def function(parameters: str, *body: str, result: str = "", name: str = "NAME") -> str:
    lines = "\n".join(f"    {line}" for line in body)
    return f"def {name}({parameters}){result}:\n{lines}\n"


def loop(n: int, *body: str, kind: str = "T.serial") -> list[str]:
    return [f"for i in {kind}({n}):", *(f"    {line}" for line in body)]


def elementwise(n: int, a: str, b: str, expression: str, kind: str = "T.serial") -> str:
    body = loop(n, f"B[i] = {expression}", kind=kind)
    return function(f'A: T.Buffer(({n},), "{a}"), B: T.Buffer(({n},), "{b}")', *body)
