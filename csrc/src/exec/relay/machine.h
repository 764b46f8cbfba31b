/* machine.h - the interpreter of the Relay virtual machine, and modules of the key
 * VirtualMachine around it.
 */
#ifndef MB_VM_MACHINE_H
#define MB_VM_MACHINE_H

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "exec/relay/executable.h"
#include "exec/relay/values.h"

#define VM_MODEL "main"                    /* the function that is the model */
#define VM_FRAME_LIMIT (1u << 20)          /* calls inside each other */
#define VM_REGISTER_TOTAL_LIMIT (1u << 24) /* registers of all of them */

struct vm_frame {
  const struct vm_function *function;
  size_t pc;              /* of the instruction that runs */
  size_t registers;       /* where its registers start */
  size_t return_register; /* of the caller */
};

struct vm_profile;

struct vm_slots {          /* per function */
  struct vm_value *values; /* inputs, NULL until one is set */
  DLTensor **outputs;      /* counted views of where results go, NULL if nowhere */
  size_t output_count;
};

struct vm_machine {
  mblob_module *module; /* of the executable, counted */
  struct vm_executable *exec;
  bool complete;               /* no constant is missing, and none ever will be */
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
  unsigned steps;                       /* since the host was asked for an interrupt */
  struct vm_profile *profile;           /* of this call; NULL but in `profile` */
  atomic_flag busy;
};

/* Run function `index` with its `param_count` arguments (borrowed) into `m->result`. Whatever
 * fails, the machine can be used again. A mblob_status. */
int vm_machine_run(struct vm_machine *m, size_t index, const struct vm_value *args);

/* ---- between interpreter.c and operations.c -------------------------------------------------- */

typedef int (*vm_operation)(struct vm_machine *m, struct vm_value *registers,
                            const int64_t *fields);
/* Instructions that only read and write registers; NULL for those that change the flow of
 * control. */
extern const vm_operation vm_operations[VM_OPCODE_COUNT];
/* Put a value (the reference is taken over) into a register. */
void vm_register_set(struct vm_value *place, struct vm_value value);
int vm_register_scalar(const struct vm_value *registers, int64_t i, int64_t *out);

/* ---- locate.c -------------------------------------------------------------------------------- */

/* Put in front of an error of the instruction that runs where it is, and which of the `args` of
 * the function `called` it reads. The status: a wrong kind of value that came from there is
 * MBLOB_E_ARGUMENT. */
int vm_locate(const struct vm_machine *m, size_t called, const struct vm_value *args, int status);

/* ---- machine.c ------------------------------------------------------------------------------- */

/* A module that runs `exec`, whose primitives are found. Constants that are bound late may come
 * later. */
int vm_machine_create(struct vm_executable *exec, mblob_module **out);
/* MBLOB_E_INCOMPATIBLE if the program needs a device that is no host memory. */
int vm_machine_check_devices(const struct vm_executable *exec);
/* The same for `device` of a caller. */
int vm_machine_check_device(const struct vm_executable *exec, DLDevice device);

/* One call at a time: a second one, from another thread or from a primitive, is an error. */
typedef int (*vm_machine_body)(struct vm_machine *m, struct mb_call *call);
int vm_machine_alone(void *machine, struct mb_call *call, vm_machine_body body);
/* Declares the method `name` of a machine; what follows is its body, alone. */
#define VM_METHOD(name)                                                    \
  static int vm_##name##_body(struct vm_machine *m, struct mb_call *call); \
  static int vm_##name(void *object, struct mb_call *call) {               \
    return vm_machine_alone(object, call, vm_##name##_body);               \
  }                                                                        \
  static int vm_##name##_body(struct vm_machine *m, struct mb_call *call)

/* methods.c: what machines can be asked, under TVM's names; ends with one without a call. */
extern const struct mb_method vm_machine_methods[];
/* Of the class of machines: inputs and outputs of the model. */
int vm_machine_describe(void *machine, bool outputs, size_t i, size_t *count,
                        struct mb_executor_io *out);

/* ---- inputs.c -------------------------------------------------------------------------------- */

/* Argument `i` of a call as index of a function; no name (a handle of NULL): the model. */
int vm_function_argument(const struct vm_machine *m, const struct mb_call *call, int i,
                         size_t *out);
/* All parameters of a function, from argument `first` of a call on: its inputs of all calls from
 * now on. */
int vm_inputs_set(struct vm_machine *m, size_t function, const struct mb_call *call, int first);
/* Argument `i` of a call as the input `param`. */
int vm_inputs_set_one(struct vm_machine *m, size_t function, size_t param,
                      const struct mb_call *call, int i);
/* Arrays from argument 1 of a call on, which the results of the next call of a function go to. */
int vm_outputs_set(struct vm_machine *m, size_t function, const struct mb_call *call);
/* What is kept of the slots of a function. */
void vm_slots_clear(struct vm_slots *slots, size_t param_count);
/* Run a function on what vm_inputs_set kept. */
int vm_run_kept(struct vm_machine *m, size_t function);
/* Run it on the arguments of a call from `first` on; for this call only. */
int vm_run_given(struct vm_machine *m, size_t function, const struct mb_call *call, int first);
/* The results are the array that was returned, or the fields of a tuple. */
size_t vm_result_count(const struct vm_machine *m);
struct vm_value vm_result_at(const struct vm_machine *m, size_t i);

/* ---- profile.c ------------------------------------------------------------------------------- */

struct vm_profile {
  struct vm_timing *timings; /* of all instructions of all functions */
  size_t *first;             /* of each function, in `timings` */
};
struct vm_timing {
  uint64_t count;
  double seconds; /* of all executions */
};

/* Run one instruction, which `step` does, and add the time it took. */
int vm_profile_step(struct vm_machine *m, int (*step)(struct vm_machine *m));
/* `repeat` runs of a function on what vm_inputs_set kept; JSON text as the result of the call. */
int vm_profile_run(struct vm_machine *m, size_t function, int64_t repeat, struct mb_call *call);

#endif
