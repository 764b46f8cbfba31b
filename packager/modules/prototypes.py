"""C prototypes of plain functions: `mblob.packager.modules.prototype_parser` reads them."""

from __future__ import annotations

from typing import NamedTuple

STATIC = (
    "remove static in the source, or compile it with options='-Dstatic=' (-- -Dstatic=) if it has no static"
    " variables"
)


class Scalar(NamedTuple):
    """An arithmetic type.

    Attributes:
        name: as C spells it ("int64_t", "unsigned int", "_Float16").
        kind: "int", "uint", "char" (signedness is the target's), "bool", "float" or "bfloat".
    """

    name: str
    kind: str

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint", "char")


class Dim(NamedTuple):
    """One array dimension.

    Attributes:
        code: a C expression of type int64_t over `v_<parameter>` variables, None for "any".
        text: as the prototype has it.
        at_least: from `[static N]`: that many elements or more.
    """

    code: str | None
    text: str
    at_least: bool = False


class Parameter(NamedTuple):
    """One parameter.

    Attributes:
        name: from the prototype, "" if it gives none.
        kind: "scalar", "tensor", "string" (const char *) or "pointer" (void *).
        scalar: the scalar, or the tensor's element; None for strings and pointers.
        const: the function does not write through it.
        dims: of an array parameter, outermost first; () for a plain pointer.
        spelled: the type of a pointer as the source has it, with a "?" where a name stands inside of it:
            `int (*?)(float)`; "" if it is `void *`.
    """

    name: str
    kind: str
    scalar: Scalar | None = None
    const: bool = False
    dims: tuple[Dim, ...] = ()
    spelled: str = ""

    @property
    def c_type(self) -> str:
        """The C type with arrays as pointers, which is what the call passes."""
        base = (
            "void"
            if self.kind == "pointer"
            else "char"
            if self.kind == "string"
            else self.element.name
        )
        if self.kind == "scalar":
            return base
        return f"{'const ' if self.const else ''}{base} *"

    @property
    def text(self) -> str:
        """The parameter as a prototype has it: `const float a[n]`."""
        if "?" in self.spelled:
            return self.spelled.replace("?", self.name)
        if not self.dims:
            shown = self.spelled or self.c_type
            return f"{shown}{'' if shown.endswith('*') or not self.name else ' '}{self.name}"
        dims = "".join(f"[{'static ' if d.at_least else ''}{d.text}]" for d in self.dims)
        return f"{self.c_type.removesuffix('*')}{self.name}{dims}"

    @property
    def element(self) -> Scalar:
        assert self.scalar is not None, "strings and pointers have no element"
        return self.scalar


class Prototype(NamedTuple):
    """One function.

    Attributes:
        name: its name; of C its symbol.
        result: "void", "scalar", "string" (a `const char *`) or "pointer".
        scalar: the type of a scalar result.
        result_type: the C type of the result.
        parameters: in order.
        mangled: its symbol, if that is not its name: of C++, whose names have namespaces.
    """

    name: str
    result: str
    scalar: Scalar | None
    result_type: str
    parameters: tuple[Parameter, ...]
    mangled: str = ""

    @property
    def symbol(self) -> str:
        return self.mangled or self.name

    @property
    def types(self) -> str:
        """The parameter types as the function table lists them."""
        types = (p.spelled.replace("?", "") or p.c_type for p in self.parameters)
        return ", ".join(types) or "void"

    @property
    def text(self) -> str:
        """The function as C declares it, as the function table has it."""
        space = "" if self.result_type.endswith("*") else " "
        parameters = ", ".join(p.text for p in self.parameters) or "void"
        return f"{self.result_type}{space}{self.name}({parameters})"
