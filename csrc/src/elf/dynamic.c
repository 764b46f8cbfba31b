/* The dynamic section: what the dynamic linker will follow without asking. Damage here would
 * make it read or write anywhere, so every address, size and index in it is checked first. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"
#include "elf/elf_internal.h"

/* Each is held against the others. The largest libraries have some 40, and one for each library
 * that they need. */
#define TAG_LIMIT (1u << 12)

int mb_elf_bad(const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return mb_fail_format("elf_dynamic", MB_UNKNOWN, MB_UNKNOWN, "dynamic section: %s", text);
}

ElfW(Dyn) mb_elf_tag_at(const struct mb_elf *elf, uint64_t i) {
  ElfW(Dyn) d;
  memcpy(&d, elf->dynamic + i * sizeof(d), sizeof(d));
  return d;
}

bool mb_elf_tag(const struct mb_elf *elf, int64_t tag, uint64_t *value) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) d = mb_elf_tag_at(elf, i);
    if (d.d_tag == tag) {
      *value = d.d_un.d_val;
      return true;
    }
  }
  return false;
}

uint64_t mb_elf_tag_or_zero(const struct mb_elf *elf, int64_t tag) {
  uint64_t value = 0;
  (void)mb_elf_tag(elf, tag, &value);
  return value;
}

/* A tag that is there needs others, which the linker reads unasked. The first ones need their
 * sizes: arrays of functions, then relocations. */
#define ARRAYS 2
#define SIZES 6
static const struct {
  int32_t tag, needs;
} pairs[] = {{DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
             {DT_FINI_ARRAY, DT_FINI_ARRAYSZ},
             {DT_JMPREL, DT_PLTRELSZ},
             {DT_RELA, DT_RELASZ},
             {DT_REL, DT_RELSZ},
             {DT_RELR, DT_RELRSZ},
             {DT_INIT_ARRAYSZ, DT_INIT_ARRAY},
             {DT_FINI_ARRAYSZ, DT_FINI_ARRAY},
             {DT_JMPREL, DT_PLTREL},
             {DT_JMPREL, DT_PLTGOT},
             {DT_PLTRELSZ, DT_JMPREL},
             {DT_PLTREL, DT_JMPREL},
             {DT_RELA, DT_RELAENT},
             {DT_RELASZ, DT_RELA},
             {DT_RELAENT, DT_RELASZ},
             {DT_REL, DT_RELENT},
             {DT_RELSZ, DT_REL},
             {DT_VERNEED, DT_VERNEEDNUM},
             {DT_VERNEED, DT_VERSYM},
             {DT_VERNEEDNUM, DT_VERNEED},
             {DT_VERDEF, DT_VERDEFNUM},
             {DT_VERDEF, DT_VERSYM},
             {DT_VERDEFNUM, DT_VERDEF},
             {DT_RELR, DT_RELRENT},
             {DT_RELRSZ, DT_RELR},
             {DT_SYMTAB, DT_SYMENT},
             {DT_RELACOUNT, DT_RELA},
             {DT_RELCOUNT, DT_REL}};

/* ---- headers and tables ---------------------------------------------------------------------- */

static void add_table(struct mb_elf *elf, uint64_t start, uint64_t size) {
  if (size && elf->table_count < sizeof(elf->tables) / sizeof(*elf->tables))
    elf->tables[elf->table_count++] = (struct mb_range){start, size};
}

/* What lies there in the file lies at an address where a segment loads it. */
static void add_header(struct mb_elf *elf, uint64_t offset, uint64_t size) {
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_LOAD && offset >= s.p_offset && offset - s.p_offset < s.p_filesz)
      add_table(elf, s.p_vaddr + (offset - s.p_offset), size);
  }
}

static void add_tagged(struct mb_elf *elf, int64_t tag, uint64_t size) {
  uint64_t start = 0, at = 0;
  if (mb_elf_tag(elf, tag, &start) && mb_elf_offset(elf, start, size, &at))
    add_table(elf, start, size);
}

/* Those that are there. One-segment libraries have code, data and tables side by side. */
static void find_tables(struct mb_elf *elf) {
  add_header(elf, 0, sizeof(elf->header));
  add_header(elf, elf->header.e_phoff, elf->header.e_phnum * sizeof(ElfW(Phdr)));
  uint64_t count = elf->symbol_count > 1 ? elf->symbol_count : mb_elf_symbols_used(elf);
  if (count > elf->symbol_limit) count = elf->symbol_limit;
  const struct {
    int64_t tag;
    uint64_t size;
  } tagged[] = {
      {DT_SYMTAB, count * sizeof(ElfW(Sym))},
      {DT_STRTAB, elf->strings_size},
      {DT_HASH, elf->hash_size},
      {DT_GNU_HASH, elf->gnu_hash_size},
      {DT_VERSYM, count * sizeof(uint16_t)},
      {DT_VERNEED, sizeof(ElfW(Verneed))},
      {DT_VERDEF, sizeof(ElfW(Verdef))},
      {DT_PLTGOT, MB_ELF_RESERVED_SLOTS * sizeof(ElfW(Addr))},
      {DT_TLSDESC_GOT, sizeof(ElfW(Addr))},
  };
  for (size_t i = 0; i < sizeof(tagged) / sizeof(*tagged); i++)
    add_tagged(elf, tagged[i].tag, tagged[i].size);
  for (size_t i = ARRAYS; i < SIZES; i++)
    add_tagged(elf, pairs[i].tag, mb_elf_tag_or_zero(elf, pairs[i].needs));
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_DYNAMIC || s.p_type == PT_INTERP || s.p_type == PT_GNU_EH_FRAME ||
        s.p_type == PT_NOTE)
      add_table(elf, s.p_vaddr, s.p_memsz);
  }
}

bool mb_elf_in_tables(const struct mb_elf *elf, uint64_t vaddr, uint64_t size) {
  for (unsigned i = 0; i < elf->table_count; i++) {
    const struct mb_range *t = &elf->tables[i];
    if (vaddr < t->start ? t->start - vaddr < size : vaddr - t->start < t->size) return true;
  }
  return false;
}

bool mb_elf_is_code(const struct mb_elf *elf, uint64_t vaddr) {
  return mb_elf_is_loaded(elf, vaddr, 1, PF_X) && !mb_elf_in_tables(elf, vaddr, 1);
}

/* ---- symbols --------------------------------------------------------------------------------- */

static bool is_address(const ElfW(Sym) * symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS && type != STT_TLS &&
         type != STT_SECTION && type != STT_FILE;
}

/* The dynamic linker takes an address from any of them. */
static bool is_section(unsigned shndx) {
  return shndx < SHN_LORESERVE || shndx == SHN_ABS || shndx == SHN_COMMON;
}

/* What is defined lies where its type says: data and code in a segment, thread storage in its
 * own. Those without a type may be marks, as `_end` is, which linkers put where nothing is
 * loaded any more. */
static int check_defined(const struct mb_elf *elf, const ElfW(Sym) * symbol) {
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  const char *name = mb_elf_symbol_name(elf, symbol);
  bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
  /* glibc passes over other types, so that the library's own references would find nothing. */
  if (MB_ELF_FUNCTIONS_ARE_CODE && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
      type != STT_NOTYPE && type != STT_OBJECT && type != STT_COMMON && type != STT_TLS &&
      !function)
    return mb_elf_bad("the exported symbol '%s' is of no known type, %u", name, type);
  unsigned binding = ELF64_ST_BIND(symbol->st_info);
  if (MB_ELF_FUNCTIONS_ARE_CODE && binding > STB_WEAK && binding != STB_GNU_UNIQUE)
    return mb_elf_bad("the symbol '%s' is of no known binding, %u", name, binding);
  if (MB_ELF_FUNCTIONS_ARE_CODE && !is_section(symbol->st_shndx))
    return mb_elf_bad("the symbol '%s' lies in the section %#x, which is none", name,
                      symbol->st_shndx);
  if (type == STT_TLS) {
    uint64_t size = elf->tls.p_memsz;
    return size && symbol->st_value <= size && symbol->st_size <= size - symbol->st_value
               ? MBLOB_OK
               : mb_elf_bad("the symbol '%s' lies outside the thread storage", name);
  }
  /* A resolver is called while the library is loaded. */
  if (type == STT_GNU_IFUNC && symbol->st_shndx == SHN_ABS)
    return mb_elf_bad("the symbol '%s' lies outside the library", name);
  if (type == STT_NOTYPE || !is_address(symbol)) return MBLOB_OK;
  if (!mb_elf_is_loaded(elf, symbol->st_value, type == STT_GNU_IFUNC ? 1 : symbol->st_size, 0))
    return mb_elf_bad("the symbol '%s' lies outside the library", name);
  /* An empty one may be a mark where the code ends. */
  bool starts = type == STT_GNU_IFUNC || symbol->st_size;
  if (function && MB_ELF_FUNCTIONS_ARE_CODE &&
      (!mb_elf_is_loaded(elf, symbol->st_value, 0, PF_X) ||
       (starts && mb_elf_in_tables(elf, symbol->st_value, 1))))
    return mb_elf_bad("the function '%s' lies outside the code", name);
  return MBLOB_OK;
}

int mb_elf_check_symbol(const struct mb_elf *elf, uint64_t i) {
  ElfW(Sym) symbol = mb_elf_symbol(elf, i), empty = {0};
  if (!i)
    return memcmp(&symbol, &empty, sizeof(symbol)) ? mb_elf_bad("symbol 0 is not empty") : MBLOB_OK;
  if (symbol.st_name >= elf->strings_size)
    return mb_elf_bad("the name of symbol %llu lies outside the strings", (ull)i);
  if (symbol.st_shndx != SHN_UNDEF) return check_defined(elf, &symbol);
  unsigned binding = ELF64_ST_BIND(symbol.st_info);
  /* The linker would take a local or hidden one as its own, and call address 0. */
  if ((binding != STB_GLOBAL && binding != STB_WEAK) || ELF64_ST_VISIBILITY(symbol.st_other))
    return mb_elf_bad("the undefined symbol '%s' is not looked for elsewhere",
                      mb_elf_symbol_name(elf, &symbol));
  if (symbol.st_value && MB_ELF_FUNCTIONS_ARE_CODE)
    return mb_elf_bad("the undefined symbol '%s' has an address", mb_elf_symbol_name(elf, &symbol));
  return MBLOB_OK;
}

static int check_symbols(const struct mb_elf *elf) {
  int status = MBLOB_OK;
  for (uint64_t i = 0; i < elf->symbol_count && !status; i++) status = mb_elf_check_symbol(elf, i);
  return status;
}

static int read_dynamic_tables(struct mb_elf *elf) {
  uint64_t strings = 0, symbols = 0, hash = 0, at = 0;
  if (!mb_elf_tag(elf, DT_STRTAB, &strings) || !mb_elf_tag(elf, DT_SYMTAB, &symbols) ||
      !mb_elf_tag(elf, DT_STRSZ, &elf->strings_size))
    return mb_elf_bad("it names no strings or no symbols");
  if (!mb_elf_offset(elf, strings, elf->strings_size, &at))
    return mb_elf_bad("the strings lie outside the file");
  elf->strings = (const char *)elf->data + at;
  if (!elf->strings_size || elf->strings[elf->strings_size - 1])
    return mb_elf_bad("the strings have no end");
  uint64_t entry = mb_elf_tag_or_zero(elf, DT_SYMENT);
  if (entry && entry != sizeof(ElfW(Sym))) return mb_elf_bad("symbols have another size");
  bool gnu = mb_elf_tag(elf, DT_GNU_HASH, &hash);
  int status = gnu ? mb_elf_gnu_hash(elf, hash, &elf->symbol_count) : MBLOB_OK;
  if (!status && mb_elf_tag(elf, DT_HASH, &hash)) {
    uint64_t chains = 0;
    status = mb_elf_sysv_hash(elf, hash, &chains);
    if (status) return status;
    if (chains < elf->symbol_count) return mb_elf_bad("the hash tables count different symbols");
    elf->symbol_count = chains; /* undefined symbols as well */
  } else if (!status && !gnu) {
    status = mb_elf_bad("it has no hash table");
  }
  if (status) return status;
  if (elf->symbol_count > elf->size / sizeof(ElfW(Sym)) ||
      !mb_elf_offset(elf, symbols, elf->symbol_count * sizeof(ElfW(Sym)), &at))
    return mb_elf_bad("the symbols lie outside the file");
  elf->symbols = elf->data + at;
  /* The dynamic linker reads no further without leaving the library. */
  elf->symbol_limit = mb_elf_bytes_from(elf, symbols) / sizeof(ElfW(Sym));
  if (!elf->symbol_limit) return mb_elf_bad("the symbols lie outside the file");
  find_tables(elf);
  status = check_symbols(elf);
  return status ? status : mb_elf_check_hashes(elf);
}

/* ---- tags ------------------------------------------------------------------------------------ */

static bool is_string(int64_t tag) {
  return tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH ||
         tag == DT_AUDIT || tag == DT_DEPAUDIT;
}

/* The first is what we read, the last what the linker does: they must be the same. */
static bool occurs_again(const struct mb_elf *elf, uint64_t i) {
  int64_t tag = mb_elf_tag_at(elf, i).d_tag;
  if (tag == DT_NEEDED) return false;
  for (uint64_t k = i + 1; k < elf->dynamic_count; k++)
    if (mb_elf_tag_at(elf, k).d_tag == tag) return true;
  return false;
}

static int check_function_tags(const struct mb_elf *elf, int64_t size_tag, uint64_t start) {
  uint64_t size = mb_elf_tag_or_zero(elf, size_tag);
  if (mb_elf_is_loaded(elf, start, size, 0)) return MBLOB_OK;
  return mb_elf_bad("%llu bytes of constructors at %#llx lie outside the library", (ull)size,
                    (ull)start);
}

/* Tags whose value is an address that the linker or the startup code follows. */
static int check_address(const struct mb_elf *elf, int64_t tag, uint64_t value) {
  uint64_t word = sizeof(ElfW(Addr)), at = 0;
  switch (tag) {
    case DT_INIT:
    case DT_FINI:
      return mb_elf_is_code(elf, value)
                 ? MBLOB_OK
                 : mb_elf_bad("a constructor at %#llx lies outside the code", (ull)value);
    case DT_INIT_ARRAY: return check_function_tags(elf, DT_INIT_ARRAYSZ, value);
    case DT_PREINIT_ARRAY: return check_function_tags(elf, DT_PREINIT_ARRAYSZ, value);
    case DT_FINI_ARRAY: return check_function_tags(elf, DT_FINI_ARRAYSZ, value);
    case DT_PLTGOT: /* three words of the linker's, then the slots */
      return value % word == 0 &&
                     mb_elf_is_loaded(elf, value, 3 * word, MB_ELF_FUNCTIONS_ARE_CODE ? PF_W : 0)
                 ? MBLOB_OK
                 : mb_elf_bad("the table of call slots lies outside the library");
    case DT_RELR:
      return mb_elf_tag_or_zero(elf, DT_RELRENT) == word &&
                     mb_elf_tag_or_zero(elf, DT_RELRSZ) % word == 0 &&
                     mb_elf_offset(elf, value, mb_elf_tag_or_zero(elf, DT_RELRSZ), &at)
                 ? MBLOB_OK
                 : mb_elf_bad("the packed relocations lie outside the file");
    /* glibc before 2.34 stores a function of its own there, and lets thread-local symbols be
     * looked up through the other. */
    case DT_TLSDESC_GOT:
      return mb_elf_is_loaded(elf, value, word, PF_W)
                 ? MBLOB_OK
                 : mb_elf_bad("the slot of thread descriptors lies outside the data");
    case DT_TLSDESC_PLT:
      return mb_elf_is_code(elf, value)
                 ? MBLOB_OK
                 : mb_elf_bad("the code of thread descriptors lies outside the code");
    /* For a library that dlopen opens, glibc ends the process. */
    case DT_AUXILIARY:
    case DT_FILTER:
      return mb_elf_bad("it is a filter for another library (%s); link it without %s",
                        tag == DT_FILTER ? "DT_FILTER" : "DT_AUXILIARY",
                        tag == DT_FILTER ? "--filter" : "--auxiliary");
    default: return MBLOB_OK;
  }
}

/* Where sound section headers are left, a table ends where a section does, or where the
 * relocations of calls start; a size that became smaller hides relocations. One table may have
 * several sections. */
static int check_end(const struct mb_elf *elf, size_t pair) {
  uint64_t vaddr = 0, calls = 0, start = 0, at = 0,
           size = mb_elf_tag_or_zero(elf, pairs[pair].needs);
  ElfW(Shdr) s;
  if (!MB_ELF_FUNCTIONS_ARE_CODE || !mb_elf_tag(elf, pairs[pair].tag, &vaddr) ||
      !mb_elf_offset(elf, vaddr, size, &start) ||
      (mb_elf_tag(elf, DT_JMPREL, &calls) && calls == vaddr + size && size))
    return MBLOB_OK;
  for (unsigned i = 0; mb_elf_section(elf, i, &s); i++) {
    uint64_t first = s.sh_offset - start; /* huge in front of the table */
    if ((first < size || !first) && s.sh_size > size - first && s.sh_type != SHT_NOBITS &&
        mb_elf_offset(elf, s.sh_addr, s.sh_size, &at) && at == s.sh_offset)
      return mb_elf_bad(
          "the table of the tag %#llx has %llu bytes and ends inside a section, %llu bytes before its end",
          (ull)pairs[pair].tag, (ull)size, (ull)(s.sh_size - (size - first)));
  }
  return MBLOB_OK;
}

size_t mb_elf_token(const char *text, const char *name) {
  const bool braces = *text == '$' && text[1] == '{';
  const char *end = text + 1 + braces + strlen(name);
  if (*text != '$' || strncmp(text + 1 + braces, name, strlen(name)) != 0) return 0;
  if (braces ? *end != '}' : isalnum((unsigned char)*end) || *end == '_') return 0;
  return (size_t)(end - text) + braces;
}

/* A name of a library, or folders, which the dynamic linker copies onto the stack with each
 * "$ORIGIN" and the like written out; `used`: bytes of all of them. */
static int check_followed(int64_t tag, const char *text, uint64_t *used) {
  const uint64_t size = strnlen(text, MB_ELF_NAME_LIMIT);
  if (size == MB_ELF_NAME_LIMIT)
    return mb_elf_bad("the name of the tag %#llx has no end within %u bytes", (ull)tag,
                      MB_ELF_NAME_LIMIT);
  *used += size;
  for (; (text = strchr(text, '$')); text++) *used += 256;
  return *used <= MB_ELF_NAMES_LIMIT
             ? MBLOB_OK
             : mb_elf_bad("its names and search paths have more than %u bytes", MB_ELF_NAMES_LIMIT);
}

static int check_tags(struct mb_elf *elf) {
  uint64_t used = 0;
  for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
    uint64_t ignored = 0;
    if (mb_elf_tag(elf, pairs[i].tag, &ignored) && !mb_elf_tag(elf, pairs[i].needs, &ignored))
      return mb_elf_bad("it has the tag %#llx without %#llx, which that needs", (ull)pairs[i].tag,
                        (ull)pairs[i].needs);
    int status = i < SIZES ? check_end(elf, i) : MBLOB_OK;
    if (status) return status;
  }
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) d = mb_elf_tag_at(elf, i);
    int status = check_address(elf, d.d_tag, d.d_un.d_val);
    if (status) return status;
    if (occurs_again(elf, i)) return mb_elf_bad("the tag %#llx is there twice", (ull)d.d_tag);
    if (!is_string(d.d_tag)) continue;
    if (d.d_un.d_val >= elf->strings_size)
      return mb_elf_bad("the name of the tag %#llx lies outside the strings", (ull)d.d_tag);
    status = check_followed(d.d_tag, elf->strings + d.d_un.d_val, &used);
    if (status) return status;
    if (d.d_tag == DT_RPATH || d.d_tag == DT_RUNPATH || d.d_tag == DT_NEEDED)
      elf->needs_origin |= strstr(elf->strings + d.d_un.d_val, "ORIGIN") != NULL;
#ifndef __GLIBC__
    if (d.d_tag == DT_NEEDED)
      elf->needs_glibc |= strcmp(elf->strings + d.d_un.d_val, "libc.so.6") == 0;
#endif
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
      return mb_elf_bad("its address and its place in the file disagree");
    elf->dynamic = elf->data + s.p_offset;
    elf->dynamic_count = s.p_filesz / sizeof(ElfW(Dyn));
  }
  if (!elf->dynamic) return mb_elf_bad("there is none");
  uint64_t end = 0;
  while (end < elf->dynamic_count && mb_elf_tag_at(elf, end).d_tag != DT_NULL) end++;
  if (end == elf->dynamic_count) return mb_elf_bad("it has no end");
  if (end > TAG_LIMIT) return mb_elf_bad("it has %llu tags, the limit is %u", (ull)end, TAG_LIMIT);
  elf->dynamic_count = end;
  if (mb_elf_tag_or_zero(elf, DT_FLAGS_1) & DF_1_PIE)
    return mb_fail_format("elf_header", 16, MB_UNKNOWN, "an executable; link it with -shared");
  int status = read_dynamic_tables(elf);
  if (!status) status = check_tags(elf);
  if (!status) status = mb_elf_check_versions(elf);
  if (!status) status = mb_elf_check_relocations(elf);
  /* Sound, but not for us. */
  if (!status && (mb_elf_tag_or_zero(elf, DT_FLAGS_1) & DF_1_NOOPEN))
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "it says that dlopen may not open it (DF_1_NOOPEN); link it without -z nodlopen");
  return status;
}

bool mb_elf_relocates_text(const struct mb_elf *elf) {
  uint64_t ignored = 0;
  return mb_elf_tag(elf, DT_TEXTREL, &ignored) || (mb_elf_tag_or_zero(elf, DT_FLAGS) & DF_TEXTREL);
}

bool mb_elf_binds_at_once(const struct mb_elf *elf) {
  uint64_t ignored = 0;
  return mb_elf_tag(elf, DT_BIND_NOW, &ignored) ||
         (mb_elf_tag_or_zero(elf, DT_FLAGS) & DF_BIND_NOW) ||
         (mb_elf_tag_or_zero(elf, DT_FLAGS_1) & DF_1_NOW);
}
