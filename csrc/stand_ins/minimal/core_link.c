/* For core/link/patched_copy.c, unload.c and system_symbols.c: the linker gets the file itself, whose slots are its own
 * and which finds no function of the runtime by its name; code stays in memory unless the program says otherwise; no
 * library is linked into the program. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "base/base.h"
#include "core/link/link.h"
#include "core/link/patched_copy.h"
#include "core/loaded/loaded.h"
#include "minimal.h"

static bool is_slot(const char *name) {
  size_t i = 0;
  while (i < MB_SLOTS_AND_CONTEXTS && strcmp(name, mb_slot_name(i)) != 0) i++;
  return i < MB_SLOTS_AND_CONTEXTS;
}

int mb_link_copy(struct mb_library *library, const char *folder) {
  const struct mb_elf *elf = &library->elf;
  const uint64_t used = mb_elf_symbols_used(elf);
  (void)folder;
  for (uint64_t i = 1, end = used > elf->symbol_count ? used : elf->symbol_count; i < end; i++) {
    const ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    const char *name = mb_elf_symbol_name(elf, &symbol);
    if (symbol.st_shndx == SHN_UNDEF) {
      const void *own = mb_library_host_symbol(library, name);
      if (own && ELF64_ST_BIND(symbol.st_info) != STB_WEAK && dlsym(RTLD_DEFAULT, name) != own)
        return mb_fail(MBLOB_E_INCOMPATIBLE,
                       "it calls %s by its name: build it against mblob's headers" MB_MORE_IN_CORE,
                       name);
    } else if (mb_elf_is_exported(&symbol) && is_slot(name) && dlsym(RTLD_DEFAULT, name)) {
      return mb_fail(MBLOB_E_INCOMPATIBLE,
                     "another library of this process has its variable %s" MB_MORE_IN_CORE, name);
    }
  }
  return MBLOB_OK;
}

bool mb_link_is_runtime(const char *name) {
  (void)name;
  return false;
}

int mb_link_copy_give_back(const struct mb_library *library) {
  (void)library;
  return MBLOB_OK;
}

bool mb_library_keeps_no_address(const struct mb_library *library) {
  (void)library;
  return false;
}

bool mb_library_may_be_unmapped(const struct mb_library *library) {
  (void)library;
  return false;
}

void *mb_system_symbol(const char *prefix, const char *name, enum mb_system_names names,
                       unsigned char *dialect) {
  (void)prefix, (void)name, (void)names, (void)dialect;
  return NULL;
}
