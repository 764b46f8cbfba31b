"""Numbers of relocations that joined code has in a finished library, of each machine's psABI.

What a dynamic linker does for each is in csrc/src/elf/relocation_types.h.
"""

from __future__ import annotations

# By machine and bits: what its names start with, and each by the rest.
TABLE: dict[tuple[str, int], tuple[str, dict[str, int]]] = {
    ("x86_64", 64): ("R_X86_64_", {
        "RELATIVE": 8, "GLOB_DAT": 6, "64": 1, "JUMP_SLOT": 7, "DTPMOD64": 16, "TPOFF64": 18, "DTPOFF64": 17,
        "TLSDESC": 36,
    }),
    ("aarch64", 64): ("R_AARCH64_", {
        "RELATIVE": 1027, "GLOB_DAT": 1025, "ABS64": 257, "JUMP_SLOT": 1026, "TLS_DTPMOD": 1028, "TLS_TPREL":
        1030, "TLS_DTPREL": 1029, "TLSDESC": 1031,
    }),
    ("i386", 32): ("R_386_", {
        "RELATIVE": 8, "GLOB_DAT": 6, "32": 1, "JMP_SLOT": 7, "TLS_DTPMOD32": 35, "TLS_TPOFF": 14,
        "TLS_DTPOFF32": 36, "TLS_DESC": 41,
    }),
    ("arm", 32): ("R_ARM_", {
        "RELATIVE": 23, "GLOB_DAT": 21, "ABS32": 2, "JUMP_SLOT": 22, "TLS_DTPMOD32": 17, "TLS_TPOFF32": 19,
        "TLS_DTPOFF32": 18, "TLS_DESC": 13,
    }),
    ("riscv", 64): ("R_RISCV_", {
        "RELATIVE": 3, "64": 2, "JUMP_SLOT": 5, "TLS_DTPMOD64": 7, "TLS_TPREL64": 11, "TLS_DTPREL64": 9,
    }),
    ("s390x", 64): ("R_390_", {
        "RELATIVE": 12, "GLOB_DAT": 10, "64": 22, "JMP_SLOT": 11, "TLS_DTPMOD": 54, "TLS_TPOFF": 56,
        "TLS_DTPOFF": 55,
    }),
}  # fmt: skip


def number(machine: tuple[str, int], name: str) -> int:
    """The number of a type, by its name without what all names of the machine start with."""
    return TABLE[machine][1][name]
