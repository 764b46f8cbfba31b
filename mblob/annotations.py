"""Names of `typing` for annotations, in modules that load a library and call a function of it.

Importing `typing` takes longer than all else that a first result needs, and nothing reads
annotations while a program runs. Modules that a first result imports take these names from here,
and those of `collections.abc` from `_collections_abc`, which Python itself imports. All others take
them from `typing` and `collections.abc` (`tests/unit/test_imports.py`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Any
    from typing import NoReturn as NoReturn
    from typing import overload as overload
else:
    Any = NoReturn = object

    def overload(function: object) -> object:
        """For the declarations in front of a function that is called in several ways."""
        return function
