"""The runtimes that standalone libraries get are compiled once, for all runs until their sources change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.built_once import built_once
from tests.e2e.programs import ROOT


@pytest.fixture(autouse=True, scope="session")
def _cache() -> Iterator[None]:
    sources = (ROOT / "csrc", ROOT / "packager" / "standalone")
    folder = built_once("standalone-runtimes", lambda folder: None, sources=sources)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MBLOB_CACHE_DIR", str(folder))
        yield
