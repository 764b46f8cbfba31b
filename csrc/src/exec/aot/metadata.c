#define _GNU_SOURCE
#include "exec/aot/metadata.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "exec/common/common.h"

#define GETTER "get_c_metadata"
#define VERSION 1             /* of the structure, in every release that has it */
#define COUNT_LIMIT 65536     /* tensors of one kind */
#define MODEL_NAME_LIMIT 4096 /* bytes */

_Static_assert(sizeof(void *) != 8 ||
                   (sizeof(struct mb_aot_tensor) == 32 && sizeof(struct mb_aot_constant) == 32 &&
                    sizeof(struct mb_aot_metadata) == 80),
               "the layout of TVM on 64-bit hosts");

static int bad_metadata(const char *what) { return mb_fail(MBLOB_E_FORMAT, GETTER ": %s", what); }

/* True if `size` bytes at `p` are memory of the library. One that is no file (system library,
 * made in code) cannot be asked. */
static bool is_array_aligned(const void *p, size_t alignment) {
  return (uintptr_t)p % alignment == 0;
}

static bool is_inside(const struct mb_library *library, const void *p, size_t size) {
  if (!p) return false;
  return !library->handle ||
         mb_elf_is_loaded(&library->elf, (uintptr_t)p - library->base, size, PF_R);
}

static bool is_metadata_text(const struct mb_library *library, const char *text) {
  for (size_t i = 0; i < MODEL_NAME_LIMIT; i++) {
    if (!is_inside(library, text + i, 1)) return false;
    if (!text[i]) return true;
  }
  return false;
}

static int check_tensor(const struct mb_library *library, const struct mb_aot_tensor *t) {
  size_t ignored = 0;
  if (!is_metadata_text(library, t->name)) return bad_metadata("a tensor has no name");
  if (t->ndim < 0 || t->ndim > MB_NDIM_LIMIT)
    return bad_metadata("a tensor has too many dimensions");
  if (t->ndim && !(is_array_aligned(t->shape, _Alignof(int64_t)) &&
                   is_inside(library, t->shape, (size_t)t->ndim * sizeof(int64_t))))
    return bad_metadata("the shape of a tensor is outside of the library");
  DLTensor tensor = {
      .ndim = (int32_t)t->ndim, .dtype = t->dtype, .shape = (int64_t *)(uintptr_t)t->shape};
  int status = mb_tensor_size(&tensor, &ignored);
  if (status) mb_error_prefix(t->name);
  return status;
}

static int check_tensors(const struct mb_library *library, const struct mb_aot_tensor *list,
                         int64_t count) {
  int status = MBLOB_OK;
  if (count < 0 || count > COUNT_LIMIT) return bad_metadata("an impossible number of tensors");
  if (count && !(is_array_aligned(list, _Alignof(struct mb_aot_tensor)) &&
                 is_inside(library, list, (size_t)count * sizeof(*list))))
    return bad_metadata("a list of tensors is outside of the library");
  for (int64_t i = 0; !status && i < count; i++) status = check_tensor(library, &list[i]);
  return status;
}

static int check_constants(const struct mb_library *library, const struct mb_aot_metadata *m) {
  if (m->constant_pool_count < 0 || m->constant_pool_count > COUNT_LIMIT)
    return bad_metadata("an impossible number of constants");
  if (m->constant_pool_count &&
      !(is_array_aligned(m->constant_pools, _Alignof(struct mb_aot_constant)) &&
        is_inside(library, m->constant_pools,
                  (size_t)m->constant_pool_count * sizeof(*m->constant_pools))))
    return bad_metadata("the list of constants is outside of the library");
  for (int64_t i = 0; i < m->constant_pool_count; i++) {
    const struct mb_aot_constant *c = &m->constant_pools[i];
    if (c->byte_offset < 0 || c->size < 0 || !is_inside(library, c->record, (size_t)c->size))
      return bad_metadata("a constant is outside of the library");
  }
  return MBLOB_OK;
}

static int check_metadata(const struct mb_library *library, const struct mb_aot_metadata *m) {
  if (!is_array_aligned(m, _Alignof(struct mb_aot_metadata)) || !is_inside(library, m, sizeof(*m)))
    return bad_metadata("returned no structure of the library");
  if (m->version != VERSION)
    return mb_fail(MBLOB_E_INCOMPATIBLE, GETTER ": version %lld of the structure, expected %d",
                   (long long)m->version, VERSION);
  int status = check_tensors(library, m->inputs, m->input_count);
  if (!status) status = check_tensors(library, m->outputs, m->output_count);
  if (!status) status = check_tensors(library, m->workspace_pools, m->workspace_pool_count);
  if (!status) status = check_constants(library, m);
  if (!status && !is_metadata_text(library, m->name))
    status = bad_metadata("the model has no name");
  return status;
}

static int find_metadata(mblob_module *module, const char *model, mblob_function **out) {
  char *name = NULL;
  if (asprintf(&name, "%s___tvm_main__", model) < 0) return mb_fail_memory(MODEL_NAME_LIMIT);
  int status = mb_module_find(module, name, MB_IMPORTS_ONLY, out);
  if (!status && !*out)
    status = mb_fail(MBLOB_E_NOT_FOUND, "the library has no entry function '%s' of the model '%s'",
                     name, model);
  free(name);
  return status;
}

int mb_aot_metadata_get(mblob_module *module, const struct mb_aot_metadata **out,
                        mblob_function **entry) {
  mblob_function *getter = NULL;
  TVMValue value = {.v_handle = NULL};
  int code = kTVMNullptr;
  int status = mb_module_find(module, GETTER, MB_IMPORTS_ONLY, &getter);
  if (!status && !getter)
    status = mb_fail(MBLOB_E_NOT_FOUND,
                     "the library has no function '" GETTER "', which names inputs and outputs");
  if (!status) status = mblob_function_call(getter, NULL, NULL, 0, &value, &code);
  if (!status && code != kTVMOpaqueHandle) {
    mblob_value_release(value, code);
    status =
        mb_fail(MBLOB_E_FORMAT, GETTER ": " MB_TEXT_EXPECTED, "a handle", mb_type_code_name(code));
  }
  *out = value.v_handle;
  if (!status) status = check_metadata(getter->library, *out);
  return status ? status : find_metadata(module, (*out)->name, entry);
}
