#define _GNU_SOURCE
#include "entries.h"

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

bool cuda_see_kernel(struct cuda_seen *seen, struct mb_slice name) {
  const size_t used = strlen(seen->names), room = sizeof(seen->names) - used;
  if (!name.size) return false;
  if (!is_listed(seen->names, name))
    (void)snprintf(seen->names + used, room, "%s%.*s", used ? ", " : "",
                   (int)(name.size < room ? name.size : room), (const char *)name.data);
  if (!mb_slice_is(name, seen->kernel->name) || seen->told) return false;
  return seen->is_there = true;
}

static enum cuda_class class_of(DLDataType type) {
  return type.code == kDLFloat ? CUDA_FLOAT : CUDA_WHOLE;
}

void cuda_see_parameter(struct cuda_seen *seen, size_t index, uint32_t size, enum cuda_class is) {
  if (index >= seen->count) seen->count = index + 1;
  if (index >= seen->kernel->type_count || index > seen->wrong) return;
  const DLDataType type = seen->kernel->types[index];
  const uint32_t declared = mb_is_pointer(type) ? 8 : ((uint32_t)type.bits + 7) / 8;
  if (size == declared && (is == CUDA_ANY || is == class_of(type))) return;
  seen->wrong = index, seen->size = size, seen->is = is;
}

/* ---- the answer ------------------------------------------------------------------------------ */

int cuda_seen_check(const struct cuda_seen *seen, const char *module) {
  static const char *const words[] = {"a value", "an integer or an address", "a float"};
  const struct mb_kernel *k = seen->kernel;
  char type[32];
  if (!seen->is_there)
    return seen->hidden
               ? MBLOB_OK
               : mb_fail_format(
                     "payload", -1, -1,
                     "cuda: kernel '%s' is declared and not in the code of %s, which has: %s",
                     k->name, module, *seen->names ? seen->names : "none");
  if (!seen->told) return MBLOB_OK;
  if (seen->count != k->type_count)
    return mb_fail_format(
        "payload", -1, -1,
        "cuda: kernel '%s' is declared with %zu arguments and takes %zu in the code of %s", k->name,
        k->type_count, seen->count, module);
  if (seen->wrong == SIZE_MAX) return MBLOB_OK;
  return mb_fail_format(
      "payload", -1, -1,
      "cuda: kernel '%s': argument %zu is declared %s and in the code of %s %s of %u byte%s",
      k->name, seen->wrong, mb_kernel_type_text(k->types[seen->wrong], type), module,
      words[seen->is], seen->size, seen->size == 1 ? "" : "s");
}
