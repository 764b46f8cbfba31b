/* For core/link: the library is the one that this code is in, and its kernels are in memory already. */
#include "core/link/link.h"

enum mb_cxx mb_ffi_cxx(struct mb_library *library) {
  (void)library;
  return MB_CXX_NONE;
}
#ifdef MBLOB_WITH_FFI
const char *mb_ffi_function_name(const char *symbol) {
  const size_t size = strlen(MB_FFI_PREFIX);
  return strncmp(symbol, MB_FFI_PREFIX, size) == 0 ? symbol + size : NULL;
}
#else
const char *mb_ffi_function_name(const char *symbol) {
  (void)symbol;
  return NULL;
}
#endif

void mb_library_code_names(const struct mb_library *library, mb_name_visitor visit, void *context) {
  (void)library, (void)visit, (void)context;
}

bool mb_library_unlink(struct mb_library *library) {
  (void)library;
  return true;
}
void mb_library_release_needed(struct mb_needed *needed) { (void)needed; }
