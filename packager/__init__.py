"""The build side: from a module tree to a shared library. Owns the compiler and every write to an
ELF file.

Users reach it through `import mblob`. It never imports `mblob.loader`: packing works where nothing
may be loaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mblob import __version__
from mblob.errors import IncompatibleError, needs_package

# Rooms, and modules of other rooms, that compile and link. Machines that only run libraries do not have them:
# wheels have them in a distribution of their own, mblob-packager (wheel_parts.py).
PARTS = ("byoc", "compile", "device", "functions", "link", "standalone")
MODULES = ("edit.add_code", "edit.convert", "edit.standalone", "join.join")
_VERSIONED = Path(__file__).parent / "compile" / "__init__.py"


class _NoParts:
    """Finds no modules, and raises an error for those that compile and link: they are absent, or of another version."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in {f"{__name__}.{part}" for part in (*PARTS, *MODULES)}:
            if not _VERSIONED.is_file():
                raise needs_package("packing", "mblob-packager")
            raise IncompatibleError(
                f"packing needs mblob-packager of the version of mblob, {__version__}, found another: pip install"
                f" 'mblob[pack]=={__version__}'"
            )


if not _VERSIONED.is_file():
    sys.meta_path.append(_NoParts)  # asked last: a frozen program has modules without files
elif f'\n__version__ = "{__version__}"\n' not in _VERSIONED.read_text(encoding="utf-8"):
    sys.meta_path.insert(0, _NoParts)
