/* A kind of module whose payload, a u64, is what its save function does: tests/e2e/test_saving.py. */
#include <mblob.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

static int open_kind(void *context, const mblob_module_info *info, void **self) {
  (void)context;
  *self = malloc(8);
  if (*self) memcpy(*self, info->payload, 8);
  return *self ? MBLOB_OK : MBLOB_E_MEMORY;
}

static int add(TVMValue *args, int *codes, int n, TVMRetValueHandle ret, void *resource) {
  uint64_t *number = resource;
  (void)codes;
  *number += n ? (uint64_t)args[0].v_int64 : 0;
  TVMValue value = {.v_int64 = (int64_t)*number};
  int code = kTVMArgInt;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int find(void *self, const char *name, mblob_function **out) {
  return strcmp(name, "add") == 0 ? mblob_function_create(add, self, NULL, out) : MBLOB_OK;
}

/* 1000 + STATUS: its mblob_set_error says STATUS; below: it returns STATUS; 0, and from 1 << 20 on: it saves. */
static int save(void *self, int (*write)(void *, const void *, size_t), void *to) {
  const uint64_t number = *(const uint64_t *)self;
  if (number >= 1 << 20) return write(to, self, 8);
  if (number > 1000) return mblob_set_error((int)number - 1000, "boom");
  return number ? (int)number : write(to, self, 8);
}

static const mblob_loader loader = {.struct_size = sizeof(loader),
                                    .type_key = "ckind",
                                    .open = open_kind,
                                    .function = find,
                                    .close = free,
                                    .layout = "u64",
                                    .save = save};

__attribute__((constructor)) static void start(void) { (void)mblob_register_loader(&loader); }

/* A module without a file, with or without `save`. */
mblob_module *make(int saves) {
  mblob_module *module = NULL;
  mblob_loader made = loader;
  if (!saves) made.save = NULL;
  (void)mblob_module_create(&made, calloc(1, 8), &module);
  return module;
}
