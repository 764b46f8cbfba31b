"""The Python reader over the shared vectors; tests/c runs the C reader over the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mblob
from mblob.errors import DigestError, FormatError
from mblob.format import classic

VECTORS = Path(__file__).parents[1] / "vectors"
GOOD = sorted((VECTORS / "good").glob("*.bin"))
BAD = sorted((VECTORS / "bad").glob("*.bin"))


def facts_of(path: Path) -> dict:
    return json.loads(path.with_suffix(".json").read_text())


def test_there_are_vectors() -> None:
    assert len(GOOD) > 30
    assert len(BAD) > 80


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_a_good_blob_is_read_as_described(path: Path) -> None:
    facts = facts_of(path)
    blob = classic.read(
        memoryview(path.read_bytes()),
        level="full",
        index_expected=facts.get("index_expected", False),
    )
    found = [{"type_key": e.type_key, "offset": e.offset, "size": e.size} for e in blob.entries]
    assert found == facts["entries"]
    assert [list(e.imports) for e in blob.entries] == facts["imports"]


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_bad_blob_is_refused_by_its_rule(path: Path) -> None:
    facts = facts_of(path)
    data = memoryview(path.read_bytes())
    with pytest.raises((FormatError, DigestError)) as caught:
        classic.read(data, level="full", index_expected=facts.get("index_expected", False))
    error = caught.value
    code = error.code if isinstance(error, FormatError) else "digest"
    assert code == facts["code"], str(error)
    assert len(str(error)) < 400
    assert "\n" not in str(error)
    if facts["offset"] is not None:
        assert error.offset == facts["offset"]
    if "entry" in facts:
        assert error.entry == facts["entry"]


def test_the_vectors_are_what_the_generator_writes(tmp_path: Path) -> None:
    """Vectors change only together with their generator."""
    import runpy
    import shutil

    copy = tmp_path / "tests" / "vectors"
    copy.mkdir(parents=True)
    shutil.copy(VECTORS / "generate.py", copy)
    (tmp_path / "mblob").symlink_to(Path(mblob.__file__).parent)
    runpy.run_path(str(copy / "generate.py"), run_name="__main__")
    for folder in ("good", "bad"):
        wrote = {p.name: p.read_bytes() for p in (copy / folder).iterdir()}
        kept = {p.name: p.read_bytes() for p in (VECTORS / folder).iterdir()}
        assert wrote == kept
