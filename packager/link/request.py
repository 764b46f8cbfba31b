"""What one export was asked for, after its arguments were checked."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from mblob.bytes.progress import watched
from mblob.format.blob_plan import BlobPlan
from mblob.format.type_keys import SAFETENSORS
from mblob.packager.errors import BuildError, BuildTypeError

# What compiles and links is imported by those who ask for it: a large blob is on its way by then.
if TYPE_CHECKING:
    from mblob.bytes.sink import Sink
    from mblob.format.functions_table import Row
    from mblob.module import Module
    from mblob.packager.compile.toolchain import Toolchain
    from mblob.packager.functions.packed_or_plain import Told
    from mblob.packager.functions.wrappers import Wrapped
    from mblob.packager.modules.nodes import HostNode
    from mblob.packager.objects.object_files import ElfTarget
    from mblob.packager.write.dialects import Dialect
    from mblob.packager.write.reuse import OldLibrary

_RUNTIME = ("TVM", "__TVM", "__tvm_", "mblob_", "__mblob_")
PREFIX_LIMIT = 128  # characters
STATIC_SUFFIXES = (".o", ".a", ".tar")  # of system libraries
EMBEDDINGS = ("auto", "grow", "object", "c", "append")


class Cancelled(Exception):
    """Nobody wants the blob any more."""


class Triple:
    """The triple that the library is for, which only the compiler knows: a blob that is copied
    meanwhile waits for it."""

    def __init__(self) -> None:
        self._known = threading.Event()
        self._triple: str | None = None

    def tell(self, triple: str) -> None:
        self._triple = triple
        self._known.set()

    def give_up(self) -> None:
        """Nobody will tell; who waits gets `Cancelled`, until somebody does."""
        self._known.set()

    def __call__(self) -> str:
        self._known.wait()
        if self._triple is None:
            raise Cancelled
        return self._triple


class Request(NamedTuple):
    """The arguments of `export_library`, of which see the meaning there; `options` is split,
    `carry` as of `mblob.packager.link.carry.given_plugins`.

    Attributes:
        plan: of the blob; its target is `triple`.
        host: the host modules, which are linked.
        old: the library whose blocks a new one may share.
        names: what graphs in the blob call instead of a plain C function.
    """

    module: Module
    plan: BlobPlan
    host: list[HostNode]
    dialect: Dialect
    triple: Triple
    fpack_imports: Callable[..., Any] | None
    addons: list[Path]
    embed: str
    cc: str | Sequence[str] | None
    target: str | None
    options: tuple[str, ...]
    system_lib: bool = False
    prefix: str = ""
    carry: tuple[tuple[HostNode, ...], ...] = ()
    old: OldLibrary | None = None
    names: Mapping[str, str] = MappingProxyType({})

    def tools(self) -> Toolchain:
        """The compilers.

        Raises:
            ToolchainError, IncompatibleError: as of `mblob.packager.compile.toolchain.find`.
        """
        from mblob.packager.compile.toolchain import find

        return find(self.cc, self.target)

    def _write(self, sink: Sink, lead: int = 0) -> int:
        """Write the blob, and return its size in bytes."""
        return self.plan.write(watched(sink), lead=lead)

    @property
    def lead(self) -> int:
        """Bytes by which the blob starts behind a multiple of its alignment."""
        return self.plan.lead or 0

    @property
    def symbol(self) -> str:
        """Of the blob in the library."""
        return self.prefix + self.dialect.symbol

    def write_object(self, folder: Path, machine: ElfTarget) -> tuple[Path, int]:
        """Write the blob as an object for a linker to place. In a system library its symbol is
        hidden.

        Returns:
            The file, and the size of the blob.
        """
        from mblob.packager.write.elf_writer import section_for, write_object

        path, index, hidden = folder / "devc.o", self.plan.index, self.system_lib
        section = section_for(machine, self.plan.alignment, self.lead)
        write = partial(self._write, lead=self.lead)
        size = write_object(
            path, machine, self.symbol, section, write, has_index=index, hidden=hidden
        )
        return path, size

    def write_c(self, folder: Path) -> tuple[Path, int]:
        """The same as C text, whose compiler aligns the blob."""
        from mblob.packager.write.devc_c import write_c

        if aligned := self.aligned_keys:
            raise BuildError(
                f"embed='c': the compiler places the packed modules, so the payload of {aligned[0]!r} cannot be"
                " aligned; leave out alignment= (--align), or choose another embed="
            )
        return folder / "devc.c", write_c(folder / "devc.c", self.symbol, self._write)

    @property
    def aligned_keys(self) -> list[str]:
        """Keys of payloads whose alignment the caller asked for."""
        return [
            e.type_key for e in self.plan.entries if e.alignment > 1 and e.type_key != SAFETENSORS
        ]

    def type_keys(self) -> frozenset[str] | None:
        """Of the modules in the library; None if the caller's `fpack_imports` writes them."""
        return (
            None
            if self.fpack_imports
            else frozenset(module.type_key for module in self.module.walk())
        )

    def wrapped(self) -> list[Wrapped]:
        """The plain functions that get a packed function, of all host modules.

        Raises:
            BuildError: two modules declare one name differently.
        """
        from mblob.packager.functions.wrappers import Wrapped

        found: dict[str, Wrapped] = {}
        for node in self.host:
            for prototype in node.declared.functions:
                wrapped = Wrapped(prototype, prototype.name in node.declared.packed, self.dialect)
                if found.setdefault(prototype.name, wrapped) != wrapped:
                    raise BuildError(
                        f"functions: {prototype.name} is declared by two modules, and differently"
                    )
        return list(found.values())

    def named(self) -> list[str]:
        """Packed functions that host modules have by their names alone."""
        return [name for node in self.host for name in node.declared.names]

    def table_rows(self) -> list[Row]:
        """Rows of tables of functions that came with the host modules."""
        return list(dict.fromkeys(row for node in self.host for row in node.rows))

    def table_of(self, told: Told, others: Sequence[Row]) -> list[Row]:
        """The rows of the table of functions.

        Args:
            told: of the functions without a prototype.
            others: all other rows.
        """
        if self.dialect.is_ffi:  # whose functions have names of their own
            return [*others, *told.plain]
        is_announced = self.plan.index and self.embed != "c" and self.fpack_imports is None
        unannounced = self.plan.is_needed and not is_announced
        return [*others, *told.rows(others, unannounced_blob=unannounced)]

    def packed_forms(self, *, with_table: bool = False) -> str:
        """C text of the packed functions, "" if there are none.

        Args:
            with_table: and the table of functions, of these alone.
        """
        from mblob.packager.functions import wrappers

        wrapped = self.wrapped()
        if not wrapped:
            return ""
        text = wrappers.packed_forms(wrapped, self.dialect)
        rows = wrappers.rows_of(wrapped)
        return text + wrappers.table(rows) + wrappers.announcement(rows) if with_table else text

    def packed_file(self, work: Path) -> Path | None:
        """What the caller's `fpack_imports` makes; None without one, or without imports (as in
        TVM)."""
        if self.fpack_imports is None or not self.module.imported_modules:
            return None
        made = self.fpack_imports(self.module, self.system_lib, self.prefix, str(work))
        if not isinstance(made, (str, Path)) or not Path(made).is_file():
            raise BuildError(
                f"fpack_imports returned {made!r}, expected the path of a file that it wrote"
            )
        return Path(made)


def check_prefix(prefix: str, system_lib: bool) -> None:
    """Refuse a prefix that symbols cannot have, or one without a system library.

    Raises:
        BuildError, TypeError: saying what is expected.
    """
    if not isinstance(prefix, str):
        raise BuildTypeError(f"prefix: expected a str, found {type(prefix).__name__}")
    if prefix and not system_lib:
        raise BuildError(
            f"prefix={prefix!r}: only the symbols of a system library have a prefix; add system_lib=True,"
            " or leave the prefix out"
        )
    if prefix and (
        not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", prefix) or len(prefix) > PREFIX_LIMIT
    ):
        raise BuildError(
            f"prefix={prefix[:PREFIX_LIMIT]!r}: expected the start of a C name: letters, digits and _, no digit first,"
            f" at most {PREFIX_LIMIT} characters"
        )
    if prefix.startswith(_RUNTIME):
        raise BuildError(
            f"prefix={prefix!r}: names that start so are the runtime's; choose another"
        )
