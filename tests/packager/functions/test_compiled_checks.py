"""The object with the checks of packed functions, which mblob's own build makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.packager.functions import checks
from mblob.packager.functions.wrappers import compiled_checks
from mblob.packager.link import inputs
from mblob.packager.objects.object_files import machine_of
from mblob.packager.write.dialects import CLASSIC

pytestmark = pytest.mark.own_process

KERNEL = "void scale(float *x, int n) { for (int i = 0; i < n; i++) x[i] *= 2; }\n"


def _library(folder: Path, **options: str) -> tuple[Path, bool]:
    """A library, and True if its checks are those of the object."""
    path = folder / "scale.so"
    mblob.export_library(mblob.csource_module(KERNEL), path, **options)  # type: ignore[arg-type]
    symbols = ElfFile(memoryview(path.read_bytes()), str(path)).symtab
    return path, any(s.name == "mblob_memory" for s in symbols)  # which the kernel does not need


@pytest.mark.parametrize("dialect", checks.DIALECTS)
def test_a_library_gets_the_object_and_checks_as_with_the_text(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "object").mkdir()
    (tmp_path / "text").mkdir()
    with_object, has_object = _library(tmp_path / "object", dialect=dialect)
    monkeypatch.setattr(inputs, "compiled_checks", lambda *_: None)
    with_text, has_none = _library(tmp_path / "text", dialect=dialect)
    assert (has_object, has_none) == (True, False)

    texts = []
    for path in (with_object, with_text):
        scale = mblob.load_module(path).get_function("scale")
        x = np.arange(3, dtype="float32")
        scale(x, 3)
        assert x.tolist() == [0, 2, 4]
        for wrong in ((x, 3, 4), (x.astype("int32"), 3), (x[::2], 1), (x, "3"), (x, 1 << 40)):
            with pytest.raises(mblob.MblobError) as caught:
                scale(*wrong)
            texts.append(str(caught.value))
    assert texts[:5] == texts[5:]


def test_objects_of_another_machine_get_the_text() -> None:
    path = checks.object_path("classic")
    ours = machine_of(ElfFile(memoryview(path.read_bytes()), str(path)))
    assert compiled_checks(CLASSIC, ours) == path
    for other in (ours._replace(e_flags=ours.e_flags ^ 1), ours._replace(properties=b"other")):
        assert compiled_checks(CLASSIC, other) is None


@pytest.mark.parametrize("dialect", checks.DIALECTS)
def test_many_packed_functions_are_compiled_by_several_compilers(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "_AT_ONCE", 2)
    text = "".join(f"int f{i}(int x) {{ return x + {i}; }}\n" for i in range(5))
    files = []
    for name in "ab":
        work = tmp_path / name
        made = tmp_path / f"{name}.so"
        mblob.csource_module(text).export_library(made, workspace_dir=work, dialect=dialect)  # type: ignore[arg-type]
        parts = sorted(path.name for path in work.glob("mblob_functions*.o"))
        assert parts == ["mblob_functions.o", "mblob_functions_1.o", "mblob_functions_2.o"]
        files.append(made)
    assert files[0].read_bytes() == files[1].read_bytes()
    lib = mblob.load_module(files[0])
    assert [lib[f"f{i}"](1) for i in range(5)] == [1, 2, 3, 4, 5]
    assert set(lib.functions) == {f"f{i}" for i in range(5)}
