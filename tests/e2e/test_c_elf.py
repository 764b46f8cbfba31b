"""Libraries as the C runtime meets them: damaged ones are refused before they run, sound ones of all linkers open."""

from __future__ import annotations

import json
import platform
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from tests.e2e.programs import ROOT, run

# -- damage ---------------------------------------------------------------------------------------------------


def test_a_library_cut_anywhere_is_refused(built: Path, tmp_path: Path) -> None:
    data = (built / "lib" / "keyed.so").read_bytes()
    cuts = {*range(0, 64), *range(64, len(data), 97), *range(len(data) - 20, len(data))}
    file = tmp_path / "cut.so"
    for cut in sorted(cuts):
        file.write_bytes(data[:cut])
        with pytest.raises(mblob.FormatError) as refused:
            mblob.load_module(file)
        assert refused.value.code.startswith("elf"), cut
        file.unlink()  # another file next time: libraries are told apart by their inode
    file.write_bytes(data[: len(data) // 2])
    assert "elf" in open_error(built, file)


# The second is loaded from a copy in which its undefined symbols are bound.
@pytest.mark.parametrize(("name", "tables"), [("plain", 4), ("c_target", 2)])
def test_flipped_bits_of_elf_headers_and_tables_do_not_end_the_process(
    built: Path, name: str, tables: int
) -> None:
    library = built / "lib" / f"{name}.so"
    program_headers = int.from_bytes(library.read_bytes()[56:58], "little")
    ranges = [(0, 64 + 56 * program_headers)]
    for line in run("readelf", "-SW", library).stdout.splitlines():
        fields = line.partition("]")[2].split()
        if fields and fields[0] in (".gnu.hash", ".dynsym", ".gnu.version", ".gnu.version_r"):
            ranges.append((int(fields[3], 16), int(fields[3], 16) + int(fields[4], 16)))
    assert len(ranges) == 1 + tables
    for start, stop in ranges:
        found = run(built / "plain" / "damage_library", library, start, stop).stdout.split()
        assert found[found.index("died") + 1] == "0", (start, stop, found)
        assert int(found[found.index("refused") + 1]) > 0


# -- damage that the dynamic linker would not survive ----------------------------------------------------------

PT_LOAD, PT_DYNAMIC, PT_GNU_RELRO, PF_W = 1, 2, 0x6474E552, 2
R_X86_64_64, R_X86_64_RELATIVE = 1, 8
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="no golden relocations for this machine")


def open_error(built: Path, library: Path) -> str:
    """The error of opening the library; a crash is a failure."""
    done = subprocess.run(
        [built / "plain" / "golden_host", library.parent, library.name], capture_output=True, text=True
    )
    assert done.returncode == 1, done
    return done.stderr.partition("last error: ")[2].strip()


def segments(data: bytes) -> list[tuple[int, list[int]]]:
    """Offset and fields of each 64-bit program header: type, flags, offset, vaddr, paddr, filesz, memsz, align."""
    start, count = struct.unpack_from("<32xQ16xH", data)
    return [(at, list(struct.unpack_from("<IIQQQQQQ", data, at))) for at in range(start, start + 56 * count, 56)]


def offset_of(data: bytes, vaddr: int) -> int:
    return next(
        s[2] + vaddr - s[3] for _, s in segments(data) if s[0] == PT_LOAD and s[3] <= vaddr < s[3] + s[5]
    )


def dynamic(data: bytes) -> dict[int, int]:
    at, size = next((s[2], s[5]) for _, s in segments(data) if s[0] == PT_DYNAMIC)
    return dict(struct.unpack_from("<QQ", data, at + i) for i in range(0, size, 16))


def test_a_dynamic_section_that_cannot_be_written_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    library = cc("int f(void) { return 1; }", tmp_path / "f.so", "-nostdlib", "-Wl,-z,norelro")
    data = bytearray(library.read_bytes())
    for at, s in segments(data):
        if s[0] == PT_LOAD and s[1] & PF_W:
            struct.pack_into("<I", data, at + 4, s[1] & ~PF_W)
    library.write_bytes(data)
    assert "writable" in open_error(built, library)


@pytest.mark.parametrize("bit", [13, 15, 20, 40, 62])
def test_read_only_data_that_goes_on_behind_the_data_is_refused(built: Path, tmp_path: Path, bit: int) -> None:
    data = bytearray((built / "lib" / "keyed.so").read_bytes())
    at, relro = next((at, s) for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    struct.pack_into("<Q", data, at + 40, relro[6] ^ 1 << bit)
    (tmp_path / "relro.so").write_bytes(data)
    assert "read-only" in open_error(built, tmp_path / "relro.so")


@pytest.mark.parametrize("field", [16, 40])  # p_vaddr, p_memsz
def test_a_slot_that_becomes_read_only_is_refused(built: Path, tmp_path: Path, golden: Path, field: int) -> None:
    data = bytearray((golden / "dag.so").read_bytes())
    at, _ = next((at, s) for at, s in segments(data) if s[0] == PT_GNU_RELRO)
    data[at + field + 1] ^= 0x10  # one page more, or later
    (tmp_path / "relro.so").write_bytes(data)
    assert "read-only" in open_error(built, tmp_path / "relro.so")


@x86_64
@pytest.mark.parametrize("table", ["init", "fini"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_constructor_outside_the_code_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path], table: str, packed: bool
) -> None:
    flags = ["-Wl,-z,pack-relative-relocs"] if packed else []
    library = cc("int x; int *f(void) { return &x; }", tmp_path / "f.so", *flags)
    data = bytearray(library.read_bytes())
    tags = dynamic(data)
    entry, text = tags[25 if table == "init" else 26], tags[6]  # DT_INIT_ARRAY, DT_FINI_ARRAY; DT_SYMTAB
    if packed:
        struct.pack_into("<Q", data, offset_of(data, entry), text)
    else:
        start = offset_of(data, tags[7])  # DT_RELA, DT_RELASZ
        at = next(
            i for i in range(start, start + tags[8], 24) if struct.unpack_from("<Q", data, i)[0] == entry
        )
        struct.pack_into("<Q", data, at + 16, text)
    library.write_bytes(data)
    assert "code" in open_error(built, library)


@x86_64
def test_a_constructor_that_is_a_symbol_of_data_is_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    source = 'int data[4]; __asm__(".section .init_array,\\"aw\\"\\n.quad data\\n.text");'
    library = cc(source, tmp_path / "f.so")
    assert "a constructor lies outside the code" in open_error(built, library)


@x86_64
def test_packed_relocations_outside_the_data_are_refused(
    built: Path, tmp_path: Path, cc: Callable[..., Path]
) -> None:
    library = cc("int f(void) { return 0; }", tmp_path / "f.so", "-Wl,-z,pack-relative-relocs")
    data = bytearray(library.read_bytes())
    tags = dynamic(data)
    struct.pack_into("<Q", data, offset_of(data, tags[36]), tags[6])  # DT_RELR; DT_SYMTAB is read-only
    library.write_bytes(data)
    assert "a relocation lies outside the data" in open_error(built, library)


@pytest.mark.parametrize("flags", [["-pie"], ["-no-pie"]], ids=["pie", "fixed"])
def test_an_executable_is_told_how_to_become_a_library(
    built: Path, tmp_path: Path, require: Callable[[str], str], flags: list[str]
) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    run(require("cc"), *flags, "-fPIE", tmp_path / "main.c", "-o", tmp_path / "main.so")
    assert "an executable; link it with -shared [elf_header]" in open_error(built, tmp_path / "main.so").replace(
        " (at byte 16)", ""
    )


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("double erfc(double); double f(double x) { return erfc(x); }", "link it with -lm"),
        ("int nobodys(int); int f(int x) { return nobodys(x); }", "link the library with what defines it"),
        ("int TVMNobodys(void); int f(void) { return TVMNobodys(); }", "a function of TVM's runtime"),
    ],
)
def test_a_function_that_nobody_provides_is_named_with_a_remedy(
    built: Path, tmp_path: Path, cc: Callable[..., Path], call: str, remedy: str
) -> None:
    error = open_error(built, cc(call, tmp_path / "f.so"))
    assert "undefined symbol: " in error
    assert remedy in error


# -- what linkers write ----------------------------------------------------------------------------------------

LINKERS = {
    "bfd": ["-fuse-ld=bfd"], "gold": ["-fuse-ld=gold"], "lld": ["-fuse-ld=lld"], "mold": ["-fuse-ld=mold"],
    "sysv": ["-Wl,--hash-style=sysv"], "now": ["-Wl,-z,now"], "norelro": ["-Wl,-z,norelro"],
    "one-segment": ["-Wl,-z,noseparate-code"], "large-pages": ["-Wl,-z,max-page-size=65536"], "stripped": ["-s"],
    "packed": ["-Wl,-z,pack-relative-relocs"], "lld-large-pages": ["-fuse-ld=lld", "-Wl,-z,max-page-size=65536"],
}  # fmt: skip


@pytest.mark.parametrize("flags", LINKERS.values(), ids=LINKERS)
def test_sound_libraries_of_all_linkers_open(
    built: Path, tmp_path: Path, cc: Callable[..., Path], require: Callable[[str], str], flags: list[str]
) -> None:
    """The checks of the dynamic section must not refuse what a linker writes."""
    for flag in flags:
        if flag.startswith("-fuse-ld="):
            require(flag.replace("-fuse-ld=", "ld."))
    source = (ROOT / "tests" / "c" / "kernels" / "plain.c").read_text()
    cc(source, tmp_path / "linked.so", f"-I{ROOT}/csrc/include", *flags)
    found = run(built / "plain" / "golden_host", tmp_path, "linked.so").stdout
    assert json.loads(found) == {"type_key": "library", "imports": []}
