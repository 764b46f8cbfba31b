"""Structures and numbers of ELF files, by the names of the standard (System V gABI, chapters 4 and
5)."""

from __future__ import annotations

from typing import NamedTuple

EM_MIPS, EM_S390, EM_X86_64 = 8, 22, 62
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR, PT_GNU_EH_FRAME, PT_GNU_STACK = (
    1,
    2,
    3,
    4,
    6,
    0x6474E550,
    0x6474E551,
)
PF_X, PF_W, PF_R = 1, 2, 4
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
SHT_NULL, SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM, SHT_GROUP = (
    0,
    1,
    2,
    3,
    7,
    8,
    11,
    17,
)
SHT_RELA, SHT_REL, SHF_COMPRESSED = 4, 9, 0x800
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_X86_64_LARGE, SHF_EXCLUDE = (
    0x1,
    0x2,
    0x4,
    0x400,
    0x10000000,
    0x80000000,
)
STT_COMMON = 5
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_GNU_HASH = (
    0,
    1,
    4,
    5,
    6,
    10,
    0x6FFFFEF5,
)
DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_TEXTREL, DT_RUNPATH, DT_FLAGS = 14, 15, 16, 22, 29, 30
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = (
    0x6FFFFFF0,
    *range(0x6FFFFFFC, 0x70000000),
)
DF_SYMBOLIC, DF_TEXTREL, DF_BIND_NOW = 0x2, 0x4, 0x8
DT_PLTRELSZ, DT_PLTGOT, DT_RELA, DT_RELASZ, DT_REL, DT_RELSZ, DT_PLTREL, DT_JMPREL = (
    2,
    3,
    7,
    8,
    17,
    18,
    20,
    23,
)
DT_RELRSZ, DT_RELR, DT_RELRENT, DT_SYMENT, DT_BIND_NOW, DT_DEBUG = 35, 36, 37, 11, 24, 21
DT_FLAGS_1, DF_1_PIE, DF_1_NOW, DF_1_NOOPEN = 0x6FFFFFFB, 0x08000000, 0x1, 0x40
DT_AUXILIARY, DT_FILTER, DT_AUDIT, DT_DEPAUDIT = 0x7FFFFFFD, 0x7FFFFFFF, 0x6FFFFEFC, 0x6FFFFEFB
DT_TLSDESC_PLT, DT_TLSDESC_GOT = 0x6FFFFEF6, 0x6FFFFEF7
DT_INIT, DT_FINI, DT_RELAENT, DT_RELENT, DT_INIT_ARRAY, DT_FINI_ARRAY, DT_PREINIT_ARRAY = (
    12,
    13,
    9,
    19,
    25,
    26,
    32,
)
DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ, DT_PREINIT_ARRAYSZ = 27, 28, 33
DT_RELACOUNT, DT_RELCOUNT = 0x6FFFFFF9, 0x6FFFFFFA
PT_TLS, PT_GNU_PROPERTY, PT_GNU_RELRO = 7, 0x6474E553, 0x6474E552
SHT_HASH, SHT_DYNAMIC, SHT_GNU_HASH, SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM = (
    5,
    6,
    0x6FFFFFF6,
    0x6FFFFFFD,
    0x6FFFFFFE,
    0x6FFFFFFF,
)
STB_LOCAL, STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE = 0, 1, 2, 10
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_SECTION, STT_TLS, STT_GNU_IFUNC = 0, 1, 2, 3, 6, 10
STV_DEFAULT, STV_HIDDEN, STV_PROTECTED = 0, 2, 3
STT_FILE = 4
HIDDEN = 0x8000  # of a version index: not the default one of its name
NT_GNU_BUILD_ID, NT_GNU_PROPERTY_TYPE_0 = 3, 5
PN_XNUM, SHN_XINDEX = 0xFFFF, 0xFFFF

ELF_KINDS = {ET_REL: "object", ET_EXEC: "executable", ET_DYN: "shared", 4: "core"}

MACHINES = {
    2: "sparc", 3: "i386", 4: "m68k", 8: "mips", 15: "parisc", 20: "ppc", 21: "ppc64", 22: "s390x", 40: "arm", 42: "sh",
    43: "sparc64", 62: "x86_64", 164: "hexagon", 183: "aarch64", 190: "cuda", 224: "amdgpu", 243: "riscv", 247: "bpf",
    258: "loongarch", 0x9026: "alpha",
}  # fmt: skip


class Segment(NamedTuple):
    p_type: int
    p_flags: int
    p_offset: int
    p_vaddr: int
    p_filesz: int
    p_memsz: int
    p_align: int


class Section(NamedTuple):
    name: str
    sh_type: int
    sh_flags: int
    sh_addr: int
    sh_offset: int
    sh_size: int
    sh_link: int
    sh_info: int
    sh_entsize: int


class Symbol(NamedTuple):
    """One symbol; `offset` is where its table entry lies in the file."""

    name: str
    st_value: int
    st_size: int
    st_info: int
    st_other: int
    st_shndx: int
    offset: int

    @property
    def binding(self) -> int:
        return self.st_info >> 4

    @property
    def type(self) -> int:
        return self.st_info & 15

    @property
    def is_defined(self) -> bool:
        return self.st_shndx != SHN_UNDEF

    @property
    def is_exported(self) -> bool:
        """Defined and visible to other objects (global or weak, default or protected)."""
        bound = self.binding in (STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE)
        return self.is_defined and bound and self.st_other & 3 in (STV_DEFAULT, STV_PROTECTED)


class SymbolTable(NamedTuple):
    """Where a symbol table and its strings lie in the file."""

    offset: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    strings: int
    strings_size: int
