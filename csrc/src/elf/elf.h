/* elf.h - the ELF file under a library, read before the dynamic linker sees it.
 *
 * Only files of this machine: another class, byte order or machine is MBLOB_E_INCOMPATIBLE. Every table is
 * checked against the file before it is read. Names are the gABI's. */
#ifndef MB_ELF_FILE_H
#define MB_ELF_FILE_H

#include <elf.h>
#include <link.h>
#include <mblob.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/error.h"
#include "entry/host_symbols.h"

typedef unsigned long long ull; /* what printf takes for 64 bits */

/* What the <elf.h> of glibc 2.31 lacks (Debian 11), or one of another libc. */
#ifndef PT_GNU_PROPERTY /* 2.32 */
#define PT_GNU_PROPERTY 0x6474e553
#endif
#ifndef R_RISCV_IRELATIVE /* 2.34 */
#define R_RISCV_IRELATIVE 58
#endif
#ifndef DT_RELR /* 2.36 */
#define DT_RELRSZ 35
#define DT_RELR 36
#define DT_RELRENT 37
#endif
#ifndef R_RISCV_TLSDESC /* 2.40 */
#define R_RISCV_TLSDESC 12
#endif
#ifndef DT_TLSDESC_PLT
#define DT_TLSDESC_PLT 0x6ffffef6
#define DT_TLSDESC_GOT 0x6ffffef7
#endif
#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000
#endif

struct mb_range {
  uint64_t start, size; /* addresses */
};

struct mb_elf {
  const uint8_t *data; /* the whole file */
  uint64_t size;
  ElfW(Ehdr) header;
  const uint8_t *segments; /* e_phnum program headers, maybe unaligned */
  /* dynamic section; counts 0 where there is none */
  const uint8_t *dynamic;
  uint64_t dynamic_count;
  const uint8_t *symbols;
  uint64_t symbol_count; /* 0 or 1 where nothing is exported: then undefined ones are not counted */
  uint64_t symbol_limit; /* how many the segment could hold */
  const uint8_t *versions; /* of symbols, NULL without */
  uint64_t version_count;  /* how many the segment holds */
  unsigned highest_version;
  const char *strings;
  uint64_t strings_size;
  ElfW(Phdr) tls; /* p_memsz 0: no thread-local storage */
  uint64_t hash_size, gnu_hash_size; /* bytes of the tables */
  struct mb_range tables[24];        /* headers, and what else the dynamic linker reads as tables */
  unsigned table_count;
  uint64_t slots[MB_SLOTS_AND_CONTEXTS]; /* addresses of the variables that a loader fills, 0: it has none of that name */
  struct mb_range slots_range;           /* around all of them */
  bool needs_origin; /* a search path or the name of a needed library has $ORIGIN */
};

/* Check `size` bytes at `data` and fill `out`, which points into them. */
int mb_elf_read(const uint8_t *data, uint64_t size, struct mb_elf *out);
ElfW(Phdr) mb_elf_segment(const struct mb_elf *elf, unsigned i);
/* Section header number `i`; false behind the last one, and in a file without. No loader needs them. */
bool mb_elf_section(const struct mb_elf *elf, unsigned i, ElfW(Shdr) * out);
/* File offset of `size` bytes at `vaddr`, if one loaded segment has all of them in the file. */
bool mb_elf_offset(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint64_t *offset);
/* How many bytes of the file there are from `vaddr` to the end of its segment. */
uint64_t mb_elf_bytes_from(const struct mb_elf *elf, uint64_t vaddr);
/* Whether `size` bytes at `vaddr` lie in one loaded segment with all of `flags` (PF_*). */
bool mb_elf_is_loaded(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint32_t flags);
/* Whether `size` bytes at `vaddr` touch a header or a table: no code starts there, and no relocation changes it. */
bool mb_elf_in_tables(const struct mb_elf *elf, uint64_t vaddr, uint64_t size);
bool mb_elf_is_code(const struct mb_elf *elf, uint64_t vaddr);
/* Whether the page of `vaddr` is write-protected after loading (PT_GNU_RELRO, rounded as glibc does). */
bool mb_elf_becomes_read_only(const struct mb_elf *elf, uint64_t vaddr);

ElfW(Sym) mb_elf_symbol(const struct mb_elf *elf, uint64_t i);
/* Whether the dynamic linker can take symbol `i` for what it says. Where the hash table does not count undefined ones, the
 * relocations that name them tell. */
int mb_elf_check_symbol(const struct mb_elf *elf, uint64_t i);
/* Its name, "" if it is out of bounds or not terminated. */
const char *mb_elf_symbol_name(const struct mb_elf *elf, const ElfW(Sym) * symbol);
/* Defined and visible to other objects. */
bool mb_elf_is_exported(const ElfW(Sym) * symbol);
/* The exported symbol `name`. */
bool mb_elf_find(const struct mb_elf *elf, const char *name, ElfW(Sym) * out);
/* The bytes of an object in the file; MBLOB_E_FORMAT "elf_dynamic" if they are not all there. */
int mb_elf_object(const struct mb_elf *elf, const ElfW(Sym) * symbol, const char *name, struct mb_slice *out);

/* notes.c: check the notes that the dynamic linker reads. */
int mb_elf_check_notes(const struct mb_elf *elf);
/* What the notes of mblob in a library say together; nothing without one. */
struct mb_announced {
  uint32_t flags;
  uint32_t table_crc; /* CRC-32 of the table of functions, with MB_NOTE_HAS_TABLE */
};
#define MB_NOTE_HAS_INDEX 1u
#define MB_NOTE_HAS_TABLE 2u
struct mb_announced mb_elf_announced(const struct mb_elf *elf);

/* Bytes of one name that the dynamic linker follows, and of all together: it copies them onto the stack. */
#define MB_ELF_NAME_LIMIT (1u << 16)
#define MB_ELF_NAMES_LIMIT (1u << 18)
/* dynamic.c: the dynamic section and the tables it points to. */
/* Whether relocations may write into segments that are read-only; whether all symbols are bound when the library is opened. */
bool mb_elf_relocates_text(const struct mb_elf *elf);
bool mb_elf_binds_at_once(const struct mb_elf *elf);
int mb_elf_read_dynamic(struct mb_elf *elf);
/* Bytes of "$NAME" or "${NAME}" at `text`, for which the dynamic linker puts another text; 0: there is none. */
size_t mb_elf_token(const char *text, const char *name);
ElfW(Dyn) mb_elf_tag_at(const struct mb_elf *elf, uint64_t i);
bool mb_elf_tag(const struct mb_elf *elf, int64_t tag, uint64_t *value);
uint64_t mb_elf_tag_or_zero(const struct mb_elf *elf, int64_t tag);
/* Records MBLOB_E_FORMAT "elf_dynamic". */
int mb_elf_bad(const char *format, ...) MB_PRINTF(1, 2);

/* Machines whose functions have the address of their code (others: of a descriptor), and whose relocations
 * relocations.c knows by their types. */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) || defined(__s390x__) || \
    (defined(__riscv) && __riscv_xlen == 64)
#define MB_ELF_FUNCTIONS_ARE_CODE true
#else
#define MB_ELF_FUNCTIONS_ARE_CODE false
#endif

/* Words at DT_PLTGOT in front of the slots of calls, which are the dynamic linker's own; 0: not known. */
#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) || defined(__s390x__)
#define MB_ELF_RESERVED_SLOTS 3
#elif defined(__riscv)
#define MB_ELF_RESERVED_SLOTS 2
#else
#define MB_ELF_RESERVED_SLOTS 0
#endif

/* hash.c: how many symbols there are, according to the hash table at `vaddr`; checks the whole table. */
int mb_elf_sysv_hash(struct mb_elf *elf, uint64_t vaddr, uint64_t *count);
int mb_elf_gnu_hash(struct mb_elf *elf, uint64_t vaddr, uint64_t *count);
/* Whether each exported symbol is found through the hash tables. */
int mb_elf_check_hashes(const struct mb_elf *elf);

/* relocations.c, versions.c */
/* Also finds the variables that a loader fills, which no linker reads or writes as words of its own. */
int mb_elf_check_relocations(struct mb_elf *elf);
/* One more than the highest symbol that a relocation names. */
uint64_t mb_elf_symbols_used(const struct mb_elf *elf);
/* Check the tables of versions, and find those of symbols. */
int mb_elf_check_versions(struct mb_elf *elf);
/* Whether the library needs versions of a file that `of` is true for. */
bool mb_elf_needs_versions(const struct mb_elf *elf, bool (*of)(const char *file));
/* The version of symbol `i`, and whether it is there. */
#define MB_ELF_HIDDEN 0x8000u /* of a version: not the default one of its name */
unsigned mb_elf_version(const struct mb_elf *elf, uint64_t i);
int mb_elf_check_version(const struct mb_elf *elf, uint64_t i);

#endif
