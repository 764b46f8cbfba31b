/* A kind of module in C: "counter_c". Its payload is a name (u64 length, bytes) and a u64. */
#include <mblob.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

struct counter {
  const char *name; /* in the mapped file */
  uint64_t name_size, count;
};

/* The layout says that both fields are there. */
static int open_counter(void *context, const mblob_module_info *info, void **self) {
  (void)context;
  const char *bytes = info->payload;
  struct counter *counter = malloc(sizeof(*counter));
  if (!counter) return mblob_set_error(MBLOB_E_MEMORY, "counter_c: out of memory");
  memcpy(&counter->name_size, bytes, 8);
  if (info->payload_size < 16 || counter->name_size != info->payload_size - 16) {
    free(counter);
    return mblob_set_error(MBLOB_E_FORMAT, "counter_c: not a name and a number");
  }
  counter->name = bytes + 8;
  memcpy(&counter->count, bytes + 8 + counter->name_size, 8);
  *self = counter;
  return MBLOB_OK;
}

static int count(TVMValue *args, int *codes, int n, TVMRetValueHandle ret, void *resource) {
  struct counter *counter = resource;
  (void)codes;
  if (n != 1) return mblob_set_error(MBLOB_E_ARGUMENT, "c_count: expected 1 argument");
  counter->count += (uint64_t)args[0].v_int64;
  TVMValue value = {.v_int64 = (int64_t)counter->count};
  int code = kTVMArgInt;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int find(void *self, const char *name, mblob_function **out) {
  if (strcmp(name, "c_count") != 0) return MBLOB_OK;
  return mblob_function_create(count, self, NULL, out);
}

/* mblob_loader.save: what the module has become. */
static int save(void *self, int (*write)(void *, const void *, size_t), void *to) {
  const struct counter *counter = self;
  int status = write(to, &counter->name_size, 8);
  if (!status) status = write(to, counter->name, (size_t)counter->name_size);
  return status ? status : write(to, &counter->count, 8);
}

__attribute__((constructor)) static void register_counter(void) {
  const mblob_loader loader = {.struct_size = sizeof(loader),
                               .type_key = "counter_c",
                               .open = open_counter,
                               .function = find,
                               .close = free,
                               .layout = "string,u64",
                               .save = save};
  (void)mblob_register_loader(&loader);
}
