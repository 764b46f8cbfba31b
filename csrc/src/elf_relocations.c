/* Relocations: where the dynamic linker writes while it loads, and what. Only places that a linker would
 * choose are allowed, so that a damaged table costs an error and not a process. */
#include "elf_file.h"
#include "error.h"

#ifndef DT_RELR /* glibc 2.36 */
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

#if __SIZEOF_POINTER__ == 8
#define R_SYM(info) ((info) >> 32)
#define R_TYPE(info) ((info) & 0xFFFFFFFF)
#else
#define R_SYM(info) ((info) >> 8)
#define R_TYPE(info) ((info) & 0xFF)
#endif

/* Types by what they mean; the numbers are each machine's psABI. */
enum meaning { UNKNOWN, NONE, RELATIVE, ADDRESS, SLOT, RESOLVER, THREAD };

static enum meaning meaning_of(uint64_t type) {
  switch (type) {
    case 0: return NONE;
#if defined(__x86_64__)
    case R_X86_64_RELATIVE: return RELATIVE;
    case R_X86_64_64: return ADDRESS;
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT: return SLOT;
    case R_X86_64_IRELATIVE: return RESOLVER;
    case R_X86_64_DTPMOD64:
    case R_X86_64_DTPOFF64:
    case R_X86_64_TPOFF64:
    case R_X86_64_TLSDESC: return THREAD;
#elif defined(__aarch64__)
    case R_AARCH64_RELATIVE: return RELATIVE;
    case R_AARCH64_ABS64: return ADDRESS;
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_JUMP_SLOT: return SLOT;
    case R_AARCH64_IRELATIVE: return RESOLVER;
    case R_AARCH64_TLS_DTPMOD:
    case R_AARCH64_TLS_DTPREL:
    case R_AARCH64_TLS_TPREL:
    case R_AARCH64_TLSDESC: return THREAD;
#endif
    default: return UNKNOWN;
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
#define TYPES_ARE_KNOWN true
#else
#define TYPES_ARE_KNOWN false /* places and symbols are checked, meanings are not */
#endif

struct table {
  uint64_t vaddr, size, at; /* address, bytes, offset in the file */
  uint64_t each;            /* bytes of one */
  uint64_t relative;        /* how many at the start are RELATIVE */
  bool calls;               /* of the procedure linkage table */
};

static int bad(const char *text) { return mb_elf_bad_dynamic(text); }

static bool overlaps(uint64_t vaddr, uint64_t start, uint64_t size) {
  return vaddr + sizeof(ElfW(Addr)) > start && vaddr < start + size;
}

/* The tables of functions that are called when the library comes and goes. */
static const struct {
  int64_t tag, size_tag;
} function_tables[] = {{DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ},
                       {DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
                       {DT_FINI_ARRAY, DT_FINI_ARRAYSZ}};
#define FUNCTION_TABLES (sizeof(function_tables) / sizeof(*function_tables))

static bool is_function_entry(const struct mb_elf *elf, uint64_t vaddr) {
  uint64_t start = 0;
  for (size_t i = 0; i < FUNCTION_TABLES; i++)
    if (mb_elf_tag(elf, function_tables[i].tag, &start) &&
        overlaps(vaddr, start, mb_elf_tag_or_zero(elf, function_tables[i].size_tag)))
      return true;
  return false;
}

bool mb_elf_relocates_text(const struct mb_elf *elf) {
  uint64_t ignored = 0;
  return mb_elf_tag(elf, DT_TEXTREL, &ignored) || (mb_elf_tag_or_zero(elf, DT_FLAGS) & DF_TEXTREL);
}

/* A word of a writable segment that is not the dynamic section. */
static int check_place(const struct mb_elf *elf, uint64_t vaddr) {
  uint32_t flags = mb_elf_relocates_text(elf) ? 0 : PF_W;
  uint64_t size = sizeof(ElfW(Addr));
  if (!mb_elf_is_loaded(elf, vaddr, size, flags)) return bad("a relocation lies outside the data");
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_DYNAMIC && overlaps(vaddr, s.p_vaddr, s.p_memsz))
      return bad("a relocation lies in the dynamic section");
  }
  return MBLOB_OK;
}

static int check_symbol(const struct mb_elf *elf, uint64_t i) {
  uint64_t limit = elf->symbol_count > 1 ? elf->symbol_count : elf->symbol_limit;
  if (i >= limit) return bad("a relocation names no symbol");
  ElfW(Sym) symbol = mb_elf_symbol(elf, i);
  return symbol.st_name < elf->strings_size ? MBLOB_OK : bad("a relocation names no symbol");
}

static bool binds_at_once(const struct mb_elf *elf) {
  uint64_t ignored = 0;
  return mb_elf_tag(elf, DT_BIND_NOW, &ignored) || (mb_elf_tag_or_zero(elf, DT_FLAGS) & DF_BIND_NOW) ||
         (mb_elf_tag_or_zero(elf, DT_FLAGS_1) & DF_1_NOW);
}

/* A call goes through its slot into the linkage table until it is bound, which writes the slot. */
static int check_call(const struct mb_elf *elf, uint64_t vaddr) {
  uint64_t at = 0;
  ElfW(Addr) target = 0;
  if (!binds_at_once(elf) && mb_elf_becomes_read_only(elf, vaddr))
    return bad("the slot of a call becomes read-only");
  if (!mb_elf_offset(elf, vaddr, sizeof(target), &at)) return bad("the slot of a call is not in the file");
  memcpy(&target, elf->data + at, sizeof(target));
  return !target || mb_elf_is_loaded(elf, target, 1, PF_X) ? MBLOB_OK
                                                           : bad("the slot of a call points to no code");
}

/* An address that will be stored; `code`: to be called while the library comes or goes. */
static int check_target(const struct mb_elf *elf, uint64_t target, bool code) {
  if (code && !mb_elf_is_loaded(elf, target, 1, PF_X)) return bad("a constructor lies outside the code");
  /* The end of the last segment is a place that code may well point to. */
  return mb_elf_is_loaded(elf, target, 0, 0) ? MBLOB_OK : bad("a relocation points outside the library");
}

/* A constructor or destructor by its symbol. What others define is not known here. */
static int check_function(const struct mb_elf *elf, enum meaning meaning, const ElfW(Rela) * r) {
  if (meaning != ADDRESS) return bad("a constructor is no address");
  ElfW(Sym) symbol = mb_elf_symbol(elf, R_SYM(r->r_info));
  if (symbol.st_shndx == SHN_UNDEF) return MBLOB_OK;
  return check_target(elf, symbol.st_value + (uint64_t)r->r_addend, true);
}

static int check_meaning(const struct mb_elf *elf, const struct table *t, uint64_t i, const ElfW(Rela) * r) {
  enum meaning meaning = meaning_of(R_TYPE(r->r_info));
  uint64_t addend = (uint64_t)r->r_addend;
  if (meaning == UNKNOWN) return bad("a relocation is of no known type");
  bool function = is_function_entry(elf, r->r_offset);
  if (i < t->relative && meaning != RELATIVE) return bad("a relocation is not relative, but counted so");
  if (i >= t->relative && t->relative && meaning == RELATIVE)
    return bad("a relative relocation is not counted");
  if (meaning == RELATIVE || meaning == RESOLVER) {
    if (R_SYM(r->r_info)) return bad("a relative relocation names a symbol");
    int status = check_target(elf, addend, meaning == RESOLVER || function);
    if (status) return status;
  }
  if (function && meaning != RELATIVE) return check_function(elf, meaning, r);
  if (meaning == SLOT) {
    if (!R_SYM(r->r_info) || addend) return bad("the slot of a symbol has no symbol, or an addend");
    if (r->r_offset % sizeof(ElfW(Addr))) return bad("the slot of a symbol is not aligned");
  }
  return t->calls && meaning == SLOT ? check_call(elf, r->r_offset) : MBLOB_OK;
}

static int check_one(const struct mb_elf *elf, const struct table *t, uint64_t i) {
  ElfW(Rela) r = {0};
  memcpy(&r, elf->data + t->at + i * t->each, (size_t)t->each);
  if (R_TYPE(r.r_info) == 0 && i >= t->relative) return MBLOB_OK;
  int status = check_place(elf, r.r_offset);
  if (!status) status = check_symbol(elf, R_SYM(r.r_info));
  /* Without addends in the table they are in the data, where they are not looked at. */
  return status || !TYPES_ARE_KNOWN || t->each != sizeof(ElfW(Rela)) ? status : check_meaning(elf, t, i, &r);
}

static int check_table(const struct mb_elf *elf, int64_t tag, int64_t size_tag, struct table *t) {
  t->size = mb_elf_tag_or_zero(elf, size_tag);
  if (!mb_elf_tag(elf, tag, &t->vaddr)) return t->size ? bad("relocations have no table") : MBLOB_OK;
  if (t->size % t->each || !mb_elf_offset(elf, t->vaddr, t->size, &t->at))
    return bad("the relocations lie outside the file");
  if (t->relative > t->size / t->each) return bad("more relocations are relative than there are");
  for (uint64_t i = 0; i < t->size / t->each; i++) {
    int status = check_one(elf, t, i);
    if (status) return status;
  }
  return MBLOB_OK;
}

/* Relocations of words in [start, start + size) in the table; each word once, if they are as many as
 * words. */
static uint64_t count_in(const struct mb_elf *elf, const struct table *t, uint64_t start, uint64_t size) {
  uint64_t found = 0, last = UINT64_MAX;
  for (uint64_t i = 0; i < t->size / t->each; i++) {
    ElfW(Rel) r; /* a Rela begins like it */
    memcpy(&r, elf->data + t->at + i * t->each, sizeof(r));
    uint64_t inside = r.r_offset - start;
    if (r.r_offset < start || inside >= size || inside % sizeof(ElfW(Addr)) || r.r_offset == last) continue;
    found++;
    last = r.r_offset;
  }
  return found;
}

/* ---- packed relative relocations (DT_RELR, gABI) ------------------------------------------------ */

/* A word to which the library's place is added, here of the file: what it holds is an address of the library,
 * of code for a constructor. */
static int check_packed_word(const struct mb_elf *elf, uint64_t vaddr) {
  uint64_t at = 0;
  ElfW(Addr) target = 0;
  int status = check_place(elf, vaddr);
  if (status) return status;
  if (!mb_elf_offset(elf, vaddr, sizeof(target), &at)) return bad("a packed relocation is not in the file");
  memcpy(&target, elf->data + at, sizeof(target));
  return check_target(elf, target, is_function_entry(elf, vaddr));
}

/* Check each place in the table; `*inside` counts those in [start, start + size). An even entry is an
 * address, an odd one a bitmap of the words behind it. */
static int walk_packed(const struct mb_elf *elf, uint64_t start, uint64_t size, uint64_t *inside) {
  const uint64_t word = sizeof(ElfW(Addr));
  uint64_t vaddr = 0, at = 0, next = 0, bytes = mb_elf_tag_or_zero(elf, DT_RELRSZ);
  *inside = 0;
  if (!mb_elf_tag(elf, DT_RELR, &vaddr)) return MBLOB_OK;
  if (!mb_elf_offset(elf, vaddr, bytes, &at)) return bad("the packed relocations lie outside the file");
  for (uint64_t i = 0; i < bytes / word; i++) {
    ElfW(Addr) entry;
    memcpy(&entry, elf->data + at + i * word, sizeof(entry));
    uint64_t bits = entry & 1 ? entry >> 1 : 1, place = entry & 1 ? next : entry;
    next = entry & 1 ? next + (8 * word - 1) * word : entry + word;
    for (; bits; bits >>= 1, place += word) {
      if (!(bits & 1)) continue;
      int status = check_packed_word(elf, place);
      if (status) return status;
      *inside += place >= start && place - start < size && (place - start) % word == 0;
    }
  }
  return MBLOB_OK;
}

/* ---- constructors ------------------------------------------------------------------------------- */

/* Addresses of constructors and destructors: without its relocation each would be called where nothing is. */
static int check_functions(const struct mb_elf *elf, const struct table *t) {
  for (size_t i = 0; i < FUNCTION_TABLES; i++) {
    uint64_t start = 0, packed = 0, size = mb_elf_tag_or_zero(elf, function_tables[i].size_tag);
    if (!mb_elf_tag(elf, function_tables[i].tag, &start)) continue;
    if (size % sizeof(ElfW(Addr)) || start % sizeof(ElfW(Addr)))
      return bad("the table of constructors has an impossible size");
    int status = walk_packed(elf, start, size, &packed);
    if (status) return status;
    if (packed + count_in(elf, t, start, size) != size / sizeof(ElfW(Addr)))
      return bad("a constructor has no address");
  }
  return MBLOB_OK;
}

static bool has_size(const struct mb_elf *elf, int64_t tag, uint64_t size) {
  uint64_t found = size;
  return !mb_elf_tag(elf, tag, &found) || found == size;
}

int mb_elf_check_relocations(const struct mb_elf *elf) {
  if (!has_size(elf, DT_RELAENT, sizeof(ElfW(Rela))) || !has_size(elf, DT_RELENT, sizeof(ElfW(Rel))))
    return bad("relocations have another size");
  uint64_t kind = 0;
  bool calls = mb_elf_tag(elf, DT_JMPREL, &kind);
  kind = mb_elf_tag_or_zero(elf, DT_PLTREL);
  if (calls && kind != DT_RELA && kind != DT_REL) return bad("the relocations of calls are of no known kind");
  struct table rela = {.each = sizeof(ElfW(Rela)), .relative = mb_elf_tag_or_zero(elf, DT_RELACOUNT)};
  struct table rel = {.each = sizeof(ElfW(Rel)), .relative = mb_elf_tag_or_zero(elf, DT_RELCOUNT)};
  struct table plt = {.each = kind == DT_REL ? sizeof(ElfW(Rel)) : sizeof(ElfW(Rela)), .calls = true};
  int status = check_table(elf, DT_RELA, DT_RELASZ, &rela);
  if (!status) status = check_table(elf, DT_REL, DT_RELSZ, &rel);
  if (!status) status = check_table(elf, DT_JMPREL, DT_PLTRELSZ, &plt);
  const struct table *used = rela.size ? &rela : &rel;
  uint64_t ignored = 0;
  if (!status) status = walk_packed(elf, 0, 0, &ignored);
  return status ? status : check_functions(elf, used);
}

/* ---- which symbols they name ------------------------------------------------------------------------ */

uint64_t mb_elf_symbols_used(const struct mb_elf *elf) {
  const struct {
    int64_t tag, size_tag;
    uint64_t each;
  } tables[] = {
      {DT_RELA, DT_RELASZ, sizeof(ElfW(Rela))},
      {DT_REL, DT_RELSZ, sizeof(ElfW(Rel))},
      {DT_JMPREL, DT_PLTRELSZ,
       mb_elf_tag_or_zero(elf, DT_PLTREL) == DT_REL ? sizeof(ElfW(Rel)) : sizeof(ElfW(Rela))},
  };
  uint64_t end = 0, vaddr = 0, at = 0;
  for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++) {
    uint64_t size = mb_elf_tag_or_zero(elf, tables[t].size_tag);
    if (!mb_elf_tag(elf, tables[t].tag, &vaddr) || !mb_elf_offset(elf, vaddr, size, &at)) continue;
    for (uint64_t i = 0; i < size / tables[t].each; i++) {
      ElfW(Rel) r; /* a Rela begins like it */
      memcpy(&r, elf->data + at + i * tables[t].each, sizeof(r));
      if (R_SYM(r.r_info) >= end) end = R_SYM(r.r_info) + 1;
    }
  }
  return end;
}
