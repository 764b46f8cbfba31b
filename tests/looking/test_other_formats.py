"""Libraries of other systems, as clang and lld make them, and objects of every machine. The oracles
are what clang and lld were told, and LLVM's own readers."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def named_by(tool: str, *words: str | Path) -> dict[str, int]:
    """Names and addresses that llvm-nm prints, without what Mach-O puts before a C name."""
    done = subprocess.run([tool, "-f", "posix", *words], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines() if " " in line]
    return {row[0].removeprefix("_"): int(row[2], 16) if len(row) > 2 else 0 for row in rows}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_mach_o_libraries_are_read_as_llvm_reads_them(
    dylib: Any, validate: Any, require: Callable[[str], str], machine: str
) -> None:
    path = dylib[machine]
    nm = require("llvm-nm")
    exports = named_by(nm, "-g", "--defined-only", path)
    with mblob.open(path, verify="full") as lib:
        check(lib, path)
        assert (lib.image.format, lib.kind, lib.target["machine"]) == ("mach-o", "shared", machine)
        assert {s.name: s.st_value for s in lib.image.exports} == exports
        assert {"vadd", "__tvm_dev_mblob"} <= set(exports)
        assert {s.name for s in lib.image.imports} == set(named_by(nm, "-g", "-u", path))
        report = lib.to_json()
        validate(report)
        assert report["soname"] == "@rpath/model.dylib"
        assert report["runpath"] == ["/opt/models"]
        assert bytes.fromhex(report["build_id"]) in path.read_bytes()
        assert len(report["build_id"]) == 32
        assert "MACOS 11.0.0 or later" in report["target"]["hints"]
        assert report["needed"] == []
        assert "writable_blob" not in {d["code"] for d in report["diagnostics"]}


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


def test_pe_libraries_are_read_as_llvm_reads_them(
    dll: Path, validate: Any, require: Callable[[str], str]
) -> None:
    words = [require("llvm-readobj"), "--coff-exports", "--coff-imports", dll]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    exports = re.findall(r"Name: (\S+)\n *RVA: (\S+)", text)
    imports = re.findall(r"Symbol: (\S+) \(", text)
    with mblob.open(dll, verify="full") as lib:
        check(lib, dll)
        assert (lib.image.format, lib.kind, lib.target["machine"]) == ("pe", "shared", "x86_64")
        assert [(s.name, s.st_value) for s in lib.image.exports] == [
            (name, int(rva, 16)) for name, rva in exports
        ]
        assert {"vadd", "__tvm_dev_mblob"} <= {name for name, _ in exports}
        assert [s.name for s in lib.image.imports] == imports
        assert set(imports) == {"TVMBackendAllocWorkspace", "expf"}
        assert lib.to_json()["needed"] == ["tvm_runtime.dll"]
        assert lib.to_json()["soname"] == "model.dll"
        assert {u.name: u.library for u in lib.undefined_symbols}[
            "TVMBackendAllocWorkspace"
        ] == "tvm_runtime.dll"
        validate(lib.to_json())


def test_names_of_coff_symbols_may_share_their_ends(clang: Any, tmp_path: Path) -> None:
    """LLVM writes a name that another one ends with once: `b_long_name` lies in `a_b_long_name`."""
    source = "int b_long_name(void) { return 1; } int a_b_long_name(void) { return 2; }\n"
    with mblob.open(clang(source, tmp_path / "x.obj", "x86_64-pc-windows-msvc")) as lib:
        assert {s.name for s in lib.image.exports} >= {"b_long_name", "a_b_long_name"}


@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "arm64-apple-macos11"])
def test_a_symbol_that_is_a_number_is_defined(clang: Any, tmp_path: Path, target: str) -> None:
    name = "_five" if "apple" in target else "five"
    source = f'__asm__(".globl {name}\\n.set {name}, 5\\n"); int f(void) {{ return 1; }}\n'
    with mblob.open(clang(source, tmp_path / "x.o", target)) as lib:
        assert [s.st_value for s in lib.image.exports if s.name == "five"] == [5]
        assert "five" not in {s.name for s in lib.image.imports}


@pytest.mark.parametrize("form", ["dylib", "dll", "obj"])
def test_a_file_that_is_cut_off_is_refused(
    dylib: Any, dll: Path, clang: Any, tmp_path: Path, form: str
) -> None:
    if form == "obj":
        whole = clang(KERNEL, tmp_path / "k.obj", "x86_64-pc-windows-msvc").read_bytes()
    else:
        whole = (dylib["x86_64"] if form == "dylib" else dll).read_bytes()
    path = tmp_path / "x"
    for size in range(512, len(whole) - 512, max(len(whole) // 50, 1)):
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            mblob.open(path)


@pytest.mark.parametrize("form", ["dylib", "dll", "obj"])
def test_a_large_file_costs_what_its_headers_do(
    dylib: Any, dll: Path, clang: Any, tmp_path: Path, peak_memory: Any, form: str
) -> None:
    """lief holds all bytes that it gets, and again those of each section."""
    if form == "obj":
        source = clang(KERNEL, tmp_path / "k.obj", "x86_64-pc-windows-msvc")
    else:
        source = dylib["x86_64"] if form == "dylib" else dll
    path = tmp_path / "large"
    path.write_bytes(source.read_bytes())
    mblob.open(path).close()  # with lief
    with path.open("r+b") as file:
        file.truncate(4 << 30)  # a hole

    def look() -> None:
        with mblob.open(path) as lib:
            assert lib.functions == ["vadd"]

    assert peak_memory(look) < 4 << 20


def test_lief_is_imported_when_its_file_is_seen_and_says_nothing(
    dylib: Any, golden: Path, tmp_path: Path
) -> None:
    """And keeps the log that its user set."""
    raw = bytearray(dylib["x86_64"].read_bytes())
    raw[32 + 4 : 32 + 8] = b"\xff\xff\xff\x7f"
    (tmp_path / "damaged.dylib").write_bytes(raw)
    code = f"""
import sys, mblob
mblob.open({str(golden / "host_c.so")!r}).close()
assert "lief" not in sys.modules
mblob.open({str(dylib["x86_64"])!r}).close()
import lief
lief.logging.set_level(lief.logging.LEVEL.ERROR)
try:
    mblob.open({str(tmp_path / "damaged.dylib")!r})
except mblob.FormatError as error:
    print(error.code)
assert lief.logging.get_level() == lief.logging.LEVEL.ERROR
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("mach_o\n", "")


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


def _mach_o(commands: list[bytes], body: bytes) -> bytes:
    joined = b"".join(commands)
    head = (0xFEEDFACF, 0x1000007, 3, 6, len(commands), len(joined), 0, 0)
    return struct.pack("<8I", *head) + joined + body


def _coff(sections: int, body: bytes, *, size: int = 0, at: int = 0, relocations: int = 0) -> bytes:
    head = struct.pack("<HHIIIHH", 0x8664, sections, 0, 0, 0, 0, 0)
    rest = (4096, 0, size, at, at, 0, relocations, 0, 0x60000020)
    return head + struct.pack("<8sIIIIIIHHI", b".s", *rest) * sections + body


def _pe(directories: dict[int, tuple[int, int]], sections: int, size: int, body: bytes) -> bytes:
    table = [n for i in range(16) for n in directories.get(i, (0, 0))]
    optional = bytearray(struct.pack("<H106xI32I", 0x20B, 16, *table))
    struct.pack_into("<QII", optional, 24, 1 << 32, 4096, 512)
    head = b"MZ".ljust(60, b"\0") + struct.pack("<I4s", 64, b"PE\0\0")
    head += struct.pack("<HHIIIHH", 0x8664, sections, 0, 0, 0, len(optional), 0x2022) + optional
    for i in range(sections):
        rest = (size, 4096 + i * size, size, 1024, 0, 0, 0, 0, 0x60000020)
        head += struct.pack("<8sIIIIIIHHI", b".s", *rest)
    return head.ljust(1024, b"\0") + body


def _pe_of_a_short_header(directory: tuple[int, int], size: int, body: bytes) -> bytes:
    """A library that says that its optional header has no bytes, so the section is inside of it."""
    made = bytearray(_pe({6: directory}, 1, size, body))
    struct.pack_into("<H", made, 84, 0)
    struct.pack_into("<IIII", made, 96, size, 4096, size, 1024)
    return bytes(made)


MIB = 1 << 20
SEGMENT = struct.pack("<II16sQQQQiiII", 0x19, 72, b"s", 0, 4096, 0, MIB, 5, 5, 0, 0)
POGO = struct.pack("<IIHHIIII", 0, 0, 0, 0, 13, MIB, 4096, 1024)  # lief makes an object of 10 bytes
SHARING = {
    "segments": _mach_o([SEGMENT] * 2000, bytes(MIB)),
    "sections": _coff(2000, bytes(MIB), size=MIB),
    "sections of a dll": _pe({}, 20, MIB, bytes(MIB)),
    "relocations": _coff(1000, bytes(MIB), at=MIB // 3, relocations=65535),
    "debug entries": _pe({6: (4096, 28 * 1000)}, 1, MIB, (POGO * 1000).ljust(MIB, b"\1")),
    "debug entries behind a short header": _pe_of_a_short_header(
        (4096, 28 * 1000), MIB, (POGO * 1000).ljust(MIB, b"\1")
    ),
    "sections inside of the headers": _coff(20000, b"", size=MIB, at=1),
    "segments inside of the headers": _mach_o([SEGMENT] * 20000, b""),
}
OPEN_IN_LITTLE_MEMORY = """
import resource, sys
import mblob
mblob.open(sys.argv[1], partial=True).close()  # with lief
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
try:
    mblob.open(sys.argv[2], partial=True).close()
except mblob.MblobError as error:
    print(error)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("what", SHARING)
def test_a_small_file_whose_parts_share_bytes_needs_little_memory(
    tmp_path: Path, dll: Path, what: str
) -> None:
    """lief would copy the bytes of each section, and make an object of each relocation: 2 GB and more
    of these files."""
    (tmp_path / "x").write_bytes(SHARING[what])
    words = [sys.executable, "-c", OPEN_IN_LITTLE_MEMORY, dll, tmp_path / "x"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
