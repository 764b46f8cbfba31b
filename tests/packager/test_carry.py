"""Libraries that carry plug-ins: what is linked, exported and told, in every form of library, and
what is refused."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.compilers import include_flags
from mblob.format import plugin_table
from mblob.packager.errors import BuildError
from mblob.packager.link.build import build
from mblob.packager.link.manifest import load
from tests.packager.conftest import PackedLibrary, check
from tests.packager.plugins import exported, plugin, refused, write

# What is carried here is looked at, and most of the libraries have nothing for it to open.
pytestmark = pytest.mark.filterwarnings(
    "ignore:carry. .* and no module here has that key:UserWarning"
)

SYMBOL = "__mblob_plugin_toy"
HELPER = "int helper(void);\n"


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """The source of a plug-in."""
    return write(tmp_path / "toy.c", plugin())


def compiled(source: Path, root: Path, *flags: str, compiler: str = "gcc") -> Path:
    made = source.with_suffix(".o")
    subprocess.run(
        [compiler, "-fPIC", "-c", *flags, *include_flags(), str(source), "-o", str(made)],
        check=True,
    )
    return made


def archive(path: Path, *objects: Path) -> Path:
    subprocess.run(["ar", "rcs", str(path), *map(str, objects)], check=True)
    return path


# -- what is in the library ------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("embed", ["grow", "object", "append", "c"])
def test_a_source_is_carried(tree: mblob.Module, toy: Path, tmp_path: Path, embed: str) -> None:
    tree.export_library(tmp_path / "x.so", carry=[toy], embed=embed)
    check(tmp_path / "x.so")
    with mblob.open(tmp_path / "x.so") as lib:
        (found,) = lib.plugins
        assert (found.name, found.version, found.type_keys, found.devices) == (
            "toy",
            "1.5",
            ("toy_key",),
            (),
        )
        assert lib.functions == ["vadd"]
    opened = ctypes.CDLL(str(tmp_path / "x.so"))
    assert ctypes.c_uint32.in_dll(opened, SYMBOL).value == plugin_table.ABI


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "options",
    [["-s"], ["-Wl,--gc-sections", "-ffunction-sections", "-fdata-sections"], ["-fvisibility=hidden"],
     ["-flto"], ["-O0", "-g"]],
    ids=" ".join,
)  # fmt: skip
def test_options_of_the_link_leave_it_there(toy: Path, tmp_path: Path, options: list[str]) -> None:
    mblob.blob_module("toy_key", b"abc").export_library(
        tmp_path / "x.so", carry=[toy], options=options
    )
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["toy"]


def test_strip_leaves_it_there(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    tree.export_library(tmp_path / "x.so", carry=[toy])
    subprocess.run(["strip", str(tmp_path / "x.so")], check=True)
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["toy"]


def test_nothing_but_tables_is_exported_and_nothing_is_missing(
    tree: mblob.Module, tmp_path: Path, root: Path
) -> None:
    text = plugin(
        before="int helper(void) { return 7; }\nint data = 1;\n", after_size=" + helper() + data"
    )
    source = write(tmp_path / "toy.c", text)
    tree.export_library(tmp_path / "plain.so")
    for carried in (source, compiled(source, root)):
        tree.export_library(tmp_path / "x.so", carry=[carried])
        assert exported(tmp_path / "x.so") - exported(tmp_path / "plain.so") == {SYMBOL}
        with mblob.open(tmp_path / "x.so") as lib, mblob.open(tmp_path / "plain.so") as plain:
            assert set(lib.undefined) - set(plain.undefined) <= {"malloc", "free", "strcmp"}


def test_slots_of_the_runtime_stay_exported(tmp_path: Path) -> None:
    """A plug-in that uses the slots too must not hide those of the library: nobody could fill
    them."""
    kernel = "#include <tvm/runtime/c_backend_api.h>\nint f(void) { return TVMBackendFreeWorkspace(1, 0, 0); }\n"
    uses = "#include <tvm/runtime/c_backend_api.h>\n"
    text = plugin(before=uses, after_size=" + TVMBackendFreeWorkspace(1, 0, NULL)")
    module = mblob.csource_module(kernel)
    module.export_library(tmp_path / "x.so", carry=[write(tmp_path / "toy.c", text)])
    assert "__TVMBackendFreeWorkspace" in exported(tmp_path / "x.so")


def test_cxx(require: Callable[[str], str], vadd: mblob.Module, tmp_path: Path, root: Path) -> None:
    require("g++")
    text = plugin(
        before="#include <vector>\n", after_size=" + (int64_t)std::vector<int>(3, 1).size()"
    )
    source = write(tmp_path / "toy.cc", text)
    flags = ("-Wno-pedantic", "-std=c++17")
    for carried in (source, compiled(source, root, *flags, compiler="g++")):
        vadd.export_library(tmp_path / "x.so", carry=[carried])
        assert SYMBOL in exported(tmp_path / "x.so")
        PackedLibrary(tmp_path / "x.so")


def test_of_an_archive_what_the_plug_in_needs_is_taken(
    tree: mblob.Module, tmp_path: Path, root: Path
) -> None:
    pieces = {
        "toy": plugin(before=HELPER, after_size=" + helper()"),
        "helper": "int deeper(void);\nint helper(void) { return deeper(); }\n",
        "deeper": "int deeper(void) { return 3; }\n",
        "other": "int nobody_has_this(void);\nint other(void) { return nobody_has_this(); }\n",
    }
    objects = [compiled(write(tmp_path / f"{name}.c", text), root) for name, text in pieces.items()]
    made = archive(tmp_path / "toy.a", *objects)
    before = made.read_bytes()
    tree.export_library(tmp_path / "x.so", carry=[made])
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["toy"]
        assert "nobody_has_this" not in lib.undefined
        assert lib.functions == ["vadd"]
    assert made.read_bytes() == before
    PackedLibrary(tmp_path / "x.so")


def test_a_module_brings_its_imports(tree: mblob.Module, tmp_path: Path) -> None:
    module = mblob.csource_module(plugin(before=HELPER, after_size=" + helper()"))
    module.import_module(
        mblob.csource_module("int helper(void) { return NUMBER; }\n", options="-DNUMBER=4")
    )
    tree.export_library(tmp_path / "x.so", carry=[module])
    assert SYMBOL in exported(tmp_path / "x.so")
    assert "helper" not in exported(tmp_path / "x.so")
    assert not module._node.is_imported


def test_several(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.c", plugin("other", "other_key"))
    tree.export_library(tmp_path / "x.so", carry=[toy, other])
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["other", "toy"]


def test_the_same_inputs_give_the_same_bytes(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        tree.export_library(tmp_path / name / "x.so", carry=[toy])
        made.append((tmp_path / name / "x.so").read_bytes())
    assert made[0] == made[1]


def test_a_library_of_nothing_but_a_plug_in_and_a_blob(toy: Path, tmp_path: Path) -> None:
    mblob.blob_module("toy_key", b"abc").export_library(tmp_path / "x.so", carry=[toy])
    with mblob.open(tmp_path / "x.so") as lib:
        assert [e.type_key for e in lib.entries] == ["toy_key"]
        assert [p.name for p in lib.plugins] == ["toy"]


def test_a_packed_function_takes_its_name_in_plug_ins_too(tmp_path: Path) -> None:
    """A plug-in may call the library's own C functions; `packed="name"` renames those."""
    host = mblob.csource_module(
        "int seven(void) { return 7; }\n", functions=["int seven(void)"], packed="name"
    )
    toy = write(tmp_path / "toy.c", plugin(before="int seven(void);\n", after_size=" + seven()"))
    host.export_library(tmp_path / "x.so", carry=[toy])
    names = {s.name for s in ElfFile(memoryview((tmp_path / "x.so").read_bytes())).dynsym}
    assert "seven" in names
    symbols = {s.name for s in ElfFile(memoryview((tmp_path / "x.so").read_bytes())).symtab}
    assert "seven__plain" in symbols


# -- other forms -----------------------------------------------------------------------------------


def test_a_tar_has_its_objects(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    tree.export_library(tmp_path / "x.tar", carry=[toy])
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert tar.getnames() == [
            "lib0.o",
            "mblob_functions.o",
            "carried0.o",
            "mblob_table.o",
            "devc.o",
        ]
        tar.extractall(
            tmp_path / "objects", **({"filter": "data"} if sys.version_info >= (3, 12) else {})
        )
    objects = sorted(map(str, (tmp_path / "objects").iterdir()))
    subprocess.run(["gcc", "-shared", "-o", str(tmp_path / "x.so"), *objects], check=True)
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["toy"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("suffix", [".o", ".a", ".tar"])
def test_a_system_library_announces_it(
    tree: mblob.Module, toy: Path, tmp_path: Path, suffix: str
) -> None:
    """Under the prefix, through the registry that its functions are found by; the program exports
    nothing."""
    output = tmp_path / f"x{suffix}"
    tree.export_library(output, carry=[toy], system_lib=True, prefix="p_")
    members = [output]
    if suffix == ".tar":
        with tarfile.open(output) as tar:
            tar.extractall(
                tmp_path / "objects", **({"filter": "data"} if sys.version_info >= (3, 12) else {})
            )
        members = sorted((tmp_path / "objects").iterdir())
    program = """
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    int TVMBackendRegisterSystemLibSymbol(const char *name, void *address) {
      if (strstr(name, "plugin")) printf("%s %u %s\\n", name, *(uint32_t *)address, (char *)address + 8);
      return 0;
    }
    void TVMAPISetLastError(const char *text) { (void)text; }
    extern const char p___mblob_system_lib[];
    int main(void) { return !p___mblob_system_lib[0]; }
    """
    source = write(tmp_path / "main.c", program)
    line = [
        "gcc",
        str(source),
        *map(str, members),
        "-Wl,--gc-sections",
        "-o",
        str(tmp_path / "main"),
        "-lm",
    ]
    subprocess.run(line, check=True)
    done = subprocess.run([str(tmp_path / "main")], check=True, capture_output=True, text=True)
    assert done.stdout == f"p_{SYMBOL} 1 toy\n"


def test_the_callers_compiler_gets_objects(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    seen: list[str] = []

    def fcompile(output: str, files: Sequence[str], **kwargs: Any) -> None:
        seen.extend(Path(f).name for f in files)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", output, *files, *kwargs["options"]], check=True
        )

    tree.export_library(tmp_path / "x.so", fcompile, carry=[toy])
    assert "carried0.o" in seen
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["toy"]
    fcompile.object_format = "bc"  # type: ignore[attr-defined]
    with pytest.raises(BuildError, match="carry: fcompile= takes bc files"):
        tree.export_library(tmp_path / "x.so", fcompile, carry=[toy])


# -- refused ---------------------------------------------------------------------------------------


def test_a_file_without_a_plug_in(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    text = "static int __mblob_plugin_local;\nint f(void) { return __mblob_plugin_local; }\n"
    other = write(tmp_path / "other.c", text)
    refused(tree, tmp_path, [toy, other], r"carry: .*other\.c: no plug-in in it")


def test_another_version_of_the_interface(tree: mblob.Module, tmp_path: Path) -> None:
    toy = write(tmp_path / "toy.c", plugin(abi="7"))
    found = (
        r"toy\.c: plug-in 'toy' is built for version 7 of the plug-in interface, this is version 1"
    )
    refused(tree, tmp_path, [toy], found)


def test_two_of_one_name(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.c", plugin("toy", "other_key", symbol="other"))
    refused(
        tree,
        tmp_path,
        [toy, other],
        r"two plug-ins are called 'toy': in .*toy\.c and in .*other\.c",
    )
    refused(tree, tmp_path, [toy, toy], r"two plug-ins are called 'toy'")


def test_two_for_one_key(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.c", plugin("other", "toy_key"))
    refused(tree, tmp_path, [toy, other], "plug-ins 'toy' and 'other' both open 'toy_key'")
    twice = write(tmp_path / "twice.c", plugin("twice", "a_key, a_key"))
    refused(tree, tmp_path, [twice], "plug-in 'twice' lists 'a_key' twice")


def test_what_calls_the_runtime_by_name(tree: mblob.Module, tmp_path: Path) -> None:
    toy = write(tmp_path / "toy.c", plugin(after_size=' + mblob_set_error(10, "no")'))
    refused(
        tree,
        tmp_path,
        [toy],
        r"toy\.c calls mblob_set_error, which a library cannot link; .*mblob_host",
    )


def test_a_table_that_is_hidden(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    text = toy.read_text() + f'\n__asm__(".hidden {SYMBOL}");\n'
    refused(tree, tmp_path, [write(toy, text)], f"{SYMBOL} is hidden")


def test_a_version_script_that_hides_it(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    script = write(
        tmp_path / "names.map",
        "{ global: vadd*; __tvm_*; __TVM*; __mblob_functions; local: *; };\n",
    )
    refused(
        tree,
        tmp_path,
        [toy],
        f"{SYMBOL} is linked, but the library does not export it",
        options=[f"-Wl,--version-script={script}"],
    )


def test_a_text_that_does_not_end(tree: mblob.Module, tmp_path: Path) -> None:
    text = plugin(name="x" * 32, symbol="toy")
    with pytest.raises(
        mblob.FormatError, match=r"toy\.c: __mblob_plugin_toy: name: no end within its 32 bytes"
    ):
        tree.export_library(tmp_path / "x.so", carry=[write(tmp_path / "toy.c", text)])


def test_what_no_plug_in_is_made_of(
    tree: mblob.Module, toy: Path, tmp_path: Path, root: Path
) -> None:
    refused(
        tree,
        tmp_path,
        [mblob.blob_module("k", b"")],
        "a plug-in is made of host code .* found a 'k'",
    )
    with_functions = mblob.csource_module(
        plugin(before="int f(void) { return 1; }\n"), functions=["int f(void)"]
    )
    refused(tree, tmp_path, [with_functions], "functions= has no meaning in a plug-in")
    refused(tree, tmp_path, [mblob.csource_module(plugin(), "cu")], "is C or C\\+\\+, found CUDA")
    refused(
        tree, tmp_path, [mblob.csource_module("end\n", "f90")], "found Fortran; carry its object"
    )
    refused(
        tree,
        tmp_path,
        [write(tmp_path / "toy.txt", "")],
        r"toy\.txt: suffix '\.txt', expected one of",
    )
    refused(
        tree,
        tmp_path,
        [compiled(toy, root, "-flto")],
        "is compiled with -flto, so its table cannot be read",
    )
    with pytest.raises(FileNotFoundError, match=r"carry: no such file.*nothing\.c"):
        tree.export_library(tmp_path / "x.so", carry=[tmp_path / "nothing.c"])
    with pytest.raises(TypeError, match="carry: expected a list of paths and modules"):
        tree.export_library(tmp_path / "x.so", carry=str(toy))
    with pytest.raises(TypeError, match="carry: expected a path or a module, found int"):
        tree.export_library(tmp_path / "x.so", carry=[1])


def test_the_output_is_not_one_of_them(tree: mblob.Module, toy: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="the output is also a source"):
        tree.export_library(
            toy.rename(tmp_path / "x.so"), carry=[mblob.csource_module(tmp_path / "x.so", "c")]
        )


# -- the command line ------------------------------------------------------------------------------


def test_a_manifest_names_plug_ins(toy: Path, tmp_path: Path) -> None:
    write(tmp_path / "payload", "abc")
    manifest = 'output = "x.so"\ncarry = ["toy.c"]\n[blobs]\ntoy_key = "payload"\n'
    build(load(write(tmp_path / "m.toml", manifest)))
    with mblob.open(tmp_path / "x.so") as lib:
        assert [p.name for p in lib.plugins] == ["toy"]


def test_the_command_line(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mblob.cli.main import main

    write(tmp_path / "payload", "abc")
    arguments = [
        "--carry",
        str(toy),
        "--blob",
        f"toy_key={tmp_path / 'payload'}",
        "-o",
        str(tmp_path / "x.so"),
    ]
    assert main(["build", *arguments]) == 0
    assert main(["inspect", str(tmp_path / "x.so")]) == 0
    assert "plug-ins   1\n    toy 1.5  opens toy_key  needs a test\n" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "x.so"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plugins"] == [
        {
            "name": "toy",
            "version": "1.5",
            "type_keys": ["toy_key"],
            "devices": [],
            "needs": "a test",
        }
    ]


def test_a_plug_in_for_no_module_is_told(tmp_path: Path) -> None:
    host = mblob.csource_module("int f(void) { return 1; }\n", functions=["int f(void)"])
    with pytest.warns(
        UserWarning, match=r"plug-in 'toy' opens 'toy_key', and no module .*; there are 'c'$"
    ) as found:
        host.export_library(tmp_path / "x.so", carry=[mblob.csource_module(plugin())])
    assert [w.filename for w in found] == [__file__]
    assert [p.name for p in mblob.open(tmp_path / "x.so").plugins] == ["toy"]
