/* Parameters of a program: a tuple of the tensors in weights that it imports, whose metadata say in which
 * order the program takes them (docs/format.md, section 3.3). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "exec/common/common.h"
#include "exec/relax/machine.h"
#include "format/format.h"

#define LINE 64u /* bytes that each tensor's address is a multiple of */

/* 1 if the weights say that they are parameters: the text stands in their header. */
static int is_of_parameters(mblob_module *module, void *found) {
  const size_t size = mb_size(module->payload_size);
  if (module->is_library || strcmp(module->type_key, MB_KEY_SAFETENSORS) != 0 || size < 8) return 0;
  const uint64_t header = mb_u64_at(module->payload);
  if (header > size - 8 ||
      !memmem(module->payload + 8, (size_t)header, MB_PARAMETERS, strlen(MB_PARAMETERS)))
    return 0;
  *(mblob_module **)found = module;
  return 1;
}

/* The tensor where it lies, or a copy if that is no multiple of LINE. */
static int make_array(const DLTensor *view, mblob_module *module, DLTensor **out) {
  const struct mb_stored_array stored = {.view = *view};
  if (((uintptr_t)view->data & (LINE - 1)) == 0) return mb_stored_array_share(&stored, module, out);
  int status = mb_array_new(view->device, view->ndim, view->shape, view->dtype, out);
  return status ? status : mb_array_copy(view, *out, NULL);
}

/* The next tensor of the order, and as an array. */
static int next_array(struct mb_json *j, const struct mb_tensors *tensors, mblob_module *module,
                      const struct mb_tensor **found, DLTensor **out) {
  struct mb_slice text;
  char *name = mb_json_string(j, &text) ? mb_json_text(text) : NULL;
  *found = name ? mb_tensors_find(tensors, name) : NULL;
  int status = *found ? make_array(&(*found)->view, module, out)
                      : mb_fail_format("payload", MB_UNKNOWN, (int64_t)mblob_module_index(module),
                                       "order of parameters: no tensor '%.80s'", name ? name : "");
  free(name);
  return status;
}

static int check_parameters(struct relax_machine *m, const struct mb_tensor *const *tensors,
                            size_t count, int64_t entry) {
  int status = relax_parameters_check(m->exec, m->model, tensors, count, entry, &m->stored_by_name);
  if (status) mb_error_hint("replace them: mblob-pack add FILE --params PARAMS --replace");
  return status;
}

int relax_parameters_make(struct relax_machine *m) {
  mblob_module *module = NULL;
  const struct mb_tensors *tensors = NULL;
  struct mb_json j;
  int status = mb_module_walk(m->module, true, is_of_parameters, &module);
  if (status == 1) status = mb_module_read_tensors(module, &tensors);
  if (status) return status;
  const bool is_set = tensors && tensors->order;
  const char *order = is_set ? tensors->order : "[]";
  const size_t most = tensors ? tensors->count : 0;
  TVMValue *values = calloc(most + 1, sizeof(*values));
  const struct mb_tensor **in_order = calloc(most + 1, sizeof(struct mb_tensor *));
  int *codes = calloc(most + 1, sizeof(*codes)), count = 0;
  if (!values || !codes || !in_order) status = mb_fail_memory(most * sizeof(*values));
  mb_json_init(&j, order, strlen(order));
  if (!status) (void)mb_json_begin_array(&j);
  while (!status && mb_json_next_element(&j)) {
    DLTensor *array = NULL;
    if ((size_t)count == most && !mb_json_fail(&j, "")) break;
    status = next_array(&j, tensors, module, &in_order[count], &array);
    values[count].v_handle = array;
    codes[count] = kTVMNDArrayHandle;
    count += array != NULL;
  }
  if (!status && j.error)
    status = mb_fail_format("payload", MB_UNKNOWN, (int64_t)mblob_module_index(module),
                            "order of parameters: expected a list of at most %zu names", most);
  if (!status && is_set)
    status = check_parameters(m, in_order, (size_t)count, (int64_t)mblob_module_index(module));
  struct mb_call call = {"parameters", values, codes, count, &m->params};
  if (!status) status = mb_object_make_array(NULL, &call);
  for (int i = 0; i < count; i++) mb_array_release(values[i].v_handle);
  free(values);
  free(codes);
  m->stored = in_order; /* also after an error */
  m->stored_count = (size_t)count;
  return status;
}
