"""What one export was asked for, after its arguments were checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mblob.module import Module
from packager.blob import BlobWriter, Contents
from packager.errors import BuildError
from packager.wrappers import Wrapped, packed_forms

EMBEDDINGS = ("auto", "grow", "object", "c", "append")


@dataclass(frozen=True)
class Request:
    """The arguments of `export_library`, of which see the meaning there; `options` is split."""

    module: Module
    contents: Contents
    fpack_imports: Callable[..., Any] | None
    addons: list[Path]
    embed: str
    index: bool
    digest: str
    cc: str | Sequence[str] | None
    target: str | None
    options: tuple[str, ...]

    def blob(self, triple: str) -> BlobWriter:
        """The writer of the blob for a target."""
        return BlobWriter(self.contents, self.index, self.digest, triple)

    def wrapped(self) -> list[Wrapped]:
        """The plain functions that get a packed form, of all host modules.

        Raises:
            BuildError: two modules declare one name differently.
        """
        found: dict[str, Wrapped] = {}
        for node in self.contents.host:
            for prototype in node.functions:
                wrapped = Wrapped(prototype, prototype.name in node.packed)
                if found.setdefault(prototype.name, wrapped) != wrapped:
                    raise BuildError(f"functions: {prototype.name} is declared by two modules, and differently")
        return list(found.values())

    def packed_forms(self) -> str | None:
        """C text of the packed forms, None if there are none."""
        wrapped = self.wrapped()
        return packed_forms(wrapped) if wrapped else None

    def packed_file(self, work: Path) -> Path | None:
        """What the caller's `fpack_imports` makes; None without one, or without imports (as in TVM)."""
        if self.fpack_imports is None or not self.module.imported_modules:
            return None
        made = self.fpack_imports(self.module, False, "", str(work))
        if not isinstance(made, (str, Path)) or not Path(made).is_file():
            raise BuildError(f"fpack_imports returned {made!r}, expected the path of a file that it wrote")
        return Path(made)
