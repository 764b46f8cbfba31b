"""`mblob-pack inspect`: its forms, TVM's own libraries, damage, files that are no model library."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import mblob

GOLDEN = (
    "aot_mlp",
    "dnnl_c_lib",
    "dnnl_llvm_factory",
    "host_c",
    "host_llvm",
    "host_parallel",
    "mlp_c",
    "vm_mlp",
)


def test_json_has_the_documented_fields(pack, deploy: Path) -> None:
    done = pack("inspect", deploy, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["schema"] == "mblob/inspect/1"
    assert report["file"] == str(deploy)
    assert report["dialect"] == "classic"
    assert report["target"]["bits"] == 64
    assert report["blob"]["symbol"] == "__tvm_dev_mblob"
    root, about = report["entries"]
    assert (root["type_key"], root["offset"], root["size"], root["imports"]) == (
        "library",
        None,
        0,
        [1],
    )
    assert (about["type_key"], about["size"]) == ("about", 14)
    assert deploy.read_bytes()[about["offset"] :][: about["size"]] == b'{"version": 3}'
    assert report["functions"] == ["vadd"]
    assert report["diagnostics"] == []


@pytest.mark.parametrize("name", GOLDEN)
def test_the_tree_of_each_library_that_tvm_exported_is_read(pack, golden: Path, name: str) -> None:
    expected = json.loads((golden / f"{name}.json").read_text())
    found = json.loads(pack("inspect", golden / f"{name}.so", "--json").stdout)
    assert tree(found["entries"], 0) == described(expected["tree"])


def test_the_tree_of_modules_above_and_below_host_code_is_read(pack, golden: Path) -> None:
    # [type key, symbol, imports], nested
    key, _, imports = json.loads((golden / "dag.json").read_text())
    found = json.loads(pack("inspect", golden / "dag.so", "--json").stdout)
    assert tree(found["entries"], 0) == [key, [without_symbol(child) for child in imports]]


def without_symbol(node: list) -> list:
    key, _, *imports = node
    return [key, [without_symbol(child) for child in (imports[0] if imports else [])]]


def tree(entries: list[dict], index: int) -> list:
    entry = entries[index]
    return [entry["type_key"], [tree(entries, i) for i in entry["imports"]]]


def described(node: dict) -> list:
    return [node["type_key"], [described(child) for child in node["imports"]]]


def test_the_tree_names_each_module_and_unfolds_a_shared_one_once(pack, golden: Path) -> None:
    done = pack("inspect", golden / "dag.so", "--tree")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("[0] ")
    unfolded = [line for line in lines if "see above" not in line]
    assert len({line.split("[")[1].split("]")[0] for line in unfolded}) == len(
        json.loads(pack("inspect", golden / "dag.so", "--json").stdout)["entries"]
    )


NAMED = "const float *a, const float *b, float *c, int64_t n"


def test_functions_lists_packed_names_and_marks_the_plain_form(pack, deploy: Path) -> None:
    lines = pack("inspect", deploy, "--functions").stdout.splitlines()
    told = f"void vadd({NAMED})  # as given to mblob"
    assert lines == [f"vadd  {told}", f"plain {told}"]
    assert "`plain` and the prototype" in " ".join(pack("inspect", "--help").stdout.split())


def test_the_summary_counts_a_function_with_two_forms_once(pack, deploy: Path) -> None:
    lines = [line.strip() for line in pack("inspect", deploy).stdout.splitlines()]
    assert lines[lines.index("functions  1") + 1] == f"vadd  and plain C: void vadd({NAMED})"


def test_the_summary_shows_a_function_that_is_only_plain(pack, cc, tmp_path: Path) -> None:
    table = r'const char __mblob_functions[] = "mblob functions 1\nf\tf\tplain\t0\tint\n";'
    path = cc(f"{table} int f(int x) {{ return x; }}\n", tmp_path / "plain.so")
    lines = [line.strip() for line in pack("inspect", path).stdout.splitlines()]
    assert lines[lines.index("functions  1") + 1] == "f(int)  plain C only"


@pytest.mark.parametrize("name", ["k.o", "k.a", "k.tar"])
def test_objects_without_any_name_of_ours_are_exit_code_3(
    pack, error_line, kernel: Path, tmp_path: Path, name: str
) -> None:
    subprocess.run(["cc", "-c", "-fPIC", "vadd.c", "-o", "k.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "k.a", "k.o"], cwd=tmp_path, check=True)
    with tarfile.open(tmp_path / "k.tar", "w") as tar:
        tar.add(tmp_path / "k.o", "k.o")
    done = pack("inspect", name)
    assert (done.returncode, done.stdout) == (3, "")
    assert error_line(done).startswith(f"{name}: not a model library")


def test_the_summary_fits_a_screen(pack, deploy: Path) -> None:
    text = pack("inspect", deploy).stdout
    assert len(text.splitlines()) < 24
    for word in ("classic", "library", "about", "vadd", "index by mblob"):
        assert word in text


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fEL", b"PK\x03\x04"])
def test_a_file_that_is_not_elf_is_exit_code_3(
    pack, error_line, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    done = pack("inspect", path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "x.so" in error_line(done)


def test_a_library_without_any_name_of_ours_is_exit_code_3(
    pack, error_line, cc, tmp_path: Path
) -> None:
    done = pack("inspect", cc("int seven(void) { return 7; }\n", tmp_path / "plain.so"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "not a model library" in error_line(done)


def test_a_library_with_only_a_name_of_ours_is_read(pack, cc, tmp_path: Path) -> None:
    path = cc('const char __mblob_functions[] = "mblob functions 1\\n";\n', tmp_path / "bare.so")
    done = pack("inspect", path, "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert (report["blob"], [e["type_key"] for e in report["entries"]]) == (None, ["library"])


def test_a_folder_in_place_of_a_file_is_exit_code_5(pack, error_line, tmp_path: Path) -> None:
    done = pack("inspect", tmp_path)
    assert done.returncode == 5
    assert "Is a directory" in error_line(done)


def test_a_changed_payload_is_exit_code_7(pack, error_line, deploy: Path, tmp_path: Path) -> None:
    data = bytearray(deploy.read_bytes())
    at = data.index(b'{"version": 3}')
    data[at] ^= 1
    (tmp_path / "damaged.so").write_bytes(data)
    done = pack("inspect", "damaged.so")
    assert (done.returncode, done.stdout) == (7, "")
    assert "about" in error_line(done) or "entry 1" in error_line(done)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_truncated_library_is_one_error(
    pack, error_line, deploy: Path, tmp_path: Path, keep: float
) -> None:
    data = deploy.read_bytes()
    (tmp_path / "cut.so").write_bytes(data[: int(len(data) * keep)])
    done = pack("inspect", "cut.so")
    assert done.returncode in (1, 3)
    assert error_line(done)


def test_inspecting_never_runs_code_of_the_file(pack, cc, tmp_path: Path) -> None:
    source = """
    #include <stdio.h>
    const char __mblob_functions[] = "mblob functions 1\\n";
    __attribute__((constructor)) static void run(void) { fclose(fopen("ran", "w")); }
    """
    assert pack("inspect", cc(source, tmp_path / "trap.so")).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_stripped_library_reads_the_same(pack, require, deploy: Path, tmp_path: Path) -> None:
    shutil.copy(deploy, tmp_path / "stripped.so")
    subprocess.run([require("strip"), str(tmp_path / "stripped.so")], check=True)
    before = json.loads(pack("inspect", deploy, "--json").stdout)
    after = json.loads(pack("inspect", "stripped.so", "--json").stdout)
    assert [e["type_key"] for e in after["entries"]] == [e["type_key"] for e in before["entries"]]
    assert after["functions"] == before["functions"]


def test_entry_shows_everything_of_one_module(pack, golden: Path) -> None:
    lines = pack("inspect", golden / "mlp_llvm.so", "--entry", "0").stdout.splitlines()
    assert lines[0] == "[0] GraphExecutorFactory"
    text = "\n".join(lines)
    for words in (
        "imports    1 (library)",
        "graph      12 nodes",
        "data  float32[1, 1, 8, 8]",
        "tensors    6",
    ):
        assert words in text
    assert (
        pack(
            "inspect", golden / "mlp_llvm.so", "--entry", "GraphExecutorFactory"
        ).stdout.splitlines()
        == lines
    )
    entry = json.loads(pack("inspect", golden / "mlp_llvm.so", "--entry", "0", "--json").stdout)
    assert (
        entry == json.loads(pack("inspect", golden / "mlp_llvm.so", "--json").stdout)["entries"][0]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--entry", "7"), "no entry '7'"),
        (("--entry", "dnnl_json"), "2 entries of type 'dnnl_json': choose one of 1, 2"),
        (("--entry", "0", "--tree"), "--entry shows one module"),
        (("--prefix", "p_"), "no library of prefix 'p_'"),
    ],
)
def test_a_wrong_choice_is_exit_code_2(
    pack, error_line, golden: Path, arguments, words: str
) -> None:
    done = pack("inspect", golden / "dnnl_c_lib.so", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in error_line(done)


HOSTILE = "red\x1b[31m\u202egnp.exe\r\nmblob-pack: error: forged\t\x9b2J"


def test_text_of_the_file_cannot_drive_the_terminal(pack, cc, tmp_path: Path) -> None:
    """Type keys, names of kernels, tensors and symbols: each is in the listing, and none of them as
    it is."""
    import struct

    def string(value: str | bytes) -> bytes:
        raw = value if isinstance(value, bytes) else value.encode()
        return struct.pack("<Q", len(raw)) + raw

    kernel = (
        string(HOSTILE)
        + string("")
        + bytes(8)
        + struct.pack("<Q", 1)
        + string(HOSTILE.encode() + b"\xff\xfe")
    )
    cuda = string(HOSTILE) + struct.pack("<Q", 1) + kernel + string("code")
    body = struct.pack("<Q", 3) + string("cuda") + cuda + string("_lib")
    tree = string("_import_tree") + struct.pack("<4Q", 3, 0, 1, 1) + struct.pack("<2Q", 1, 1)
    blob = struct.pack("<Q", len(body + tree)) + body + tree
    data = ",".join(map(str, blob))
    hidden = '__asm__(".globl \\"__tvm_\\\\033[2J\\"\\n\\"__tvm_\\\\033[2J\\": .byte 0\\n");'
    path = cc(
        f"const unsigned char __tvm_dev_mblob[{len(blob)}] = {{{data}}};\n{hidden}",
        tmp_path / "h.so",
    )
    for form in ((), ("--tree",), ("--functions",), ("--entry", "0"), ("--json",)):
        done = pack("inspect", path, *form)
        assert done.returncode == 0, done.stderr
        assert not [c for c in done.stdout + done.stderr if c in "\x1b\x9b\u202e\r\t"]
        assert "\nmblob-pack: error: forged" not in done.stdout
    report = json.loads(pack("inspect", path, "--json").stdout)
    assert report["entries"][0]["kernels"][0]["name"] == HOSTILE


@pytest.mark.slow
def test_system_libraries_are_refused_politely(capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred that have nothing to do with models: exit code 3, one line, nothing on stdout."""
    from mblob.cli.main import main

    folders = [Path("/usr/lib"), Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu*")]
    found = {p.resolve() for f in folders if f.is_dir() for p in f.glob("*.so*") if p.is_file()}
    libraries = [
        p
        for p in sorted(found)
        if p.read_bytes()[:4] == b"\x7fELF" and b"tvm" not in p.name.encode()
    ][:100]
    assert len(libraries) > 20
    for path in libraries:
        assert main(["inspect", str(path)]) == 3, path
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert "not a model library" in err


def test_an_archive_is_inspected_like_a_library(pack, kernel: Path, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"weights")
    done = pack(
        "build",
        "--kernel",
        "vadd.c",
        "--blob",
        "w=w.bin",
        "--system-lib",
        "--prefix",
        "v_",
        "-o",
        "v.a",
    )
    assert done.returncode == 0, done.stderr
    lines = pack("inspect", "v.a").stdout.splitlines()
    assert "  prefixes   'v_'" in lines
    assert any(line.startswith("  archive    ") and "devc.o (elf object)" in line for line in lines)
    report = json.loads(pack("inspect", "v.a", "--json", "--prefix", "v_").stdout)
    assert report["blob"]["symbol"] == "v___tvm_dev_mblob"
    assert pack("extract", "v.a", "-o", "out").returncode == 0
    assert (tmp_path / "out" / "1-w.payload").read_bytes() == b"weights"


def test_an_entry_shows_the_text_of_its_payload(pack, tmp_path: Path) -> None:
    root = mblob.csource_module("void f(void) {}", functions=["void f(void)"])
    texts = {
        "config": b'{"labels": ["cat"],\n\t"evil": "\xe2\x80\xae"}', "terminal": b"\x1b[2J",
        "json": '{"é": 1}'.encode(),
        "lines": b"line\n" * 100, "long": "é".encode() * 5000, "binary": b"a\0b", "latin": b"caf\xe9", "empty": b"",
    }  # fmt: skip
    for key, data in texts.items():
        root.import_module(mblob.blob_module(key, data))
    root.import_module(mblob.device_module("opencl", "__kernel void k() {}", functions=[("k", [])]))
    root.export_library(tmp_path / "t.so")
    with mblob.open(tmp_path / "t.so") as library:
        index = {e.type_key: e.index for e in library.entries}
    shown = {
        key: pack("inspect", tmp_path / "t.so", "--entry", str(i)).stdout.partition("  text\n")[2]
        for key, i in index.items()
    }
    assert not any(shown[key] for key in ("binary", "latin", "empty", "library", "terminal"))
    assert shown["config"] == '    {"labels": ["cat"],\n        "evil": "\\u202e"}\n'
    assert shown["json"] == '    {"é": 1}\n'
    assert shown["lines"] == "    line\n" * 40 + "    ... 60 lines more: see mblob-pack extract\n"
    assert shown["long"] == f"    {'é' * 2048}\n    ... 5904 bytes more: see mblob-pack extract\n"
    assert "__kernel void k() {}" in shown["opencl"]
