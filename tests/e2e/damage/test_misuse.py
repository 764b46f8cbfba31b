"""The same circle with wrong calls, missing parts, damaged files and failing tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from tests.e2e.kernels import KERNELS, arrays, kernels

WRONG = [
    ((np.zeros(3, "float32"),), r"argument"),
    (
        (np.zeros(3, "float64"), np.zeros(3, "float32"), np.zeros(3, "float32"), 3),
        r"float32.*float64",
    ),
    (
        (np.zeros(6, "float32")[::2], np.zeros(3, "float32"), np.zeros(3, "float32"), 3),
        r"(?i)contiguous|compact",
    ),
    ((1, np.zeros(3, "float32"), np.zeros(3, "float32"), 3), r"\ba\b|argument"),
    (
        (np.zeros(3, "float32"), np.zeros(3, "float32"), np.zeros(3, "float32"), "3"),
        r"\bn\b|argument",
    ),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("args", "text"), WRONG, ids=["count", "dtype", "strides", "no tensor", "no int"]
)
def test_a_wrong_call_is_one_clear_line(tmp_path: Path, args: tuple, text: str) -> None:
    kernels().export_library(tmp_path / "k.so")
    mod = mblob.load_module(tmp_path / "k.so")
    with pytest.raises((mblob.MblobError, TypeError, ValueError), match=text) as caught:
        mod["vadd"](*args)
    assert "\n" not in str(caught.value)


def test_prototypes_with_dimensions_check_shapes(tmp_path: Path) -> None:
    source = "#include <stdint.h>\nvoid twice(const float *x, float *y, int64_t n) { while (n--) y[n] = 2 * x[n]; }\n"
    host = mblob.csource_module(
        source, functions=["void twice(const float x[n], float y[n], int64_t n)"]
    )
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


def test_a_symbol_that_nobody_provides_is_an_error_when_the_library_is_opened(
    tmp_path: Path,
) -> None:
    source = "int nobody_has_this(int);\nint f(int a) { return nobody_has_this(a); }"
    host = mblob.csource_module(source, functions=["int f(int a)"])
    with pytest.warns(mblob.PortabilityWarning, match="defines nobody_has_this: opening"):
        host.export_library(tmp_path / "u.so")
    with pytest.raises(
        mblob.IncompatibleError, match=r"undefined symbol: nobody_has_this; link the library"
    ):
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
def test_a_key_that_nobody_knows_without_an_index_is_an_error_or_a_stub_of_the_rest(
    tmp_path: Path, missing: str
) -> None:
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
        assert [(m.type_key, bytes(m.payload)) for m in mod.imported_modules] == [
            ("nobodys_key", b"payload")
        ]
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


# -- paths and names that cannot be ----------------------------------------------------------------

IMPOSSIBLE = {"half a surrogate pair": "\ud800.%s", "NUL": "a\0.%s"}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    module = kernels()
    module.import_module(mblob.blob_module("raw", b"x"))
    path = tmp_path_factory.mktemp("misuse") / "k.so"
    module.export_library(path)
    return path


def of_paths(wrong: str, good: Path, folder: Path) -> dict[str, Callable[[], object]]:
    """Every public function that takes a path, with one that no file can have."""
    so, source = wrong % "so", Path(wrong % "c")

    def export(**options: Any) -> None:
        mblob.csource_module("int one(void) { return 1; }").export_library(
            folder / "o.so", **options
        )

    return {
        "open": lambda: mblob.open(so),
        "load_module": lambda: mblob.load_module(so),
        "verify": lambda: mblob.verify(Path(so)),
        "verify against": lambda: mblob.verify(good, against=[so]),
        "verify root": lambda: mblob.verify(good, against=(), root=so),
        "diff": lambda: mblob.diff(good, so),
        "extract": lambda: mblob.extract(so, folder / "out"),
        "extract to a file": lambda: mblob.extract(good, wrong % "payload", entries=[1]),
        "extract to a folder": lambda: mblob.extract(good, so + "/"),
        "add": lambda: mblob.add(so, blobs={"more": b"y"}),
        "add to": lambda: mblob.add(good, blobs={"more": b"y"}, output=so),
        "add a payload": lambda: mblob.add(good, blobs={"more": Path(so)}, output=folder / "s.so"),
        "add weights": lambda: mblob.add(good, weights=so, output=folder / "s.so"),
        "add parameters": lambda: mblob.add(good, params=so, output=folder / "s.so"),
        "swap": lambda: mblob.swap(so, {1: b"y"}),
        "swap to": lambda: mblob.swap(good, {1: b"y"}, so),
        "swap a payload": lambda: mblob.swap(good, {1: Path(so)}, folder / "s.so"),
        "swap weights": lambda: mblob.swap(good, weights=so, output=folder / "s.so"),
        "strip_index": lambda: mblob.strip_index(so),
        "strip_index to": lambda: mblob.strip_index(good, so, force=True),
        "add_index": lambda: mblob.add_index(so),
        "convert": lambda: mblob.convert(so, folder / "c.so", dialect="ffi"),
        "convert to": lambda: mblob.convert(good, so, dialect="ffi"),
        "convert objects": lambda: mblob.convert(
            good, folder / "c.so", dialect="ffi", objects=[wrong % "o"]
        ),
        "export_library": lambda: kernels().export_library(so),
        "export_library of objects": lambda: kernels().export_library(wrong % "tar"),
        "a system library": lambda: kernels().export_library(wrong % "a", system_lib=True),
        "fcompile": lambda: kernels().export_library(so, fcompile=lambda *_, **__: None),
        "addons": lambda: export(addons=[wrong % "o"]),
        "workspace_dir": lambda: export(workspace_dir=so),
        "carry": lambda: export(carry=[wrong % "c"]),
        "cc": lambda: export(cc=wrong % "cc"),
        "target": lambda: export(target=wrong % "none"),
        "options": lambda: export(options=["-D" + wrong % "x"]),
        "csource_module": lambda: mblob.csource_module(source),
        "static_library": lambda: mblob.static_library(wrong % "o"),
        "device_module": lambda: mblob.device_module("opencl", source),
        "blob_module": lambda: mblob.blob_module("key", Path(so)),
        "safetensors_module": lambda: mblob.safetensors_module(so),
    }


PATHS = list(of_paths("%s", Path(), Path()))


@pytest.mark.parametrize("kind", IMPOSSIBLE)
@pytest.mark.parametrize("function", PATHS)
def test_a_path_that_no_file_can_have_is_one_error_that_shows_it(
    tmp_path: Path, library: Path, function: str, kind: str
) -> None:
    call = of_paths(IMPOSSIBLE[kind], library, tmp_path)[function]
    with pytest.raises((ValueError, mblob.ToolchainError)) as caught:
        call()
    text = str(caught.value)
    assert ("\\ud800." if kind == "half a surrogate pair" else "a\\x00.") in text
    assert not isinstance(caught.value, UnicodeError)
    assert "embedded null" not in text
    assert text.isprintable()
    assert list(tmp_path.glob("*")) == []


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "vadd\0"])
def test_a_name_that_no_function_can_have_is_not_there(library: Path, name: str) -> None:
    loaded = mblob.load_module(library)
    for module in (loaded, loaded.imported_modules[0], kernels()):
        assert not module.implements_function(name)
        for look in (module.__getitem__, module.get_function, module.symbol):
            with pytest.raises(AttributeError) as caught:
                look(name)
            assert ascii(name).strip("'") in str(caught.value) or look == module.symbol
    with pytest.raises(ValueError, match="is not known"):
        mblob.device(name)


def test_names_that_a_file_stores_are_unicode() -> None:
    one = np.zeros(1, "float32")
    for call in (
        lambda: mblob.json_module("key", "\ud800", "{}"),
        lambda: mblob.json_module("key", "f", "{}", ["\ud800"]),
        lambda: mblob.const_loader_module({"\ud800": one}, {}),
        lambda: mblob.const_loader_module({}, {"\ud800": []}),
        lambda: mblob.save_param_dict({"\ud800": one}),
        lambda: mblob.csource_module("int \ud800;"),
        lambda: mblob.device_module("opencl", "__kernel void \ud800() {}"),
    ):
        with pytest.raises(ValueError, match=r"Unicode|surrogate") as caught:
            call()
        assert not isinstance(caught.value, UnicodeError)


def test_a_manifest_names_the_key_of_a_text_with_a_nul(tmp_path: Path) -> None:
    from mblob.packager.link.manifest import load

    for key in ("output", "kernels", "graph", "params", "options", "cc"):
        lines = {
            "output": '"o.so"',
            key: '["a\\u0000"]' if key in ("kernels", "options") else '"a\\u0000"',
        }
        (tmp_path / "m.toml").write_text("".join(f"{k} = {v}\n" for k, v in lines.items()))
        with pytest.raises(ValueError, match=rf"m\.toml: {key}: 'a\\x00' has a NUL in it"):
            load(tmp_path / "m.toml")
