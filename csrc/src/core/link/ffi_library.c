#include "core/link/ffi_library.h"

#include "core/loaded/loaded.h"

#include <string.h>

#include "base/base.h"

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

/* The context of a module, and the name of its entry function: every object that TVM compiled has one
 * of them, but for TVM's C sources, and none that mblob wrote. */
static bool is_of_module(const char *name) {
  return strcmp(name, "__tvm_module_ctx") == 0 || strcmp(name, "__tvm_main__") == 0;
}

/* A slot, which mblob's packed functions have, too. */
static bool is_ffi_slot(const char *name) { return starts_with(name, "__TVM"); }

/* What only code for TVM's runtime asks for: its C functions, and its classes of C++. */
static bool is_of_runtime(const char *name) {
  static const char starts[][10] = {"TVM", "_ZN3tvm", "_ZNK3tvm", "_ZTIN3tvm", "_ZTVN3tvm"};
  for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
    if (starts_with(name, starts[i])) return true;
  return false;
}

/* The dialect. 0.22 and later put a prefix before each function; 0.21 is told by its data and by the
 * names of its runtime.
 *
 * And whether the functions are packed ones of which no table says anything, as
 * mblob/format/exported_functions.py decides it: TVM compiled them, or wrote the blob. mblob lists its own in a
 * table, and announces its blob in a note. */
void mb_ffi_recognize(struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  const bool listed = library->table.text != NULL;
  bool old = false, compiled = library->has_blob && !listed && !library->index_expected;
  library->external = needs_tvm_ffi(elf);
  library->dialect = MB_CLASSIC;
  for (uint64_t i = 1; i < elf->symbol_count; i++) {
    ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    const char *name = mb_elf_symbol_name(elf, &symbol);
    if (name[0] != '_' && name[0] != 'T') continue; /* most, and none of the names below */
    const char *own = mb_ffi_function_name(name);
    if (own && mb_elf_is_exported(&symbol)) {
      if (strcmp(own, "library_bin") != 0 && strcmp(own, "library_ctx") != 0) {
        library->dialect = MB_FFI;
        return;
      }
      old = true;
    }
    old |= !library->external && (starts_with(name, "__TVMFFI") || starts_with(name, "TVMFFI"));
    compiled |= is_of_module(name) || (!listed && is_ffi_slot(name)) ||
                (symbol.st_shndx == SHN_UNDEF && is_of_runtime(name));
  }
  if (old) library->dialect = MB_FFI_OF_0_21;
  library->is_compiled_by_tvm = compiled || old;
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

void *mb_library_host_symbol(const struct mb_library *library, const char *name) {
  if (library->external && starts_with(name, "TVMFFI")) return NULL;
  void *found =
      library->convention ? library->convention->symbol(library->dialect == MB_FFI, name) : NULL;
  return found ? found : mb_profile_symbol(name);
}
