"""System libraries: objects, archives and tars for static linking; their symbols, and what is
refused."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob.binary import archive
from mblob.binary.elf import ElfFile
from mblob.packager.objects import archive_writer
from mblob.packager.objects.archive_writer import Member
from mblob.packager.objects.object_files import read
from tests.packager.conftest import PAYLOAD, VADD, VADD_C

BLOB = "p___tvm_dev_mblob"


def defined(path: Path) -> dict[str, int]:
    """Global symbols that an object or the objects of an archive define, with their visibility."""
    from mblob.packager.objects.object_files import objects_in

    return {
        s.name: s.st_other & 3
        for _, data in objects_in(path, path.name)
        for s in ElfFile(data).symtab
        if s.is_defined and s.binding
    }


def export(module: mblob.Module, path: Path, **options: Any) -> dict[str, int]:
    module.export_library(path, system_lib=True, **{"prefix": "p_", **options})
    return defined(path)


@pytest.mark.parametrize("suffix", [".o", ".a"])
def test_every_symbol_has_the_prefix_and_is_hidden(
    tree: mblob.Module, tmp_path: Path, suffix: str
) -> None:
    found = export(tree, tmp_path / f"x{suffix}")
    assert {"p_vadd", "p_vadd__packed", BLOB, "p___mblob_functions", "p___mblob_system_lib"} <= set(
        found
    )
    assert all(name.startswith("p_") for name in found)
    assert set(found.values()) == {2}


def test_what_is_needed_of_the_runtime_is_a_strong_reference(
    tree: mblob.Module, tmp_path: Path
) -> None:
    code = """#include <tvm/runtime/c_backend_api.h>
    int f(TVMValue *a, int *c, int n, TVMValue *r, int *rc, void *x) {
      (void)n; (void)r; (void)rc; (void)x;
      return TVMBackendAnyListResetItem(a, 0) || TVMBackendParallelBarrier(0, (TVMParallelGroupEnv *)c);
    }"""
    tree.import_module(mblob.csource_module(code))
    export(tree, tmp_path / "x.o")
    symbols = {
        s.name: s.binding for s in ElfFile(memoryview((tmp_path / "x.o").read_bytes())).symtab
    }
    needed = {name: binding for name, binding in symbols.items() if name.startswith("TVM")}
    assert set(needed) == {
        "TVMAPISetLastError",
        "TVMBackendAnyListResetItem",
        "TVMBackendParallelBarrier",
        "TVMBackendRegisterSystemLibSymbol",
    }
    assert set(needed.values()) == {1}


def test_no_note_marks_the_program_as_a_packed_library(tree: mblob.Module, tmp_path: Path) -> None:
    export(tree, tmp_path / "x.o")
    assert b"mblob" not in {
        owner for owner, *_ in ElfFile(memoryview((tmp_path / "x.o").read_bytes())).notes()
    }


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    for suffix in (".o", ".a", ".tar"):
        made = []
        for folder in ("one", "two"):
            (tmp_path / folder).mkdir(exist_ok=True)
            module = mblob.csource_module(VADD_C, functions=[VADD])
            module.import_module(mblob.blob_module("my_key", PAYLOAD))
            module.export_library(tmp_path / folder / f"x{suffix}", system_lib=True, prefix="p_")
            made.append((tmp_path / folder / f"x{suffix}").read_bytes())
        assert made[0] == made[1], suffix


def test_a_tar_holds_the_objects(tree: mblob.Module, tmp_path: Path) -> None:
    tree.export_library(tmp_path / "x.tar", system_lib=True, prefix="p_")
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert tar.getnames() == ["lib0.o", "mblob_functions.o", "mblob_system_lib.o", "devc.o"]


def test_the_blob_as_c_text_and_as_an_object_is_the_same(
    tree: mblob.Module, tmp_path: Path
) -> None:
    def blob(path: Path) -> bytes:
        elf = ElfFile(memoryview(path.read_bytes()))
        symbol = next(s for s in elf.symtab if s.name == BLOB)
        return bytes(elf.contents(elf.sections[symbol.st_shndx]))[symbol.st_value :][
            : symbol.st_size
        ]

    export(tree, tmp_path / "c.o", embed="c")
    export(tree, tmp_path / "object.o")
    assert blob(tmp_path / "c.o") == blob(tmp_path / "object.o") != b""


def test_a_library_alone_without_an_index_has_no_blob(vadd: mblob.Module, tmp_path: Path) -> None:
    assert BLOB not in export(vadd, tmp_path / "x.o", index=False)


def test_archives_and_objects_of_the_caller_go_in_and_stay_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int in_archive(void) { return 1; }\n")
    (tmp_path / "b.c").write_text(
        "int in_archive(void);\nint in_object(void) { return in_archive(); }\n"
    )
    subprocess.run(["gcc", "-fPIC", "-c", "a.c", "b.c"], cwd=tmp_path, check=True)
    subprocess.run(["ar", "rcs", "a.a", "a.o"], cwd=tmp_path, check=True)
    before = (tmp_path / "a.a").read_bytes(), (tmp_path / "b.o").read_bytes()
    module = mblob.static_library(tmp_path / "a.a")
    found = export(module, tmp_path / "x.a", addons=[tmp_path / "b.o"])
    assert {"p_in_archive", "p_in_object"} <= set(found)
    assert ((tmp_path / "a.a").read_bytes(), (tmp_path / "b.o").read_bytes()) == before
    assert "in_archive" not in read(tmp_path / "x.a", "x.a").undefined


def test_comdat_functions_of_cxx_keep_their_names(
    require: Callable[[str], str], tmp_path: Path
) -> None:
    require("g++")
    code = '#include <vector>\nextern "C" int f(int n) { std::vector<int> v(n, 1); v.push_back(n); return v.back(); }\n'
    module = mblob.csource_module(code, "cc", options="-O0")
    found = export(module, tmp_path / "x.o")
    assert "p_f" in found
    assert any(name.startswith("_ZNSt6vector") for name in found)


@pytest.mark.parametrize(
    ("cc", "bits", "order"),
    [
        ("aarch64-linux-gnu-gcc", 64, "<"),
        ("clang --target=i686-linux-gnu -fuse-ld=lld", 32, "<"),
        ("clang --target=powerpc-linux-gnu -fuse-ld=lld", 32, ">"),
    ],
)
@pytest.mark.parametrize("suffix", [".o", ".a"])
def test_a_library_for_another_machine(
    require: Callable[[str], str], tmp_path: Path, cc: str, bits: int, order: str, suffix: str
) -> None:
    for tool in (cc.split()[0], "readelf", *(["ld.lld"] if "lld" in cc else [])):
        require(tool)
    # no header: no C library is there
    module = mblob.csource_module("int add(int a, int b) { return a + b; }\n")
    module.import_module(mblob.blob_module("my_key", PAYLOAD))
    path = tmp_path / f"x{suffix}"
    found = export(module, path, cc=cc)
    assert {"p_add", BLOB, "p___mblob_system_lib"} <= set(found)
    machine = read(path, path.name).machine
    assert machine is not None
    assert (machine.bits, machine.byte_order) == (bits, order)
    done = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert "arning" not in done.stderr


# -- other people's tools --------------------------------------------------------------------------


def test_fcompile_gets_the_objects(tree: mblob.Module, tmp_path: Path) -> None:
    seen: list[str] = []

    def compiler(file_name: str, files: list[str], **kwargs: Any) -> None:
        seen.extend(Path(f).name for f in files)
        subprocess.run(["ar", "rcs", file_name, *files], check=True)

    compiler.need_system_lib = True  # type: ignore[attr-defined]
    with pytest.raises(mblob.MblobError, match="pass system_lib=True"):
        tree.export_library(tmp_path / "x.lib", compiler)
    tree.export_library(tmp_path / "x.lib", compiler, system_lib=True, prefix="p_")
    assert seen == ["lib0.o", "mblob_functions.o", "mblob_system_lib.o", "devc.o"]
    assert {"p_vadd", BLOB} <= set(defined(tmp_path / "x.lib"))


@pytest.mark.parametrize("name", ["devc.c", "devc.o"])
def test_fpack_imports_is_told_the_prefix(
    require: Callable[[str], str], tree: mblob.Module, tmp_path: Path, name: str
) -> None:
    require("g++")
    from mblob.packager.write.devc_c import to_c

    def fpack(mod: mblob.Module, is_system_lib: bool, prefix: str, workspace: str) -> str:
        assert (mod, is_system_lib, prefix) == (tree, True, "p_")
        text = Path(workspace) / "devc.c"
        text.write_text(to_c(b"\x08" + bytes(15), prefix + "__tvm_dev_mblob", system_lib=True))
        if name == "devc.o":
            subprocess.run(["g++", "-fPIC", "-c", text, "-o", Path(workspace) / name], check=True)
        return str(Path(workspace) / name)

    found = export(tree, tmp_path / "x.o", fpack_imports=fpack)
    assert {"p_vadd", BLOB} <= set(found)


SELF = """
extern int TVMBackendRegisterSystemLibSymbol(const char *, void *);
void *%s__tvm_module_ctx;
int p_theirs(void *a, int *c, int n, void *r, int *rc, void *x) { return 0; }
__attribute__((constructor)) static void startup(void) {
  TVMBackendRegisterSystemLibSymbol("p_theirs", (void *)p_theirs);
}
"""


def test_objects_that_announce_themselves_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tvm.c").write_text(SELF % "p_")
    subprocess.run(["gcc", "-fPIC", "-c", "tvm.c"], cwd=tmp_path, check=True)
    module = mblob.static_library(tmp_path / "tvm.o")
    found = export(module, tmp_path / "x.a")
    assert {"p_theirs", "p___tvm_module_ctx"} <= set(found)
    assert "p_p_theirs" not in found
    # A linker that takes the announcement takes them too.
    assert "p___tvm_module_ctx" in {
        s.name
        for s in ElfFile(member(tmp_path / "x.a", "mblob_system_lib.o")).symtab
        if not s.is_defined
    }


def member(path: Path, name: str) -> memoryview:
    return next(
        data
        for label, data in archive.members(memoryview(path.read_bytes()), "")
        if label == f"({name})"
    )


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "file", "text"),
    [
        ({"prefix": "a-b"}, "x.o", "expected the start of a C name"),
        ({"prefix": "1a"}, "x.o", "expected the start of a C name"),
        ({"prefix": "ä"}, "x.o", "expected the start of a C name"),
        ({"prefix": "a" * 129}, "x.o", "at most 128 characters"),
        ({"prefix": "__tvm_"}, "x.o", "are the runtime's"),
        ({"prefix": "TVM"}, "x.o", "are the runtime's"),
        (
            {"prefix": "p_", "system_lib": False},
            "x.so",
            "only the symbols of a system library have a prefix",
        ),
        ({}, "x.so", r"expected \.o \(one object\), \.a \(an archive\) or \.tar"),
        ({"embed": "grow"}, "x.o", "needs a linked library"),
        ({"embed": "append"}, "x.a", "needs a linked library"),
        ({"options": "-flto"}, "x.o", "-flto"),
        ({"system_lib": False}, "x.a", "for static linking add system_lib=True"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tree: mblob.Module, tmp_path: Path, options: dict[str, Any], file: str, text: str
) -> None:
    with pytest.raises(mblob.MblobError, match=text) as caught:
        tree.export_library(tmp_path / file, **{"system_lib": True, **options})
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / file).exists()


def test_a_prefix_that_is_no_text_is_a_type_error(tree: mblob.Module, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="prefix: expected a str, found int"):
        tree.export_library(tmp_path / "x.o", system_lib=True, prefix=1)


def test_objects_of_another_prefix_are_refused(tmp_path: Path) -> None:
    (tmp_path / "tvm.c").write_text(SELF % "q_")
    subprocess.run(["gcc", "-fPIC", "-c", "tvm.c"], cwd=tmp_path, check=True)
    with pytest.raises(
        mblob.MblobError, match=r"tvm.o was compiled for a system library of prefix 'q_', .* 'p_'"
    ):
        export(mblob.static_library(tmp_path / "tvm.o"), tmp_path / "x.o")


def test_a_prefix_that_makes_the_name_of_something_else_is_refused(tmp_path: Path) -> None:
    module = mblob.csource_module(
        "int strlen_(const char *);\nint len_(void) { return strlen_(__FILE__); }\n"
    )
    with pytest.raises(
        mblob.MblobError, match=r"makes strlen_ of len_, a name that .* uses for something else"
    ):
        export(module, tmp_path / "x.o", prefix="str")


def test_two_functions_of_one_name_are_refused(tmp_path: Path) -> None:
    module = mblob.csource_module(
        "void *__tvm_module_ctx;\nint f(int a) { return a; }\nint f__plain(void *a, int *b, int c) { return c; }\n"
    )
    with pytest.raises(mblob.MblobError, match="would both be known as f__plain"):
        export(module, tmp_path / "x.o")


@pytest.mark.parametrize("name", ["m.so", "m.txt"])
def test_addons_that_cannot_be_part_of_it_are_refused(
    tree: mblob.Module, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(mblob.MblobError, match="is no object and no archive"):
        export(tree, tmp_path / "x.o", addons=[tmp_path / name])


def test_an_fcompile_of_another_format_is_refused(tree: mblob.Module, tmp_path: Path) -> None:
    def compiler(file_name: str, files: list[str]) -> None:
        raise AssertionError("not to be called")

    compiler.object_format = "bc"  # type: ignore[attr-defined]
    with pytest.raises(mblob.MblobError, match="takes bc files, we write ELF objects"):
        tree.export_library(tmp_path / "x.wasm", compiler, system_lib=True)


# -- archives --------------------------------------------------------------------------------------


def test_ar_reads_what_we_write(require: Callable[[str], str], tmp_path: Path) -> None:
    require("ar")
    names = [
        "short.o",
        "fifteen_chars.o",
        "sixteen_chars_.o",
        "a_name_of_more_than_fifteen_characters.o",
    ]
    members = []
    for i, name in enumerate(names):
        (tmp_path / name).write_bytes(b"\x7fELF" + bytes(i))
        members.append(Member(tmp_path / name, [f"symbol{i}", f"other{i}"]))
    archive_writer.write(tmp_path / "x.a", members)
    listed = subprocess.run(
        ["ar", "t", tmp_path / "x.a"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split() == names
    for name in names:
        out = subprocess.run(
            ["ar", "p", tmp_path / "x.a", name], capture_output=True, check=True
        ).stdout
        assert out == (tmp_path / name).read_bytes()
    ours = [
        (n, bytes(d))
        for n, d in archive.members(memoryview((tmp_path / "x.a").read_bytes()), "x.a")
    ]
    assert ours == [(f"x.a({n})", (tmp_path / n).read_bytes()) for n in names]


def test_a_large_archive_has_a_64_bit_index(tmp_path: Path) -> None:
    for name, size in (("a.o", 1 << 32), ("b.o", 8)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    index = archive_writer._index(
        [Member(tmp_path / "a.o", ["first"]), Member(tmp_path / "b.o", ["last"])], [1 << 32, 8], 0
    )
    assert index.startswith(b"/SYM64/ ")
    first, last = 8 + len(index), 8 + len(index) + 60 + (1 << 32)
    assert (
        index[60:] == b"".join(n.to_bytes(8, "big") for n in (2, first, last)) + b"first\0last\0\0"
    )


def test_a_member_larger_than_an_archive_can_say_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_writer, "SIZE_LIMIT", 7)
    (tmp_path / "a.o").write_bytes(bytes(8))
    with pytest.raises(
        mblob.MblobError, match=r"a\.o: 8 bytes, a member of an archive has at most 7"
    ):
        archive_writer.write(tmp_path / "x.a", [Member(tmp_path / "a.o", [])])
