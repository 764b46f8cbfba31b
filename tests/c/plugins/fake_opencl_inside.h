/* fake_opencl_inside.h - what the files of the OpenCL library for tests share. */
#ifndef FAKE_OPENCL_INSIDE_H
#define FAKE_OPENCL_INSIDE_H

#include "fake_opencl.h"

#define EXPORT __attribute__((visibility("default")))
enum { ARGUMENTS = 16 };

struct _cl_device_id {
  int number;
  cl_bitfield type;
};
struct _cl_context {
  cl_device_id device;
};
struct _cl_mem {
  char *data;
  size_t size;
  int is_part;
};
struct _cl_program {
  char *text;
  size_t size;
  int built, told; /* what the arguments are */
  int is_binary;
};
struct _cl_kernel {
  char name[64], parameters[256]; /* "" if the driver is not to tell them */
  cl_uint count;
  struct fake_argument args[ARGUMENTS];
};

extern pthread_mutex_t fake_cl_lock;
extern struct fake_state fake_cl;

/* Whether this call is to fail; counts it. */
int fake_cl_fails(const char *function, cl_int *code);
/* An object of the driver's, counted as alive; releasing does its work also when it is made to
 * fail. */
void *fake_cl_new(size_t size);
cl_int fake_cl_end(void *object, const char *function);

#define MAY_FAIL() \
  cl_int code;     \
  if (fake_cl_fails(__func__, &code)) return code
#define MAY_FAIL_OBJECT(error)          \
  cl_int code;                          \
  if (fake_cl_fails(__func__, &code)) { \
    if (error) *error = code;           \
    return NULL;                        \
  }                                     \
  if (error) *error = CL_SUCCESS

static inline cl_int answer(const void *data, size_t size, size_t room, void *to, size_t *needed) {
  if (needed) *needed = size;
  if (to && room < size) return -30;
  if (to) memcpy(to, data, size);
  return CL_SUCCESS;
}

static inline cl_int answer_text(const char *text, size_t room, void *to, size_t *needed) {
  return answer(text, strlen(text) + 1, room, to, needed);
}

#endif
