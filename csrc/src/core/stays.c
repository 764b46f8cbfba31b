/* Whether a library has to stay mapped after its last reference is gone: something may still run
 * its code, such as a thread. Nothing tells that, so the question is turned round. A library goes
 * if all functions that it takes from others keep no address (core/harmless.h), and so do those
 * of the libraries that its load brought. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

#include "base/base.h"
#include "core/harmless.h"
#include "core/link_copy.h"
#include "core/runtime.h"

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether `list` has the `size` bytes at `name`; `starts`: or a beginning of them. */
static bool has(const char *list, const char *name, size_t size, bool starts) {
  for (size_t n; (n = strcspn(list, " ")); list += n + 1)
    if ((n == size || (starts && n < size)) && memcmp(list, name, n) == 0) return true;
  return false;
}

static bool is_listed(const char *name, size_t size) {
  return has(MB_HARMLESS, name, size, false) || has(MB_HARMLESS_MATH, name, size, false) ||
         (size && strchr("fl", name[size - 1]) && has(MB_HARMLESS_MATH, name, size - 1, false));
}

static bool is_harmless(const char *name) {
  static const char suffixes[][8] = {"_chk", "_finite"};
  size_t size = strlen(name);
  if (is_listed(name, size) || has(MB_HARMLESS_STARTS, name, size, true)) return true;
  if (strncmp(name, "__", 2) != 0) return false;
  for (size_t i = 0; i < 2; i++) {
    size_t n = strlen(suffixes[i]);
    if (size > n + 2 && strcmp(name + size - n, suffixes[i]) == 0)
      return is_listed(name + 2, size - n - 2);
  }
  size_t skip = strncmp(name, "__isoc99_", 9) == 0 || strncmp(name, "__isoc23_", 9) == 0 ? 9 : 2;
  return is_listed(name + skip, size - skip);
}

/* ---- libraries that the load brought --------------------------------------------------------- */

#define MOST 16 /* libraries; with more of them the library stays */

struct brought {
  const struct mb_library *library;
  struct part {
    struct mb_source source; /* not of the library itself */
    const struct mb_elf *elf;
    struct mb_elf own;
  } parts[MOST];
  unsigned count;
  bool seen,
      unknown; /* `seen`: the library itself, behind which the linker lists what it brought */
};

static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static const char *text_at(const struct mb_elf *elf, uint64_t at) {
  return at < elf->strings_size ? elf->strings + at : "";
}

static bool needs(const struct mb_elf *elf, const char *name) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) tag = mb_elf_tag_at(elf, i);
    if (tag.d_tag == DT_NULL) break;
    if (tag.d_tag == DT_NEEDED && strcmp(file_of(text_at(elf, tag.d_un.d_val)), name) == 0)
      return true;
  }
  return false;
}

static bool is_needed(const struct brought *b, const char *name) {
  for (unsigned i = 0; i < b->count; i++)
    if (needs(b->parts[i].elf, name)) return true;
  return false;
}

static bool is_of_system(const char *name) {
  return has(MB_SYSTEM_LIBRARIES, name, strcspn(name, ".-"), false);
}

/* Files that are not read, or are not what was loaded, leave the answer open: it stays. */
static void add(struct brought *b, const char *path) {
  struct part *part = &b->parts[b->count];
  uint64_t at = 0;
  if (is_of_system(file_of(path))) return;
  if (b->count == MOST || mb_source_open(path, &part->source)) {
    b->unknown = true;
    return;
  }
  b->count++;
  part->elf = &part->own;
  if (mb_elf_read(part->source.bytes, part->source.size, &part->own)) {
    b->unknown = true;
    b->count--;
    mb_source_close(&part->source);
    return;
  }
  const char *name = mb_elf_tag(&part->own, DT_SONAME, &at) ? text_at(&part->own, at) : "";
  b->count--; /* not needed by itself */
  if (is_needed(b, file_of(path)) || is_needed(b, name))
    b->count++;
  else
    mb_source_close(&part->source);
}

static int visit(struct dl_phdr_info *info, size_t size, void *context) {
  struct brought *b = context;
  (void)size;
  if (b->seen && *info->dlpi_name) add(b, info->dlpi_name);
  if (strcmp(info->dlpi_name, b->library->link_name) == 0) b->seen = true;
  return b->unknown;
}

static bool needs_others(const struct mb_elf *elf) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) tag = mb_elf_tag_at(elf, i);
    if (tag.d_tag == DT_NULL) break;
    if (tag.d_tag == DT_NEEDED && !is_of_system(file_of(text_at(elf, tag.d_un.d_val)))) return true;
  }
  return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static bool is_defined(const struct brought *b, const char *name) {
  ElfW(Sym) symbol;
  for (unsigned i = 0; i < b->count; i++)
    if (mb_elf_find(b->parts[i].elf, name, &symbol)) return true;
  return false;
}

static bool keeps_nothing(const struct brought *b, const struct mb_elf *elf) {
  uint64_t used = mb_elf_symbols_used(elf),
           end = used > elf->symbol_count ? used : elf->symbol_count;
  for (uint64_t i = 1; i < end; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    const char *name = mb_elf_symbol_name(elf, &symbol);
    if (symbol.st_shndx == SHN_UNDEF && *name && !is_harmless(name) && !is_defined(b, name))
      return false;
  }
  return true;
}

bool mb_library_stays(const struct mb_library *library) {
  struct brought b = {.library = library, .parts = {{.elf = &library->elf}}, .count = 1};
  if (needs_others(&library->elf)) (void)dl_iterate_phdr(visit, &b);
  bool stays = b.unknown;
  for (unsigned i = 0; i < b.count && !stays; i++) stays = !keeps_nothing(&b, b.parts[i].elf);
  for (unsigned i = 1; i < b.count; i++) mb_source_close(&b.parts[i].source);
  return stays;
}
