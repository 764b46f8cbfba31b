/* Relocations: where the dynamic linker writes while it loads, and what. Only places that a
 * linker would choose are allowed, so that a damaged table costs an error and not a process. */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "elf/relocation_types.h"

/* On these machines glibc stops the process where calls are not relocated by a table with
 * addends. */
#if defined(__i386__) || defined(__arm__)
#define ONLY_RELA false
#else
#define ONLY_RELA MB_ELF_FUNCTIONS_ARE_CODE
#endif

/* What these machines' linkers take off an offset in a module's block. */
#if defined(__riscv)
#define DTV_OFFSET 0x800u
#else
#define DTV_OFFSET 0u
#endif

struct table {
  const char *name;
  uint64_t size, at; /* bytes, offset in the file */
  uint64_t each;     /* bytes of one */
  uint64_t relative; /* how many at the start are RELATIVE */
  bool calls;        /* of the procedure linkage table */
};

/* Words that get an address each: a table of functions that are called when the library comes
 * and goes, or the slots of calls, which linkers put one behind the other. `given`: bytes that
 * have theirs. */
struct word_table {
  const char *what;
  struct mb_range range;
  uint64_t given;
};

/* What each relocation is held against, read once. */
struct reloc_checker {
  const struct mb_elf *elf;
  uint32_t place_flags;
  bool binds_at_once;
  struct word_table functions[3], calls;
  ElfW(Phdr) segment;   /* of the last place */
  struct mb_range file; /* where places may lie in the file */
  uint8_t *written;     /* a bit for each byte of it that a relocation writes */
};

static const struct {
  int32_t tag, size_tag;
} function_tables[] = {{DT_PREINIT_ARRAY, DT_PREINIT_ARRAYSZ},
                       {DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
                       {DT_FINI_ARRAY, DT_FINI_ARRAYSZ}};
#define FUNCTION_TABLES (sizeof(function_tables) / sizeof(*function_tables))

static bool overlaps(uint64_t vaddr, uint64_t size, struct mb_range range) {
  return vaddr < range.start ? range.start - vaddr < size : vaddr - range.start < range.size;
}

/* The table of functions that a word at `vaddr` touches, NULL if none. */
static struct word_table *functions_at(struct reloc_checker *l, uint64_t vaddr, uint64_t size) {
  for (size_t i = 0; i < FUNCTION_TABLES; i++)
    if (overlaps(vaddr, size, l->functions[i].range)) return &l->functions[i];
  return NULL;
}

static bool is_in(const ElfW(Phdr) * s, uint64_t vaddr, uint64_t size) {
  return vaddr >= s->p_vaddr && vaddr - s->p_vaddr <= s->p_memsz &&
         size <= s->p_memsz - (vaddr - s->p_vaddr);
}

static bool may_be_written(const struct reloc_checker *l, const ElfW(Phdr) * s) {
  return s->p_type == PT_LOAD && (s->p_flags & l->place_flags) == l->place_flags;
}

/* Bytes of a writable segment that the linker itself does not read. */
static int check_place(struct reloc_checker *l, uint64_t vaddr, uint64_t size) {
  bool found = is_in(&l->segment, vaddr, size);
  for (unsigned i = 0; i < l->elf->header.e_phnum && !found; i++) {
    l->segment = mb_elf_segment(l->elf, i);
    found = may_be_written(l, &l->segment) && is_in(&l->segment, vaddr, size);
  }
  if (!found) return mb_elf_bad("a relocation lies outside the data");
  return mb_elf_in_tables(l->elf, vaddr, size)
             ? mb_elf_bad("it lies in a table that the dynamic linker reads")
             : MBLOB_OK;
}

/* Room to note which bytes of the file relocations write. */
static int make_written_room(struct reloc_checker *l) {
  uint64_t start = UINT64_MAX, end = 0;
  for (unsigned i = 0; i < l->elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(l->elf, i);
    if (!may_be_written(l, &s)) continue;
    if (s.p_offset < start) start = s.p_offset;
    if (s.p_offset + s.p_filesz > end) end = s.p_offset + s.p_filesz;
  }
  if (end <= start) return MBLOB_OK; /* then no place is in the file */
  l->file = (struct mb_range){start, end - start};
  l->written = calloc(1, (size_t)(end - start) / 8 + 1);
  return l->written ? MBLOB_OK : mb_fail_memory((size_t)(end - start) / 8 + 1);
}

/* Note that the place that was checked last is written. Where two relocations write, one is
 * missing elsewhere. Zeros behind the file's data are not noted: nothing tells what they are
 * for. */
static int mark_written(struct reloc_checker *l, uint64_t vaddr, uint64_t size) {
  const uint64_t start = vaddr - l->segment.p_vaddr, left = l->segment.p_filesz - start;
  if (start >= l->segment.p_filesz) return MBLOB_OK;
  const uint64_t first = l->segment.p_offset + start - l->file.start;
  uint8_t *at = l->written + first / 8;
  for (uint32_t bits = ((1u << (size < left ? size : left)) - 1) << first % 8; bits;
       bits >>= 8, at++) {
    if (*at & bits) return mb_elf_bad("another relocation writes the same bytes");
    *at = (uint8_t)(*at | bits);
  }
  return MBLOB_OK;
}

/* A variable that a loader fills may have had an address before; but it is no word of the
 * linker's. */
static int check_slots(const struct reloc_checker *l, uint64_t vaddr, uint64_t size, bool is_data) {
  for (size_t i = 0; i < MB_SLOTS_AND_CONTEXTS && overlaps(vaddr, size, l->elf->slots_range); i++) {
    const struct mb_range slot = {l->elf->slots[i], l->elf->slots[i] ? sizeof(void *) : 0};
    if (overlaps(vaddr, size, slot) && !(is_data && vaddr == slot.start))
      return mb_elf_bad("it writes %s, which a loader fills", mb_slot_name(i));
  }
  return MBLOB_OK;
}

/* Symbols that a hash table counts were looked at. */
static int check_symbol(const struct reloc_checker *l, uint64_t i) {
  if (i < l->elf->symbol_count) return MBLOB_OK;
  if (i >= (l->elf->symbol_count > 1 ? l->elf->symbol_count : l->elf->symbol_limit))
    return mb_elf_bad("it names symbol %llu, which is none", (ull)i);
  int status = mb_elf_check_symbol(l->elf, i);
  return status ? status : mb_elf_check_version(l->elf, i);
}

/* A call goes through its slot into the linkage table until it is bound, which writes the slot. */
static int check_called_address(const struct reloc_checker *l, const ElfW(Sym) * symbol,
                                uint64_t vaddr) {
  uint64_t at = 0;
  ElfW(Addr) target = 0;
  if (symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
      !mb_elf_is_code(l->elf, symbol->st_value))
    return mb_elf_bad("it calls the symbol '%s', which is no code",
                      mb_elf_symbol_name(l->elf, symbol));
  if (!l->binds_at_once && mb_elf_becomes_read_only(l->elf, vaddr))
    return mb_elf_bad("the slot of a call becomes read-only");
  if (!mb_elf_offset(l->elf, vaddr, sizeof(target), &at))
    return mb_elf_bad("the slot of a call is not in the file");
  memcpy(&target, l->elf->data + at, sizeof(target));
  if (target && !mb_elf_is_code(l->elf, target))
    return mb_elf_bad("the slot of a call points to no code");
  return MBLOB_OK;
}

/* An address that will be stored; `code`: to be called while the library comes or goes. */
static int check_target(const struct mb_elf *elf, uint64_t target, bool code) {
  if (code && !mb_elf_is_code(elf, target))
    return mb_elf_bad("a constructor lies outside the code");
  /* The end of the last segment is a place that code may well point to. */
  if (!mb_elf_is_loaded(elf, target, 0, 0))
    return mb_elf_bad("it points outside the library, to %#llx", (ull)target);
  return MBLOB_OK;
}

/* Note that these bytes get an address. */
static int count_word(struct word_table *table, uint64_t vaddr, uint64_t size) {
  const uint64_t first = vaddr - table->range.start, left = table->range.size - first;
  if (vaddr < table->range.start || first % sizeof(ElfW(Addr)))
    return mb_elf_bad("it lies between two %ss", table->what);
  table->given += size < left ? size : left;
  return MBLOB_OK;
}

/* A constructor or destructor by its symbol. What others define is not known here. */
static int check_function_table(const struct mb_elf *elf, uint64_t i, uint64_t addend) {
  const ElfW(Sym) symbol = mb_elf_symbol(elf, i);
  if (symbol.st_shndx != SHN_UNDEF) return check_target(elf, symbol.st_value + addend, true);
  if (addend || ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL)
    return mb_elf_bad("the address of a constructor may stay 0");
  return MBLOB_OK;
}

/* Thread-local storage: of this library, or of the one that has the symbol. A section's symbol,
 * or none, means the whole. */
static int check_thread(const struct mb_elf *elf, const ElfW(Sym) * symbol, bool named,
                        uint64_t offset) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if (named && type != STT_TLS && type != STT_SECTION)
    return mb_elf_bad("a thread-local relocation names a symbol that is none");
  if (named && symbol->st_shndx == SHN_UNDEF) return MBLOB_OK;
  if (!elf->tls.p_memsz)
    return mb_elf_bad("a thread-local relocation, and there is no thread storage (PT_TLS)");
  if (offset > elf->tls.p_memsz)
    return mb_elf_bad("a thread-local relocation lies outside the thread storage");
  return MBLOB_OK;
}

/* ---- one relocation -------------------------------------------------------------------------- */

/* The addend, which tables without room for it have in the data. */
static uint64_t addend_of(const struct reloc_checker *l, const struct table *t,
                          const ElfW(Rela) * r) {
  uint64_t at = 0;
  ElfW(Addr) word = 0;
  if (t->each == sizeof(ElfW(Rela))) return (uint64_t)r->r_addend;
  if (mb_elf_offset(l->elf, r->r_offset, sizeof(word), &at))
    memcpy(&word, l->elf->data + at, sizeof(word));
  return word;
}

static ElfW(Rel) relocation(const struct reloc_checker *l, const struct table *t, uint64_t i) {
  ElfW(Rel) r; /* a Rela begins like it */
  memcpy(&r, l->elf->data + t->at + i * t->each, sizeof(r));
  return r;
}

/* True if number `i` is that of a module, and the next one the offset behind it. */
static bool is_pair(const struct reloc_checker *l, const struct table *t, uint64_t i) {
  if (i >= t->size / t->each - 1) return false; /* also in front of the first */
  ElfW(Rel) module = relocation(l, t, i), offset = relocation(l, t, i + 1);
  return meaning_of(R_TYPE(module.r_info)) == MODULE &&
         meaning_of(R_TYPE(offset.r_info)) == OFFSET &&
         R_SYM(module.r_info) == R_SYM(offset.r_info) &&
         offset.r_offset - module.r_offset == sizeof(ElfW(Addr));
}

/* Of the library's own variables the linker may have written the offset. */
static int check_module(const struct reloc_checker *l, const struct table *t, uint64_t i,
                        const ElfW(Rela) * r, const ElfW(Sym) * symbol) {
  uint64_t at = 0;
  ElfW(Addr) offset = 0;
  if (!is_pair(l, t, i)) {
    if (R_SYM(r->r_info) && symbol->st_shndx == SHN_UNDEF)
      return mb_elf_bad("no relocation behind it gives the offset of '%s'",
                        mb_elf_symbol_name(l->elf, symbol));
    if (mb_elf_offset(l->elf, r->r_offset + sizeof(offset), sizeof(offset), &at))
      memcpy(&offset, l->elf->data + at, sizeof(offset));
    offset += DTV_OFFSET;
  }
  return check_thread(l->elf, symbol, R_SYM(r->r_info) != 0, offset);
}

static int check_named(const struct reloc_checker *l, const struct table *t, uint64_t i,
                       const ElfW(Rela) * r, enum meaning meaning) {
  ElfW(Sym) symbol = mb_elf_symbol(l->elf, R_SYM(r->r_info));
  const bool is_word =
      meaning == SLOT || meaning == MODULE || meaning == OFFSET || meaning == DESCRIPTOR;
  if (is_word && r->r_offset % sizeof(ElfW(Addr)))
    return mb_elf_bad("the word that it writes is not aligned");
  switch (meaning) {
    case SIZE:
    case SIZE_4: /* glibc reads the symbol that it has found, which for a weak one may be none */
      return symbol.st_shndx || ELF64_ST_BIND(symbol.st_info) != STB_WEAK
                 ? MBLOB_OK
                 : mb_elf_bad("it takes the size of the weak symbol '%s'",
                              mb_elf_symbol_name(l->elf, &symbol));
    case MODULE: return check_module(l, t, i, r, &symbol);
    case OFFSET:
      if (!is_pair(l, t, i - 1))
        return mb_elf_bad("no relocation in front of it gives the module of a thread-local offset");
      /* fall through */
    case TLS_PLACE:
    case DESCRIPTOR:
      return check_thread(l->elf, &symbol, R_SYM(r->r_info) != 0,
                          symbol.st_value + (uint64_t)r->r_addend);
    case SLOT:
      /* An addend is 0 where the table has none. ld -z mark-plt puts the address of the entry of the
       * PLT there, which glibc does not look at from 2.36 on; ld has the library require that. */
      if (!R_SYM(r->r_info) || (r->r_addend && !(HAS_MARKED_PLT && t->calls &&
                                                 mb_elf_is_code(l->elf, (uint64_t)r->r_addend))))
        return mb_elf_bad("the slot of a symbol has no symbol, or an addend");
      break;
    case COPY:
      return mb_elf_bad("a relocation copies data of another library, which only executables do");
    case UNKNOWN:
    case NONE:
    case RELATIVE:
    case ADDRESS:
    case PART_1:
    case PART_2:
    case PART_4:
    case PART_8:
    case RESOLVER: break;
  }
  if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS)
    return mb_elf_bad("a relocation takes the address of a thread-local symbol");
  return t->calls && meaning == SLOT ? check_called_address(l, &symbol, r->r_offset) : MBLOB_OK;
}

static int check_meaning(struct reloc_checker *l, const struct table *t, uint64_t i,
                         const ElfW(Rela) * r) {
  enum meaning meaning = meaning_of(R_TYPE(r->r_info));
  uint64_t addend = addend_of(l, t, r);
  const uint64_t size = size_of_meaning(meaning);
  struct word_table *functions = functions_at(l, r->r_offset, size);
  if (meaning == UNKNOWN) return mb_elf_bad("a relocation is of no known type");
  /* glibc binds these late, and no others: the machines' elf_machine_lazy_rel. */
  if (t->calls && meaning != SLOT && meaning != RESOLVER && meaning != DESCRIPTOR)
    return mb_elf_bad("the relocations of calls are of no known kind");
  if (i < t->relative && meaning != RELATIVE)
    return mb_elf_bad("a relocation is not relative, but counted so");
  if (i >= t->relative && t->relative && meaning == RELATIVE)
    return mb_elf_bad("a relative relocation is not counted");
  if (functions && meaning != RELATIVE && meaning != ADDRESS && meaning != RESOLVER)
    return mb_elf_bad("a constructor is no address");
  int status = functions ? count_word(functions, r->r_offset, size) : MBLOB_OK;
  if (!status && t->calls && overlaps(r->r_offset, size, l->calls.range))
    status = count_word(&l->calls, r->r_offset, size);
  const bool is_data = !t->calls && (meaning == RELATIVE || meaning == ADDRESS ||
                                     meaning == RESOLVER || meaning == SIZE);
  if (!status) status = check_slots(l, r->r_offset, size, is_data);
  if (!status && meaning != OFFSET) status = mark_written(l, r->r_offset, size);
  if (status) return status;
  const bool is_relative = meaning == RELATIVE || meaning == RESOLVER;
  if (is_relative && R_SYM(r->r_info)) return mb_elf_bad("a relative relocation names a symbol");
  if (is_relative || (meaning == ADDRESS && !R_SYM(r->r_info))) /* symbol 0 is the library's base */
    return check_target(l->elf, addend, meaning == RESOLVER || functions);
  if (functions) status = check_function_table(l->elf, R_SYM(r->r_info), addend);
  return status ? status : check_named(l, t, i, r, meaning);
}

/* Of a machine whose types are not known here: each may be an address. */
static int check_any(struct reloc_checker *l, const ElfW(Rela) * r) {
  struct word_table *functions = functions_at(l, r->r_offset, sizeof(ElfW(Addr)));
  int status = functions ? count_word(functions, r->r_offset, sizeof(ElfW(Addr))) : MBLOB_OK;
  return functions && !status ? mark_written(l, r->r_offset, sizeof(ElfW(Addr))) : status;
}

/* glibc reads the version of the symbol of each, also of those that do nothing. */
static int check_one(struct reloc_checker *l, const struct table *t, uint64_t i) {
  ElfW(Rela) r = {0};
  memcpy(&r, l->elf->data + t->at + i * t->each, (size_t)t->each);
  enum meaning meaning = meaning_of(R_TYPE(r.r_info));
  int status = check_symbol(l, R_SYM(r.r_info));
  /* One that does nothing in place of a call leaves its slot without an address. */
  const bool binds = t->calls && MB_ELF_FUNCTIONS_ARE_CODE;
  if (status || (meaning == NONE && i >= t->relative && !binds)) return status;
  status = check_place(l, r.r_offset, size_of_meaning(meaning));
  return status                      ? status
         : MB_ELF_FUNCTIONS_ARE_CODE ? check_meaning(l, t, i, &r)
                                     : check_any(l, &r);
}

static int check_table(struct reloc_checker *l, const struct table *t) {
  if (t->relative > t->size / t->each)
    return mb_elf_bad("more relocations are relative than there are");
  for (uint64_t i = 0; i < t->size / t->each; i++) {
    if (check_one(l, t, i) == MBLOB_OK) continue;
    ElfW(Rel) r = relocation(l, t, i);
    char context[96];
    (void)snprintf(context, sizeof(context), "relocation %llu of %s, type %llu, at %#llx", (ull)i,
                   t->name, (ull)R_TYPE(r.r_info), (ull)r.r_offset);
    mb_error_prefix(context);
    return MBLOB_E_FORMAT;
  }
  return MBLOB_OK;
}

/* ---- packed relative relocations (DT_RELR, gABI) --------------------------------------------- */

/* A word to which the library's place is added, here of the file: what it holds is an address of
 * the library, of code for a constructor. */
static int check_packed_word(struct reloc_checker *l, uint64_t vaddr) {
  uint64_t at = 0;
  ElfW(Addr) target = 0;
  int status = check_place(l, vaddr, sizeof(target));
  if (status) return status;
  if (!mb_elf_offset(l->elf, vaddr, sizeof(target), &at))
    return mb_elf_bad("a packed relocation is not in the file");
  memcpy(&target, l->elf->data + at, sizeof(target));
  struct word_table *functions = functions_at(l, vaddr, sizeof(target));
  status = functions ? count_word(functions, vaddr, sizeof(target)) : MBLOB_OK;
  if (!status) status = check_slots(l, vaddr, sizeof(target), true);
  if (!status) status = mark_written(l, vaddr, sizeof(target));
  return status ? status : check_target(l->elf, target, functions != NULL);
}

/* Check each place in the table, from low to high: what is there twice would be moved twice. An
 * even entry is an address, an odd one a bitmap of the words behind it. */
static int check_packed(struct reloc_checker *l, const struct table *t) {
  const uint64_t word = sizeof(ElfW(Addr));
  uint64_t next = 0, done = 0; /* behind what the last entry may name, and behind what one did */
  for (uint64_t i = 0; i < t->size / word; i++) {
    ElfW(Addr) entry;
    memcpy(&entry, l->elf->data + t->at + i * word, sizeof(entry));
    if (entry & 1 && !i) return mb_elf_bad("the packed relocations start with a bitmap");
    if (!(entry & 1) && (entry % word || entry < done))
      return mb_elf_bad("the packed relocations are not in order");
    uint64_t bits = entry & 1 ? entry >> 1 : 1, place = entry & 1 ? next : entry;
    next = entry & 1 ? next + (8 * word - 1) * word : entry + word;
    for (; bits; bits >>= 1, place += word) {
      if (!(bits & 1)) continue;
      int status = check_packed_word(l, place);
      if (status) return status;
      done = place + word;
    }
  }
  return MBLOB_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool has_size(const struct mb_elf *elf, int64_t tag, uint64_t size) {
  uint64_t found = size;
  return !mb_elf_tag(elf, tag, &found) || found == size;
}

static int find_table(const struct mb_elf *elf, int64_t tag, int64_t size_tag, struct table *t) {
  uint64_t vaddr = 0;
  t->size = mb_elf_tag_or_zero(elf, size_tag);
  if (!mb_elf_tag(elf, tag, &vaddr))
    return t->size ? mb_elf_bad("relocations have no table") : MBLOB_OK;
  if (t->size % t->each || !mb_elf_offset(elf, vaddr, t->size, &t->at))
    return mb_elf_bad("the relocations lie outside the file");
  return MBLOB_OK;
}

/* The constructors and destructors: no more than there are relocations. */
static int find_functions(struct reloc_checker *l, uint64_t relocations) {
  for (size_t i = 0; i < FUNCTION_TABLES; i++) {
    struct word_table *f = &l->functions[i];
    uint64_t at = 0, size = mb_elf_tag_or_zero(l->elf, function_tables[i].size_tag);
    if (!mb_elf_tag(l->elf, function_tables[i].tag, &f->range.start) || !size) continue;
    if (size % sizeof(ElfW(Addr)) || f->range.start % sizeof(ElfW(Addr)))
      return mb_elf_bad("the table of constructors has an impossible size");
    if (size / sizeof(ElfW(Addr)) > relocations) return mb_elf_bad("a constructor has no address");
    if (!mb_elf_offset(l->elf, f->range.start, size, &at))
      return mb_elf_bad("the table of constructors is not in the file");
    f->what = "constructor";
    f->range.size = size;
  }
  return MBLOB_OK;
}

static bool is_kernel_slot(const struct mb_elf *elf, const ElfW(Sym) * symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  return (type == STT_OBJECT || type == STT_NOTYPE || type == STT_COMMON) &&
         symbol->st_shndx != SHN_ABS &&
         mb_elf_is_loaded(elf, symbol->st_value, sizeof(void *), PF_W);
}

/* The variables that a loader fills: each of its own, writable, and nothing that the linker
 * reads. Contexts of several dialects may be one. */
static int find_slots(struct mb_elf *elf, struct reloc_checker *l) {
  const uint64_t size = sizeof(void *);
  for (size_t i = 0; i < MB_SLOTS_AND_CONTEXTS; i++) {
    ElfW(Sym) symbol;
    const char *name = mb_slot_name(i);
    if (!mb_elf_find(elf, name, &symbol) || !is_kernel_slot(elf, &symbol)) continue;
    const uint64_t at = symbol.st_value;
    if (mb_elf_becomes_read_only(elf, at) || mb_elf_becomes_read_only(elf, at + size - 1))
      return mb_fail_format("elf_header", MB_UNKNOWN, MB_UNKNOWN,
                            "%s becomes read-only, so nobody can fill it", name);
    if (mb_elf_in_tables(elf, at, size) || functions_at(l, at, size))
      return mb_elf_bad("%s lies in a table that the dynamic linker reads", name);
    for (size_t k = 0; k < i; k++)
      if (elf->slots[k] && overlaps(at, size, (struct mb_range){elf->slots[k], size}) &&
          (k < MB_SLOTS || at != elf->slots[k]))
        return mb_elf_bad("%s and %s lie in one place", mb_slot_name(k), name);
    elf->slots[i] = at;
    uint64_t end = elf->slots_range.start + elf->slots_range.size;
    if (!end || at < elf->slots_range.start) elf->slots_range.start = at;
    elf->slots_range.size = (at + size > end ? at + size : end) - elf->slots_range.start;
  }
  return MBLOB_OK;
}

/* The slots of calls: as many words as the relocations of calls change, from the lowest one on. */
static void find_calls(struct reloc_checker *l, const struct table *t) {
  struct word_table *calls = &l->calls;
  calls->what = "call slot";
  if (!MB_ELF_FUNCTIONS_ARE_CODE || !t->size) return;
  calls->range.start = UINT64_MAX;
  for (uint64_t i = 0; i < t->size / t->each; i++) {
    ElfW(Rel) r = relocation(l, t, i);
    if (r.r_offset < calls->range.start) calls->range.start = r.r_offset;
    calls->range.size += size_of_meaning(meaning_of(R_TYPE(r.r_info)));
  }
}

/* Without its relocation each constructor or destructor would be called where nothing is, and so
 * would what a call names. */
static int check_table_counts(const struct word_table *p) {
  return p->given == p->range.size ? MBLOB_OK : mb_elf_bad("a %s has no address", p->what);
}

/* Some linkers count the relocations of calls, which lie behind the others, among these. glibc
 * does not take them twice. */
static void leave_out(struct table *t, const struct table *calls) {
  const bool at_end = t->at + t->size == calls->at + calls->size;
  if (at_end && t->each == calls->each && calls->size <= t->size) t->size -= calls->size;
}

int mb_elf_check_relocations(struct mb_elf *elf) {
  if (!has_size(elf, DT_RELAENT, sizeof(ElfW(Rela))) ||
      !has_size(elf, DT_RELENT, sizeof(ElfW(Rel))))
    return mb_elf_bad("relocations have another size");
  uint64_t kind = 0;
  bool calls = mb_elf_tag(elf, DT_JMPREL, &kind);
  kind = mb_elf_tag_or_zero(elf, DT_PLTREL);
  if (calls && kind != DT_RELA && (kind != DT_REL || ONLY_RELA))
    return mb_elf_bad("the relocations of calls are of no known kind");
  struct table tables[] = {{.name = "DT_RELA",
                            .each = sizeof(ElfW(Rela)),
                            .relative = mb_elf_tag_or_zero(elf, DT_RELACOUNT)},
                           {.name = "DT_REL",
                            .each = sizeof(ElfW(Rel)),
                            .relative = mb_elf_tag_or_zero(elf, DT_RELCOUNT)},
                           {.name = "DT_JMPREL",
                            .each = kind == DT_REL ? sizeof(ElfW(Rel)) : sizeof(ElfW(Rela)),
                            .calls = true}};
  struct table packed = {.name = "DT_RELR", .each = sizeof(ElfW(Addr))};
  struct reloc_checker l = {.elf = elf,
                            .place_flags = mb_elf_relocates_text(elf) ? 0 : PF_W,
                            .binds_at_once = mb_elf_binds_at_once(elf)};
  int status = find_table(elf, DT_RELA, DT_RELASZ, &tables[0]);
  if (!status) status = find_table(elf, DT_REL, DT_RELSZ, &tables[1]);
  if (!status) status = find_table(elf, DT_JMPREL, DT_PLTRELSZ, &tables[2]);
  if (!status) status = find_table(elf, DT_RELR, DT_RELRSZ, &packed);
  if (status) return status;
  status = find_functions(
      &l, tables[0].size / tables[0].each + tables[1].size / tables[1].each + 8 * packed.size);
  if (!status) status = make_written_room(&l);
  if (!status) status = find_slots(elf, &l);
  find_calls(&l, &tables[2]);
  for (size_t i = 0; i < 2; i++) leave_out(&tables[i], &tables[2]);
  if (!status) status = check_packed(&l, &packed);
  for (size_t i = 0; i < 3 && !status; i++) status = check_table(&l, &tables[i]);
  for (size_t i = 0; i < FUNCTION_TABLES && !status; i++)
    status = check_table_counts(&l.functions[i]);
  if (!status) status = check_table_counts(&l.calls);
  free(l.written);
  return status;
}

/* ---- which symbols they name ----------------------------------------------------------------- */

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

/* Undefined symbols lie in front of exported ones. Where nothing is exported, only relocations tell how
 * many there are, and reading all of those takes time. */
uint64_t mb_elf_symbols_end(const struct mb_elf *elf) {
  return elf->symbol_count > 1 ? elf->symbol_count : mb_elf_symbols_used(elf);
}
