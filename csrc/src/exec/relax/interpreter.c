/* The loop of the machine: calls and jumps. Calls of the program's functions are frames on the
 * heap, not C recursion. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"

/* ---- operands -------------------------------------------------------------------------------- */

static struct relax_value read_register(struct relax_machine *m, const struct relax_frame *frame,
                                        int64_t i) {
  if (i < RELAX_VOID) return frame->registers[i];
  if (i == RELAX_CONTEXT) return (struct relax_value){{.v_handle = m}, kTVMOpaqueHandle};
  return (struct relax_value){.code = kTVMNullptr};
}

/* An entry of the table as a value; a closure is made for it, which the caller gives back. */
static int function_value(struct relax_machine *m, size_t i, struct relax_value *out) {
  mblob_function *function = m->targets[i].function;
  *out = (struct relax_value){{.v_handle = function}, kTVMPackedFuncHandle};
  if (m->exec->functions[i].kind == RELAX_PACKED) {
    if (function) return MBLOB_OK;
    return mb_fail(MBLOB_E_KERNEL, "InternalError: Cannot find function %s",
                   m->exec->functions[i].name);
  }
  int status = relax_closure_new(m, &m->exec->functions[i], NULL, 0, false, &function);
  out->value.v_handle = function;
  return status;
}

static int gather_function(struct relax_machine *m, size_t i, TVMValue *arg, int *code) {
  struct relax_value value;
  int status = function_value(m, i, &value);
  *arg = value.value;
  *code = status ? kTVMNullptr : value.code;
  return status;
}

static bool is_made(const struct relax_machine *m, int64_t word) {
  return relax_operand_kind(word) == RELAX_FUNCTION &&
         m->exec->functions[relax_operand_value(word)].kind != RELAX_PACKED;
}

static int gather(struct relax_machine *m, struct relax_frame *frame,
                  const struct relax_instruction *in, bool *made) {
  const bool views = m->targets[in->target].address != NULL && !m->instrument;
  int status = MBLOB_OK;
  for (uint32_t i = 0; i < in->count; i++) {
    const int64_t word = in->operands[i], value = relax_operand_value(word);
    struct relax_value found;
    switch (relax_operand_kind(word)) {
      case RELAX_REGISTER: found = read_register(m, frame, value); break;
      case RELAX_IMMEDIATE: found = (struct relax_value){{.v_int64 = value}, kTVMArgInt}; break;
      case RELAX_CONSTANT: found = m->constants[value]; break;
      default:
        found = (struct relax_value){.code = kTVMNullptr};
        if (!status) status = gather_function(m, (size_t)value, &found.value, &found.code);
        *made = true;
    }
    frame->args[i] = found.value;
    frame->codes[i] = views && found.code == kTVMNDArrayHandle ? kTVMDLTensorHandle : found.code;
  }
  return status;
}

/* Closures that were made for the call. */
static void drop_made(struct relax_machine *m, const struct relax_frame *frame,
                      const struct relax_instruction *in) {
  for (uint32_t i = 0; i < in->count; i++)
    if (is_made(m, in->operands[i]) && frame->codes[i] == kTVMPackedFuncHandle)
      mblob_function_release(frame->args[i].v_handle);
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define INLINE_ARGUMENTS 16

int relax_call_function(mblob_function *function, bool borrows, const TVMValue *args,
                        const int *codes, int count, struct relax_value *result) {
  int inline_codes[INLINE_ARGUMENTS], *changed = inline_codes, ret_code = kTVMNullptr;
  TVMValue ret = {.v_int64 = 0};
  if (borrows && count <= INLINE_ARGUMENTS) {
    for (int i = 0; i < count; i++)
      changed[i] = codes[i] == kTVMNDArrayHandle ? kTVMDLTensorHandle : codes[i];
    codes = changed;
  }
  int status = mblob_function_call(function, args, codes, count, &ret, &ret_code);
  return status ? status : relax_take_result(ret, ret_code, result);
}

static int call_builtin(const struct mb_method *builtin, const TVMValue *args, const int *codes,
                        int count, struct relax_value *result) {
  struct mb_return given = MB_RETURN_NOTHING;
  struct mb_call call = {builtin->name, args, codes, count, &given};
  int status = builtin->call(NULL, &call);
  if (!status && !given.text) {
    *result = (struct relax_value){given.value, given.code};
    return MBLOB_OK;
  }
  if (!status) status = relax_take_result(given.value, given.code, result);
  mb_return_drop(&given);
  return status;
}

/* What a kernel returned. */
static int take_given(int status, struct mb_return *given, struct relax_value *result) {
  if (!status) status = relax_take_result(given->value, given->code, result);
  if (status || given->text) mb_return_drop(given);
  return status;
}

/* Without a detour through mblob_function_call. */
static int call_relax_kernel(const struct relax_target *target, const TVMValue *args,
                             const int *codes, int count, struct relax_value *result) {
  struct mb_return given = MB_RETURN_NOTHING;
  const struct mb_library *library = target->library;
  int status = library->convention->call(library->dialect != MB_FFI_OF_0_21, library->external,
                                         target->address, target->function->name, args, codes,
                                         count, &given);
  return given.code == kTVMNullptr ? status : take_given(status, &given, result);
}

static int fail_missing_function(const char *name) {
  return mb_fail(MBLOB_E_KERNEL,
                 "InternalError: Error: Cannot find ffi::Function %s in either Relax VM kernel "
                 "library, or in TVM runtime ffi::Function registry, or in global Relax functions "
                 "of the VM executable",
                 name);
}

/* A name that nobody had when the machine was made may have come since. */
static int find_late(struct relax_machine *m, size_t index) {
  struct relax_target *target = &m->targets[index];
  int status = mb_global_get(m->exec->functions[index].name, &target->function);
  return status || target->function ? status
                                    : fail_missing_function(m->exec->functions[index].name);
}

/* Call one entry of the table on the arguments, as an instruction does. */
static int call_target(struct relax_machine *m, size_t index, const TVMValue *args,
                       const int *codes, int count, struct relax_value *result) {
  const struct relax_function *f = &m->exec->functions[index];
  const struct relax_arguments arguments = {args, codes, (size_t)count, NULL, 0};
  if (f->kind == RELAX_COMPILED) return relax_run_compiled(m, f, &arguments, result);
  if (f->kind == RELAX_CODE) return relax_run(m, f, &arguments, result);
  const struct relax_target *target = &m->targets[index];
  if (target->address) return call_relax_kernel(target, args, codes, count, result);
  if (target->builtin) return call_builtin(target->builtin, args, codes, count, result);
  int status = target->function ? MBLOB_OK : find_late(m, index);
  return status
             ? status
             : relax_call_function(target->function, target->borrows, args, codes, count, result);
}

/* The function of this program that the call goes to, NULL if it goes elsewhere. `skipped`:
 * arguments in front of its own. */
static const struct relax_function *callee(struct relax_machine *m,
                                           const struct relax_instruction *in,
                                           const struct relax_frame *frame,
                                           const struct relax_closure **closure, size_t *skipped) {
  const struct relax_function *f = &m->exec->functions[in->target];
  *closure = NULL;
  *skipped = 0;
  if (f->kind != RELAX_PACKED) return f->kind == RELAX_CODE ? f : NULL;
  const struct mb_method *builtin = m->targets[in->target].builtin;
  if (!builtin || builtin->call != relax_invoke_closure || in->count < 2 ||
      frame->codes[0] != kTVMOpaqueHandle || frame->args[0].v_handle != m ||
      frame->codes[1] != kTVMPackedFuncHandle)
    return NULL;
  *closure = relax_closure_of(frame->args[1].v_handle);
  *skipped = 2;
  return *closure && (*closure)->link->machine == m && (*closure)->function->kind == RELAX_CODE &&
                 !(*closure)->drops_result
             ? (*closure)->function
             : NULL;
}

/* Ask the instrument; *skip if it says that the call is to be skipped. */
static int ask_instrument(struct relax_machine *m, size_t index, bool before,
                          const struct relax_value *result, const struct relax_frame *frame,
                          int count, bool *skip) {
  TVMValue values[4 + 28], ret = {.v_int64 = 0};
  int codes[4 + 28], ret_code = kTVMNullptr;
  char dtypes[28][MB_DTYPE_TEXT];
  struct relax_value function = {.code = kTVMNullptr};
  const int shown = count < 28 ? count : 28;
  int status = MBLOB_OK;
  if (m->targets[index].function || m->exec->functions[index].kind != RELAX_PACKED)
    status = function_value(m, index, &function);
  if (status) return status;
  values[0] = function.value, codes[0] = function.code;
  values[1].v_str = m->exec->functions[index].name, codes[1] = kTVMStr;
  values[2].v_int64 = before, codes[2] = kTVMArgBool;
  values[3] = result->value, codes[3] = result->code;
  for (int i = 0; i < shown; i++) {
    values[4 + i] = frame->args[i];
    codes[4 + i] = frame->codes[i];
    if (codes[4 + i] != kTVMDataType) continue;
    values[4 + i].v_str = mb_dtype_text(frame->args[i].v_type, dtypes[i]);
    codes[4 + i] = kTVMStr;
  }
  mblob_function *instrument = mblob_function_retain(m->instrument);
  status = mblob_function_call(instrument, values, codes, 4 + shown, &ret, &ret_code);
  mblob_function_release(instrument);
  if (m->exec->functions[index].kind != RELAX_PACKED)
    mblob_function_release(function.value.v_handle);
  *skip = before && !status && ret_code == kTVMArgInt && ret.v_int64 == 1;
  if (!status) mblob_value_release(ret, ret_code);
  return status;
}

static int call_watched(struct relax_machine *m, const struct relax_instruction *in,
                        struct relax_frame *frame, struct relax_value *result) {
  bool skip = false;
  const size_t index = (size_t)in->target;
  int status = ask_instrument(m, index, true, result, frame, (int)in->count, &skip);
  if (status || skip) return status;
  status = call_target(m, index, frame->args, frame->codes, (int)in->count, result);
  if (!status && m->instrument)
    status = ask_instrument(m, index, false, result, frame, (int)in->count, &skip);
  return status;
}

static inline void store(struct relax_frame *frame, const struct relax_instruction *in,
                         TVMValue value, int code) {
  struct relax_value dropped = {.code = kTVMNullptr};
  relax_put(in->other < RELAX_VOID ? &frame->registers[in->other] : &dropped, value, code);
  if (dropped.code != kTVMNullptr) relax_clear(&dropped);
  frame->pc++;
}

/* A tensor that is placed anew in a storage; false if the builtin has to say what is wrong. */
static bool place_result(struct relax_frame *frame, const struct relax_instruction *in,
                         const struct relax_placed *placed) {
  const struct relax_value *storage = &frame->registers[relax_operand_value(in->operands[0])];
  DLTensor *view =
      storage->code == kTVMNDArrayHandle ? relax_place(placed, storage->value.v_handle) : NULL;
  if (view) store(frame, in, (TVMValue){.v_handle = view}, kTVMNDArrayHandle);
  return view != NULL;
}

/* Tensors without strides, with those of compact rows. */
struct views {
  struct {
    DLTensor tensor;
    int64_t strides[6];
  } items[4];
  int count;
};

static const DLTensor *argument_view_of(struct views *views, const DLTensor *t) {
  DLTensor *view = &views->items[views->count].tensor;
  int64_t *strides = views->items[views->count].strides;
  uint64_t rows = 1; /* unsigned: there may be no elements, of any extents */
  if (views->count == 4 || t->ndim > 6) return NULL;
  views->count++;
  for (int i = t->ndim; i-- > 0; rows *= (uint64_t)t->shape[i]) strides[i] = (int64_t)rows;
  *view = *t;
  view->strides = strides;
  return view;
}

/* The tensor as kernels take it; NULL if that needs more. */
static inline const DLTensor *plain(struct views *views, const DLTensor *t) {
  const bool is_flag = t && t->dtype.code == kDLUInt && t->dtype.bits == 1;
  if (!t || is_flag || t->dtype.code == MBLOB_FLOAT8_E3M4) return NULL;
  return t->strides ? t : argument_view_of(views, t);
}

/* The operands of a kernel; false if one is rare. */
static inline bool fill_called_row(const struct relax_machine *m, const struct relax_frame *frame,
                                   const struct relax_instruction *in, struct views *views) {
  for (uint32_t i = 0; i < in->count; i++) {
    const int64_t word = in->operands[i], value = relax_operand_value(word);
    const unsigned kind = relax_operand_kind(word);
    const struct relax_value *found = NULL;
    mblob_any *item = &frame->row[i];
    item->zero = 0;
    if (kind == RELAX_REGISTER && value < RELAX_VOID)
      found = &frame->registers[value];
    else if (kind == RELAX_CONSTANT)
      found = &m->constants[value];
    if (found && found->code == kTVMNDArrayHandle) {
      const DLTensor *tensor = plain(views, found->value.v_handle);
      item->type = 7;
      item->value.v_handle = (void *)(uintptr_t)tensor;
      if (!tensor) return false;
    } else if (kind == RELAX_IMMEDIATE || (found && found->code == kTVMArgInt)) {
      item->type = 1;
      item->value.v_int64 = found ? found->value.v_int64 : value;
    } else {
      return false;
    }
  }
  return true;
}

/* false: nothing was called. */
static bool run_kernel(const struct relax_machine *m, struct relax_frame *frame,
                       const struct relax_instruction *in, int *status) {
  const struct relax_target *target = &m->targets[in->target];
  struct views views;
  views.count = 0; /* the rest is written where it is used */
  if (!fill_called_row(m, frame, in, &views)) return false;
  struct mb_return given = MB_RETURN_NOTHING;
  struct relax_value result = {.code = kTVMNullptr};
  *status = target->call_row(target->library->dialect != MB_FFI_OF_0_21, target->address,
                             target->function->name, frame->row, (int)in->count, &given);
  if (given.code != kTVMNullptr) *status = take_given(*status, &given, &result);
  if (!*status) store(frame, in, result.value, result.code);
  return true;
}

/* What is called most, without a detour: false if it is something else. */
static inline bool call_at_once(struct relax_machine *m, struct relax_frame *frame,
                                const struct relax_instruction *in, int *status) {
  if (in->opcode != RELAX_CALL || m->instrument || m->profile || m->instruction_limit) return false;
  const uint32_t quick = m->quick[frame->pc];
  if (quick >= RELAX_PLACED) return place_result(frame, in, &m->placed[quick - RELAX_PLACED]);
  if (quick == RELAX_NULL) store(frame, in, (TVMValue){.v_handle = NULL}, kTVMNullptr);
  return quick == RELAX_KERNEL ? run_kernel(m, frame, in, status) : quick == RELAX_NULL;
}

/* Either a frame is pushed, or the result is stored and the next instruction follows. */
static int relax_call(struct relax_machine *m, struct relax_frame *frame,
                      const struct relax_instruction *in) {
  bool made = false;
  struct relax_value result = {.code = kTVMNullptr};
  int status = gather(m, frame, in, &made);
  const struct relax_closure *closure = NULL;
  size_t skipped = 0;
  const struct relax_function *inner =
      status || m->instrument ? NULL : callee(m, in, frame, &closure, &skipped);
  if (status) {
    /* nothing was called */
  } else if (inner) {
    const struct relax_arguments arguments = {frame->args + skipped, frame->codes + skipped,
                                              in->count - skipped, closure ? closure->bound : NULL,
                                              closure ? closure->count : 0};
    status = relax_push(m, inner, &arguments, in->other);
    if (!status) {
      if (made) drop_made(m, frame, in);
      return MBLOB_OK;
    }
  } else if (m->instrument) {
    status = call_watched(m, in, frame, &result);
  } else {
    status = call_target(m, (size_t)in->target, frame->args, frame->codes, (int)in->count, &result);
  }
  if (made) drop_made(m, frame, in);
  if (status) {
    relax_clear(&result);
    return status;
  }
  store(frame, in, result.value, result.code);
  return MBLOB_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int relax_branch(struct relax_frame *frame, const struct relax_instruction *in) {
  const struct relax_value test = in->target < RELAX_VOID
                                      ? frame->registers[in->target]
                                      : (struct relax_value){.code = kTVMNullptr};
  if (test.code != kTVMArgInt && test.code != kTVMArgBool)
    return mb_fail(MBLOB_E_KERNEL, "TypeError: Cannot convert from type `%s` to `int`",
                   relax_key(test.value, test.code));
  frame->pc += test.value.v_int64 != 0 ? 1 : (size_t)in->other;
  return MBLOB_OK;
}

/* Put where the error happened behind its kind. */
static void locate(const struct relax_machine *m, const struct relax_frame *frame) {
  char text[256];
  const struct relax_instruction *in = &m->exec->code[frame->pc];
  (void)snprintf(text, sizeof(text), "%.80s, instruction %zu (%s%s%.80s)", frame->function->name,
                 frame->pc - frame->function->start, relax_opcode_name(in->opcode),
                 in->opcode == RELAX_CALL ? " " : "",
                 in->opcode == RELAX_CALL ? m->exec->functions[in->target].name : "");
  mb_error_place(text);
}

static int relax_step(struct relax_machine *m, struct relax_frame *frame,
                      const struct relax_instruction *in) {
  if (m->instruction_limit && m->executed++ >= m->instruction_limit)
    return mb_fail(MBLOB_E_KERNEL, "RuntimeError: the limit of %llu instructions is reached",
                   (unsigned long long)m->instruction_limit);
  switch (in->opcode) {
    case RELAX_CALL: return relax_call(m, frame, in);
    case RELAX_IF: return relax_branch(frame, in);
    case RELAX_GOTO: frame->pc += (size_t)in->target; return MBLOB_OK; /* maybe backwards */
    case RELAX_RET: break;                                             /* of the loop below */
  }
  return mb_fail(MBLOB_E_KERNEL, "InternalError: an opcode is not known");
}

static int timed_step(struct relax_machine *m, struct relax_frame *frame,
                      const struct relax_instruction *in) {
  struct relax_timing *timing = &m->profile->timings[frame->pc];
  const double start = mb_seconds_now();
  int status = relax_step(m, frame, in);
  timing->seconds += mb_seconds_now() - start;
  timing->count++;
  return status;
}

/* The result of the top frame goes to the one below. */
static void relax_ret(struct relax_machine *m, struct relax_frame *frame,
                      const struct relax_instruction *in, struct relax_value *result) {
  struct relax_value value = {.code = kTVMNullptr};
  if (in->target < RELAX_VOID) {
    value = frame->registers[in->target];
    frame->registers[in->target] = (struct relax_value){.code = kTVMNullptr};
  }
  const int64_t place = frame->result;
  const bool is_base = frame->is_base;
  relax_pop(m);
  if (is_base) {
    *result = value;
    return;
  }
  if (place < RELAX_VOID)
    relax_set(&m->top->registers[place], value);
  else
    relax_clear(&value);
  m->top->pc++;
}

static int loop(struct relax_machine *m, const struct relax_frame *below,
                struct relax_value *result) {
  const struct relax_instruction *code = m->exec->code;
  int status = MBLOB_OK;
  while (!status && m->top != below) {
    struct relax_frame *frame = m->top;
    if ((status = mb_interrupt_check(&m->steps))) break;
    const struct relax_instruction *in = &code[frame->pc];
    if (in->opcode == RELAX_RET) {
      relax_ret(m, frame, in, result);
      continue;
    }
    if (call_at_once(m, frame, in, &status)) continue;
    status = m->profile ? timed_step(m, frame, in) : relax_step(m, frame, in);
  }
  return status;
}

int relax_run(struct relax_machine *m, const struct relax_function *f,
              const struct relax_arguments *arguments, struct relax_value *result) {
  const struct relax_frame *below = m->top;
  *result = (struct relax_value){.code = kTVMNullptr};
  if (f->kind == RELAX_COMPILED) return relax_run_compiled(m, f, arguments, result);
  int status = relax_push(m, f, arguments, RELAX_VOID);
  if (status) return status;
  m->top->is_base = true;
  status = loop(m, below, result);
  if (!status) return MBLOB_OK;
  locate(m, m->top);
  while (m->top != below) relax_pop(m);
  return status;
}
