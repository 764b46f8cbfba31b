/* The CUDA plug-in: type key `cuda` and memory of kinds cuda, cuda_host and cuda_managed, over
 * NVIDIA's driver. */
#define _GNU_SOURCE
#include <stdio.h>

#include "base/base.h"
#include "memory.h"
#include "module.h"

static int describe(char *text, size_t size) {
  int count = 0, version = 0;
  int status = cuda_count(&count);
  if (status) return status;
  struct cuda_scope scope;
  status = cuda_enter(0, &scope); /* says so where there is no device */
  if (status) return status;
  (void)scope.driver->driver_version(&version);
  size_t used = (size_t)snprintf(text, size, "CUDA %d.%d, %d device%s", version / 1000,
                                 version % 1000 / 10, count, count == 1 ? "" : "s");
  const char *separator = ": ";
  cuda_leave(&scope);
  for (int i = 0; i < count && used < size; i++) {
    if (cuda_enter(i, &scope)) continue;
    used +=
        (size_t)snprintf(text + used, size - used, "%s%s (sm_%d%d)", separator, scope.device->name,
                         scope.device->compute_major, scope.device->compute_minor);
    separator = ", ";
    cuda_leave(&scope);
  }
  return MBLOB_OK;
}

static const mblob_runtime runtimes[] = {{.type_key = MB_KEY_CUDA,
                                          .open = cuda_module_open,
                                          .function = cuda_module_function,
                                          .call = cuda_module_call,
                                          .close = cuda_module_close}};

MBLOB_PLUGIN(cuda) = {
    .abi_version = MBLOB_PLUGIN_ABI,
    .struct_size = sizeof(mblob_plugin),
    .name = "cuda",
    .version = MBLOB_VERSION,
    .type_keys = MB_KEY_CUDA,
    .devices = "2,3,13",
    .needs = "libcuda.so.1 (NVIDIA's driver; MBLOB_CUDA_LIBRARY names another), and a GPU",
    .start = mb_host_start,
    .describe = describe,
    .runtimes = runtimes,
    .device_apis = cuda_device_apis,
    .runtime_count = 1,
    .device_api_count = CUDA_DEVICE_APIS};
