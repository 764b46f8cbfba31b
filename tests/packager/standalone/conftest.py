"""Standalone libraries share the runtimes that are compiled for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def _cache(standalone_runtimes: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MBLOB_CACHE_DIR", str(standalone_runtimes))
        yield
