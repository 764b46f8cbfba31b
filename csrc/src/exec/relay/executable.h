/* executable.h - a program of the Relay virtual machine: what the payload of the key
 * VMExecutable holds, read and checked. After reading, nothing in it can make the interpreter
 * step outside of registers, code, constants, functions or primitives; what depends on values is
 * checked when it runs. */
#ifndef MB_VM_EXECUTABLE_H
#define MB_VM_EXECUTABLE_H

#include <mblob.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/loaded/loaded.h"
#include "exec/common/common.h"
#include "exec/relay/opcodes.h"

#define VM_REGISTER_LIMIT (1u << 20) /* of one function */
#define VM_LATE_BOUND 1u             /* tag of a constant that is only named */

struct vm_instruction {
  enum vm_opcode opcode;
  size_t fields; /* where they start in those of the function; in the latest form, the list behind
                    them */
};

struct vm_function {
  char *name;
  char **params;
  size_t param_count;
  size_t register_count;
  struct vm_instruction *code;
  size_t code_count;
  int64_t *fields;
  size_t field_count;
};

struct vm_names {
  char **names;
  size_t count;
};

struct vm_executable {
  mblob_module *module;   /* its own, not counted; its imports have the primitives */
  char *version;          /* of the TVM that wrote it */
  const char *written_as; /* first release with this form of the bytecode: "0.14" */
  void *owned;            /* the code, if it is no payload */
  const uint8_t
      *code; /* as it was read, or `rewritten` without constants that were moved; with the lock */
  uint64_t code_size;
  uint64_t *constant_places; /* where each starts in the code, and where the last one ends */
  char *rewritten;
  bool has_devices; /* false: fields name DLDeviceTypes */
  DLDevice *devices;
  struct mb_slice *scopes; /* of their memory, in the code */
  size_t device_count;
  DLDeviceType foreign_device; /* one that is no host memory and would be needed; 0 if none is */
  struct vm_names globals;     /* names of functions, in order of their indices */
  struct mb_stored_array *constants; /* name: of one that is bound late, NULL of others */
  size_t constant_count;
  struct vm_names primitives;
  struct vm_function *functions;
  size_t function_count;
  struct mb_map by_name; /* to functions */
  struct mb_lock lock;   /* constants that are bound late, and the code without them */
};

/* Read and check `size` bytes (exec/relay/reader.c), which stay. `entry`: for errors. A
 * mblob_status; `out` is to be freed anyway. Arrays are views of the code, however it is aligned. */
int vm_executable_read(struct vm_executable *out, const void *code, uint64_t size, int64_t entry);
/* The functions, at the cursor (exec/relay/code.c). */
bool vm_code_read(struct mb_cursor *c, struct vm_executable *exec, bool param_devices);
bool vm_device_check(struct mb_cursor *c, struct vm_executable *exec, int64_t device);
void vm_executable_free(struct vm_executable *exec);

bool vm_names_read(struct mb_cursor *c, struct vm_names *out, const char *what);
void vm_names_free(struct vm_names *names);

/* NULL after MBLOB_E_ARGUMENT, which lists the functions. */
const struct vm_function *vm_function_find(const struct vm_executable *exec, const char *name);

/* Texts for people (exec/relay/listing.c); on the heap, NULL after an error. */
char *vm_list_bytecode(const struct vm_executable *exec);
char *vm_list_stats(const struct vm_executable *exec);
char *vm_list_constants(const struct vm_executable *exec);
char *vm_list_devices(const struct vm_executable *exec);
char *vm_list_primitives(const struct vm_executable *exec);

/* exec/relay/late_bound.c: methods of executables, and whether all constants are there. */
int vm_bind_late_constants(void *executable, struct mb_call *call);
int vm_load_late_bound_consts_from_map(void *executable, struct mb_call *call);
int vm_late_bound_check(struct vm_executable *exec);
/* exec/relay/move_constants.c: methods of executables. (path, byte_limit) writes constants of at
 * least so many bytes to a dictionary, which `load_late_bound_consts` reads; (byte_limit) gives
 * its bytes. `save` gives the code without them. */
int vm_move_late_bound_consts(void *executable, struct mb_call *call);
int vm_get_late_bound_consts(void *executable, struct mb_call *call);

#endif
