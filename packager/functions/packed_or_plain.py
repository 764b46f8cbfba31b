"""The calling convention of each function that objects export, as far as something tells: the rows
of the table that a loader needs to tell packed functions from others.

A loader takes a function without a row for a packed one if the library is code that TVM compiled
(`mblob.format.exported_functions.is_tvm_code`), and else for one of which nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from mblob.binary.function_names import MANGLED, cxx_names, shown_name
from mblob.errors import listed
from mblob.format import classic, functions_table
from mblob.format.exported_functions import FFI_PREFIX, OUR_PREFIXES, is_helper
from mblob.format.functions_table import OBJECT, Row, struct_word, structs_of
from mblob.named_tuple import NamedTuple
from mblob.packager.compile.host_objects import HostFile, LinkInput
from mblob.packager.errors import warn
from mblob.packager.functions.adapters import forms_of
from mblob.packager.functions.debug_prototypes import prototype_or_reason
from mblob.packager.functions.registration import compiled_row
from mblob.packager.functions.wrappers import Wrapped
from mblob.packager.modules.nodes import HostNode, SourceNode
from mblob.packager.objects.object_files import ObjectSymbols

if TYPE_CHECKING:
    from mblob.binary.dwarf_functions import Function
    from mblob.binary.dwarf_types import CType


class WithoutPrototype(NamedTuple):
    """Functions without a prototype, each list sorted by name.

    Attributes:
        plain: rows of those that are plain C.
        packed: of packed ones that a loader would not take for packed without a row.
        unknown: of those of which nothing says how they are called.
        is_tvm_code: a loader takes functions without a row for packed ones.
        has_table: an object has the table already: who made it listed the functions.
    """

    plain: list[Row]
    packed: list[Row]
    unknown: list[Row]
    is_tvm_code: bool
    has_table: bool = False

    @property
    def not_packed(self) -> list[Row]:
        return [*self.plain, *self.unknown]

    def rows(self, others: Sequence[Row], *, unannounced_blob: bool) -> list[Row]:
        """The rows that the table needs for these functions.

        Args:
            others: rows that it has anyway.
            unannounced_blob: there is a blob, and no note tells that mblob wrote it.
        """
        if self.has_table:
            return []
        if self.is_tvm_code:
            return self.not_packed
        found = [*self.plain, *self.packed]
        is_needed = found or others or not unannounced_blob
        return found if is_needed else self.unknown


def classify_undeclared(
    wrapped: Sequence[Wrapped],
    named: Collection[str],
    files: Sequence[LinkInput],
    table_rows: Sequence[Row],
) -> WithoutPrototype:
    """The functions without a prototype, sorted by what is known of them.

    Args:
        named: functions that the caller calls packed.
        table_rows: rows of a table that came with the files.
    """
    plain = _plain_functions(wrapped, files, table_rows)
    prototypes = {name for w in wrapped for name in (w.prototype.symbol, w.packed_symbol)}
    rows = {row.symbol for row in (*plain, *table_rows)}
    rows |= {form for row in table_rows for form in forms_of(row.name)}
    packed: set[str] = set()
    unknown: set[str] = set()
    for f, contents in files:
        if f.generated or f.carried:
            continue
        without_row = _exported(contents) - prototypes - rows
        described = {fn.name for fn in f.functions if is_packed(fn, of_tvm=False)}
        here = without_row & (contents.of_tvm | described | set(named))
        packed |= here
        unknown |= without_row - here
    defined = {name for _, c in files for name in c.defined | c.weak}
    if any(functions_table.SYMBOL in c.defined for f, c in files if not f.generated):
        return WithoutPrototype(plain, [], [], is_tvm_code=True, has_table=True)
    # A source that somebody else compiles has names that nobody sees here.
    packed |= {n for n in named if n not in prototypes | rows and FFI_PREFIX + n not in defined}
    return WithoutPrototype(
        plain,
        [compiled_row(name, name) for name in sorted(packed)],
        [Row(name, name, "plain", 0, "?") for name in sorted(unknown)],
        not defined.isdisjoint((classic.CONTEXT, classic.ENTRY)),
    )


def with_unseen(
    listed_rows: Sequence[Row], files: Sequence[LinkInput], kept: Sequence[Row] = ()
) -> list[Row]:
    """Rows of a table, and behind them the reasons why functions of sources cannot be called that no library
    exports, for who asks for one by its name. A table without functions has none.

    Args:
        kept: such rows of tables that came with the files.
    """
    known = {name for row in listed_rows for name in (row.name, row.symbol)}
    rows = {row.name: row for row in kept if known}
    for name in (name for f, _ in files for name in f.local[:_MOST_UNSEEN] if known):
        *scopes, last = name.split("::")
        called = "::".join(filter(None, (*scopes, last)))
        what = "in an anonymous namespace" if "" in scopes else "static"
        first = "" if "" in scopes else "remove static there, or "
        why = f"{called!r} is {what} in its source: {first}add a function that calls it, and pack the source again"
        rows[called] = Row(called, called, "", 0, "?", origin="source", comment=why)
    return [*listed_rows, *(rows[name] for name in sorted(rows.keys() - known))]


_MOST_UNSEEN = 100  # functions of a source, whose reasons take memory


def _exported(contents: ObjectSymbols) -> set[str]:
    """The functions of an object that may be the user's."""
    found = (contents.functions - contents.comdat - contents.hidden) | contents.late
    return {name for name in found if not _is_reserved(name)}


def warn_of_unknown(
    undeclared: WithoutPrototype,
    wrapped: Sequence[Wrapped],
    nodes: Sequence[HostNode],
    host: Sequence[LinkInput],
    files: Sequence[LinkInput],
) -> None:
    """Warn of a host module with only functions of which nothing says how they are called, none of
    them used by others; and of a source without any that others can use.

    Args:
        wrapped: functions with a prototype.
        nodes, host: the host modules, and their objects.
        files: all objects.
    """
    unknown = {row.symbol for row in undeclared.unknown}
    used = {name for _, c in files for name in c.undefined}
    used.update(w.prototype.symbol for w in wrapped)
    for node, (f, contents) in zip(nodes, host):
        if f.generated or f.elsewhere:
            continue
        if (
            isinstance(node, SourceNode)
            and contents.complete
            and (_is_empty(contents) or _is_uncalled(f, contents, used))
            and "{" in node.text()
        ):
            warn(
                f"{f.label}: defines nothing that a call or other code finds, as static and inline functions,"
                " templates, methods and operators are not callable: remove static or inline there, or give a function"
                " that calls them"
            )
        names = _exported(contents)
        is_source = isinstance(node, SourceNode)  # whose types are told
        is_silent = contents.complete and not (is_source or names or f.functions)
        found = contents.functions - contents.comdat - contents.hidden if is_silent else set()
        of_cxx = {name for name in found if cxx_names(name)}
        if of_cxx and used.isdisjoint(of_cxx):
            shown = listed(sorted(set(map(shown_name, of_cxx))), 6)
            warn(
                f"{f.label}: no debug information tells the types of {shown}, of C++, so no call finds them: compile it"
                " with -g"
            )
        if names and names <= unknown and used.isdisjoint(names):
            warn(
                f"{f.label}: nothing says how {listed(sorted(names), 6)} {'is' if len(names) == 1 else 'are'} called,"
                " so a call is an error: give its prototype, or, if it is a packed function, its name (functions=)"
            )


def warn_of_no_model(files: Sequence[LinkInput]) -> None:
    """Warn of code of a model, if nothing that is packed has the model."""
    for f, contents in files:
        is_member = re.search(r"\blib\d+\.\w+\)?$", f.label)  # as TVM names them
        names = contents.functions if is_member and not f.generated else ()
        kernels = sorted(n for n in names if n.removeprefix(FFI_PREFIX).startswith(_OF_MODELS))
        if kernels:
            warn(
                f"{f.label} has kernels of a model of TVM's ({kernels[0]}), and no file has the model: TVM opens the"
                " result as a library of kernels; to pack the model, give its devc.o or devc.c, too, or the whole .tar"
            )
            return


_OF_MODELS = ("tvmgen_", "__vmtir__")


def _is_empty(contents: ObjectSymbols) -> bool:
    """True if an object neither defines nor takes anything."""
    return not (contents.defined | contents.weak | contents.hidden | contents.undefined)


def _is_uncalled(file: HostFile, contents: ObjectSymbols, used: Collection[str]) -> bool:
    """True if an object has nothing but functions of C++ that have no names for calls, and that no other uses."""
    found = contents.functions
    return bool(
        found
        and not file.functions
        and found.issuperset(contents.defined | contents.weak)
        and all(name.startswith(MANGLED[0]) for name in found)
        and found.isdisjoint(used)
        and not any(name.startswith(_RESERVED) for name in contents.undefined)
    )


def _is_reserved(name: str) -> bool:
    return is_helper(name) or name.startswith((*MANGLED, FFI_PREFIX))


def _plain_functions(
    wrapped: Sequence[Wrapped],
    files: Sequence[LinkInput],
    table_rows: Sequence[Row],
) -> list[Row]:
    """Rows of the function table for exported C functions without a prototype, sorted by name.

    Without them a loader would have to take such a function for a packed one.

    Args:
        table_rows: rows of a table that came with the files.
    """
    prototypes = {w.prototype.symbol for w in wrapped}
    hidden = {name for _, c in files for name in c.hidden}
    defined = {name for _, c in files for name in c.defined | c.weak}
    rows = {
        r.symbol: r
        for r in table_rows
        if r.abi == "plain" and r.symbol in defined and r.name not in prototypes
    }
    packed = {r.symbol for r in table_rows if r.abi == "packed"}
    for f, contents in files:
        for function in f.functions:
            if function.is_guess and function.name in packed:
                continue
            # Of what is compiled with -flto only those are listed that the compiler exports.
            defined_here = (
                not contents.complete or function.name in contents.defined | contents.weak
            )
            if not defined_here or function.name in hidden or function.name in prototypes:
                continue
            if function.qualified and function.name in contents.comdat:
                continue  # a template, or inline
            row = plain_row(function, of_tvm=function.name in contents.of_tvm)
            if row is not None and function.called != function.name:
                name = function.called
                row = row if name in defined else row._replace(name=name)
            if row is not None and function.name not in rows:
                found = prototype_or_reason(function, f, files)
                if isinstance(found, str):
                    row = row._replace(comment=found)
                elif row.types == "?" or any(p.is_function for p in found.parameters):
                    row = row._replace(types=found.types, prototype=found.text)
                if row.prototype:
                    row = row._replace(origin="source" if f.own else "debug information")
                rows[function.name] = row
    return [rows[name] for name in sorted(rows)]


# -- what types tell -------------------------------------------------------------------------------

# Never plain functions of a user: packed functions under other rules, tables, and functions of the
# runtime that an object brings along.
_RESERVED = (*OUR_PREFIXES, "TVMBackend")


def is_packed(function: Function, *, of_tvm: bool) -> bool:
    """True if a function has the shape of TVM's packed ones; in doubt it has.

    `int f(args, int *type_codes, int num_args, result, int *result_code, resource)`, where the
    pointers have types of their own in each release of TVM.

    Args:
        of_tvm: its object has a mark of TVM's. TVM 0.6 and before leave the last arguments out;
            many functions that nothing else says to be packed take as few.
    """
    p = function.parameters
    if (
        function.variadic
        or not function.is_ordinary
        or len(p) not in ((3, 5, 6) if of_tvm else (6,))
        or not _is_int32(function.result)
        or not _is_int32(p[2])
    ):
        return False
    if any(p[i].kind != "pointer" for i in range(len(p)) if i != 2):
        return False
    args, codes = p[0].target, p[1].target
    return args is not None and codes is not None and _may_be_values(args) and _may_be_codes(codes)


def is_of_cxx(symbol: str, files: Sequence[LinkInput]) -> bool:
    """True of a symbol of C++ that nothing tells to be that of a packed function."""
    packed = (fn.name for f, _ in files for fn in f.functions if is_packed(fn, of_tvm=False))
    return symbol.startswith(MANGLED[0]) and symbol not in packed


def _is_int32(found: CType) -> bool:
    return found.kind == "int" and found.size == 4


def _may_be_values(found: CType) -> bool:
    """True if the target of a pointer may be TVMValue: void, a union of 8 bytes, or a number as
    wide."""
    return found.kind in ("void", "record", "pointer") or (
        found.kind in ("int", "uint") and found.size == 8
    )


def _may_be_codes(found: CType) -> bool:
    return found.kind == "void" or (found.kind in ("int", "uint", "enum") and found.size == 4)


def plain_row(function: Function, *, of_tvm: bool) -> Row | None:
    """The row of the function table for a function without a packed function, None if it is to be
    called as packed.

    Args:
        of_tvm: as of `is_packed`.
    """
    if function.name.startswith(_RESERVED) or is_packed(function, of_tvm=of_tvm):
        return None
    types = function.types_with(_struct_word)
    structs = structs_of((p.declaration("it"), p.layout) for p in function.parameters)
    row = Row(function.name, function.name, "plain", 0, types, _declaration(function))
    return row._replace(structs=structs)


def _struct_word(p: CType) -> str:
    target = p.target if p.kind == "pointer" else None
    is_struct = target is not None and target.kind == "record"
    if target and target.is_object:
        return OBJECT
    return struct_word(target.size, target.alignment) if target and is_struct else ""


def _declaration(function: Function) -> str:
    """The prototype of a function; "" if its types are unknown, if its result stands around the name,
    as a pointer to a function does, or if its source is no C."""
    if function.types == "?" or "?" in function.result.text or function.source_name:
        return ""
    named = zip(function.parameters, function.names)
    parameters = [p.declaration(name) for p, name in named] + ["..."] * function.variadic
    return function.result.declaration(f"{function.called}({', '.join(parameters) or 'void'})")
