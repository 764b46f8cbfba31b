"""The description of a standalone library: its one model or function, with inputs and outputs. The library tells it,
before the runtime is linked with it."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence

from mblob.argument_types import BY_C
from mblob.binary.elf_records import STB_WEAK
from mblob.dtype import DataType
from mblob.errors import did_you_mean, listed
from mblob.format import functions_table
from mblob.format.exported_functions import HostFunction, is_tvm_code
from mblob.format.type_keys import (
    AOT_FACTORY,
    CONST_LOADER,
    GRAPHS,
    LIBRARY,
    METADATA,
    METADATA_MODULE,
    RELAX_EXECUTABLES,
    RELAY_EXECUTABLE,
    ROWS,
)
from mblob.inspect import relay_outputs
from mblob.inspect.library import EntryView, Library
from mblob.inspect.models import Model, Value
from mblob.named_tuple import NamedTuple
from mblob.packager.errors import BuildError
from mblob.packager.functions.slot_shims import SLOTS
from mblob.packager.modules.prototype_parser import parse
from mblob.packager.modules.prototypes import Parameter, Scalar
from mblob.packager.write.dialects import DIALECTS

_WITH = {
    **dict.fromkeys(GRAPHS, "MBLOB_WITH_GRAPH"),
    AOT_FACTORY: "MBLOB_WITH_AOT",
    RELAY_EXECUTABLE: "MBLOB_WITH_RELAY",
    **dict.fromkeys(RELAX_EXECUTABLES, "MBLOB_WITH_RELAX"),
    CONST_LOADER: "MBLOB_ALONE_CONSTANTS",
    METADATA: "MBLOB_ALONE_CONSTANTS",
}
FFI = "MBLOB_WITH_FFI"  # functions, and programs, of the ffi dialect
_BY_NAME = re.compile(rb"tvm\.contrib\.(?:sort|random)\.|relax\.run\.")  # exec/contrib
_TOLD = re.compile(r"(\w+)\[((?: *\d+ *(?:, *\d+ *)*)?)\]")
_SHOWN = 6  # names in an error


class Tensor(NamedTuple):
    """An input or output.

    Attributes:
        name: as the library has it.
    """

    name: str
    dtype: DataType
    shape: tuple[int, ...]


class Description(NamedTuple):
    """The model or function of a standalone library.

    Attributes:
        kind: "graph", "aot", "relay", "relax" or "function".
        module: the number of the model's module.
        name: of the model, or of the function.
        inputs: what has no value in the library.
        arguments: of a function: "input", "output" or "stored" (a tensor of the library), and the name of each.
        blob: the symbol of the packed modules.
        is_compiled_by_tvm: functions that no table lists are packed.
        macros: what mblob.c has to have.
    """

    kind: str
    module: int
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    arguments: tuple[tuple[str, str], ...]
    blob: str
    is_compiled_by_tvm: bool
    macros: tuple[str, ...]


def describe(library: Library, shapes: Mapping[str, str]) -> Description:
    """The description of a linked library.

    Args:
        shapes: type and shape of inputs and outputs by name, where the library does not tell them: "float32[2, 3]".

    Raises:
        BuildError: no runtime that fits into a library runs one of its modules; or the library has no model or function
            whose inputs and outputs are known, or several.
    """
    macros = _macros(library)
    told = {name: _told(name, text) for name, text in shapes.items()}
    models = library.models
    found = _of_model(library, _chosen(models), told) if models else _of_function(library, told)
    known = [t.name for t in (*found.inputs, *found.outputs)]
    if unknown := [name for name in told if name not in known]:
        raise BuildError(
            f"standalone: shapes: no input or output {unknown[0]!r}; there are {listed(known, _SHOWN)}"
            f"{did_you_mean(unknown[0], known)}"
        )
    return found._replace(macros=macros)


def _told(name: str, text: str) -> Value:
    """Type and shape that the caller tells."""
    found = _TOLD.fullmatch(text)
    if not found:
        raise BuildError(
            f"standalone: shapes: {name}: expected a type and a shape, such as float32[1, 3], found {text!r}"
        )
    dtype = str(DataType.parse(found[1]))
    return Value(name, tuple(int(n) for n in re.findall(r"\d+", found[2])), dtype)


def _macros(library: Library) -> tuple[str, ...]:
    macros = set()
    if library.dialect == "ffi":
        _check_calls(library)
        macros.add(FFI)
    if library.blob is not None and library.blob.index_offset is None:
        macros.add("MBLOB_ALONE_STREAM")
    for entry in library.entries:
        key = entry.type_key
        if key in _WITH:
            macros.add(_WITH[key])
        elif not (entry.data or key in (LIBRARY, METADATA_MODULE)):
            needs = ROWS[key].needs if key in ROWS else ""
            why = (
                f"it needs {needs}" if needs else "only a program that registers a loader opens it"
            )
            how = (
                "compile the model without this engine, or pack without standalone; a program can have libmblob.a"
                " inside, and the library the plug-in (carry)"
                if needs and not ROWS[key].where
                else "leave the module out, or pack without standalone, and open the library with mblob"
            )
            raise BuildError(
                f"standalone: entry {entry.index}: no runtime that goes into a library runs {key!r}: {why}; {how}"
            )
    image = library.elf.data
    blob = library.blob_bytes()
    outside = image[: library.blob_offset], image[library.blob_offset + len(blob) :]
    programs = [e.view() for e in library.entries if e.type_key in RELAX_EXECUTABLES]
    if any(_BY_NAME.search(part) for part in (*outside, *programs)):
        macros.add("MBLOB_WITH_CONTRIB")
    return tuple(sorted(macros))


def _check_calls(library: Library) -> None:
    """Functions that code of the ffi dialect calls by slots are there; others have names of their own."""
    imports = (s for s in library.elf.imports if s.binding != STB_WEAK)
    named = (s.name for s in imports if s.name.startswith("TVM"))
    called = sorted(name for name in named if name not in SLOTS)
    if any("AnyList" in name for name in called):
        raise BuildError(
            'standalone: TVM compiled the program with exec_mode="compiled", which tells no outputs; build it with'
            ' exec_mode="bytecode"'
        )
    if called:
        raise BuildError(
            f"standalone: its code calls {listed(called, _SHOWN)}, which a library does not contain: it uses the C++"
            " classes of tvm_ffi; pack without standalone, and open the library with mblob"
        )


# -- a model ---------------------------------------------------------------------------------------


def _chosen(models: Sequence[Model]) -> Model:
    """The one model, or of the functions of a program `main`."""
    if len(models) == 1:
        return models[0]
    mains = [m for m in models if m.name == "main"]
    if len(mains) == 1:
        return mains[0]
    raise BuildError(
        f"standalone: the library has {len(models)} models ({listed([m.name for m in models], _SHOWN)}), and a"
        " standalone library runs one: pack each of them alone"
    )


def _of_model(library: Library, model: Model, told: Mapping[str, Value]) -> Description:
    what = f"the model {model.name!r}"
    outputs, names = model.outputs, {p.name for p in model.parameters}
    given = [v for v in model.inputs or () if v.name not in names]
    if model.kind == "relax":
        from mblob.packager.standalone import relax_outputs

        outputs = relax_outputs.outputs_of(library, model)
        given = [*relax_outputs.given_inputs(library, model)]
    elif model.kind == "relay":
        _check_constants(library.entries[model.entry])
        given = [told.get(v.name or "", v) for v in given]
        outputs = relay_outputs.outputs_of(library, model, given)
    if outputs is None:
        outputs = _told_outputs(told, {v.name for v in given})
    if not outputs:
        raise BuildError(
            f"standalone: {what} ({model.kind}): its code does not tell the type and a fixed shape of each output,"
            " which the struct of outputs needs; give them: shapes={'output': 'float32[1,10]'}, of"
            " several outputs output0, output1, ..."
        )
    if model.kind in ("relax", "relay"):
        outputs = tuple(
            v._replace(name=f"output{i}" if len(outputs) > 1 else "output")
            for i, v in enumerate(outputs)
        )
    return Description(
        kind=model.kind,
        module=model.entry,
        name=model.name,
        inputs=tuple(_tensor(v, f"{what}: input", i, told) for i, v in enumerate(given)),
        outputs=tuple(_tensor(v, f"{what}: output", i, told) for i, v in enumerate(outputs)),
        arguments=(),
        blob=_blob(library),
        is_compiled_by_tvm=_is_compiled_by_tvm(library),
        macros=(),
    )


def _told_outputs(told: Mapping[str, Value], inputs: Container[str | None]) -> tuple[Value, ...]:
    """The outputs, all of which the caller tells."""
    found = tuple(v for name, v in told.items() if name not in inputs)
    names = ["output"] if len(found) == 1 else [f"output{i}" for i in range(len(found))]
    return found if [v.name for v in found] == names else ()


def _check_constants(program: EntryView) -> None:
    """A program of Relay has all its constants: nothing binds others in a standalone library."""
    if late := program.content.facts["executable"]["late_constants"]:
        raise BuildError(
            f"standalone: the program has no value of its constant {late[0]!r}, which was moved to another file; export"
            " it with its constants"
        )


def _blob(library: Library) -> str:
    dialect = library.dialect or "classic"  # of a library that gets its first modules
    return DIALECTS[dialect].symbol if library.blob is None else library.blob.symbol


def _is_compiled_by_tvm(library: Library) -> bool:
    """True if functions that no table lists are packed ones, as the runtime decides it of a file."""
    elf = library.elf
    with_table = elf.find(functions_table.SYMBOL) is not None
    defined = (s.name for s in elf.exports)
    return is_tvm_code(defined, (s.name for s in elf.imports), with_table=with_table)


def _tensor(value: Value, what: str, i: int, told: Mapping[str, Value]) -> Tensor:
    name = value.name or str(i)
    if value.type:
        raise BuildError(
            f"standalone: {what} {name!r} is a {value.type}, and a struct has tensors alone"
        )
    if name in told:
        value = _checked(value, told[name], f"{what} {name!r}")
    shape = value.shape
    if value.dtype is None or shape is None:
        raise BuildError(
            f"standalone: {what} {name!r}: the file tells no type and shape of it, which the struct needs; give them:"
            f" shapes={{{name!r}: 'float32[1,3]'}}"
        )
    open_dim = next((d for d in shape if _is_open(d)), None)
    if open_dim is not None:
        raise BuildError(
            f"standalone: {what} {name!r} has the shape {value.type_text}, whose dimension {open_dim!r} is open;"
            " choose it by shapes=, or compile the model with fixed shapes"
        )
    return Tensor(name, DataType.parse(value.dtype), tuple(int(d) for d in shape))


def _is_open(dimension: int | str) -> bool:
    return not isinstance(dimension, int) or dimension < 0


def _checked(value: Value, told: Value, what: str) -> Value:
    """The value as the caller tells it, unless the file tells something else."""
    shape, wanted = value.shape, told.shape or ()
    fits = shape is None or (
        len(shape) == len(wanted) and all(_is_open(d) or d == n for d, n in zip(shape, wanted))
    )
    if not fits or value.dtype not in (None, told.dtype):
        raise BuildError(
            f"standalone: shapes: {what} is {value.type_text} in the file, found {told.type_text}"
        )
    return told


# -- a function ------------------------------------------------------------------------------------


def _of_function(library: Library, told: Mapping[str, Value]) -> Description:
    """The one packed function with a prototype. Its arguments are arrays; constant ones that have the name of a tensor
    of the library are that."""
    function = _chosen_function(library)
    stored = {t.name for e in library.entries for t in e.content.tensors}
    (prototype,) = parse([function.prototype or ""])
    values: dict[str, list[Tensor]] = {"input": [], "output": []}
    arguments = []
    for p in prototype.parameters:
        place = "output" if not p.const else "stored" if p.name in stored else "input"
        arguments.append((place, p.name))
        if place != "stored":
            values[place].append(
                _array(p, f"{function.name}: parameter {p.name!r}", library.elf.bits // 8, told)
            )
    return Description(
        "function", 0, function.name, tuple(values["input"]), tuple(values["output"]), tuple(arguments),
        _blob(library), _is_compiled_by_tvm(library), (),
    )  # fmt: skip


def _chosen_function(library: Library) -> HostFunction:
    known = [f for f in library.host_functions if f.abi != "plain" and f.prototype]
    if len(known) > 1:
        known = [f for f in known if f.name in ("main", library.entry_function)] or known
    if len(known) == 1:
        return known[0]
    shown = listed([f.name for f in known], _SHOWN) if known else "no function"
    raise BuildError(
        f"standalone: the library has no model, and {shown} with a prototype, expected one function that run calls;"
        " choose it with functions="
    )


def _array(p: Parameter, what: str, pointer_size: int, told: Mapping[str, Value]) -> Tensor:
    word = _word(p.scalar, pointer_size) if p.scalar else ""
    is_tensor = p.kind == "tensor" and word
    is_fixed = p.dims and all(d.text.isdecimal() for d in p.dims)
    if not is_tensor or not (is_fixed or p.name in told):
        given = f"; give it by shapes={{{p.name!r}: '{word}[8]'}}" if is_tensor else ""
        raise BuildError(
            f"standalone: {what} is neither an array of a fixed size, as `const float x[8]`, nor has it the name of"
            f" a tensor of the library{given}"
        )
    dims = tuple(int(d.text) if d.text.isdecimal() else d.text for d in p.dims) or None
    return _tensor(Value(p.name, dims, word), what, 0, told)


def _word(scalar: Scalar, pointer_size: int) -> str:
    """The element type as TVM names it, "" if each C library has its own opinion."""
    if scalar.name in BY_C:
        return BY_C[scalar.name].word
    size = scalar.size(pointer_size)
    return f"{'int' if scalar.kind == 'char' else scalar.kind}{8 * size}" if size else ""
