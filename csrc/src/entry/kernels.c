/* TVM's C backend API (tvm/runtime/c_backend_api.h): what kernels call that may have to look something up. The other
 * functions of it are in host_abi/backend.c. */
#include <tvm/runtime/c_backend_api.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/device/device.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "entry/entry.h"

/* `mod_node` is what the context slot held, or a module. */
int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name, TVMFunctionHandle *out) {
  mb_enter();
  struct mb_library *library = NULL;
  mblob_function *function = NULL;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(func_name)) return -1;
  if (mod_node) {
    uint32_t tag = *(const uint32_t *)mod_node;
    if (tag == MB_TAG_CONTEXT) library = ((const struct mb_context *)mod_node)->library;
    if (tag == MB_TAG_MODULE) library = ((const mblob_module *)mod_node)->library;
  }
  if (mb_environment_get(library, func_name, &function)) return -1;
  *out = function;
  return 0;
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  (void)dtype_code_hint, (void)dtype_bits_hint;
  if (device_type != kDLCPU) mb_enter(); /* it may have to be looked for */
  return mb_workspace_alloc((DLDevice){(DLDeviceType)device_type, device_id}, nbytes);
}
