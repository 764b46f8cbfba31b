/* machine.h - the interpreter of Relax's virtual machine, and modules of the key
 * relax.VirtualMachine around it.
 *
 * Registers hold values of the runtime with their type codes, of either dialect: arrays (a storage
 * is an array of bytes, a tensor a view of one), Arrays, ShapeTuples and Strings, functions (a
 * closure is one that has its machine with it), numbers, data types, nothing. */
#ifndef MB_RELAX_MACHINE_H
#define MB_RELAX_MACHINE_H

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/device/device.h"
#include "exec/relax/executable.h"
#include "exec/relax/relax.h"

#define RELAX_CALL_LIMIT 10000 /* calls inside each other, unless set_limits says otherwise */
#define RELAX_REGISTER_TOTAL (1u << 24) /* registers of all of them */
#define RELAX_STACK_LEFT (256u * 1024u) /* bytes that a call which uses the C stack must find */

/* As TVM's TVMRetValue, which compiled functions of the classic dialect are given rows of. */
struct relax_value {
  _Alignas(8) TVMValue value; /* 16 bytes in a row, on i686, too */
  int code;
};

struct relax_machine;

struct relax_frame {
  struct relax_frame *below; /* also: the next one that is idle */
  const struct relax_function *function;
  size_t pc;
  int64_t result; /* register of the frame below; RELAX_VOID and above: none */
  bool is_base;   /* called from outside */
  mblob_any *row; /* room for the operands of any of its calls: of kernels, */
  TVMValue *args; /* and of others */
  int *codes;
  struct relax_value registers[];
};

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

/* What closures that are part of their machine's module point to it by: it is NULL once the machine
 * has gone. */
struct relax_link {
  atomic_size_t references;
  struct relax_machine *machine;
};

/* A function of the program, with the values that stand behind its arguments. */
struct relax_closure {
  struct relax_link *link;
  mblob_module *module; /* of the machine, counted; NULL in one that is part of it */
  const struct relax_function *function;
  bool drops_result;
  bool is_block; /* `bound` is one of blocks.h */
  size_t count;
  struct relax_value *bound;
};

/* A call from outside, on the stack of its thread. */
struct relax_activation {
  struct relax_machine *machine;
  struct relax_activation *outer;
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
};

/* ---- values.c -------------------------------------------------------------------------------- */

static inline bool relax_is_counted(int code) {
  return code >= kTVMObjectHandle && code <= kTVMNDArrayHandle && code != kTVMStr &&
         code != kTVMBytes;
}

static inline void relax_retain(struct relax_value value) {
  if (relax_is_counted(value.code)) mb_value_retain(value.value, value.code);
}

/* Put a value, whose reference is taken over, into a place. Field by field: what was written so
 * and is read as a whole has to wait for the memory. */
static inline void relax_put(struct relax_value *place, TVMValue value, int code) {
  const TVMValue old = place->value;
  const int old_code = place->code;
  place->value = value;
  place->code = code;
  if (old_code == kTVMNDArrayHandle && old.v_handle)
    mb_array_release(old.v_handle);
  else if (relax_is_counted(old_code))
    mb_value_release(old, old_code);
}

static inline void relax_set(struct relax_value *place, struct relax_value value) {
  relax_put(place, value.value, value.code);
}

/* Drop what is in the place, and leave nothing. */
static inline void relax_clear(struct relax_value *place) {
  relax_put(place, (TVMValue){.v_handle = NULL}, kTVMNullptr);
}

/* A value of a caller as one that can be kept, with a reference: texts become Strings, a borrowed
 * tensor a counted view of the caller's memory, which *borrowed is set to, too. With
 * `borrowed` NULL it is copied, and so is what is less aligned than compiled code assumes. */
int relax_take(const struct relax_machine *m, TVMValue value, int code, struct relax_value *out,
               DLTensor **borrowed);
/* What a function gave, which is taken over: texts become Strings, all tensors are aligned. */
int relax_take_result(TVMValue value, int code, struct relax_value *out);
/* A value for a caller, taken over: Strings without a NUL become texts. A mblob_status. */
int relax_give(struct relax_value value, struct mb_return *out);
/* The object of that type, NULL if it is something else. */
struct mb_object *relax_object(TVMValue value, int code, enum mb_object_type type);
/* "ffi.Tensor", as TVM calls the type of a value. */
const char *relax_key(TVMValue value, int code);

/* ---- arguments of builtins (arguments.c): errors are those of TVM, with its kinds ----------------- */

int relax_expect(const struct mb_call *call, int count);
int relax_int(const struct mb_call *call, int i, int64_t *out);
/* A text without a NUL inside. */
int relax_name(const struct mb_call *call, int i, const char **out);
/* A data type, or its name. */
int relax_dtype(const struct mb_call *call, int i, DLDataType *out);
int relax_tensor(const struct mb_call *call, int i, DLTensor **out);
/* A Shape, or an Array of integers, as a caller's list is: their items are the same. NULL of others. */
struct mb_object *relax_extents(TVMValue value, int code);
int relax_shape(const struct mb_call *call, int i, struct mb_object **out);
int relax_array(const struct mb_call *call, int i, struct mb_object **out);
/* (tuple, index), where the tuple has an item. */
int relax_item_argument(const struct mb_call *call, struct mb_object **array, int64_t *i);
/* MBLOB_E_KERNEL "TypeError: Mismatched type on argument #i when calling: ..". */
int relax_mismatch(const struct mb_call *call, int i, const char *expected);
/* The machine that runs on this thread, which argument 0 has to be. */
int relax_context(const struct mb_call *call, struct relax_machine **out);
void relax_return(struct mb_call *call, TVMValue value, int code);
void relax_return_object(struct mb_call *call, struct mb_object *object);

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

/* ---- frames.c -------------------------------------------------------------------------------- */

/* A frame on top, its registers empty but for the arguments, which are copied with references:
 * `args` first, then `bound`. */
struct relax_arguments {
  const TVMValue *args;
  const int *codes;
  size_t count;
  const struct relax_value *bound;
  size_t bound_count;
};
int relax_push(struct relax_machine *m, const struct relax_function *f,
               const struct relax_arguments *arguments, int64_t result);
void relax_pop(struct relax_machine *m);
void relax_frames_free(struct relax_machine *m);
/* A frame that is nobody's, with empty registers, which are those of compiled code, too; NULL when
 * memory is out (recorded). And one back, emptied. */
struct relax_frame *relax_frame_take(struct relax_machine *m, const struct relax_function *f);
void relax_frame_give(struct relax_machine *m, struct relax_frame *frame);
/* MBLOB_OK if a function of the program takes so many arguments. */
int relax_check_count(const struct relax_function *f, size_t count);

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

/* ---- closures.c ------------------------------------------------------------------------------ */

/* A closure as a function; values are retained. `weak`: it is part of the machine's module. */
int relax_closure_new(struct relax_machine *m, const struct relax_function *f,
                      const struct relax_value *bound, size_t count, bool weak,
                      mblob_function **out);
/* The closure behind a function, NULL of any other. */
struct relax_closure *relax_closure_of(const mblob_function *function);
void relax_closure_rebind(struct relax_closure *closure, const struct relax_function *f,
                          struct relax_value *bound, size_t count, bool drops_result);
void relax_link_release(struct relax_link *link);

/* ---- machine.c ------------------------------------------------------------------------------- */

int relax_machine_create(const struct relax_executable *exec, mblob_module **out);
/* Begin and end a call from outside: one thread at a time, which may come again from below. */
int relax_enter(struct relax_machine *m, struct relax_activation *activation);
void relax_leave(struct relax_activation *activation);
/* The innermost call of this thread, NULL if there is none. */
struct relax_activation *relax_running(void);
/* Call a function of the program on values of a caller, then on those that are bound. */
int relax_call_outside(struct relax_machine *m, const struct relax_closure *closure,
                       const TVMValue *args, const int *codes, int count, struct mb_return *out);
/* Of a call from outside that failed: whether arguments are at fault; if a function was not found, which
 * others will not be. */
void relax_tell_failure(const struct relax_machine *m);
/* Make a machine ready: constants, functions. */
int relax_machine_prepare(struct relax_machine *m, bool pooled);
/* NULL after "ValueError: Unknown function: NAME". */
const struct relax_function *relax_function_find(const struct relax_machine *m, const char *name);

/* methods.c: what machines can be asked, under TVM's names; ends with one without a call. */
extern const struct mb_method relax_machine_methods[];
/* Of the class of machines: inputs and outputs of the function main. */
int relax_machine_describe(void *machine, bool outputs, size_t i, size_t *count,
                           struct mb_end *out);

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
