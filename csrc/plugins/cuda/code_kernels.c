#define _GNU_SOURCE
#include "code_kernels.h"

#include <stdio.h>

#include "base/base.h"

bool cuda_lies_inside(uint64_t offset, uint64_t size, uint64_t all) {
  return offset <= all && size <= all - offset;
}

int cuda_cut_short(const char *what, uint64_t needs, uint64_t has) {
  return mb_fail_format(
      "payload", -1, -1,
      "cuda: the code is a %s of at least %llu bytes, the payload has %llu: it is cut "
      "short or damaged",
      what, (unsigned long long)needs, (unsigned long long)has);
}

/* ---- what readers tell ----------------------------------------------------------------------- */

/* Of a fatbin every image has them all. */
static bool is_listed(const char *names, struct mb_slice name) {
  const char *at = memmem(names, strlen(names), name.data, (size_t)name.size);
  return at && (at[name.size] == ',' || !at[name.size]) && (at == names || at[-1] == ' ');
}

bool cuda_add_kernel(struct cuda_code_kernel *found, struct mb_slice name) {
  const size_t used = strlen(found->names), room = sizeof(found->names) - used;
  if (!name.size) return false;
  if (!is_listed(found->names, name))
    (void)snprintf(found->names + used, room, "%s%.*s", used ? ", " : "",
                   (int)(name.size < room ? name.size : room), (const char *)name.data);
  if (!mb_slice_is(name, found->kernel->name) || found->has_parameters) return false;
  return found->is_there = true;
}

static enum cuda_class class_of(DLDataType type) {
  return type.code == kDLFloat ? CUDA_FLOAT : CUDA_WHOLE;
}

void cuda_add_parameter(struct cuda_code_kernel *found, size_t index, uint32_t size,
                        enum cuda_class is) {
  if (index >= found->count) found->count = index + 1;
  if (index >= found->kernel->type_count || index > found->mismatch) return;
  const DLDataType type = found->kernel->types[index];
  const uint32_t declared = mb_is_pointer(type) ? 8 : ((uint32_t)type.bits + 7) / 8;
  if (size == declared && (is == CUDA_ANY || is == class_of(type))) return;
  found->mismatch = index, found->size = size, found->is = is;
}

/* ---- the answer ------------------------------------------------------------------------------ */

int cuda_check_code_kernel(const struct cuda_code_kernel *found, const char *module) {
  static const char *const words[] = {"a value", "an integer or an address", "a float"};
  const struct mb_kernel *k = found->kernel;
  char type[32];
  if (!found->is_there)
    return found->has_unreadable_parts
               ? MBLOB_OK
               : mb_fail_format(
                     "payload", -1, -1,
                     "cuda: kernel '%s' is declared and not in the code of %s, which has: %s",
                     k->name, module, *found->names ? found->names : "none");
  if (!found->has_parameters) return MBLOB_OK;
  if (found->count != k->type_count)
    return mb_fail_format(
        "payload", -1, -1,
        "cuda: kernel '%s' is declared with %zu arguments and takes %zu in the code of %s", k->name,
        k->type_count, found->count, module);
  if (found->mismatch == SIZE_MAX) return MBLOB_OK;
  return mb_fail_format(
      "payload", -1, -1,
      "cuda: kernel '%s': argument %zu is declared %s and in the code of %s %s of %u byte%s",
      k->name, found->mismatch, mb_kernel_type_text(k->types[found->mismatch], type), module,
      words[found->is], found->size, found->size == 1 ? "" : "s");
}
