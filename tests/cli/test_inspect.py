"""`mblob-pack inspect`: its forms, TVM's own libraries, damage, files that are no model library."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

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
    assert (root["type_key"], root["offset"], root["size"], root["imports"]) == ("library", None, 0, [1])
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
    key, _, imports = json.loads((golden / "dag.json").read_text())  # [type key, symbol, imports], nested
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


TYPES = "const float *, const float *, float *, int64_t"


def test_functions_lists_packed_names_and_marks_the_plain_form(pack, deploy: Path) -> None:
    lines = pack("inspect", deploy, "--functions").stdout.splitlines()
    assert lines == ["vadd", f"plain vadd({TYPES})"]
    assert "plain NAME(TYPES)" in " ".join(pack("inspect", "--help").stdout.split())


def test_the_summary_counts_a_function_with_two_forms_once(pack, deploy: Path) -> None:
    lines = [line.strip() for line in pack("inspect", deploy).stdout.splitlines()]
    assert lines[lines.index("functions  1") + 1] == f"vadd  and plain C: vadd({TYPES})"


def test_the_summary_shows_a_function_that_is_only_plain(pack, cc, tmp_path: Path) -> None:
    table = r'const char __mblob_functions[] = "mblob functions 1\nf\tf\tplain\t0\tint\n";'
    path = cc(f"{table} int f(int x) {{ return x; }}\n", tmp_path / "plain.so")
    lines = [line.strip() for line in pack("inspect", path).stdout.splitlines()]
    assert lines[lines.index("functions  1") + 1] == "f(int)  plain C only"


@pytest.mark.parametrize(("name", "what"), [("k.o", "an object"), ("k.a", "an archive"), ("k.tar", "a tar archive")])
def test_what_must_be_linked_first_is_exit_code_3_and_says_what_to_do(
    pack, error_line, kernel: Path, tmp_path: Path, name: str, what: str
) -> None:
    subprocess.run(["cc", "-c", "-fPIC", "vadd.c", "-o", "k.o"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rc", "k.a", "k.o"], cwd=tmp_path, check=True)
    with tarfile.open(tmp_path / "k.tar", "w") as tar:
        tar.add(tmp_path / "k.o", "k.o")
    done = pack("inspect", name)
    assert (done.returncode, done.stdout) == (3, "")
    line = error_line(done)
    assert line.startswith(f"{name}: {what}")
    assert "load_module" in line
    assert "not an ELF file" not in line


def test_the_summary_fits_a_screen(pack, deploy: Path) -> None:
    text = pack("inspect", deploy).stdout
    assert len(text.splitlines()) < 24
    for word in ("classic", "library", "about", "vadd", "index by mblob"):
        assert word in text


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fEL", b"PK\x03\x04"])
def test_a_file_that_is_not_elf_is_exit_code_3(pack, error_line, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    done = pack("inspect", path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "x.so" in error_line(done)


def test_a_library_without_any_name_of_ours_is_exit_code_3(pack, error_line, cc, tmp_path: Path) -> None:
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
def test_a_truncated_library_is_one_error(pack, error_line, deploy: Path, tmp_path: Path, keep: float) -> None:
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
