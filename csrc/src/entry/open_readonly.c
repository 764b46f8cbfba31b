/* mblob_open_readonly: a library as its file tells it. */
#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"

static int look_without_loading(struct mb_source *source, const mblob_open_options *options,
                                mblob_module **out) {
  struct mb_library *library = mb_library_new(source);
  if (!library) {
    mb_source_close(source);
    return MBLOB_E_MEMORY;
  }
  library->is_readonly = true;
  mb_library_retain(library);
  int status = mb_library_read(library, options, &library->trees);
  if (!status) {
    *out = &library->trees->modules[0];
    return MBLOB_OK;
  }
  mb_error_prefix(library->source.path);
  mb_library_release(library);
  return status;
}

int mblob_open_readonly(const char *path, int verify, mblob_module **out) {
  struct mb_source source;
  const mblob_open_options wanted = {
      .struct_size = sizeof(wanted), .verify = verify, .missing = MBLOB_MISSING_STUB};
  mblob_open_options options;
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_IS_NULL(path)) return MBLOB_E_ARGUMENT;
  int status = mb_take_options(&wanted, &options);
  if (!status) status = mb_source_open(path, &source);
  return status ? status : look_without_loading(&source, &options, out);
}
