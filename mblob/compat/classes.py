"""`tvm_ffi.core`: what C++ libraries registered about their classes, and types of arguments as texts."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from mblob.compat.modules import AbsentError
from mblob.errors import IncompatibleError, NotFoundError


class Object:
    """A value that has nothing but its identity."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """True if it is the same object."""
        return self is other


MISSING: Final = Object()  # what a container that has no such key gives tvm_ffi's own methods

# -- types of arguments ----------------------------------------------------------------------------

_ORIGINS = {
    **dict.fromkeys(("Variant", "std::variant"), "Union"),
    **dict.fromkeys(("Tuple", "std::tuple"), "tuple"),
    **dict.fromkeys(("ffi.Function", "std::function"), "Callable"),
    **dict.fromkeys(("ffi.Array", "std::vector"), "Array"),
    **dict.fromkeys(("ffi.Map", "std::map", "std::unordered_map"), "Map"),
    **dict.fromkeys(("ffi.Object", "ObjectRValueRef"), "Object"),
    **dict.fromkeys(("ffi.Tensor", "DLTensor*"), "Tensor"),
    **dict.fromkeys(("ffi.Bytes", "ffi.SmallBytes", "TVMFFIByteArray*"), "bytes"),
    **dict.fromkeys(("ffi.String", "ffi.SmallStr", "const char*", "std::string"), "str"),
    "ffi.List": "List",
    "ffi.Dict": "Dict",
    "ffi.OpaquePyObject": "Any",
    "ffi.BigInt": "int",
    "std::optional": "Optional",
    "DataType": "dtype",
    "void*": "ctypes.c_void_p",
}


@dataclass(frozen=True)
class TypeSchema:
    """A type as C++ code declares it: `str(schema)` is the annotation in Python.

    Attributes:
        origin: such as "int", "Array", "Callable", "Optional", or the key of a class.
        args: what stands in brackets; of a Callable its result and its parameters.
        typed: False for a Callable that does not say its parameters.
    """

    origin: str
    args: tuple[TypeSchema, ...] = ()
    typed: bool = True

    @staticmethod
    def from_json_str(text: str) -> TypeSchema:
        """Of the text in the field "type_schema" of metadata.

        Raises:
            ValueError: the text is no schema.
        """
        return TypeSchema.from_json_obj(json.loads(text))

    @staticmethod
    def from_json_obj(found: dict[str, Any]) -> TypeSchema:
        """Of such a text, parsed."""
        kind = found.get("type") if isinstance(found, dict) else None
        if not isinstance(kind, str):
            raise ValueError('a type schema is an object with a text "type"')
        origin = _ORIGINS.get(kind, kind)
        named = found.get("named_args")
        listed = found.get("args", ())
        if named is not None:  # tvm_ffi 0.1.15; before, all stood in "args"
            listed = [*named["return"], *named.get("params", ())]
        args = tuple(TypeSchema.from_json_obj(item) for item in listed if isinstance(item, dict))
        typed = len(args) > 0 and (named is None or "params" in named)
        return TypeSchema(origin, args, typed)

    def repr(self, ty_map: Callable[[str], str] | None = None) -> str:
        """The annotation, with the names that `ty_map` gives for origins."""
        args = [arg.repr(ty_map) for arg in self.args]
        origin = self.origin if ty_map is None else ty_map(self.origin)
        if self.origin == "Callable":
            params = f"[{', '.join(args[1:])}]" if self.typed else "..."
            return f"Callable[{params}, {args[0] if args else 'Any'}]"
        if self.origin == "Union":
            return " | ".join(args)
        if self.origin == "Optional":
            return f"{args[0]} | None"
        return f"{origin}[{', '.join(args)}]" if args else origin

    def __str__(self) -> str:
        return self.repr()


# -- classes ---------------------------------------------------------------------------------------


class _Text(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))

    def text(self) -> str:
        return ctypes.string_at(self.data, self.size).decode() if self.size else ""


class _Any(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("small", ctypes.c_uint32), ("value", ctypes.c_int64))


class _Field(ctypes.Structure):
    _fields_ = (
        *((name, _Text) for name in ("name", "doc", "metadata")),
        *((name, ctypes.c_int64) for name in ("flags", "size", "alignment", "offset")),
        *((name, ctypes.c_void_p) for name in ("getter", "setter")),
        ("standard", _Any),
        ("static_type", ctypes.c_int32),
    )


class _Method(ctypes.Structure):
    _fields_ = (
        *((name, _Text) for name in ("name", "doc", "metadata")),
        ("flags", ctypes.c_int64),
        ("method", _Any),
    )


class _Type(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("type", "depth")),
        ("key", _Text),
        ("ancestors", ctypes.c_void_p),
        ("hash", ctypes.c_uint64),
        *((name, ctypes.c_int32) for name in ("field_count", "method_count")),
        ("fields", ctypes.POINTER(_Field)),
        ("methods", ctypes.POINTER(_Method)),
        ("metadata", ctypes.c_void_p),
    )


class _Column(ctypes.Structure):
    _fields_ = (
        ("items", ctypes.POINTER(_Any)),
        ("count", ctypes.c_int32),
        ("begin", ctypes.c_int32),
    )


@dataclass(frozen=True)
class TypeField:
    """A member of objects of a class. `metadata` has its type, as "type_schema"."""

    name: str
    doc: str
    metadata: dict[str, Any]
    size: int
    offset: int
    frozen: bool


@dataclass(frozen=True)
class TypeMethod:
    """A function of a class. `metadata` has its type, as "type_schema"."""

    name: str
    doc: str
    metadata: dict[str, Any]
    is_static: bool


@dataclass(frozen=True)
class TypeInfo:
    """A class that C++ code registered."""

    type_index: int
    type_key: str
    fields: list[TypeField]
    methods: list[TypeMethod]


_WRITABLE, _STATIC = 1 << 0, 1 << 2
_NONE, _INT, _BOOL, _FLOAT, _SMALL_STRING = 0, 1, 2, 3, 11  # types of values


@cache
def _plugin() -> Any:
    from mblob.loader.plugins import plugins

    path = next((p.origin for p in plugins() if p.name == "ffi"), "")
    if not Path(path).is_file():
        raise IncompatibleError("tvm_ffi.core: libmblob-ffi.so is not there; install mblob again")
    library = ctypes.CDLL(path)
    library.TVMFFIGetTypeInfo.restype = ctypes.POINTER(_Type)
    library.TVMFFIGetTypeAttrColumn.restype = ctypes.POINTER(_Column)
    return library


def _text(value: str) -> Any:
    encoded = value.encode()
    return _Text(ctypes.cast(ctypes.c_char_p(encoded), ctypes.c_void_p), len(encoded)), encoded


def _metadata(found: _Text) -> dict[str, Any]:
    return dict(json.loads(found.text() or "{}"))


def _lookup_or_register_type_info_from_type_key(type_key: str) -> TypeInfo:
    """The type information of the class of that key. It is there while a library has it, or had it.

    Raises:
        NotFoundError: no class has the key.
    """
    key, _kept = _text(type_key)
    index = ctypes.c_int32()
    if _plugin().TVMFFITypeKeyToIndex(ctypes.byref(key), ctypes.byref(index)):
        raise NotFoundError(f"no class of C++ has the key {type_key!r}; load its library first")
    found = _plugin().TVMFFIGetTypeInfo(index).contents
    fields = [
        TypeField(
            name=f.name.text(),
            doc=f.doc.text(),
            metadata=_metadata(f.metadata),
            size=f.size,
            offset=f.offset,
            frozen=not f.flags & _WRITABLE,
        )
        for f in (found.fields[i] for i in range(found.field_count))
    ]
    methods = [
        TypeMethod(m.name.text(), m.doc.text(), _metadata(m.metadata), bool(m.flags & _STATIC))
        for m in (found.methods[i] for i in range(found.method_count))
    ]
    return TypeInfo(index.value, type_key, fields, methods)


def _lookup_type_attr(type_index: int, attr_name: str) -> int | float | str | None:
    """An attribute of a class; None if the class does not have it.

    Raises:
        NotImplementedError: the attribute is an object.
    """
    name, _kept = _text(attr_name)
    column = _plugin().TVMFFIGetTypeAttrColumn(ctypes.byref(name))
    at = type_index - (column.contents.begin if column else 0)
    if not column or not 0 <= at < column.contents.count:
        return None
    found = column.contents.items[at]
    size = ctypes.sizeof(ctypes.c_int64)
    start = ctypes.addressof(found) + _Any.value.offset
    if found.type == _NONE:
        return None
    if found.type == _FLOAT:
        return ctypes.c_double.from_address(start).value
    if found.type == _SMALL_STRING:
        return ctypes.string_at(start, min(found.small, size)).decode()
    if found.type in (_INT, _BOOL):
        return bool(found.value) if found.type == _BOOL else int(found.value)
    raise AbsentError(
        f"tvm_ffi.core: the attribute {attr_name!r} is an object of type {found.type}, which has no value in Python"
    )
