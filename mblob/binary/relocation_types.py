"""The one table of relocations that dynamic linkers follow: what each type means, by machine.

The judge of ELF files reads it as `csrc/src/elf/relocation_numbers.h`, which `make
generate` makes from it. The packager moves
relocations of these types (`mblob.packager.join.relocations`).

`enum meaning` of `csrc/src/elf/relocation_types.h` explains the meanings. Names and numbers are those
of each machine's psABI; of several types with one meaning, compilers write the first.
"""

from __future__ import annotations

from mblob.named_tuple import NamedTuple
from mblob.texts import header_of


class Relocations(NamedTuple):
    """The relocations of a machine.

    Attributes:
        prefix: what the names in <elf.h> start with.
        types: by meaning, the names and numbers of the types.
    """

    prefix: str
    types: dict[str, dict[str, int]]


# By the machine's name and bits.
TABLE: dict[tuple[str, int], Relocations] = {
    ("x86_64", 64): Relocations("R_X86_64_", {
        "RELATIVE": {"RELATIVE": 8}, "ADDRESS": {"64": 1}, "SLOT": {"GLOB_DAT": 6, "JUMP_SLOT": 7},
        "RESOLVER": {"IRELATIVE": 37}, "COPY": {"COPY": 5}, "MODULE": {"DTPMOD64": 16},
        "OFFSET": {"DTPOFF64": 17}, "TLS_PLACE": {"TPOFF64": 18}, "DESCRIPTOR": {"TLSDESC": 36},
        "SIZE_4": {"SIZE32": 32}, "SIZE": {"SIZE64": 33},
    }),
    ("aarch64", 64): Relocations("R_AARCH64_", {
        "RELATIVE": {"RELATIVE": 1027}, "ADDRESS": {"ABS64": 257},
        "SLOT": {"GLOB_DAT": 1025, "JUMP_SLOT": 1026}, "RESOLVER": {"IRELATIVE": 1032},
        "COPY": {"COPY": 1024}, "MODULE": {"TLS_DTPMOD": 1028}, "OFFSET": {"TLS_DTPREL": 1029},
        "TLS_PLACE": {"TLS_TPREL": 1030}, "DESCRIPTOR": {"TLSDESC": 1031},
    }),
    ("i386", 32): Relocations("R_386_", {
        "RELATIVE": {"RELATIVE": 8}, "ADDRESS": {"32": 1}, "PART_4": {"PC32": 2},
        "SLOT": {"GLOB_DAT": 6, "JMP_SLOT": 7}, "RESOLVER": {"IRELATIVE": 42}, "COPY": {"COPY": 5},
        "MODULE": {"TLS_DTPMOD32": 35}, "OFFSET": {"TLS_DTPOFF32": 36},
        "TLS_PLACE": {"TLS_TPOFF": 14, "TLS_TPOFF32": 37}, "DESCRIPTOR": {"TLS_DESC": 41},
        "SIZE": {"SIZE32": 38},
    }),
    ("arm", 32): Relocations("R_ARM_", {
        "RELATIVE": {"RELATIVE": 23}, "ADDRESS": {"ABS32": 2}, "PART_4": {"REL32": 3, "PC24": 1},
        "SLOT": {"GLOB_DAT": 21, "JUMP_SLOT": 22}, "RESOLVER": {"IRELATIVE": 160},
        "COPY": {"COPY": 20}, "MODULE": {"TLS_DTPMOD32": 17}, "OFFSET": {"TLS_DTPOFF32": 18},
        "TLS_PLACE": {"TLS_TPOFF32": 19}, "DESCRIPTOR": {"TLS_DESC": 13},
    }),
    ("riscv", 64): Relocations("R_RISCV_", {
        "RELATIVE": {"RELATIVE": 3}, "ADDRESS": {"64": 2}, "PART_4": {"32": 1},
        "SLOT": {"JUMP_SLOT": 5}, "RESOLVER": {"IRELATIVE": 58}, "COPY": {"COPY": 4},
        "MODULE": {"TLS_DTPMOD64": 7}, "OFFSET": {"TLS_DTPREL64": 9}, "TLS_PLACE": {"TLS_TPREL64": 11},
        "DESCRIPTOR": {"TLSDESC": 12},
    }),
    ("s390x", 64): Relocations("R_390_", {
        "RELATIVE": {"RELATIVE": 12}, "ADDRESS": {"64": 22}, "PART_1": {"8": 1},
        "PART_2": {"16": 3, "PC16": 16, "PC16DBL": 17}, "PART_4": {"32": 4, "PC32": 5, "PC32DBL": 19},
        "PART_8": {"PC64": 23}, "SLOT": {"GLOB_DAT": 10, "JMP_SLOT": 11}, "RESOLVER": {"IRELATIVE": 61},
        "COPY": {"COPY": 9}, "MODULE": {"TLS_DTPMOD": 54}, "OFFSET": {"TLS_DTPOFF": 55},
        "TLS_PLACE": {"TLS_TPOFF": 56},
    }),
}  # fmt: skip


def header() -> str:
    """The text of `csrc/src/elf/relocation_numbers.h`."""
    found = {}
    for (machine, bits), (prefix, types) in TABLE.items():
        rows = [
            f"ROW({meaning}, {number}) /* {prefix}{name} */"
            for meaning, members in types.items()
            for name, number in members.items()
        ]
        found[f"MB_RELOCATIONS_{machine.upper()}_{bits}(ROW)"] = " \\\n  " + " \\\n  ".join(rows)
    title = "relocation_numbers.h - the types of relocations of each machine, by what they mean"
    return header_of(title, "mblob/binary/relocation_types.py", found)


if __name__ == "__main__":
    print(header(), end="")
