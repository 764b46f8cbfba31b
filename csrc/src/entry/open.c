/* mblob.h: what a program calls to open a library. */
#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "entry/entry.h"

/* `status` tells whether there is a source. */
static int opened(int status, struct mb_source *source, const mblob_open_options *options,
                  mblob_module **out) {
  return status ? status : mb_open_source(source, options, out);
}

int mblob_open(const char *path, const mblob_open_options *options, mblob_module **out) {
  struct mb_source source;
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (MB_IS_NULL(path)) return MBLOB_E_ARGUMENT;
  return opened(mb_source_open(path, &source), &source, options, out);
}

int mblob_open_fd(int fd, const mblob_open_options *options, mblob_module **out) {
  struct mb_source source;
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  return opened(mb_source_open_fd(fd, &source), &source, options, out);
}

int mblob_open_memory(const void *data, size_t size, const mblob_open_options *options,
                      mblob_module **out) {
  struct mb_source source;
  mb_enter();
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (size && MB_IS_NULL(data)) return MBLOB_E_ARGUMENT;
  return opened(mb_source_open_memory(data, size, &source), &source, options, out);
}
