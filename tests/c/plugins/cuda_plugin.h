/* cuda_plugin.h - what the tests of the CUDA plug-in share: it runs against a double of NVIDIA's
 * driver (fake_cuda.c). */
#ifndef CUDA_PLUGIN_H
#define CUDA_PLUGIN_H

#include <dlfcn.h>
#include <stdbool.h>

#include "fake_cuda.h"
#include "plugin_host.h"

extern const mblob_plugin __mblob_plugin_cuda;
static const mblob_runtime *runtime;
static const mblob_device_api *device, *pinned, *managed;
static struct fake_cuda *fake;
static void (*define_kernel)(const char *name, fake_kernel run);
static char library[4096];

/* Start the plug-in over the double. */
static inline void begin(void) {
  setenv("MBLOB_CUDA_LIBRARY", library, 1);
  void *opened = dlopen(library, RTLD_NOW);
  CHECK(opened);
  fake = dlsym(opened, "fake_cuda_state");
  *(void **)&define_kernel = dlsym(opened, "fake_cuda_define");
  CHECK(fake && define_kernel);
  CHECK(__mblob_plugin_cuda.start(&plugin_host) == MBLOB_OK);
}

/* Of the calls of that name (NULL: of all) the one behind the next `countdown` fails. */
static inline void fail(const char *function, int countdown, int error) {
  fake_fail(&fake->calls, function, countdown, 1, error);
}

static inline void nothing_is_left(void) {
  CHECK(fake->live_memory == 0 && fake->live_modules == 0 && fake->live_streams == 0 &&
        fake->live_events == 0);
  CHECK(fake->pushed == 0);
}

static const char ptx[] =
    "//\n.version 8.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry add(\n.param .u64 a, .param .u64 b,\n\t.param .u64 .ptr .global .align 4 c, .param .u32 n\n)\n{ ret; }\n"
    ".visible .entry bounded(\n)\n{ ret; }\n"
    ".visible .entry scalars(.param .u32 a, .param .u64 b, .param .b32 c, .param .u8 d, .param .f32 e, .param .f64 f){ ret; }\n";

static inline struct bytes payload_of(const char *fmt, const void *code, size_t size) {
  struct bytes out = {.size = 0};
  put_string(&out, fmt);
  put_u64(&out, 4);
  put_kernel(&out, "add", "pppi", "blockIdx.x,threadIdx.x,tir.use_dyn_shared_memory");
  put_kernel(&out, "bounded", "",
             "threadIdx.x,threadIdx.y,threadIdx.z,blockIdx.x,blockIdx.y,blockIdx.z");
  put_kernel(&out, "scalars", "ilubfd", "");
  put_kernel(&out, "missing", "", "");
  put_u64(&out, size);
  put_bytes(&out, code, size);
  return out;
}

static inline int open_payload(const struct bytes *payload, void **self) {
  static const char path[] = "deploy.so";
  const mblob_module_info info = {.struct_size = sizeof(info),
                                  .type_key = "cuda",
                                  .index = 1,
                                  .path = path,
                                  .dialect = "classic",
                                  .payload = payload->data,
                                  .payload_size = payload->size};
  *self = NULL;
  return runtime->open(&plugin_host, &info, self);
}

static inline void *function_of(void *self, const char *name) {
  void *function = NULL;
  CHECK(runtime->function(self, name, &function) == MBLOB_OK);
  return function;
}

static inline void *open_ptx(struct bytes *payload) {
  void *self;
  *payload = payload_of("ptx", ptx, sizeof(ptx) - 1);
  CHECK(open_payload(payload, &self) == MBLOB_OK);
  return self;
}

static inline void upload(void *to, int device_id, const void *data, uint64_t size) {
  const mblob_copy c = {.from = data,
                        .from_device = {kDLCPU, 0},
                        .to = to,
                        .to_device = {kDLCUDA, device_id},
                        .size = size};
  CHECK(device->copy(&c) == MBLOB_OK);
}
static inline void download(const void *from, int device_id, void *data, uint64_t size) {
  const mblob_copy c = {.from = from,
                        .from_device = {kDLCUDA, device_id},
                        .to = data,
                        .to_device = {kDLCPU, 0},
                        .size = size};
  CHECK(device->copy(&c) == MBLOB_OK);
}

static inline int launch_shared(void *self, int64_t bytes) {
  TVMValue args[7] = {{.v_handle = NULL}, {.v_handle = NULL}, {.v_handle = NULL}, {.v_int64 = 0},
                      {.v_int64 = 1},     {.v_int64 = 1},     {.v_int64 = bytes}};
  int codes[7] = {kTVMNullptr, kTVMNullptr, kTVMNullptr, 0, 0, 0, 0};
  return runtime->call(self, function_of(self, "add"), args, codes, 7, NULL);
}

/* For `main`: the plug-in's tables; false where CUDA has no drivers. */
static inline bool cuda_tables(const char *folder) {
  snprintf(library, sizeof(library), "%s/libcuda.so.1", folder);
  runtime = __mblob_plugin_cuda.runtimes;
  device = &__mblob_plugin_cuda.device_apis[0], pinned = &__mblob_plugin_cuda.device_apis[1];
  managed = &__mblob_plugin_cuda.device_apis[2];
  CHECK(device->device_type == kDLCUDA && pinned->device_type == kDLCUDAHost &&
        managed->device_type == kDLCUDAManaged);
  if (sizeof(void *) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) return true;
  printf("  left out: CUDA has drivers for 64-bit little-endian machines alone\n");
  return false;
}

#endif
