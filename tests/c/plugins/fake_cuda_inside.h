/* fake_cuda_inside.h - what the files of the driver's double share. */
#ifndef FAKE_CUDA_INSIDE_H
#define FAKE_CUDA_INSIDE_H

#include "fake_cuda.h"

#define API __attribute__((visibility("default")))
#define S fake_cuda_state

enum {
  INVALID = 1,
  NO_MEMORY = 2,
  NOT_STARTED = 3,
  NO_DEVICE = 100,
  BAD_DEVICE = 101,
  BAD_IMAGE = 200,
  NO_CONTEXT = 201,
  BAD_PTX = 218,
  BAD_HANDLE = 400,
  NOT_FOUND = 500,
  TOO_MUCH = 701,
  DEVICES = 4
};

extern struct fake_cuda fake_cuda_state;
extern pthread_mutex_t fake_cuda_lock;
extern struct fake_objects fake_cuda_objects;

struct stream {
  int device;
};

/* What a call must fail with: on request. */
int fake_cuda_wanted(const char *function);
/* The device whose context is current, -1 without one; that of a context. */
int fake_cuda_current(void);
int fake_cuda_device_of(const void *context);
void fake_cuda_count(int *counter, int by);

#define ENTER_ANY()                          \
  do {                                       \
    int error_ = fake_cuda_wanted(__func__); \
    if (error_) return error_;               \
  } while (0)
#define ENTER()                                     \
  do {                                              \
    ENTER_ANY();                                    \
    if (fake_cuda_current() < 0) return NO_CONTEXT; \
    if (S.lost) return S.lost;                      \
  } while (0)
/* What gives something back does so also when it is made to fail; a context that is lost gives
 * nothing back. */
#define ENTER_TO_FREE()                           \
  int result = fake_cuda_wanted(__func__);        \
  if (fake_cuda_current() < 0) return NO_CONTEXT; \
  if (S.lost) return S.lost

#endif
