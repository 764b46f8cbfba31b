/* Frames of calls: on the heap, where those of each function wait for the next call. Calls from
 * outside, of each thread. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "exec/relax/machine.h"

#define IDLE_LIMIT 1024 /* frames that wait, of all functions */

/* The registers are empty: of compiled functions as those of the dialect are. */
static struct relax_frame *new_frame(const struct relax_machine *m,
                                     const struct relax_function *f) {
  const bool compiled = f->kind == RELAX_COMPILED;
  const size_t count = compiled ? (size_t)f->register_file : f->registers,
               registers = count * sizeof(struct relax_value),
               each = sizeof(mblob_any) + sizeof(TVMValue) + sizeof(int);
  struct relax_frame *frame = calloc(1, sizeof(*frame) + registers + f->operands * each);
  if (!frame) {
    (void)mb_fail_memory(sizeof(*frame) + registers + f->operands * each);
    return NULL;
  }
  frame->function = f;
  frame->row = (mblob_any *)(void *)(frame->registers + count);
  frame->args = (TVMValue *)(void *)(frame->row + f->operands);
  frame->codes = (int *)(frame->args + f->operands);
  for (size_t i = 0; i < count && !(compiled && m->convention); i++)
    frame->registers[i] = (struct relax_value){.code = kTVMNullptr};
  return frame;
}

struct relax_frame *relax_frame_take(struct relax_machine *m, const struct relax_function *f) {
  struct relax_frame **idle = &m->idle[f - m->exec->functions], *frame = *idle;
  if (!frame) return new_frame(m, f);
  *idle = frame->below;
  m->idle_count--;
  return frame;
}

void relax_frame_give(struct relax_machine *m, struct relax_frame *frame) {
  struct relax_frame **idle = &m->idle[frame->function - m->exec->functions];
  if (m->idle_count >= IDLE_LIMIT) {
    free(frame);
    return;
  }
  frame->below = *idle;
  *idle = frame;
  m->idle_count++;
}

static int too_deep(const struct relax_machine *m) {
  return mb_fail(MBLOB_E_KERNEL,
                 "RecursionError: more than %zu calls inside each other, or %u registers in them; "
                 "set_limits raises the first",
                 m->call_limit, RELAX_REGISTER_TOTAL);
}

/* "(x, w)" after a blank, "" if there are no names; on the heap. */
static char *names_of(const struct relax_function *f) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = f->param_count ? open_memstream(&text, &size) : NULL;
  if (!out) return NULL;
  for (size_t i = 0; i < f->param_count; i++)
    (void)fprintf(out, "%s%s", i ? ", " : " (", f->params[i]);
  (void)fputc(')', out);
  if (!fclose(out)) return text;
  free(text);
  return NULL;
}

int relax_check_count(const struct relax_function *f, size_t count) {
  if (f->num_args >= 0 && (uint64_t)f->num_args == count) return MBLOB_OK;
  if (f->num_args < 0)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: function '%s' is declared and not defined",
                   f->name);
  if (f->kind == RELAX_COMPILED)
    return mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_COUNT,
                         "InternalError: Function %s expects %lld arguments, found %zu", f->name,
                         (long long)f->num_args, count);
  char *names = names_of(f);
  int status =
      mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_COUNT,
                    "InternalError: Invoking function %s expects %lld arguments%s, but %zu "
                    "arguments were provided.",
                    f->name, (long long)f->num_args, names ? names : "", count);
  free(names);
  return status;
}

int relax_push(struct relax_machine *m, const struct relax_function *f,
               const struct relax_arguments *arguments, int64_t result) {
  const size_t given = arguments->count + arguments->bound_count;
  int status =
      f->num_args >= 0 && (uint64_t)f->num_args == given ? MBLOB_OK : relax_check_count(f, given);
  if (status) return status;
  if (m->depth >= m->call_limit || f->registers > RELAX_REGISTER_TOTAL - m->registers)
    return too_deep(m);
  struct relax_frame *frame = relax_frame_take(m, f);
  if (!frame) return MBLOB_E_MEMORY;
  frame->pc = f->start;
  frame->result = result;
  frame->is_base = false;
  frame->below = m->top;
  m->top = frame;
  m->depth++;
  m->registers += f->registers;
  for (size_t i = 0; i < arguments->count; i++) {
    frame->registers[i] = (struct relax_value){arguments->args[i], arguments->codes[i]};
    relax_retain(frame->registers[i]);
  }
  for (size_t i = 0; i < arguments->bound_count; i++) {
    frame->registers[arguments->count + i] = arguments->bound[i];
    relax_retain(arguments->bound[i]);
  }
  return MBLOB_OK;
}

void relax_pop(struct relax_machine *m) {
  struct relax_frame *frame = m->top;
  const struct relax_function *f = frame->function;
  m->top = frame->below;
  m->depth--;
  m->registers -= f->registers;
  for (size_t i = 0; i < f->registers; i++) relax_clear(&frame->registers[i]);
  relax_frame_give(m, frame);
}

void relax_frames_free(struct relax_machine *m) {
  for (size_t i = 0; m->idle && i < m->exec->function_count; i++)
    while (m->idle[i]) {
      struct relax_frame *frame = m->idle[i];
      m->idle[i] = frame->below;
      free(frame);
    }
  free(m->idle);
}

/* ---- calls from outside ---------------------------------------------------------------------- */

static __thread struct relax_activation *innermost;

struct relax_activation *relax_running(void) { return innermost; }

int relax_enter(struct relax_machine *m, struct relax_activation *activation) {
  const size_t me = mb_thread_id();
  size_t nobody = 0;
  if (atomic_load_explicit(&m->owner, memory_order_relaxed) != me &&
      !atomic_compare_exchange_strong_explicit(&m->owner, &nobody, me, memory_order_acquire,
                                               memory_order_relaxed))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "the machine is in another call; use one VirtualMachine per thread");
  if (!m->nesting++) m->executed = 0;
  *activation = (struct relax_activation){m, innermost};
  innermost = activation;
  return MBLOB_OK;
}

void relax_leave(struct relax_activation *activation) {
  struct relax_machine *m = activation->machine;
  innermost = activation->outer;
  if (!--m->nesting) atomic_store_explicit(&m->owner, 0, memory_order_release);
}
