/* A plug-in for tests. Its key TOY_KEY has functions in_child() -> 10 * TOY_NUMBER + letters of
 * the payload, sum(tensors) on its device, and fails(); its device type TOY_DEVICE keeps data at
 * addresses that nobody can read: of each allocation the caller gets an opaque number. */
#define _GNU_SOURCE
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TOY_NUMBER
#define TOY_NUMBER 4
#endif
#ifndef TOY_ABI
#define TOY_ABI MBLOB_PLUGIN_ABI
#endif
#ifndef TOY_KEY
#define TOY_KEY "my_key"
#endif
#define TOY_DEVICE 12 /* kDLExtDev */

static const mblob_host *host;

struct toy {
  size_t letters;
  int functions; /* that were not given back */
};

static const char *const names[] = {"in_child", "sum", "fails", "silent"};

static int toy_open(const mblob_host *table, const mblob_module_info *info, void **self) {
  const char *silent = getenv("TOY_OPENS_AS");
  if (silent) return atoi(silent); /* and no reason */
  struct toy *toy = calloc(1, sizeof(*toy));
  if (!toy || table != host) return table->set_error(MBLOB_E_MEMORY, "toy: no memory");
  toy->letters = (size_t)info->payload_size;
  if (info->payload_size && *(const char *)info->payload == '!') {
    free(toy);
    return table->set_error(MBLOB_E_FORMAT, "toy: the payload is wrong");
  }
  table->names(info->module, names, sizeof(names) / sizeof(*names));
  *self = toy;
  return MBLOB_OK;
}

static int toy_function(void *self, const char *name, void **function) {
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (strcmp(name, names[i]) == 0) {
      *function = (void *)(uintptr_t)names[i];
      ((struct toy *)self)->functions++;
    }
  return MBLOB_OK;
}

static void toy_release(void *self, void *function) {
  (void)function;
  ((struct toy *)self)->functions--;
}

static void toy_close(void *self) {
  struct toy *toy = self;
  if (toy->functions) abort(); /* the runtime promised to give them back first */
  free(toy);
}

/* ---- the device: handles are numbers, data is elsewhere ---- */

struct block {
  void *data;
  size_t size;
};
static struct block blocks[256];
static int live, current_device = -1;

static struct block *block_of(const void *handle) {
  uintptr_t number = (uintptr_t)handle;
  return number >= 0x1000 && number < 0x1000 + 256 && blocks[number - 0x1000].data
             ? &blocks[number - 0x1000]
             : NULL;
}

static int toy_count(int *out) {
  *out = 2;
  return MBLOB_OK;
}

static int toy_set_device(int device_id) {
  current_device = device_id;
  return MBLOB_OK;
}

static int toy_allocate(int device_id, uint64_t size, uint64_t alignment, void **out) {
  (void)device_id, (void)alignment;
  if (size > 1 << 24) return host->set_error(MBLOB_E_MEMORY, "toy: the device has 16 MiB");
  for (size_t i = 0; i < 256; i++)
    if (!blocks[i].data) {
      blocks[i] = (struct block){calloc(1, size + 1), size};
      *out = (void *)(0x1000 + i);
      __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
      return MBLOB_OK;
    }
  return MBLOB_E_MEMORY; /* and no reason */
}

static int toy_free(int device_id, void *data) {
  struct block *block = block_of(data);
  (void)device_id;
  if (!block) return host->set_error(MBLOB_E_ARGUMENT, "toy: not allocated here");
  free(block->data);
  *block = (struct block){NULL, 0};
  __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
  return MBLOB_OK;
}

static char *address(const void *data, DLDevice device, uint64_t offset, uint64_t size) {
  if (device.device_type != TOY_DEVICE) return (char *)(uintptr_t)data + offset;
  struct block *block = block_of(data);
  return block && offset <= block->size && size <= block->size - offset
             ? (char *)block->data + offset
             : NULL;
}

static int toy_copy(const mblob_copy *c) {
  const char *from = address(c->from, c->from_device, c->from_offset, c->size);
  char *to = address(c->to, c->to_device, c->to_offset, c->size);
  if (!from || !to) return host->set_error(MBLOB_E_ARGUMENT, "toy: outside of the memory");
  if (getenv("TOY_LOST")) return host->set_error(MBLOB_E_KERNEL, "toy: the device is lost");
  memmove(to, from, c->size);
  return MBLOB_OK;
}

static int toy_attribute(int device_id, int kind, int64_t *number, char *text, size_t size) {
  if (kind == MBLOB_DEVICE_NAME) return (void)snprintf(text, size, "toy %d", device_id), MBLOB_OK;
  if (kind != MBLOB_DEVICE_WARP_SIZE) return host->set_error(MBLOB_E_NOT_FOUND, "toy: not known");
  *number = 7;
  return MBLOB_OK;
}

/* ---- calls ---- */

static int sum(const TVMValue *args, const int *codes, int count, void *ret) {
  float total = 0;
  for (int i = 0; i + 1 < count; i++) {
    const DLTensor *t = args[i].v_handle;
    if (codes[i] != kTVMDLTensorHandle && codes[i] != kTVMNDArrayHandle)
      return host->set_error(MBLOB_E_ARGUMENT, "sum: no tensor");
    const char *data = address(t->data, t->device, t->byte_offset, 4);
    float value;
    if (!data) return host->set_error(MBLOB_E_ARGUMENT, "sum: no memory of the device");
    memcpy(&value, data, sizeof(value));
    total += value;
  }
  const DLTensor *to = args[count - 1].v_handle;
  char *data = address(to->data, to->device, to->byte_offset, 4);
  if (!data) return host->set_error(MBLOB_E_ARGUMENT, "sum: no memory of the device");
  memcpy(data, &total, sizeof(total));
  return host->return_value(ret, (TVMValue){.v_int64 = current_device}, kTVMArgInt);
}

static int toy_call(void *self, void *function, const TVMValue *args, const int *codes, int count,
                    void *ret) {
  const struct toy *toy = self;
  if (strcmp(function, "fails") == 0)
    return host->set_error(MBLOB_E_KERNEL, "toy: fails as it should");
  if (strcmp(function, "silent") == 0) return MBLOB_E_KERNEL;
  if (strcmp(function, "sum") == 0) return sum(args, codes, count, ret);
  return host->return_value(ret, (TVMValue){.v_int64 = 10 * TOY_NUMBER + (int64_t)toy->letters},
                            kTVMArgInt);
}

static int toy_start(const mblob_host *table) {
  char count[16]; /* of all copies in the process */
  const char *before = getenv("TOY_STARTS");
  (void)snprintf(count, sizeof(count), "%d", before ? atoi(before) + 1 : 1);
  (void)setenv("TOY_STARTS", count, 1);
  host = table;
  const char *silent = getenv("TOY_STARTS_AS");
  if (silent) return atoi(silent); /* and no reason */
  if (getenv("TOY_FAILS_AS_OK")) {
    (void)table->set_error(MBLOB_OK, "libtoy.so.1 is odd");
    return -1;
  }
  return getenv("TOY_FAILS")
             ? table->set_error(MBLOB_E_INCOMPATIBLE, "libtoy.so.1 is not installed")
             : MBLOB_OK;
}

static int toy_describe(char *text, size_t size) {
  (void)snprintf(text, size, "toy number %d", TOY_NUMBER);
  return MBLOB_OK;
}

static const mblob_runtime runtimes[] = {
    {TOY_KEY, toy_open, toy_function, toy_call, toy_release, toy_close}};
static const mblob_device_api devices[] = {{.device_type = TOY_DEVICE,
                                            .name = "toy",
                                            .count = toy_count,
                                            .attribute = toy_attribute,
                                            .set_device = toy_set_device,
                                            .allocate = toy_allocate,
                                            .free = toy_free,
                                            .copy = toy_copy}};

MBLOB_PLUGIN(toy) = {.abi_version = TOY_ABI,
                     .struct_size = sizeof(mblob_plugin),
                     .name = "toy",
                     .version = "1.0",
                     .type_keys = TOY_KEY,
                     .devices = "12",
                     .needs = "nothing",
                     .start = toy_start,
                     .describe = toy_describe,
                     .runtimes = runtimes,
                     .device_apis = devices,
#ifdef TOY_LIES
                     .runtime_count = 0,
#else
                     .runtime_count = 1,
#endif
                     .device_api_count = 1};
