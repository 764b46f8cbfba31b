/* fake_cuda.h - what tests ask of the driver's double, libcuda.so.1 made of fake_cuda.c: reached
 * by dlsym. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "fake_driver.h"

/* The last launch. */
struct fake_launch {
  char kernel[64];
  unsigned grid[3], block[3], shared;
  void *stream;
  int device, count; /* count: launches so far */
};

typedef void (*fake_kernel)(void **arguments, const struct fake_launch *launch);

struct fake_cuda {
  struct fake_launch last;
  int devices; /* 2 until cuInit was called with another number here */
  int live_memory, live_modules, live_streams, live_events,
      contexts;                                    /* what was given and not taken back */
  int pushed;                                      /* contexts on the stack of the calling thread */
  int peers_enabled, synchronized, sets_of_shared; /* calls so far */
  size_t bytes_free;                               /* of each device's memory */
  void *recorded, *waiting; /* streams: of the last event, and the last that waits for one */
  int lost;                 /* the error that every later call on a context returns */
  char image[4096];         /* start of the last module's code, as the driver got it */
  unsigned long image_address;
  struct fake_calls calls;
};

/* What a kernel of that name does. */
extern void fake_cuda_define(const char *kernel, fake_kernel run);

#endif
