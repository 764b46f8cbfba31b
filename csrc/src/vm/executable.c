/* Modules of the key VMExecutable: a program of the Relay virtual machine, and machines that run it. */
#define _GNU_SOURCE
#include "vm/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "ndarray.h"
#include "vm/machine.h"

#define SHOWN 12 /* names that an error lists */

const struct vm_function *vm_function_find(const struct vm_executable *exec, const char *name) {
  const struct vm_function *found = mb_map_get(&exec->by_name, name);
  if (found) return found;
  char *list = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&list, &size);
  if (!out) return (void)mb_fail_memory(0), NULL;
  for (size_t i = 0; i < exec->function_count && i < SHOWN; i++)
    (void)fprintf(out, "%s%s", i ? ", " : "", exec->functions[i].name);
  (void)fclose(out);
  (void)mb_fail(MBLOB_E_ARGUMENT, "the program has no function '%s'; it has: %s", name,
                list && *list ? list : "none");
  free(list);
  return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void close_executable(void *object) {
  struct vm_executable *exec = object;
  vm_executable_reset(exec);
  free(exec->version);
  free(exec->owned);
  (void)pthread_mutex_destroy(&exec->lock);
  free(exec);
}

static int read_executable(const void *code, uint64_t size, int64_t entry, struct vm_executable **out) {
  *out = calloc(1, sizeof(**out));
  if (!*out) return mb_fail_memory(sizeof(**out));
  (void)pthread_mutex_init(&(*out)->lock, NULL);
  int status = vm_executable_read(*out, code, size, entry);
  if (!status) return MBLOB_OK;
  close_executable(*out);
  *out = NULL;
  return status;
}

/* The payload is one string: the code. */
static int open_executable(const mblob_module_info *info, void **object) {
  struct mb_cursor c = {info->payload, 0, info->payload_size, (int64_t)info->index};
  struct mb_slice code;
  struct vm_executable *exec = NULL;
  bool ok = mb_read_string(&c, &code, "code");
  int status = ok ? read_executable(code.data, code.size, (int64_t)info->index, &exec)
                  : mblob_last_error_info()->status;
  if (status) {
    mb_error_prefix(info->type_key);
    return status;
  }
  exec->module = info->module;
  *object = exec;
  return MBLOB_OK;
}

static int load_executable(const struct mb_call *call, mblob_module **out) {
  const void *code = NULL;
  size_t size = 0;
  mblob_module *library = NULL;
  struct vm_executable *exec = NULL;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_call_bytes(call, 0, &code, &size);
  if (!status && call->count == 2 && call->codes[1] != kTVMNullptr)
    status = mb_call_module(call, 1, &library);
  if (status) return status;
  void *copy = malloc(size ? size : 1);
  if (!copy) return mb_fail_memory(size);
  if (size) memcpy(copy, code, size);
  status = read_executable(copy, size, MB_UNKNOWN, &exec);
  if (status) {
    free(copy);
    return status;
  }
  exec->owned = copy;
  status = mb_native_create(&mb_vm_executable_class, exec, out);
  if (status) {
    close_executable(exec);
    return status;
  }
  exec->module = *out;
  status = library ? mblob_module_import(*out, library) : MBLOB_OK;
  if (status) mblob_module_release(*out);
  return status;
}

int mb_vm_load_executable(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  struct mb_call call = {
      .method = "runtime.Load_Executable", .args = args, .codes = codes, .count = count, .result = ret};
  mblob_module *module = NULL;
  (void)resource;
  int status = load_executable(&call, &module);
  if (status)
    mb_error_prefix(call.method);
  else
    mb_call_return_module(&call, module);
  return status;
}

/* ---- constants that are bound late ----------------------------------------------------------- */

/* With the lock: take what the dictionary has for constants without data. */
static int bind_constants(struct vm_executable *exec, const struct mb_tensors *tensors) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < exec->constant_count; i++) {
    struct mb_stored_array *constant = &exec->constants[i], bound = {0};
    if (!constant->name || constant->view.shape) continue;
    const struct mb_tensor *found = mb_tensors_find(tensors, constant->name);
    if (!found) return mb_fail(MBLOB_E_FORMAT, "the file has no constant '%s'", constant->name);
    status = mb_stored_array_copy(&found->view, &bound);
    bound.name = constant->name;
    if (!status)
      *constant = bound;
    else {
      bound.name = NULL;
      mb_stored_array_clear(&bound);
    }
  }
  return status;
}

static int bind_bytes(struct vm_executable *exec, const void *bytes, size_t size) {
  struct mb_tensors tensors = {0};
  if (!mb_params_is(bytes, size)) return mb_fail(MBLOB_E_FORMAT, "the file is no dictionary of parameters");
  int status = mb_params_read(bytes, size, MB_UNKNOWN, &tensors);
  if (status) return status;
  pthread_mutex_lock(&exec->lock);
  status = bind_constants(exec, &tensors);
  pthread_mutex_unlock(&exec->lock);
  mb_tensors_free(&tensors);
  return status;
}

/* A file that TVM's move_late_bound_consts wrote: a dictionary of parameters. */
static int bind_file(struct vm_executable *exec, const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return mb_fail_errno(errno, "%s", path);
  void *bytes = MAP_FAILED;
  int status = fstat(fd, &info) ? mb_fail_errno(errno, "%s", path) : MBLOB_OK;
  if (!status && (!S_ISREG(info.st_mode) || !info.st_size))
    status = mb_fail(MBLOB_E_FORMAT, "%s: no file, or an empty one", path);
  if (!status) {
    bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) status = mb_fail_errno(errno, "%s", path);
  }
  (void)close(fd);
  if (status) return status;
  status = bind_bytes(exec, bytes, (size_t)info.st_size);
  if (status) mb_error_prefix(path);
  (void)munmap(bytes, (size_t)info.st_size);
  return status;
}

static int load_late_bound_consts(void *object, struct mb_call *call) {
  const char *path = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &path);
  return status ? status : bind_file(object, path);
}

static int check_bound(struct vm_executable *exec) {
  const char *missing = NULL;
  pthread_mutex_lock(&exec->lock);
  for (size_t i = 0; !missing && i < exec->constant_count; i++)
    if (exec->constants[i].name && !exec->constants[i].view.shape) missing = exec->constants[i].name;
  pthread_mutex_unlock(&exec->lock);
  if (!missing) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT,
                 "constant '%s' is kept in a file of its own: call load_late_bound_consts first", missing);
}

/* ---- methods --------------------------------------------------------------------------------- */

static int vm_load_executable(void *object, struct mb_call *call) {
  struct vm_executable *exec = object;
  mblob_module *machine = NULL;
  int status = mb_call_expect(call, 0, 0);
  if (!status) status = check_bound(exec);
  if (!status) status = vm_machine_create(exec, &machine);
  if (!status) mb_call_return_module(call, machine);
  return status;
}

static int get_lib(void *object, struct mb_call *call) {
  const struct vm_executable *exec = object;
  mblob_module *library = mblob_module_import_at(exec->module, 0);
  int status = mb_call_expect(call, 0, 0);
  if (!status && library) mb_call_return_module(call, mblob_module_retain(library));
  return status;
}

static int save(void *object, struct mb_call *call) {
  const struct vm_executable *exec = object;
  TVMByteArray code = {(const char *)exec->code, (size_t)exec->code_size};
  int status = mb_call_expect(call, 0, 0);
  return status ? status : mb_return_set(call->result, (TVMValue){.v_handle = &code}, kTVMBytes);
}

static int function_argument(const struct vm_executable *exec, const struct mb_call *call,
                             const struct vm_function **out) {
  const char *name = NULL;
  int status = mb_call_text(call, 0, &name);
  if (status) return status;
  *out = vm_function_find(exec, name);
  return *out ? MBLOB_OK : mblob_last_error_info()->status;
}

static int get_function_arity(void *object, struct mb_call *call) {
  const struct vm_function *function = NULL;
  int status = function_argument(object, call, &function);
  if (!status) mb_call_return_int(call, (int64_t)function->param_count);
  return status;
}

static int get_function_param_name(void *object, struct mb_call *call) {
  const struct vm_function *function = NULL;
  int64_t i = 0;
  int status = function_argument(object, call, &function);
  if (!status) status = mb_call_int(call, 1, &i);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= function->param_count)
    return mb_fail(MBLOB_E_ARGUMENT, "function '%s' has no parameter %lld; it has %zu", function->name,
                   (long long)i, function->param_count);
  return mb_call_return_text(call, function->params[i]);
}

/* The text, which is freed; NULL after an error. */
static int return_list(struct mb_call *call, char *text) {
  int status = text ? mb_call_return_text(call, text) : mblob_last_error_info()->status;
  free(text);
  return status;
}

static int get_bytecode(void *object, struct mb_call *call) {
  return return_list(call, vm_list_bytecode(object));
}
static int get_stats(void *object, struct mb_call *call) { return return_list(call, vm_list_stats(object)); }
static int get_constants(void *object, struct mb_call *call) {
  return return_list(call, vm_list_constants(object));
}
static int get_primitives(void *object, struct mb_call *call) {
  return return_list(call, vm_list_primitives(object));
}
static int get_virtual_devices(void *object, struct mb_call *call) {
  return return_list(call, vm_list_devices(object));
}

/* Names of functions, or of primitives, one per line. */
static int return_names(const struct vm_names *names, struct mb_call *call) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  for (size_t i = 0; i < names->count; i++) (void)fprintf(out, "%s%s", i ? "\n" : "", names->names[i]);
  (void)fclose(out);
  if (!text) (void)mb_fail_memory(size);
  return return_list(call, text);
}

static int get_function_names(void *object, struct mb_call *call) {
  return return_names(&((struct vm_executable *)object)->globals, call);
}

static int get_primitive_names(void *object, struct mb_call *call) {
  return return_names(&((struct vm_executable *)object)->primitives, call);
}

static const struct mb_method methods[] = {{"vm_load_executable", vm_load_executable},
                                           {"load_late_bound_consts", load_late_bound_consts},
                                           {"get_lib", get_lib},
                                           {"save", save},
                                           {"get_function_arity", get_function_arity},
                                           {"get_function_param_name", get_function_param_name},
                                           {"get_bytecode", get_bytecode},
                                           {"get_stats", get_stats},
                                           {"get_constants", get_constants},
                                           {"get_primitives", get_primitives},
                                           {"get_virtual_devices", get_virtual_devices},
                                           {"get_function_names", get_function_names},
                                           {"get_primitive_names", get_primitive_names},
                                           {NULL, NULL}};

const struct mb_class mb_vm_executable_class = {
    .type_key = "VMExecutable", .methods = methods, .open = open_executable, .close = close_executable};
