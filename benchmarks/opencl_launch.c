/* What a launch of an OpenCL kernel costs, through mblob and through the vendor's interface
 * alone, by turns.
 *     opencl_launch LIBRARY ROUNDS LAUNCHES
 * LIBRARY has the kernel `add` below under the key opencl. Prints a line "mblob plain" of
 * seconds per launch for each round; a launch sets all arguments, and each side waits once, at
 * the end of its LAUNCHES. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mblob.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../csrc/plugins/opencl/cl_api.h"

#define CHECK(condition) \
  if (!(condition))      \
  return fprintf(stderr, "%s\n  last error: %s\n", #condition, mblob_last_error()), 1

enum { FLOATS = 64 };
static const char source[] =
    "__kernel void add(__global float *a, __global float *b, __global float *c) {"
    "  int i = get_global_id(0); c[i] = a[i] + b[i]; }";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the vendor's interface ------------------------------------------------------------------ */

static struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
  MB_CL_FUNCTIONS(MEMBER)
} cl;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem buffers[3];

static int prepare_plain(void) {
  const char *asked = getenv("MBLOB_OPENCL_LIBRARY"), *text = source;
  void *library = dlopen(asked ? asked : "libOpenCL.so.1", RTLD_NOW);
  cl_platform_id platform;
  cl_device_id device;
  cl_int code;
  if (!library) return 1;
#define FIND(result, name, parameters) *(void **)&cl.name = dlsym(library, #name);
  MB_CL_FUNCTIONS(FIND)
  if (cl.clGetPlatformIDs(1, &platform, NULL) ||
      cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
    return 1;
  cl_context context = cl.clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  cl_program program = code ? NULL : cl.clCreateProgramWithSource(context, 1, &text, NULL, &code);
  if (code || cl.clBuildProgram(program, 1, &device, "", NULL, NULL)) return 1;
  queue = cl.clCreateCommandQueue(context, device, 0, &code);
  kernel = code ? NULL : cl.clCreateKernel(program, "add", &code);
  for (int i = 0; !code && i < 3; i++)
    buffers[i] = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, FLOATS * sizeof(float), NULL, &code);
  return code != 0;
}

static int run_plain(long launches) {
  const size_t global = FLOATS, local = FLOATS;
  for (long n = 0; n < launches; n++) {
    for (cl_uint i = 0; i < 3; i++)
      if (cl.clSetKernelArg(kernel, i, sizeof(cl_mem), &buffers[i])) return 1;
    if (cl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL)) return 1;
  }
  return cl.clFinish(queue) != 0;
}

/* ---- mblob ----------------------------------------------------------------------------------- */

static mblob_function *function;
static TVMValue args[5];
static const int codes[5] = {kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMArgInt,
                             kTVMArgInt};

static int prepare_mblob(const char *path) {
  mblob_module *module;
  const int64_t shape[1] = {FLOATS};
  if (mblob_open(path, NULL, &module) || mblob_module_function(module, "add", 1, &function))
    return 1;
  for (int i = 0; i < 3; i++) {
    DLTensor *tensor;
    if (TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLOpenCL, 0, &tensor)) return 1;
    args[i].v_handle = tensor->data;
  }
  args[3].v_int64 = 1;
  args[4].v_int64 = FLOATS;
  return 0;
}

static int run_mblob(long launches) {
  for (long n = 0; n < launches; n++)
    if (mblob_function_call(function, args, codes, 5, NULL, NULL)) return 1;
  return TVMSynchronize(kDLOpenCL, 0, NULL);
}

int main(int argc, char **argv) {
  CHECK(argc == 4);
  const long rounds = atol(argv[2]), launches = atol(argv[3]);
  CHECK(!prepare_mblob(argv[1]));
  CHECK(!prepare_plain());
  for (long round = -1; round < rounds; round++) { /* the first one warms */
    double seconds[2];
    for (int turn = 0; turn < 2; turn++) {
      const int plain = (turn + (int)round) & 1;
      const double start = now();
      CHECK(!(plain ? run_plain(launches) : run_mblob(launches)));
      seconds[plain] = (now() - start) / (double)launches;
    }
    if (round >= 0) printf("%.9g %.9g\n", seconds[0], seconds[1]);
  }
  return 0;
}
