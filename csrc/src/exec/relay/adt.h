/* adt.h - tuples and constructors outside of the machine: modules of the key "runtime.ADT" with
 * the functions `get_tag`, `get_size` and `get_field` (index), which gives an array or such a
 * module. */
#ifndef MB_VM_ADT_H
#define MB_VM_ADT_H

#include "core/call/call.h"
#include "exec/relay/values.h"

struct vm_executable;

/* Hand a value (the reference stays the machine's) to a caller: an array, or a module. An array
 * that is in memory of a constant of `exec` (may be NULL) is copied: constants are not the
 * caller's to write. */
int vm_value_return(struct vm_value value, const struct vm_executable *exec, struct mb_call *call);
/* The value that argument `i` stands for: a tensor, which is copied unless it is an array, or a
 * module of the key. */
int vm_value_argument(const struct mb_call *call, int i, struct vm_value *out);

#endif
