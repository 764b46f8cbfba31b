/* Constants that a program only names: their data is in a file, or in arrays, of their own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/relay/executable.h"
#include "format/format.h"

/* Where constants are looked for. */
struct source {
  const DLTensor *(*find)(const struct source *source, const char *name);
  const struct mb_tensors *tensors; /* of a dictionary */
  const struct mb_call *call;       /* with pairs of a name and a tensor */
};

static bool is_missing(const struct mb_stored_array *constant) {
  return constant->name && !constant->view.shape;
}

/* Copies of what the source has; `bound` has one place per constant. */
static int read_late_constants(const struct vm_executable *exec, const struct source *source,
                               struct mb_stored_array *bound) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < exec->constant_count; i++) {
    if (!is_missing(&exec->constants[i])) continue;
    const char *name = exec->constants[i].name;
    const DLTensor *found = source->find(source, name);
    status = found ? mb_stored_array_copy(found, &bound[i])
                   : mb_fail(MBLOB_E_FORMAT, "there is no constant '%s'", name);
    if (status && found) mb_error_prefix(name);
  }
  return status;
}

/* All constants without data, or none. */
static int bind_late(struct vm_executable *exec, const struct source *source) {
  struct mb_stored_array *bound = calloc(exec->constant_count + 1, sizeof(*bound));
  if (!bound) return mb_fail_memory(exec->constant_count * sizeof(*bound));
  mb_lock(&exec->lock);
  int status = read_late_constants(exec, source, bound);
  for (size_t i = 0; i < exec->constant_count; i++) {
    if (!bound[i].view.shape) continue;
    if (status) {
      mb_stored_array_clear(&bound[i]);
    } else {
      bound[i].name = exec->constants[i].name;
      exec->constants[i] = bound[i];
    }
  }
  mb_unlock(&exec->lock);
  free(bound);
  return status;
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

static const DLTensor *find_late_tensor(const struct source *source, const char *name) {
  const struct mb_tensor *found = mb_tensors_find(source->tensors, name);
  return found ? &found->view : NULL;
}

static int bind_bytes(struct vm_executable *exec, const void *bytes, size_t size) {
  struct mb_tensors tensors = {0};
  if (!mb_params_is(bytes, size))
    return mb_fail(MBLOB_E_FORMAT, "it is no dictionary of parameters");
  int status = mb_params_read(bytes, size, MB_UNKNOWN, &tensors);
  if (!status)
    status = bind_late(exec, &(struct source){.find = find_late_tensor, .tensors = &tensors});
  mb_tensors_free(&tensors);
  return status;
}

/* A file that TVM's move_late_bound_consts wrote: a dictionary of parameters. */
static int bind_file(struct vm_executable *exec, const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
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

int vm_bind_late_constants(void *executable, struct mb_call *call) {
  const char *path = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &path);
  return status ? status : bind_file(executable, path);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static const DLTensor *find_pair(const struct source *source, const char *name) {
  for (int i = 0; i < source->call->count; i += 2)
    if (strcmp(source->call->args[i].v_str, name) == 0) return source->call->args[i + 1].v_handle;
  return NULL;
}

static int check_pairs(const struct mb_call *call) {
  int status = MBLOB_OK;
  if (call->count % 2)
    return mb_fail_argument(MB_ARGUMENT_COUNT,
                            "expected the bytes of a dictionary, or pairs of a name and a tensor; "
                            "found %d arguments",
                            call->count);
  for (int i = 0; !status && i < call->count; i += 2) {
    const char *name = NULL;
    DLTensor *tensor = NULL;
    size_t size = 0;
    status = mb_call_text(call, i, &name);
    if (!status) status = mb_call_tensor(call, i + 1, &tensor);
    if (status) return status;
    status = mb_tensor_check(tensor, &size);
    if (status)
      mb_error_prefix(name);
    else
      status = mb_tensor_is_on(name, (DLDevice){kDLCPU, 0}, tensor);
  }
  return status;
}

/* TVM passes a map, which this runtime has not: here it is (bytes of save_param_dict), or (name,
 * tensor, name, tensor, ...). The tensors are copied. */
int vm_load_late_bound_consts_from_map(void *executable, struct mb_call *call) {
  const void *bytes = NULL;
  size_t size = 0;
  int status = MBLOB_OK;
  if (call->count == 1) {
    status = mb_call_bytes(call, 0, &bytes, &size);
    return status ? status : bind_bytes(executable, bytes, size);
  }
  status = check_pairs(call);
  return status ? status : bind_late(executable, &(struct source){.find = find_pair, .call = call});
}

int vm_late_bound_check(struct vm_executable *exec) {
  const char *missing = NULL;
  mb_lock(&exec->lock);
  for (size_t i = 0; !missing && i < exec->constant_count; i++)
    if (is_missing(&exec->constants[i])) missing = exec->constants[i].name;
  mb_unlock(&exec->lock);
  if (!missing) return MBLOB_OK;
  return mb_fail(MBLOB_E_ARGUMENT,
                 "constant '%s' is kept in a file of its own: call load_late_bound_consts first",
                 missing);
}
