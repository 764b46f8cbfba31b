/* cl_device.h - the devices of the machine in the order in which they are numbered, each with
 * its context and queue, and whether the driver may be called at all.
 *
 * GPUs come first, then accelerators, then CPUs; within a kind the order is the driver's. Each
 * device has a context of its own: what runs out or breaks on one leaves the others alone. Its
 * default queue is in order and shared by all threads, so work that is given to it later sees
 * what was given before, whichever threads did it. */
#ifndef MB_CL_DEVICE_H
#define MB_CL_DEVICE_H

#include <stdatomic.h>

#include "base/base.h"
#include "cl_api.h"

enum { MB_CL_DEVICES = 64 }; /* more are not numbered */

struct mb_cl_device {
  int id;
  cl_platform_id platform;
  cl_device_id device;
  cl_bitfield type;
  char name[128], platform_name[128], version[128], driver[128];
  uint64_t max_group, max_items[3], max_allocation, base_alignment, address_bits;
  /* Made at the first use of the device: */
  struct mb_lock lock;
  atomic_bool ready;
  cl_context context;
  cl_command_queue queue;
  atomic_bool settled; /* a kernel ran on it */
};

/* Find the devices, at the first call. An error if there is no library or no driver. */
int mb_cl_count(int *out);
/* A device that was numbered, with its context and queue. */
int mb_cl_open(int id, struct mb_cl_device **out);
/* The same, without making anything of it. */
int mb_cl_describe(int id, const struct mb_cl_device **out);
/* After the first launch on a device: wait for it. Drivers make compilers then, whose exit
 * handlers must not come before ours: what is registered last runs first. */
cl_int mb_cl_settle(struct mb_cl_device *device, cl_command_queue queue);

uint64_t mb_cl_number(const struct mb_cl_device *device, cl_uint what);
/* True if a text of the device, of any length, has `word`. */
bool mb_cl_text_has(const struct mb_cl_device *device, cl_uint what, const char *word);
const char *mb_cl_type_text(cl_bitfield type);

/* The driver may not be called any more: the process is ending, or was forked from one that used
 * it. What would be released then is left to the system. */
bool mb_cl_gone(void);

/* Wait for the work of all queues, without an error (cl_memory.c, which knows the streams). */
void mb_cl_finish_all(void);

/* Record "opencl: WHAT on device N (NAME): CL_CODE (number)", with what to do about it; returns
 * a status that fits. `device` may be NULL. */
int mb_cl_fail(const struct mb_cl_device *device, cl_int code, const char *format, ...)
    MB_PRINTF(3, 4);

#endif
