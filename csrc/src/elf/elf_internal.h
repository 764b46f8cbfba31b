/* elf_internal.h - what the files of the ELF reader share. */
#ifndef MB_ELF_INSIDE_H
#define MB_ELF_INSIDE_H

#include "elf/elf.h"

typedef unsigned long long ull; /* what printf takes for 64 bits */

/* What the <elf.h> of glibc 2.31 lacks (Debian 11), or one of another libc. */
#ifndef PT_GNU_PROPERTY /* 2.32 */
#define PT_GNU_PROPERTY 0x6474e553
#endif
#ifndef DT_RELR /* 2.36 */
#define DT_RELRSZ 35
#define DT_RELR 36
#define DT_RELRENT 37
#endif
#ifndef DT_TLSDESC_PLT
#define DT_TLSDESC_PLT 0x6ffffef6
#define DT_TLSDESC_GOT 0x6ffffef7
#endif
#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000
#endif

/* Bytes of one name that the dynamic linker follows, and of all together: it copies them onto
 * the stack. */
#define MB_ELF_NAME_LIMIT (1u << 16)
#define MB_ELF_NAMES_LIMIT (1u << 18)

/* notes.c: check the notes that the dynamic linker reads. */
int mb_elf_check_notes(const struct mb_elf *elf);

/* dynamic.c: the dynamic section and the tables it points to. */
int mb_elf_read_dynamic(struct mb_elf *elf);

/* Records MBLOB_E_FORMAT "elf_dynamic". */
int mb_elf_bad(const char *format, ...) MB_PRINTF(1, 2);

/* Machines whose functions have the address of their code (others: of a descriptor), and whose
 * relocations relocations.c knows by their types. */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) || \
    defined(__s390x__) || (defined(__riscv) && __riscv_xlen == 64)
#define MB_ELF_FUNCTIONS_ARE_CODE true
#else
#define MB_ELF_FUNCTIONS_ARE_CODE false
#endif

/* Words at DT_PLTGOT in front of the slots of calls, which are the dynamic linker's own; 0: not
 * known. */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) || \
    defined(__s390x__)
#define MB_ELF_RESERVED_SLOTS 3
#elif defined(__riscv)
#define MB_ELF_RESERVED_SLOTS 2
#else
#define MB_ELF_RESERVED_SLOTS 0
#endif

/* hash.c: how many symbols there are, according to the hash table at `vaddr`; checks the whole
 * table. */
int mb_elf_sysv_hash(struct mb_elf *elf, uint64_t vaddr, uint64_t *count);
int mb_elf_gnu_hash(struct mb_elf *elf, uint64_t vaddr, uint64_t *count);
/* Check that each exported symbol is found through the hash tables. */
int mb_elf_check_hashes(const struct mb_elf *elf);

/* relocations.c, versions.c */
/* Also finds the variables that a loader fills, which no linker reads or writes as words of its
 * own. */
int mb_elf_check_relocations(struct mb_elf *elf);
/* Check the tables of versions, and find those of symbols. */
int mb_elf_check_versions(struct mb_elf *elf);

/* The version of symbol `i`, and whether it is there. */
#define MB_ELF_HIDDEN 0x8000u /* of a version: not the default one of its name */
unsigned mb_elf_version(const struct mb_elf *elf, uint64_t i);
int mb_elf_check_version(const struct mb_elf *elf, uint64_t i);

#endif
