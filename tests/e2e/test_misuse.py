"""The same circle with wrong calls, missing parts, damaged files and failing tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.e2e.kernels import KERNELS, arrays, kernels

WRONG = [
    ((np.zeros(3, "float32"),), r"argument"),
    ((np.zeros(3, "float64"), np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"float32.*float64"),
    ((np.zeros(6, "float32")[::2], np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"(?i)contiguous|compact"),
    ((1, np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"\ba\b|argument"),
    ((np.zeros(3, "float32"), np.zeros(3, "float32"), np.zeros(3, "float32"), "3"), r"\bn\b|argument"),
]


@pytest.mark.parametrize(("args", "text"), WRONG, ids=["count", "dtype", "strides", "no tensor", "no int"])
def test_a_wrong_call_is_one_clear_line(tmp_path: Path, args: tuple, text: str) -> None:
    kernels().export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    with pytest.raises((mblob.MblobError, TypeError, ValueError), match=text) as caught:
        mod["vadd"](*args)
    assert "\n" not in str(caught.value)


def test_prototypes_with_dimensions_check_shapes(tmp_path: Path) -> None:
    source = "#include <stdint.h>\nvoid twice(const float *x, float *y, int64_t n) { while (n--) y[n] = 2 * x[n]; }\n"
    host = mblob.csource_module(source, functions=["void twice(const float x[n], float y[n], int64_t n)"])
    host.export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    x, y = np.arange(3, dtype="float32"), np.zeros(3, "float32")
    mod["twice"](x, y, 3)
    assert list(y) == [0, 2, 4]
    with pytest.raises((mblob.KernelError, ValueError), match="4"):
        mod["twice"](x, y, 4)


def test_a_missing_loader_names_the_key_the_entry_and_the_remedy(tmp_path: Path) -> None:
    host = kernels()
    host.import_module(mblob.json_module("tensorrt", "sub", "{}", []))
    host.export_library(tmp_path / "m.so")
    with pytest.raises(mblob.LoaderMissingError) as caught:
        mblob.load_module(tmp_path / "m.so")
    assert caught.value.type_key == "tensorrt"
    assert caught.value.hint
    assert "tensorrt" in str(caught.value)
    assert "1" in str(caught.value)
    mod = mblob.load_module(tmp_path / "m.so", missing="stub")
    a, b, c = arrays(5)
    mod["vadd"](a, b, c, 5)
    np.testing.assert_array_equal(c, a + b)


def test_a_symbol_that_nobody_provides_is_an_error_when_the_library_is_opened(tmp_path: Path) -> None:
    source = "int nobody_has_this(int);\nint f(int a) { return nobody_has_this(a); }"
    mblob.csource_module(source, functions=["int f(int a)"]).export_library(tmp_path / "u.so")
    with pytest.raises(mblob.IncompatibleError, match=r"undefined symbol: nobody_has_this; link the library"):
        mblob.load_module(tmp_path / "u.so")


def test_a_file_that_is_overwritten_while_it_is_loaded_is_noticed(tmp_path: Path) -> None:
    kernels().export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    content = (tmp_path / "k.so").read_bytes()
    with (tmp_path / "k.so").open("r+b") as file:
        file.write(content)  # the same bytes, so that what is loaded stays sound
    with pytest.raises(OSError, match="overwritten in place"):
        mblob.load_module(tmp_path / "k.so")
    assert mod["mean"](np.ones(2), 2) == 1.0


@pytest.mark.parametrize("missing", ["error", "stub"])
def test_a_key_that_nobody_knows_without_an_index_ends_the_list(tmp_path: Path, missing: str) -> None:
    """Everything before it is usable, if the rest may be missing."""
    host = kernels()
    host.import_module(mblob.blob_module("nobodys_key", b"payload"))
    with pytest.warns(mblob.UnreadableWarning):
        host.export_library(tmp_path / "n.so", index=False)
    if missing == "error":
        with pytest.raises(mblob.FormatError) as caught:
            mblob.load_module(tmp_path / "n.so")
        assert caught.value.code == "unknown_key"
    else:
        mod = mblob.load_module(tmp_path / "n.so", missing=missing)
        assert (mod.type_key, mod.imported_modules) == ("library", [])
        assert mod["mean"](np.ones(2), 2) == 1.0


def test_a_library_cut_anywhere_is_refused_and_never_crashes(tmp_path: Path) -> None:
    host = kernels()
    host.import_module(mblob.blob_module("my_key", bytes(5000)))
    host.export_library(tmp_path / "k.so")
    whole = (tmp_path / "k.so").read_bytes()
    with mblob.open(tmp_path / "k.so") as lib:
        blob = lib.to_json()["blob"]
    end = blob["offset"] + blob["size"]
    for cut in [*range(0, 600, 40), *range(600, end, 1009), end - 1]:
        path = tmp_path / f"cut{cut}.so"
        path.write_bytes(whole[:cut])
        with pytest.raises(mblob.MblobError):
            mblob.load_module(path)


def test_damage_in_the_blob_is_found_before_any_code_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    source = '#include <stdio.h>\n__attribute__((constructor)) static void run(void) { fclose(fopen("%s", "w")); }\n'
    host = mblob.csource_module(source % marker)
    host.import_module(mblob.blob_module("my_key", b"payload-of-my-key"))
    host.export_library(tmp_path / "k.so")
    whole = bytearray((tmp_path / "k.so").read_bytes())
    whole[whole.index(b"payload-of-my-key")] ^= 4
    (tmp_path / "bad.so").write_bytes(whole)
    with pytest.raises(mblob.DigestError, match="my_key"):
        mblob.load_module(tmp_path / "bad.so")
    assert not marker.exists()
    mblob.load_module(tmp_path / "k.so")
    assert marker.exists()


def test_failures_of_packing_keep_the_old_file_and_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    path = out / "k.so"
    kernels().export_library(path)
    before = path.read_bytes()
    broken = mblob.csource_module("int f(void) { return not_declared; }")
    with pytest.raises(mblob.ToolchainError) as caught:
        broken.export_library(path)
    assert "not_declared" in caught.value.output
    assert caught.value.command
    missing = kernels()
    missing.import_module(mblob.blob_module("k", b"x"))
    with pytest.raises(mblob.ToolchainError, match="no-such-cc"):
        missing.export_library(path, cc="no-such-cc")
    gone = tmp_path / "gone.bin"
    gone.write_bytes(b"x")
    late = kernels()
    late.import_module(mblob.blob_module("k", gone))
    gone.unlink()
    with pytest.raises((OSError, mblob.MblobError), match=r"gone\.bin"):
        late.export_library(path)
    twice = kernels()
    twice.import_module(mblob.csource_module(KERNELS))
    with pytest.raises((mblob.MblobError, ValueError), match="defined twice"):
        twice.export_library(path)
    assert path.read_bytes() == before
    assert [p.name for p in out.iterdir()] == ["k.so"]
