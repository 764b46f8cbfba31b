/* Functions of the program that are compiled code (`__vmtir__NAME`): they get rows of values, their
 * registers, the constants and the functions of the program, and reach items through the runtime. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#ifndef __GLIBC__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "exec/relax/machine.h"

#define ANY_SIZE 16 /* bytes of a value of either dialect in a row */
_Static_assert(sizeof(struct relax_value) == ANY_SIZE, "TVMRetValue");

/* ---- the C stack ----------------------------------------------------------------------------- */

static __thread const char *stack_start; /* its lowest address */

#ifndef __GLIBC__
/* musl tells what the stack of the first thread takes by now: it grows to its limit, of which an
 * eighth is left for what lies above. */
static void *start_when_grown(void *start, size_t size) {
  struct rlimit limit;
  if (syscall(SYS_gettid) != getpid() || getrlimit(RLIMIT_STACK, &limit) ||
      limit.rlim_cur == RLIM_INFINITY)
    return start;
  const size_t grown = (size_t)limit.rlim_cur / 8 * 7;
  return grown > size && grown - size < (uintptr_t)start ? (char *)start - (grown - size) : start;
}
#endif

static const char *find_stack(void) {
  pthread_attr_t attributes;
  void *start = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes)) return (const char *)1;
  if (pthread_attr_getstack(&attributes, &start, &size)) start = NULL;
  (void)pthread_attr_destroy(&attributes);
#ifndef __GLIBC__
  if (start) start = start_when_grown(start, size);
#endif
  return start ? start : (const char *)1;
}

int relax_check_stack(void) {
  const char *here = __builtin_frame_address(0);
  if (!stack_start) stack_start = find_stack();
  const size_t left = here > stack_start ? (size_t)(here - stack_start) : SIZE_MAX;
  if (left > RELAX_STACK_LEFT) return MBLOB_OK;
  return mb_fail(MBLOB_E_KERNEL,
                 "RecursionError: calls inside each other have used up the stack of this thread");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int releases_of(const struct relax_machine *m) { return m->exec->dialect != MB_FFI_OF_0_21; }

/* The value as an item, with a reference of its own. */
static int put_item(const struct relax_machine *m, struct relax_value value, void *item) {
  if (m->convention) return m->convention->to_any(releases_of(m), value.value, value.code, item);
  *(struct relax_value *)item = value;
  relax_retain(value);
  return MBLOB_OK;
}

static void drop_item(const struct relax_machine *m, void *item) {
  struct relax_value *value = item;
  if (m->convention) {
    if (((const mblob_any *)item)->type) m->convention->any_release(releases_of(m), item);
  } else if (value->code == kTVMStr || value->code == kTVMBytes) {
    free(value->value.v_handle); /* a copy that TVMBackendAnyListMoveFromPackedReturn made */
    *value = (struct relax_value){.code = kTVMNullptr};
  } else {
    relax_clear(value);
  }
}

/* An item's value, which is the caller's. */
static int get_row_item(const struct relax_machine *m, const void *item, struct relax_value *out) {
  struct mb_return result = MB_RETURN_NOTHING;
  if (!m->convention) {
    const struct relax_value *value = item;
    relax_retain(*value);
    return relax_take_result(value->value, value->code, out);
  }
  int status = m->convention->from_any(releases_of(m), item, &result);
  if (!status) status = relax_take_result(result.value, result.code, out);
  if (result.text) mb_return_drop(&result);
  return status;
}

static void empty_row(const struct relax_machine *m, char *row, size_t count) {
  for (size_t i = 0; !m->convention && i < count; i++)
    ((struct relax_value *)(void *)row)[i] = (struct relax_value){.code = kTVMNullptr};
}

static char *constants_of(const struct relax_machine *m) { return m->rows; }

static char *functions_of(const struct relax_machine *m) {
  return (char *)m->rows + m->exec->constant_count * ANY_SIZE;
}

void relax_rows_free(struct relax_machine *m) {
  const size_t count = m->exec->constant_count + m->exec->function_count;
  for (size_t i = 0; m->rows && i < count; i++) drop_item(m, (char *)m->rows + i * ANY_SIZE);
  free(m->rows);
  m->rows = NULL;
}

static int put_function(struct relax_machine *m, size_t i) {
  mblob_function *function = NULL;
  const struct relax_function *f = &m->exec->functions[i];
  int status = MBLOB_OK;
  if (f->kind == RELAX_PACKED)
    function = mblob_function_retain(m->targets[i].function);
  else
    status = relax_closure_new(m, f, NULL, 0, true, &function);
  const struct relax_value value = {{.v_handle = function},
                                    function ? kTVMPackedFuncHandle : kTVMNullptr};
  if (!status) status = put_item(m, value, functions_of(m) + i * ANY_SIZE);
  mblob_function_release(function);
  return status;
}

static int make_rows(struct relax_machine *m) {
  const size_t count = m->exec->constant_count + m->exec->function_count;
  int status = MBLOB_OK;
  m->rows = calloc(count + 1, ANY_SIZE);
  if (!m->rows) return mb_fail_memory(count * ANY_SIZE);
  empty_row(m, m->rows, count);
  for (size_t i = 0; !status && i < m->exec->constant_count; i++)
    status = put_item(m, m->constants[i], constants_of(m) + i * ANY_SIZE);
  for (size_t i = 0; !status && i < m->exec->function_count; i++) status = put_function(m, i);
  if (status) relax_rows_free(m);
  return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int fill_register_row(struct relax_machine *m, const struct relax_arguments *arguments,
                             char *row) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < arguments->count; i++)
    status = put_item(m, (struct relax_value){arguments->args[i], arguments->codes[i]},
                      row + i * ANY_SIZE);
  for (size_t i = 0; !status && i < arguments->bound_count; i++)
    status = put_item(m, arguments->bound[i], row + (arguments->count + i) * ANY_SIZE);
  return status;
}

static int call_row(struct relax_machine *m, const struct relax_function *f, char *row) {
  mblob_function *code = m->targets[f - m->exec->functions].function;
  const TVMValue args[4] = {{.v_handle = m},
                            {.v_handle = row},
                            {.v_handle = constants_of(m)},
                            {.v_handle = functions_of(m)}};
  const int codes[4] = {kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMOpaqueHandle, kTVMOpaqueHandle};
  if (!code)
    return mb_fail(MBLOB_E_KERNEL,
                   "InternalError: Cannot find underlying compiled tirx function of VMTIRFunc %s",
                   f->name);
  return mblob_function_call(code, args, codes, 4, NULL, NULL);
}

int relax_run_compiled(struct relax_machine *m, const struct relax_function *f,
                       const struct relax_arguments *arguments, struct relax_value *result) {
  const size_t count = (size_t)f->register_file;
  *result = (struct relax_value){.code = kTVMNullptr};
  int status = relax_check_count(f, arguments->count + arguments->bound_count);
  if (!status) status = mb_interrupt_check(&m->steps);
  if (!status) status = relax_check_stack();
  if (!status && (m->depth >= m->call_limit || count > RELAX_REGISTER_TOTAL - m->registers))
    status = mb_fail(MBLOB_E_KERNEL, "RecursionError: more than %zu calls inside each other",
                     m->call_limit);
  if (!status && !m->rows) status = make_rows(m);
  if (status) return status;
  struct relax_frame *frame = relax_frame_take(m, f);
  if (!frame) return MBLOB_E_MEMORY;
  char *row = (char *)frame->registers;
  m->depth++;
  m->registers += count;
  status = fill_register_row(m, arguments, row);
  if (!status) status = call_row(m, f, row);
  if (!status) status = get_row_item(m, row + (size_t)f->num_args * ANY_SIZE, result);
  m->depth--;
  m->registers -= count;
  for (size_t i = 0; i < count; i++) drop_item(m, row + i * ANY_SIZE);
  relax_frame_give(m, frame);
  if (status) mb_error_place(f->name);
  return status;
}
