#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static const char default_library[] = "libcuda.so.1";

static struct mb_lock lock = MB_LOCK_INIT;
static struct cuda_driver functions;
static int devices;
static atomic_uint ready; /* 1 + mb_forks() when the driver started; 0: not yet */

static int resolve(void *library, const char *name, struct cuda_driver *out) {
  static const struct {
    const char *symbol;
    size_t offset;
  } members[] = {
#define MB_ENTRY(member, symbol, parameters) {symbol, offsetof(struct cuda_driver, member)},
      MB_CUDA_FUNCTIONS(MB_ENTRY)
#undef MB_ENTRY
  };
  for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
    void *address = dlsym(library, members[i].symbol);
    if (!address)
      return mb_fail(MBLOB_E_INCOMPATIBLE,
                     "cuda: %s has no function %s: it is no CUDA driver, or one older than CUDA 6",
                     name, members[i].symbol);
    *(void **)(void *)((char *)out + members[i].offset) = address;
  }
  return MBLOB_OK;
}

static int start(const struct cuda_driver *driver, const char *name) {
  char text[256];
  CUresult error = driver->init(0);
  if (!error) error = driver->device_count(&devices);
  if (error == CUDA_ERROR_NO_DEVICE) {
    devices = 0;
    return MBLOB_OK;
  }
  if (!error) return MBLOB_OK;
  cuda_error_text(driver, error, text, sizeof(text));
  return mb_fail(MBLOB_E_INCOMPATIBLE, "cuda: the driver (%s) does not start: %s", name, text);
}

static int open_locked(void) {
  if (atomic_load(&ready)) return MBLOB_OK;
  const char *name = getenv("MBLOB_CUDA_LIBRARY");
  if (!name || !*name) name = default_library;
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "cuda: no driver: %s; install NVIDIA's driver, or name its library in MBLOB_CUDA_LIBRARY",
        why ? why : name);
  }
  struct cuda_driver found;
  int status = resolve(library, name, &found);
  if (status) {
    (void)dlclose(library);
    return status;
  }
  status =
      start(&found, name); /* from here on the library stays open: it may have started threads */
  if (status) return status;
  functions = found;
  atomic_store_explicit(&ready, mb_forks() + 1, memory_order_release);
  return MBLOB_OK;
}

int cuda_driver_open(const struct cuda_driver **out, int *device_count) {
  *out = &functions;
  *device_count = 0;
  const unsigned when = atomic_load_explicit(&ready, memory_order_acquire);
  if (when && when != mb_forks() + 1)
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "cuda: this process was forked from one that had used CUDA, which does not survive a fork; start it "
        "anew (multiprocessing: the start method 'spawn'), or fork before the first use");
  if (!when) {
    mb_lock(&lock);
    int status = open_locked();
    mb_unlock(&lock);
    if (status) return status;
  }
  *device_count = devices;
  return MBLOB_OK;
}

void cuda_error_text(const struct cuda_driver *driver, CUresult error, char *text, size_t size) {
  const char *name = NULL, *what = NULL;
  if (driver->error_name(error, &name) || !name) name = NULL;
  if (driver->error_string(error, &what) || !what) what = "no text";
  if (name)
    (void)snprintf(text, size, "%s (%s)", name, what);
  else
    (void)snprintf(text, size, "error %d of the CUDA driver (%s)", error, what);
}

int cuda_error_status(CUresult error) {
  switch (error) {
    case CUDA_SUCCESS: return MBLOB_OK;
    case CUDA_ERROR_OUT_OF_MEMORY: return MBLOB_E_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: return MBLOB_E_INCOMPATIBLE;
    default: return MBLOB_E_KERNEL;
  }
}

bool cuda_is_sticky(CUresult error) {
  return error == CUDA_ERROR_ECC_UNCORRECTABLE || error == CUDA_ERROR_ILLEGAL_ADDRESS ||
         error == CUDA_ERROR_LAUNCH_TIMEOUT || error == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
         error == CUDA_ERROR_ASSERT ||
         (error >= CUDA_ERROR_HARDWARE_STACK_ERROR && error <= CUDA_ERROR_LAUNCH_FAILED);
}
