#define _GNU_SOURCE
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int free_shared =
    48 << 10; /* dynamic shared memory that every kernel may use without asking */

/* ---- payload --------------------------------------------------------------------------------- */

static int read_payload(struct cuda_module *module, const mblob_module_info *info) {
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  struct mb_slice fmt;
  if (!mb_read_string(&c, &fmt, "cuda: fmt")) return MBLOB_E_FORMAT;
  int status = mb_kernel_list_read(&c, mb_is_ffi(info), &module->list);
  if (status) return status;
  if (!mb_read_string(&c, &module->code, "cuda: data")) return MBLOB_E_FORMAT;
  if (mb_left(&c))
    return mb_fail_format("payload", (int64_t)c.pos, c.entry, "cuda: %llu bytes follow the code",
                          (unsigned long long)mb_left(&c));
  return cuda_code_check(fmt, module->code, &module->kind);
}

int cuda_module_open(const mblob_host *host, const mblob_module_info *info, void **self) {
  struct cuda_module *module = calloc(1, sizeof(*module));
  if (!module) return mb_fail_memory(sizeof(*module));
  if (asprintf(&module->name, "module %llu of %s", (unsigned long long)info->index,
               info->path && *info->path ? info->path : MB_TEXT_IN_MEMORY) < 0) {
    free(module);
    return mb_fail_memory(0);
  }
  int status = read_payload(module, info);
  if (status) {
    mb_kernel_list_free(&module->list);
    free(module->name);
    free(module);
    return status;
  }
  mb_lock_init_uncounted(&module->lock); /* drivers compile */
  host->names(info->module, module->list.names, module->list.count);
  *self = module;
  return MBLOB_OK;
}

int cuda_module_function(void *self, const char *name, void **function) {
  const struct cuda_module *module = self;
  const struct mb_kernel *kernel = mb_map_get(&module->list.by_name, name);
  *function = NULL;
  int status = kernel ? mb_kernel_check(kernel) : MBLOB_OK;
  if (kernel && !status)
    status = cuda_code_check_kernel(module->code, module->kind, kernel, module->name);
  if (!status) *function = (void *)(uintptr_t)kernel;
  return status;
}

static void unload(struct cuda_loaded *loaded, int device_id) {
  struct cuda_scope scope;
  if (!cuda_enter(device_id, &scope)) {
    /* Code must not go while a kernel of it runs. What happens to a device that is lost is told
     * elsewhere. */
    const CUresult error = scope.driver->context_synchronize();
    if (!cuda_is_gone(&scope, error) && !cuda_is_sticky(error))
      (void)scope.driver->module_unload(loaded->module);
    cuda_leave(&scope);
  }
  free(loaded);
}

void cuda_module_close(void *self) {
  struct cuda_module *module = self;
  for (int i = 0; i < CUDA_DEVICES; i++) {
    struct cuda_loaded *loaded = atomic_load(&module->loaded[i]);
    if (loaded) unload(loaded, i);
  }
  mb_kernel_list_free(&module->list);
  mb_lock_destroy(&module->lock);
  free(module->name);
  free(module);
}

/* ---- on a device ----------------------------------------------------------------------------- */

static int load_locked(struct cuda_module *module, const struct cuda_scope *scope,
                       struct cuda_loaded **out) {
  *out = atomic_load(&module->loaded[scope->device->id]);
  if (*out) return MBLOB_OK;
  size_t size = sizeof(struct cuda_loaded) + module->list.count * sizeof(struct cuda_kernel);
  struct cuda_loaded *loaded = calloc(1, size);
  if (!loaded) return mb_fail_memory(size);
  int status = cuda_code_load(scope, module->name, module->code, module->kind, &loaded->module);
  if (status) {
    free(loaded);
    return status;
  }
  atomic_store_explicit(&module->loaded[scope->device->id], loaded, memory_order_release);
  *out = loaded;
  return MBLOB_OK;
}

static int find_locked(struct cuda_module *module, const struct mb_kernel *kernel,
                       const struct cuda_scope *scope, struct cuda_kernel **out) {
  struct cuda_loaded *loaded;
  CUfunction function = NULL;
  int status = load_locked(module, scope, &loaded);
  if (status) return status;
  const struct cuda_driver *driver = scope->driver;
  struct cuda_kernel *on = *out = &loaded->kernels[kernel->index];
  if (atomic_load(&on->function)) return MBLOB_OK;
  CUresult error = driver->module_function(&function, loaded->module, kernel->name);
  if (!error)
    error = driver->function_get(&on->static_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  if (!error)
    error =
        driver->function_get(&on->max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  if (error) return cuda_check(scope, error, "kernel '%s' of %s", kernel->name, module->name);
  int rest = scope->device->max_shared - on->static_shared;
  on->dynamic_shared = rest < free_shared ? rest : free_shared;
  atomic_store(&on->allowed_shared, on->dynamic_shared);
  atomic_store_explicit(&on->function, function, memory_order_release);
  return MBLOB_OK;
}

int cuda_module_kernel(struct cuda_module *module, const struct mb_kernel *kernel,
                       const struct cuda_scope *scope, struct cuda_kernel **out) {
  struct cuda_loaded *loaded =
      atomic_load_explicit(&module->loaded[scope->device->id], memory_order_acquire);
  if (loaded &&
      atomic_load_explicit(&loaded->kernels[kernel->index].function, memory_order_acquire)) {
    *out = &loaded->kernels[kernel->index];
    return MBLOB_OK;
  }
  mb_lock(&module->lock);
  int status = find_locked(module, kernel, scope, out);
  mb_unlock(&module->lock);
  return status;
}

int cuda_module_allow_shared(struct cuda_module *module, const struct mb_kernel *kernel,
                             struct cuda_kernel *on, const struct cuda_scope *scope, int bytes) {
  CUresult error = CUDA_SUCCESS;
  if (bytes <= atomic_load_explicit(&on->allowed_shared, memory_order_acquire)) return MBLOB_OK;
  mb_lock(&module->lock);
  if (bytes > on->dynamic_shared) {
    error = scope->driver->function_set(atomic_load(&on->function),
                                        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
    if (!error) {
      on->dynamic_shared = bytes;
      atomic_store_explicit(&on->allowed_shared, bytes, memory_order_release);
    }
  }
  mb_unlock(&module->lock);
  return cuda_check(scope, error, "kernel '%s': %d bytes of dynamic shared memory", kernel->name,
                    bytes);
}
