/* An OpenCL library for tests: memory is the heap, a program is its own binary, kernels whose
 * name is known run (fake_opencl_programs.c), and any call can be made to fail. What the machine
 * looks like comes from the environment:
 *   FAKE_CL_PLATFORMS  how many, 1 by default
 *   FAKE_CL_FORGETS    set: the arguments of binaries are not told
 *   FAKE_CL_DEVICES    kinds in the driver's order on each platform, "cpu,gpu" by default */
#define _GNU_SOURCE
#include "fake_opencl_inside.h"

enum { MOST_DEVICES = 80, PLATFORMS = 4 };

struct _cl_platform_id {
  int number;
};
struct _cl_command_queue {
  cl_context context;
};
struct _cl_event {
  int any;
};

static struct _cl_platform_id platforms[PLATFORMS];
static struct _cl_device_id devices[PLATFORMS][MOST_DEVICES];

/* ---- what tests ask and say ------------------------------------------------------------------ */

EXPORT struct fake_state fake_cl;
pthread_mutex_t fake_cl_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_objects objects = {NULL, PTHREAD_MUTEX_INITIALIZER};

int fake_cl_fails(const char *function, cl_int *code) {
  pthread_mutex_lock(&fake_cl_lock);
  if (fake_cl.unloaded) abort();
  if (strcmp(function, "clCreateProgramWithSource") == 0) fake_cl.compilations++;
  *code = fake_code(&fake_cl.calls, function);
  pthread_mutex_unlock(&fake_cl_lock);
  return *code != CL_SUCCESS;
}

void *fake_cl_new(size_t size) {
  __atomic_add_fetch(&fake_cl.live, 1, __ATOMIC_RELAXED);
  return new_object(&objects, size);
}

cl_int fake_cl_end(void *object, const char *function) {
  cl_int code;
  (void)fake_cl_fails(function, &code);
  __atomic_sub_fetch(&fake_cl.live, 1, __ATOMIC_RELAXED);
  forget(&objects, object);
  return code;
}

/* ---- platforms and devices ------------------------------------------------------------------- */

EXPORT cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *out, cl_uint *count) {
  MAY_FAIL();
  const char *text = getenv("FAKE_CL_PLATFORMS");
  const cl_uint n = text ? (cl_uint)atoi(text) : 1;
  if (!n) return CL_PLATFORM_NOT_FOUND_KHR;
  if (count) *count = n;
  for (cl_uint i = 0; out && i < room && i < n; i++) {
    platforms[i].number = (int)i;
    out[i] = &platforms[i];
  }
  return CL_SUCCESS;
}

EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint what, size_t room, void *out,
                                size_t *needed) {
  MAY_FAIL();
  char name[32];
  snprintf(name, sizeof(name), "Fake Platform %d", platform->number);
  return what == CL_PLATFORM_NAME ? answer_text(name, room, out, needed) : -30;
}

EXPORT cl_int clGetDeviceIDs(cl_platform_id platform, cl_bitfield types, cl_uint room,
                             cl_device_id *out, cl_uint *count) {
  MAY_FAIL();
  const char *text = getenv("FAKE_CL_DEVICES");
  cl_uint n = 0;
  (void)types;
  for (const char *at = text ? text : "cpu,gpu"; *at; n++) {
    struct _cl_device_id *d = &devices[platform->number][n];
    d->number = 100 * platform->number + (int)n;
    d->type = *at == 'g'   ? CL_DEVICE_TYPE_GPU
              : *at == 'a' ? CL_DEVICE_TYPE_ACCELERATOR
                           : CL_DEVICE_TYPE_CPU;
    if (out && n < room) out[n] = d;
    at += strcspn(at, ",");
    at += *at == ',';
  }
  if (count) *count = n;
  return n ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t room, void *out,
                              size_t *needed) {
  MAY_FAIL();
  const size_t items[3] = {1024, 512, 64};
  char name[32];
  size_t size = 0;
  cl_uint number = 0;
  cl_ulong wide = 0;
  switch (what) {
    case CL_DEVICE_TYPE: return answer(&device->type, sizeof(device->type), room, out, needed);
    case CL_DEVICE_NAME:
      snprintf(name, sizeof(name), "Fake %s %d",
               device->type == CL_DEVICE_TYPE_GPU ? "GPU" : "Device", device->number);
      return answer_text(name, room, out, needed);
    case CL_DEVICE_VERSION: return answer_text("OpenCL 2.1 Fake", room, out, needed);
    case CL_DRIVER_VERSION: return answer_text("7.5", room, out, needed);
    case CL_DEVICE_IL_VERSION:
      return answer_text(getenv("FAKE_CL_IL") ? "SPIR-V_1.2" : "", room, out, needed);
    case CL_DEVICE_EXTENSIONS: return answer_text("cl_khr_fp64", room, out, needed);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer(items, sizeof(items), room, out, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      size = 1024;
      return answer(&size, sizeof(size), room, out, needed);
    case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: number = 3; break;
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: number = 1024; break;
    case CL_DEVICE_ADDRESS_BITS: number = 32; break;
    case CL_DEVICE_MAX_CLOCK_FREQUENCY: number = 1500; break;
    case CL_DEVICE_MAX_COMPUTE_UNITS: number = 12; break;
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      wide = 1 << 26;
      return answer(&wide, sizeof(wide), room, out, needed);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
      wide = UINT64_C(1) << 33;
      return answer(&wide, sizeof(wide), room, out, needed);
    case CL_DEVICE_LOCAL_MEM_SIZE:
      wide = 49152;
      return answer(&wide, sizeof(wide), room, out, needed);
    default: return -30;
  }
  return answer(&number, sizeof(number), room, out, needed);
}

EXPORT cl_context clCreateContext(const intptr_t *properties, cl_uint count,
                                  const cl_device_id *list,
                                  void (*notify)(const char *, const void *, size_t, void *),
                                  void *data, cl_int *error) {
  MAY_FAIL_OBJECT(error);
  (void)properties, (void)notify, (void)data;
  if (count != 1) abort();
  cl_context context = fake_cl_new(sizeof(*context));
  context->device = list[0];
  return context;
}

EXPORT cl_int clReleaseContext(cl_context context) { return fake_cl_end(context, __func__); }

EXPORT cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_bitfield properties, cl_int *error) {
  MAY_FAIL_OBJECT(error);
  if (device != context->device || properties) abort();
  cl_command_queue queue = fake_cl_new(sizeof(*queue));
  queue->context = context;
  return queue;
}

EXPORT cl_int clReleaseCommandQueue(cl_command_queue queue) { return fake_cl_end(queue, __func__); }

/* ---- memory ---------------------------------------------------------------------------------- */

EXPORT cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *host,
                             cl_int *error) {
  MAY_FAIL_OBJECT(error);
  (void)context;
  if (flags != CL_MEM_READ_WRITE || host || !size) abort();
  cl_mem mem = fake_cl_new(sizeof(*mem));
  mem->data = malloc(size);
  mem->size = size;
  return mem;
}

EXPORT cl_mem clCreateSubBuffer(cl_mem whole, cl_bitfield flags, cl_uint type, const void *info,
                                cl_int *error) {
  MAY_FAIL_OBJECT(error);
  const cl_buffer_region *region = info;
  if (flags != CL_MEM_READ_WRITE || type != CL_BUFFER_CREATE_TYPE_REGION || region->origin % 128 ||
      region->origin + region->size > whole->size)
    abort();
  cl_mem mem = fake_cl_new(sizeof(*mem));
  *mem = (struct _cl_mem){whole->data + region->origin, region->size, 1};
  return mem;
}

EXPORT cl_int clReleaseMemObject(cl_mem mem) {
  if (!mem->is_part) free(mem->data);
  return fake_cl_end(mem, __func__);
}

static void used(cl_command_queue queue) {
  __atomic_store_n(&fake_cl.last_queue, queue, __ATOMIC_RELAXED);
}

EXPORT cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                  size_t offset, size_t size, void *to, cl_uint waits,
                                  const cl_event *list, cl_event *event) {
  MAY_FAIL();
  if (!blocking || waits || list || event || offset + size > mem->size) abort();
  used(queue);
  memcpy(to, mem->data + offset, size);
  return CL_SUCCESS;
}

EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                   size_t offset, size_t size, const void *from, cl_uint waits,
                                   const cl_event *list, cl_event *event) {
  MAY_FAIL();
  if (!blocking || waits || list || event || offset + size > mem->size) abort();
  used(queue);
  memcpy(mem->data + offset, from, size);
  return CL_SUCCESS;
}

EXPORT cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to,
                                  size_t from_offset, size_t to_offset, size_t size, cl_uint waits,
                                  const cl_event *list, cl_event *event) {
  MAY_FAIL();
  if (waits || list || from_offset + size > from->size || to_offset + size > to->size) abort();
  if (from == to && from_offset < to_offset + size && to_offset < from_offset + size) return -8;
  used(queue);
  memcpy(to->data + to_offset, from->data + from_offset, size);
  if (event) *event = fake_cl_new(sizeof(**event));
  return CL_SUCCESS;
}

EXPORT cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint waits,
                                          const cl_event *list, cl_event *event) {
  MAY_FAIL();
  (void)queue;
  if (waits || list) abort();
  *event = fake_cl_new(sizeof(**event));
  return CL_SUCCESS;
}

EXPORT cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint waits,
                                           const cl_event *list, cl_event *event) {
  MAY_FAIL();
  if (waits != 1 || !list[0] || event) abort();
  used(queue);
  return CL_SUCCESS;
}

EXPORT cl_int clWaitForEvents(cl_uint count, const cl_event *list) {
  MAY_FAIL();
  return count == 1 && list[0] ? CL_SUCCESS : -30;
}

EXPORT cl_int clReleaseEvent(cl_event event) { return fake_cl_end(event, __func__); }

EXPORT cl_int clFlush(cl_command_queue queue) {
  MAY_FAIL();
  (void)queue;
  return CL_SUCCESS;
}

EXPORT cl_int clFinish(cl_command_queue queue) {
  MAY_FAIL();
  used(queue);
  return CL_SUCCESS;
}

EXPORT void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name) {
  (void)platform, (void)name;
  return NULL;
}
