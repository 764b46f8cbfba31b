"""Relocations that dynamic linkers follow: their names and numbers, of each machine's psABI, and what
they mean.

The C runtime has the same table in csrc/src/elf/relocation_types.h, with the names of <elf.h>.
"""

from __future__ import annotations

# What glibc does. SLOT: an address in a word that linkers made for it. RESOLVER: what a function
# returns. MODULE: the number of a module, in front of the word of an OFFSET in its block; TLS_PLACE:
# a place relative to the thread; DESCRIPTOR: the same in two words.
NONE, RELATIVE, ADDRESS, SLOT, RESOLVER, COPY, MODULE, OFFSET, TLS_PLACE, DESCRIPTOR, UNKNOWN = (
    range(11)
)
PART_1, PART_2, PART_4, PART_8 = range(11, 15)  # an address, or a distance to one, in so many bytes
SIZE, SIZE_4 = range(15, 17)  # a symbol's st_size in a word, or in 4 bytes of one

# By machine and bits: what its names start with, and each by the rest.
TABLE: dict[tuple[str, int], tuple[str, dict[str, tuple[int, int]]]] = {
    ("x86_64", 64): ("R_X86_64_", {
        "NONE": (0, NONE), "RELATIVE": (8, RELATIVE), "64": (1, ADDRESS), "GLOB_DAT": (6, SLOT),
        "JUMP_SLOT": (7, SLOT), "IRELATIVE": (37, RESOLVER), "COPY": (5, COPY), "DTPMOD64": (16, MODULE),
        "DTPOFF64": (17, OFFSET), "TPOFF64": (18, TLS_PLACE), "TLSDESC": (36, DESCRIPTOR), "SIZE32": (32, SIZE_4),
        "SIZE64": (33, SIZE),
    }),
    ("aarch64", 64): ("R_AARCH64_", {
        "NONE": (0, NONE), "RELATIVE": (1027, RELATIVE), "ABS64": (257, ADDRESS), "GLOB_DAT": (1025, SLOT),
        "JUMP_SLOT": (1026, SLOT), "IRELATIVE": (1032, RESOLVER), "COPY": (1024, COPY), "TLS_DTPMOD": (1028, MODULE),
        "TLS_DTPREL": (1029, OFFSET), "TLS_TPREL": (1030, TLS_PLACE), "TLSDESC": (1031, DESCRIPTOR),
    }),
    ("i386", 32): ("R_386_", {
        "NONE": (0, NONE), "RELATIVE": (8, RELATIVE), "32": (1, ADDRESS), "PC32": (2, PART_4), "GLOB_DAT": (6, SLOT),
        "JMP_SLOT": (7, SLOT), "IRELATIVE": (42, RESOLVER), "COPY": (5, COPY), "TLS_DTPMOD32": (35, MODULE),
        "TLS_DTPOFF32": (36, OFFSET), "TLS_TPOFF": (14, TLS_PLACE), "TLS_TPOFF32": (37, TLS_PLACE),
        "TLS_DESC": (41, DESCRIPTOR), "SIZE32": (38, SIZE),
    }),
    ("arm", 32): ("R_ARM_", {
        "NONE": (0, NONE), "RELATIVE": (23, RELATIVE), "ABS32": (2, ADDRESS), "PC24": (1, PART_4), "REL32": (3, PART_4),
        "GLOB_DAT": (21, SLOT), "JUMP_SLOT": (22, SLOT), "IRELATIVE": (160, RESOLVER), "COPY": (20, COPY),
        "TLS_DTPMOD32": (17, MODULE), "TLS_DTPOFF32": (18, OFFSET), "TLS_TPOFF32": (19, TLS_PLACE),
        "TLS_DESC": (13, DESCRIPTOR),
    }),
    ("riscv", 64): ("R_RISCV_", {
        "NONE": (0, NONE), "RELATIVE": (3, RELATIVE), "64": (2, ADDRESS), "32": (1, PART_4), "JUMP_SLOT": (5, SLOT),
        "IRELATIVE": (58, RESOLVER), "COPY": (4, COPY), "TLS_DTPMOD64": (7, MODULE), "TLS_DTPREL64": (9, OFFSET),
        "TLS_TPREL64": (11, TLS_PLACE), "TLSDESC": (12, DESCRIPTOR),
    }),
    ("s390x", 64): ("R_390_", {
        "NONE": (0, NONE), "RELATIVE": (12, RELATIVE), "64": (22, ADDRESS), "8": (1, PART_1), "16": (3, PART_2),
        "32": (4, PART_4), "PC32": (5, PART_4), "PC16": (16, PART_2), "PC16DBL": (17, PART_2), "PC32DBL": (19, PART_4),
        "PC64": (23, PART_8), "GLOB_DAT": (10, SLOT), "JMP_SLOT": (11, SLOT), "IRELATIVE": (61, RESOLVER),
        "COPY": (9, COPY), "TLS_DTPMOD": (54, MODULE), "TLS_DTPOFF": (55, OFFSET), "TLS_TPOFF": (56, TLS_PLACE),
    }),
}  # fmt: skip
MEANINGS = {machine: dict(rows.values()) for machine, (_, rows) in TABLE.items()}


def number(machine: tuple[str, int], name: str) -> int:
    """The number of a type, by its name without what all names of the machine start with."""
    return TABLE[machine][1][name][0]
