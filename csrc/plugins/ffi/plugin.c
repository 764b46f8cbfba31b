/* libmblob-ffi: the dialect of TVM 0.21 and later, for libmblob, which opens it when it meets a
 * library of that dialect. */
#include <stdio.h>

#include "common.h"
#include "convention.h"

static int describe(char *text, size_t size) {
  (void)snprintf(text, size, "libraries of TVM 0.21 to " MB_TVM_LAST " and of tvm_ffi 0.1");
  return MBLOB_OK;
}

MBLOB_PLUGIN(ffi) = {.abi_version = MBLOB_PLUGIN_ABI,
                     .struct_size = sizeof(mblob_plugin),
                     .name = "ffi",
                     .version = MBLOB_VERSION,
                     .type_keys = "",
                     .devices = "",
                     .needs = "",
                     .start = mb_host_start,
                     .describe = describe,
                     .convention = &mb_ffi_convention};
