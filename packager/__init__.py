"""The build side: from a module tree to a shared library. Owns the compiler and every write to an
ELF file.

Users reach it through `import mblob`. It never imports `mblob.loader`: packing works where nothing
may be loaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mblob.errors import needs_package

# Rooms, and modules of other rooms, that compile and link. Machines that only run libraries do not have them:
# wheels have them in a distribution of their own, mblob-packager (wheel_parts.py).
PARTS = ("byoc", "compile", "device", "functions", "link", "standalone")
MODULES = ("edit.add_code", "edit.convert", "edit.standalone", "join.join")


class _AbsentParts:
    """Finds no modules: it is asked last, and raises the error that names the extra."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in {f"{__name__}.{part}" for part in (*PARTS, *MODULES)}:
            raise needs_package("packing", "mblob-packager")


if not (Path(__file__).parent / PARTS[0]).is_dir():
    sys.meta_path.append(_AbsentParts)
