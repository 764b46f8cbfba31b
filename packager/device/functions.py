"""The kernels of a device module as a caller lists them, completed and checked by what the code
tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mblob.arguments import items, names
from mblob.dtype import DataType
from mblob.format.grammar import FunctionInfo
from mblob.packager.device.kernels import Kernel
from mblob.packager.errors import BuildError, BuildTypeError, warn

_SIZES = ("blockIdx", "threadIdx", "clusterCtaIdx", "preferredClusterCtaIdx")
SHARED = "tir.use_dyn_shared_memory"  # must be the last tag
# Those from the third of the sizes on are the ffi dialect's; packager/modules/payload_conversion.py says
# what the classic one lacks.
TAGS = (
    *(f"{kind}.{axis}" for kind in _SIZES for axis in "xyz"),
    "tirx.use_programtic_dependent_launch",
    "tirx.use_cooperative_launch",
    "tirx.use_required_block_dimension",
    SHARED,
)
_WRITTEN = re.compile(r"paramWriteAccess:\[[01](,[01])*\]")  # a tag of webgpu's


@dataclass(frozen=True)
class KernelsInCode:
    """Facts about the kernels of device code, as far as the code tells them.

    Attributes:
        kernels: by name, in the order of the code.
        names: of all kernels that the code has; None where it does not tell (a source may have more
            in macros).
        exact: all parameters of all kernels are known (PTX).
        opaque: the code cannot be read at all (a binary), so what is missing must be given.
    """

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    exact: bool = False
    opaque: bool = False


@dataclass(frozen=True)
class _DeclaredKernel:
    name: str
    types: tuple[DataType, ...] | None
    tags: tuple[str, ...] | None
    extra: tuple[int, ...] = ()


def complete(
    functions: Iterable[Any] | None, in_code: KernelsInCode, launch: Sequence[str]
) -> list[FunctionInfo]:
    """The kernels to write.

    Args:
        functions: as given to `device_module`; None for all that are seen. Of those, the ones whose
            types are not certain are left out with a warning, unless that leaves none.
        launch: tags of those that give none.

    Raises:
        BuildError: a type or tag that does not exist, a kernel twice or not in the code, types that
            must be given.
    """
    if functions is None and in_code.opaque and not in_code.kernels and not in_code.names:
        raise BuildError(
            "device_module: the kernels of this code cannot be seen: give functions=, with arg_types"
        )
    given = (
        [_DeclaredKernel(name, None, None) for name in _certain(in_code)]
        if functions is None
        else [*map(_parse, _list("functions", functions, "a list of kernels"))]
    )
    kernels = [g.name for g in given]
    if len(set(kernels)) != len(kernels):
        raise BuildError(f"device_module: a kernel is listed twice: {', '.join(sorted(kernels))}")
    default = _tags("launch", launch)
    return [_info(g, _types(g, in_code), default) for g in given]


def _list(argument: str, value: Any, expected: str) -> list[Any]:
    return items("device_module", argument, value, expected, BuildTypeError)


def _info(
    given: _DeclaredKernel, types: tuple[DataType, ...], default: tuple[str, ...]
) -> FunctionInfo:
    if given.extra and len(given.extra) != len(types):
        raise BuildError(
            f"device_module: {given.name}: arg_extra_tags has {len(given.extra)} numbers, the kernel takes"
            f" {len(types)} arguments"
        )
    return FunctionInfo(
        given.name, types, default if given.tags is None else given.tags, given.extra
    )


def _certain(in_code: KernelsInCode) -> list[str]:
    """Names of the kernels of the code whose types are certain.

    Raises:
        BuildError: there are kernels, but none of these.
    """
    names = list(in_code.kernels) if in_code.names is None else in_code.names
    doubts = {name: _doubt(name, in_code) for name in names}
    certain = [name for name in names if not doubts[name]]
    doubtful = [f"{name}: {doubt}" for name, doubt in doubts.items() if doubt]
    if doubtful and not certain:
        raise BuildError(f"device_module: {'; '.join(doubtful)}")
    for text in doubtful:
        warn(f"device_module: a kernel is left out: {text}")
    return certain


def _parse(given: Any) -> _DeclaredKernel:
    types: Any = None
    tags: Any = None
    extra: Any = None
    if isinstance(given, FunctionInfo):
        return _DeclaredKernel(
            given.name, given.arg_types, given.launch_param_tags, given.arg_extra_tags
        )
    if isinstance(given, Mapping):
        unknown = set(given) - {
            "name",
            "arg_types",
            "launch_param_tags",
            "thread_axis_tags",
            "arg_extra_tags",
        }
        if unknown or "name" not in given:
            raise BuildError(
                "device_module: a function has name, arg_types, launch_param_tags and arg_extra_tags; found"
                f" {', '.join(map(str, given))}"
            )
        name, types = given["name"], given.get("arg_types")
        tags = given.get("launch_param_tags", given.get("thread_axis_tags"))
        extra = given.get("arg_extra_tags")
    elif isinstance(given, str):
        name = given
    else:
        try:
            name, types, tags, extra = (*given, None, None, None)[:4]
        except (TypeError, ValueError):
            raise BuildError(
                f"device_module: {given!r} is no function: expected (name, arg_types, tags)"
            ) from None
    if not isinstance(name, str) or not name:
        raise BuildError(f"device_module: a kernel's name is text, found {name!r}")
    listed = [] if types is None else _list(f"{name}: arg_types", types, "a list of types")
    try:
        args = tuple(t if isinstance(t, DataType) else DataType.parse(str(t)) for t in listed)
    except ValueError as exc:
        raise BuildError(f"device_module: {name}: argument types: {exc}") from None
    launch = None if tags is None else _tags(name, tags)
    return _DeclaredKernel(name, None if types is None else args, launch, _extra(name, extra))


def _extra(who: str, extra: Any) -> tuple[int, ...]:
    tags = () if extra is None else tuple(_list(f"{who}: arg_extra_tags", extra, "a list of int"))
    if bad := next((tag for tag in tags if tag not in (0, 1)), None):
        raise BuildError(
            f"device_module: {who}: arg_extra_tags has {bad!r}, expected 0, or 1 for a tensor map"
        )
    return tags


def _tags(who: str, tags: Sequence[str]) -> tuple[str, ...]:
    given = names("device_module", who, tags, "a list of launch tags", BuildTypeError)
    tags = tuple(SHARED if tag == "tirx.use_dyn_shared_memory" else tag for tag in given)
    for i, tag in enumerate(tags):
        if (tag not in TAGS and not _WRITTEN.fullmatch(tag)) or (
            tag == SHARED and i != len(tags) - 1
        ):
            raise BuildError(
                f"device_module: {who}: launch tag {tag!r}; expected {', '.join(TAGS[:-1])}, and {SHARED} last"
            )
        if tag in tags[:i]:
            raise BuildError(f"device_module: {who}: launch tag {tag!r} is there twice")
    return tags


def _types(given: _DeclaredKernel, in_code: KernelsInCode) -> tuple[DataType, ...]:
    kernel = in_code.kernels.get(given.name)
    if in_code.names is not None and given.name not in in_code.names:
        raise BuildError(_not_there(given.name, in_code))
    if given.types is not None:
        if kernel is not None and in_code.exact:
            _check(given, given.types, kernel)
        return given.types
    if doubt := _doubt(given.name, in_code):
        raise BuildError(f"device_module: {given.name}: {doubt}")
    return (
        tuple(p.type for p in kernel.parameters if p.type is not None) if kernel is not None else ()
    )


def _doubt(name: str, in_code: KernelsInCode) -> str:
    """The reason why the types of a kernel must be given, "" if they need not."""
    kernel = in_code.kernels.get(name)
    if kernel is not None:
        doubts = [
            f"argument {i}: {p.doubt}" for i, p in enumerate(kernel.parameters) if p.type is None
        ]
        return f"{'; '.join(doubts)}: give arg_types" if doubts else ""
    if not (in_code.opaque or in_code.kernels):
        return ""
    plain = next((k for k in in_code.kernels if _is_mangled(name, k)), None)
    hint = f'; or declare {plain} extern "C", whose C++ name this is' if plain else ""
    return (
        f"the types of its arguments cannot be seen in the code: give arg_types ([] for none){hint}"
    )


def _is_mangled(mangled: str, name: str) -> bool:
    """True if the one is a C++ name of the other: the Itanium ABI writes a name behind its
    length."""
    return mangled.startswith("_Z") and f"{len(name)}{name}" in mangled


def _not_there(name: str, in_code: KernelsInCode) -> str:
    listed = ", ".join(in_code.names or ()) or "none"
    mangled = next((k for k in in_code.names or () if _is_mangled(k, name)), None)
    hint = (
        f'; {mangled} is its C++ name: {name} needs extern "C", or its mangled name in functions='
        if mangled
        else ""
    )
    return f"device_module: no kernel {name!r} in the code, which has: {listed}{hint}"


def _check(given: _DeclaredKernel, types: Sequence[DataType], kernel: Kernel) -> None:
    if len(types) != len(kernel.parameters):
        raise BuildError(
            f"device_module: {given.name}: arg_types has {len(types)} types, the kernel takes {len(kernel.parameters)}"
        )
    for i, (dtype, parameter) in enumerate(zip(types, kernel.parameters)):
        if parameter.size and dtype.itemsize != parameter.size:
            raise BuildError(
                f"device_module: {given.name}: argument {i}: {dtype} has {dtype.itemsize} bytes, the kernel takes"
                f" {parameter.size}"
            )
