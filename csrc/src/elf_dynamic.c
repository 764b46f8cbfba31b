/* The dynamic section: what the dynamic linker will follow without asking. Damage here would make it read or
 * write anywhere, so every address, size and index in it is checked first. */
#include "elf_file.h"
#include "error.h"

typedef unsigned long long ull;

static int bad(const char *text) {
  return mb_fail_format("elf_dynamic", MB_UNKNOWN, MB_UNKNOWN, "dynamic section: %s", text);
}

static ElfW(Dyn) tag_at(const struct mb_elf *elf, uint64_t i) {
  ElfW(Dyn) d;
  memcpy(&d, elf->dynamic + i * sizeof(d), sizeof(d));
  return d;
}

static bool find_tag(const struct mb_elf *elf, int64_t tag, uint64_t *value) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) d = tag_at(elf, i);
    if (d.d_tag == tag) {
      *value = d.d_un.d_val;
      return true;
    }
  }
  return false;
}

static uint64_t tag_or_zero(const struct mb_elf *elf, int64_t tag) {
  uint64_t value = 0;
  (void)find_tag(elf, tag, &value);
  return value;
}

static uint32_t word_at(const struct mb_elf *elf, uint64_t offset) {
  uint32_t word;
  memcpy(&word, elf->data + offset, sizeof(word));
  return word;
}

/* ---- hash tables: how many symbols there are ------------------------------------------------------- */

/* Bucket chains end inside the table: each index is below the count, so a walk of count steps must end. */
static int sysv_hash(const struct mb_elf *elf, uint64_t vaddr, uint64_t *count) {
  uint64_t at = 0;
  if (!mb_elf_offset(elf, vaddr, 8, &at)) return bad("the hash table lies outside the file");
  uint64_t buckets = word_at(elf, at), chains = word_at(elf, at + 4);
  if (!buckets || !mb_elf_offset(elf, vaddr, 8 + 4 * (buckets + chains), &at))
    return bad("the hash table lies outside the file");
  for (uint64_t i = 0; i < buckets + chains; i++)
    if (word_at(elf, at + 8 + 4 * i) >= (chains ? chains : 1)) return bad("the hash table names no symbol");
  *count = chains;
  return MBLOB_OK;
}

/* The highest symbol of any bucket, then along its chain to the end. */
static int gnu_hash(const struct mb_elf *elf, uint64_t vaddr, uint64_t *count) {
  uint64_t at = 0;
  if (!mb_elf_offset(elf, vaddr, 16, &at)) return bad("the hash table lies outside the file");
  uint64_t buckets = word_at(elf, at), first = word_at(elf, at + 4), bloom = word_at(elf, at + 8);
  uint64_t head = 16 + bloom * sizeof(ElfW(Addr)), last = 0;
  if (!buckets || !bloom || (bloom & (bloom - 1))) return bad("the hash table has an impossible shape");
  if (!mb_elf_offset(elf, vaddr, head + 4 * buckets, &at)) return bad("the hash table lies outside the file");
  for (uint64_t i = 0; i < buckets; i++) {
    uint64_t symbol = word_at(elf, at + head + 4 * i);
    if (symbol && symbol < first) return bad("the hash table names no symbol");
    if (symbol > last) last = symbol;
  }
  *count = first;
  if (last < first) return MBLOB_OK;
  uint64_t chain = vaddr + head + 4 * buckets;
  for (;; last++) {
    if (!mb_elf_offset(elf, chain + 4 * (last - first), 4, &at)) return bad("a hash chain has no end");
    if (word_at(elf, at) & 1) break;
  }
  *count = last + 1;
  return MBLOB_OK;
}

/* ---- symbols ------------------------------------------------------------------------------------------ */

static bool is_address(const ElfW(Sym) *symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && type != STT_TLS && type != STT_SECTION &&
         type != STT_FILE;
}

static int check_symbols(const struct mb_elf *elf) {
  for (uint64_t i = 0; i < elf->symbol_count; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (symbol.st_name >= elf->strings_size) return bad("the name of a symbol lies outside the strings");
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    /* A resolver is called while the library is loaded. */
    if (type == STT_GNU_IFUNC && is_address(&symbol) && !mb_elf_is_loaded(elf, symbol.st_value, 1, PF_X))
      return bad("an indirect function lies outside the code");
  }
  return MBLOB_OK;
}

static int read_tables(struct mb_elf *elf) {
  uint64_t strings = 0, symbols = 0, hash = 0, at = 0;
  if (!find_tag(elf, DT_STRTAB, &strings) || !find_tag(elf, DT_SYMTAB, &symbols) ||
      !find_tag(elf, DT_STRSZ, &elf->strings_size))
    return bad("it names no strings or no symbols");
  if (!mb_elf_offset(elf, strings, elf->strings_size, &at)) return bad("the strings lie outside the file");
  elf->strings = (const char *)elf->data + at;
  if (!elf->strings_size || elf->strings[elf->strings_size - 1]) return bad("the strings have no end");
  uint64_t entry = tag_or_zero(elf, DT_SYMENT);
  if (entry && entry != sizeof(ElfW(Sym))) return bad("symbols have another size");
  int status = bad("it has no hash table");
  if (find_tag(elf, DT_GNU_HASH, &hash)) status = gnu_hash(elf, hash, &elf->symbol_count);
  uint64_t by_sysv = 0;
  if (find_tag(elf, DT_HASH, &hash)) {
    int found = sysv_hash(elf, hash, &by_sysv);
    if (found) return found;
    if (status || by_sysv > elf->symbol_count) elf->symbol_count = by_sysv;
    status = MBLOB_OK;
  }
  if (status) return status;
  if (elf->symbol_count > elf->size / sizeof(ElfW(Sym)) ||
      !mb_elf_offset(elf, symbols, elf->symbol_count * sizeof(ElfW(Sym)), &at))
    return bad("the symbols lie outside the file");
  elf->symbols = elf->data + at;
  return check_symbols(elf);
}

/* ---- relocations -------------------------------------------------------------------------------------- */

#if __SIZEOF_POINTER__ == 8
#define R_SYM(info) ((info) >> 32)
#else
#define R_SYM(info) ((info) >> 8)
#endif

/* Without a section table the number of undefined symbols is unknown when a library exports nothing (GNU hash
 * counts only exported ones), so symbols of relocations are bounded by the file and their names by the strings. */
static int check_relocation(const struct mb_elf *elf, const uint8_t *symbols, uint64_t symbols_left,
                            uint64_t offset, uint64_t info) {
  if (!mb_elf_is_loaded(elf, offset, sizeof(ElfW(Addr)), 0)) return bad("a relocation lies outside the library");
  uint64_t i = R_SYM(info);
  if (!i) return MBLOB_OK;
  ElfW(Sym) symbol;
  if (i >= symbols_left / sizeof(symbol)) return bad("a relocation names no symbol");
  memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol));
  if (symbol.st_name >= elf->strings_size) return bad("a relocation names no symbol");
  return MBLOB_OK;
}

static int check_relocations(const struct mb_elf *elf, int64_t table, int64_t size_tag, bool with_addend) {
  uint64_t vaddr = 0, at = 0, symtab = tag_or_zero(elf, DT_SYMTAB), symbols_at = 0;
  uint64_t size = tag_or_zero(elf, size_tag);
  if (!find_tag(elf, table, &vaddr)) return size ? bad("relocations have no table") : MBLOB_OK;
  uint64_t each = with_addend ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
  if (!mb_elf_offset(elf, vaddr, size, &at) || size % each)
    return bad("the relocations lie outside the file");
  if (!mb_elf_offset(elf, symtab, 0, &symbols_at)) return bad("the symbols lie outside the file");
  for (uint64_t i = 0; i < size; i += each) {
    ElfW(Rela) r = {0};
    memcpy(&r, elf->data + at + i, (size_t)each);
    int status =
        check_relocation(elf, elf->data + symbols_at, elf->size - symbols_at, r.r_offset, r.r_info);
    if (status) return status;
  }
  return MBLOB_OK;
}

static int check_all_relocations(const struct mb_elf *elf) {
  uint64_t entry = tag_or_zero(elf, DT_RELAENT);
  if (entry && entry != sizeof(ElfW(Rela))) return bad("relocations have another size");
  entry = tag_or_zero(elf, DT_RELENT);
  if (entry && entry != sizeof(ElfW(Rel))) return bad("relocations have another size");
  uint64_t kind = tag_or_zero(elf, DT_PLTREL);
  if (tag_or_zero(elf, DT_JMPREL) && kind != DT_RELA && kind != DT_REL)
    return bad("the relocations of calls are of no known kind");
  int status = check_relocations(elf, DT_RELA, DT_RELASZ, true);
  if (!status) status = check_relocations(elf, DT_REL, DT_RELSZ, false);
  return status ? status : check_relocations(elf, DT_JMPREL, DT_PLTRELSZ, kind == DT_RELA);
}

/* ---- the rest ------------------------------------------------------------------------------------------ */

/* Tags whose value is an address that the dynamic linker or the startup code follows. */
static int check_address(const struct mb_elf *elf, int64_t tag, uint64_t value) {
  switch (tag) {
    case DT_INIT:
    case DT_FINI: return mb_elf_is_loaded(elf, value, 1, PF_X) ? MBLOB_OK : bad("a constructor lies outside the code");
    case DT_INIT_ARRAY:
      return mb_elf_is_loaded(elf, value, tag_or_zero(elf, DT_INIT_ARRAYSZ), 0)
                 ? MBLOB_OK
                 : bad("the constructors lie outside the library");
    case DT_FINI_ARRAY:
      return mb_elf_is_loaded(elf, value, tag_or_zero(elf, DT_FINI_ARRAYSZ), 0)
                 ? MBLOB_OK
                 : bad("the destructors lie outside the library");
    case DT_VERSYM:
      return mb_elf_is_loaded(elf, value, 2 * elf->symbol_count, 0) ? MBLOB_OK
                                                                    : bad("symbol versions lie outside the library");
    case DT_PLTGOT:
    case DT_VERDEF:
    case DT_VERNEED:
    case DT_RELR: return mb_elf_is_loaded(elf, value, 1, 0) ? MBLOB_OK : bad("an address lies outside the library");
    default: return MBLOB_OK;
  }
}

static int check_tags(struct mb_elf *elf) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) d = tag_at(elf, i);
    int status = check_address(elf, d.d_tag, d.d_un.d_val);
    if (status) return status;
    if (d.d_tag != DT_NEEDED && d.d_tag != DT_SONAME && d.d_tag != DT_RPATH && d.d_tag != DT_RUNPATH) continue;
    if (d.d_un.d_val >= elf->strings_size) return bad("a name lies outside the strings");
    if (d.d_tag == DT_RPATH || d.d_tag == DT_RUNPATH)
      elf->origin_in_runpath |= strstr(elf->strings + d.d_un.d_val, "ORIGIN") != NULL;
  }
  return MBLOB_OK;
}

int mb_elf_read_dynamic(struct mb_elf *elf) {
  for (unsigned i = 0; i < elf->header.e_phnum && !elf->dynamic; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type != PT_DYNAMIC) continue;
    uint64_t at = 0;
    /* The linker reads it through memory, we through the file: both must mean the same bytes. */
    if (!mb_elf_offset(elf, s.p_vaddr, s.p_filesz, &at) || at != s.p_offset)
      return bad("its address and its place in the file disagree");
    elf->dynamic = elf->data + s.p_offset;
    elf->dynamic_count = s.p_filesz / sizeof(ElfW(Dyn));
  }
  if (!elf->dynamic) return bad("there is none");
  uint64_t end = 0;
  while (end < elf->dynamic_count && tag_at(elf, end).d_tag != DT_NULL) end++;
  if (end == elf->dynamic_count) return bad("it has no end");
  elf->dynamic_count = end;
  int status = read_tables(elf);
  if (!status) status = check_tags(elf);
  return status ? status : check_all_relocations(elf);
}
