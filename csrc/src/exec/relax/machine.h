/* machine.h - the interpreter of Relax's virtual machine, and modules of the key
 * relax.VirtualMachine around it. */
#ifndef MB_RELAX_MACHINE_H
#define MB_RELAX_MACHINE_H

#include "core/library/library.h"
#include "exec/relax/closure.h"
#include "exec/relax/executable.h"
#include "exec/relax/frames.h"
#include "exec/relax/relax.h"
#include "exec/relax/values.h"

#define RELAX_MODEL "main"     /* the function that is the model, unless a host names another */
#define RELAX_CALL_LIMIT 10000 /* calls inside each other, unless set_limits says otherwise */
#define RELAX_REGISTER_TOTAL (1u << 24) /* registers of all of them */
#define RELAX_STACK_LEFT (256u * 1024u) /* bytes that a call which uses the C stack must find */

struct relax_machine;

/* What an instruction is, where it is one that is done without a detour. */
enum { RELAX_SLOW, RELAX_NULL, RELAX_KERNEL, RELAX_PLACED };

/* A call of vm.builtin.alloc_tensor whose place and shape are known. */
struct relax_placed {
  const int64_t *operands; /* of the first such call */
  DLTensor like; /* shape, and strides behind it: an allocation of its own, NULL: no such call */
  int64_t offset;
  size_t size;
};

/* What a Call of an entry of the table does. */
struct relax_target {
  const struct mb_method *builtin; /* called directly; NULL if it is none of ours */
  mblob_function *function; /* counted; NULL of functions of the program, and of what nobody has */
  bool borrows;             /* it takes tensors as they are described (kTVMDLTensorHandle) */
  void *
      address; /* of a kernel that is called by the convention of the ffi dialect; NULL of others */
  const struct mb_library *library; /* of that */
  int (*call_row)(int releases, void *address, const char *name, const mblob_any *row, int count,
                  void *ret); /* its convention's; NULL if it has none */
};

struct relax_slots { /* per function, for stateful calls */
  struct relax_value *inputs;
  bool has_inputs, has_output;
  struct relax_value output;
};

struct relax_machine {
  mblob_module *module; /* of the executable, counted */
  mblob_module *self;   /* its own, not counted */
  const struct relax_executable *exec;
  const struct relax_function *model; /* may be NULL */
  struct mb_return params;            /* an Array, counted */
  const struct mb_tensor **stored;    /* its items, in weights below `module` */
  size_t stored_count;
  bool ready;        /* vm_initialization was called */
  DLDevice *devices; /* all are the host's memory, which programs tell apart */
  size_t device_count;
  struct relax_target *targets;
  struct relax_value *constants;
  uint32_t *quick; /* of each instruction: RELAX_SLOW, .., or a place in `placed` behind them */
  struct relax_placed *placed;
  size_t placed_count;
  struct relax_slots *slots;
  struct vm_pool *pool;
  struct relax_frame *top;
  struct relax_frame **idle; /* of each function */
  size_t depth, registers, idle_count;
  size_t call_limit;
  uint64_t executed, instruction_limit; /* 0: no limit */
  unsigned steps;                       /* since the host was asked for an interrupt */
  struct relax_link *link;
  struct mb_map named; /* name -> mblob_function, closures that were asked for or saved */
  void *rows;          /* in the ffi dialect: constants and functions as compiled code has them */
  mblob_function *instrument;
  struct relax_profile *profile;      /* of this call; NULL but in `profile` */
  const mblob_convention *convention; /* NULL in the classic dialect */
  atomic_size_t owner;                /* an mb_thread_id(), 0: not in a call */
  unsigned nesting;                   /* calls of the owner */
  struct mb_map stored_by_name;       /* to places in `stored` */
};

/* ---- builtins: tables of global functions ------------------------------------------------------ */

/* (memory.c) Whether a call of alloc_tensor is always the same; and that call of a tensor, NULL
 * without an error if it fails: the builtin has one. */
int relax_placed_read(const struct relax_machine *m, const struct relax_instruction *in,
                      struct relax_placed *out);
DLTensor *relax_place(const struct relax_placed *placed, DLTensor *storage);
/* vm.builtin.invoke_closure and null_value, which the interpreter knows. */
int relax_invoke_closure(void *unused, struct mb_call *call);
int relax_null_value(void *unused, struct mb_call *call);
int relax_alloc_tensor(void *unused, struct mb_call *call);

/* ---- interpreter.c --------------------------------------------------------------------------- */

/* Call a function of the program on values that are the machine's already; the reference of the
 * result is the caller's. */
int relax_run(struct relax_machine *m, const struct relax_function *f,
              const struct relax_arguments *arguments, struct relax_value *result);
/* Call a function that is a value. */
int relax_call_function(mblob_function *function, bool borrows, const TVMValue *args,
                        const int *codes, int count, struct relax_value *result);

/* ---- compiled.c ------------------------------------------------------------------------------ */

int relax_run_compiled(struct relax_machine *m, const struct relax_function *f,
                       const struct relax_arguments *arguments, struct relax_value *result);
/* MBLOB_OK if the thread's C stack has room for another call. */
int relax_check_stack(void);

/* The constants and functions of the program as rows of compiled code, made at the first call;
 * and gone. */
void relax_rows_free(struct relax_machine *m);

/* ---- machine.c ------------------------------------------------------------------------------- */

/* `model`: the function that hosts call without a name (mblob_executor_run); NULL if there is none. */
int relax_machine_create(const struct relax_executable *exec, const struct relax_function *model,
                         mblob_module **out);
/* Of a call from outside that failed: whether arguments are at fault; if a function was not found, which
 * others will not be. */
void relax_tell_failure(const struct relax_machine *m);
/* Make a machine ready: constants, functions. */
int relax_machine_prepare(struct relax_machine *m, bool pooled);
/* NULL after "ValueError: Unknown function: NAME". No name: the model; NULL after an error that lists the functions. */
const struct relax_function *relax_function_find(const struct relax_machine *m, const char *name);

/* methods.c: what machines can be asked, under TVM's names; ends with one without a call. */
extern const struct mb_method relax_machine_methods[];
/* Of the class of machines: inputs and outputs of the model. */
int relax_machine_describe(void *machine, bool outputs, size_t i, size_t *count,
                           struct mb_executor_io *out);

/* ---- parameters.c, parameter_check.c --------------------------------------------------------- */

struct mb_tensor;
/* Give a new machine the parameters that its program's weights have, in their order: `params`, an Array, and
 * `stored`; none if there are none. */
int relax_parameters_make(struct relax_machine *m);
/* MBLOB_E_FORMAT if no function of the program can take these parameters, as far as its texts say; of
 * the module `entry`. `model` may be NULL. `by_name`, which is empty, gets the places in `tensors` of
 * their names, and is to be freed after an error, too. */
int relax_parameters_check(const struct relax_executable *exec, const struct relax_function *model,
                           const struct mb_tensor *const *tensors, size_t count, int64_t entry,
                           struct mb_map *by_name);
/* What a function's last inputs are, if nobody sets them: the tuple of the machine's parameters, its
 * items in their order, or those that have the names of the inputs. */
enum relax_place { RELAX_TUPLE, RELAX_EACH, RELAX_BY_NAME };
/* *inputs: how many these are; 0 if there are no parameters. */
int relax_parameters_place(const struct relax_machine *m, const struct relax_function *f,
                           size_t *inputs, enum relax_place *place);
/* The parameter that has the name of an input, which is one of RELAX_BY_NAME. */
size_t relax_parameter_named(const struct relax_machine *m, const struct relax_function *f,
                             size_t input);

/* ---- profile.c ------------------------------------------------------------------------------- */

struct relax_timing {
  uint64_t count;
  double seconds;
};

struct relax_profile {
  struct relax_timing *timings; /* of all instructions */
};

int relax_profile_run(struct relax_machine *m, struct mb_call *call);

#endif
