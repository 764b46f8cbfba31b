#include "core/ffi_library.h"

#include <string.h>

#include "base/base.h"
#include "core/argument.h"
#include "core/plugins.h"

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

const char *mb_ffi_function_name(const char *symbol) {
  return starts_with(symbol, MB_FFI_PREFIX) ? symbol + strlen(MB_FFI_PREFIX) : NULL;
}

/* Libraries in C++ use the classes of libtvm_ffi, and come with it. */
static bool needs_tvm_ffi(const struct mb_elf *elf) {
  for (uint64_t i = 0; i < elf->dynamic_count; i++) {
    ElfW(Dyn) tag = mb_elf_tag_at(elf, i);
    if (tag.d_tag == DT_NEEDED && tag.d_un.d_val < elf->strings_size &&
        starts_with(elf->strings + tag.d_un.d_val, "libtvm_ffi."))
      return true;
  }
  return false;
}

/* 0.22 and later put a prefix before each function; 0.21 is told by its data and by the names of
 * its runtime. */
static enum mb_dialect dialect_of(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  bool old = false;
  for (uint64_t i = 1; i < elf->symbol_count; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    const char *name = mb_elf_symbol_name(elf, &symbol), *own = mb_ffi_function_name(name);
    if (own && mb_elf_is_exported(&symbol)) {
      if (strcmp(own, "library_bin") != 0 && strcmp(own, "library_ctx") != 0) return MB_FFI;
      old = true;
    }
    old |= !library->external && (starts_with(name, "__TVMFFI") || starts_with(name, "TVMFFI"));
  }
  return old ? MB_FFI_OF_0_21 : MB_CLASSIC;
}

void mb_ffi_recognize(struct mb_library *library) {
  library->external = needs_tvm_ffi(&library->elf);
  library->dialect = dialect_of(library);
}

/* The classes raise errors as objects, functions that TVM compiled raise texts. */
static enum mb_cxx cxx_of(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  bool classes = false, compiled = library->has_blob;
  for (uint64_t i = 1; i < elf->symbol_count; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    if (symbol.st_shndx != SHN_UNDEF) continue;
    const char *name = mb_elf_symbol_name(elf, &symbol);
    if (!starts_with(name, "TVMFFIErrorSetRaised")) continue;
    if (name[strlen("TVMFFIErrorSetRaised")])
      compiled = true;
    else
      classes = true;
  }
  return !classes ? MB_CXX_NONE : compiled ? MB_CXX_SOME : MB_CXX_ALL;
}

enum mb_cxx mb_ffi_cxx(struct mb_library *library) {
  if (library->dialect != MB_FFI || library->system_prefix) return MB_CXX_NONE;
  if (library->cxx == MB_CXX_UNKNOWN) library->cxx = cxx_of(library);
  return library->cxx;
}

int mb_ffi_prepare(struct mb_library *library) {
  return library->dialect == MB_CLASSIC ? MBLOB_OK : mb_plugin_convention(&library->convention);
}

void *mb_library_host_symbol(const struct mb_library *library, const char *name) {
  if (library->external && starts_with(name, "TVMFFI")) return NULL;
  void *found =
      library->convention ? library->convention->symbol(library->dialect == MB_FFI, name) : NULL;
  return found ? found : mb_profile_symbol(name);
}
