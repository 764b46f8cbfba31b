"""What callers declare of plain C functions: prototypes, which are parsed when somebody asks for
them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mblob.packager.errors import BuildError

if TYPE_CHECKING:
    from mblob.packager.modules.prototypes import Prototype


class Declared:
    """Plain C functions that get a packed form.

    Args:
        functions: prototypes, as of `csource_module`.
        packed: which packed forms take the bare name, as of `csource_module`.
        who: the function that they are arguments of.
    """

    def __init__(
        self,
        functions: Sequence[str] | str = (),
        packed: str | Sequence[str] | None = None,
        who: str = "",
    ):
        self._given = functions
        self._packed = packed
        self._who = who

    @cached_property
    def functions(self) -> tuple[Prototype, ...]:
        """The prototypes.

        Raises:
            BuildError: one that is none or has no packed form, or a name in `packed` that none of
                them has.
        """
        if not self._given:
            found: tuple[Prototype, ...] = ()
        else:
            # the C parser is loaded for those who need it
            from mblob.packager.modules.prototypes import parse

            found = parse(self._given)
        self._packed_names([p.name for p in found])
        return found

    @cached_property
    def packed(self) -> tuple[str, ...]:
        """Names among them whose packed form takes the bare name.

        Raises:
            BuildError: as of `functions`.
        """
        return self._packed_names([p.name for p in self.functions])

    def _packed_names(self, known: Sequence[str]) -> tuple[str, ...]:
        packed = self._packed
        if packed is None:
            return ()
        if packed == "name" and "name" not in known:
            if not known:
                what = "packed= (--packed) needs functions= (--function)"
                raise BuildError(f"{self._who}: {what}: prototypes of what shall be packed")
            return tuple(known)
        names = (packed,) if isinstance(packed, str) else tuple(packed)
        for name in names:
            if name not in known:
                raise BuildError(
                    f"{self._who}: packed names {name!r}, which functions= (--function) does not declare; it declares"
                    f" {', '.join(known) or 'nothing'}"
                )
        return names


NOTHING = Declared()
