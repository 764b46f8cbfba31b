"""`mblob-pack verify` and `mblob.verify`: what is sound, what is not, and who provides what is
needed."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import mblob
from tests.loader.payloads import unread_module

EXIT = {"FormatError": 1, "DigestError": 7, "IncompatibleError": 6}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a payload that is too large for the level "header"."""
    path = tmp_path_factory.mktemp("large") / "large.so"
    mblob.blob_module("data", bytes(range(256)) * 2048).export_library(path)
    return path


def damaged(library: Path, folder: Path) -> Path:
    """A copy with one bit of its last payload changed."""
    copy = folder / "damaged.so"
    shutil.copy(library, copy)
    with mblob.open(library, verify="off") as found:
        offset = found.entries[-1].offset
    assert offset is not None
    data = bytearray(copy.read_bytes())
    data[offset] ^= 1
    copy.write_bytes(data)
    return copy


def test_a_sound_library(pack, deploy: Path) -> None:
    done = pack("verify", deploy)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{deploy}: sound (full): classic blob, with an index",
        "  [1] about  14 B  crc32 matches, content not checked (unknown key)",
    ]


def test_the_library_that_an_engine_needs_is_looked_for_and_what_to_install_is_told(
    pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MBLOB_DNNL_LIBRARY", raising=False)
    module = mblob.csource_module("")
    module.import_module(mblob.json_module("dnnl_json", "f", '{"nodes": []}', []))
    module.export_library(tmp_path / "net.so")
    (tmp_path / "lib").mkdir()

    def told(*words: object) -> str:
        (line,) = (s for s in pack("verify", *words).stdout.splitlines() if "info: " in s)
        text = "  info: dnnl_json: run by the plug-in dnnl of mblob, which needs oneDNN 2.6, 2.7 or 3: "
        assert line.startswith(text)
        return str(line.partition("LIBRARY names; ")[2])

    assert told(tmp_path / "net.so", "--root", tmp_path).startswith(
        "it is not here; install it (Debian, Ubuntu: apt install libdnnl2; "
    )
    other = str(shutil.copy(tmp_path / "net.so", tmp_path / "lib" / "libdnnl.so.2"))
    assert told(tmp_path / "net.so", "--root", tmp_path) == f"here it is {other} [plugin_needs]"
    monkeypatch.setenv("MBLOB_DNNL_LIBRARY", str(tmp_path / "none.so"))
    assert told(tmp_path / "net.so").startswith("it is not here; ")
    monkeypatch.setenv("MBLOB_DNNL_LIBRARY", other)
    assert told(tmp_path / "net.so") == f"here it is {other} [plugin_needs]"


def test_changed_bytes_are_exit_code_7_at_the_level_that_sees_them(
    pack, deploy: Path, large: Path, tmp_path: Path, error_line
) -> None:
    for library, level, code in (
        (deploy, "header", 7),
        (deploy, "full", 7),
        (large, "full", 7),
        (large, "header", 0),
    ):
        done = pack("verify", damaged(library, tmp_path), "--level", level)
        assert done.returncode == code, (library, level)
        if code:
            assert "digest" in error_line(done) and done.stdout == ""
    assert "crc32 not compared at this level" in done.stdout


def test_without_a_blob_it_is_no_model_library(pack, cc, tmp_path: Path, error_line) -> None:
    done = pack("verify", cc("int f(void) { return 1; }", tmp_path / "plain.so"))
    assert (done.returncode, "not a model library" in error_line(done)) == (3, True)
    (tmp_path / "text.so").write_text("no library at all")
    assert pack("verify", tmp_path / "text.so").returncode == 3
    assert pack("verify", tmp_path / "gone.so").returncode == 5
    assert pack("verify", tmp_path / "plain.so", "--level", "deep").returncode == 2


def test_missing_symbols_are_exit_code_6(pack, cc, tmp_path: Path, error_line) -> None:
    (tmp_path / "k.c").write_text("float gone(float); void k(float *x) { *x = gone(*x); }")
    host = mblob.csource_module(tmp_path / "k.c", functions=["void k(float x[1])"])
    with pytest.warns(mblob.PortabilityWarning, match="nothing that is linked defines gone"):
        host.export_library(tmp_path / "k.so")
    assert pack("verify", "k.so").returncode == 0
    done = pack("verify", "k.so", "--against", "libm.so.6")
    assert (done.returncode, "nobody provides gone" in error_line(done)) == (6, True)
    assert "gone\tnobody" in done.stdout.splitlines()
    cc("float gone(float x) { return 2 * x; }", tmp_path / "libgone.so")
    done = pack("verify", "k.so", "--against", "./libgone.so", "--json")
    assert done.returncode == 0, done.stderr
    symbols = {s["name"]: s for s in json.loads(done.stdout)["linkage"]["symbols"]}
    assert symbols["gone"] == {"name": "gone", "version": None, "provider": "./libgone.so"}
    with pytest.raises(mblob.IncompatibleError, match="nobody provides gone"):
        mblob.verify(tmp_path / "k.so", against=[]).check()


def test_symbols_of_the_runtime_are_named_with_the_library_that_has_them(
    pack, cc, tmp_path: Path
) -> None:
    from mblob import loader

    source = 'void *TVMBackendAllocWorkspace(int, int, long, int, int);\nextern const char __tvm_main__[] = "f";\n'
    source += "int f(void) { return TVMBackendAllocWorkspace(1, 0, 8, 2, 32) != 0; }"
    library = cc(source, tmp_path / "workspace.so")
    done = pack("verify", library, "--against", "libc.so.6")
    assert done.returncode == 6 and "TVMBackendAllocWorkspace\tnobody" in done.stdout
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert "TVMBackendAllocWorkspace" in hint
    runtime = Path(loader.__file__).resolve().parent / "_lib" / "libmblob.so.0"
    assert pack("verify", library, "--against", runtime).returncode == 0


def test_hints_name_who_has_what_is_missing(pack, cc, golden: Path, tmp_path: Path) -> None:
    from mblob import loader

    runtime = Path(loader.__file__).resolve().parent / "_lib" / "libmblob.so.0"
    ffi = golden / "ffi" / "ctx_llvm.so"
    done = pack("verify", ffi, "--against", "libc.so.6")
    (hint,) = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert done.returncode == 6
    assert (
        hint
        == f"hint: mblob's runtime has TVMFFIErrorSetRaisedFromCStrParts (libmblob-ffi.so): --against {runtime}"
    )
    done = pack("verify", ffi, "--against", runtime)
    assert done.returncode == 0
    assert (
        f"TVMFFIErrorSetRaisedFromCStrParts\t{runtime.with_name('libmblob-ffi.so')}"
        in done.stdout.splitlines()
    )
    assert pack("verify", ffi, "--against", runtime.with_name("libmblob-ffi.so")).returncode == 0
    source = (
        'int clFinish(void*); int nobody_knows(void);\nextern const char __tvm_main__[] = "f";\n'
    )
    source += "int f(void) { return clFinish(0) + nobody_knows(); }"
    done = pack("verify", cc(source, tmp_path / "cl.so"), "--against", "libc.so.6")
    assert [line for line in done.stderr.splitlines() if line.startswith("hint")] == [
        "hint: by their names: clFinish (libOpenCL)"
    ]


def test_json_tells_of_failures_too(pack, deploy: Path, tmp_path: Path) -> None:
    sound = json.loads(pack("verify", deploy, "--json").stdout)
    assert (sound["schema"], sound["ok"], sound["error"]) == ("mblob/verify/1", True, None)
    done = pack("verify", damaged(deploy, tmp_path), "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["ok"]) == (7, False)
    assert (answer["error"]["kind"], answer["error"]["entry"], answer["error"]["exit_code"]) == (
        "DigestError",
        1,
        7,
    )


def test_a_payload_that_breaks_its_grammar_is_found_though_its_digest_is_right(
    pack, tmp_path: Path, error_line
) -> None:
    unread_module("cuda", b"no kernels").export_library(tmp_path / "odd.so")
    done = pack("verify", "odd.so")
    assert (
        done.returncode,
        "entry 0 (cuda) breaks the grammar of its key" in error_line(done),
    ) == (1, True)
    assert pack("verify", "odd.so", "--level", "header").returncode == 0
    unread_module("safetensors", b"\xff" * 16).export_library(tmp_path / "odd.so")
    assert pack("verify", "odd.so").returncode == 1


def test_what_was_not_judged_is_told(pack, deploy: Path, tmp_path: Path) -> None:
    """A library that says it is for another machine: its structure is sound."""
    data = bytearray(deploy.read_bytes())
    struct.pack_into("<H", data, 18, 22 if data[18] != 22 else 62)  # e_machine
    (tmp_path / "other.so").write_bytes(data)
    (line,) = [x for x in pack("verify", "other.so").stdout.splitlines() if "[not_judged]" in x]
    assert line.startswith("  info: it is for ") and "was not judged [" in line
    found = json.loads(pack("verify", "other.so", "--json").stdout)
    assert (found["ok"], [i["code"] for i in found["info"]]) == (True, ["not_judged"])
    remarks = json.loads(pack("inspect", "other.so", "--json").stdout)["diagnostics"]
    assert [d["severity"] for d in remarks if d["code"] == "not_judged"] == ["info"]
    assert json.loads(pack("verify", str(deploy), "--json").stdout)["info"] == []


def test_every_golden_library_is_sound(golden: Path) -> None:
    for path in (*golden.glob("*.so"), *golden.glob("ffi/*.so")):
        assert mblob.verify(path).level == "full"
        with mblob.open(path) as library:
            found = library.verify("header", against=["libm.so.6"])
            undefined = library.undefined
        assert found.linkage is not None
        assert [r.name for r in found.linkage.references] == undefined


def test_each_bit_of_a_small_library_that_is_changed_is_found(tmp_path: Path) -> None:
    """Of a blob with an index: every single bit."""
    weights = tmp_path / "w.npz"
    np.savez(weights, w=np.arange(3, dtype="float32"))
    path = tmp_path / "small.so"
    mblob.blob_module("data", b"0123456789").export_library(path)
    with mblob.open(path) as library:
        assert library.blob is not None
        start, size = library.blob_offset, library.blob.size
    whole = path.read_bytes()
    for at in range(start, start + size):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with pytest.raises((mblob.FormatError, mblob.DigestError)):
            mblob.verify(path)
