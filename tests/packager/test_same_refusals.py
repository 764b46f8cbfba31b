"""Each way of an export refuses the same objects with the same words."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.packager.write import elf_writer

TOTAL = ["int total(int n, int k)"]
PLAIN = "int total(int n, int k) { return n * k; }\n"
# gcc writes a trampoline onto the stack.
NESTED = """
static int apply(int (*f)(int), int n) { int s = 0; for (int i = 0; i < n; ++i) s += f(i); return s; }
int total(int n, int k) { int g(int i) { return i * k; } return apply(g, n); }
"""
REGISTERS = """
int TVMBackendRegisterSystemLibSymbol(const char *name, void *address);
__attribute__((constructor)) static void start(void) {
  TVMBackendRegisterSystemLibSymbol("__tvm_dev_mblob", (void *)__tvm_dev_mblob);
}
"""
BLOB = "const unsigned char __tvm_dev_mblob[9] = {1};\n"


def link(path: str, files: list[str], options: Any = (), **_: Any) -> None:
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, *files, *options], check=True)


def archive(path: str, files: list[str], **_: Any) -> None:
    subprocess.run(["ar", "rc", path, *files], check=True)


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "shared": ("k.so", {}),
    "objects": ("k.tar", {}),
    "system": ("k.a", {"system_lib": True}),
    "fcompile": ("k.so", {"fcompile": link}),
    "fcompile of a system library": ("k.a", {"fcompile": archive, "system_lib": True}),
}
COMPILED_BY_US = [way for way in WAYS if way != "fcompile"]


def compiled(folder: Path, name: str, text: str, *options: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    command = ["gcc", "-O1", "-fPIC", "-c", *options, f"{name}.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / f"{name}.o"


def tree(*objects: Path, packed: str | None = None) -> mblob.Module:
    root = mblob.static_library(objects[0], functions=TOTAL, packed=packed)
    for path in objects[1:]:
        root.import_module(mblob.static_library(path))
    root.import_module(mblob.blob_module("config", b"{}"))
    return root


def refusal(
    tmp_path: Path, way: str, *objects: Path, packed: str | None = None, **options: Any
) -> tuple[type, str]:
    name, more = WAYS[way]
    with pytest.raises((mblob.BuildError, mblob.ToolchainError, mblob.IncompatibleError)) as info:
        tree(*objects, packed=packed).export_library(tmp_path / name, **more, **options)
    assert not (tmp_path / name).exists()
    return info.type, str(info.value)


@pytest.mark.sample(5)
@pytest.mark.parametrize("packed", [None, "name"])
@pytest.mark.parametrize(
    "case, words",
    [
        ("stack", r"^\S*stack.o: its code needs an executable stack"),
        ("blob", r"^\S*blob.o defines __tvm_dev_mblob, the packed modules of another library"),
        ("devc", r"^\S*devc.o defines __tvm_dev_mblob, the packed modules of another library"),
        ("twice", r"^total(__plain)? is defined twice: in \S*plain.o and in \S*twin.o"),
        ("variable", r"^functions: total is a variable in \S*variable.o"),
        ("nowhere", "^functions: no kernel or object defines 'total'"),
        ("differs", "^functions: total: the prototype has 2 parameters, the source has 1"),
    ],
)
def test_each_way_refuses_an_object_with_the_same_words(
    tmp_path: Path, require: Callable[[str], str], case: str, words: str, packed: str | None
) -> None:
    require("gcc")
    texts = {
        "stack": NESTED,
        "blob": PLAIN + BLOB,
        "variable": "int total = 3;\n",
        "nowhere": "int other(void) { return 3; }\n",
        "differs": "int total(double x) { return (int)x; }\n",
    }
    if case in texts:
        objects = [compiled(tmp_path, case, texts[case], "-g")]
    else:
        other = {"devc": BLOB + REGISTERS, "twice": PLAIN}[case]
        name = "twin" if case == "twice" else case
        objects = [compiled(tmp_path, "plain", PLAIN), compiled(tmp_path, name, other)]
    found = {refusal(tmp_path, way, *objects, packed=packed) for way in WAYS}
    assert len(found) == 1, found
    assert re.search(words, found.pop()[1])


@pytest.mark.sample(2)
@pytest.mark.parametrize("packed", [None, "name"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_takes_an_executable_stack_that_options_ask_for(
    tmp_path: Path, require: Callable[[str], str], way: str, packed: str | None
) -> None:
    require("gcc")
    (name, more), stack = WAYS[way], compiled(tmp_path, "stack", NESTED)
    options = ["-Wl,-z,execstack"]
    with pytest.warns(mblob.PortabilityWarning) if way == "shared" else nullcontext():
        tree(stack, packed=packed).export_library(tmp_path / name, options=options, **more)
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("way", COMPILED_BY_US)
def test_each_way_with_a_compiler_of_ours_refuses_another_machine(
    tmp_path: Path, require: Callable[[str], str], way: str
) -> None:
    require("gcc")
    data = bytearray(compiled(tmp_path, "plain", PLAIN).read_bytes())
    data[18:20] = struct.pack("<H", 243 if data[18] != 243 else 183)  # e_machine
    (tmp_path / "other.o").write_bytes(data)
    kind, text = refusal(tmp_path, way, tmp_path / "other.o")
    assert kind is mblob.IncompatibleError and "other.o is for " in text


@pytest.mark.parametrize("way", WAYS)
def test_each_way_refuses_a_calling_convention_of_its_own(
    tmp_path: Path, require: Callable[[str], str], way: str
) -> None:
    require("gcc")
    name, more = WAYS[way]
    text = "#ifdef __x86_64__\n__attribute__((ms_abi))\n#endif\n" + PLAIN
    module = mblob.csource_module(text, functions=TOTAL, packed="name")
    with pytest.raises(mblob.BuildError, match=r"^functions: total .*\(ms_abi\)"):
        module.export_library(tmp_path / name, **more)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_refuses_to_rename_what_was_compiled_for_link_time_optimization(
    tmp_path: Path, require: Callable[[str], str], way: str
) -> None:
    require("gcc")
    late = compiled(tmp_path, "late", PLAIN, "-flto")
    kind, text = refusal(tmp_path, way, late, packed="name", options=["-flto"])
    assert kind is mblob.BuildError
    assert re.search(r"late.o is compiled with -flto, (where total|so its symbols)", text)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "shared"])
def test_each_way_reads_the_object_with_the_modules_back(
    tmp_path: Path,
    require: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    index: bool,
) -> None:
    require("gcc")
    write = elf_writer.write_object

    def damage(path: Path, *args: Any, **how: Any) -> int:
        size = write(path, *args, **how)
        path.write_bytes(path.read_bytes().replace(b"dnnl_json", b"dnnl_jsoN"))
        return size

    monkeypatch.setattr(elf_writer, "write_object", damage)
    name, more = WAYS[way]
    root = mblob.csource_module("int f;")
    root.import_module(mblob.json_module("dnnl_json", "f", {}))
    with pytest.raises(mblob.MblobError, match=r"^devc.o: (.*dnnl_jsoN|index: its checksum)"):
        root.export_library(tmp_path / name, index=index, **more)
    assert not (tmp_path / name).exists()
