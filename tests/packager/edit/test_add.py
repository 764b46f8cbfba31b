"""`mblob.add`: weights and files for finished libraries of TVM, of mblob and of anybody else. The code
stays, byte for byte, and still runs."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.binary.elf_records import SHF_EXECINSTR
from mblob.bytes.mapping import map_file
from mblob.packager.edit import add_code, rewrite
from tests.packager.edit.test_swap_tools import TOOLS, check_tools, contents, installed, load
from tests.unit.test_ffi_dialect import CUDA, LIB, string, u64

pytestmark = pytest.mark.own_process
DOUBLE = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }"
PROTOTYPE = "void twice(float x[n], long n)"
W = {"w": np.arange(6, dtype="float32"), "b": np.ones(3, "int64")}
GOLDEN = ["aot_mlp", "dag", "dnnl_c_lib", "dnnl_llvm_factory", "host_c", "host_llvm", "host_parallel", "mlp_c",
          "mlp_llvm", "opencl_llvm", "vm_mlp", "ffi/ctx_llvm", "ffi/metal", "ffi/relax_c", "ffi/webgpu"]  # fmt: skip


def packed(path: Path, payloads: dict[str, bytes] | None = None, **options: Any) -> Path:
    """A library of mblob with a kernel and these modules."""
    host = mblob.csource_module(DOUBLE, functions=[PROTOTYPE])
    for key, payload in (payloads or {}).items():
        host.import_module(mblob.blob_module(key, payload))
    host.export_library(path, **options)
    return path


def linked(path: Path, source: str = "int half(int x) { return x / 2; }") -> Path:
    """A library that neither mblob nor TVM had a hand in."""
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-xc", "-", "-o", path], input=source.encode(), check=True
    )
    return path


def code_of(path: Path) -> list[tuple[int, bytes]]:
    """All code of a library, and where it lies."""
    elf = ElfFile(map_file(path))
    return [(s.sh_addr, bytes(elf.contents(s))) for s in elf.sections if s.sh_flags & SHF_EXECINSTR]


def tree_of(path: Path) -> list[tuple[str, tuple[int, ...], bytes]]:
    with mblob.open(path, verify="full") as library:
        return [
            (e.type_key, tuple(e.imports), b"" if e.offset is None else bytes(e.view()))
            for e in library.entries
        ]


def functions_of(path: Path) -> list[str]:
    with mblob.open(path) as library:
        return sorted(library.functions)


def run_twice(path: Path) -> None:
    script = "import sys, mblob, numpy as np\nlib = mblob.load_module(sys.argv[1])\nx = np.ones(3, 'float32')\n"
    script += "lib['twice'](x, 3)\nassert x.tolist() == [2, 2, 2]\n"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning")
def test_libraries_of_tvm_keep_code_tree_and_payloads(
    golden: Path, tmp_path: Path, name: str
) -> None:
    old, new = golden / f"{name}.so", tmp_path / "a.so"
    mblob.add(old, weights=W, blobs={"labels": b"[1, 2]"}, output=new)
    assert code_of(new) == code_of(old)
    before, after = tree_of(old), tree_of(new)
    count = len(before)
    key, imports, payload = before[0]
    assert after[0] == (key, (*imports, count, count + 1), payload)
    assert after[1:count] == before[1:]
    assert [key for key, _, _ in after[count:]] == ["safetensors", "labels"]
    assert functions_of(new) == functions_of(old)
    mblob.verify(new)
    lib = mblob.load_module(new, missing="stub")
    assert bytes(lib.payloads["labels"]) == b"[1, 2]"
    np.testing.assert_array_equal(lib.tensors["w"].numpy(), W["w"])
    mblob.add(new, blobs={"more": b"x" * 5000})
    assert tree_of(new)[0][1] == (*imports, count, count + 1, count + 2)
    assert code_of(new) == code_of(old)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", [name for name in GOLDEN if not name.startswith(("host", "ffi/ctx"))]
)
@pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning")
def test_the_result_survives_tools(golden: Path, tmp_path: Path, require: Any, name: str) -> None:
    mblob.add(golden / f"{name}.so", blobs={"labels": b"[1, 2]"}, output=tmp_path / "a.so")
    check_tools(tmp_path / "a.so", installed(require))


@pytest.mark.sample(2)
@pytest.mark.parametrize("tool", list(TOOLS))
@pytest.mark.parametrize("name", ["host_c", "host_llvm", "ffi/ctx_llvm", ""])
@pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning")
def test_a_first_module_survives_tools(
    golden: Path, tmp_path: Path, require: Any, name: str, tool: str
) -> None:
    """Tables of the library were written anew, so tools place more than these."""
    path = tmp_path / "a.so"
    mblob.add(
        golden / f"{name}.so" if name else linked(tmp_path / "l.so"),
        blobs={"labels": b"[1]"},
        output=path,
    )
    wanted, code = contents(path), code_of(path)
    for _ in range(2):
        subprocess.run([*installed(require)[tool], path], check=True, capture_output=True)
        load(path)
        assert contents(path) == wanted and code_of(path) == code
    mblob.add(path, blobs={"more": b"x" * 5000})
    assert bytes(mblob.load_module(path).payloads["more"]) == b"x" * 5000
    assert code_of(path) == code


@pytest.mark.filterwarnings("ignore:TVM cannot open:mblob.PortabilityWarning")
def test_models_and_kernels_of_tvm_still_run(golden: Path, tmp_path: Path) -> None:
    outcome = np.load(golden / "mlp_llvm.npz")
    mblob.add(golden / "mlp_llvm.so", weights=W, output=tmp_path / "a.so")
    model = mblob.graph_executor.GraphModule(
        mblob.load_module(tmp_path / "a.so")["default"](mblob.cpu())
    )
    model.set_input("data", outcome["data"])
    model.run()
    np.testing.assert_array_equal(model.get_output(0).numpy(), outcome["out"])
    mblob.add(golden / "host_llvm.so", weights=W, output=tmp_path / "b.so")
    a, c = np.arange(1024, dtype="float32"), np.zeros(1024, "float32")
    mblob.load_module(tmp_path / "b.so")["vadd"](a, a, c)
    np.testing.assert_array_equal(c, 2 * a)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dialect", ["classic", "ffi"])
@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("embed", ["grow", "append", "object"])
def test_libraries_of_mblob(tmp_path: Path, dialect: Any, index: bool, embed: Any) -> None:
    payloads = {"one": b"x" * 2000} if index else {}
    old = packed(tmp_path / "a.so", payloads, dialect=dialect, index=index, embed=embed)
    mblob.add(old, weights=W, blobs={"labels": b"y" * 70_000}, output=tmp_path / "b.so")
    assert code_of(tmp_path / "b.so") == code_of(old)
    assert [key for key, _, _ in tree_of(tmp_path / "b.so")] == [
        "library",
        *payloads,
        "safetensors",
        "labels",
    ]
    with mblob.open(tmp_path / "b.so") as library:
        assert library.blob is not None and library.blob.index_offset is not None
    run_twice(tmp_path / "b.so")


def test_a_library_of_anybody_gets_its_first_modules(tmp_path: Path) -> None:
    old = linked(tmp_path / "a.so")
    mblob.add(old, weights=W, blobs={"labels": b"[1]"}, output=tmp_path / "b.so")
    assert code_of(tmp_path / "b.so") == code_of(old)
    lib = mblob.load_module(tmp_path / "b.so")
    assert lib.symbol("half", ctypes.c_int, [ctypes.c_int])(8) == 4
    assert bytes(lib.payloads["labels"]) == b"[1]"


def test_a_table_of_functions_stays_announced(tmp_path: Path) -> None:
    """Of a library that has one, and no blob: of functions alone, in which damage of the table is seen."""
    old = packed(tmp_path / "a.so", index=False)
    with mblob.open(old) as library:
        assert library.blob is None and library.function_table
    mblob.add(old, blobs={"labels": b"[1]"}, output=tmp_path / "b.so")
    assert str(mblob.load_module(tmp_path / "b.so").functions["twice"]) == str(
        mblob.load_module(old).functions["twice"]
    )
    run_twice(tmp_path / "b.so")


def test_no_compiler_and_no_linker_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = [packed(tmp_path / "a.so"), linked(tmp_path / "b.so")]
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CC", "/nowhere/cc")
    for path in libraries:
        mblob.add(path, blobs={"labels": b"[1]"})
        assert bytes(mblob.load_module(path).payloads["labels"]) == b"[1]"


def test_weights_are_views_at_multiples_of_64_and_never_in_memory(tmp_path: Path) -> None:
    mblob.save_tensors(tmp_path / "w.safetensors", {"big": np.ones(80 << 20, "uint8")})
    packed(tmp_path / "a.so")
    script = "import mblob\nmblob.add('a.so', weights='w.safetensors')\nmblob.add('a.so', blobs={'x': b'x'})\n"
    script += "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 70 << 10  # KiB
    lib = mblob.load_module(tmp_path / "a.so")
    tensor = lib.tensors["big"].numpy()
    assert tensor.ctypes.data % 64 == 0 and tensor.sum() == 80 << 20


def test_arrays_of_npz_are_never_in_memory(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", big=np.ones(80 << 20, "uint8"), small=np.arange(3))
    packed(tmp_path / "a.so")
    script = """import resource, mblob
used = int(open("/proc/self/status").read().split("VmData:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (used + (50 << 20),) * 2)
mblob.add("a.so", weights="w.npz")
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    tensors = mblob.load_module(tmp_path / "a.so").tensors
    assert tensors["big"].numpy().sum() == 80 << 20 and tensors["small"].numpy().tolist() == [
        0,
        1,
        2,
    ]


def test_how_many_bytes_stay_behind(golden: Path, tmp_path: Path) -> None:
    with mblob.open(golden / "opencl_llvm.so") as library:
        assert library.blob_symbol is not None
        size = library.blob_symbol.st_size
    with pytest.warns(mblob.PortabilityWarning, match=r"TVM cannot open the result: .* \(labels\)"):
        assert (
            mblob.add(golden / "opencl_llvm.so", blobs={"labels": b"1"}, output=tmp_path / "a.so")
            == size
        )
    assert mblob.add(packed(tmp_path / "b.so"), blobs={"labels": b"1"}) == 0


def test_tvm_knows_some_keys(
    golden: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    constants = mblob.const_loader_module({"w": W["w"]}, {}).payload
    mblob.add(
        golden / "opencl_llvm.so",
        blobs={"const_loader": bytes(constants)},
        output=tmp_path / "a.so",
    )
    assert not recwarn.list
    assert [key for key, _, _ in tree_of(tmp_path / "a.so")][-1] == "const_loader"


def test_tvm_opens_what_it_knows(
    golden: Path, tmp_path: Path, package_of: Callable[[str], Path]
) -> None:
    """A payload of a key that this build of TVM has the loader of; and code, which TVM calls."""
    package_of("tvm")
    constants = bytes(mblob.const_loader_module({"w": W["w"]}, {}).payload)
    (tmp_path / "k.c").write_text("double half(double x) { return x / 2; }")
    made = tmp_path / "a.so"
    mblob.add(
        golden / "ffi" / "ctx_llvm.so",
        kernels=tmp_path / "k.c",
        functions=["double half(double x)"],
        blobs={"const_loader": constants},
        output=made,
    )
    script = "import sys, tvm\nm = tvm.runtime.load_module(sys.argv[1])\n"
    script += "print([i.kind for i in m.imports], m['half'](9.0))"
    done = subprocess.run([sys.executable, "-c", script, made], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("['const_loader'] 4.5\n", 0), done.stderr


def test_a_payload_is_a_program_if_its_key_says_so(golden: Path, tmp_path: Path) -> None:
    made = tmp_path / "a.so"
    for name, key in (("relax/byoc_c", "relax.VMExecutable"), ("host_c", "VMExecutable")):
        with pytest.raises(mblob.BuildError, match=f"payload of '{key}' breaks the grammar"):
            mblob.add(golden / f"{name}.so", blobs={key: b"{}"}, output=made)
    assert not made.exists()


@pytest.mark.parametrize("replace", [False, True])
def test_names_that_exist_are_refused_or_replaced(tmp_path: Path, replace: bool) -> None:
    path = packed(tmp_path / "a.so", {"labels": b"old"})
    mblob.add(path, weights=W)
    before = path.read_bytes()
    new = {"w": W["w"] + 1, "b": W["b"] + 1}
    if not replace:
        with pytest.raises(
            mblob.BuildError, match=r"entry 1 \(labels\): .*replace=True replaces it"
        ):
            mblob.add(path, blobs={"labels": b"new"})
        with pytest.raises(mblob.BuildError, match=r"has a tensor '[wb]' already; replace=True"):
            mblob.add(path, weights=new)
        assert path.read_bytes() == before
        return
    mblob.add(path, weights=new, blobs={"labels": b"new"}, replace=True)
    assert [key for key, _, _ in tree_of(path)] == ["library", "labels", "safetensors"]
    lib = mblob.load_module(path)
    assert bytes(lib.payloads["labels"]) == b"new" and lib.tensors["w"].numpy().tolist() == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    with pytest.raises(
        mblob.BuildError,
        match=r"which replacing this module would lose; swap replaces single tensors, .* other types and shapes, with"
        r" replace=True, give a file that has these tensors, too",
    ):
        mblob.add(path, weights={"w": W["w"]}, replace=True)
    larger = np.ones(5, "float32")
    with pytest.raises(
        mblob.BuildError, match=r"may be compiled .*, add replaces the module: repl"
    ):
        mblob.swap(path, weights={"w": larger}, output=tmp_path / "b.so")
    mblob.add(path, weights={"w": larger, "b": W["b"]}, replace=True)
    assert mblob.load_module(path).tensors["w"].shape == (5,)


def test_the_same_name_twice_in_one_call(tmp_path: Path) -> None:
    with pytest.raises(mblob.BuildError, match="two modules have a tensor 'w'"):
        mblob.add(packed(tmp_path / "a.so"), weights=[W, {"w": W["w"]}])


@pytest.mark.parametrize("change", [{"weights": W}, {"blobs": {"k": b"1"}}, {"kernels": "k.c"}])
def test_without_output_a_link_stays_and_what_it_names_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    path, link = packed(tmp_path / "a.so"), tmp_path / "link.so"
    Path("k.c").write_text("int one(void) { return 1; }")
    link.symlink_to("a.so")
    path.chmod(0o640)
    before, opened = path.stat(), mblob.load_module(link)
    mblob.add(link, **change)
    assert link.is_symlink() and (path.stat().st_mode, path.stat().st_nlink) == (before.st_mode, 1)
    assert path.stat().st_ino != before.st_ino
    opened["twice"](x := np.ones(3, "float32"), 3)
    assert x.tolist() == [2, 2, 2]
    run_twice(path)


def test_a_library_that_is_open_keeps_what_it_has(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.so", {"one": b"x" * 3_000_000})
    lib = mblob.load_module(path)
    mblob.add(path, blobs={"two": b"y"})
    assert bytes(lib.payloads["one"]) == b"x" * 3_000_000 and "two" not in lib.payloads
    assert set(mblob.load_module(path).payloads) == {"one", "two"}


def test_a_library_that_is_written_to_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = packed(tmp_path / "a.so", {"one": b"x" * 3_000_000}), tmp_path / "other.so"
    shutil.copy(path, other)
    write = rewrite.reembed

    def replaced(*args: Any) -> None:
        write(*args)
        other.replace(path)

    monkeypatch.setattr(rewrite, "reembed", replaced)
    with pytest.raises(mblob.MblobError, match="somebody replaced it"):
        mblob.add(path, blobs={"two": b"y"}, output=tmp_path / "b.so")
    assert not (tmp_path / "b.so").exists()


def test_a_tar_that_somebody_replaces_meanwhile_gives_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other, out = (tmp_path / name for name in ("a.tar", "other.tar", "n.tar"))
    packed(path, {"old": b"x"})
    packed(other, {"another": b"x"})
    link = add_code.export_library

    def replaced(*args: Any, **how: Any) -> None:
        link(*args, **how)
        other.replace(path)

    monkeypatch.setattr(add_code, "export_library", replaced)
    with pytest.raises(mblob.MblobError, match="somebody replaced it"):
        mblob.add(path, blobs={"two": b"y"}, output=out)
    assert not out.exists()


def test_a_lock_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path / "c.so")
    old = path.read_bytes()
    monkeypatch.setattr(rewrite, "_PATIENCE", 0.1)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(mblob.MblobError, match="another program has locked this folder"):
            mblob.add(path, blobs={"new": b"y"})
    finally:
        os.close(fd)
    assert path.read_bytes() == old
    mblob.add(path, blobs={"new": b"y"})


@pytest.mark.parametrize("kind", ["modules", "functions", "code", "tar"])
def test_who_adds_to_a_library_at_the_same_time_loses_nothing(tmp_path: Path, kind: str) -> None:
    """Of several that read the same file, one replaces it; the others are told."""
    path = tmp_path / ("c.tar" if kind == "tar" else "c.so")
    if kind == "functions":
        linked(path)
    else:
        packed(path, {"old": b"x"})
    gate = threading.Barrier(3)

    def one(i: int) -> str:
        more: Any = {"blobs": {f"new{i}": b"y"}}
        if kind == "code":
            source = tmp_path / f"k{i}.c"
            source.write_text(f"int added{i}(int x) {{ return x; }}")
            more["kernels"] = [source]
        gate.wait()
        try:
            mblob.add(path, output=path, **more)
        except mblob.MblobError as error:
            assert "somebody replaced it" in str(error)
            return ""
        return f"new{i}"

    with ThreadPoolExecutor(3) as pool:
        done = set(pool.map(one, range(3))) - {""}
    assert done
    with mblob.open(path) as library:
        assert done == {e.type_key for e in library.entries if e.type_key.startswith("new")}


def test_a_lock_of_the_callers_own_is_no_obstacle(tmp_path: Path) -> None:
    path = packed(tmp_path / "c.so")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        mblob.add(path, blobs={"new": b"y"})
    assert "new" in mblob.load_module(path).payloads


@pytest.mark.parametrize("has_blob", [True, False])
def test_a_library_of_tvm_0_21_is_told_what_to_do(tmp_path: Path, has_blob: bool) -> None:
    """Nothing says where a payload ends in its blob, and no TVM writes its dialect any more."""
    item = string("cuda") + CUDA
    data = u64(2) + LIB + item
    blob = ",".join(map(str, u64(len(data)) + data))
    text = "void *__tvm_ffi_library_ctx;\nint half(int x) { return x / 2; }\n"
    text += f"const unsigned char __tvm_ffi_library_bin[] = {{{blob}}};" * has_blob
    path, source = linked(tmp_path / "l.so", text), tmp_path / "k.c"
    source.write_text("int two(void) { return 2; }")
    before, lib = path.read_bytes(), mblob.load_module(path, missing="stub")
    lib.import_module(mblob.blob_module("k", b"1"))
    for call in (
        lambda: mblob.add(path, blobs={"k": b"1"}),
        lambda: mblob.add(path, kernels=source),
        lambda: mblob.add(path, functions="int half(int x)"),
        lambda: lib.export_library(tmp_path / "a.so"),
    ):
        with pytest.raises(
            mblob.BuildError, match=r"TVM 0\.21, .*export the model with another .*open both"
        ):
            call()
    assert path.read_bytes() == before and not (tmp_path / "a.so").exists()


@pytest.mark.parametrize("how", ["-pie", "-no-pie", "-static", "-static-pie"])
def test_an_executable_is_told_what_it_is(tmp_path: Path, how: str) -> None:
    source, path = tmp_path / "main.c", tmp_path / "main"
    source.write_text("int f(int x) { return x; }\nint main(void) { return 0; }")
    subprocess.run(["cc", how, "-fPIE", "-g", source, "-o", path], check=True)
    before = path.read_bytes()
    new: dict[str, Any]
    for new in ({"blobs": {"k": b"1"}}, {"kernels": source}, {"functions": "f"}):
        with pytest.raises(
            mblob.BuildError, match=r"main: an executable, .* a shared library \(.so\)"
        ):
            mblob.add(path, **new)
    assert path.read_bytes() == before


def test_what_cannot_be_added_to(golden: Path, tmp_path: Path) -> None:
    subprocess.run(["cc", "-c", "-xc", "-", "-o", tmp_path / "a.o"], input=b"int x;", check=True)
    out = tmp_path / "out.so"
    out.write_bytes(b"old")
    text = tmp_path / "t.so"
    text.write_text("no library")
    cases: list[tuple[Path, Any, type[Exception], str]] = [
        (tmp_path / "a.o", {"k": b"1"}, mblob.BuildError, "no ELF shared library"),
        (text, {"k": b"1"}, mblob.FormatError, "t.so"),
        (tmp_path / "gone.so", {"k": b"1"}, FileNotFoundError, "no such file"),
        (golden / "host_c.so", {}, mblob.BuildError, "nothing to add"),
        (golden / "host_c.so", {"k": tmp_path / "gone"}, FileNotFoundError, "no such file"),
        (golden / "host_c.so", {"_lib": b"1"}, mblob.BuildError, "the format's own"),
        (
            golden / "mlp_c.so",
            {"GraphExecutorFactory": b"1"},
            mblob.BuildError,
            "GraphExecutorFactory",
        ),
        (golden / "ffi" / "metal.so", {"k": b""}, mblob.BuildError, "empty payload"),
        (golden / "host_c.so", {"k": iter([b"1"])}, mblob.MblobError, "how many bytes"),
        (golden / "host_c.so", {"k": out}, mblob.BuildError, "output is also"),
    ]
    for path, blobs, error, message in cases:
        with pytest.raises(error, match=message):
            mblob.add(path, blobs=blobs, output=out)
        assert out.read_bytes() == b"old", message
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "TMPDIR") == [
        "a.o",
        "out.so",
        "t.so",
    ]


def test_a_library_of_another_machine(tmp_path: Path, require: Any) -> None:
    """Code and calls are of that machine, and nothing of it runs here."""
    require("aarch64-linux-gnu-gcc")
    old = packed(tmp_path / "a.so", target="aarch64-linux-gnu")
    mblob.add(old, weights=W, output=tmp_path / "b.so")
    assert code_of(tmp_path / "b.so") == code_of(old)
    lone = packed(tmp_path / "c.so", target="aarch64-linux-gnu", index=False)
    mblob.add(lone, weights=W)
    assert [key for key, _, _ in tree_of(lone)] == ["library", "safetensors"]


def test_empty_payloads_are_there(tmp_path: Path) -> None:
    (tmp_path / "none.bin").touch()
    code = mblob.csource_module("int f(int x) { return x; }")
    code.import_module(mblob.blob_module("z", b""))
    code.export_library(tmp_path / "m.so")
    mblob.add(tmp_path / "m.so", blobs={"y": b"", "x": tmp_path / "none.bin"})
    found = mblob.load_module(tmp_path / "m.so").payloads
    assert {key: bytes(data) for key, data in found.items()} == {"x": b"", "y": b"", "z": b""}


@pytest.mark.parametrize("name", ["all.tar", "all.o", "all.a"])
def test_a_finished_library_does_not_become_objects(tmp_path: Path, name: str) -> None:
    mblob.csource_module("int f(int x) { return x; }").export_library(tmp_path / "m.so")
    with pytest.raises(mblob.BuildError, match=f"has no objects to put into .*{name}; name a .so"):
        mblob.add(tmp_path / "m.so", blobs={"k": b"1"}, output=tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("machine", [62, 183])  # of which libmblob judges one
def test_a_library_without_segments_is_damaged(golden: Path, tmp_path: Path, machine: int) -> None:
    data = bytearray((golden / "dag.so").read_bytes())
    data[18:20], data[56:58] = machine.to_bytes(2, "little"), bytes(2)  # e_machine, e_phnum
    (tmp_path / "m.so").write_bytes(data)
    (tmp_path / "k.c").write_text("int half(int x) { return x / 2; }")
    text = r"m\.so: (0 program headers|no segment is loaded)"
    for what, given in (("blobs", {"k": b"1"}), ("weights", W), ("kernels", tmp_path / "k.c")):
        with pytest.raises(mblob.FormatError, match=text):
            mblob.add(tmp_path / "m.so", output=tmp_path / "out.so", **{what: given})  # type: ignore[arg-type]
    assert not (tmp_path / "out.so").exists()
