#define _GNU_SOURCE
#include "cl_launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cl_memory.h"

/* ---- arguments ------------------------------------------------------------------------------- */

/* A pointer argument: the memory, and where in it the tensor begins. */
struct pointer {
  struct mb_cl_handle *memory; /* NULL for a null pointer */
  uint64_t offset;
};

enum {
  KEPT = 16
}; /* the pointers among so many first arguments are read once in a launch, those behind them twice
    */

static int read_pointer(const struct mb_kernel *k, uint64_t i, TVMValue value, int code,
                        struct pointer *out) {
  const void *data = value.v_handle;
  char what[160];
  *out = (struct pointer){NULL, 0};
  switch (code) {
    case kTVMNullptr: return MBLOB_OK;
    case kTVMOpaqueHandle: break;
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle: {
      const DLTensor *tensor = value.v_handle;
      if (!tensor) return MBLOB_OK;
      if (tensor->device.device_type != kDLOpenCL)
        return mb_fail(
            MBLOB_E_ARGUMENT,
            "opencl: kernel '%s': argument %llu is a tensor of device type %d, expected %d (opencl)",
            k->name, (unsigned long long)i, (int)tensor->device.device_type, kDLOpenCL);
      if (mb_kernel_check_compact(k, (int)i, tensor)) return MBLOB_E_ARGUMENT;
      data = tensor->data;
      out->offset = tensor->byte_offset;
      break;
    }
    default:
      return mb_fail_argument(MB_ARGUMENT_TYPE,
                              "opencl: kernel '%s': argument %llu is a pointer and was given %s",
                              k->name, (unsigned long long)i, mb_type_code_name(code));
  }
  if (!data && !out->offset) return MBLOB_OK;
  out->memory = mb_cl_handle_of(MB_CL_MEMORY, data);
  if (out->memory) return MBLOB_OK;
  (void)snprintf(what, sizeof(what), "kernel '%.100s': argument %llu", k->name,
                 (unsigned long long)i);
  return mb_cl_memory_of(data, what, &out->memory);
}

/* The device of the kernel's memory, which must be one; without memory the one that the thread
 * chose. */
static int find_device(const struct mb_kernel *k, const TVMValue *args, const int *codes,
                       struct pointer kept[KEPT], struct mb_cl_device **out) {
  int id = -1;
  uint64_t first = 0;
  for (uint64_t i = 0; i < k->type_count; i++) {
    struct pointer p;
    if (!mb_is_pointer(k->types[i])) continue;
    int status = read_pointer(k, i, args[i], codes[i], &p);
    if (status) return status;
    if (i < KEPT) kept[i] = p;
    if (!p.memory) continue;
    if (id < 0) {
      id = p.memory->device_id;
      first = i;
    } else if (p.memory->device_id != id) {
      return mb_fail(
          MBLOB_E_ARGUMENT,
          "opencl: kernel '%s': argument %llu is memory of device %d, argument %llu of device %d",
          k->name, (unsigned long long)first, id, (unsigned long long)i, p.memory->device_id);
    }
  }
  return mb_cl_open(id < 0 ? mb_cl_current_device() : id, out);
}

/* Sub-buffers are needed until the kernel was launched, which retains them. */
struct subs {
  cl_mem *items;
  size_t count;
};

static int add_sub(const struct mb_kernel *k, uint64_t i, const struct mb_cl_device *d,
                   const struct pointer *p, struct subs *subs, cl_mem *out) {
  const struct mb_cl_handle *m = p->memory;
  cl_int code = CL_SUCCESS;
  if (p->offset >= m->size || p->offset % d->base_alignment)
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "opencl: kernel '%s': argument %llu begins at byte %llu of memory of %llu bytes; device %d (%s) takes "
        "multiples of %llu inside of it",
        k->name, (unsigned long long)i, (unsigned long long)p->offset, (unsigned long long)m->size,
        d->id, d->name, (unsigned long long)d->base_alignment);
  if (!subs->items) subs->items = malloc((size_t)k->type_count * sizeof(*subs->items));
  if (!subs->items) return mb_fail_memory((size_t)k->type_count * sizeof(*subs->items));
  const cl_buffer_region region = {(size_t)p->offset, (size_t)(m->size - p->offset)};
  *out = mb_cl.clCreateSubBuffer(m->object, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                 &region, &code);
  if (!*out)
    return mb_cl_fail(d, code, "kernel '%s': argument %llu: a part of a buffer", k->name,
                      (unsigned long long)i);
  subs->items[subs->count++] = *out;
  return MBLOB_OK;
}

static int set_argument(const struct mb_cl_launcher *l, const struct mb_kernel *k, uint64_t i,
                        TVMValue value, int code, const struct pointer kept[KEPT],
                        struct subs *subs) {
  uint64_t scalar = 0;
  size_t size = 0;
  struct pointer p = {NULL, 0};
  cl_mem buffer = NULL;
  const bool is_pointer = mb_is_pointer(k->types[i]);
  int status = MBLOB_OK;
  if (!is_pointer)
    status = mb_kernel_scalar(k, (int)i, value, code, &scalar, &size);
  else if (i < KEPT)
    p = kept[i];
  else
    status = read_pointer(k, i, value, code, &p);
  if (!status && is_pointer && !p.memory) /* OpenCL allows it for kernels that do not follow it;
                                             drivers crash at the others */
    status = mb_fail(MBLOB_E_ARGUMENT,
                     "opencl: kernel '%s': argument %llu is a pointer and was given none", k->name,
                     (unsigned long long)i);
  if (!status && p.memory) {
    buffer = p.memory->object;
    if (p.offset) status = add_sub(k, i, l->device, &p, subs, &buffer);
  }
  if (status) return status;
  const cl_int result = is_pointer
                            ? mb_cl.clSetKernelArg(l->kernel, (cl_uint)i, sizeof(buffer), &buffer)
                            : mb_cl.clSetKernelArg(l->kernel, (cl_uint)i, size, &scalar);
  char text[32];
  return result ? mb_cl_fail(l->device, result, "kernel '%s': argument %llu, declared %s", k->name,
                             (unsigned long long)i, mb_kernel_type_text(k->types[i], text))
                : MBLOB_OK;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

struct range {
  size_t global[3], local[3];
};

static int too_large(const struct mb_cl_launcher *l, const struct mb_kernel *k,
                     const struct mb_launch *launch, const char *what, uint64_t limit) {
  return mb_fail(
      MBLOB_E_ARGUMENT,
      "opencl: kernel '%s' launched with blockIdx (%" PRIu64 ", %" PRIu64 ", %" PRIu64
      ") and threadIdx (%" PRIu64 ", %" PRIu64 ", %" PRIu64 "): %s of device %d (%s) is %" PRIu64,
      k->name, launch->extent[0], launch->extent[1], launch->extent[2], launch->extent[3],
      launch->extent[4], launch->extent[5], what, l->device->id, l->device->name, limit);
}

/* OpenCL tells no limit of groups, and drivers count them in 32 bits: PoCL ends the process at 2
 * ^ 32 - 1. */
static int check_sizes(const struct mb_cl_launcher *l, const struct mb_kernel *k,
                       const struct mb_launch *launch, struct range *out) {
  const struct mb_cl_device *d = l->device;
  const uint64_t largest = d->address_bits == 32 ? UINT32_MAX : SIZE_MAX;
  uint64_t group = 1, groups = 1, global;
  static const char *const names[] = {"the largest threadIdx.x", "the largest threadIdx.y",
                                      "the largest threadIdx.z"};
  for (int i = 0; i < 3; i++) {
    const uint64_t grid = launch->extent[i], block = launch->extent[MB_BLOCK_X + i];
    if (block > d->max_items[i]) return too_large(l, k, launch, names[i], d->max_items[i]);
    if (__builtin_mul_overflow(group, block, &group) || group > l->max_group)
      return too_large(l, k, launch, "the largest group of this kernel", l->max_group);
    if (grid > INT32_MAX ||
        (groups *= grid) > INT32_MAX) /* of two numbers below 2 ^ 31: no overflow */
      return too_large(l, k, launch, "the largest number of groups", INT32_MAX);
    if (__builtin_mul_overflow(grid, block, &global) || global > largest)
      return too_large(l, k, launch, "the largest number of work-items of an axis", largest);
    out->local[i] = (size_t)block;
    out->global[i] = (size_t)global;
  }
  return MBLOB_OK;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* 1 to 3: up to the last axis that has a tag. */
static cl_uint dimensions_of(const struct mb_kernel *k) {
  cl_uint count = 1;
  for (size_t i = 0; i < k->tag_count; i++)
    if (k->tags[i] < MB_SHARED_BYTES && k->tags[i] % 3u + 1 > count) count = k->tags[i] % 3u + 1;
  return count;
}

/* The lock of the launcher is held. */
static int launch_now(struct mb_cl_launcher *l, const struct mb_kernel *k, const TVMValue *args,
                      const int *codes, const struct pointer kept[KEPT], const struct range *range,
                      cl_command_queue queue, struct subs *subs) {
  for (uint64_t i = 0; i < k->type_count; i++) {
    int status = set_argument(l, k, i, args[i], codes[i], kept, subs);
    if (status) return status;
  }
  const cl_int code = mb_cl.clEnqueueNDRangeKernel(queue, l->kernel, dimensions_of(k), NULL,
                                                   range->global, range->local, 0, NULL, NULL);
  return code ? mb_cl_fail(l->device, code, "launching kernel '%s'", k->name) : MBLOB_OK;
}

int mb_cl_launch(struct mb_cl_module *m, uint64_t kernel, const TVMValue *args, const int *codes,
                 int count) {
  const struct mb_kernel *k = &m->payload.kernels.items[kernel];
  struct mb_cl_device *device = NULL;
  struct mb_cl_launcher *l = NULL;
  struct mb_launch launch;
  struct range range;
  struct subs subs = {NULL, 0};
  struct pointer kept[KEPT];
  cl_command_queue queue = NULL;
  int status = mb_kernel_launch(k, args, codes, count,
                                &launch); /* `shared`: not used, as in TVM's runtime */
  if (!status) status = find_device(k, args, codes, kept, &device);
  if (!status) status = mb_cl_launcher_of(m, kernel, device, &l);
  if (!status) status = check_sizes(l, k, &launch, &range);
  if (!status) status = mb_cl_queue(device, NULL, &queue);
  if (status) return status;
  mb_lock(&l->lock);
  status = launch_now(l, k, args, codes, kept, &range, queue, &subs);
  mb_unlock(&l->lock);
  if (!status && !atomic_load_explicit(&device->settled, memory_order_relaxed)) {
    const cl_int code = mb_cl_settle(device, queue);
    if (code) status = mb_cl_fail(device, code, "running kernel '%s'", k->name);
  }
  while (subs.count) (void)mb_cl.clReleaseMemObject(subs.items[--subs.count]);
  free(subs.items);
  return status;
}
