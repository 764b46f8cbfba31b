#define _GNU_SOURCE
#include "core/device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/workspace.h"

enum { KINDS = MB_DEVICE_KINDS };

static _Atomic(const mblob_device_api *) apis[KINDS]; /* by device type */

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
  uint8_t type;
  char name[MB_DEVICE_NAME_SIZE];
} device_names[] = {MB_DEVICE_NAMES};

const char *mb_device_name(int device_type) {
  for (size_t i = 0; i < sizeof(device_names) / sizeof(*device_names); i++)
    if (device_names[i].type == device_type) return device_names[i].name;
  return NULL;
}

const char *mb_device_text(DLDevice device, char text[MB_DEVICE_TEXT]) {
  const char *name = mb_device_name((int)device.device_type);
  if (name)
    (void)snprintf(text, MB_DEVICE_TEXT, "%s:%d", name, (int)device.device_id);
  else
    (void)snprintf(text, MB_DEVICE_TEXT, "device_type_%d:%d", (int)device.device_type,
                   (int)device.device_id);
  return text;
}

/* ---- which there are ------------------------------------------------------------------------- */

int mb_device_register(const mblob_device_api *api) {
  if (api->device_type <= kDLCPU || api->device_type >= KINDS || !api->name || !api->count ||
      !api->allocate || !api->free || !api->copy)
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "device type %d: a table needs a type from 2 to %d, a name, count, allocate, free and copy",
        api->device_type, KINDS - 1);
  const mblob_device_api *none = NULL;
  (void)atomic_compare_exchange_strong(&apis[api->device_type], &none, api);
  return MBLOB_OK;
}

const mblob_device_api *mb_device_registered(int device_type) {
  return device_type > 0 && device_type < KINDS ? atomic_load(&apis[device_type]) : NULL;
}

/* Both lists are for people. */
static void list_known(char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "cpu");
  for (size_t i = 0; i < KINDS && used < size; i++) {
    const mblob_device_api *api = atomic_load(&apis[i]);
    if (api) used += (size_t)snprintf(text + used, size - used, ", %s", api->name);
  }
}

static int unknown_device(int device_type) {
  char known[128];
  const char *name = mb_device_name(device_type);
  list_known(known, sizeof(known));
  return mb_fail(
      MBLOB_E_INCOMPATIBLE,
      "no runtime for device type %d (%s) is in this process; there is: %s; plug-ins are looked for in "
      "libraries, on MBLOB_PLUGIN_PATH and beside libmblob",
      device_type, name ? name : "unknown", known);
}

int mb_device_api(int device_type, const mblob_device_api **out) {
  *out = NULL;
  if (device_type <= 0 || device_type >= KINDS) return unknown_device(device_type);
  *out = atomic_load_explicit(&apis[device_type], memory_order_acquire);
  if (*out) return MBLOB_OK;
  const struct mb_profile *profile = mb_profile_of_program();
  int status = profile ? profile->find_device(device_type) : MBLOB_OK;
  *out = mb_device_registered(device_type);
  return *out ? MBLOB_OK : status ? status : unknown_device(device_type);
}

static int check_id(const mblob_device_api *api, int device_id) {
  int count = 0;
  uint64_t before = mb_error_serial();
  int status = api->count(&count);
  if (status) {
    if (mb_error_serial() == before)
      status = mb_fail(status, "%s: cannot tell how many devices there are", api->name);
    return status;
  }
  if (device_id >= 0 && device_id < count) return MBLOB_OK;
  return count ? mb_fail(MBLOB_E_INCOMPATIBLE, MB_TEXT_NO_DEVICE, api->name, device_id, count)
               : mb_fail(MBLOB_E_INCOMPATIBLE, "%s: there is no such device on this machine",
                         api->name);
}

/* The functions of a device that is there; NULL for memory of the host that nobody manages. */
static int find_device(DLDevice device, const mblob_device_api **out) {
  *out = NULL;
  if (device.device_type == kDLCPU) return MBLOB_OK;
  int status = mb_device_api((int)device.device_type, out);
  /* Pinned memory where its runtime is absent is memory like any other. */
  if (status && mb_device_is_host((int)device.device_type)) return MBLOB_OK;
  return status ? status : check_id(*out, device.device_id);
}

bool mb_device_is_target(const char *target) {
  const mblob_device_api *api = NULL;
  size_t size = strcspn(target, " ");
  static const char host[][8] = {"cpu", "llvm", "c"};
  for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++)
    if (strlen(host[i]) == size && memcmp(target, host[i], size) == 0) return true;
  for (int type = kDLCUDA; type < KINDS; type++) {
    const char *name = mb_device_name(type);
    if (name && strlen(name) == size && memcmp(target, name, size) == 0)
      return !mb_device_api(type, &api) && !check_id(api, 0);
  }
  return false;
}

int mb_device_check(DLDevice device) {
  const mblob_device_api *api = NULL;
  return find_device(device, &api);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int allocate_host(uint64_t size, uint64_t alignment, void **out) {
  if (alignment < MB_TENSOR_ALIGNMENT) alignment = MB_TENSOR_ALIGNMENT;
  if ((alignment & (alignment - 1)) || alignment > PTRDIFF_MAX ||
      size > (uint64_t)PTRDIFF_MAX - alignment)
    return mb_fail(MBLOB_E_ARGUMENT, "%llu bytes aligned to %llu are impossible",
                   (unsigned long long)size, (unsigned long long)alignment);
  *out = mb_host_allocate((size_t)size + 1,
                          (size_t)alignment); /* a size of 0 has an address of its own */
  return *out ? MBLOB_OK : mb_fail_memory((size_t)size);
}

/* What a plug-in returned, with a text if it gave none. */
static int plugin_status(int status, uint64_t before, const mblob_device_api *api,
                         const char *what) {
  char text[96];
  if (!status) return MBLOB_OK;
  (void)snprintf(text, sizeof(text), "%.48s: %.40s", api->name, what);
  return mb_fail_returned(status, before, MBLOB_E_KERNEL, text);
}

int mb_device_allocate(DLDevice device, uint64_t size, uint64_t alignment, void **out) {
  const mblob_device_api *api = NULL;
  *out = NULL;
  int status = find_device(device, &api);
  if (status) return status;
  if (!api) return allocate_host(size, alignment, out);
  if (size > (uint64_t)PTRDIFF_MAX) return mb_fail_memory((size_t)size);
  uint64_t before = mb_error_serial();
  status = plugin_status(api->allocate(device.device_id, size, alignment, out), before, api,
                         "allocating memory");
  if (status || *out) return status;
  return mb_fail(MBLOB_E_MEMORY, "%s: no %llu bytes of memory", api->name,
                 (unsigned long long)size);
}

int mb_device_free(DLDevice device, void *data) {
  const mblob_device_api *api = NULL;
  if (!data) return MBLOB_OK;
  int status = find_device(device, &api);
  if (status) return status;
  if (!api) {
    mb_host_release(data);
    return MBLOB_OK;
  }
  uint64_t before = mb_error_serial();
  return plugin_status(api->free(device.device_id, data), before, api, "freeing memory");
}

/* ---- copies ---------------------------------------------------------------------------------- */

static int copy_host(const mblob_copy *c) {
  memmove((char *)c->to + c->to_offset, (const char *)c->from + c->from_offset, (size_t)c->size);
  return MBLOB_OK;
}

static int copy_with(const mblob_device_api *api, const mblob_copy *c) {
  uint64_t before = mb_error_serial();
  return plugin_status(api->copy(c), before, api, "copying");
}

/* Between two kinds, of which neither is the host. */
static int copy_through_host(const mblob_device_api *from, const mblob_device_api *to,
                             const mblob_copy *c) {
  void *between = malloc((size_t)c->size);
  const DLDevice host = {kDLCPU, 0};
  if (!between) return mb_fail_memory((size_t)c->size);
  mblob_copy first = *c, second = *c;
  first.to = between, first.to_offset = 0, first.to_device = host;
  second.from = between, second.from_offset = 0, second.from_device = host, second.stream = NULL;
  int status = copy_with(from, &first);
  if (!status) status = copy_with(to, &second);
  free(between);
  return status;
}

/* Who copies from or to such memory: nobody where the host's own instructions do. */
static int find_copier(DLDevice device, const mblob_device_api **out) {
  *out = NULL;
  return mb_device_is_host((int)device.device_type) ? MBLOB_OK : find_device(device, out);
}

int mb_device_copy(const mblob_copy *c) {
  const mblob_device_api *from = NULL, *to = NULL;
  int status = find_copier(c->from_device, &from);
  if (!status) status = find_copier(c->to_device, &to);
  if (status || !c->size) return status;
  if (!c->from || !c->to)
    return mb_fail(MBLOB_E_ARGUMENT, "copy: the %s has no data",
                   c->from ? "destination" : "source");
  if (!from && !to) return copy_host(c);
  return from && to && from != to ? copy_through_host(from, to, c) : copy_with(from ? from : to, c);
}

int mb_device_copy_tensor(const DLTensor *from, const DLTensor *to, uint64_t size, void *stream) {
  const mblob_copy copy = {.from = from->data,
                           .from_offset = from->byte_offset,
                           .from_device = from->device,
                           .to = to->data,
                           .to_offset = to->byte_offset,
                           .to_device = to->device,
                           .size = size,
                           .stream = stream};
  return mb_device_copy(&copy);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Call a member of the table that may be absent: then there is nothing to do. */
#define CALL(device, member, what, ...)                                                  \
  do {                                                                                   \
    const mblob_device_api *api = NULL;                                                  \
    int status = find_device(device, &api);                                              \
    if (status || !api || !api->member) return status;                                   \
    uint64_t before = mb_error_serial();                                                 \
    return plugin_status(api->member(device.device_id, __VA_ARGS__), before, api, what); \
  } while (0)

int mb_device_stream_create(DLDevice device, void **out) {
  *out = NULL;
  CALL(device, stream_create, MB_TEXT_MAKING_STREAM, out);
}

int mb_device_stream_free(DLDevice device, void *stream) {
  CALL(device, stream_free, MB_TEXT_FREEING_STREAM, stream);
}

int mb_device_set_stream(DLDevice device, void *stream) {
  CALL(device, set_stream, "setting the stream", stream);
}

int mb_device_synchronize(DLDevice device, void *stream) {
  CALL(device, synchronize, "waiting", stream);
}

int mb_device_stream_wait(DLDevice device, void *stream, void *other) {
  CALL(device, stream_wait, MB_TEXT_WAITING_FOR_STREAM, stream, other);
}

int mb_device_set(DLDevice device) {
  const mblob_device_api *api = NULL;
  int status = find_device(device, &api);
  if (status || !api || !api->set_device) return status;
  uint64_t before = mb_error_serial();
  return plugin_status(api->set_device(device.device_id), before, api, "setting the device");
}

int mb_device_attribute(DLDevice device, int kind, int64_t *number, char *text, size_t size) {
  *number = 0;
  if (size) *text = 0;
  const mblob_device_api *api = NULL;
  int status = find_device(device, &api);
  if (kind == MBLOB_DEVICE_EXISTS) {
    *number = !status;
    return MBLOB_OK;
  }
  if (status) return status;
  if (!api || !api->attribute)
    return mb_fail(MBLOB_E_NOT_FOUND, "the device does not tell attribute %d", kind);
  uint64_t before = mb_error_serial();
  return plugin_status(api->attribute(device.device_id, kind, number, text, size), before, api,
                       "asking for an attribute");
}
