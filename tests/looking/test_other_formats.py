"""Libraries of other systems, as clang and lld make them, and objects of every machine; lief is the
oracle."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lief
import pytest

import mblob
from mblob.errors import FormatError
from tests.looking.conftest import BLOB, CUDA, KERNEL, blob_source

TARGETS = {
    "x86_64-linux-gnu": ("elf", "x86_64", 64, "little"),
    "i686-linux-gnu": ("elf", "i386", 32, "little"),
    "aarch64-linux-gnu": ("elf", "aarch64", 64, "little"),
    "armv7-linux-gnueabihf": ("elf", "arm", 32, "little"),
    "armeb-linux-gnueabi": ("elf", "arm", 32, "big"),
    "riscv64-linux-gnu": ("elf", "riscv", 64, "little"),
    "powerpc64le-linux-gnu": ("elf", "ppc64", 64, "little"),
    "powerpc-linux-gnu": ("elf", "ppc", 32, "big"),
    "mips-linux-gnu": ("elf", "mips", 32, "big"),
    "s390x-linux-gnu": ("elf", "s390x", 64, "big"),
    "sparc64-linux-gnu": ("elf", "sparc64", 64, "big"),
    "x86_64-apple-macos11": ("mach-o", "x86_64", 64, "little"),
    "arm64-apple-macos11": ("mach-o", "aarch64", 64, "little"),
    "i686-apple-darwin": ("mach-o", "i386", 32, "little"),
    "x86_64-pc-windows-msvc": ("coff", "x86_64", 64, "little"),
    "aarch64-pc-windows-msvc": ("coff", "aarch64", 64, "little"),
    "i686-pc-windows-msvc": ("coff", "i386", 32, "little"),
}


def check(lib: Any, path: Path) -> None:
    """The blob of `BLOB` and the function of `KERNEL` are found, at their places in the file."""
    raw = path.read_bytes()
    assert raw[lib.blob_offset :][: len(BLOB)] == BLOB
    assert [(e.type_key, e.imports) for e in lib.entries] == [("library", (1,)), ("cuda", ())]
    entry = lib.entries[1]
    assert bytes(entry.view()) == raw[entry.offset :][: entry.size] == CUDA
    assert lib.functions == ["vadd"]


@pytest.mark.parametrize("target", TARGETS)
def test_objects_of_every_machine_are_read(
    clang: Any, validate: Any, tmp_path: Path, target: str
) -> None:
    path = clang(KERNEL + blob_source(BLOB), tmp_path / "lib0.o", target)
    form, machine, bits, endian = TARGETS[target]
    with mblob.open(path, verify="full") as lib:
        assert (lib.image.format, lib.kind) == (form, "object")
        assert lib.target == {"machine": machine, "bits": bits, "endian": endian}
        check(lib, path)
        assert {"TVMBackendAllocWorkspace", "expf"} <= set(lib.undefined)
        assert not [
            d for d in lib.diagnostics if d["code"] in ("writable_blob", "executable_stack")
        ]
        validate(lib.to_json())


def test_weak_functions_of_coff_objects_have_no_second_name(clang: Any, tmp_path: Path) -> None:
    source = KERNEL + "__attribute__((weak)) int helps(void) { return 3; }\n" + blob_source(BLOB)
    with mblob.open(clang(source, tmp_path / "w.obj", "x86_64-pc-windows-msvc")) as lib:
        assert lib.functions == ["vadd"]
        assert "helps" not in lib.undefined


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_mach_o_libraries_are_read_as_lief_reads_them(
    dylib: Any, validate: Any, machine: str
) -> None:
    path = dylib[machine]
    theirs = lief.parse(str(path))
    with mblob.open(path, verify="full") as lib:
        check(lib, path)
        assert (lib.image.format, lib.kind, lib.target["machine"]) == ("mach-o", "shared", machine)
        assert {s.name for s in lib.image.exports} == {
            s.name.removeprefix("_") for s in theirs.exported_symbols
        }
        assert {s.name for s in lib.image.imports} == {
            s.name.removeprefix("_") for s in theirs.imported_symbols
        }
        blob = next(s for s in theirs.exported_symbols if s.name == "___tvm_dev_mblob")
        assert lib.blob_symbol.st_value == blob.value
        report = lib.to_json()
        validate(report)
        assert report["soname"] == "@rpath/model.dylib"
        assert report["runpath"] == ["/opt/models"]
        assert report["build_id"] == bytes(theirs.uuid.uuid).hex()
        assert "macOS 11.0 or later" in report["target"]["hints"]
        assert report["needed"] == [
            lib.name for lib in theirs.libraries if lib.name != report["soname"]
        ]
        assert "writable_blob" not in {d["code"] for d in report["diagnostics"]}


def test_a_mach_o_library_without_its_symbol_table_is_read_by_its_trie(
    dylib: Any, tmp_path: Path
) -> None:
    raw = bytearray(dylib["x86_64"].read_bytes())
    at = 32
    while struct.unpack_from("<I", raw, at)[0] != 2:  # LC_SYMTAB
        at += struct.unpack_from("<I", raw, at + 4)[0]
    struct.pack_into("<I", raw, at + 12, 0)  # its count
    path = tmp_path / "stripped.dylib"
    path.write_bytes(raw)
    with mblob.open(path) as lib:
        check(lib, path)


def test_a_universal_file_has_a_part_for_each_machine(
    dylib: Any, validate: Any, tmp_path: Path
) -> None:
    parts = {"x86_64": 0x01000007, "aarch64": 0x0100000C}
    head, body = struct.pack(">2I", 0xCAFEBABE, len(parts)), b""
    for machine, cpu in parts.items():
        raw = dylib[machine].read_bytes()
        start = 4096 + len(body)
        head += struct.pack(">5I", cpu, 0, start, len(raw), 12)
        body += raw + bytes(-len(raw) % 4096)
    path = tmp_path / "fat.dylib"
    path.write_bytes(head.ljust(4096, b"\0") + body)
    for machine in parts:
        with mblob.open(path, machine=machine) as lib:
            assert (lib.kind, lib.target["machine"]) == ("universal", machine)
            assert [m.name for m in lib.members] == list(parts)
            check(lib, path)
            validate(lib.to_json())
    for name, machine in {
        "amd64": "x86_64",
        "x64": "x86_64",
        "ARM64": "aarch64",
        "x86-64": "x86_64",
    }.items():
        with mblob.open(path, machine=name) as lib:
            assert lib.target["machine"] == machine
    with pytest.raises(FormatError, match="no part for arm; there are x86_64, aarch64"):
        mblob.open(path, machine="armhf")
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(FormatError, match="the file ends at 9000"):
        mblob.open(path)


def test_a_universal_archive_is_read_as_the_archive_of_one_machine(
    clang: Any, validate: Any, tmp_path: Path, require: Callable[[str], str]
) -> None:
    parts = {}
    for arch in ("x86_64", "arm64"):
        obj = clang(KERNEL + blob_source(BLOB), tmp_path / f"{arch}.o", f"{arch}-apple-macos11")
        parts[arch] = tmp_path / f"{arch}.a"
        subprocess.run([require("ar"), "rcS", parts[arch], obj], check=True)
    at, head, body = 64, b"", b""
    for cpu, path in zip((0x1000007, 0x100000C), parts.values(), strict=True):
        content = path.read_bytes()
        head += struct.pack(">5I", cpu, 0, at + len(body), len(content), 0)
        body += content
    path = tmp_path / "fat.a"
    path.write_bytes((b"\xca\xfe\xba\xbe" + struct.pack(">I", 2) + head).ljust(at, b"\0") + body)
    for name, machine in (("amd64", "x86_64"), ("arm64", "aarch64")):
        with mblob.open(path, machine=name) as lib:
            assert (lib.kind, lib.target["machine"], lib.functions) == (
                "universal",
                machine,
                ["vadd"],
            )
            offset, size = lib.entries[1].offset, lib.entries[1].size
            assert offset is not None
            assert path.read_bytes()[offset : offset + size] == bytes(lib.entries[1].view()) == CUDA
            validate(lib.to_json())


def test_java_class_files_are_no_universal_files(tmp_path: Path) -> None:
    path = tmp_path / "A.class"
    path.write_bytes(bytes.fromhex("cafebabe 0000003d") + bytes(200))
    with pytest.raises(FormatError) as caught:
        mblob.open(path)
    assert caught.value.exit_code == 3


def test_pe_libraries_are_read_as_lief_reads_them(dll: Path, validate: Any) -> None:
    theirs = lief.parse(str(dll))
    with mblob.open(dll, verify="full") as lib:
        check(lib, dll)
        assert (lib.image.format, lib.kind, lib.target["machine"]) == ("pe", "shared", "x86_64")
        assert {s.name for s in lib.image.exports} == {e.name for e in theirs.get_export().entries}
        assert {s.name for s in lib.image.imports} == {
            e.name for i in theirs.imports for e in i.entries
        }
        assert lib.to_json()["needed"] == [i.name for i in theirs.imports] == ["tvm_runtime.dll"]
        assert lib.to_json()["soname"] == "model.dll"
        assert {u.name: u.library for u in lib.undefined_symbols}[
            "TVMBackendAllocWorkspace"
        ] == "tvm_runtime.dll"
        validate(lib.to_json())


@pytest.mark.parametrize("step", [7, 64])
def test_damage_to_foreign_files_is_one_error_or_none(
    dylib: Any, dll: Path, tmp_path: Path, step: int
) -> None:
    """Each cut, and each of the header's bytes set: nothing crashes, and errors are one short
    line."""
    path = tmp_path / "x"
    codes = set()
    for source in (dylib["x86_64"], dll):
        whole = source.read_bytes()
        made = [whole[:size] for size in range(0, len(whole), step * 16)]
        made += [whole[:at] + b"\xff" * 4 + whole[at + 4 :] for at in range(0, 1500, step)]
        for data in made:
            path.write_bytes(data)
            try:
                with mblob.open(path, partial=True) as lib:
                    json.dumps(lib.to_json())
            except FormatError as error:
                codes.add(error.code)
                assert "\n" not in str(error)
                assert len(str(error)) < 500
    assert {"mach_o", "pe", "not_elf"} <= codes


def test_tables_that_name_the_same_bytes_again_and_again_are_refused(
    tmp_path: Path, dylib: Any
) -> None:
    """A trie whose nodes lead to each other, and one whose names grow with each node."""
    raw = dylib["x86_64"].read_bytes()
    at = 32
    commands = {}
    while at < 32 + struct.unpack_from("<I", raw, 20)[0]:
        kind, size = struct.unpack_from("<II", raw, at)
        commands[kind] = at
        at += size
    place = commands[0x80000022] + 40 if 0x80000022 in commands else commands[0x80000033] + 8
    made = bytearray(raw)
    struct.pack_into("<I", made, commands[2] + 12, 0)
    step = 3000
    nodes = b"".join(b"\0\1" + b"n" * (step - 6) + b"\0" + _uleb((i + 1) * step) for i in range(80))
    struct.pack_into("<II", made, place, len(made), len(nodes))
    path = tmp_path / "trie.dylib"
    path.write_bytes(made + nodes)
    with pytest.raises(FormatError, match="names add up to more than"):
        mblob.open(path)
    struct.pack_into("<II", made, place, len(made), 8)
    path.write_bytes(made + b"\0\1a\0\0" + bytes(3))  # the root is its own child
    with mblob.open(path) as lib:
        assert lib.blob is None


def _uleb(value: int) -> bytes:
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
