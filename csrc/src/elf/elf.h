/* elf.h - the ELF file under a library, judged before the dynamic linker sees it: the only judge,
 * which the Python package asks, too.
 *
 * Only files of this machine: another class, byte order or machine is MBLOB_E_INCOMPATIBLE
 * "elf_machine".
 * Every table is checked against the file before it is read. Names are the gABI's. */
#ifndef MB_ELF_H
#define MB_ELF_H

#include <elf.h>
#include <link.h>
#include <mblob.h>
#include <stdbool.h>

#include "base/base.h"

/* ---- slots (slots.c) ---------------------------------------------------------------------- */

/* Variables through which libraries reach the runtime: "__" and the name of a function, and
 * behind those, from number MB_SLOTS on, the one of their context, in the order of enum mb_dialect.
 * The classic ones are the same in TVM 0.5 - 0.20 (docs/format.md, section 9). */
#define MB_SLOTS 12
#define MB_SLOTS_AND_CONTEXTS (MB_SLOTS + 3)
const char *mb_slot_name(size_t i);

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
  ElfW(Phdr) tls;                    /* p_memsz 0: no thread-local storage */
  uint64_t hash_size, gnu_hash_size; /* bytes of the tables */
  struct mb_range tables[24];        /* headers, and what else the dynamic linker reads as tables */
  unsigned table_count;
  uint64_t slots[MB_SLOTS_AND_CONTEXTS]; /* addresses of the variables that a loader fills, 0: it
                                            has none of that name */
  struct mb_range slots_range;           /* around all of them */
  bool needs_glibc;                      /* told where the process runs another C library */
  bool needs_origin; /* a search path or the name of a needed library has $ORIGIN */
};

/* Check `size` bytes at `data` and fill `out`, which points into them. */
int mb_elf_read(const uint8_t *data, uint64_t size, struct mb_elf *out);
/* The same for mblob.native, the Python layer over libmblob, which reports what is wrong. No part of
 * mblob.h: `mblob_open_readonly` is for C programs. */
MBLOB_API int mblob_elf_check(const void *data, uint64_t size);
ElfW(Phdr) mb_elf_segment(const struct mb_elf *elf, unsigned i);
/* Section header number `i`; false behind the last one, and in a file without. No loader needs
 * them. */
bool mb_elf_section(const struct mb_elf *elf, unsigned i, ElfW(Shdr) * out);
/* File offset of `size` bytes at `vaddr`, if one loaded segment has all of them in the file. */
bool mb_elf_offset(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint64_t *offset);
/* How many bytes of the file there are from `vaddr` to the end of its segment. */
uint64_t mb_elf_bytes_from(const struct mb_elf *elf, uint64_t vaddr);
/* True if `size` bytes at `vaddr` lie in one loaded segment with all of `flags` (PF_*). */
bool mb_elf_is_loaded(const struct mb_elf *elf, uint64_t vaddr, uint64_t size, uint32_t flags);
/* True if `size` bytes at `vaddr` touch a header or a table: no code starts there, and no
 * relocation changes it. */
bool mb_elf_in_tables(const struct mb_elf *elf, uint64_t vaddr, uint64_t size);
bool mb_elf_is_code(const struct mb_elf *elf, uint64_t vaddr);
/* True if the page of `vaddr` is write-protected after loading (PT_GNU_RELRO, rounded as glibc
 * does). */
bool mb_elf_becomes_read_only(const struct mb_elf *elf, uint64_t vaddr);

ElfW(Sym) mb_elf_symbol(const struct mb_elf *elf, uint64_t i);
/* Check that the dynamic linker can take symbol `i` for what it says. Where the hash table does not
 * count undefined ones, the relocations that name them tell. */
int mb_elf_check_symbol(const struct mb_elf *elf, uint64_t i);
/* Its name, "" if it is out of bounds or not terminated. */
const char *mb_elf_symbol_name(const struct mb_elf *elf, const ElfW(Sym) * symbol);
/* Defined and visible to other objects. */
bool mb_elf_is_exported(const ElfW(Sym) * symbol);
/* The exported symbol `name`. */
bool mb_elf_find(const struct mb_elf *elf, const char *name, ElfW(Sym) * out);
/* The bytes of an object in the file; MBLOB_E_FORMAT "elf_dynamic" if they are not all there. */
int mb_elf_object(const struct mb_elf *elf, const ElfW(Sym) * symbol, const char *name,
                  struct mb_slice *out);

/* What the notes of mblob in a library say together; nothing without one. */
struct mb_announced {
  uint32_t flags;
  uint32_t table_crc; /* CRC-32 of the table of functions, with MB_NOTE_HAS_TABLE */
};
#define MB_NOTE_HAS_INDEX 1u
#define MB_NOTE_HAS_TABLE 2u
struct mb_announced mb_elf_announced(const struct mb_elf *elf);

/* True if relocations may write into segments that are read-only; true if all symbols are bound
 * when the library is opened. */
bool mb_elf_relocates_text(const struct mb_elf *elf);
bool mb_elf_binds_at_once(const struct mb_elf *elf);
/* Bytes of "$NAME" or "${NAME}" at `text`, for which the dynamic linker puts another text; 0:
 * there is none. */
size_t mb_elf_token(const char *text, const char *name);
ElfW(Dyn) mb_elf_tag_at(const struct mb_elf *elf, uint64_t i);
bool mb_elf_tag(const struct mb_elf *elf, int64_t tag, uint64_t *value);
uint64_t mb_elf_tag_or_zero(const struct mb_elf *elf, int64_t tag);
/* One more than the highest symbol that a relocation names. */
uint64_t mb_elf_symbols_used(const struct mb_elf *elf);
/* One more than the highest symbol that may be undefined. */
uint64_t mb_elf_symbols_end(const struct mb_elf *elf);
/* True if the library needs versions of a file that `of` is true for. */
bool mb_elf_needs_versions(const struct mb_elf *elf, bool (*of)(const char *file));

#endif
