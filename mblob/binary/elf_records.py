"""Structures and numbers of ELF files, by the names of the standard (System V gABI, chapters 4 and
5)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache

from mblob.bytes.record import Record
from mblob.named_tuple import NamedTuple

EM_S390, EM_ARM, EM_X86_64, EM_AARCH64, EM_CUDA, EM_AMDGPU, EM_RISCV = (
    22,
    40,
    62,
    183,
    190,
    224,
    243,
)
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_PHDR, PT_GNU_EH_FRAME, PT_GNU_STACK = (
    1,
    2,
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
SHT_RELA, SHT_REL, SHF_GROUP, SHF_COMPRESSED = 4, 9, 0x200, 0x800
# Names of DWARF's sections begin so: those of the standard, compressed by GNU's tools before SHF_COMPRESSED, and
# those that wait in an object for link-time optimization (gcc).
DEBUG_PREFIXES = (".debug_", ".zdebug_", ".gnu.debuglto_.debug_")
SHT_INIT_ARRAY, SHT_FINI_ARRAY = 14, 15
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
DF_SYMBOLIC, DF_TEXTREL = 0x2, 0x4
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
DT_RELRSZ, DT_RELR, DT_RELRENT, DT_DEBUG = 35, 36, 37, 21
DT_FLAGS_1, DF_1_NODELETE, DF_1_PIE = 0x6FFFFFFB, 0x00000008, 0x08000000
DT_TLSDESC_PLT, DT_TLSDESC_GOT = 0x6FFFFEF6, 0x6FFFFEF7
DT_INIT, DT_FINI, DT_RELAENT, DT_RELENT, DT_INIT_ARRAY, DT_FINI_ARRAY = 12, 13, 9, 19, 25, 26
DT_INIT_ARRAYSZ, DT_FINI_ARRAYSZ = 27, 28
DT_RELACOUNT, DT_RELCOUNT = 0x6FFFFFF9, 0x6FFFFFFA
PT_TLS, PT_GNU_PROPERTY, PT_GNU_RELRO = 7, 0x6474E553, 0x6474E552
# Tables of Android's linkers.
DT_ANDROID_REL, DT_ANDROID_RELSZ, DT_ANDROID_RELA, DT_ANDROID_RELASZ = range(0x6000000F, 0x60000013)
DT_ANDROID_RELR, DT_ANDROID_RELRSZ = 0x6FFFE000, 0x6FFFE001
# Tags of tables with that of their size in bytes.
SIZE_TAGS = {
    DT_INIT_ARRAY: DT_INIT_ARRAYSZ,
    DT_FINI_ARRAY: DT_FINI_ARRAYSZ,
    DT_JMPREL: DT_PLTRELSZ,
    DT_RELA: DT_RELASZ,
    DT_REL: DT_RELSZ,
    DT_RELR: DT_RELRSZ,
}
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
STV_DEFAULT, STV_INTERNAL, STV_HIDDEN, STV_PROTECTED = range(4)
STT_FILE = 4
MAX_PAGE = 1 << 16  # bytes; the largest page of any Linux machine
PAGES = {EM_X86_64: 1 << 12}  # by machine, the largest where it is another
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


class SectionHeader(NamedTuple):
    sh_name: int
    sh_type: int
    sh_flags: int = 0
    sh_addr: int = 0
    sh_offset: int = 0
    sh_size: int = 0
    sh_link: int = 0
    sh_info: int = 0
    sh_addralign: int = 0
    sh_entsize: int = 0


class Section(NamedTuple):
    """A section header with the text of its name."""

    name: str
    sh_type: int
    sh_flags: int
    sh_addr: int
    sh_offset: int
    sh_size: int
    sh_link: int
    sh_info: int
    sh_addralign: int
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
        return (  # of each symbol of large libraries: without calls
            self.st_shndx != SHN_UNDEF
            and self.st_info >> 4 in (STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE)
            and self.st_other & 3 in (STV_DEFAULT, STV_PROTECTED)
        )


def global_symbol(
    name: str, value: int, section: int, *, function: bool, weak: bool = False
) -> Symbol:
    """A symbol of another format, in ELF's terms."""
    binding, kind = STB_WEAK if weak else STB_GLOBAL, STT_FUNC if function else STT_OBJECT
    info = binding << 4 | kind
    return Symbol(name, value, 0, info, st_other=0, st_shndx=section, offset=0)


class SymbolTable(NamedTuple):
    """The place of a symbol table and its strings in the file."""

    offset: int
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    strings: int
    strings_size: int


# -- layout ----------------------------------------------------------------------------------------

E_IDENT = (
    "e_ident[EI_MAG] 4s, e_ident[EI_CLASS] B, e_ident[EI_DATA] B, e_ident[EI_VERSION] B,"
    "e_ident[EI_OSABI] B, e_ident[EI_ABIVERSION] B, e_ident[EI_PAD] 7s"
)
IDENT = Record(E_IDENT)


class ElfLayout:
    """The records of ELF files of one class and byte order: System V gABI, chapters 4 and 5; Linux
    Standard Base for versions and unwind tables.

    Attributes:
        word_code: of `struct`, for a word.
        hash_32, hash_64: what starts a table of DT_HASH; the words behind are as large as its own.
        symbol_shift, type_mask: how r_info holds the number of the symbol and the type.
    """

    def __init__(self, bits: int, byte_order: str) -> None:
        def record(fields: str) -> Record:
            return Record(fields, byte_order, bits)

        wide = bits == 64
        self.byte_order, self.word_code = byte_order, "Q" if wide else "I"
        self.symbol_shift, self.type_mask = (32, 0xFFFFFFFF) if wide else (8, 0xFF)
        self.ehdr = record(
            f"{E_IDENT}, e_type H, e_machine H, e_version I, e_entry N, e_phoff N, e_shoff N,"
            "e_flags I, e_ehsize H, e_phentsize H, e_phnum H, e_shentsize H, e_shnum H, e_shstrndx H"
        )
        self.phdr = record(
            "p_type I, p_flags I, p_offset N, p_vaddr N, p_paddr N, p_filesz N, p_memsz N, p_align N"
            if wide
            else "p_type I, p_offset N, p_vaddr N, p_paddr N, p_filesz N, p_memsz N, p_flags I,"
            "p_align N"
        )
        self.shdr = record(",".join(map(" ".join, zip(SectionHeader._fields, "IINNNNIINN"))))
        self.sym = record(
            "st_name I, st_info B, st_other B, st_shndx H, st_value N, st_size N"
            if wide
            else "st_name I, st_value N, st_size N, st_info B, st_other B, st_shndx H"
        )
        self.rel = record("r_offset N, r_info N")
        self.rela = record("r_offset N, r_info N, r_addend n")
        self.word = record("word N")  # of DT_RELR, of arrays of functions, of data
        self.dyn = record("d_tag N, d_val N")
        self.nhdr = record("n_namesz I, n_descsz I, n_type I")
        self.property = record("pr_type I, pr_datasz I")
        self.chdr = record(
            "ch_type I, ch_reserved I, ch_size N, ch_addralign N"
            if wide
            else "ch_type I, ch_size N, ch_addralign N"
        )
        self.hash_32 = record("nbucket I, nchain I")
        self.hash_64 = record("nbucket Q, nchain Q")
        self._add_extensions(record)

    def _add_extensions(self, record: Callable[[str], Record]) -> None:
        """Records of GNU's, which the Linux Standard Base has."""
        self.versym = record("vs_index H")
        self.verneed = record("vn_version H, vn_cnt H, vn_file I, vn_aux I, vn_next I")
        self.vernaux = record("vna_hash I, vna_flags H, vna_other H, vna_name I, vna_next I")
        self.verdef = record(
            "vd_version H, vd_flags H, vd_ndx H, vd_cnt H, vd_hash I, vd_aux I, vd_next I"
        )
        self.verdaux = record("vda_name I, vda_next I")
        self.gnu_hash = record("nbuckets I, symoffset I, bloom_size I, bloom_shift I")
        self.eh_frame_hdr = record("version and encodings 4s, eh_frame_ptr i, fde_count I")
        self.eh_frame_row = record("initial_location i, fde i")

    def numbers(self, code: str, values: Iterable[int]) -> bytes:
        """Numbers of one `struct` code, one behind the other; `N` is a word."""
        made = tuple(values)
        code = self.word_code if code == "N" else code
        return struct.pack(f"{self.byte_order}{len(made)}{code}", *made)


@lru_cache
def layout_of(bits: int, byte_order: str) -> ElfLayout:
    return ElfLayout(bits, byte_order)
