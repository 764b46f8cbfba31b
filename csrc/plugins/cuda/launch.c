/* A call of a kernel: its arguments, its sizes against the device's, the launch. It does not
 * wait for the kernel. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>

#include "module.h"

enum { FEW = 32 }; /* arguments that need no memory of the heap */

struct arguments {
  uint64_t values[FEW], *value; /* one for each parameter */
  void *addresses[FEW], **address;
  int device_id; /* where the tensors are; -1 without any, as TVM's host code passes addresses */
};

/* ---- arguments ------------------------------------------------------------------------------- */

static int put_tensor(const struct mb_kernel *kernel, int index, const DLTensor *tensor,
                      struct arguments *out) {
  DLDevice device = tensor->device;
  bool on_device = device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
  if (!on_device && device.device_type != kDLCUDAHost)
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "kernel '%s': argument %d: its memory is on device type %d, expected cuda (2), cuda_host "
        "(3) or cuda_managed (13): copy the tensor there first",
        kernel->name, index, (int)device.device_type);
  if (device.device_type == kDLCUDA && out->device_id >= 0 && out->device_id != device.device_id)
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "kernel '%s': argument %d: its memory is on cuda:%d, that of an argument before it on "
        "cuda:%d",
        kernel->name, index, device.device_id, out->device_id);
  if (device.device_type == kDLCUDA) out->device_id = device.device_id;
  out->value[index] = (uint64_t)(uintptr_t)tensor->data + tensor->byte_offset;
  return mb_kernel_check_compact(kernel, index, tensor);
}

static int put_argument(const struct mb_kernel *kernel, int index, TVMValue value, int code,
                        struct arguments *out) {
  size_t size;
  out->address[index] = &out->value[index];
  if (!mb_is_pointer(kernel->types[index]))
    return mb_kernel_scalar(kernel, index, value, code, &out->value[index], &size);
  const DLTensor *tensor = mb_tensor_of(value, code);
  if (tensor) return put_tensor(kernel, index, tensor, out);
  if (code != kTVMOpaqueHandle && code != kTVMNullptr)
    return mb_fail_argument(MB_ARGUMENT_TYPE,
                            "kernel '%s'" MB_TEXT_ARGUMENT "%d: " MB_TEXT_EXPECTED, kernel->name,
                            index, "a tensor or an address on the device", mb_type_code_name(code));
  out->value[index] = code == kTVMNullptr ? 0 : (uint64_t)(uintptr_t)value.v_handle;
  return MBLOB_OK;
}

static int put_arguments(const struct mb_kernel *kernel, const TVMValue *args, const int *codes,
                         struct arguments *out) {
  size_t count = kernel->type_count;
  out->value = out->values, out->address = out->addresses, out->device_id = -1;
  if (count > FEW) {
    out->value = calloc(count, sizeof(*out->value));
    out->address = calloc(count, sizeof(*out->address));
    if (!out->value || !out->address) return mb_fail_memory(count * 16);
  }
  int status = MBLOB_OK;
  for (size_t i = 0; i < count && !status; i++)
    status = put_argument(kernel, (int)i, args[i], codes[i], out);
  return status;
}

static void free_arguments(struct arguments *arguments) {
  if (arguments->value != arguments->values) free(arguments->value);
  if (arguments->address != arguments->addresses) free(arguments->address);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int check_extents(const struct mb_kernel *kernel, const struct cuda_device *d,
                         const struct mb_launch *launch) {
  static const char axes[] = "xyz";
  for (int i = 0; i < 6; i++) {
    int limit = i < MB_BLOCK_X ? d->max_grid[i] : d->max_block[i - MB_BLOCK_X];
    if (launch->extent[i] > (uint64_t)limit)
      return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': a %s of %llu %s in %c; cuda:%d, %s, allows %d",
                     kernel->name, i < MB_BLOCK_X ? "grid" : "block",
                     (unsigned long long)launch->extent[i], i < MB_BLOCK_X ? "blocks" : "threads",
                     axes[i % 3], d->id, d->name, limit);
  }
  return MBLOB_OK;
}

static int check_sizes(const struct mb_kernel *kernel, const struct cuda_device *d,
                       const struct cuda_kernel *on, const struct mb_launch *launch) {
  int status = check_extents(kernel, d, launch);
  if (status) return status;
  uint64_t threads = launch->extent[3] * launch->extent[4] *
                     launch->extent[5]; /* each at most INT_MAX, see max_block */
  if (threads > (uint64_t)d->max_threads)
    return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': a block of %llu threads; cuda:%d, %s, allows %d",
                   kernel->name, (unsigned long long)threads, d->id, d->name, d->max_threads);
  if (threads > (uint64_t)on->max_threads)
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "kernel '%s': a block of %llu threads; its registers and launch bounds allow %d on "
        "cuda:%d, %s",
        kernel->name, (unsigned long long)threads, on->max_threads, d->id, d->name);
  int most = d->max_shared_opt_in - on->static_shared;
  if (launch->shared > (uint64_t)(most > 0 ? most : 0))
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "kernel '%s': %llu bytes of dynamic shared memory beside %d of its own; cuda:%d, %s, "
        "allows %d together",
        kernel->name, (unsigned long long)launch->shared, on->static_shared, d->id, d->name,
        d->max_shared_opt_in);
  return MBLOB_OK;
}

/* ---- launch ---------------------------------------------------------------------------------- */

static int launch_on(struct cuda_module *module, const struct mb_kernel *kernel,
                     const struct cuda_scope *scope, const struct mb_launch *launch,
                     struct arguments *arguments) {
  struct cuda_kernel *on;
  const uint64_t *n = launch->extent;
  int status = cuda_module_kernel(module, kernel, scope, &on);
  if (!status) status = check_sizes(kernel, scope->device, on, launch);
  if (!status) status = cuda_module_allow_shared(module, kernel, on, scope, (int)launch->shared);
  if (status) return status;
  CUresult error = scope->driver->launch(
      atomic_load_explicit(&on->function, memory_order_relaxed), (unsigned)n[0], (unsigned)n[1],
      (unsigned)n[2], (unsigned)n[3], (unsigned)n[4], (unsigned)n[5], (unsigned)launch->shared,
      cuda_thread_stream(scope->device->id), arguments->address, NULL);
  return cuda_check(
      scope, error, "kernel '%s': the launch of %llux%llux%llu blocks of %llux%llux%llu threads",
      kernel->name, (unsigned long long)n[0], (unsigned long long)n[1], (unsigned long long)n[2],
      (unsigned long long)n[3], (unsigned long long)n[4], (unsigned long long)n[5]);
}

int cuda_module_call(void *self, void *function, const TVMValue *args, const int *codes, int count,
                     void *ret) {
  const struct mb_kernel *kernel = function;
  struct mb_launch launch;
  struct arguments arguments;
  struct cuda_scope scope;
  (void)ret; /* kernels return nothing */
  int status = mb_kernel_launch(kernel, args, codes, count, &launch);
  if (status) return status;
  status = put_arguments(kernel, args, codes, &arguments);
  if (!status)
    status =
        cuda_enter(arguments.device_id >= 0 ? arguments.device_id : cuda_thread_device(), &scope);
  if (!status) {
    status = launch_on(self, kernel, &scope, &launch, &arguments);
    cuda_leave(&scope);
  }
  free_arguments(&arguments);
  return status;
}
