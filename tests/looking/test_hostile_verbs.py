"""Files that lie on purpose, given to every verb that looks: one error line, the exit code that the
interface says, within 300 MB. All in one process with that limit, so that what one file leaves
behind would show with the next."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ZERO = (0,) * 10


def elf(
    bits: int,
    order: str,
    kind: int,
    *,
    segments: Sequence[tuple[int, ...]] = (),
    sections: Sequence[tuple[int, ...]] = (),
    body: bytes = b"",
    shnum: int | None = None,
    phnum: int | None = None,
    shstrndx: int = 0,
) -> bytes:
    """A file: header, program headers (type, flags, offset, address, size), `body`, section
    headers."""
    wide = bits == 64
    header, segment, section, word = (64, 56, 64, "Q") if wide else (52, 32, 40, "I")
    at = header + segment * len(segments) + len(body)
    out = bytearray(b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9))
    out += struct.pack(
        f"{order}HHI3{word}IHHHHHH", kind, 62, 1, 0, header if segments else 0, at if sections else 0, 0, header,
        segment, len(segments) if phnum is None else phnum,
        section, len(sections) if shnum is None else shnum, shstrndx,
    )  # fmt: skip
    form = order + ("IIQQQQQQ" if wide else "8I")
    for t, flags, offset, address, size in segments:
        rest = (offset, address, 0, size, size)
        out += struct.pack(form, *((t, flags, *rest, 8) if wide else (t, *rest, flags, 8)))
    return (
        bytes(out)
        + body
        + b"".join(struct.pack(order + ("IIQQQQIIQQ" if wide else "10I"), *s) for s in sections)
    )


def dynamic(
    bits: int, order: str, tags: list[tuple[int, int]], hashes: tuple[int, list[int]], strings: int
) -> bytes:
    """A library of one symbol, `strings` bytes of names without an end behind them."""
    word = "Q" if bits == 64 else "I"
    start = (64 + 2 * 56) if bits == 64 else (52 + 2 * 32)
    step = struct.calcsize(f"{order}2{word}")
    end = start + step * (len(tags) + 6)
    tags = [(5, end), (10, strings), (6, end + 64), (hashes[0], end + 128), (11, 24), *tags, (0, 0)]
    size = 24 if bits == 64 else 16
    fields = (1, 0x12, 0, 1, 64, 8) if bits == 64 else (1, 64, 8, 0x12, 0, 1)
    symbols = bytes(size) + struct.pack(order + ("IBBHQQ" if bits == 64 else "IIIBBH"), *fields)
    body = b"".join(struct.pack(f"{order}2{word}", *t) for t in tags)
    body += b"\0__tvm_dev_mblob".ljust(64, b"A") + symbols.ljust(64, b"\0")
    body += struct.pack(f"{order}{len(hashes[1])}I", *hashes[1])
    whole = start + len(body)
    return elf(
        bits,
        order,
        3,
        segments=[(1, 5, 0, 0, whole), (2, 6, start, start, step * len(tags))],
        body=body,
    )


def of_elf() -> Iterator[tuple[str, bytes]]:
    for bits, order in ((64, "<"), (64, ">"), (32, "<"), (32, ">")):
        name, top = f"{bits}{order}", 1 << (bits - 1)
        base, size = (64, 24) if bits == 64 else (52, 16)
        body = b"\0abc\0".ljust(64, b"x") + bytes(4 * size)
        count = (0, 0, 0, 0, 0, 70_000, 0, 0, 0, 0)
        text = (0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
        yield (
            f"{name} 70,000 sections",
            elf(bits, order, 1, sections=[count] + [text] * 69_999, shnum=0),
        )
        yield (
            f"{name} 2^63 sections",
            elf(bits, order, 1, sections=[(0, 0, 0, 0, 0, top, 0, 0, 0, 0)], shnum=0),
        )
        names_in_themselves = [(0, 0, 0, 0, 0, 3, 2**32 - 1, 0, 0, 0), ZERO, ZERO]
        yield (
            f"{name} no section of names",
            elf(bits, order, 1, sections=names_in_themselves, shnum=0, shstrndx=0xFFFF),
        )
        first = (0, 0, 0, 0, 0, 1, 0, 70_000, 0, 0)
        for n in (1, 70_000):
            data = elf(
                bits, order, 3, segments=[(1, 5, 0, 0, 100)] * n, sections=[first], phnum=0xFFFF
            )
            yield f"{name} PN_XNUM, {n} are there", data
        for entry in (0, 1, size - 1, top):
            symbols = (0, 2, 0, 0, base + 64, 4 * size, 1, 0, 8, entry)
            yield (
                f"{name} sh_entsize {entry}",
                elf(bits, order, 1, sections=[ZERO, symbols], body=body),
            )
        for link in (1, 0xFFFF):
            symbols = (0, 2, 0, 0, base + 64, 4 * size, link, 0, 8, size)
            yield f"{name} sh_link {link}", elf(bits, order, 1, sections=[ZERO, symbols], body=body)
        names = (1, 3, 0, 0, base, 10, 0, 0, 1, 0)
        yield (
            f"{name} names without end",
            elf(bits, order, 1, sections=[ZERO, names], body=b"n" * 64, shstrndx=1),
        )
        overlapping = [ZERO] + [(0, 1, 2, 0, 0, 300, 0, 0, 1, 0)] * 500
        yield f"{name} overlapping sections", elf(bits, order, 1, sections=overlapping, body=body)
        yield (
            f"{name} notes of zeros",
            elf(bits, order, 3, segments=[(4, 4, base, 0, 60_000)], body=bytes(60_000)),
        )
        plain = (4, [1, 2, 1, 0, 0])
        yield f"{name} DT_STRTAB without end", dynamic(bits, order, [], plain, 20)
        yield f"{name} DT_STRSZ", dynamic(bits, order, [], plain, top)
        yield f"{name} DT_HASH of 2^32", dynamic(bits, order, [], (4, [2**32 - 1] * 4), 16)
        bloom = [0] * (bits // 32)
        endless = [1, 1, 1, 0, *bloom, 1, *[2, 4, 6, 8] * 20]
        for words in (endless, [1, 1, 2**31, 0, 0, 0, 1, 1], [2**32 - 1, 1, 1, 0, 0, 0, 1, 1]):
            yield (
                f"{name} DT_GNU_HASH {words[:3]}",
                dynamic(bits, order, [], (0x6FFFFEF5, words), 16),
            )
        for tag in (1, 7, 14, 17, 29, 36, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE):
            for value in (0, base, top, 2 * top - 1):
                sizes = [(0x6FFFFFFF, top), (0x6FFFFFFD, top), (8, top), (18, top), (35, top)]
                yield (
                    f"{name} tag {tag:#x} {value:#x}",
                    dynamic(bits, order, [(tag, value), *sizes], plain, 16),
                )


def of_mach_o() -> Iterator[tuple[str, bytes]]:
    for magic in (0xCAFEBABE, 0xCAFEBABF):
        for count in (1, 30, 2**31, 2**32 - 1):
            yield f"fat {magic:x} {count}", struct.pack(">II", magic, count) + bytes(500)
    part = struct.pack(">5I", 0x01000007, 3, 0, 4096, 12)
    yield "fat, its part is itself", (struct.pack(">II", 0xCAFEBABE, 1) + part).ljust(4096, b"\0")
    for count, size in ((1, 0), (1, 4), (1000, 0), (2**32 - 1, 8), (5, 2**32 - 8)):
        head = struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 6, count, 4096, 0, 0)
        yield f"mach-o {count} commands of {size}", head + struct.pack("<II", 0x19, size) * 600
    head = struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 6, 1, 24, 0, 0)
    yield "mach-o symbols", head + struct.pack("<6I", 2, 24, 32, 2**31, 32, 2**32 - 1) + bytes(1000)
    trie = b"\0\x02a\0\0b\0\0"
    head = struct.pack("<8I", 0xFEEDFACF, 0x01000007, 3, 6, 1, 16, 0, 0)
    yield (
        "mach-o exports in a circle",
        head + struct.pack("<4I", 0x80000033, 16, 48, len(trie)) + trie + bytes(100),
    )


def of_pe(dll: bytes) -> Iterator[tuple[str, bytes]]:
    (pe,) = struct.unpack_from("<I", dll, 60)
    sections, optional = struct.unpack_from("<H", dll, pe + 6)[0], pe + 24
    table = optional + struct.unpack_from("<H", dll, pe + 20)[0]
    (exports,) = struct.unpack_from("<I", dll, optional + 112)
    spans = [struct.unpack_from("<4I", dll, table + 40 * i + 8) for i in range(sections)]
    start = next(o + exports - a for size, a, _, o in spans if 0 <= exports - a < size)
    places = [(start + k, 2**31) for k in (16, 20, 24, 28, 32, 36)]
    places += [(start + 24, 2**32 - 1), (start + 24, 65535 * 16)]
    for i in range(sections):
        places += [(table + 40 * i + k, v) for k in (8, 12, 16, 20) for v in (1, 2**31, 2**32 - 1)]
    places += [(optional + k, v) for k in range(112, 240, 8) for v in (4, 2**31)]
    for at, value in places:
        raw = bytearray(dll)
        struct.pack_into("<I", raw, at, value)
        yield f"pe {at}: {value:#x}", bytes(raw)


def ar(*members: tuple[str, bytes], size: object = None, magic: bytes = b"!<arch>\n") -> bytes:
    out = magic
    for name, data in members:
        told = len(data) if size is None else size
        out += (
            f"{name:<16}{'0':<12}{'0':<6}{'0':<6}{'644':<8}{told!s:<10}`\n".encode()
            + data
            + b"\n" * (len(data) % 2)
        )
    return out


def tar(*members: tuple[str, bytes, bytes], pax: dict[str, str] | None = None) -> bytes:
    file = io.BytesIO()
    with tarfile.open(
        fileobj=file, mode="w", format=tarfile.PAX_FORMAT if pax else tarfile.GNU_FORMAT
    ) as archive:
        for name, data, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.pax_headers = kind, "lib0.o", pax or {}
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def patched(archive: bytes, at: int, field: bytes) -> bytes:
    """A tar archive with a field of its first head replaced, and the sum of that made right."""
    raw = bytearray(archive)
    raw[at : at + len(field)] = field
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return bytes(raw)


def of_archives(obj: bytes) -> Iterator[tuple[str, bytes]]:
    one = ("lib0.o", obj, tarfile.REGTYPE)
    yield "ar in ar", ar(("a.a/", ar(("lib0.o/", obj))))
    yield "ar in tar", tar(("a.a", ar(("lib0.o/", obj)), tarfile.REGTYPE))
    yield "tar in tar", tar(("a.tar", tar(one), tarfile.REGTYPE))
    yield "tar in ar", ar(("a.tar/", tar(one)))
    yield "tar.gz in tar", tar(("a.tgz", gzip.compress(tar(one)), tarfile.REGTYPE))
    yield "gzip in gzip", gzip.compress(gzip.compress(tar(one)))
    yield "thin", ar(("lib0.o/", b""), size=1234, magic=b"!<thin>\n")
    yield "thin in ar", ar(("a.a/", b"!<thin>\n"))
    for name in (
        "/0",
        "/99999",
        "/-1",
        "/4294967296",
        "#1/99999",
        "#1/-3",
        "#1/0",
        "/ABC",
        "#1/abc",
        "",
    ):
        yield f"ar name {name!r}", ar(("//", b"longname.o/\n"), (name, obj))
    for size in (-1, 2**40, "abc", "0x10", 9999999999):
        yield f"ar size {size}", ar(("lib0.o/", obj), size=size)
    yield "ar of 20,000", ar(*[("x/", b"")] * 20_000)
    for kind in (
        tarfile.LNKTYPE,
        tarfile.SYMTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.DIRTYPE,
        tarfile.FIFOTYPE,
    ):
        yield f"tar of type {kind!r} alone", tar(("lib0.o", b"", kind))
        yield f"tar with type {kind!r}", tar(one, ("other.o", b"", kind))
    yield "tar of 17,000", tar(*[("x", b"", tarfile.REGTYPE)] * 17_000)
    yield "tar with a long name", tar(("n" * 600_000 + ".o", obj, tarfile.REGTYPE))
    for size in ("-5", "abc", str(2**64), str(2**200)):
        yield f"tar, pax size {size[:8]}", tar(one, pax={"size": size})
    yield "tar, sparse 0.1", tar(one, pax={"GNU.sparse.map": "0,10", "GNU.sparse.size": str(2**62)})
    one_zero = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(2**62)}
    yield "tar, sparse 1.0", tar(("x.o", b"99999999999\n" * 200, tarfile.REGTYPE), pax=one_zero)
    yield "tar, size 2^62", patched(tar(one), 124, b"\x80" + (2**62).to_bytes(11, "big"))
    yield "tar, size -1", patched(tar(one), 124, b"\xff" * 12)
    yield "tar, sparse of GNU", patched(patched(tar(one), 156, b"S"), 386, b"77777777777\0" * 2)
    yield "gzip of zeros", gzip.compress(bytes(120 << 20))
    yield "gzip of a tar and zeros", gzip.compress(tar(one) + bytes(120 << 20))
    yield "gzip, cut", gzip.compress(tar(one))[:-9]


# Each file goes through all verbs; what is printed is one JSON line for a verb that did not do as
# it must.
RUNNER = r"""
import contextlib, io, json, resource, sys
from pathlib import Path
from mblob.cli.command_line import execute
folder, other = Path(sys.argv[1]), sys.argv[2]
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (300 << 20),) * 2)
done = 0
for path in sorted(folder.iterdir(), key=lambda p: int(p.name)):
    name = str(path)
    for verb in (
        ["inspect", name], ["inspect", name, "--json"], ["inspect", name, "--functions"], ["inspect", name, "--tree"],
        ["inspect", name, "--html", "-"], ["verify", name], ["extract", name, "--force", "-o", sys.argv[3]],
        ["diff", name, other], ["diff", other, name],
    ):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = execute(verb)
            except BaseException as error:
                code = repr(error)
        lines = err.getvalue().splitlines()
        errors = [line for line in lines if line.startswith("mblob-pack: error: ")]
        fine = code == 0 or (verb[0] == "diff" and code == 1 and not lines) or (code in (1, 3) and errors == lines)
        whole = len(errors) <= (1 if verb[0] in ("verify", "diff") else 20) and all(len(line) < 2000 for line in lines)
        if not fine or not whole or len(out.getvalue()) > 3_000_000 + 20 * path.stat().st_size:
            print(json.dumps([int(path.name), verb[0], str(code), err.getvalue()[-500:]]))
        done += 1
print(json.dumps(done))
"""


# In the quick tier not all of the many ELF files, and of these and of archives none that is large.
FAMILIES = [("elf", 15), ("mach-o", 1), ("pe", 1), ("archives", 5)]
FAMILIES += [pytest.param(family, 1, marks=pytest.mark.slow) for family in ("elf", "archives")]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "step"), FAMILIES)
def test_every_verb_says_one_line(
    request: pytest.FixtureRequest, golden: Path, tmp_path: Path, family: str, step: int
) -> None:
    if family == "elf":
        files = list(of_elf())
    elif family == "mach-o":
        files = list(of_mach_o())
    elif family == "pe":
        files = list(of_pe(request.getfixturevalue("dll").read_bytes()))
    else:
        clang = request.getfixturevalue("clang")
        files = list(
            of_archives(
                clang(
                    "int f(void) { return 1; }", tmp_path / "k.o", "x86_64-linux-gnu"
                ).read_bytes()
            )
        )
    files = [f for f in files if step == 1 or len(f[1]) < 4 << 20][::step]
    folder = tmp_path / "files"
    folder.mkdir()
    for i, (_, data) in enumerate(files):
        (folder / str(i)).write_bytes(data)
    command = [sys.executable, "-c", RUNNER, folder, golden / "host_c.so", f"{tmp_path}/out/"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, count = map(json.loads, done.stdout.splitlines())
    assert count == 9 * len(files)
    assert [(files[i][0], *rest) for i, *rest in wrong] == []
