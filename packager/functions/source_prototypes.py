"""Prototypes of functions that the caller did not write one for: the types and the names of parameters are
those of debug information, the bounds of arrays those of the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from mblob.errors import listed
from mblob.format.exported_functions import is_helper
from mblob.format.functions_table import WORDS, Row, parameters
from mblob.packager.compile.commands import language
from mblob.packager.compile.host_objects import HostFile, LinkInput
from mblob.packager.errors import BuildError, NotCallable, warn
from mblob.packager.functions.debug_prototypes import (
    by_value,
    check_callable,
    prototype_of,
    with_places,
)
from mblob.packager.functions.library_objects import with_library
from mblob.packager.functions.number_names import scalar_of
from mblob.packager.functions.overloads import chooser, of_text, shown_type
from mblob.packager.functions.packed_or_plain import plain_row
from mblob.packager.functions.prototype_check import contradiction
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.modules.nodes import HostNode, SourceNode, without_arguments
from mblob.packager.modules.prototypes import Dim, Parameter, Prototype, Words
from mblob.packager.objects.object_files import ObjectSymbols
from mblob.packager.write.dialects import Dialect

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType


def found_prototypes(
    nodes: Sequence[tuple[HostNode, LinkInput]],
    files: Sequence[LinkInput],
    wrapped: Sequence[Wrapped],
    table_rows: Sequence[Row],
    dialect: Dialect,
    comments: Callable[..., str | None],
    *,
    only_named: bool,
    has_names: bool,
) -> list[Wrapped]:
    """Plain functions of host modules, all of them or those that the caller asks for by name.

    Args:
        nodes: host modules that look for them, and their objects.
        files: all that may define functions.
        wrapped: functions with a prototype of the caller's.
        table_rows: rows of a table that came with the objects.
        comments: the comment above a function of one of them, as of `Comments.of`.
        only_named: none but those that the caller asks for.
        has_names: functions may have names that are no symbols.

    Warns:
        UserWarning: bounds that cannot be read.

    Raises:
        BuildError: the caller asks for a function that no packed function can call.
    """
    declared = {w.prototype.name: w.prototype for w in wrapped}
    listed = {name for row in table_rows for name in (row.name, row.symbol)}
    taken = {name for f, c in files for name in (c.defined if f.elsewhere else c.defined | c.weak)}
    found: dict[str, Wrapped] = {}
    expanded = expanded_names(files)
    asked = {expanded.get(name, name) for node, _ in nodes for name in node.declared.names}
    texts = {
        expanded.get(name, name): text
        for node, _ in nodes
        for name, text in node.declared.of_source.items()
    }
    of_cxx = {name: p for name, p in declared.items() if has_names and name not in taken}
    groups: dict[str, list[str]] = {}
    overloaded: set[str] = set()
    chosen: dict[str, str] = {}
    asked |= of_cxx.keys()
    namesakes = Counter(function.qualified for _, (f, _) in nodes for function in f.functions)
    for node, (f, contents) in nodes:
        origin = "source" if f.own else "debug information"
        for function in f.functions:
            name = _name_of(function, asked, taken if has_names else None)
            group = without_arguments(name)
            if asked.isdisjoint((name, group)) and (only_named or not node.declared.is_open):
                continue
            if not {name, function.name}.isdisjoint(declared.keys() - of_cxx.keys()):
                continue
            if name in found or name in listed or (name in of_cxx and not function.qualified):
                continue
            if not _is_callable(function, contents):
                continue
            is_one = not function.qualified or namesakes[name] == 1
            is_declared = name in texts or name in of_cxx
            if not is_one and is_declared and name not in chosen:
                chosen[name] = _chosen(name, texts, of_cxx, nodes)
            if not is_one and chosen.get(name) != function.name:
                if is_declared:
                    overloaded.add(name)
                    continue
                name = f"{name}({', '.join(map(shown_type, function.parameters))})"
            packed_symbol = dialect.packed_symbol(name)
            if packed_symbol in taken and name not in of_cxx:  # else it is that of the prototype
                _check_is_its_own(packed_symbol, function, name, name in asked, f, files)
                continue
            if function.qualified and (name in taken or not has_names):
                continue
            try:
                check_callable(function, f, files)
                own_text = of_cxx.get(name)
                if name in texts and not function.source_name:
                    own_text = _parsed(texts[name], name, f)
                of_library = None if own_text else _of_library(function, node, f)
                prototype = (
                    _of_fortran(function, name, f)
                    if function.source_name
                    else of_library
                    or _with_bounds(prototype_of(_with_addresses(function, own_text)), f)
                )
                comment = _comment(comments, node, function) or ""
                described = _with_values(comment, function, prototype)
                prototype = prototype._replace(name=name, origin=origin, comment=described)
                if name in texts:
                    prototype = _written(texts[name], function, prototype, f)
                if name in of_cxx:
                    prototype = _compared(of_cxx[name], function, prototype)
                found[name] = Wrapped(prototype, False, dialect)
                taken.add(packed_symbol)
                if group != name:
                    groups.setdefault(group, []).append(name)
            except NotCallable as exc:
                if name in asked:
                    raise BuildError(f"functions: {name} cannot be called: {exc}") from None
    for name in sorted(overloaded - found.keys()):
        raise BuildError(
            f"functions: {name} cannot be called: it is overloaded: {_overloads(name, nodes)}"
        )
    for group, names in groups.items():
        symbol = dialect.packed_symbol(group)
        if found.keys().isdisjoint([group]) and not {group, symbol} & taken and group not in listed:
            of_group = [found[name].prototype for name in names]
            if (one := chooser(group, of_group)) is not None:
                found[group] = Wrapped(one, False, dialect)
    defined = {name for _, c in files for name in c.defined | c.weak}
    for name in sorted(texts.keys() - found.keys() & defined):
        _refuse_text(texts[name])
    for node, _ in nodes:
        for name in node.declared.packed_among(list(dict.fromkeys([*declared, *found]))):
            if name in found and not (found[name].prototype.mangled or found[name].prototype.shim):
                found[name] = found[name]._replace(takes_name=True)
    return list(found.values())


def _comment(
    comments: Callable[..., str | None], node: HostNode | None, function: Function
) -> str | None:
    """As of `Comments.of`."""
    name = without_arguments(function.source_name or function.called).rpartition("::")[2]
    return None if node is None else comments(node, name, function.line)


def expanded_names(files: Sequence[LinkInput]) -> dict[str, str]:
    """The function names that macros in prototypes of the caller's stand for, by macro."""
    return {macro: name for f, _ in files for macro, name in f.expanded_names.items()}


def _name_of(function: Function, asked: Collection[str], taken: Collection[str] | None) -> str:
    """The name under which a function is called. A procedure of Fortran has that of its source, unless the
    caller asks for its symbol, or it cannot have it.

    Args:
        taken: symbols that there are; None: functions have no names but their symbols.
    """
    name = function.called
    if not function.source_name:
        return name
    return function.name if taken is None or name in taken or function.name in asked else name


def _with_addresses(function: Function, written: Prototype | None) -> Function:
    """A function whose objects of C++ are `void *` where a caller's prototype says so."""
    if written is None or len(written.parameters) != len(function.parameters):
        return function
    return function._replace(
        parameters=tuple(
            t._replace(target=None, library=None)
            if t.target is not None and t.target.is_object and p.kind == "pointer" and not p.spelled
            else t
            for p, t in zip(written.parameters, function.parameters)
        )
    )


def _of_library(function: Function, node: HostNode, file: HostFile) -> Prototype | None:
    """The prototype of a function of a source in C++ that takes or returns objects of the standard library; None of
    others."""
    if not (file.own and isinstance(node, SourceNode) and language(node) == "c++"):
        return None
    if not any(p.library for p in (*function.parameters, function.result)):
        return None
    made = with_library(function, node, prototype_of)
    if made is None or made.shim is None:
        return made
    row = plain_row(function, of_tvm=False)
    types, text = ("?", "") if row is None else (row.types, row.prototype)
    return made._replace(shim=made.shim._replace(types=types, prototype=text))


def _of_fortran(function: Function, name: str, file: HostFile) -> Prototype:
    """The prototype of a procedure of Fortran.

    Warns:
        UserWarning: bounds that cannot be read.
    """
    from mblob.packager.functions.fortran_prototypes import of_fortran

    dummies = file.dummies.get(function.source_name, {})
    function = with_places(function, file)
    mangled = function.name if name != function.name else ""
    described = prototype_of(function)._replace(name=name, mangled=mangled)
    made, why = of_fortran(described, function, dummies)
    if why:
        warn(f"{file.label}: a call does not check the size of an array: {why}")
    return made


def _chosen(
    name: str,
    texts: Mapping[str, str],
    of_cxx: Mapping[str, Prototype],
    nodes: Sequence[tuple[HostNode | None, LinkInput]],
) -> str:
    """The symbol of the one of several functions of a name that a prototype of the caller's is of; "" if it is
    of none, or of several.

    Args:
        texts, of_cxx: prototypes by name, with and without words that only the source explains.
    """
    possible: dict[str, Function] = {}
    text = ""
    for _, (f, _) in nodes:
        of_name = [function for function in f.functions if function.qualified == name]
        if not of_name:
            continue
        written = of_cxx[name] if name in of_cxx else _parsed(texts[name], name, f)
        text = written.text if name in of_cxx else f.written.get(name, texts[name])
        possible.update((g.name, g) for g in of_name if contradiction(written, g) is None)
    found = of_text(text, list(possible.values()))
    return "" if found is None else found.name


def _written(text: str, function: Function, described: Prototype, file: HostFile) -> Prototype:
    """The prototype of a caller's text with words of the source, as of `_compared`. The source tells of
    its references."""
    made = _compared(_parsed(text, described.name, file), function, described)
    text = file.written.get(described.name, text)
    if file.array_types:
        from mblob.packager.modules.source_words import with_bounds  # with pycparser

        made, _ = with_bounds(made, text, _enumerators(file.enums), file.array_types)
    declared = parameters(text)
    found = function.parameters
    if len(declared) != len(found) or not any(p.is_reference for p in found):
        return made
    are = [p.is_reference and "&" in d.text for p, d in zip(found, declared)]
    of_both = zip(made.parameters, described.parameters, are)
    return made._replace(
        parameters=tuple(t._replace(name=p.name) if is_one else p for p, t, is_one in of_both)
    )


def _parsed(text: str, name: str, file: HostFile) -> Prototype:
    """The prototype of a caller's text with words of the source.

    Raises:
        BuildError: it is none of the function.
    """
    from mblob.packager.modules.prototype_parser import parse  # with pycparser
    from mblob.packager.modules.source_words import as_in_c

    arrays = dict.fromkeys(file.array_types, "void *")
    numbers, values = _enumerators(file.enums), _own_values(file.functions)
    known = Words({**_own_types(file.functions), **arrays}, numbers, values)
    made = parse([as_in_c(file.written.get(name, text))], known)
    if len(made) != 1:
        raise BuildError(f"functions: {text!r} declares {len(made)} functions, expected one")
    (written,) = made
    if written.name != name.rpartition("::")[2]:
        _refuse_text(text)
    return written._replace(name=name)


def _compared(written: Prototype, function: Function, described: Prototype) -> Prototype:
    """A caller's prototype of a function.

    Args:
        described: what debug information says.

    Raises:
        BuildError: it is of another function.
    """
    if difference := contradiction(written, function):
        raise BuildError(
            f"functions: {written.name}: the prototype {difference}; write it as the source has it"
        )
    made = _merged(written, described)._replace(
        mangled=described.mangled, comment=described.comment
    )
    is_pointer = written.result == described.result == "pointer"
    return made._replace(result_type=described.result_type) if is_pointer else made


def _merged(written: Prototype, described: Prototype) -> Prototype:
    """A caller's prototype of a function; what the source tells of structs, and of the sign of plain chars."""
    parameters = tuple(map(_of_source, written.parameters, described.parameters))
    made = written._replace(parameters=parameters)
    if made.scalar is None or made.scalar.kind != "char" or described.scalar is None:
        return made
    return made._replace(scalar=described.scalar, result_type=described.result_type)


def _of_source(p: Parameter, described: Parameter) -> Parameter:
    """A parameter of a caller's prototype; what a pointer points at is told where its type is one of the
    source."""
    if p.kind == described.kind == "scalar" and p.element.kind == "char":
        return p._replace(scalar=described.scalar)
    if p.kind != "pointer":
        return p
    inner = described.dims[len(p.dims) or 1 :]  # of a typedef of arrays
    dims = (*(p.dims or (Dim(None, ""),)), *inner) if inner else p.dims
    if described.kind == "pointer":
        made = p._replace(size=described.size, alignment=described.alignment, dims=dims)
        return made._replace(spelled=described.spelled, layout=described.layout)
    return described._replace(name=p.name, dims=dims) if p.spelled else p


def with_types(
    wrapped: Sequence[Wrapped],
    nodes: Sequence[tuple[HostNode | None, LinkInput]],
    comments: Callable[..., str | None],
) -> list[Wrapped]:
    """Those with prototypes of the caller's of which debug information tells more: the sizes of structs
    that they point at, the sign of a plain char, or where a source defines them, and so their comments."""
    found = []
    known = {function.name: (node, function) for node, (f, _) in nodes for function in f.functions}
    for w in wrapped:
        p = w.prototype
        node, function = known.get(p.name, (None, None))
        # the check of all prototypes tells contradictions
        if function is None or contradiction(p, function):
            continue
        made = p
        if p.points_at_structs or p.has_char:
            with suppress(NotCallable):
                made = _merged(p, prototype_of(function))
        comment = _comment(comments, node, function)
        made = made._replace(comment=p.comment if comment is None else comment)
        if made != p:
            found.append(w._replace(prototype=made))
    return found


def _refuse_text(text: str) -> None:
    """Refuse a caller's prototype whose words no source explains.

    Raises:
        BuildError: what is wrong with it.
    """
    from mblob.packager.modules.prototype_parser import parse  # with pycparser

    parse([text])


def _own_types(functions: Sequence[Function]) -> dict[str, str]:
    """The types of a source in the words of C, as of `prototype_parser.Words`."""
    types: dict[str, str] = {}
    for function in functions:
        for found in (*function.parameters, function.result):
            t: CType | None = found
            while t is not None:
                name = t.text.removeprefix("const ")
                is_name = all(map(str.isidentifier, name.split(" ")))
                if is_name and name not in WORDS and not name.startswith("__int128"):
                    scalar = scalar_of(t)
                    other = "void *" if t.kind == "pointer" else "void"
                    types[name] = scalar.name if scalar else other
                t = t.target
    tagged = {
        name.partition(" ")[2]: meant for name, meant in types.items()
        if name.startswith(("struct ", "union ", "enum "))
    }  # fmt: skip
    return {**tagged, **types}  # C++ has them without these words


def _own_values(functions: Sequence[Function]) -> dict[str, Parameter]:
    """The types that functions of a source take and return by value, as of `prototype_parser.Words`."""
    values: dict[str, Parameter] = {}
    for function in functions:
        for found in (*function.parameters, function.result):
            value = by_value(found, "")
            if value is None:
                continue
            values.setdefault(value.spelled, value)
            if found.kind == "record" and found.base:  # of a typedef
                tag = "union" if value.value and value.value.text.startswith("union") else "struct"
                values.setdefault(f"{tag} {found.base}", value)
    tagged = {name.partition(" ")[2]: v for name, v in values.items() if " " in name and v.layout}
    return {**tagged, **values}


@cache
def _enumerators(enums: tuple[str, ...]) -> dict[str, int]:
    from mblob.packager.modules.source_words import enumerators  # with pycparser

    return enumerators(enums)


def _check_is_its_own(
    packed_symbol: str,
    function: Function,
    name: str,
    is_asked: bool,
    file: HostFile,
    files: Sequence[LinkInput],
) -> None:
    """Refuse a plain function that cannot be called, as there is a packed function of its name which has nothing
    to do with it, such as that of a model. Who writes a packed function of a plain one calls it there, or defines
    both in one file.

    Raises:
        BuildError: naming the function, and where the other one is.
    """
    for f, c in files:
        its_names = c.defined | c.weak | c.undefined | c.hidden
        if packed_symbol in c.defined | c.weak and its_names.isdisjoint((name, function.name)):
            other = "" if is_asked else ", or list the functions to call, without it, in functions="
            raise BuildError(
                f"{f.label}: has a function {name!r} already, so that of {file.label} cannot be called; give it another"
                f" name{other}"
            )


def _overloads(name: str, nodes: Sequence[tuple[HostNode, LinkInput]]) -> str:
    """The functions of C++ that have a name, and the remedy."""
    types: dict[str, str] = {}  # by symbol: one in an inline namespace has two names
    for function in (function for _, (f, _) in nodes for function in f.functions):
        if function.qualified == name:
            spelled = ", ".join(p.spelling for p in function.parameters)
            types.setdefault(function.name, f"{function.qualified}({spelled})")
    return (
        f"{listed(types.values(), 6)}; give the prototype of the one to call, or its name alone for all of them, or an"
        ' extern "C" function that calls it'
    )


def _with_values(comment: str, function: Function, prototype: Prototype) -> str:
    """A comment; which parameters may be None, the members of structs, and which names there are for the
    values of parameters and of the result."""
    lines = [
        f"{p.name}: None leaves it out"
        for p in prototype.parameters
        if p.optional and not prototype.shim
    ]
    records: dict[str, list[str]] = {}
    named = (*zip(function.names, function.parameters), ("result", function.result))
    lines += prototype.shim.notes if prototype.shim else ()
    for name, found in named:
        if name and found.layout and not (prototype.shim and found.library):
            records.setdefault(_members(found.target or found, found.layout), []).append(name)
    lines += [f"{', '.join(names)}: {members}" for members, names in records.items()]
    for name, found in named:
        target = found.target if found.kind == "pointer" else found
        if name and target is not None and target.enumerators:
            values = ", ".join(f"{word} {value}" for word, value in target.enumerators)
            lines.append(f"{name}: {values}")
    return "\n\n".join(filter(None, (comment, "\n".join(lines))))


def _members(record: CType, layout: str) -> str:
    """The members of a struct, for people.

    Args:
        layout: as of `CType`.
    """
    fields = [field.split(" ", 2) for field in layout.split(", ")]
    shown = listed((f"{kind} {name} at {offset}" for offset, name, kind in fields), _SHOWN_MEMBERS)
    return f"{record.text.removeprefix('const ')} of {record.size} bytes: {shown}"


_SHOWN_MEMBERS = 16


def _is_callable(function: Function, contents: ObjectSymbols) -> bool:
    """True if a function is the user's, exported, and plain."""
    name = function.name
    exported = (
        contents.functions if "<" in function.qualified else contents.functions - contents.comdat
    )
    is_exported = name in exported or name in contents.late
    is_plain = plain_row(function, of_tvm=name in contents.of_tvm) is not None
    return is_exported and is_plain and not is_helper(name) and not _is_made(function)


def _is_made(function: Function) -> bool:
    """True if a function is not from a source: it is the main program, or the compiler made it."""
    return function.name in ("main", "MAIN__") or function.source_name.rpartition("::")[
        2
    ].startswith("_")


def _with_bounds(prototype: Prototype, file: HostFile) -> Prototype:
    """A prototype with the bounds of arrays that the source has.

    Warns:
        UserWarning: they cannot be read.
    """
    declaration = file.arrays.get(prototype.called.rpartition("::")[2])
    if declaration is None:
        return prototype
    from mblob.packager.modules.source_words import with_bounds  # with pycparser

    made, why = with_bounds(prototype, declaration, _enumerators(file.enums), file.array_types)
    if why:
        warn(f"{file.label}: a call does not check the size of an array: {why}")
    return made
