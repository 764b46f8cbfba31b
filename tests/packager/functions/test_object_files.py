"""The object writer against readelf, pyelftools and linkers; questions to objects and archives; the
C text."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.binary.elf import ElfFile
from mblob.format import note
from mblob.format.blob_plan import BLOB_ALIGN
from mblob.format.functions_table import Row, checksum, encode
from mblob.packager.functions.wrappers import announcement
from mblob.packager.objects import object_files
from mblob.packager.objects.object_files import ElfTarget
from mblob.packager.objects.rename import rename_symbols
from mblob.packager.write.devc_c import to_c
from mblob.packager.write.elf_writer import section_for, write_object
from mblob.packager.write.file_sink import FileSink

SYMBOL = "__tvm_dev_mblob"
PAYLOAD = b"blob" * 1000 + b"!"

MACHINES = {
    "x86_64": ElfTarget(64, "<", 62, 0, 0, b"", "x86_64"),
    "aarch64": ElfTarget(64, "<", 183, 0, 0, b"", "aarch64"),
    "riscv64": ElfTarget(64, "<", 243, 5, 0, b"", "riscv"),
    "s390x": ElfTarget(64, ">", 22, 0, 0, b"", "s390x"),
    "i386": ElfTarget(32, "<", 3, 0, 0, b"", "i386"),
    "arm": ElfTarget(32, "<", 40, 0x5000400, 0, b"", "arm"),
    "ppc": ElfTarget(32, ">", 20, 0, 0, b"", "ppc"),
}


def write(path: Path, machine: ElfTarget, payload: bytes = PAYLOAD) -> Path:
    def blob(sink: FileSink) -> int:
        sink.write(b"????" + payload[4:])
        sink.patch(0, payload[:4])
        return len(payload)

    assert write_object(
        path, machine, SYMBOL, section_for(machine, BLOB_ALIGN), blob, announced=note.HAS_INDEX
    ) == len(payload)
    return path


@pytest.mark.parametrize("name", MACHINES)
def test_readers_that_are_not_ours_agree(tmp_path: Path, name: str) -> None:
    elffile = pytest.importorskip("elftools.elf.elffile")
    machine = MACHINES[name]
    path = write(tmp_path / "devc.o", machine)
    done = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert "arning" not in done.stderr + done.stdout
    with path.open("rb") as file:
        elf = elffile.ELFFile(file)
        assert (elf.elfclass, elf.little_endian) == (machine.bits, machine.byte_order == "<")
        assert (elf["e_type"], elf["e_flags"]) == ("ET_REL", machine.e_flags)
        symbol = elf.get_section_by_name(".symtab").get_symbol_by_name(SYMBOL)[0]
        assert (symbol["st_info"]["bind"], symbol["st_info"]["type"]) == (
            "STB_GLOBAL",
            "STT_OBJECT",
        )
        assert (symbol["st_value"], symbol["st_size"]) == (0, len(PAYLOAD))
        section = elf.get_section(symbol["st_shndx"])
        assert section.data() == PAYLOAD
        assert section["sh_offset"] % BLOB_ALIGN == 0
        assert section["sh_addralign"] == BLOB_ALIGN
        stack = elf.get_section_by_name(".note.GNU-stack")
        assert (stack["sh_flags"], stack["sh_size"]) == (0, 0)
        (ours,) = elf.get_section_by_name(".note.mblob").iter_notes()
        assert (ours["n_name"], ours["n_descsz"]) == ("mblob", 16)


def test_an_object_of_32_bits_ends_before_its_numbers_do(tmp_path: Path) -> None:
    machine, path = MACHINES["i386"], tmp_path / "devc.o"
    head = write(path, machine).stat().st_size - len(PAYLOAD)

    def hole(size: int) -> int:
        def blob(sink: FileSink) -> int:
            sink.skip(size)
            sink.finish()
            return size

        return write_object(
            path, machine, SYMBOL, section_for(machine, BLOB_ALIGN), blob, announced=note.HAS_INDEX
        )

    largest = 0xFFFFFFFF - head
    assert hole(largest) == largest
    with pytest.raises(mblob.IncompatibleError, match=f"holds at most {largest} bytes"):
        hole(largest + 1)


def test_our_own_reader_finds_note_and_symbol(tmp_path: Path) -> None:
    for machine in MACHINES.values():
        elf = ElfFile(memoryview(write(tmp_path / "devc.o", machine).read_bytes()))
        assert [s.name for s in elf.symtab if s.name] == [SYMBOL]
        (found,) = [(owner, kind, len(desc)) for owner, kind, desc, _ in elf.notes()]
        assert found == (b"mblob", note.TYPE, 16)
        assert note.announced(elf) == (note.HAS_INDEX, 0)


@pytest.mark.parametrize(
    "name", ["x86_64", "aarch64", "arm", "i386", "mips64", "powerpc64le", "riscv64", "s390x"]
)
def test_assemblers_write_the_note_of_a_table(
    tmp_path: Path, require: Callable[[str], str], name: str
) -> None:
    rows = [Row("f", "f", "plain", 0, "int")]
    (tmp_path / "a.c").write_text(announcement(rows))
    command = [require("clang"), f"--target={name}-linux-gnu", "-fintegrated-as", "-c", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    elf = ElfFile(memoryview((tmp_path / "a.o").read_bytes()))
    assert note.announced(elf) == (note.HAS_TABLE, checksum(encode(rows)))
    assert [(owner, kind, len(desc)) for owner, kind, desc, _ in elf.notes()] == [
        (b"mblob", note.TYPE, 16)
    ]


def test_notes_of_one_library_are_read_together(tmp_path: Path) -> None:
    tables = [announcement([Row(name, name, "plain", 0, "int")]) for name in ("first", "other")]
    (tmp_path / "a.c").write_text("".join(tables))
    subprocess.run(["cc", "-c", "a.c"], cwd=tmp_path, check=True)
    write(tmp_path / "devc.o", MACHINES["x86_64"])
    subprocess.run(["cc", "-shared", "-o", "x.so", "a.o", "devc.o"], cwd=tmp_path, check=True)
    elf = ElfFile(memoryview((tmp_path / "x.so").read_bytes()))
    crc = checksum(encode([Row("first", "first", "plain", 0, "int")]))
    assert note.announced(elf) == (note.HAS_INDEX | note.HAS_TABLE, crc)


def test_on_x86_64_the_blob_is_large_data(tmp_path: Path) -> None:
    section = ElfFile(memoryview(write(tmp_path / "d.o", MACHINES["x86_64"]).read_bytes())).section(
        ".lrodata"
    )
    assert section is not None
    assert section.sh_flags == 0x2 | 0x10000000


def test_an_elf32_file_refuses_what_it_cannot_say(tmp_path: Path) -> None:
    def too_much(sink: FileSink) -> int:
        sink.size = 0xFFFFFFF0  # as if that much had been written
        sink.write(bytes(16))
        return sink.size

    with pytest.raises(mblob.IncompatibleError, match=r"32-bit ELF file \(i386\) holds at most"):
        write_object(
            tmp_path / "d.o",
            MACHINES["i386"],
            SYMBOL,
            section_for(MACHINES["i386"], BLOB_ALIGN),
            too_much,
            announced=note.HAS_INDEX,
        )


def test_properties_of_the_compilers_objects_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int a;\n")
    subprocess.run(["gcc", "-fcf-protection=full", "-c", "a.c"], cwd=tmp_path, check=True)
    machine = object_files.read(tmp_path / "a.o", "a.o").machine
    assert machine is not None
    assert machine.properties
    text = subprocess.run(
        ["readelf", "-n", write(tmp_path / "d.o", machine)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "IBT, SHSTK" in text


@pytest.mark.parametrize("linker", ["bfd", "gold", "lld"])
def test_the_object_links_and_the_symbol_is_found(
    tmp_path: Path, require: Callable[[str], str], linker: str
) -> None:
    require(f"ld.{linker}")
    write(tmp_path / "devc.o", MACHINES["x86_64"])
    subprocess.run(
        ["gcc", "-shared", f"-fuse-ld={linker}", "-o", "x.so", "devc.o"], cwd=tmp_path, check=True
    )
    elf = ElfFile(memoryview((tmp_path / "x.so").read_bytes()))
    symbol = elf.find(SYMBOL)
    assert symbol is not None
    assert bytes(elf.bytes_of(symbol)[1]) == PAYLOAD


# -- questions -------------------------------------------------------------------------------------


def test_symbols_of_an_object(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "int strong(void) { return 1; }\n__attribute__((weak)) int weak(void) { return 1; }\n"
        "static int local(void) { return 1; }\nextern int outside(void);\n"
        "int uses(void) { return outside() + local(); }\n"
    )
    subprocess.run(["gcc", "-fPIC", "-O0", "-c", "a.c"], cwd=tmp_path, check=True)
    found = object_files.read(tmp_path / "a.o", "a.o")
    assert found.defined == {"strong", "uses"}
    assert found.weak == {"weak"}
    assert found.undefined - {"_GLOBAL_OFFSET_TABLE_"} == {"outside"}
    assert (found.complete, found.is_archive) == (True, False)


def test_link_time_optimization_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(void) { return 1; }\n")
    subprocess.run(["gcc", "-flto", "-c", "a.c"], cwd=tmp_path, check=True)
    assert not object_files.read(tmp_path / "a.o", "a.o").complete


def test_members_of_an_archive_with_long_names(tmp_path: Path) -> None:
    names = ["a.c", "a_member_with_a_rather_long_name.c"]
    for i, name in enumerate(names):
        (tmp_path / name).write_text(
            f"int f{i}(void) {{ return f1(); }}\n".replace("return f1()", f"return {i}")
        )
    subprocess.run(["gcc", "-c", *names], cwd=tmp_path, check=True)
    subprocess.run(
        ["ar", "rc", "x.a", *(n.replace(".c", ".o") for n in names)], cwd=tmp_path, check=True
    )
    found = object_files.read(tmp_path / "x.a", "x.a")
    assert (found.defined, found.is_archive) == ({"f0", "f1"}, True)


def test_renaming_keeps_references_and_hides_the_definition(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(int x) { return x; }\nint g(int x) { return f(x) + 1; }\n")
    subprocess.run(["gcc", "-fPIC", "-O0", "-c", "a.c"], cwd=tmp_path, check=True)
    rename_symbols(tmp_path / "a.o", {"f": "f__plain", "absent": "x"}, "a.o")
    done = subprocess.run(
        ["readelf", "-sW", tmp_path / "a.o"], capture_output=True, text=True, check=True
    )
    (line,) = [x.split() for x in done.stdout.splitlines() if "f__plain" in x]
    assert "HIDDEN" in line
    assert "arning" not in done.stderr
    (tmp_path / "m.c").write_text("int g(int);\nint main(void) { return g(4) != 5; }\n")
    subprocess.run(["gcc", "m.c", "a.o", "-o", "m"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "m"], check=True)


# -- C text ----------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("size", [0, 1, 19, 20, 21, 40])
@pytest.mark.parametrize(
    "compiler",
    [
        "gcc -std=c89 -pedantic -xc",
        "gcc -std=c17 -xc",
        "g++ -std=c++98 -xc++",
        "g++ -std=c++20 -xc++",
    ],
)
def test_the_c_text_compiles_everywhere(
    tmp_path: Path, require: Callable[[str], str], size: int, compiler: str
) -> None:
    command = compiler.split()
    require(command[0])
    data = bytes(range(256))[: 8 + size]
    (tmp_path / "d.c").write_text(to_c(data))
    subprocess.run(
        [*command, "-Wall", "-Wextra", "-Werror", "-fPIC", "-c", "d.c", "-o", "d.o"],
        cwd=tmp_path,
        check=True,
    )
    subprocess.run(["gcc", "-shared", "d.o", "-o", "d.so"], cwd=tmp_path, check=True)
    elf = ElfFile(memoryview((tmp_path / "d.so").read_bytes()))
    symbol = elf.find(SYMBOL)
    assert symbol is not None
    assert bytes(elf.bytes_of(symbol)[1]) == data


def test_a_blob_too_large_for_c_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mblob.packager.write.devc_c.LIMIT", 1 << 20)
    host = mblob.csource_module(";")
    host.import_module(mblob.blob_module("k", bytes(1 << 20)))
    with pytest.raises(
        mblob.MblobError, match="embed='c': the packed modules have more than 1 MiB"
    ):
        host.export_library(tmp_path / "x.so", embed="c")


def test_a_system_library_registers_its_blob_at_start(
    require: Callable[[str], str], tmp_path: Path
) -> None:
    require("g++")
    text = to_c(bytes(16), "p__tvm_dev_mblob", system_lib=True)
    text += '#include <cstdio>\nextern "C" int TVMBackendRegisterSystemLibSymbol(const char* n, void* p) {\n'
    text += "  std::puts(n); return p == (void*)p__tvm_dev_mblob ? 0 : 1; }\nint main() {}\n"
    (tmp_path / "d.cc").write_text(text)
    subprocess.run(["g++", "d.cc", "-o", "d"], cwd=tmp_path, check=True)
    assert (
        subprocess.run([tmp_path / "d"], capture_output=True, text=True, check=True).stdout
        == "p__tvm_dev_mblob\n"
    )
