"""Values that options of an export have: `dialect`, `embed`, `digest`."""

from __future__ import annotations

from mblob.bytes.digest import ALGORITHMS
from mblob.errors import one_of
from mblob.packager.errors import BuildError
from mblob.packager.write.dialects import DIALECTS

CHANGES_LINKED = ("grow", "append")  # ways of `embed=` that write the blob into a linked file
EMBEDDINGS = ("auto", *CHANGES_LINKED, "object", "c")
CHOICES = {"dialect": tuple(DIALECTS), "embed": EMBEDDINGS, "digest": tuple(ALGORITHMS)}


def check_choices(where: str = "", **given: str) -> None:
    """Refuse a value that an option of `CHOICES` does not have.

    Args:
        where: what the error begins with.
    """
    for name, value in given.items():
        if value not in CHOICES[name]:
            raise BuildError(f"{where}{name}: {one_of(CHOICES[name], value)}")
