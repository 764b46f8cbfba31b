/* cl_memory.h - memory and streams of devices: what the table of the device type does. */
#ifndef MB_CL_MEMORY_H
#define MB_CL_MEMORY_H

#include <mblob.h>

#include "cl_handle.h"

extern const mblob_device_api mb_cl_device_table;

/* Of a device, by MBLOB_DEVICE_*; see mblob_device_api.attribute. */
int mb_cl_attribute(int device_id, int kind, int64_t *number, char *text, size_t size);
/* One line about all of them, cut to `size`. */
int mb_cl_describe_all(char *text, size_t size);

/* The memory behind a pointer; the error calls it `what`. */
int mb_cl_memory_of(const void *pointer, const char *what, struct mb_cl_handle **out);
/* The queue that work of this thread goes to on a device: `stream`, or if NULL the one it chose,
 * else the default. */
int mb_cl_queue(const struct mb_cl_device *device, void *stream, cl_command_queue *out);
/* The device that this thread chose, 0 if it did not. */
int mb_cl_current_device(void);

#endif
