/* The contents of data modules: payloads by type key, and tensors by name, as views of the file's bytes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "format/format.h"

enum { NAMES_SIZE = 400 }; /* bytes of the names that an error lists */

struct names {
  struct mb_near near;
  size_t used;
  char text[NAMES_SIZE + 8]; /* as many as fit, then "..." */
};

static void add_name(struct names *names, const char *name) {
  mb_near_offer(&names->near, name);
  if (names->used >= NAMES_SIZE) return;
  const bool fits = strlen(name) + 2 < NAMES_SIZE - names->used;
  const int n =
      sprintf(names->text + names->used, "%s%s", names->used ? ", " : "", fits ? name : "...");
  names->used = fits ? names->used + (size_t)n : NAMES_SIZE;
}

/* ---- payloads -------------------------------------------------------------------------------- */

struct payload_search {
  const char *type_key;
  const mblob_module *found;
  struct names keys;
};

static int find_payload(mblob_module *module, void *argument) {
  struct payload_search *search = argument;
  if (module->is_library || strcmp(module->type_key, search->type_key) != 0) return 0;
  search->found = module;
  return 1;
}

static int list_keys(mblob_module *module, void *argument) {
  struct payload_search *search = argument;
  if (!module->is_library) add_name(&search->keys, module->type_key);
  return 0;
}

int mblob_module_payload_by_key(mblob_module *module, const char *type_key, const void **data,
                                size_t *size) {
  if (MB_NO_MODULE(module) || MB_IS_NULL(type_key) || MB_IS_NULL(data) || MB_IS_NULL(size))
    return MBLOB_E_ARGUMENT;
  struct payload_search search = {.type_key = type_key,
                                  .keys.near = MB_NEAR(type_key, strlen(type_key))};
  *data = NULL;
  *size = 0;
  int status = mb_module_walk(module, false, find_payload, &search);
  if (status > 1) return status;
  if (search.found) return mblob_module_payload(search.found, data, size);
  (void)mb_module_walk(module, false, list_keys, &search);
  return mb_fail(MBLOB_E_NOT_FOUND,
                 "no payload '%s' in module '%s' and its imports; there are: %s%s", type_key,
                 module->type_key, search.keys.used ? search.keys.text : "none",
                 search.keys.near.text);
}

/* ---- tensors --------------------------------------------------------------------------------- */

struct tensor_search {
  const char *name;
  const struct mb_tensor *found;
  struct names names; /* of the tensors that there are */
};

static int list_tensors(mblob_module *module, void *argument) {
  struct tensor_search *search = argument;
  if (module->is_library) return 0;
  const struct mb_tensors *tensors = &module->use->tensors;
  for (size_t i = 0; i < tensors->count && search->names.used < NAMES_SIZE; i++)
    add_name(&search->names, tensors->items[i].name);
  return 0;
}

/* The arrays with names in a payload that has a grammar: those of a graph, constants. */
static int read_arrays(const mblob_module *module, int64_t entry, struct mb_tensors *out) {
  const enum mb_dialect dialect = module->library->blob_dialect;
  const struct mb_slice key = {(const uint8_t *)module->type_key, strlen(module->type_key)};
  struct mb_cursor c = {module->payload, 0, module->payload_size, entry};
  int status = mb_payload_walk(key, &c, dialect, out);
  for (size_t i = 0; dialect != MB_CLASSIC && i < out->count; i++)
    out->items[i].view.dtype = mb_dtype_stored_in_ffi(out->items[i].view.dtype);
  if (status) mb_tensors_free(out);
  return status;
}

int mb_module_read_tensors(mblob_module *module, const struct mb_tensors **out) {
  int status = MBLOB_OK;
  struct mb_module_use *use = module->use;
  mb_lock(&module->library->lock);
  if (!use->tensors_read) {
    int64_t entry = (int64_t)mblob_module_index(module);
    module->is_used = true;
    if (strcmp(module->type_key, MB_KEY_SAFETENSORS) == 0)
      status = mb_safetensors_read(module->payload, module->payload_size, entry, &use->tensors);
    else if (mb_params_is(module->payload, module->payload_size))
      status = mb_params_read(module->payload, module->payload_size, entry, &use->tensors);
    else
      status = read_arrays(module, entry, &use->tensors);
    use->tensors_read = !status;
  }
  mb_unlock(&module->library->lock);
  *out = &use->tensors;
  return status;
}

static int find_module_tensor(mblob_module *module, void *argument) {
  struct tensor_search *search = argument;
  if (module->is_library) return 0;
  const struct mb_tensors *tensors = NULL;
  int status = mb_module_read_tensors(module, &tensors);
  if (status) return status;
  search->found = mb_tensors_find(tensors, search->name);
  return search->found ? 1 : 0;
}

void mb_tensor_describe(const char *name, const DLTensor *tensor, mblob_tensor_info *out) {
  size_t size = 0;
  *out = (mblob_tensor_info){.struct_size = sizeof(*out), .name = name, .ndim = -1};
  if (!tensor) return;
  const char *data = tensor->data;
  (void)mb_tensor_size(tensor, &size);
  out->data = data ? data + tensor->byte_offset : data;
  out->device = tensor->device;
  out->dtype = tensor->dtype;
  out->ndim = tensor->ndim;
  out->shape = tensor->shape;
  out->size = size;
}

int mblob_module_tensors(mblob_module *module, mblob_tensor_visitor visit, void *context) {
  if (MB_NO_MODULE(module) || MB_IS_NULL(visit)) return MBLOB_E_ARGUMENT;
  const struct mb_tensors *tensors = &module->use->tensors;
  int status = module->is_library ? MBLOB_OK : mb_module_read_tensors(module, &tensors);
  for (size_t i = 0; !status && i < tensors->count; i++) {
    mblob_tensor_info info;
    mb_tensor_describe(tensors->items[i].name, &tensors->items[i].view, &info);
    status = visit(context, &info);
  }
  return status;
}

int mblob_module_tensor(mblob_module *module, const char *name, DLTensor *out) {
  if (MB_NO_MODULE(module) || MB_IS_NULL(name) || MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  struct tensor_search search = {.name = name, .names.near = MB_NEAR(name, strlen(name))};
  *out = (DLTensor){0};
  int status = mb_module_walk(module, false, find_module_tensor, &search);
  if (status > 1) {
    mb_error_prefix(name);
    return status;
  }
  if (!search.found) {
    const void *data;
    size_t size;
    const bool is_payload = !mblob_module_payload_by_key(module, name, &data, &size);
    (void)mb_module_walk(module, false, list_tensors, &search);
    return mb_fail(MBLOB_E_NOT_FOUND,
                   "no tensor '%s' in module '%s' and its imports; there are: %s%s", name,
                   module->type_key, search.names.used ? search.names.text : "none",
                   is_payload ? "; a payload has this key" : search.names.near.text);
  }
  *out = search.found->view;
  return MBLOB_OK;
}
