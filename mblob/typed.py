"""Types of arguments, for type checkers.

A test holds each `Literal` against the table that the program checks the argument by.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from mblob.module import Module

PathLike = Union[str, "os.PathLike[str]"]


class Function(Protocol):
    """The function that `module[name]` gives: see `mblob.PackedFunction`."""

    def __call__(self, *args: Any) -> Any: ...

    def bind(self, *args: Any) -> Callable[[], Any]:
        """The call with these arguments, checked once: for loops."""


class LinkedWhenAsked(Protocol):
    """An object that links its module when it is asked for it."""

    def jit(self) -> Module: ...


class File(Protocol):
    """An open binary file."""

    def read(self) -> bytes: ...


class HasBytes(Protocol):
    """An array of numpy, which is no Buffer for type checkers below Python 3.12."""

    def tobytes(self) -> bytes: ...


class HasName(Protocol):
    """A dtype of numpy."""

    @property
    def name(self) -> str: ...


class BuiltGraph(Protocol):
    """A `mblob.GraphBuilder`."""

    @property
    def params(self) -> Mapping[str, Any]: ...
    def graph_json(self) -> str: ...


GraphJson = Union[str, Mapping[str, Any], BuiltGraph]
Source = Union[PathLike, int, "Buffer", HasBytes, File]  # of a library to load
Shape = Union[SupportsIndex, Sequence[SupportsIndex]]
ElementType = Union[str, type[Any], HasName]  # numpy's are taken by their name

Dialect = Literal["classic", "ffi"]
Embed = Literal["auto", "grow", "object", "c", "append"]
Digest = Literal["none", "crc32", "sha256"]
Level = Literal["off", "header", "full"]
Missing = Literal["error", "stub"]
Assume = Literal["packed"]
SourceFormat = Literal["c", "cc", "cpp", "cu", "f", "F", "f90", "F90"]
TensorFormat = Literal["npy", "safetensors"]
DeviceCode = Literal["cuda", "hip", "opencl", "metal", "vulkan", "webgpu"]
Allocator = Literal["naive", "pooled"]


class LoadOptions(TypedDict, total=False):
    """The arguments of `load_module` that a library was opened with, which pickles have, too."""

    verify: Level
    missing: Missing
    keep: bool
    unload: bool
    assume: Assume | None


class CompileOptions(TypedDict, total=False):
    """Options of `export_library` that `add` has, too."""

    cc: str | Sequence[str] | None
    target: str | None
    options: str | Sequence[str] | None


class BuildOptions(CompileOptions, total=False):
    """Options of `export_library` that `convert` has, too."""

    embed: Embed
    index: bool
    digest: Digest
    system_lib: bool
    prefix: str
    carry: Sequence[PathLike | Module] | None
    reuse: bool


class ExportOptions(BuildOptions, total=False):
    """Options of `export_library` that are given by name."""

    dialect: Dialect | None
    standalone: bool
    header: PathLike | None
    shapes: Mapping[str, str] | None
