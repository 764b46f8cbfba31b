#include "exec/relay/values.h"

#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"

void vm_value_retain(struct vm_value value) {
  switch (value.kind) {
    case VM_NOTHING: break;
    case VM_ARRAY: mb_array_retain(value.u.array); break;
    case VM_STORAGE: vm_storage_retain(value.u.storage); break;
    case VM_ADT:
    case VM_CLOSURE:
      atomic_fetch_add_explicit(&value.u.compound->references, 1, memory_order_relaxed);
      break;
  }
}

/* Give back one reference; a compound that nobody holds any more is put in front of the list. */
static struct vm_compound *drop_value(struct vm_value value, struct vm_compound *list) {
  switch (value.kind) {
    case VM_NOTHING: break;
    case VM_ARRAY: mb_array_release(value.u.array); break;
    case VM_STORAGE: vm_storage_release(value.u.storage); break;
    case VM_ADT:
    case VM_CLOSURE:
      if (atomic_fetch_sub_explicit(&value.u.compound->references, 1, memory_order_acq_rel) != 1)
        break;
      value.u.compound->next = list;
      return value.u.compound;
  }
  return list;
}

void vm_value_clear(struct vm_value *value) {
  struct vm_compound *dead = drop_value(*value, NULL);
  *value = (struct vm_value){.kind = VM_NOTHING};
  while (dead) {
    struct vm_compound *compound = dead;
    dead = compound->next;
    for (size_t i = 0; i < compound->count; i++) dead = drop_value(compound->fields[i], dead);
    free(compound);
  }
}

const char *vm_kind_name(enum vm_kind kind) {
  switch (kind) {
    case VM_NOTHING: break;
    case VM_ARRAY: return "an array";
    case VM_STORAGE: return "storage";
    case VM_ADT: return "a tuple";
    case VM_CLOSURE: return "a closure";
  }
  return "nothing";
}

int vm_compound_new(int64_t tag, size_t count, struct vm_compound **out) {
  size_t size = 0;
  *out = NULL;
  if (!__builtin_mul_overflow(count, sizeof(struct vm_value), &size) &&
      !__builtin_add_overflow(size, sizeof(**out), &size))
    *out = calloc(1, size);
  if (!*out) return mb_fail_memory(size);
  atomic_init(&(*out)->references, 1);
  (*out)->tag = tag;
  (*out)->count = count;
  return MBLOB_OK;
}
