/* machine.h - the interpreter of the Relay virtual machine, and modules of the key VirtualMachine around it.
 */
#ifndef MB_VM_MACHINE_H
#define MB_VM_MACHINE_H

#include "native.h"
#include "vm/executable.h"
#include "vm/values.h"

#define VM_FRAME_LIMIT (1u << 20)          /* calls inside each other */
#define VM_REGISTER_TOTAL_LIMIT (1u << 24) /* registers of all of them */

struct vm_frame {
  const struct vm_function *function;
  size_t pc;              /* of the instruction that runs */
  size_t registers;       /* where its registers start */
  size_t return_register; /* of the caller */
};

struct vm_slots {          /* per function */
  struct vm_value *values; /* inputs, NULL until one is set */
  DLTensor **outputs;      /* counted views of where results go, NULL if nowhere */
  size_t output_count;
};

struct vm_machine {
  mblob_module *module; /* of the executable, counted */
  const struct vm_executable *exec;
  mblob_function **primitives; /* borrowed of the module's imports */
  DLTensor **constants;        /* counted; NULL until they are first used */
  struct vm_pool *pool;
  struct vm_slots *slots;
  struct vm_value *registers; /* of all frames */
  size_t register_count, register_capacity;
  struct vm_frame *frames;
  size_t frame_count, frame_capacity;
  TVMValue *args; /* of the primitive that is called */
  int *codes;
  size_t arg_capacity;
  struct vm_value result;               /* of the last call */
  uint64_t executed, instruction_limit; /* instructions of this call; 0: no limit */
  atomic_flag busy;
};

/* Run function `index` with its `param_count` arguments (borrowed) into `m->result`. Whatever fails, the
 * machine can be used again. A mblob_status. */
int vm_machine_run(struct vm_machine *m, size_t index, const struct vm_value *args);

/* ---- between interpreter.c and operations.c -------------------------------------------------- */

typedef int (*vm_operation)(struct vm_machine *m, struct vm_value *registers, const int64_t *fields);
/* Instructions that only read and write registers; NULL for those that change the flow of control. */
extern const vm_operation vm_operations[VM_OPCODE_COUNT];
/* Put a value (the reference is taken over) into a register. */
void vm_register_set(struct vm_value *place, struct vm_value value);
int vm_register_array(const struct vm_value *registers, int64_t i, DLTensor **out);
int vm_register_scalar(const struct vm_value *registers, int64_t i, int64_t *out);

/* machine.c: a module that runs `exec`, whose primitives are found and whose constants are all there. */
int vm_machine_create(const struct vm_executable *exec, mblob_module **out);

#endif
