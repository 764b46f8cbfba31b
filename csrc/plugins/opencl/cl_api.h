/* cl_api.h - the part of OpenCL's interface that is used here, and the library that has it.
 *
 * Names, numbers and signatures are those of the OpenCL specification (1.2, and
 * clCreateProgramWithIL of 2.1). */
#ifndef MB_CL_API_H
#define MB_CL_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;

typedef struct cl_buffer_region {
  size_t origin, size;
} cl_buffer_region;

enum {
  CL_SUCCESS = 0,
  CL_DEVICE_NOT_FOUND = -1,
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_KERNEL_ARG_INFO_NOT_AVAILABLE = -19,
  CL_INVALID_COMMAND_QUEUE = -36,
  CL_INVALID_KERNEL_NAME = -46,
  CL_INVALID_BUFFER_SIZE = -61,
  CL_PLATFORM_NOT_FOUND_KHR = -1001,
  CL_NVIDIA_ILLEGAL_ACCESS = -9999, /* not in the specification */

  CL_PLATFORM_NAME = 0x0902,

  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS = 0x1003,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
  CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C,
  CL_DEVICE_ADDRESS_BITS = 0x100D,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_IL_VERSION = 0x105B,

  CL_DEVICE_TYPE_CPU = 2,
  CL_DEVICE_TYPE_GPU = 4,
  CL_DEVICE_TYPE_ACCELERATOR = 8,

  CL_MEM_READ_WRITE = 1,
  CL_BUFFER_CREATE_TYPE_REGION = 0x1220,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_KERNEL_NAMES = 0x1168,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_NUM_ARGS = 0x1191,
  CL_KERNEL_ARG_ADDRESS_QUALIFIER = 0x1196,
  CL_KERNEL_ARG_ACCESS_QUALIFIER = 0x1197,
  CL_KERNEL_ARG_TYPE_NAME = 0x1198,
  CL_KERNEL_ARG_ADDRESS_GLOBAL = 0x119B,
  CL_KERNEL_ARG_ADDRESS_LOCAL = 0x119C,
  CL_KERNEL_ARG_ADDRESS_CONSTANT = 0x119D,
  CL_KERNEL_ARG_ADDRESS_PRIVATE = 0x119E,
  CL_KERNEL_ARG_ACCESS_READ_ONLY = 0x11A0,
  CL_KERNEL_ARG_ACCESS_NONE = 0x11A3,
  CL_KERNEL_WORK_GROUP_SIZE = 0x11B0
};
#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)

/* result, name, parameters */
#define MB_CL_FUNCTIONS(F)                                                                        \
  F(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                             \
  F(cl_int, clGetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))               \
  F(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))    \
  F(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                   \
  F(cl_context, clCreateContext,                                                                  \
    (const intptr_t *, cl_uint, const cl_device_id *,                                             \
     void (*)(const char *, const void *, size_t, void *), void *, cl_int *))                     \
  F(cl_int, clReleaseContext, (cl_context))                                                       \
  F(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))    \
  F(cl_int, clReleaseCommandQueue, (cl_command_queue))                                            \
  F(cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                  \
  F(cl_mem, clCreateSubBuffer, (cl_mem, cl_bitfield, cl_uint, const void *, cl_int *))            \
  F(cl_int, clReleaseMemObject, (cl_mem))                                                         \
  F(cl_int, clEnqueueReadBuffer,                                                                  \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *,        \
     cl_event *))                                                                                 \
  F(cl_int, clEnqueueWriteBuffer,                                                                 \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *,  \
     cl_event *))                                                                                 \
  F(cl_int, clEnqueueCopyBuffer,                                                                  \
    (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *,         \
     cl_event *))                                                                                 \
  F(cl_int, clEnqueueMarkerWithWaitList,                                                          \
    (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                    \
  F(cl_int, clEnqueueBarrierWithWaitList,                                                         \
    (cl_command_queue, cl_uint, const cl_event *, cl_event *))                                    \
  F(cl_int, clEnqueueNDRangeKernel,                                                               \
    (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,        \
     cl_uint, const cl_event *, cl_event *))                                                      \
  F(cl_int, clWaitForEvents, (cl_uint, const cl_event *))                                         \
  F(cl_int, clReleaseEvent, (cl_event))                                                           \
  F(cl_int, clFlush, (cl_command_queue))                                                          \
  F(cl_int, clFinish, (cl_command_queue))                                                         \
  F(cl_program, clCreateProgramWithSource,                                                        \
    (cl_context, cl_uint, const char **, const size_t *, cl_int *))                               \
  F(cl_program, clCreateProgramWithBinary,                                                        \
    (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, \
     cl_int *))                                                                                   \
  F(cl_int, clBuildProgram,                                                                       \
    (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *),       \
     void *))                                                                                     \
  F(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                    \
  F(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *)) \
  F(cl_int, clReleaseProgram, (cl_program))                                                       \
  F(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                              \
  F(cl_int, clReleaseKernel, (cl_kernel))                                                         \
  F(cl_int, clGetKernelInfo, (cl_kernel, cl_uint, size_t, void *, size_t *))                      \
  F(cl_int, clGetKernelWorkGroupInfo,                                                             \
    (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))                                 \
  F(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                           \
  F(void *, clGetExtensionFunctionAddressForPlatform, (cl_platform_id, const char *))

typedef cl_program (*mb_cl_with_il)(cl_context, const void *, size_t, cl_int *);
typedef cl_int (*mb_cl_arg_info)(cl_kernel, cl_uint, cl_uint, size_t, void *, size_t *);

struct mb_cl_api {
#define MEMBER(result, name, parameters) result(*name) parameters;
  MB_CL_FUNCTIONS(MEMBER)
#undef MEMBER
  mb_cl_with_il clCreateProgramWithIL; /* NULL in libraries before 2.1 */
  mb_cl_arg_info clGetKernelArgInfo;   /* NULL in libraries that are not whole */
};

/* The functions, after mb_cl_load() succeeded. */
extern struct mb_cl_api mb_cl;
/* Open the library: MBLOB_OPENCL_LIBRARY, else libOpenCL.so.1. Not thread-safe; it stays open. */
int mb_cl_load(void);
/* The name under which it was opened. */
const char *mb_cl_library(void);

#endif
