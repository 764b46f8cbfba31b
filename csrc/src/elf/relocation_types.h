/* relocation_types.h - the types of relocations that dynamic linkers follow, on each machine. */
#ifndef ELF_RELOCATION_TYPES_H
#define ELF_RELOCATION_TYPES_H
#include "elf/elf_internal.h"
#include "elf/relocation_numbers.h"

#if __SIZEOF_POINTER__ == 8
#define R_SYM(info) ((info) >> 32)
#define R_TYPE(info) ((info) & 0xFFFFFFFF)
#else
#define R_SYM(info) ((info) >> 8)
#define R_TYPE(info) ((info) & 0xFF)
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

/* True where an addend of a JUMP_SLOT is ignored: musl adds it. */
#if defined(__x86_64__) && defined(__GLIBC__)
#define HAS_MARKED_PLT true
#else
#define HAS_MARKED_PLT false
#endif

#if defined(__x86_64__)
#define RELOCATIONS MB_RELOCATIONS_X86_64_64
#elif defined(__aarch64__)
#define RELOCATIONS MB_RELOCATIONS_AARCH64_64
#elif defined(__i386__)
#define RELOCATIONS MB_RELOCATIONS_I386_32
#elif defined(__arm__)
#define RELOCATIONS MB_RELOCATIONS_ARM_32
#elif defined(__riscv) && __riscv_xlen == 64
#define RELOCATIONS MB_RELOCATIONS_RISCV_64
#elif defined(__s390x__)
#define RELOCATIONS MB_RELOCATIONS_S390X_64
#else
#define RELOCATIONS(ROW)
#endif

/* What glibc's dynamic linker follows. */
static inline enum meaning meaning_of(uint64_t type) {
#define ROW(meaning, number) \
  case number: return meaning;
  switch (type) {
    case 0: return NONE; RELOCATIONS(ROW)
    default: return UNKNOWN;
  }
#undef ROW
}

/* The bytes that belong to it: with the number of a module the offset, which has a relocation of
 * its own or is there. */
static inline uint64_t size_of_meaning(enum meaning meaning) {
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
