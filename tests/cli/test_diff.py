"""`mblob-pack diff` and `mblob.diff`: what differs is told by name, what is the same is not."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import mblob

KERNEL = "float scale = 2; void k(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= scale; }"
PROTOTYPE = "void k(float x[n], long n)"


def graph(**attributes: object) -> str:
    content = {"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0], "attrs": attributes}
    return json.dumps(content)


def build(
    path: Path,
    *modules: mblob.Module,
    source: str = KERNEL,
    prototypes: tuple[str, ...] = (PROTOTYPE,),
) -> Path:
    host = mblob.csource_module(source, functions=list(prototypes))
    for module in modules:
        host.import_module(module)
    host.export_library(path)
    return path


def test_a_library_is_the_same_as_itself(pack, golden: Path) -> None:
    for name in ("mlp_llvm", "dag", "ffi/metal", "host_c"):
        assert mblob.diff(golden / f"{name}.so", golden / f"{name}.so").same
    done = pack("diff", golden / "dag.so", golden / "dag.so")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_stripping_and_swapping_to_and_fro_make_no_difference(
    golden: Path, tmp_path: Path, require
) -> None:
    import subprocess

    source = golden / "mlp_llvm.so"
    subprocess.run([require("strip"), "-o", tmp_path / "s.so", source], check=True)
    assert mblob.diff(source, tmp_path / "s.so").to_json()["library"] == []
    with mblob.open(source) as library:
        payload = bytes(library.entries[0].view())
    (size,) = struct.unpack_from("<Q", payload)
    longer = (
        struct.pack("<Q", size + 99_999)
        + payload[8 : 8 + size]
        + b" " * 99_999
        + payload[8 + size :]
    )
    mblob.swap(source, {0: longer}, tmp_path / "moved.so")
    moved = mblob.diff(source, tmp_path / "moved.so")
    assert (moved.library, moved.functions) == ((), ())
    assert [e.change for e in moved.entries] == ["changed"]
    mblob.swap(tmp_path / "moved.so", {0: payload}, tmp_path / "back.so")
    assert mblob.diff(source, tmp_path / "back.so").same


def test_payloads_tensors_and_texts(pack, tmp_path: Path) -> None:
    params = {"w": np.zeros((2, 3), "float32"), "gone": np.zeros(1, "int8"), "kept": np.ones(9)}
    a = build(
        tmp_path / "a.so",
        mblob.graph_executor_factory(graph(n=1), params),
        mblob.blob_module("x", b"1234"),
    )
    params = {"w": np.zeros((2, 3), "float32"), "new": np.zeros(1, "int8"), "kept": np.ones(9)}
    params["w"][1, 1] = 5
    b = build(
        tmp_path / "b.so",
        mblob.graph_executor_factory(graph(n=2), params),
        mblob.blob_module("x", b"1234"),
    )
    done = pack("diff", a, b)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("~ entry [2] library/GraphExecutorFactory: ")
    assert lines[1:4] == [
        "  ~ tensor w: first different element 4; largest difference 5 at [1, 1]: 0 -> 5",
        "  - tensor gone",
        "  + tensor new",
    ]
    assert '    -  "n": 1' in lines and '    +  "n": 2' in lines
    assert "kept" not in done.stdout and "entry [1]" not in done.stdout
    answer = json.loads(pack("diff", a, b, "--json").stdout)
    assert (answer["schema"], answer["same"]) == ("mblob/diff/1", False)
    assert [t["name"] for t in answer["entries"][0]["tensors"]] == ["w", "gone", "new"]


def test_shape_and_dtype(tmp_path: Path) -> None:
    a = build(tmp_path / "a.so", mblob.const_loader_module({"c": np.zeros((2, 3), "float32")}, {}))
    b = build(tmp_path / "b.so", mblob.const_loader_module({"c": np.zeros((3, 2), "float64")}, {}))
    (entry,) = mblob.diff(a, b).entries
    (tensor,) = entry.tensors
    assert [(d.what, d.a, d.b) for d in tensor.details] == [
        ("dtype", "float32", "float64"),
        ("shape", "[2, 3]", "[3, 2]"),
    ]


def test_kernels(tmp_path: Path) -> None:
    def device(code: str, **functions: list[str]) -> mblob.Module:
        return mblob.device_module("opencl", code, functions=list(functions.items()))

    a = build(tmp_path / "a.so", device("__kernel void f() {}", f=["handle"], g=[]))
    b = build(tmp_path / "b.so", device("__kernel void f() {}\n", f=["handle", "int32"], h=[]))
    (entry,) = mblob.diff(a, b).entries
    assert [(k.name, k.change) for k in entry.kernels] == [
        ("f", "changed"),
        ("g", "removed"),
        ("h", "added"),
    ]


def test_entries_are_matched_by_their_place(tmp_path: Path) -> None:
    """An import in front of others moves their indices, not their places."""
    one, two = mblob.blob_module("m", b"1"), mblob.blob_module("n", b"2")
    a = build(tmp_path / "a.so", one, two)
    b = build(tmp_path / "b.so", one, mblob.blob_module("extra", b"3"), two)
    found = mblob.diff(a, b)
    assert [(e.path, e.change) for e in found.entries if e.change != "changed"] == [
        ("library/extra", "added")
    ]
    assert not [e for e in found.entries if e.path.endswith(("/m", "/n"))]
    assert [(e.path, e.change) for e in mblob.diff(b, a).entries if e.change != "changed"] == [
        ("library/extra", "removed")
    ]


def test_imports_that_differ_are_named(pack, tmp_path: Path) -> None:
    one, two = mblob.blob_module("m", b"1"), mblob.blob_module("n", b"2")
    a = build(tmp_path / "a.so", one, two)
    b = build(tmp_path / "b.so", one, mblob.blob_module("extra", b"3"))
    lines = pack("diff", a, b).stdout.splitlines()
    assert "~ entry [0] library: imports -n [1] +extra [1 in B]" in lines
    (root,) = (e for e in mblob.diff(a, b).entries if e.path == "library")
    assert root.details[0].to_json() == {
        "what": "imports",
        "a": ["n [1]", "m [2]"],
        "b": ["extra [1 in B]", "m [2]"],
    }
    c = build(tmp_path / "c.so", two, one)
    assert "imports in another order" in pack("diff", a, c).stdout


def test_values_are_not_written_as_python_does(pack, golden: Path, tmp_path: Path) -> None:
    def device(types: list[str]) -> mblob.Module:
        return mblob.device_module("opencl", "__kernel void f() {}", functions=[("f", types)])

    a = build(tmp_path / "a.so", device([]))
    b = build(
        tmp_path / "b.so", device(["handle", "int32"]), mblob.graph_executor_factory(graph(), {})
    )
    mblob.strip_index(b, tmp_path / "c.so")
    for one, other in ((a, b), (b, tmp_path / "c.so"), (golden / "opencl_llvm.so", b)):
        text = pack("diff", one, other).stdout
        assert not [w for w in ("['", "[]", "None", "True", "False") if w in text], text
    assert "arg_types none -> handle, int32" in pack("diff", a, b).stdout
    assert "index yes -> no" in pack("diff", b, tmp_path / "c.so").stdout


def test_functions_and_code(pack, tmp_path: Path) -> None:
    a = build(tmp_path / "a.so")
    b = build(tmp_path / "b.so", source=KERNEL.replace("*=", "+="))
    assert [
        (f.name, f.change, [d.what for d in f.details]) for f in mblob.diff(a, b).functions
    ] == [("k", "changed", ["code"])]
    # the data of a function
    c = build(tmp_path / "c.so", source=KERNEL.replace("scale = 2", "scale = 3"))
    found = mblob.diff(a, c)
    assert not found.functions and [(x.what, x.a) for x in found.library] == [("section", ".data")]
    d = build(
        tmp_path / "d.so",
        source=KERNEL.replace("void k(", "void m(") + "void k(double *x) { *x = 1; }",
        prototypes=("void k(double x[1])", "void m(float x[n], long n)"),
    )
    done = pack("diff", a, d)
    assert done.returncode == 1
    assert "+ function m" in done.stdout and "~ function k: forms " in done.stdout


def test_other_machines_and_dialects_compare_too(golden: Path, tmp_path: Path) -> None:
    found = mblob.diff(golden / "opencl_llvm.so", golden / "ffi" / "metal.so")
    assert {c.what for c in found.library} >= {"dialect", "undefined"}
    other = bytearray((golden / "dag.so").read_bytes())
    other[18:20] = struct.pack("<H", 183)
    (tmp_path / "arm.so").write_bytes(other)
    (machine,) = mblob.diff(golden / "dag.so", tmp_path / "arm.so").library
    assert (machine.what, machine.a, machine.b) == ("machine", "x86_64", "aarch64")


def test_failures_have_their_codes(pack, deploy: Path, tmp_path: Path, error_line) -> None:
    shutil.copy(deploy, tmp_path / "d.so")
    data = bytearray(deploy.read_bytes())
    at = data.index(b'{"version"')
    data[at] ^= 1
    (tmp_path / "d.so").write_bytes(data)
    (tmp_path / "t.txt").write_text("text")
    for words, code in ((["d.so"], 7), (["t.txt"], 3), (["gone"], 5), ([tmp_path], 5)):
        done = pack("diff", deploy, *words)
        assert (done.returncode, done.stdout) == (code, ""), words
        assert error_line(done)
    assert pack("diff", deploy, deploy, "--lines", "-1").returncode == 2


def test_texts_are_short_and_cannot_talk_to_the_terminal(pack, tmp_path: Path) -> None:
    def source(lines: int, mark: str) -> mblob.Module:
        text = "\n".join(f"line {i} {mark}\x1b[2J" for i in range(lines))
        return mblob.device_module("opencl", text, functions=[("k", [])])

    a, b = build(tmp_path / "a.so", source(500, "a")), build(tmp_path / "b.so", source(500, "b"))
    done = pack("diff", a, b, "--lines", "7")
    assert "\x1b" not in done.stdout and "\\x1b[2J" in done.stdout
    (entry,) = mblob.diff(a, b, lines=7).entries
    assert len(entry.text) == 8 and entry.text[-1].endswith(" more lines")
    big = build(tmp_path / "c.so", source(9000, "a"))
    (entry,) = mblob.diff(a, big).entries
    assert entry.text[0].startswith("texts ")


def test_hunks_have_the_line_numbers_of_the_whole_texts(tmp_path: Path) -> None:
    """As diff(1) has them, also where most of both texts is the same."""
    old = [f"line {i}" for i in range(5000)]
    new = [*old[:3000], "changed", *old[3001:4000], "added", *old[4000:]]
    paths = []
    for name, lines in (("a", old), ("b", new)):
        module = mblob.device_module("opencl", "\n".join(lines), functions=[("k", [])])
        paths.append(build(tmp_path / f"{name}.so", module))
    (entry,) = mblob.diff(*paths, lines=99).entries
    for path in paths:  # the packer puts a line in front of OpenCL code
        with mblob.open(path) as library:
            text = library.entries[1].source()
        old, new = new, text.splitlines()
    assert entry.text == tuple(difflib.unified_diff(old, new, "a", "b", lineterm="", n=2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mblob.HiddenNameWarning")
@pytest.mark.parametrize("depth", [2000])
def test_deep_trees_cost_no_more_than_wide_ones(tmp_path: Path, depth: int, count_calls) -> None:
    def chain(n: int, path: Path) -> Path:
        root = top = mblob.blob_module("k", b"0")
        for i in range(n):
            below = mblob.blob_module("k", os.urandom(1) if i == n - 1 else b"x")
            top.import_module(below)
            top = below
        root.export_library(path)
        return path

    half = chain(depth // 2, tmp_path / "h.so"), chain(depth // 2, tmp_path / "i.so")
    whole = chain(depth, tmp_path / "a.so"), chain(depth, tmp_path / "b.so")
    calls = count_calls(lambda: mblob.diff(*half)), count_calls(lambda: mblob.diff(*whole))
    assert calls[1] < 2.5 * calls[0]


def test_large_payloads_pass_through_little_memory(tmp_path: Path, peak_memory) -> None:
    for name in ("a", "b"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(64 << 20)
            file.seek((60 << 20) + 5)
            file.write(name.encode())
        mblob.blob_module("big", tmp_path / name).export_library(tmp_path / f"{name}.so")
    found = []
    assert (
        peak_memory(lambda: found.append(mblob.diff(tmp_path / "a.so", tmp_path / "b.so")))
        < 8 << 20
    )
    (entry,) = found[0].entries
    assert [(d.what, d.a) for d in entry.details] == [("first different byte", (60 << 20) + 5)]


def test_objects_are_compared_by_their_bytes(tmp_path: Path, cc) -> None:
    """What no dynamic linker reads has no sections in memory: it is the same if its bytes are."""
    for name, number in (("a", 1), ("b", 1), ("c", 2)):
        cc(f"int f(void) {{ return {number}; }}", tmp_path / f"{name}.o", "-c", "-r", "-no-pie")
    assert mblob.diff(tmp_path / "a.o", tmp_path / "a.o").same
    assert "bytes outside the blob" in {
        c.what for c in mblob.diff(tmp_path / "a.o", tmp_path / "c.o").library
    }
