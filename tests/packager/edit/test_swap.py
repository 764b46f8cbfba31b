"""`mblob.swap`: new payloads in finished libraries. The code stays, byte for byte, and still
runs."""

from __future__ import annotations

import os
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.bytes.mapping import map_file

DOUBLE = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }"
GRAPH = '{"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": {}}'


def packed(path: Path, payloads: dict[str, bytes], **options: object) -> Path:
    """A library with a kernel and these modules."""
    host = mblob.csource_module(DOUBLE, functions=["void twice(float x[n], long n)"])
    for key, payload in payloads.items():
        host.import_module(mblob.blob_module(key, payload))
    host.export_library(path, **options)
    return path


def contents(path: Path) -> dict[str, bytes]:
    with mblob.open(path) as library:
        return {e.type_key: bytes(e.view()) for e in library.entries if e.offset is not None}


def code_of(path: Path) -> bytes:
    """All code, and the names of what is exported."""
    elf = ElfFile(map_file(path))
    sections = [s for s in elf.sections if s.sh_flags & 4]
    assert sections
    return (
        b"".join(bytes(elf.contents(s)) for s in sections)
        + repr([s.name for s in elf.dynsym]).encode()
    )


def build_id(path: Path) -> bytes:
    return next(
        desc
        for owner, kind, desc, _ in ElfFile(map_file(path)).notes()
        if owner == b"GNU" and kind == 3
    )


def outside(path: Path) -> bytes:
    """The bytes of a library outside its blob and its build-id."""
    with mblob.open(path) as library:
        data = bytearray(library.elf.data)
        assert library.blob is not None
        for _, _, desc, at in library.elf.notes():
            data[at : at + len(desc)] = bytes(len(desc))
        del data[library.blob_offset : library.blob_offset + library.blob.size]
    return bytes(data)


def files_in(folder: Path) -> list[str]:
    """What is in a folder; compilers of the tests have their temporary files in `TMPDIR`."""
    return sorted(p.name for p in folder.iterdir() if p.name != "TMPDIR")


def run_twice(path: Path) -> None:
    script = "import sys, mblob, numpy as np\nlib = mblob.load_module(sys.argv[1])\nx = np.ones(3, 'float32')\n"
    script += "lib['twice'](x, 3)\nassert x.tolist() == [2, 2, 2]\n"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


@pytest.mark.sample(2)
@pytest.mark.parametrize("embed", ["grow", "append", "object"])
@pytest.mark.parametrize("size", [0, 5, 2000, 300_000])
def test_any_size_for_any_embedding(tmp_path: Path, embed: str, size: int) -> None:
    library = packed(tmp_path / "a.so", {"one": b"x" * 2000, "two": b"y" * 777}, embed=embed)
    before = code_of(library)
    with mblob.open(library) as opened:
        tree = opened.tree()
    mblob.swap(library, {"one": os.urandom(size)}, tmp_path / "b.so")
    found = contents(tmp_path / "b.so")
    assert (len(found["one"]), found["two"]) == (size, b"y" * 777)
    assert code_of(tmp_path / "b.so") == before
    assert build_id(tmp_path / "b.so") != build_id(library)
    mblob.verify(tmp_path / "b.so")
    with mblob.open(tmp_path / "b.so") as opened:
        assert opened.tree() == tree
        assert opened.blob is not None and opened.blob.index_offset is not None
    run_twice(tmp_path / "b.so")


def test_the_same_size_changes_nothing_outside_the_blob(tmp_path: Path) -> None:
    library = packed(tmp_path / "a.so", {"one": b"old" * 99, "two": b"y" * 777})
    mblob.swap(library, {"one": b"new" * 99}, tmp_path / "b.so")
    assert outside(library) == outside(tmp_path / "b.so")
    assert build_id(library) != build_id(tmp_path / "b.so")
    mblob.swap(library, {"one": b"old" * 99}, tmp_path / "c.so")
    assert (tmp_path / "c.so").read_bytes() == library.read_bytes()


def test_what_is_swapped_is_what_would_have_been_packed(tmp_path: Path) -> None:
    """But for the build-id, whose history differs: the same file."""
    fresh = packed(tmp_path / "fresh.so", {"one": b"n" * 9000, "two": b"y" * 777})
    library = packed(tmp_path / "a.so", {"one": b"o" * 100, "two": b"y" * 777})
    mblob.swap(library, {"one": b"n" * 9000}, tmp_path / "b.so")
    with mblob.open(fresh) as a, mblob.open(tmp_path / "b.so") as b:
        assert a.blob is not None and b.blob is not None
        blob = [bytes(x.elf.data[x.blob_offset :][: x.blob.size]) for x in (a, b)]  # type: ignore[union-attr]
    assert blob[0] == blob[1]
    assert outside(fresh) == outside(tmp_path / "b.so")


@pytest.mark.parametrize("digest", ["crc32", "sha256", "none"])
def test_digests_of_all_kinds_follow_and_damage_stays_visible(tmp_path: Path, digest: str) -> None:
    library = packed(tmp_path / "a.so", {"one": b"o" * 300_000, "two": b"y" * 777}, digest=digest)
    data = bytearray(library.read_bytes())
    with mblob.open(library) as opened:
        (two,) = (e for e in opened.entries if e.type_key == "two")
    assert two.offset is not None
    data[two.offset] ^= 1
    library.write_bytes(data)
    mblob.swap(library, {"one": b"n" * 400_000}, tmp_path / "b.so")
    with mblob.open(tmp_path / "b.so") as opened:
        assert (
            opened.blob is not None
            and opened.blob.algorithm == {"none": 0, "crc32": 1, "sha256": 2}[digest]
        )
    if digest == "none":
        mblob.verify(tmp_path / "b.so")
        return
    with pytest.raises(mblob.DigestError, match="two"):
        mblob.verify(tmp_path / "b.so")


def test_in_place_is_a_rename(tmp_path: Path) -> None:
    library = packed(tmp_path / "a.so", {"one": b"old"})
    library.chmod(0o640)
    with library.open("rb") as held:
        before = held.read()
        mblob.swap(library, {"one": b"new"})
        mblob.swap(library, {1: b"newer"}, library)
        held.seek(0)
        assert held.read() == before
    assert contents(library) == {"one": b"newer"}
    assert stat.S_IMODE(library.stat().st_mode) == 0o640
    assert files_in(tmp_path) == ["a.so"]
    run_twice(library)


def test_weights_by_name(tmp_path: Path) -> None:
    params = {"w": np.zeros((2, 3), "float32"), "b": np.zeros(3, "int8")}
    mblob.graph_executor_factory(GRAPH, params).export_library(tmp_path / "g.so")
    new = np.arange(6, dtype="float32").reshape(2, 3)
    np.save(tmp_path / "b.npy", np.arange(3, dtype="int8"))
    mblob.swap(
        tmp_path / "g.so", output=tmp_path / "h.so", weights={"w": new, "b": tmp_path / "b.npy"}
    )
    with mblob.open(tmp_path / "h.so") as library:
        found = {t.name: bytes(t.data) for t in library.entries[0].tensors}
    assert found == {"w": new.tobytes(), "b": bytes(range(3))}
    assert (tmp_path / "h.so").stat().st_size == (tmp_path / "g.so").stat().st_size


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (
            {"w": np.zeros((3, 2), "float32")},
            r"expected float32 of shape \(2, 3\), which .*, found float32 of shape \(3, 2\)",
        ),
        ({"w": np.zeros((2, 3))}, "found float64"),
        ({"v": np.zeros(1)}, "no tensor 'v'"),
        ({"w": "gone.npy"}, "gone.npy"),
        ({"w": object()}, "'w': expected an array"),
        ({}, "nothing to change"),
        (5, "expected a path or a mapping"),
    ],
    ids=["shape", "dtype", "name", "file", "object", "none", "number"],
)
def test_wrong_weights_are_refused_by_name(tmp_path: Path, weights: object, words: str) -> None:
    mblob.graph_executor_factory(GRAPH, {"w": np.zeros((2, 3), "float32")}).export_library(
        tmp_path / "g.so"
    )
    before = (tmp_path / "g.so").read_bytes()
    with pytest.raises((mblob.MblobError, OSError), match=words):
        mblob.swap(tmp_path / "g.so", weights=weights)  # type: ignore[arg-type]
    assert (tmp_path / "g.so").read_bytes() == before
    assert files_in(tmp_path) == ["g.so"]


def weights_file(path: Path, tensors: dict[str, np.ndarray]) -> Path:
    import json

    head, data = {}, b""
    names = {"float32": "F32", "bfloat16": "BF16", "int8": "I8"}
    for name, array in tensors.items():
        raw = array.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        head[name] = {
            "dtype": names[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": offsets,
        }
        data += raw
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_safetensors_whole_and_by_tensor(tmp_path: Path) -> None:
    bf16 = np.arange(4).astype(ml_dtypes.bfloat16)
    first = weights_file(tmp_path / "1.safetensors", {"a": np.zeros(4, "float32"), "h": bf16})
    second = weights_file(
        tmp_path / "2.safetensors", {"a": np.ones(4000, "float32"), "longer name": bf16}
    )
    host = mblob.csource_module(DOUBLE, functions=["void twice(float x[n], long n)"])
    host.import_module(mblob.safetensors_module(first))
    host.export_library(tmp_path / "w.so")
    mblob.swap(tmp_path / "w.so", output=tmp_path / "v.so", weights=second)
    with mblob.open(tmp_path / "v.so") as library:
        entry = library.entries[1]
        assert bytes(entry.view()) == second.read_bytes()
        assert entry.alignment == 64 and entry.offset is not None
        assert (entry.offset + entry.tensors[0].offset - library.blob_offset) % 64 == 0
    mblob.swap(
        tmp_path / "v.so", output=tmp_path / "v.so", weights={"longer name": bf16[::-1].copy()}
    )
    with mblob.open(tmp_path / "v.so") as library:
        found = {t.name: bytes(t.data) for t in library.entries[1].tensors}
    assert found == {"a": np.ones(4000, "float32").tobytes(), "longer name": bf16[::-1].tobytes()}
    mblob.verify(tmp_path / "v.so")
    run_twice(tmp_path / "v.so")


def test_modules_are_payloads_too(tmp_path: Path) -> None:
    first = mblob.device_module("opencl", "__kernel void k() {}", functions=[("k", [])])
    first.export_library(tmp_path / "k.so")
    second = mblob.device_module(
        "opencl", "__kernel void k() { /* faster */ }", functions=[("k", [])]
    )
    mblob.swap(tmp_path / "k.so", {"opencl": second})
    with mblob.open(tmp_path / "k.so") as library:
        assert "faster" in library.entries[0].source()
    with pytest.raises(
        mblob.MblobError, match="expected a payload of this key, found a module 'other'"
    ):
        mblob.swap(tmp_path / "k.so", {0: mblob.blob_module("other", b"x")})


def test_wrong_arguments_and_payloads_lose_nothing(golden: Path, tmp_path: Path) -> None:
    library = packed(tmp_path / "a.so", {"one": b"1", "two": b"2"})
    shutil.copy(golden / "dnnl_c_lib.so", tmp_path / "d.so")
    (tmp_path / "folder").mkdir()
    before = library.read_bytes(), (tmp_path / "d.so").read_bytes()
    for arguments, words in (
        (({7: b""},), "no entry 7"),
        (({"library": b""},), "the library itself"),
        (({2: b"a", "one": b"b"},), "named twice"),  # stored in the opposite order
        (({1: 5},), "expected bytes, a path or a module"),
        (({1: tmp_path / "gone"},), "gone"),
        (({1: b"x"}, tmp_path / "folder"), "not a regular file"),
        (({1: b"x"}, tmp_path / "no" / "where.so"), "no' does not exist"),
        (({1: library}, library), "is also"),
    ):
        with pytest.raises((mblob.MblobError, OSError), match=words):
            mblob.swap(library, *arguments)
    with pytest.raises(mblob.FormatError, match=r"new payload of .*const_loader"):
        mblob.swap(tmp_path / "d.so", {0: b"nonsense"})
    with pytest.raises(mblob.MblobError, match="name one by its index: 1, 2"):
        mblob.swap(tmp_path / "d.so", {"dnnl_json": b"nonsense"})
    assert (library.read_bytes(), (tmp_path / "d.so").read_bytes()) == before
    assert files_in(tmp_path) == ["a.so", "d.so", "folder"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    library = packed(tmp_path / "a.so", {"one": b"1"})
    before = library.read_bytes()
    script = "import sys, resource, signal, mblob\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
    script += "try: mblob.swap(sys.argv[1], {1: bytes(1 << 20).replace(b'\\0', b'x')})\n"
    script += "except OSError as e: print(e.filename, e.strerror)\n"
    done = subprocess.run(
        [sys.executable, "-c", script, str(library)], capture_output=True, text=True, check=True
    )
    assert "cannot be written" in done.stdout and str(library) in done.stdout, done
    assert library.read_bytes() == before and files_in(tmp_path) == ["a.so"]


@pytest.mark.parametrize("name", ["metal", "webgpu", "relax_c"])
def test_the_ffi_dialect(golden: Path, tmp_path: Path, name: str) -> None:
    source = golden / "ffi" / f"{name}.so"
    with mblob.open(source) as library:
        entry = next(e for e in library.entries if e.offset is not None)
        payload, tree = bytes(entry.view()), library.tree()
    if name == "relax_c":
        mblob.swap(
            source, output=tmp_path / "b.so", weights={"constant 6": np.full((2, 3), 7, "float32")}
        )
        with mblob.open(tmp_path / "b.so") as library:
            (tensor,) = library.entries[0].tensors
            assert bytes(tensor.data) == np.full((2, 3), 7, "float32").tobytes()
        return
    mblob.swap(source, {entry.index: payload}, tmp_path / "same.so")
    assert (tmp_path / "same.so").read_bytes() == source.read_bytes()
    # The last field is a text behind its length (metal, webgpu: of the one kernel): a longer one
    # moves the blob.
    with mblob.open(source) as library:
        (code,) = library.entries[entry.index].fields()["sources"].values()
        code = bytes(code)
    assert payload.endswith(code)
    longer_one = (
        payload[: -len(code) - 8] + struct.pack("<Q", len(code) + 9999) + code + b"\n" * 9999
    )
    mblob.swap(source, {entry.index: longer_one}, tmp_path / "b.so")
    assert code_of(tmp_path / "b.so") == code_of(source)
    with mblob.open(tmp_path / "b.so", verify="full") as library:
        assert bytes(library.entries[entry.index].view()) == longer_one
        assert library.tree() == tree
    with pytest.raises(mblob.MblobError, match="empty, which TVM's loader"):
        mblob.swap(source, {entry.index: b""}, tmp_path / "b.so")


@pytest.mark.parametrize("name", ["s.o", "s.a", "s.tar"])
def test_files_that_are_no_shared_libraries_are_looked_at_and_not_changed(
    tmp_path: Path, name: str
) -> None:
    host = mblob.csource_module(DOUBLE, functions=["void twice(float x[n], long n)"])
    host.import_module(mblob.const_loader_module({"w": np.arange(3, dtype="float32")}, {}))
    host.export_library(
        tmp_path / name, **({} if name == "s.tar" else {"system_lib": True, "prefix": "p_"})
    )
    path = tmp_path / name
    before = path.read_bytes()
    assert all(e.compared for e in mblob.verify(path).entries)
    mblob.extract(path, tmp_path / "w.npy", tensors=["w"])
    assert np.load(tmp_path / "w.npy").tolist() == [0, 1, 2]
    assert mblob.diff(path, path).same
    with pytest.raises(mblob.MblobError, match="no ELF shared library, so no dynamic linker"):
        mblob.verify(path, against=[])
    for change in (
        lambda: mblob.swap(path, weights={"w": np.zeros(3, "float32")}),
        lambda: mblob.strip_index(path),
    ):
        with pytest.raises(mblob.MblobError, match="no ELF shared library, and only their blobs"):
            change()
    assert path.read_bytes() == before
