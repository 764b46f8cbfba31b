"""C source of the packed functions of plain functions, and of the function table.

A generated file holds the checks (`checks.py`), as text or declared, and, per function, one exported
packed function that checks its arguments and calls the C function. Both are reached by assembler
name, so that a user's function may have any C name, a macro's or a header's included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from mblob import argument_types
from mblob.argument_types import Value
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file
from mblob.format.functions_table import Row, announcement, table
from mblob.named_tuple import NamedTuple
from mblob.packager.functions import checks
from mblob.packager.functions.chosen_form import form
from mblob.packager.modules.prototypes import Dim, Parameter, Prototype, Scalar
from mblob.packager.objects.object_files import ElfTarget, machine_of
from mblob.packager.write.dialects import CLASSIC, Dialect
from mblob.texts import lists_of, quoted

HIDDEN_SUFFIX = "__plain"


class Wrapped(NamedTuple):
    """A plain function and the symbols of its two forms.

    Attributes:
        prototype: the function.
        takes_name: the C function is hidden, and the packed function has the bare name (in the ffi
            dialect, where packed functions have a prefix, the one that it has anyway).
        dialect: whose convention the packed function has.
    """

    prototype: Prototype
    takes_name: bool = False
    dialect: Dialect = CLASSIC

    @property
    def plain_symbol(self) -> str:
        if self.prototype.shim is not None:
            return self.prototype.shim.symbol
        return self.prototype.symbol + (HIDDEN_SUFFIX if self.takes_name else "")

    @property
    def packed_symbol(self) -> str:
        if self.takes_name and not self.dialect.is_ffi:
            return self.prototype.name
        return self.dialect.packed_symbol(self.prototype.name)

    def with_comment(self, comment: str) -> Wrapped:
        return self._replace(prototype=self.prototype._replace(comment=comment))

    def rows(self) -> list[Row]:
        """Its rows in the function table. Alignment 0: the element's own size is enough."""
        p = self.prototype
        source = (p.origin, p.comment, p.layouts)
        rows = [
            Row(p.name, self.packed_symbol, "packed", 0, p.packed_types, p.packed_text, *source)
        ]
        if p.overloads:
            return [Row(p.name, self.packed_symbol, "packed", 0, "?", p.text, p.origin, p.comment)]
        if p.shim is not None:
            types, text = p.shim.types, p.shim.prototype
            rows.insert(0, Row(p.name, p.symbol, "plain", 0, types, text, *source))
        elif any(a.descriptor for a in p.parameters):  # which only the packed function makes
            rows.insert(0, Row(p.name, p.symbol, "plain", 0, "?"))
        elif not self.takes_name:
            rows.insert(0, Row(p.name, p.symbol, "plain", 0, p.types, p.text, *source))
        return rows


def packed_forms(
    functions: Sequence[Wrapped], dialect: Dialect = CLASSIC, *, apart: bool = False
) -> str:
    """C source of the packed functions of `functions`.

    Args:
        apart: the checks are in an object of their own.
    """
    values = {v: f"mblob_value_{i}" for i, v in enumerate(_values(functions))}
    forms = [
        _chosen_form(f, i) if f.prototype.overloads else _packed_form(f, i, values)
        for i, f in enumerate(functions)
    ]
    # POSIX has the type in a header that takes longer to read than all else.
    size = (
        ["typedef __PTRDIFF_TYPE__ ssize_t;"]
        if any("(ssize_t" in f or "ssize_t " in f for f in forms)
        else []
    )
    of_fortran = any(f.prototype.of_fortran for f in functions)
    has_values = bool(values) or any(f.prototype.shim for f in functions)
    has_overloads = any(f.prototype.overloads for f in functions)
    text = checks.text(dialect.name, of_fortran, apart, has_values, has_overloads)
    types = [_value_type(v, name) for v, name in values.items()]
    return "\n".join([_HEAD, text, *size, *types, *forms])


def _values(functions: Sequence[Wrapped]) -> list[Value]:
    """The types that functions take and return by value, each once."""
    return list(dict.fromkeys(v for f in functions for v in f.prototype.values))


def _value_type(v: Value, name: str) -> str:
    """A type that is passed by value; a compiler that has another layout for it than debug information says
    refuses it."""
    sizes = [f"sizeof({name}) == {v.size}"]
    sizes += [f"__alignof__({name}) == {v.alignment}"] * bool(v.alignment)
    sizes += [f"__builtin_offsetof({name}, m{i}) == {at}" for i, at in enumerate(v.offsets)]
    return f'typedef {v.text} {name};\n_Static_assert({" && ".join(sizes)}, "as debug information has it");'


_HEAD = "/* Packed functions that call plain C functions, generated by mblob. */"


def source(
    functions: Sequence[Wrapped], dialect: Dialect, rows: Sequence[Row], *, apart: bool = False
) -> str:
    """C source of packed functions and of the function table; nothing of what has none.

    Args:
        apart: as of `packed_forms`.
    """
    forms = packed_forms(functions, dialect, apart=apart) if functions else ""
    return forms + (table(rows) + announcement(rows) if rows else "")


def compiled_checks(dialect: Dialect, machine: ElfTarget) -> Path | None:
    """The object with the checks that packed functions call, if it is one for `machine`."""
    path, target = _compiled(dialect.name)
    return path if target == machine else None


@cache
def _compiled(dialect: str) -> tuple[Path, ElfTarget | None]:
    path = checks.object_path(dialect)
    try:
        return path, machine_of(ElfFile(map_file(path), str(path)))
    except OSError:
        return path, None


def rows_of(functions: Sequence[Wrapped]) -> list[Row]:
    """The rows of functions in the function table."""
    return [row for f in functions for row in f.rows()]


# -- one function ----------------------------------------------------------------------------------


_Values = Mapping[Value, str]  # the names of types that are passed by value


def _declared_type(p: Parameter, values: _Values) -> str:
    if p.value is not None:
        return values[p.value]
    if p.kind == "tensor" and p.element.name in argument_types.HALVES:
        return "const void *" if p.const else "void *"
    return p.c_type


def _declared_result(p: Prototype, values: _Values) -> str:
    if p.returned is not None and p.returned.value is not None:
        return values[p.returned.value]
    if p.result == "made":
        return "void"
    return "void *" if p.result == "pointer" else p.result_type  # its type may be one of the source


# How a packed function is declared, `@` its name; its parameters that are arguments, those that none
# uses, and results.
_CONVENTIONS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "classic": (
        "int @(TVMValue *args, int *type_codes, int num_args, TVMValue *out_ret_value, int *out_ret_tcode,"
        " void *resource_handle)",
        ("args", "type_codes"),
        ("resource_handle",),
        ("out_ret_value", "out_ret_tcode"),
    ),
    "ffi": (
        "int @(void *handle, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)",
        ("args",),
        ("handle",),
        ("result",),
    ),
}


def _packed_form(f: Wrapped, number: int, values: _Values) -> str:
    p = f.prototype
    types = [_declared_type(a, values) for a in p.parameters] + ["mblob_made *"] * (
        p.result == "made"
    )
    declared = ", ".join(types) or "void"
    hidden = '__attribute__((visibility("hidden"))) ' if f.takes_name else ""
    convention, arguments, unused, results = _CONVENTIONS[f.dialect.name]
    definition = convention.replace("@", f"mblob_packed_{number}")
    head = (
        f"\n/* {p.name} */\n"
        f'extern {hidden}{_declared_result(p, values)} mblob_plain_{number}({declared}) __asm__("{f.plain_symbol}");\n'
        f'extern __attribute__((visibility("default"))) {definition} __asm__("{f.packed_symbol}");\n'
        f"{definition} {{\n"
    )
    body: list[str] = []
    shown = quoted(signature(p) if f.dialect.is_ffi else p.name)
    taken = p.arguments
    if taken:
        names = ", ".join(quoted(a.name) for a in taken)
        body.append(f"static const char *const names[] = {{{names}}};")
        body.append(f"const mblob_call_info call = {{{shown}, names, {', '.join(arguments)}}};")
    else:
        unused += arguments
    has_out = any(a.kind == "out" for a in p.parameters)
    unused += results if p.result == "void" and not has_out else ()
    body += [f"(void){name};" for name in unused]
    body.append(f"if (mblob_count({shown}, num_args, {len(taken)})) return -1;")
    # Numbers first: the dimensions of tensors may name them, and those of results also tensors.
    order = sorted(range(len(taken)), key=lambda i: _turn(i, taken))
    for i in order:
        body += _fetch(taken[i], i, f.dialect)
    for i, a in enumerate(taken):
        if a.value is not None:
            body += _copied(a, i, values[a.value])
    passed = ", ".join([*_all_passed(p, values), *["&made"] * (p.result == "made")])
    places = _places(p)
    left = [places[a.of] for a in p.parameters if a.kind == "left"]
    body += [f"size_t left{i} = 0;" for i in left]
    checks = [
        f"if ({f'given{i} && ' * taken[i].optional}(int64_t)left{i} != {_variable(taken[i], i)}.elements)"
        f" return mblob_fail(&call, {i}, MBLOB_SHAPE, {quoted(_LEFT + _AS_NONE * taken[i].optional)},"
        f" (long long)left{i}, (long long){_variable(taken[i], i)}.elements);"
        for i in left
    ]
    for i in (places[a.of] for a in p.parameters if a.kind == "out"):
        to = "result" if f.dialect.is_ffi else "out_ret_value, out_ret_tcode"
        body.append("__attribute__((cleanup(mblob_release))) mblob_made left_in = {0};")
        checks.insert(0, f"if (!given{i}) return mblob_return_made(&left_in, false, {to});")
    call = f"mblob_plain_{number}({passed})"
    body += _call(p, call, f.dialect, values, checks)
    body.append("return 0;")
    return head + "".join(f"  {line}\n" for line in body) + "}\n"


_LEFT = "the function left %lld elements in it, expected %lld"
_AS_NONE = "; pass None, and the call returns them"


def _chosen_form(f: Wrapped, number: int) -> str:
    p = f.prototype
    symbols = [f._replace(prototype=o).packed_symbol for o in p.overloads]
    elements = partial(_element, dialect=f.dialect)
    convention, arguments, *_ = _CONVENTIONS[f.dialect.name]
    return form(p, number, [f.packed_symbol, *symbols], convention, arguments, elements)


def _turn(i: int, taken: Sequence[Parameter], later: tuple[int, ...] = ()) -> int:
    """The turn at which an argument is fetched: behind those that its sizes are computed of.

    Args:
        later: arguments whose sizes are computed of it.
    """
    p = taken[i]
    if p.kind not in ("tensor", "text", "pointer"):
        return 0
    codes = " ".join(d.code or "" for d in (*p.dims, *filter(None, [p.length])))
    of = (k for k, a in enumerate(taken) if f"{_variable(a, k)}." in codes and k not in later)
    return 1 + max((_turn(k, taken, (*later, i)) for k in of if k != i), default=0)


def signature(p: Prototype) -> str:
    """A function as the errors of the ffi dialect show it: `vadd(a: Tensor([n], float32), n:
    int64_t)`."""
    return f"{p.name}({', '.join(_shown_parameter(a, i) for i, a in enumerate(p.arguments))})"


def _shown_parameter(p: Parameter, i: int) -> str:
    name = p.name or f"arg{i}"
    if p.value is not None:
        return f"{name}: {_shown_type(p.scalar) if p.scalar else p.spelled}"
    if p.kind in ("string", "text"):
        return f"{name}: str"
    if p.kind == "texts":
        return f"{name}: list[str]"
    if p.kind == "pointer":
        return f"{name}: handle"
    if p.kind == "scalar" or (p.kind == "number" and p.const):
        return f"{name}: {_shown_type(p.element)}"
    length = (p.length,) if p.length and p.length.code else ()
    dims = ", ".join(d.text or "*" for d in (*p.dims, *length))
    dims = f"[{dims}], " if dims else ""
    return f"{name}: Tensor({dims}{_shown_type(p.element)})"


def _shown_type(s: Scalar) -> str:
    row = argument_types.BY_C.get(s.name)
    return row.word if row else s.name.removesuffix("_t")


def _variable(p: Parameter, i: int) -> str:
    return f"v_{p.name}" if p.name else f"v{i}"


def _fetch(p: Parameter, i: int, dialect: Dialect) -> list[str]:
    """Statements that check argument `i` and store it; of an optional one that is None, zero."""
    given = (
        [f"const bool given{i} = mblob_kind_of(&call, {i}) != MBLOB_NONE;"] if p.optional else []
    )
    return given + _fetch_given(p, i, dialect)


def _stored(p: Parameter, declaration: str) -> str:
    """The declaration of what an argument is stored in, with the value of one that is not given."""
    return f"{declaration}{' = {0}' * p.optional};"


def _check(p: Parameter, i: int, call: str) -> str:
    """The statement that ends with an error unless a check of argument `i` gives 0."""
    return f"if ({f'given{i} && ' * p.optional}{call}) return -1;"


def _fetch_given(p: Parameter, i: int, dialect: Dialect) -> list[str]:
    v = _variable(p, i)
    if p.kind == "string":
        return [_stored(p, f"const char *{v}"), _check(p, i, f"mblob_string(&call, {i}, &{v})")]
    if p.kind == "texts":
        of = quoted(lists_of("texts", 2, p.text))
        no = f'mblob_fail(&call, {i}, MBLOB_TYPE, MB_TEXT_EXPECTED, "{{}}", mblob_kind_name(&call, {i}))'
        if p.optional:
            return [f"if (given{i}) return {no.format('None')};", f"void *const {v} = 0;"]
        return [
            f"void *{v};",
            f"if (mblob_addresses(&call, {i}, {of}) || mblob_pointer(&call, {i}, &{v})) return -1;",
            f"if (mblob_kind_of(&call, {i}) != MBLOB_TENSOR) return {no.format('a list of texts')};",
        ]
    if p.is_object:
        return [_stored(p, f"void *{v}"), _check(p, i, f"mblob_address(&call, {i}, &{v})")]
    if p.kind == "pointer" and p.value is not None:
        checked = f"INT64_C({p.value.size}), {quoted(p.text)}, &{v}"
        return [f"void *{v};", _check(p, i, f"mblob_value(&call, {i}, {checked})")]
    if p.kind == "pointer" and (p.size or p.dims or p.is_indirect):
        return _fetch_memory(p, i, v)
    if p.kind == "pointer":
        fetch = "mblob_pointer_to_columns" if p.columns else "mblob_pointer"
        return [_stored(p, f"void *{v}"), _check(p, i, f"{fetch}(&call, {i}, &{v})")]
    s = p.element
    if p.length is not None:
        return _fetch_characters(p, p.length, i, v)
    if p.kind == "number":
        return _fetch_number(p, s, i, v, dialect)
    if p.kind == "tensor":
        return _fetch_tensor(p, s, i, v, dialect)
    if s.kind in ("float", "bfloat"):
        row = argument_types.BY_C.get(s.name)
        limit = row.largest if row and row.largest else "0"
        fetch = f"mblob_float(&call, {i}, {quoted(s.name)}, {limit}, &{v})"
        return [_stored(p, f"double {v}"), _check(p, i, fetch)]
    fetch = f"mblob_int(&call, {i}, {quoted(s.name)}, {_range(s)}, &{v})"
    return [_stored(p, f"int64_t {v}"), _check(p, i, fetch)]


def _range(s: Scalar) -> str:
    if s.kind == "bool":
        return "0, 1"
    if s.kind == "char":
        return "(char)-1 < 0 ? -128 : 0, (char)-1 < 0 ? 127 : 255"
    if s.kind == "uint":
        return f"MBLOB_UNSIGNED_MIN({s.name}), MBLOB_UNSIGNED_MAX({s.name})"
    return f"MBLOB_SIGNED_MIN({s.name}), MBLOB_SIGNED_MAX({s.name})"


def _fetch_number(p: Parameter, s: Scalar, i: int, v: str, dialect: Dialect) -> list[str]:
    """Statements for a number that is passed by its address: that of an array, or of a constant."""
    if p.const:
        read = _fetch_given(p._replace(kind="scalar"), i, dialect)
        return [*read, f"{s.name} n{i} = ({s.name}){v};"]
    lines = [
        _stored(p, f"mblob_array {v}"),
        f"static const mblob_element e{i} = {_element(s, dialect)};",
        _check(p, i, f"mblob_tensor(&call, {i}, &e{i}, &{v})"),
        _check(p, i, f'mblob_elements(&call, {i}, &{v}, 1, "", true, false)'),
    ]
    if s.is_integer and p.name and not p.optional:  # which no size is computed of
        lines.append(f"const int64_t at_{p.name} = (int64_t)*(const {s.name} *){v}.data;")
        lines.append(f"(void)at_{p.name};")
    return lines


def _fetch_tensor(p: Parameter, s: Scalar, i: int, v: str, dialect: Dialect) -> list[str]:
    fetch = "mblob_strided" if p.descriptor else "mblob_complex" if p.value else "mblob_tensor"
    fetch = "mblob_columns" if p.columns else fetch
    lines = [
        _stored(p, f"mblob_array {v}"),
        f"static const mblob_element e{i} = {_element(s, dialect)};",
        _check(p, i, f"{fetch}(&call, {i}, &e{i}, &{v})"),
    ]
    if not p.dims:
        return lines
    bad = f"bad{i}" if any("&bad" in (d.code or "") for d in p.dims) else "false"
    codes = [(d.code or "MBLOB_ANY").replace("&bad", f"&{bad}") for d in p.dims]
    if bad != "false":
        lines.append(f"bool {bad} = false;")
    if len(p.dims) > 1 or p.descriptor:
        lines.append(f"const int64_t d{i}[] = {{{', '.join(codes)}}};")
        lines.append(_check(p, i, f"mblob_shape(&call, {i}, &{v}, {len(codes)}, d{i}, {bad})"))
        if p.descriptor:
            lines.append(f"mblob_descriptor a{i};")
            described = (
                f"mblob_describe(&{v}, {len(codes)}, sizeof({s.name}), {p.descriptor}, &a{i});"
            )
            lines.append(f"if (given{i}) {described}" if p.optional else described)
    elif p.dims[0].code:
        at_least = "true" if p.dims[0].at_least else "false"
        shown = "" if p.dims[0].text.isdecimal() else p.dims[0].text
        lines.append(f"const int64_t d{i} = {codes[0]};")
        check = f"mblob_elements(&call, {i}, &{v}, d{i}, {quoted(shown)}, {at_least}, {bad})"
        lines.append(_check(p, i, check))
    return lines


def _fetch_characters(p: Parameter, length: Dim, i: int, v: str) -> list[str]:
    """Statements for texts of Fortran, the outermost dimension of an array of them first."""
    codes = [(d.code or "MBLOB_ANY").replace("&bad", f"&bad{i}") for d in (*p.dims, length)]
    is_const = "true" if p.const else "false"
    fetch = f"mblob_fetch_texts(&call, {i}, {len(codes)}, d{i}, bad{i}, {is_const}, &{v})"
    if not p.dims:
        may_be_str = "true" if p.kind == "text" else "false"
        fetch = f"mblob_fetch_text(&call, {i}, *d{i}, bad{i}, {may_be_str}, {is_const}, &{v})"
    return [
        f"__attribute__((cleanup(mblob_free_text))) mblob_text {v} = {{0}};",
        f"bool bad{i} = false;",
        f"const int64_t d{i}[] = {{{', '.join(codes)}}};",
        _check(p, i, fetch),
    ]


def _fetch_memory(p: Parameter, i: int, v: str) -> list[str]:
    """Statements for a pointer to structs or to pointers: as many as the dimensions say, or at least one."""
    # of a struct that nothing tells the size of, a byte
    size = "(int64_t)sizeof(void *)" if p.is_indirect else f"INT64_C({p.size or 1})"
    for d in p.dims:
        size = f"mblob_mul({size}, {d.code}, &bad)" if d.code else size
    size = size.replace("&bad", f"&bad{i}")
    is_bounded = "true" if p.dims and p.dims[0].code else "false"
    items = "texts" if p.points_at_texts else "functions" if p.points_at_functions else "arrays"
    of = quoted(lists_of(items, p.spelled.count("*"), p.text))
    pointed = f"0, {of}" if p.is_indirect else f"{p.alignment or 1}, {quoted(p.text)}"
    checked = f"d{i}, {pointed}, {is_bounded}, bad{i}, &{v}"
    return [
        _stored(p, f"void *{v}"),
        *([_check(p, i, f"mblob_addresses(&call, {i}, {of})")] if p.is_indirect else ()),
        f"bool bad{i} = false;",
        f"const int64_t d{i} = {size};",
        _check(p, i, f"mblob_memory(&call, {i}, {checked})"),
    ]


def _element(s: Scalar, dialect: Dialect) -> str:
    """Initializer of a mblob_element; widths are the target compiler's."""
    if s.kind == "bool":
        return (
            '{"bool", kDLBool, kDLBool, 8, 1}'
            if dialect.is_ffi
            else '{"bool", kDLUInt, kDLUInt, 1, 1}'
        )
    if s.name in argument_types.HALVES or s.kind == "complex":
        row = argument_types.BY_C[s.name]
        code = argument_types.CODES[row.kind]
        alignment = f"__alignof__({s.name})" if s.kind == "complex" else row.bits // 8
        return f'{{"{row.word}", {code}, {code}, {row.bits}, {alignment}}}'
    if s.kind == "char":
        return '{"int8", kDLInt, kDLUInt, 8, 1}'
    return f'MBLOB_ELEMENT("{s.kind}", {argument_types.CODES[s.kind]}, {s.name})'


def _copied(p: Parameter, i: int, name: str) -> list[str]:
    """Statements that copy a value, which may lie anywhere, to where one of its type may lie."""
    of = f"{_variable(p, i)}{'.data' * (p.kind == 'tensor')}"
    return [f"{name} by_value{i};", f"__builtin_memcpy(&by_value{i}, {of}, sizeof by_value{i});"]


def _places(p: Prototype) -> dict[int, int]:
    """The places of parameters among the arguments."""
    taken = [k for k, a in enumerate(p.parameters) if not a.is_hidden]
    return {k: i for i, k in enumerate(taken)}


def _all_passed(p: Prototype, values: _Values) -> list[str]:
    """The arguments of the C function's call, as C expressions."""
    places = _places(p)
    return [
        _size_of(a.element.name, p.parameters[a.of], places[a.of])
        if a.kind == "length"
        else f"&left{places[a.of]}"
        if a.kind == "left"
        else f"given{places[a.of]} ? 0 : &left_in"
        if a.kind == "out"
        else f"({a.element.name})given{places[a.of]}"
        if a.kind == "present"
        else _passed(a, places[k], values)
        for k, a in enumerate(p.parameters)
    ]


def _size_of(type_name: str, p: Parameter, i: int) -> str:
    """The number of elements of an argument."""
    v = _variable(p, i)
    if p.kind == "texts":
        bytes_of = f"mblob_bytes(mblob_tensor_of(&call, {i}))"
        return f"{v} ? ({type_name}){bytes_of} / sizeof(void *) : 0"
    return f"({type_name}){v}.{'size' if p.length else 'elements'}"


def _passed(p: Parameter, i: int, values: _Values) -> str:
    v = _variable(p, i)
    if p.value is not None:
        return f"by_value{i}"
    if p.kind == "number" and p.const:
        return f"given{i} ? &n{i} : 0" if p.optional else f"&n{i}"
    if p.descriptor:
        return f"given{i} ? (void *)&a{i} : 0" if p.optional else f"&a{i}"
    if p.kind in ("tensor", "number", "text"):
        return f"({_declared_type(p, values)}){v}.data"
    if p.kind == "scalar":
        return f"({p.element.name}){v}"
    return v


def _call(
    p: Prototype, call: str, dialect: Dialect, values: _Values, checked: Sequence[str]
) -> list[str]:
    """Statements that call the function and hand its result on.

    Args:
        checked: statements behind the call.
    """
    to = "result" if dialect.is_ffi else "out_ret_value, out_ret_tcode"
    if p.result == "void":
        return [f"{call};", *checked]
    if p.result == "made":
        is_text = "true" if p.result_type == TEXT_OF_CXX else "false"
        released = "__attribute__((cleanup(mblob_release))) mblob_made made = {0};"
        given = f"if (mblob_return_made(&made, {is_text}, {to})) return -1;"
        return [released, f"{call};", *checked, given]
    declared = _declared_result(p, values)
    made = f"{declared} {_RESULT} = {call};"
    if p.returned is not None:
        given = f"if (mblob_return_value(&{_RESULT}, sizeof {_RESULT}, {to})) return -1;"
        return [made, *checked, given]
    return [made, *checked, *(_ffi_result(p) if dialect.is_ffi else _classic_result(p))]


_RESULT = "plain_result"
TEXT_OF_CXX = "std::string"


def _is_float(p: Prototype) -> bool:
    return p.scalar is not None and p.scalar.kind in ("float", "bfloat")


def _classic_result(p: Prototype) -> list[str]:
    lines = ["if (out_ret_value && out_ret_tcode) {"]
    if p.result == "string":
        lines += [
            f"  out_ret_value->v_str = {_RESULT};",
            f"  *out_ret_tcode = {_RESULT} ? kTVMStr : kTVMNullptr;",
        ]
    elif p.result == "pointer":
        lines += [
            f"  out_ret_value->v_handle = (void *)(uintptr_t){_RESULT};",
            "  *out_ret_tcode = kTVMOpaqueHandle;",
        ]
    elif _is_float(p):
        lines += [
            f"  out_ret_value->v_float64 = (double){_RESULT};",
            "  *out_ret_tcode = kTVMArgFloat;",
        ]
    else:
        lines += [
            f"  out_ret_value->v_int64 = (int64_t){_RESULT};",
            "  *out_ret_tcode = kTVMArgInt;",
        ]
    return [*lines, "}"]


def _ffi_result(p: Prototype) -> list[str]:
    if p.result == "string":
        return [f"if (mblob_return_string(result, {_RESULT})) return -1;"]
    if p.result == "pointer":
        index, value = "kTVMFFIOpaquePtr", f"v_ptr = (void *)(uintptr_t){_RESULT}"
    elif _is_float(p):
        index, value = "kTVMFFIFloat", f"v_float64 = (double){_RESULT}"
    else:
        of_bool = p.scalar is not None and p.scalar.kind == "bool"
        index, value = "kTVMFFIBool" if of_bool else "kTVMFFIInt", f"v_int64 = (int64_t){_RESULT}"
    # A pointer may be narrower than the value.
    head = [f"result->type_index = {index};", "result->zero_padding = 0;", "result->v_int64 = 0;"]
    return [*head, f"result->{value};"]
