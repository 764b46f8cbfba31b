/* opencl_host.h - for tests of the OpenCL plug-in alone: a runtime that only records errors,
 * fake_opencl.so in place of the vendors' library, and payloads. */
#ifndef OPENCL_HOST_H
#define OPENCL_HOST_H

#include <dlfcn.h>

#include "../common/check.h"
#include "fake_opencl.h"

extern const mblob_plugin __mblob_plugin_opencl;
extern struct fake_state *fake; /* of the library in use */

/* Use the fake library in that folder; before anything of OpenCL. */
void use_fake(const char *folder);
/* What the device type and the key are served by. */
extern const mblob_device_api *device;
extern const mblob_runtime *runtime;

/* Calls of `function` (NULL: of any) fail, and of no other any more: after that many, that many
 * times (0: from then on). */
void fail(const char *function, int after, int times, cl_int code);
/* Whether the last error has the text. */
int said(const char *text);

/* ---- payloads: written here independently of the reader -------------------------------------- */

struct payload {
  uint8_t bytes[4096];
  size_t size;
};
void put_number(struct payload *p, uint64_t value, size_t bytes);
void put_text(struct payload *p, const char *text);
/* A member of a `fmap`: types as letters (p pointer, b w i l signed, B W I L unsigned, f d
 * floats), tags behind each other with commas. */
void put_kernel(struct payload *p, const char *name, const char *types, const char *tags);
/* A payload of source with one kernel. */
struct payload source_of(const char *name, const char *types, const char *tags, const char *text);

/* An opened module, or NULL. */
void *open_payload(const struct payload *p);
/* Call a kernel with integers, floats (as -0.5 of 'f') and handles as codes say. */
int call(void *module, const char *name, const TVMValue *args, const int *codes, int count);

/* vadd on three buffers of 64 floats, from making memory to looking at the result. Everything is
 * given back. A status. */
int add_vectors(void *module, int device_id);
extern const char vadd_text[];
struct payload vadd_payload(void);

#endif
