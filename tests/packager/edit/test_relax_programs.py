"""Programs of Relax: their constants are tensors that can be extracted, compared and replaced, and
`convert` writes them in the other dialect."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.errors import PortabilityWarning
from mblob.format.type_keys import RELAX_EXECUTABLES
from mblob.packager.errors import BuildError
from mblob.packager.modules.payload_conversion import convert_payload, key_in
from tests.loader.executors import relax_programs
from tests.loader.executors.test_relax_golden import CLASSIC, Player

pytestmark = pytest.mark.own_process
CONSTANTS = [
    "cnn_bound",
    "compiled_control",
    "control_flow",
    *(f"classic/relax_{r}" for r in CLASSIC),
]
BYTECODE = [
    "byoc_c", "call_tir_dyn", "closures", "cnn_bound", "control_flow", "dtypes", "inplace", "mlp_dynamic",
    "mlp_static", "shapes_ints_strings", "tuples", "v25/control_bytecode", "v26/mlp_dynamic",
]  # fmt: skip


@pytest.fixture
def relax(golden: Path) -> Path:
    folder = golden / "relax"
    if not folder.exists():
        pytest.skip("no golden libraries of Relax")
    return folder


def tensors_of(path: Path) -> dict[str, Any]:
    with mblob.open(path, verify="full") as lib:
        found = {t.name: t for e in lib.entries for t in e.tensors}
        return {
            name: np.frombuffer(t.data, str(t.dtype)).reshape(t.shape) for name, t in found.items()
        }


# -- constants -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_replaced_by_the_names_that_inspect_gives(
    relax: Path, tmp_path: Path, name: str
) -> None:
    source, out = relax / f"{name}.so", tmp_path / "out.so"
    old = tensors_of(source)
    new = {
        key: (np.logical_not(value) if value.dtype == bool else value + 1).astype(value.dtype)
        for key, value in old.items()
    }
    assert new
    mblob.swap(source, output=out, weights=new)
    assert out.stat().st_size == source.stat().st_size
    for key, value in tensors_of(out).items():
        np.testing.assert_array_equal(value, new[key])
    mblob.swap(out, weights=old)
    assert tensors_of(out).keys() == old.keys()
    assert payload_of(out) == payload_of(source)


def payload_of(path: Path) -> bytes:
    with mblob.open(path) as lib:
        return bytes(next(e for e in lib.entries if e.type_key in RELAX_EXECUTABLES).view())


def test_a_model_computes_with_its_new_constants(relax: Path, tmp_path: Path) -> None:
    library = tmp_path / "cnn.so"
    shutil.copy(relax / "cnn_bound.so", library)
    library.chmod(0o644)
    weights = tensors_of(library)
    assert weights["constant 18"].shape == (5,)
    mblob.swap(library, weights={name: np.zeros_like(value) for name, value in weights.items()})
    vm = mblob.relax.VirtualMachine(mblob.load_module(library), mblob.cpu(0))
    found = vm["forward"](cnn_input(relax)).numpy()
    np.testing.assert_allclose(found, np.full_like(found, 0.2), rtol=1e-6)


def cnn_input(relax: Path) -> Any:
    case = json.loads((relax / "cnn_bound.json").read_text())["cases"][0]
    with np.load(relax / "cnn_bound.npz") as arrays:
        return arrays[case["args"][0]["key"]]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (
            {"constant 7": np.zeros(9, "f4")},
            r"'constant 7': expected float32 of shape \(8,\), .*, found float32 of shape \(9,\)",
        ),
        ({"constant 7": np.zeros(8, "f8")}, "found float64 of shape"),
        ({"constant 8": np.zeros(8, "f4")}, "no tensor 'constant 8'.*there are constant 11"),
    ],
    ids=["shape", "dtype", "name"],
)
def test_wrong_constants_are_refused_by_name(
    relax: Path, tmp_path: Path, weights: dict[str, Any], words: str
) -> None:
    with pytest.raises(BuildError, match=words):
        mblob.swap(relax / "cnn_bound.so", output=tmp_path / "x.so", weights=weights)
    assert not (tmp_path / "x.so").exists()


@pytest.mark.parametrize("name", ["cnn_bound", "control_flow", "classic/relax_020"])
def test_extracted_constants_are_what_swap_takes(relax: Path, tmp_path: Path, name: str) -> None:
    source, folder = relax / f"{name}.so", tmp_path / "tensors"
    mblob.extract(source, folder, tensors=True)
    files = sorted(folder.iterdir())
    old = tensors_of(source)
    assert len(files) == len(old)
    by_name = {next(k for k in old if f".{k.replace(' ', '_')}." in f.name): f for f in files}
    for key, value in old.items():
        np.testing.assert_array_equal(np.load(by_name[key]), value)
    ones = {key: np.ones_like(value) for key, value in old.items()}
    mblob.swap(source, output=tmp_path / "ones.so", weights=ones)
    mblob.swap(tmp_path / "ones.so", weights=by_name)
    assert payload_of(tmp_path / "ones.so") == payload_of(source)
    bundle = tmp_path / "all.safetensors"
    mblob.extract(source, bundle, tensors=True)
    mblob.swap(source, output=tmp_path / "again.so", weights=bundle)
    assert payload_of(tmp_path / "again.so") == payload_of(source)


def test_diff_names_the_constants_that_differ(relax: Path, tmp_path: Path) -> None:
    source, out = relax / "cnn_bound.so", tmp_path / "out.so"
    mblob.swap(source, output=out, weights={"constant 12": np.full(8, 3, "f4")})
    text = str(mblob.diff(source, out))
    assert "constant 12" in text
    assert "constant 11" not in text
    assert not mblob.diff(source, source)


# -- the other dialect -----------------------------------------------------------------------------


def played(library: Path, recorded: Path, name: str = "") -> int:
    """Play all cases that were recorded with the library, which TVM's numbers are known of."""
    facts = json.loads(recorded.with_suffix(".json").read_text())
    arrays = recorded.with_suffix(".npz")
    known = dict(np.load(arrays)) if arrays.exists() else {}
    player = Player(library, known)
    for case in facts["cases"]:
        if name in case.get("only", [name]):
            player.play(case)
    return len(player.results)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BYTECODE)
def test_programs_of_the_ffi_dialect_run_in_the_classic_one(
    relax: Path, tmp_path: Path, name: str
) -> None:
    mblob.convert(relax / f"{name}.so", tmp_path / "x.so", dialect="classic")
    mblob.verify(tmp_path / "x.so", "full")
    with mblob.open(tmp_path / "x.so") as lib:
        assert lib.dialect == "classic"
        facts = lib.entries[0].content.facts["executable"]
    assert facts["layout"] == 1
    assert played(tmp_path / "x.so", relax / name) > 0
    text = mblob.load_module(tmp_path / "x.so")["as_text"]()
    assert text == (relax / f"{name}.txt").read_text()


@pytest.mark.sample(1)
@pytest.mark.parametrize("release", ["016", "019", "020"])
def test_programs_of_the_classic_dialect_run_in_the_ffi_one(
    relax: Path, tmp_path: Path, release: str
) -> None:
    name = f"relax_{release}"
    mblob.convert(relax / "classic" / f"{name}.so", tmp_path / "x.so", dialect="ffi")
    mblob.verify(tmp_path / "x.so", "full")
    with mblob.open(tmp_path / "x.so") as lib:
        assert [e.type_key for e in lib.entries] == ["relax.VMExecutable", "library"]
        assert lib.entries[0].content.facts["executable"]["layout"] == 2
    assert played(tmp_path / "x.so", relax / "classic" / "classic", name) > 10


@pytest.mark.parametrize("name", ["classic/relax_020", "classic/relax_023", "cnn_bound", "dtypes"])
def test_a_payload_comes_back_byte_for_byte(relax: Path, name: str) -> None:
    with mblob.open(relax / f"{name}.so") as lib:
        key, payload, first = lib.entries[0].type_key, lib.entries[0].view(), str(lib.dialect)
    other = {"classic": "ffi", "ffi": "classic"}[first]
    there = b"".join(map(bytes, convert_payload(key, payload, first, other)))
    back = b"".join(map(bytes, convert_payload(key, memoryview(there), other, first)))
    assert there != bytes(payload)
    assert back == bytes(payload)


def test_the_code_of_0_21_is_refused(relax: Path, tmp_path: Path) -> None:
    library = relax / "classic" / "relax_021.so"
    for dialect in ("classic", "ffi"):
        with pytest.raises(BuildError, match=r"compiled by TVM 0.21, whose calling convention"):
            mblob.convert(library, tmp_path / "x.so", dialect=dialect)


@pytest.mark.parametrize(
    ("release", "source", "target", "like"),
    [
        ("019", "classic", "ffi", "023"),
        ("020", "classic", "ffi", "023"),
        ("021", "ffi 0.21", "ffi", "023"),
        ("021", "ffi 0.21", "classic", "020"),
        ("022", "ffi", "classic", "020"),
        ("023", "ffi", "classic", "020"),
    ],
)
def test_one_program_has_the_bytes_that_it_has_in_the_other_release(
    relax: Path, release: str, source: str, target: str, like: str
) -> None:
    first, second = (relax / "classic" / f"relax_{r}.so" for r in (release, like))
    with mblob.open(first) as lib, mblob.open(second) as other:
        (entry, *_), (expected, *_) = lib.entries, other.entries
        made = convert_payload(entry.type_key, entry.view(), source, target)
        assert b"".join(map(bytes, made)) == bytes(expected.view())


def test_compiled_programs_are_refused_with_the_reason(relax: Path, tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match=r"function '\w+' is machine code .* of its own dialect; compile the model"
    ):
        mblob.convert(relax / "compiled_tuples.so", tmp_path / "x.so", dialect="classic")
    assert not (tmp_path / "x.so").exists()


def text_of(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def program(
    names: list[str],
    constants: list[bytes],
    magic: int = 0x1D,
    scopes: dict[int, str] | None = None,
) -> memoryview:
    """A program that names functions, has constants, and does nothing."""
    functions = [relax_programs.Function(name) for name in names]
    magic |= relax_programs.MAGIC & ~0xFF
    made = relax_programs.Program(functions, constants, magic=magic, scopes=scopes or {})
    return memoryview(made.payload())


def dtype(tag: int, code: int, bits: int) -> bytes:
    return struct.pack("<iBBH", tag, code, bits, 1)


def test_names_types_and_tags_change_with_the_dialect() -> None:
    names = ["vm.builtin.ndarray_cache.load", "vm.builtin.copy"]
    values = [
        struct.pack("<iq", 4, 7),
        struct.pack("<id", 5, 2.5),
        struct.pack("<i", 3) + text_of(b"\0x"),
    ]
    classic = program(names, [*(dtype(1, *t) for t in ((1, 1), (6, 8), (2, 32))), *values])
    made = convert_payload(
        "relax.Executable", memoryview(text_of(bytes(classic))), "classic", "ffi"
    )
    tags = [
        struct.pack("<iq", 1, 7),
        struct.pack("<id", 3, 2.5),
        struct.pack("<i", 65) + text_of(b"\0x"),
    ]
    expected = program(
        ["vm.builtin.tensor_cache.load", "vm.builtin.copy"],
        [*(dtype(5, *t) for t in ((6, 8), (10, 8), (2, 32))), *tags],
        0x1E,
    )
    assert b"".join(map(bytes, made)) == bytes(expected)
    assert key_in("relax.Executable", "ffi") == "relax.VMExecutable"
    back = convert_payload("relax.VMExecutable", expected, "ffi", "classic")
    assert b"".join(map(bytes, back)) == text_of(bytes(classic))


def test_what_the_other_dialect_cannot_say_of_a_program_is_an_error() -> None:
    key = "relax.VMExecutable"
    scoped = program([], [dtype(5, 2, 32)], 0x1E, {0: "global.texture"})
    with pytest.raises(BuildError, match="constants have memory scopes, which the classic"):
        convert_payload(key, scoped, "ffi", "classic")
    odd = program([], [dtype(5, 7, 8)], 0x1E)
    with pytest.raises(BuildError, match="constant 0: the classic dialect has no type float8_e3m4"):
        convert_payload(key, odd, "ffi", "classic")
    cache = program(["vm.builtin.paged_attention_kv_cache_create_reduced"], [])
    with pytest.raises(BuildError, match=r"arguments have another order since TVM 0\.20"):
        convert_payload("relax.Executable", memoryview(text_of(bytes(cache))), "classic", "ffi")
    convert_payload(key, memoryview(text_of(bytes(cache))), "classic", "ffi")
    late = program(["vm.builtin.check_string_info"], [], 0x1E)
    with pytest.warns(PortabilityWarning, match="check_string_info, which no TVM of the classic"):
        convert_payload(key, late, "ffi", "classic")
    with pytest.raises(mblob.FormatError):
        convert_payload(key, late[:-3], "ffi", "classic")
