#define _GNU_SOURCE
#include "cl_device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mb_lock lock = MB_LOCK_INIT; /* for the list, until it is found */
static struct mb_cl_device devices[MB_CL_DEVICES];
static atomic_int device_count = -1; /* -1: not found yet */
static atomic_uint touched; /* 1 + mb_forks() when the library was loaded, and with it drivers and
                               their threads; 0: never */
static atomic_bool ending;

/* ---- whether the driver may be called -------------------------------------------------------- */

static bool is_forked(void) {
  const unsigned when = atomic_load_explicit(&touched, memory_order_relaxed);
  return when && when != mb_forks() + 1;
}

/* Drivers whose threads still work (PoCL's compile) when exit() takes their library down crash,
 * so that is waited for. */
static void at_end(void) {
  if (!is_forked()) mb_cl_finish_all();
  atomic_store(&ending, true);
}

bool mb_cl_gone(void) { return atomic_load_explicit(&ending, memory_order_relaxed) || is_forked(); }

static int check_usable(void) {
  if (is_forked())
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "opencl: the process was forked after OpenCL was used, which drivers do not "
                   "survive; start processes anew (multiprocessing: \"spawn\")");
  if (atomic_load_explicit(&ending, memory_order_relaxed))
    return mb_fail(MBLOB_E_INCOMPATIBLE, "opencl: the process is ending");
  return MBLOB_OK;
}

/* ---- what a device says ---------------------------------------------------------------------- */

static void read_text(cl_device_id device, cl_uint what, char *text, size_t size) {
  char *whole = NULL;
  size_t needed = 0;
  *text = 0;
  if (mb_cl.clGetDeviceInfo(device, what, 0, NULL, &needed) || !needed ||
      !(whole = calloc(1, needed + 1)))
    return;
  if (!mb_cl.clGetDeviceInfo(device, what, needed, whole, NULL))
    (void)snprintf(text, size, "%s", whole);
  free(whole);
}

static uint64_t read_number(cl_device_id device, cl_uint what) {
  uint8_t bytes[8] = {0};
  size_t size = 0;
  if (mb_cl.clGetDeviceInfo(device, what, sizeof(bytes), bytes, &size)) return 0;
  uint32_t narrow = 0;
  uint64_t wide = 0;
  memcpy(&narrow, bytes, sizeof(narrow));
  memcpy(&wide, bytes, sizeof(wide));
  return size == sizeof(wide) ? wide : narrow;
}

uint64_t mb_cl_number(const struct mb_cl_device *device, cl_uint what) {
  return read_number(device->device, what);
}

bool mb_cl_text_has(const struct mb_cl_device *device, cl_uint what, const char *word) {
  size_t needed = 0;
  char *whole = NULL;
  if (mb_cl.clGetDeviceInfo(device->device, what, 0, NULL, &needed) || !needed ||
      !(whole = calloc(1, needed + 1)))
    return false;
  const bool has =
      !mb_cl.clGetDeviceInfo(device->device, what, needed, whole, NULL) && strstr(whole, word);
  free(whole);
  return has;
}

const char *mb_cl_type_text(cl_bitfield type) {
  return type & CL_DEVICE_TYPE_GPU           ? "gpu"
         : type & CL_DEVICE_TYPE_ACCELERATOR ? "accelerator"
         : type & CL_DEVICE_TYPE_CPU         ? "cpu"
                                             : "custom";
}

static int rank_of(cl_bitfield type) {
  return type & CL_DEVICE_TYPE_GPU           ? 0
         : type & CL_DEVICE_TYPE_ACCELERATOR ? 1
         : type & CL_DEVICE_TYPE_CPU         ? 2
                                             : 3;
}

static void read_limits(struct mb_cl_device *d) {
  size_t items[16] = {0};
  d->max_group = read_number(d->device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  d->max_allocation = read_number(d->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  d->base_alignment = read_number(d->device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  d->address_bits = read_number(d->device, CL_DEVICE_ADDRESS_BITS);
  if (!d->max_group) d->max_group = SIZE_MAX; /* not told: the driver refuses what is too much */
  if (!d->base_alignment) d->base_alignment = 1;
  const uint64_t dimensions = read_number(d->device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
  if (dimensions <= sizeof(items) / sizeof(*items))
    (void)mb_cl.clGetDeviceInfo(d->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof(items), items,
                                NULL);
  for (int i = 0; i < 3; i++) d->max_items[i] = items[i] ? items[i] : d->max_group;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* True if `filter` (NULL or "": all pass) is that number, that word, or a part of the name, in
 * any case. */
static bool passes(const char *filter, size_t number, const char *word, const char *name) {
  char *end = NULL;
  if (!filter || !*filter) return true;
  if (isdigit((unsigned char)*filter)) {
    const unsigned long wanted = strtoul(filter, &end, 10);
    if (!*end) return wanted == number;
  }
  return strcasecmp(filter, word) == 0 || strcasestr(name, filter) != NULL;
}

/* All that there are: which are numbered is known when all are. */
struct found {
  struct mb_cl_device *items;
  size_t count, capacity;
  cl_int failure; /* of a platform that could not tell its devices */
};

static int add_device(struct found *all, cl_platform_id platform, const char *platform_name,
                      cl_device_id id) {
  if (all->count == all->capacity) {
    const size_t capacity = all->capacity ? 2 * all->capacity : 8;
    struct mb_cl_device *items = realloc(all->items, capacity * sizeof(*items));
    if (!items) return mb_fail_memory(capacity * sizeof(*items));
    all->items = items;
    all->capacity = capacity;
  }
  struct mb_cl_device *d = &all->items[all->count];
  memset(d, 0, sizeof(*d));
  d->platform = platform;
  d->device = id;
  d->type = read_number(id, CL_DEVICE_TYPE);
  (void)snprintf(d->platform_name, sizeof(d->platform_name), "%s", platform_name);
  read_text(id, CL_DEVICE_NAME, d->name, sizeof(d->name));
  read_text(id, CL_DEVICE_VERSION, d->version, sizeof(d->version));
  read_text(id, CL_DRIVER_VERSION, d->driver, sizeof(d->driver));
  read_limits(d);
  all->count++;
  return MBLOB_OK;
}

static int add_platform(struct found *all, cl_platform_id platform, const char *name) {
  cl_uint count = 0;
  cl_int code = mb_cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
  if (code == CL_DEVICE_NOT_FOUND || (!code && !count)) return MBLOB_OK;
  cl_device_id *ids = code ? NULL : calloc(count, sizeof(cl_device_id));
  if (!code && !ids) return mb_fail_memory(count * sizeof(cl_device_id));
  if (!code) code = mb_cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL);
  int status = MBLOB_OK;
  for (cl_uint i = 0; !code && !status && i < count; i++)
    status = add_device(all, platform, name, ids[i]);
  free(ids);
  if (code) all->failure = code; /* the other platforms count */
  return status;
}

static int add_platforms(struct found *all) {
  cl_uint count = 0;
  cl_int code = mb_cl.clGetPlatformIDs(0, NULL, &count);
  if (!code && !count) code = CL_PLATFORM_NOT_FOUND_KHR;
  if (code) return mb_cl_fail(NULL, code, "%s finds no platform", mb_cl_library());
  cl_platform_id *ids = calloc(count, sizeof(cl_platform_id));
  if (!ids) return mb_fail_memory(count * sizeof(cl_platform_id));
  code = mb_cl.clGetPlatformIDs(count, ids, NULL);
  int status = code ? mb_cl_fail(NULL, code, "%s finds no platform", mb_cl_library()) : MBLOB_OK;
  for (cl_uint i = 0; !status && i < count; i++) {
    char name[128] = "";
    (void)mb_cl.clGetPlatformInfo(ids[i], CL_PLATFORM_NAME, sizeof(name) - 1, name, NULL);
    if (passes(getenv("MBLOB_OPENCL_PLATFORM"), i, "", name))
      status = add_platform(all, ids[i], name);
  }
  free(ids);
  return status;
}

/* Number those that pass the filter, a kind after the other. A number in the filter counts as if
 * there were no filter. */
static int choose(const struct found *all) {
  const char *filter = getenv("MBLOB_OPENCL_DEVICE");
  size_t place = 0;
  int chosen = 0;
  for (int rank = 0; rank < 4; rank++)
    for (size_t i = 0; i < all->count; i++) {
      const struct mb_cl_device *d = &all->items[i];
      if (rank_of(d->type) != rank) continue;
      if (!passes(filter, place++, mb_cl_type_text(d->type), d->name) || chosen == MB_CL_DEVICES)
        continue;
      devices[chosen] = *d;
      devices[chosen].id = chosen;
      mb_lock_init(&devices[chosen].lock);
      chosen++;
    }
  return chosen;
}

static int find_devices(void) {
  struct found all = {0};
  int status = mb_cl_load();
  if (!status) atomic_store(&touched, mb_forks() + 1);
  if (!status) status = add_platforms(&all);
  if (!status && !all.count && all.failure)
    status = mb_cl_fail(NULL, all.failure, "the platforms cannot tell their devices");
  const int count = status ? 0 : choose(&all);
  free(all.items);
  if (status) return status;
  const char *platform = getenv("MBLOB_OPENCL_PLATFORM"), *device = getenv("MBLOB_OPENCL_DEVICE");
  if (!count && ((platform && *platform) || (device && *device)))
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "opencl: no device is left of %zu by MBLOB_OPENCL_PLATFORM='%s' and MBLOB_OPENCL_DEVICE='%s'",
        all.count, platform ? platform : "", device ? device : "");
  if (count)
    atomic_store_explicit(&device_count, count,
                          memory_order_release); /* none: a driver may come yet */
  return MBLOB_OK;
}

int mb_cl_count(int *out) {
  int status = check_usable();
  *out = 0;
  if (status) return status;
  int count = atomic_load_explicit(&device_count, memory_order_acquire);
  if (count < 0) {
    mb_lock(&lock);
    if (atomic_load(&device_count) < 0) status = find_devices();
    mb_unlock(&lock);
    count = atomic_load(&device_count);
  }
  *out = count > 0 ? count : 0;
  return status;
}

/* ---- using ----------------------------------------------------------------------------------- */

static int start(struct mb_cl_device *d) {
  cl_int code = CL_SUCCESS;
  cl_context context = mb_cl.clCreateContext(NULL, 1, &d->device, NULL, NULL, &code);
  if (!context) return mb_cl_fail(d, code, "no context");
  cl_command_queue queue = mb_cl.clCreateCommandQueue(context, d->device, 0, &code);
  if (!queue) {
    (void)mb_cl.clReleaseContext(context);
    return mb_cl_fail(d, code, "no command queue");
  }
  d->context = context;
  d->queue = queue;
  (void)atexit(at_end);
  atomic_store_explicit(&d->ready, true, memory_order_release);
  return MBLOB_OK;
}

cl_int mb_cl_settle(struct mb_cl_device *d, cl_command_queue queue) {
  const cl_int code = mb_cl.clFinish(queue);
  if (!atomic_exchange(&d->settled, true)) (void)atexit(at_end);
  return code;
}

int mb_cl_describe(int id, const struct mb_cl_device **out) {
  int count = 0, status = mb_cl_count(&count);
  *out = NULL;
  if (status) return status;
  if (id < 0 || id >= count)
    return mb_fail(MBLOB_E_INCOMPATIBLE, MB_TEXT_NO_DEVICE, "opencl", id, count);
  *out = &devices[id];
  return MBLOB_OK;
}

int mb_cl_open(int id, struct mb_cl_device **out) {
  const struct mb_cl_device *found = NULL;
  int status = mb_cl_describe(id, &found);
  *out = NULL;
  if (status) return status;
  struct mb_cl_device *d = &devices[id];
  if (!atomic_load_explicit(&d->ready, memory_order_acquire)) {
    mb_lock(&d->lock);
    if (!atomic_load(&d->ready)) status = start(d);
    mb_unlock(&d->lock);
  }
  if (!status) *out = d;
  return status;
}
