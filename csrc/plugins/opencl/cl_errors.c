/* cl_errors.c - names of the codes of OpenCL, and the errors that have them. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl_device.h"

static const struct {
  cl_int code;
  const char *name;
} names[] = {{-1, "CL_DEVICE_NOT_FOUND"},
             {-2, "CL_DEVICE_NOT_AVAILABLE"},
             {-3, "CL_COMPILER_NOT_AVAILABLE"},
             {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
             {-5, "CL_OUT_OF_RESOURCES"},
             {-6, "CL_OUT_OF_HOST_MEMORY"},
             {-8, "CL_MEM_COPY_OVERLAP"},
             {-11, "CL_BUILD_PROGRAM_FAILURE"},
             {-12, "CL_MAP_FAILURE"},
             {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
             {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
             {-30, "CL_INVALID_VALUE"},
             {-33, "CL_INVALID_DEVICE"},
             {-34, "CL_INVALID_CONTEXT"},
             {-36, "CL_INVALID_COMMAND_QUEUE"},
             {-38, "CL_INVALID_MEM_OBJECT"},
             {-42, "CL_INVALID_BINARY"},
             {-43, "CL_INVALID_BUILD_OPTIONS"},
             {-44, "CL_INVALID_PROGRAM"},
             {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
             {-46, "CL_INVALID_KERNEL_NAME"},
             {-47, "CL_INVALID_KERNEL_DEFINITION"},
             {-48, "CL_INVALID_KERNEL"},
             {-49, "CL_INVALID_ARG_INDEX"},
             {-50, "CL_INVALID_ARG_VALUE"},
             {-51, "CL_INVALID_ARG_SIZE"},
             {-52, "CL_INVALID_KERNEL_ARGS"},
             {-53, "CL_INVALID_WORK_DIMENSION"},
             {-54, "CL_INVALID_WORK_GROUP_SIZE"},
             {-55, "CL_INVALID_WORK_ITEM_SIZE"},
             {-59, "CL_INVALID_OPERATION"},
             {-61, "CL_INVALID_BUFFER_SIZE"},
             {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
             {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
             {-9999, "illegal read or write by a kernel"}};

static const char *name_of(cl_int code) {
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (names[i].code == code) return names[i].name;
  return "an error of the driver";
}

static const char *advice_for(cl_int code) {
  switch (code) {
    case CL_DEVICE_NOT_AVAILABLE: return "; the device is lost, or another program holds it";
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_NVIDIA_ILLEGAL_ACCESS:
      return "; when a kernel before this one reached outside of its memory, the device stays unusable in this process";
    case CL_PLATFORM_NOT_FOUND_KHR:
      return "; no driver is installed (they are listed in /etc/OpenCL/vendors)";
    default: return "";
  }
}

static int status_for(cl_int code) {
  switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: return MBLOB_E_MEMORY;
    case CL_DEVICE_NOT_FOUND:
    case CL_PLATFORM_NOT_FOUND_KHR: return MBLOB_E_INCOMPATIBLE;
    default: return MBLOB_E_KERNEL;
  }
}

int mb_cl_fail(const struct mb_cl_device *device, cl_int code, const char *format, ...) {
  va_list args;
  char *what = NULL, where[192] = "";
  va_start(args, format);
  if (vasprintf(&what, format, args) < 0) what = NULL;
  va_end(args);
  if (device) (void)snprintf(where, sizeof(where), " on device %d (%s)", device->id, device->name);
  const int status = mb_fail(status_for(code), "opencl: %s%s: %s (%d)%s", what ? what : "a call",
                             where, name_of(code), (int)code, advice_for(code));
  free(what);
  return status;
}
