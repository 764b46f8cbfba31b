/* Decides if the code of a library may be unmapped when its last reference goes.
 *
 * A thread, a handler or a callback that a library left behind runs code that is no longer there,
 * and nothing tells of them. What a library can have left is told by the functions that it calls:
 * it is unmapped only if all of its undefined symbols, and all those of the libraries that came
 * with it, are in a table of functions that keep no address (mblob/unload_safe_functions.py, which says more). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"
#include "core/link/unload_safe_functions.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"

#define NAME_LIMIT 256 /* bytes of a name that has another spelling */
#define BROUGHT 64     /* libraries that one brings; of more the library stays */

/* ---- the table ------------------------------------------------------------------------------- */

static char table[MB_UNLOAD_SAFE_SIZE];

/* In the library, each name is a character that tells how many it shares with the one before (from
 * 1 on), and the others. */
static void unfold(void) {
  static const char folded[] = MB_UNLOAD_SAFE;
  const char *before = table;
  char *out = table;
  for (const char *at = folded; *at;) {
    const char *name = out;
    for (int shared = *at++; shared > 1; shared--) *out++ = *before++;
    while (*at > ' ') *out++ = *at++;
    *out++ = 0;
    before = name;
  }
}

/* True if the table has the name, or the beginning of its family. The strings lie one behind the
 * other: a search by halves goes back to the start of the one that it meets. */
static bool is_named(const char *name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  size_t low = 0, high = sizeof(table);
  (void)pthread_once(&once, unfold);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    while (middle > low && table[middle - 1]) middle--;
    const char *entry = table + middle;
    const size_t size = strlen(entry), length = size - (entry[size - 1] == '*');
    int order = strncmp(name, entry, length);
    if (order == 0 && (length < size || !name[length])) return true;
    if (order < 0)
      high = middle;
    else
      low = middle + size + 1;
  }
  return false;
}

/* The name as it is, or without the last letter: <math.h> has forms with f and l. */
static bool is_named_or_form(char *name, size_t size) {
  if (is_named(name)) return true;
  if (size < 2 || (name[size - 1] != 'f' && name[size - 1] != 'l')) return false;
  name[size - 1] = 0;
  return is_named(name);
}

static bool keeps_no_address(const char *symbol) {
  static const struct {
    char first[10], last[10];
  } spellings[] = {{"", ""}, MB_UNLOAD_SAFE_SPELLINGS};
  const size_t size = strlen(symbol);
  char name[NAME_LIMIT];
  if (size >= NAME_LIMIT) return is_named(symbol);
  for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++) {
    const size_t first = strlen(spellings[i].first), last = strlen(spellings[i].last);
    if (size <= first + last || strncmp(symbol, spellings[i].first, first) != 0 ||
        strcmp(symbol + size - last, spellings[i].last) != 0)
      continue;
    const size_t left = size - first - last;
    memcpy(name, symbol + first, left);
    name[left] = 0;
    if (is_named_or_form(name, left)) return true;
  }
  return false;
}

static bool is_of_language(const char *library) {
  static const char names[] = MB_LANGUAGE_LIBRARIES;
  for (const char *name = names; *name; name += strlen(name) + 1)
    if (strncmp(library, name, strlen(name)) == 0) return true;
  return false;
}

bool mb_library_keeps_no_address(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    const ElfW(Dyn) tag = mb_elf_tag_at(elf, i);
    if (tag.d_tag == DT_NEEDED && !is_of_language(elf->strings + tag.d_un.d_val)) return false;
  }
  for (uint64_t i = 1, end = mb_elf_symbols_end(elf); i < end; i++) {
    const ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (symbol.st_shndx == SHN_UNDEF && !keeps_no_address(mb_elf_symbol_name(elf, &symbol)))
      return false;
  }
  return true;
}

/* ---- libraries in memory ---------------------------------------------------------------------- */

struct brought {
  const struct link_map *maps[BROUGHT];
  size_t count;
};

/* An entry of a library's dynamic section, 0 without one. musl leaves addresses as the file has
 * them, glibc adds the library's place. */
static uintptr_t tag_of(const struct link_map *map, ElfW(Sxword) tag) {
  for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
    if ((ElfW(Sxword))d->d_tag == tag) return (uintptr_t)d->d_un.d_ptr;
  return 0;
}

static const void *table_of(const struct link_map *map, ElfW(Sxword) tag) {
  uintptr_t at = tag_of(map, tag);
  return (const void *)(at && at < map->l_addr ? at + map->l_addr : at);
}

/* What the linker calls the library: its SONAME, or else the last part of its path. */
static const char *called(const struct link_map *map) {
  const char *strings = table_of(map, DT_STRTAB), *slash = strrchr(map->l_name, '/');
  uintptr_t name = tag_of(map, DT_SONAME);
  return name && strings ? strings + name : slash ? slash + 1 : map->l_name;
}

static const struct link_map *find_map(const struct link_map *any, const char *name) {
  const char *slash = strrchr(name, '/');
  while (any->l_prev) any = any->l_prev;
  while (any && strcmp(called(any), slash ? slash + 1 : name) != 0 &&
         strcmp(any->l_name, name) != 0)
    any = any->l_next;
  return any;
}

/* Add what a library needs, but for libraries of the language; false: too many, or not found. */
static bool add_needed(struct brought *all, const struct link_map *map) {
  const char *strings = table_of(map, DT_STRTAB);
  for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
    const char *name = d->d_tag == DT_NEEDED ? strings + d->d_un.d_val : NULL;
    if (!name || is_of_language(strrchr(name, '/') ? strrchr(name, '/') + 1 : name)) continue;
    const struct link_map *found = find_map(map, name);
    size_t i = 0;
    while (i < all->count && all->maps[i] != found) i++;
    if (i < all->count) continue;
    if (!found || all->count == BROUGHT) return false;
    all->maps[all->count++] = found;
  }
  return true;
}

/* How many symbols may be undefined: those in front of the hashed ones. */
static size_t undefined_end(const struct link_map *map) {
  const uint32_t *gnu = table_of(map, DT_GNU_HASH), *sysv = table_of(map, DT_HASH);
  return gnu ? gnu[1] : sysv ? sysv[1] : 0;
}

/* True if a library that came along defines the symbol. What it does is told by its own symbols. */
static bool is_defined(const struct brought *all, void *handle, const char *name) {
  Dl_info info;
  const void *address = dlsym(handle, name);
  if (!address || !dladdr(address, &info) || !info.dli_fname) return false;
  for (size_t i = 0; i < all->count; i++)
    if (strcmp(all->maps[i]->l_name, info.dli_fname) == 0) return true;
  return false;
}

static bool is_kept_by(const struct brought *all, void *handle, const ElfW(Sym) * symbol,
                       const char *name) {
  if (symbol->st_shndx != SHN_UNDEF || keeps_no_address(name)) return false;
  if (mb_profile_symbol(name)) return true; /* of this runtime, and not in the table */
  const bool weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
  return !is_defined(all, handle, name) && !(weak && !dlsym(handle, name));
}

bool mb_library_may_be_unmapped(const struct mb_library *library) {
  struct brought all = {.count = 0};
  struct link_map *own = NULL;
  const struct mb_elf *elf = &library->elf;
  if (library->keeps_no_address) return true;
  if (dlinfo(library->handle, RTLD_DI_LINKMAP, &own) != 0 || !own || !add_needed(&all, own))
    return false;
  for (size_t i = 0; i < all.count; i++)
    if (!add_needed(&all, all.maps[i])) return false;
  for (uint64_t i = 1, end = mb_elf_symbols_end(elf); i < end; i++) {
    const ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (is_kept_by(&all, library->handle, &symbol, mb_elf_symbol_name(elf, &symbol))) return false;
  }
  for (size_t k = 0; k < all.count; k++) {
    const ElfW(Sym) *symbols = table_of(all.maps[k], DT_SYMTAB);
    const char *strings = table_of(all.maps[k], DT_STRTAB);
    const size_t end = undefined_end(all.maps[k]);
    if (!symbols || !strings || !end) return false;
    for (size_t i = 1; i < end; i++)
      if (is_kept_by(&all, library->handle, &symbols[i], strings + symbols[i].st_name))
        return false;
  }
  return true;
}
