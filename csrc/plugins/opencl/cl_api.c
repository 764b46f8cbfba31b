#define _GNU_SOURCE
#include "cl_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct mb_cl_api mb_cl;
static const char *library_name;
static char name_of_library[512];

const char *mb_cl_library(void) { return library_name; }

static bool find(void *library, const char *name, void *function) {
  void *address = dlsym(library, name);
  memcpy(function, &address, sizeof(address)); /* ISO C has no cast from data to functions */
  return address != NULL;
}

int mb_cl_load(void) {
  if (library_name) return MBLOB_OK;
  const char *asked = getenv("MBLOB_OPENCL_LIBRARY");
  const char *name = asked && *asked ? asked : "libOpenCL.so.1";
  if (strlen(name) >= sizeof(name_of_library))
    return mb_fail(MBLOB_E_ARGUMENT, "opencl: MBLOB_OPENCL_LIBRARY is longer than %zu bytes",
                   sizeof(name_of_library) - 1);
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return mb_fail(
        MBLOB_E_INCOMPATIBLE,
        "opencl: %s; install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1 and the driver of "
        "the device, pocl-opencl-icd for the cpu), or name the library in MBLOB_OPENCL_LIBRARY",
        dlerror());
  struct mb_cl_api found = {0};
  const char *missing = NULL;
#define FIND(result, function, parameters) \
  if (!find(library, #function, &found.function)) missing = #function;
  MB_CL_FUNCTIONS(FIND)
#undef FIND
  if (missing) {
    (void)dlclose(library);
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "opencl: %s has no function %s: not an OpenCL library of version 1.2 or later",
                   name, missing);
  }
  (void)find(library, "clCreateProgramWithIL", &found.clCreateProgramWithIL);
  (void)find(library, "clGetKernelArgInfo", &found.clGetKernelArgInfo);
  mb_cl = found;
  library_name = strcpy(name_of_library, name);
  return MBLOB_OK;
}
