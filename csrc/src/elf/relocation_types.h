/* relocation_types.h - the types of relocations that dynamic linkers follow, on each machine. */
#ifndef ELF_RELOCATION_TYPES_H
#define ELF_RELOCATION_TYPES_H
#include "elf/inside.h"

#if __SIZEOF_POINTER__ == 8
#define R_SYM(info) ((info) >> 32)
#define R_TYPE(info) ((info) & 0xFFFFFFFF)
#else
#define R_SYM(info) ((info) >> 8)
#define R_TYPE(info) ((info) & 0xFF)
#endif

/* musl's <elf.h> has not all of them. */
#ifndef R_AARCH64_IRELATIVE
#define R_AARCH64_IRELATIVE 1032
#endif
#ifndef R_390_IRELATIVE
#define R_390_IRELATIVE 61
#endif

/* Types by what they mean. MODULE: the number of a module, in front of the word of an OFFSET in
 * its block; TLS_PLACE: a place relative to the thread, for which the module must have such
 * storage; DESCRIPTOR: the same in two words. PART_n: an address, or a distance to one, in n
 * bytes. SIZE: a symbol's st_size in a word, SIZE_4 in 4 bytes of one. */
enum meaning {
  UNKNOWN,
  NONE,
  RELATIVE,
  ADDRESS,
  PART_1,
  PART_2,
  PART_4,
  PART_8,
  SLOT,
  RESOLVER,
  COPY,
  MODULE,
  OFFSET,
  TLS_PLACE,
  DESCRIPTOR,
  SIZE,
  SIZE_4
};

/* Whether an addend of a JUMP_SLOT is ignored: musl adds it. */
#if defined(__x86_64__) && defined(__GLIBC__)
#define HAS_MARKED_PLT true
#else
#define HAS_MARKED_PLT false
#endif

/* What glibc's dynamic linker follows; the numbers are each machine's psABI. */
static inline enum meaning meaning_of(uint64_t type) {
  switch (type) {
    case 0: return NONE;
#if defined(__x86_64__)
    case R_X86_64_RELATIVE: return RELATIVE;
    case R_X86_64_64: return ADDRESS;
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT: return SLOT;
    case R_X86_64_IRELATIVE: return RESOLVER;
    case R_X86_64_COPY: return COPY;
    case R_X86_64_DTPMOD64: return MODULE;
    case R_X86_64_DTPOFF64: return OFFSET;
    case R_X86_64_TPOFF64: return TLS_PLACE;
    case R_X86_64_TLSDESC: return DESCRIPTOR;
    case R_X86_64_SIZE32: return SIZE_4;
    case R_X86_64_SIZE64: return SIZE;
#elif defined(__aarch64__)
    case R_AARCH64_RELATIVE: return RELATIVE;
    case R_AARCH64_ABS64: return ADDRESS;
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_JUMP_SLOT: return SLOT;
    case R_AARCH64_IRELATIVE: return RESOLVER;
    case R_AARCH64_COPY: return COPY;
    case R_AARCH64_TLS_DTPMOD: return MODULE;
    case R_AARCH64_TLS_DTPREL: return OFFSET;
    case R_AARCH64_TLS_TPREL: return TLS_PLACE;
    case R_AARCH64_TLSDESC: return DESCRIPTOR;
#elif defined(__i386__)
    case R_386_RELATIVE: return RELATIVE;
    case R_386_32: return ADDRESS;
    case R_386_PC32: return PART_4;
    case R_386_GLOB_DAT:
    case R_386_JMP_SLOT: return SLOT;
    case R_386_IRELATIVE: return RESOLVER;
    case R_386_COPY: return COPY;
    case R_386_TLS_DTPMOD32: return MODULE;
    case R_386_TLS_DTPOFF32: return OFFSET;
    case R_386_TLS_TPOFF:
    case R_386_TLS_TPOFF32: return TLS_PLACE;
    case R_386_TLS_DESC: return DESCRIPTOR;
    case R_386_SIZE32: return SIZE;
#elif defined(__arm__)
    case R_ARM_RELATIVE: return RELATIVE;
    case R_ARM_ABS32: return ADDRESS;
    case R_ARM_REL32:
    case R_ARM_PC24: return PART_4;
    case R_ARM_GLOB_DAT:
    case R_ARM_JUMP_SLOT: return SLOT;
    case R_ARM_IRELATIVE: return RESOLVER;
    case R_ARM_COPY: return COPY;
    case R_ARM_TLS_DTPMOD32: return MODULE;
    case R_ARM_TLS_DTPOFF32: return OFFSET;
    case R_ARM_TLS_TPOFF32: return TLS_PLACE;
    case R_ARM_TLS_DESC: return DESCRIPTOR;
#elif defined(__riscv) && __riscv_xlen == 64
    case R_RISCV_RELATIVE: return RELATIVE;
    case R_RISCV_64: return ADDRESS;
    case R_RISCV_32: return PART_4;
    case R_RISCV_JUMP_SLOT: return SLOT;
    case R_RISCV_IRELATIVE: return RESOLVER;
    case R_RISCV_COPY: return COPY;
    case R_RISCV_TLS_DTPMOD64: return MODULE;
    case R_RISCV_TLS_DTPREL64: return OFFSET;
    case R_RISCV_TLS_TPREL64: return TLS_PLACE;
    case R_RISCV_TLSDESC: return DESCRIPTOR;
#elif defined(__s390x__)
    case R_390_RELATIVE: return RELATIVE;
    case R_390_64: return ADDRESS;
    case R_390_8: return PART_1;
    case R_390_16:
    case R_390_PC16:
    case R_390_PC16DBL: return PART_2;
    case R_390_32:
    case R_390_PC32:
    case R_390_PC32DBL: return PART_4;
    case R_390_PC64: return PART_8;
    case R_390_GLOB_DAT:
    case R_390_JMP_SLOT: return SLOT;
    case R_390_IRELATIVE: return RESOLVER;
    case R_390_COPY: return COPY;
    case R_390_TLS_DTPMOD: return MODULE;
    case R_390_TLS_DTPOFF: return OFFSET;
    case R_390_TLS_TPOFF: return TLS_PLACE;
#endif
    default: return UNKNOWN;
  }
}

/* The bytes that belong to it: with the number of a module the offset, which has a relocation of
 * its own or is there. */
static inline uint64_t size_of(enum meaning meaning) {
  switch (meaning) {
    case PART_1: return 1;
    case PART_2: return 2;
    case PART_4:
    case SIZE_4: return 4;
    case PART_8: return 8;
    case MODULE:
    case DESCRIPTOR: return 2 * sizeof(ElfW(Addr));
    case UNKNOWN:
    case NONE:
    case RELATIVE:
    case ADDRESS:
    case SLOT:
    case RESOLVER:
    case COPY:
    case OFFSET:
    case TLS_PLACE:
    case SIZE: break;
  }
  return sizeof(ElfW(Addr));
}

#endif
