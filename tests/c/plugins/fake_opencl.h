/* fake_opencl.h - what tests say to fake_opencl.so and ask it, through its variable `fake_cl`. */
#ifndef FAKE_OPENCL_H
#define FAKE_OPENCL_H

#include "../../../csrc/plugins/opencl/cl_api.h"
#include "fake_driver.h"

struct fake_argument {
  size_t size;
  unsigned char bytes[8];
};

struct fake_state {
  struct fake_calls calls;
  int unloaded; /* any call is then the end of the program */
  int live, compilations, launches, mixed;
  cl_uint dimensions; /* of the last launch, as all below */
  size_t global[3], local[3];
  struct fake_argument args[16];
  void *last_queue; /* that work was given to, of any kind */
};

#endif
