/* The plug-in `opencl`: modules of TVM's key `opencl`, and the memory of OpenCL devices. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "base/base.h"
#include "cl_launch.h"
#include "cl_memory.h"
#include "common.h"

static void close_module(void *self) {
  struct mb_cl_module *m = self;
  mb_cl_launchers_free(m);
  for (uint64_t i = 0; m->locks && i < m->payload.part_count; i++) mb_lock_destroy(&m->locks[i]);
  free(m->locks);
  free(m->programs);
  free(m->launchers);
  mb_cl_payload_free(&m->payload);
  free(m);
}

static int open_module(const mblob_host *host, const struct mblob_module_info *info, void **self) {
  struct mb_cl_module *m = calloc(1, sizeof(*m));
  *self = NULL;
  if (!m) return mb_fail_memory(sizeof(*m));
  int status = mb_cl_payload_read(info->payload, info->payload_size, mb_is_ffi(info), &m->payload);
  if (!status) {
    const size_t parts = (size_t)m->payload.part_count, kernels = (size_t)m->payload.kernels.count;
    m->locks = calloc(parts + 1, sizeof(*m->locks));
    m->programs = calloc(parts + 1, sizeof(*m->programs));
    m->launchers = calloc(kernels + 1, sizeof(*m->launchers));
    if (!m->locks || !m->programs || !m->launchers)
      status = mb_fail_memory((parts + kernels) * sizeof(void *));
    for (size_t i = 0; !status && i < parts; i++)
      mb_lock_init_uncounted(&m->locks[i]); /* drivers compile */
  }
  if (status) {
    close_module(m);
    return status;
  }
  host->names(info->module, m->payload.kernels.names, m->payload.kernels.count);
  *self = m;
  return MBLOB_OK;
}

/* A function is the declaration of its kernel. */
static int find_function(void *self, const char *name, void **function) {
  const struct mb_cl_module *m = self;
  struct mb_kernel *kernel = mb_map_get(&m->payload.kernels.by_name, name);
  const int status = kernel ? mb_cl_payload_check(&m->payload, kernel) : MBLOB_OK;
  *function = status ? NULL : kernel;
  return status;
}

static int call(void *self, void *function, const TVMValue *args, const int *codes, int count,
                void *ret) {
  struct mb_cl_module *m = self;
  const struct mb_kernel *kernel = function;
  (void)ret; /* kernels return nothing */
  return mb_cl_launch(m, (uint64_t)(kernel - m->payload.kernels.items), args, codes, count);
}

static const mblob_runtime runtimes[] = {{.type_key = MB_KEY_OPENCL,
                                          .open = open_module,
                                          .function = find_function,
                                          .call = call,
                                          .close = close_module}};

MBLOB_PLUGIN(opencl) = {.abi_version = MBLOB_PLUGIN_ABI,
                        .struct_size = sizeof(mblob_plugin),
                        .name = "opencl",
                        .version = MBLOB_VERSION,
                        .type_keys = MB_KEY_OPENCL,
                        .devices = "4",
                        .needs = "libOpenCL.so.1 (MBLOB_OPENCL_LIBRARY) and the driver of a device",
                        .start = mb_host_start,
                        .describe = mb_cl_describe_all,
                        .runtimes = runtimes,
                        .device_apis = &mb_cl_device_table,
                        .runtime_count = 1,
                        .device_api_count = 1};
