/* Attributes of a device, by TVM's numbers, and one line about all of them. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cl_memory.h"

/* "OpenCL 3.0 vendor's words": 3 and 0. */
static void version_of(const struct mb_cl_device *d, unsigned *major, unsigned *minor) {
  *major = *minor = 0;
  (void)sscanf(d->version, "OpenCL %u.%u", major, minor);
}

int mb_cl_attribute(int device_id, int kind, int64_t *number, char *text, size_t size) {
  const struct mb_cl_device *d = NULL;
  unsigned major, minor;
  int status = mb_cl_describe(device_id, &d);
  if (status) return status;
  version_of(d, &major, &minor);
  switch (kind) {
    case MBLOB_DEVICE_EXISTS: *number = 1; break;
    case MBLOB_DEVICE_MAX_THREADS_PER_BLOCK: *number = (int64_t)d->max_group; break;
    case MBLOB_DEVICE_WARP_SIZE:
      *number = 1;
      break; /* OpenCL promises nothing about how work-items run together */
    case MBLOB_DEVICE_MAX_SHARED_MEMORY_PER_BLOCK:
      *number = (int64_t)mb_cl_number(d, CL_DEVICE_LOCAL_MEM_SIZE);
      break;
    case MBLOB_DEVICE_COMPUTE_VERSION: (void)snprintf(text, size, "%u.%u", major, minor); break;
    case MBLOB_DEVICE_NAME: (void)snprintf(text, size, "%s", d->name); break;
    case MBLOB_DEVICE_MAX_CLOCK_RATE:
      *number = 1000 * (int64_t)mb_cl_number(d, CL_DEVICE_MAX_CLOCK_FREQUENCY);
      break;
    case MBLOB_DEVICE_MULTI_PROCESSOR_COUNT:
      *number = (int64_t)mb_cl_number(d, CL_DEVICE_MAX_COMPUTE_UNITS);
      break;
    case MBLOB_DEVICE_MAX_THREAD_DIMENSIONS:
      (void)snprintf(text, size, "[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", d->max_items[0],
                     d->max_items[1], d->max_items[2]);
      break;
    case MBLOB_DEVICE_API_VERSION: *number = 100 * (int64_t)major + 10 * (int64_t)minor; break;
    case MBLOB_DEVICE_DRIVER_VERSION: (void)snprintf(text, size, "%s", d->driver); break;
    case MBLOB_DEVICE_TOTAL_GLOBAL_MEMORY:
      *number = (int64_t)mb_cl_number(d, CL_DEVICE_GLOBAL_MEM_SIZE);
      break;
    default: return mb_fail(MBLOB_E_NOT_FOUND, "opencl: attribute %d is not known", kind);
  }
  return MBLOB_OK;
}

int mb_cl_describe_all(char *text, size_t size) {
  int count = 0, status = mb_cl_count(&count);
  if (status) return status;
  size_t used = (size_t)snprintf(text, size, "%s: %d device%s", mb_cl_library(), count,
                                 count == 1 ? "" : "s");
  for (int i = 0; i < count && used < size; i++) {
    const struct mb_cl_device *d = NULL;
    if (mb_cl_describe(i, &d)) break;
    used +=
        (size_t)snprintf(text + used, size - used, "%s %d %s (%s, %s, driver %s)", i ? "," : ":", i,
                         d->name, mb_cl_type_text(d->type), d->version, d->driver);
  }
  return MBLOB_OK;
}
