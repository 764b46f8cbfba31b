"""Other ways to get bytes into a shared library, beside `cp` of the bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import inputs, packing
from benchmarks.results import MIB, Row, Sample, Section
from benchmarks.sampling import Bench, Missing, Worker, alternate, cleared, command, tvm_worker

INTRO = """\
Each makes a shared library of a kernel's object and a payload; commands with all that they start. TVM packs in a
process that is running already, has compiled the kernel, and holds the payload as a constant; its CPU is without
the linker's, its peak what is added to that. Sizes stop where one takes minutes or more memory than machines have."""
TVM = "Apache TVM, export_library"
INTERMEDIATE = ("binary.o", "objcopied.o", "embed.o", "text.o", "text.c", "stub.so")
LARGEST_OF_TVM = 256  # MiB; it holds several copies

# Scripts of the shell: $1 is the object of a kernel, $2 the payload, $3 the library to write, $CC
# the compiler.
INCBIN = r"""
printf '.section .rodata\n.globl blob\n.balign 64\nblob: .incbin "%s"\n.section .note.GNU-stack\n' "$2" > incbin.s
$CC -shared -o "$3" "$1" incbin.s
"""
OBJCOPY = r"""
$CC -c -x c /dev/null -o empty.o
objcopy --add-section .blob="$2" --set-section-flags .blob=alloc,readonly,data,contents \
  --add-symbol blob=.blob:0,global,object empty.o objcopied.o
$CC -shared -o "$3" "$1" objcopied.o
"""
LD = r"""
ld -r -b binary "$2" -z noexecstack -o binary.o
$CC -shared -o "$3" "$1" binary.o
"""
EMBED = r"""
printf 'const unsigned char blob[] = {\n#embed "%s"\n};\n' "$2" > embed.c
{clang} -std=c23 -fPIC -c embed.c -o embed.o
$CC -shared -o "$3" "$1" embed.o
"""
TEXT = r"""
{python} -c 'import sys
with open(sys.argv[1], "rb") as file, open("text.c", "w") as out:
    print("const unsigned char blob[] = {", file=out)
    while piece := file.read(4096):
        print("".join(f"0x{b:02x}," for b in piece), file=out)
    print("};", file=out)' "$2"
$CC -fPIC -c text.c -o text.o
$CC -shared -o "$3" "$1" text.o
"""
LIEF = r"""
$CC -shared -o stub.so "$1"
{python} -c 'import lief, sys
library = lief.ELF.parse("stub.so")
section = lief.ELF.Section(".blob")
section.content = memoryview(open(sys.argv[1], "rb").read())
library.add(section, True)
library.write(sys.argv[2])' "$2" "$3"
"""


@dataclass(frozen=True)
class Peer:
    """Another way.

    Attributes:
        script: of the shell.
        takes: what keeps it from more than `largest` MiB.
    """

    name: str
    script: str
    largest: int = sys.maxsize
    takes: str = ""


def peers(bench: Bench) -> tuple[list[Peer], list[str]]:
    """Those that work here, and a line for each that does not."""
    python = sys.executable
    clang = _clang_with_embed(bench)
    wanted = [
        (Peer(".incbin", INCBIN), "as"),
        (Peer("objcopy --add-section", OBJCOPY), "objcopy"),
        (Peer("ld -r -b binary", LD), "ld"),
        (
            Peer(
                "LIEF, add a section",
                LIEF.replace("{python}", python),
                64,
                "some ten bytes of memory a byte",
            ),
            None,
        ),
        (
            Peer(
                "clang, #embed",
                EMBED.replace("{clang}", clang or ""),
                64,
                "some twelve bytes of memory a byte",
            ),
            clang,
        ),
        (
            Peer(
                "bytes as C text, cc",
                TEXT.replace("{python}", python),
                1,
                "150 MB of memory and 1.3 s a MiB",
            ),
            None,
        ),
    ]
    found, missing = [], []
    for peer, tool in wanted:
        if peer.name.startswith("clang") and not clang:
            missing.append(
                "clang #embed was not measured: no clang here knows it (19 and later do)."
            )
        elif tool and not shutil.which(tool):
            missing.append(f"{peer.name} was not measured: there is no {tool}.")
        else:
            found.append(peer)
    return found, missing


def _clang_with_embed(bench: Bench) -> str | None:
    source = bench.path("embed_check.c")
    source.write_text('const unsigned char x[] = {\n#embed "embed_check.c"\n};\n')
    for name in ("clang", *(f"clang-{version}" for version in range(25, 18, -1))):
        words = [name, "-std=c23", "-fsyntax-only", "-Werror", str(source)]
        if (
            shutil.which(name)
            and not subprocess.run(words, capture_output=True, check=False).returncode
        ):
            return name
    return None


def run(bench: Bench) -> Section:
    """All peers at all sizes that suit them."""
    section = Section("Packing, beside others", INTRO)
    found, section.notes = peers(bench)
    with tvm_worker(bench, section.notes) as worker:
        for mib in bench.scale.peers:
            if not bench.room_for(4 * mib * MIB):
                section.notes.append(
                    f"{mib} MiB was not packed: there is no room for four of that in the folder."
                )
                continue
            section.rows += _rows(
                bench, [p for p in found if p.largest >= mib], worker, mib, section.notes
            )
    limited = [peer for peer in found if peer.largest < max(bench.scale.peers)]
    section.notes += [
        f"{peer.name}: up to {peer.largest} MiB; it takes {peer.takes}." for peer in limited
    ]
    return section


def _rows(
    bench: Bench, found: list[Peer], worker: Worker | None, mib: int, notes: list[str]
) -> list[Row]:
    payload, output = inputs.payload_file(bench, mib), bench.path("out.so")
    kernel = inputs.kernel_object(bench)
    compiler = os.environ.get("CC", "cc")
    cases: dict[str, Callable[[], Sample]] = {
        "cp": lambda: packing.copy(bench, payload, output),
        packing.DEFAULT: lambda: packing.build(bench, payload, output),
    }

    def script(peer: Peer) -> Callable[[], Sample]:
        words: list[str | Path] = [
            "sh",
            "-e",
            "-c",
            peer.script,
            peer.name,
            kernel,
            payload,
            output,
        ]
        return lambda: command(bench, words, CC=compiler)

    cases.update((peer.name, script(peer)) for peer in found)
    if worker and mib <= LARGEST_OF_TVM:
        cases[TVM] = lambda: worker.sample("export", payload=payload, output=output)
    written = [output, *map(bench.path, INTERMEDIATE)]
    for name in list(cases):  # those that fail are left out by name
        cleared(*written)
        try:
            cases[name]()
            _check(output, mib)
        except Missing as error:
            if name in ("cp", packing.DEFAULT):
                raise
            del cases[name]
            notes.append(f"{name} at {mib} MiB was not measured: {error}.")
    bench.say(f"{len(cases)} ways to embed {mib} MiB")
    taken = alternate(cases, min(3, bench.rounds(mib)), lambda: cleared(*written))
    cleared(payload, *written)
    return [Row(name, mib, "cp", taken[name], taken["cp"]) for name in cases if name != "cp"]


def _check(output: Path, mib: int) -> None:
    """Check that the written file has room for the payload."""
    if not output.exists() or output.stat().st_size < mib * MIB:
        raise Missing("it wrote less than the payload")
