"""The models in a library: what each takes, gives, and holds. No code of the library runs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Optional, Tuple  # noqa: UP035

from mblob.binary.elf import ElfFile
from mblob.dtype import DataType
from mblob.errors import FormatError
from mblob.format.type_keys import AOT_FACTORY, EXECUTABLES, GRAPHS
from mblob.inspect import graph_summary
from mblob.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mblob.inspect.entry_view import EntryView
    from mblob.inspect.library import Library

AOT_ENTRY = "___tvm_main__"  # behind the name of a model: the function that runs it
# struct mb_aot_metadata and struct mb_aot_tensor of csrc/src/exec/aot/metadata.h: P is a pointer, q an
# int64_t, d a DLDataType
_METADATA, _TENSOR, _VERSION = "qPqPqPqPqP", "PPqd", 1
_TENSORS, _DIMENSIONS, _NAME = 4096, 64, 4096  # limits of one model
_POINTERS = 1 << 20  # packed ones that are looked at


class Value(NamedTuple):
    """An input, an output or a parameter.

    Attributes:
        name: None where nothing tells it.
        shape: extents, None where nothing tells them. In a Relax program, a dimension that each call
            may choose is a str: its name, or "?".
        dtype: as TVM writes it, "float32"; None where nothing tells it.
        type: of a value that is no tensor: `Shape([n])`, `Tuple(float32[8])`, `int64`; "" for tensors.
    """

    name: str | None
    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None
    type: str = ""

    @property
    def type_text(self) -> str:
        """Type and shape: `float32[1, 10]`; "" where nothing tells either."""
        if self.type or (self.shape is None and self.dtype is None):
            return self.type
        return graph_summary.value_text({"shape": self.shape, "dtype": self.dtype})

    def __str__(self) -> str:
        return "  ".join(filter(None, (self.name, self.type_text))) or "?"

    def to_json(self) -> dict[str, Any]:
        shape = None if self.shape is None else list(self.shape)
        found = {"name": self.name, "shape": shape, "dtype": self.dtype}
        return {**found, "type": self.type} if self.type else found


Values = Optional[Tuple[Value, ...]]  # noqa: UP006


class Model(NamedTuple):
    """One model of a library.

    Attributes:
        entry: the index of its module.
        kind: "graph", "aot", "relay" or "relax".
        name: of the model; of a program for a virtual machine, of the function. "" where nothing
            tells it.
        inputs: what a caller gives.
        outputs: what it gives; None where the file does not tell.
        parameters: tensors that the library holds for it.
    """

    entry: int
    kind: str
    name: str
    inputs: tuple[Value, ...] | None
    outputs: tuple[Value, ...] | None
    parameters: tuple[Value, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "entry": self.entry,
            "kind": self.kind,
            "name": self.name,
            "inputs": _listed(self.inputs),
            "outputs": _listed(self.outputs),
            "parameters": _listed(self.parameters),
        }


def _listed(values: Sequence[Value] | None) -> list[dict[str, Any]] | None:
    return None if values is None else [v.to_json() for v in values]


def models_of(library: Library) -> list[Model]:
    """The models of a library, in the order of its entries; a damaged payload has none."""
    found = []
    metadata: tuple[Values, Values] | None = None
    for entry in library.entries:
        facts = entry.content.facts
        if entry.type_key in GRAPHS and "graph" in facts:
            found.append(_graph_model(entry))
        elif entry.type_key == AOT_FACTORY and "module_name" in facts:
            if metadata is None:
                metadata = _metadata_of(library)
            found.append(
                Model(entry.index, "aot", facts["module_name"], *metadata, _parameters(entry))
            )
        elif entry.type_key in EXECUTABLES and "executable" in facts:
            found += _programs(entry)
    return found


def _metadata_of(library: Library) -> tuple[Values, Values]:
    """Inputs and outputs of the model that a library has the code of."""
    if isinstance(library.image, ElfFile):
        try:
            return _Metadata(library.image).read() or (None, None)
        except FormatError:  # `verify` says what is wrong with the file
            pass
    return None, None


def _parameters(entry: EntryView) -> tuple[Value, ...]:
    return tuple(Value(t.name, t.shape, t.dtype) for t in entry.content.tensors)


def _graph_model(entry: EntryView) -> Model:
    facts = entry.content.facts
    parameters = _parameters(entry)
    held = {p.name for p in parameters}
    inputs, outputs = (
        tuple(_value(v) for v in facts["graph"][title]) for title in ("inputs", "outputs")
    )
    return Model(
        entry=entry.index,
        kind="graph",
        name=facts.get("module_name", ""),
        inputs=tuple(v for v in inputs if v.name not in held),
        outputs=outputs,
        parameters=parameters,
    )


def _value(row: dict[str, Any]) -> Value:
    shape = row["shape"]
    return Value(
        row["name"], None if shape is None else tuple(shape), row["dtype"], row.get("type", "")
    )


def _programs(entry: EntryView) -> list[Model]:
    """The functions of a virtual machine's program that callers know by name. Code of Relay tells
    neither types nor shapes of parameters."""
    machine = entry.content.facts["executable"]
    constants = _parameters(entry)
    found = []
    for f in machine["functions"]:
        if f["kind"] == "packed" or f["name"].startswith("lambda"):
            continue
        rows = f.get("inputs")
        inputs = tuple(map(_value, rows) if rows is not None else map(Value, f["params"]))
        found.append(Model(entry.index, machine["machine"], f["name"], inputs, None, constants))
        constants = ()  # of all functions together
    return found


# -- models compiled ahead of time -----------------------------------------------------------------


class _Metadata:
    """The structure that `get_c_metadata` of a library would return, found in the data of the file:
    the function cannot be called here. The structure is known by its version, and by the name at
    its end, which the function that runs the model has as well."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._pointers = _pointers(elf)
        self._metadata, self._tensor = _offsets(_METADATA, elf), _offsets(_TENSOR, elf)

    def read(self) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
        """Inputs and outputs, None if the structure is not there.

        Raises:
            FormatError: something in it lies outside of the file.
        """
        _, inputs, input_count, outputs, output_count, *_, name, _ = self._metadata
        for place in self._pointers:
            start = place - name
            if self._word(start) != _VERSION or start + inputs not in self._pointers:
                continue
            if self._is_name(place):
                return (
                    self._tensors(start + inputs, start + input_count),
                    self._tensors(start + outputs, start + output_count),
                )
        return None

    def _is_name(self, place: int) -> bool:
        """True if the pointer at an address leads to the name of a model."""
        try:
            return self._elf.find(self._text(self._target(place)) + AOT_ENTRY) is not None
        except FormatError:  # other data looks like the structure
            return False

    def _target(self, place: int) -> int:
        """The target of the pointer at an address; 0 if there is none."""
        addend = self._pointers.get(place, 0)
        return self._elf.word_at(place) if addend is None else addend

    def _word(self, vaddr: int) -> int | None:
        if vaddr < 0 or not self._elf.is_in_file(vaddr, 8):
            return None
        return int(self._elf.numbers("Q", self._elf.offset_of(vaddr, 8, "word"), 1)[0])

    def _fail(self, what: str) -> FormatError:
        return FormatError(f"{self._elf.name}: get_c_metadata: {what}", code="payload")

    def _tensors(self, pointer: int, number: int) -> tuple[Value, ...]:
        """The tensors of a list: where the pointer to it is, and where their number."""
        count = self._word(number)
        if not count:
            return ()
        if pointer not in self._pointers or count > _TENSORS:
            raise self._fail(f"a list of {count} tensors")
        start = self._target(pointer)
        return tuple(self._value(start + self._tensor[-1] * i) for i in range(count))

    def _value(self, at: int) -> Value:
        name, shape_at, ndim_at, dtype_at = (at + offset for offset in self._tensor[:-1])
        ndim = self._word(ndim_at)
        if name not in self._pointers or ndim is None or ndim > _DIMENSIONS:
            raise self._fail("a tensor without a name, or with too many dimensions")
        shape: tuple[int, ...] = ()
        if ndim:
            place = self._elf.offset_of(self._target(shape_at), 8 * ndim, "shape")
            shape = tuple(self._elf.numbers("q", place, ndim))
        dtype = self._elf.offset_of(dtype_at, 4, "dtype")
        code, bits = self._elf.data[dtype : dtype + 2]
        lanes = self._elf.numbers("H", dtype + 2, 1)[0]
        return Value(self._text(self._target(at)), shape, str(DataType(code, bits, lanes)))

    def _text(self, vaddr: int) -> str:
        at = self._elf.offset_of(vaddr, 1, "name")
        return bytes(self._elf.data[at : at + _NAME]).partition(b"\0")[0].decode("utf-8", "replace")


def _offsets(fields: str, elf: ElfFile) -> list[int]:
    """Offsets of the fields of a structure as compilers for the file's machine place them; its size
    behind them."""
    word = elf.bits // 8
    wide = 4 if elf.machine == "i386" else 8  # alignment of an int64_t
    sizes = {"P": (word, word), "q": (8, wide), "d": (4, 2)}
    found = [0]
    for field, following in zip(fields, f"{fields[1:]}q"):  # each structure has an int64_t
        end = found[-1] + sizes[field][0]
        found.append(-(-end // sizes[following][1]) * sizes[following][1])
    return found


def _pointers(elf: ElfFile) -> dict[int, int | None]:
    """Addresses of pointers that name no symbol, and where each leads; None: the word there says."""
    found: dict[int, int | None] = dict.fromkeys(islice(elf.relative_places(), _POINTERS))
    for start, size, record in elf.relocation_tables():
        at = elf.offset_of(start, size, "relocations") if size else 0
        for place, info, *addend in elf.records(record, at, size // record.size, "relocations"):
            if info and not info >> elf.layout.symbol_shift:
                found[place] = addend[0] if addend else None
    return found
