"""Texts that TVM puts into programs of Relax for the errors of checks, and what they say in plain words."""

from __future__ import annotations

import re
from typing import Optional, Tuple, Union  # noqa: UP035

from mblob.named_tuple import NamedTuple

Extents = Optional[Tuple[Union[int, str], ...]]  # noqa: UP006

CONTEXT_START = "ErrorContext(fn="
_INTEGER = re.compile(r"\bT\.int64\((-?[0-9]+)\)")
_TENSOR = re.compile(
    r'\bR\.Tensor\((?:\(((?:[^()]|\([^()]*\))*)\))?(?:, )?(?:dtype="(\w+)")?(?:, )?(?:ndim=([0-9]+))?\)'
)
_DIMENSION = re.compile(r"(?:[^,()]|\([^()]*\))+")
DIMENSIONS = 64  # of one tensor; more are damage
_LETTERS = 100  # of a type that is no tensor

# -- annotations -----------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """The type that a parameter has to be of.

    Attributes:
        dtype, shape: of a tensor, as far as they are known. A dimension that each call may choose
            is its name, or "?".
        type: of anything else, "Shape([n])"; "" for tensors, and where nothing is known.
    """

    dtype: str | None = None
    shape: Extents = None
    type: str = ""

    @property
    def text(self) -> str:
        """`float32[n, 16]`; "" where nothing is known."""
        if self.type or (self.dtype is None and self.shape is None):
            return self.type
        return (
            f"{self.dtype or '?'}[{'?' if self.shape is None else ', '.join(map(str, self.shape))}]"
        )


def annotated(annotation: str) -> Parameter:
    """The parameter that an annotation describes: `R.Tensor((2, 32), dtype="float32")`."""
    annotation = _INTEGER.sub(r"\1", annotation)
    tensor = _TENSOR.fullmatch(annotation)
    if tensor:
        return _tensor(tensor)
    if annotation in ("R.Any", "R.Object"):
        return Parameter()
    shown = re.sub(r"\b[RT]\.", "", _TENSOR.sub(lambda m: _tensor(m).text, annotation))
    return Parameter(type=shown if len(shown) <= _LETTERS else f"{shown[: _LETTERS - 4]} ...")


def tensors_in(annotation: str) -> list[Parameter]:
    """The tensors that an annotation names, such as those of a tuple, in their order."""
    return [_tensor(found) for found in _TENSOR.finditer(_INTEGER.sub(r"\1", annotation))]


def _tensor(found: re.Match[str]) -> Parameter:
    shape: Extents = None
    if found[1] is not None:
        dims = [dim.strip() for dim in _DIMENSION.findall(found[1]) if dim.strip()]
        shape = tuple(int(dim) if re.fullmatch("[0-9]{1,18}", dim) else dim for dim in dims)
    elif found[3] is not None:
        shape = ("?",) * min(int(found[3][:3]), DIMENSIONS)
    return Parameter(found[2], shape)


class Context(NamedTuple):
    """The place that a text is about: `ErrorContext(fn=main, loc=param[0], param=x, annotation=R.Tensor((2,))) `.

    Attributes:
        function: its name.
        index, param: number and name of the parameter, None of the result.
        annotation: the type that it has to be of.
    """

    function: str
    index: str | None  # type: ignore[assignment]  # a tuple has a method of that name
    param: str | None
    annotation: str


def context_of(text: str) -> Context | None:
    """The place that a text says; None if it says none."""
    said = text[:-1] if text.endswith(" ") else text
    if not (said.startswith(CONTEXT_START) and said.endswith(")")):
        return None
    function, _, rest = said[len(CONTEXT_START) : -1].partition(", loc=")
    place, mark, annotation = rest.partition(", annotation=")
    if mark and place == "return":
        return Context(function, None, None, annotation)
    start, _, param = place.partition("], param=")
    index = start[len("param[") :]
    is_place = mark and start.startswith("param[") and index.isdecimal() and index.isascii()
    return Context(function, index, param, annotation) if is_place else None


# -- errors ----------------------------------------------------------------------------------------

_CALLED = {
    "ffi.Tensor": "a tensor", "DLTensor*": "a tensor", "ffi.Array": "a tuple or list", "ffi.Shape": "a Shape",
    "ffi.String": "a str", "ffi.SmallStr": "a str", "ffi.Bytes": "bytes", "int": "an int", "float": "a float",
    "bool": "a bool", "ffi.Function": "a function", "relax.vm.Closure": "a function", "ffi.Map": "a dict",
    "ffi.Module": "a module",
}  # fmt: skip
_EXPECTED = {
    "Tensor": "a tensor",
    "Shape": "a Shape",
    "Tuple": "a tuple",
    "Function": "a function",
    "string": "a str",
}
_SPLIT = re.compile(
    r"ErrorContext\(fn=.*\) ?(?= (?:expect|match_cast) |, (?:expected|unsupported) )", re.DOTALL
)
# What TVM says behind the context, and (found vs. expected) in front of it.
_RULES = (
    (r" expect a (?P<kind>\w+) but get (?P<key>\S+)", "expected {kind}, found {key}"),
    (r" expect Tensor with ndim (\d+) but get (\d+)", "expected {0} dimensions, found {1}"),
    (r" expect Tensor with dtype (\S+) but get (\S+)", "expected a tensor of {0}, found {1}"),
    (r" expect Shape with ndim (\d+) but get (\d+)", "expected {0} dimensions, found {1}"),
    (r" expect a Tuple with (\d+) elements,  but get a Tuple with (\d+) elements",
     "expected a tuple of {0}, found {1}"),
    (r", expected dtype (\S+), but received ObjectRef of type (?P<key>\S+)",
     "expected a number ({0}), found {key}"),
    (r" match_cast shape size mismatch", "expected {right} dimensions, found {left}"),
    (r" match_cast error,  shape\[(\d+)\] mismatch to specified constant",
     "expected {right} in dimension {0}, found {left}"),
    (r" match_cast error,  shape\[(\d+)\] mismatch to a previous populated value",
     "dimension {0} is {left}, where another argument has {right}"),
)  # fmt: skip
_COMPARED = re.compile(r"Check failed: \((-?\d+) vs\. (-?\d+)\) : $")


def in_plain_words(message: str) -> str:
    """The text of a failed check of an argument with plain words in front; others as they are.

    `TypeError: argument 0 of main, 'x' (float32[2, 32]): expected a tensor, found a tuple or list; TVM says:
    ...`
    """
    split = _SPLIT.search(message)
    context = context_of(split[0]) if split else None
    if split is None or context is None:
        return message
    compared = _COMPARED.search(message[: split.start()])
    for rule, words in _RULES:
        found = re.match(rule, message[split.end() :])
        if found and (compared or "{left}" not in words):
            break
    else:
        return message
    named = found.groupdict()
    key = named.get("key") or ""
    left, right = compared.groups() if compared else ("", "")
    kind = _EXPECTED.get(named.get("kind") or "", "another value")
    said = words.format(
        *found.groups(), kind=kind, key=_CALLED.get(key, key), left=left, right=right
    )
    start, colon, rest = message.partition(": ")
    return f"{start}{colon}{_place(context)}: {said}; TVM says: {rest}"


def _place(context: Context) -> str:
    annotation = annotated(context.annotation).text
    of_type = f" ({annotation})" if annotation else ""
    if context.index is None:
        return f"the result of {context.function}{of_type}"
    return f"argument {context.index} of {context.function}, {context.param!r}{of_type}"
