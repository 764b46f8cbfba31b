/* For format/stream_ffi.c: blobs of TVM 0.22 and later, whose functions this profile cannot call. */
#include "base/base.h"
#include "format/blob.h"
#include "minimal.h"

int mb_modules_read(struct mb_blob *blob) {
  (void)blob;
  return mb_fail(MBLOB_E_INCOMPATIBLE, "it is a library of TVM 0.22 or later" MB_MORE_IN_CORE);
}

int mb_modules_compare(const struct mb_blob *blob) {
  (void)blob;
  return mb_modules_read(NULL);
}

int mb_modules_check(const struct mb_blob *blob) {
  (void)blob;
  return mb_modules_read(NULL);
}
