"""`mblob.convert`: the tree stays, payloads change their grammar, functions their convention;
nothing else is lost."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mblob
from mblob.errors import FormatError, IncompatibleError
from mblob.packager.errors import BuildError
from tests.e2e.ffi.ffi_sources import PACKED, plain_module

pytestmark = pytest.mark.own_process


def tree_of(path: Path) -> list[Any]:
    with mblob.open(path, verify="full") as lib:
        return [(e.type_key, e.imports, e.data, e.alignment) for e in lib.entries]


def payloads_of(path: Path) -> list[bytes]:
    with mblob.open(path, verify="full") as lib:
        return [bytes(e.view()) for e in lib.entries]


def data_tree() -> mblob.Module:
    """A tree without functions: a diamond, weights, kernels, constants."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    weights = mblob.safetensors_module(
        struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1, 2)
    )
    kernel = ("k", ["handle", "bool"], ["blockIdx.x", "tir.use_dyn_shared_memory"])
    cuda = mblob.device_module("cuda", "//PTX", functions=[kernel])
    shared = mblob.blob_module("my.kind", b"shared")
    constants = mblob.const_loader_module({"c": np.ones(3, "bool")}, {"ext": ["c"]})
    root = mblob.csource_module("")
    for module in (weights, cuda, constants):
        root.import_module(module)
    cuda.import_module(shared)
    constants.import_module(shared)
    return root


@pytest.mark.parametrize("index", [True, False])
def test_a_library_without_functions_goes_there_and_back(tmp_path: Path, index: bool) -> None:
    first, ffi, again = tmp_path / "a.so", tmp_path / "b.so", tmp_path / "c.so"
    root = data_tree()
    if not index:
        root = mblob.csource_module("")
        root.import_module(mblob.json_module("dnnl_json", "s", {"nodes": []}))
    root.export_library(first, index=index)
    mblob.convert(first, ffi, dialect="ffi", index=index)
    mblob.convert(ffi, again, dialect="classic", index=index)
    assert tree_of(first) == tree_of(ffi) == tree_of(again)
    assert payloads_of(first) == payloads_of(again)
    with mblob.open(first) as a, mblob.open(ffi) as b, mblob.open(again) as c:
        assert (a.dialect, b.dialect, c.dialect) == ("classic", "ffi", "classic")
        assert b.elf.find("__tvm_ffi__library_bin") and not b.elf.find("__tvm_dev_mblob")
        if index:
            assert b.blob is not None and b.blob.index_offset is not None


def test_objects_are_linked_again_and_their_functions_keep_checks(tmp_path: Path) -> None:
    """Packed forms that mblob made, the table of functions, and back again without a trace."""
    root = plain_module()
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "classic.tar")
    root.export_library(tmp_path / "classic.so")
    mblob.convert(tmp_path / "classic.tar", tmp_path / "ffi.tar", dialect="ffi")
    mblob.convert(tmp_path / "classic.tar", tmp_path / "ffi.so", dialect="ffi")
    mblob.convert(tmp_path / "ffi.tar", tmp_path / "back.so", dialect="classic")
    opened = [mblob.open(tmp_path / f"{name}.so") for name in ("classic", "ffi", "back")]
    with opened[0] as a, opened[1] as b, opened[2] as c:
        assert a.functions == b.functions == c.functions
        assert sorted(a.function_table, key=str) == sorted(c.function_table, key=str)
        symbols = {row.name: row.symbol for row in b.function_table if row.abi == "packed"}
        assert symbols["vadd"] == "__tvm_ffi_vadd"
        plain = {row.name: row.symbol for row in b.function_table if row.abi == "plain"}
        assert plain["vadd"] == "vadd"
    lib = mblob.load_module(tmp_path / "back.so")
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    lib["vadd"](x, x, y, 4)
    assert y.tolist() == [2, 2, 2, 2]
    with pytest.raises(mblob.KernelError, match=r"expected shape \(5,\)"):
        lib["vadd"](x, x, y, 5)


def test_an_ffi_tar_of_ours_runs_as_a_classic_library(tmp_path: Path) -> None:
    plain_module().export_library(tmp_path / "f.tar", dialect="ffi")
    mblob.convert(tmp_path / "f.tar", tmp_path / "f.so", dialect="classic")
    lib = mblob.load_module(tmp_path / "f.so")
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    lib["vadd"](x, x, y, 4)
    assert y.tolist() == [2, 2, 2, 2]
    assert lib["greet"]("somebody else") == "hello somebody else"
    assert lib["echo"]("abc") == "abc"
    assert lib["scale"](2.5, 3) == 7.5
    with pytest.raises(
        mblob.KernelError, match=r"ValueError: Invalid k on argument #1 when calling:\n  `scale\("
    ):
        lib["scale"](2.5, 300)
    with pytest.raises(mblob.KernelError, match=r"ValueError: Mismatched b.shape"):
        lib["vadd"](x, x[:2].copy(), y, 4)


@pytest.mark.slow
def test_archives_and_sources_are_inputs_too(tmp_path: Path) -> None:
    source = tmp_path / "packed.c"
    source.write_text(PACKED)
    mblob.csource_module(source).export_library(tmp_path / "packed.tar", index=False)
    with tarfile.open(tmp_path / "packed.tar") as tar:
        tar.extractall(
            tmp_path / "files", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    (made,) = (tmp_path / "files").iterdir()
    subprocess.run(["ar", "rcs", tmp_path / "packed.a", made], check=True)
    for name in (tmp_path / "packed.a", made):
        mblob.convert(name, tmp_path / "x.so", dialect="ffi")
        with mblob.open(tmp_path / "x.so") as lib:
            exported = {s.name for s in lib.elf.dynsym if s.is_exported}
            assert {"__tvm_ffi_twice", "__tvm_ffi_calls", "__tvm_ffi_main"} <= exported
    mblob.csource_module(source).export_library(tmp_path / "packed.so")
    mblob.convert(tmp_path / "packed.so", tmp_path / "y.so", dialect="ffi", objects=[source])
    with mblob.open(tmp_path / "y.so") as lib:
        assert {"twice", "calls", "main"} <= set(lib.functions)


def test_the_packed_modules_as_c_text_are_read(tmp_path: Path) -> None:
    root = mblob.csource_module("")
    root.import_module(mblob.blob_module("my.kind", b"hello"))
    root.export_library(tmp_path / "c.tar", embed="c")
    mblob.convert(tmp_path / "c.tar", tmp_path / "x.so", dialect="ffi")
    assert payloads_of(tmp_path / "x.so") == [b"", b"hello"]


def test_a_tree_without_a_library_gets_one(tmp_path: Path) -> None:
    mblob.const_loader_module({"c": np.ones(3, "int8")}, {"s": ["c"]}).export_library(
        tmp_path / "c.so"
    )
    assert [row[0] for row in tree_of(tmp_path / "c.so")] == ["const_loader"]
    mblob.convert(tmp_path / "c.so", tmp_path / "x.so", dialect="ffi")
    assert [row[:2] for row in tree_of(tmp_path / "x.so")] == [
        ("const_loader", (1,)),
        ("library", ()),
    ]


def test_what_cannot_be_converted_is_refused_by_name(tmp_path: Path, golden: Path) -> None:
    plain_module().export_library(tmp_path / "f.so", dialect="ffi")
    data_tree().export_library(tmp_path / "d.so")
    plain_module().export_library(tmp_path / "sys.o", system_lib=True)
    (tmp_path / "text").write_text("no library at all")
    plain_module().export_library(tmp_path / "p.tar")
    (tmp_path / "cut.tar").write_bytes((tmp_path / "p.tar").read_bytes()[:3000])
    cases: list[tuple[Path, str, type[Exception], str]] = [
        (tmp_path / "f.so", "ffi", BuildError, "f.so: of the ffi dialect already"),
        (tmp_path / "d.so", "classic", BuildError, "d.so: of the classic dialect already"),
        (tmp_path / "d.so", "modern", BuildError, "dialect: expected one of classic, ffi"),
        (tmp_path / "sys.o", "ffi", BuildError, "an object of a system library"),
        (tmp_path / "text", "ffi", FormatError, "neither a shared library nor objects"),
        (tmp_path / "cut.tar", "ffi", FormatError, r"cut.tar\(lib0.o\): .* are left"),
        (tmp_path / "none", "ffi", FileNotFoundError, "none"),
        (
            golden / "mlp_llvm.so",
            "ffi",
            BuildError,
            "'GraphExecutorFactory' is not a kind of the ffi dialect",
        ),
        # without packed modules
        (golden / "ffi/ctx_llvm.so", "ffi", BuildError, "of the ffi dialect already"),
        (golden / "host_c.so", "classic", BuildError, "of the classic dialect already"),
    ]
    out = tmp_path / "out.so"
    out.write_bytes(b"the old one")
    for path, dialect, kind, message in cases:
        with pytest.raises(kind, match=message):
            mblob.convert(path, out, dialect=dialect)
    with pytest.raises(BuildError, match="the output is also the input"):
        mblob.convert(tmp_path / "d.so", tmp_path / "d.so", dialect="ffi")
    with pytest.raises(BuildError, match="'GraphExecutorFactory' is not a kind of the ffi dialect"):
        factory = mblob.graph_executor_factory('{"nodes": []}')
        factory.import_module(mblob.csource_module(""))
        factory.export_library(tmp_path / "g.so")
        mblob.convert(tmp_path / "g.so", out, dialect="ffi")
    assert out.read_bytes() == b"the old one"


def test_a_library_for_another_machine_needs_its_compiler(tmp_path: Path) -> None:
    data_tree().export_library(tmp_path / "d.so")
    data = bytearray((tmp_path / "d.so").read_bytes())
    data[18:20] = struct.pack("<H", 183)
    (tmp_path / "arm.so").write_bytes(data)
    with pytest.raises(
        IncompatibleError, match=r"is for aarch64 \(64-bit\), the compiler .* links for x86_64"
    ):
        mblob.convert(tmp_path / "arm.so", tmp_path / "x.so", dialect="ffi")


def test_compressed_tars_are_read_within_bounds(tmp_path: Path) -> None:
    """TVM compresses its tars."""
    mblob.csource_module(PACKED).export_library(tmp_path / "p.tar", index=False)
    data = (tmp_path / "p.tar").read_bytes()
    (tmp_path / "z.tar").write_bytes(gzip.compress(data))
    mblob.convert(tmp_path / "z.tar", tmp_path / "x.so", dialect="ffi")
    with mblob.open(tmp_path / "x.so") as lib:
        assert "twice" in lib.functions
    (tmp_path / "cut.tar").write_bytes(gzip.compress(data)[:-200])
    with pytest.raises(FormatError, match="the file is cut"):
        mblob.convert(tmp_path / "cut.tar", tmp_path / "x.so", dialect="ffi")
    info = tarfile.TarInfo("big.o")
    info.size = 1 << 40
    (tmp_path / "bomb.tar").write_bytes(gzip.compress(info.tobuf() + bytes(1 << 20)))
    with pytest.raises(FormatError, match=r"1099511627776 bytes, .* are left"):
        mblob.convert(tmp_path / "bomb.tar", tmp_path / "x.so", dialect="ffi")


def test_functions_that_cannot_be_seen_are_told_of(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="compiled with -flto, so its functions cannot be seen"
    ) as found:
        mblob.csource_module(PACKED).export_library(
            tmp_path / "x.so", dialect="ffi", options=["-flto"]
        )
    assert [w.filename for w in found] == [__file__]


def test_names_in_a_tar_lead_nowhere(tmp_path: Path) -> None:
    mblob.csource_module(PACKED).export_library(tmp_path / "p.tar", index=False)
    with tarfile.open(tmp_path / "p.tar") as tar:
        (member,) = tar
        content = tar.extractfile(member)
        assert content is not None
        data = content.read()
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        for name in ("../../evil.o", "/etc/evil.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            if name.endswith(".o"):
                link = tarfile.TarInfo("link.o")
                link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(link)
    with pytest.raises(FormatError, match="leads out of the archive"):
        mblob.convert(tmp_path / "evil.tar", tmp_path / "x.so", dialect="ffi")
    assert not (tmp_path.parent.parent / "evil.o").exists()


@pytest.mark.slow
def test_what_is_written_in_the_ffi_dialect_runs_here(tmp_path: Path) -> None:
    """Plain functions, adapters that call back, payloads and weights, by the loader of mblob."""
    seen: list[Any] = []
    mblob.register_func("my.callback", lambda *args: (seen.append(args[:2]), 41)[1], override=True)
    root = data_tree()
    root.import_module(plain_module())
    root.import_module(mblob.csource_module(PACKED))
    root.export_library(tmp_path / "x.so", dialect="ffi")
    lib = mblob.load_module(tmp_path / "x.so", missing="stub")
    x, y = np.ones(4, "float32"), np.zeros(4, "float32")
    own = lib.get_function
    own("vadd")(x, x, y, 4)
    assert y.tolist() == [2, 2, 2, 2]
    assert own("greet")("somebody else") == "hello somebody else"
    assert own("twice")(4) == 8
    assert own("calls")(x) == 41
    assert seen == [(7, "from classic")]
    with pytest.raises(mblob.KernelError, match="twice: wants one int"):
        own("twice")("x")
    weights = next(m for m in lib.imported_modules if m.type_key == "safetensors")
    assert np.asarray(weights.tensors["w"]).tolist() == [1, 2]


def test_a_tar_that_is_cut_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "lib0.c").write_text("int one(void) { return 1; }\n" * 200)
    path = tmp_path / "m.tar"
    subprocess.run(["tar", "-cf", path, "-C", tmp_path / "m", "."], check=True)
    for size, says in (1000, "the tar archive is cut after 1000 bytes"), (2048, "the file is cut"):
        cut = tmp_path / f"{size}.tar"
        cut.write_bytes(path.read_bytes()[:size])
        with pytest.raises(FormatError, match=says):
            mblob.convert(cut, tmp_path / "x.so", dialect="ffi")
