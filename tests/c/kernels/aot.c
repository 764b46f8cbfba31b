/* A model compiled ahead of time, y = x * w + k with memory planned at compile time, whose
 * metadata can be changed: tests lie in it. */
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

struct tensor_info {
  const char *name;
  const int64_t *shape;
  int64_t ndim;
  DLDataType dtype;
};
struct constant_info {
  const char *name;
  int64_t offset, size;
  const void *record;
};
struct metadata {
  int64_t version;
  const struct tensor_info *inputs;
  int64_t input_count;
  const struct tensor_info *outputs;
  int64_t output_count;
  const struct tensor_info *pools;
  int64_t pool_count;
  const struct constant_info *constants;
  int64_t constant_count;
  const char *name;
};

static int64_t shape[] = {4}, pool_shape[] = {256};
static struct tensor_info inputs[] = {{"x", shape, 1, {2, 32, 1}}, {"w", shape, 1, {2, 32, 1}}};
static struct tensor_info outputs[] = {{"y", shape, 1, {2, 32, 1}}};
static struct tensor_info pools[] = {{"workspace", pool_shape, 1, {0, 8, 1}}};
static struct {
  uint64_t magic, reserved;
  int32_t device[2], ndim;
  DLDataType dtype;
  int64_t shape[1], size;
  float data[4];
} __attribute__((packed)) record = {
    UINT64_C(0xDD5E40F096B4A13F), 0, {1, 0}, 1, {2, 32, 1}, {4}, 16, {1, 2, 3, 4}};
static struct constant_info constants[] = {{"k", 64, sizeof(record), &record},
                                           {"in front", 0, sizeof(record), &record}};
static struct metadata meta = {1, inputs, 2, outputs, 1, pools, 1, constants, 2, "model"};

static const struct {
  void *start;
  size_t size;
} parts[] = {{&meta, sizeof(meta)},
             {inputs, sizeof(inputs)},
             {outputs, sizeof(outputs)},
             {pools, sizeof(pools)},
             {constants, sizeof(constants)},
             {shape, sizeof(shape)},
             {pool_shape, sizeof(pool_shape)},
             {&record, sizeof(record) & ~(size_t)7}};

/* (i): address of word i of the metadata and what it points to; 0 behind the last. */
TVM_DLL int word(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self);
TVM_DLL int word(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *self) {
  size_t at = 8 * (size_t)args[0].v_int64, i = 0;
  (void)codes;
  (void)count;
  (void)self;
  while (i < sizeof(parts) / sizeof(*parts) && at >= parts[i].size) at -= parts[i++].size;
  ret->v_int64 =
      i < sizeof(parts) / sizeof(*parts) ? (int64_t)(uintptr_t)((char *)parts[i].start + at) : 0;
  *ret_code = kTVMArgInt;
  return 0;
}

TVM_DLL int get_c_metadata(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                           void *self);
TVM_DLL int get_c_metadata(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                           void *self) {
  (void)args;
  (void)codes;
  (void)count;
  (void)self;
  ret->v_handle = &meta;
  *ret_code = kTVMOpaqueHandle;
  return 0;
}

static int64_t size_of(const DLTensor *t) {
  int64_t size = (t->dtype.bits * t->dtype.lanes + 7) / 8;
  for (int i = 0; i < t->ndim; i++) size *= t->shape[i];
  return size;
}

static int fail(const char *text) {
  TVMAPISetLastError(text);
  return -1;
}

/* As compiled code it asks for what it was compiled for; then all of the memory that it got must
 * be there. */
TVM_DLL int model___tvm_main__(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                               void *self);
TVM_DLL int model___tvm_main__(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                               void *self) {
  (void)ret;
  (void)ret_code;
  (void)self;
  for (int i = 0; i < count; i++) {
    DLTensor *t = args[i].v_handle;
    if (codes[i] != kTVMDLTensorHandle || (uintptr_t)t->data % 64)
      return fail("model: expected aligned tensors");
    if (i >= 2 && size_of(t) <= 1 << 20)
      ((volatile char *)t->data)[size_of(t) ? size_of(t) - 1 : 0] += 0;
  }
  if (count != 5) return fail("model: num_args should be 5");
  for (int i = 0; i < 3; i++)
    if (size_of(args[i].v_handle) != 16) return fail("model: expected float32[4]");
  if (size_of(args[3].v_handle) != 80 || size_of(args[4].v_handle) != 256)
    return fail("model: pools of a wrong size");
  const float *x = ((DLTensor *)args[0].v_handle)->data, *w = ((DLTensor *)args[1].v_handle)->data;
  const float *k = (const float *)((const char *)((DLTensor *)args[3].v_handle)->data + 64);
  float *y = ((DLTensor *)args[2].v_handle)->data, *t = ((DLTensor *)args[4].v_handle)->data;
  for (int i = 0; i < 4; i++) t[i] = x[i] * w[i];
  for (int i = 0; i < 4; i++) y[i] = t[i] + k[i];
  return 0;
}
