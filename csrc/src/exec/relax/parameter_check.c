/* Checks that a program takes a set of parameters.
 *
 * The texts for errors of checks say which tensors an argument is, or holds (annotations.h). Bytecode also says it:
 * what is given to a kernel is a tensor. Neither says which function the set is for, and a tuple may be something
 * else. So a set is refused only if each tuple differs from it, and no function has an argument of which nothing is
 * said, or as many tensors as the set, which may be passed one by one. A tuple called params is the set's
 * place in its function. What is not said is found when the function is called, also dimensions that have
 * names.
 *
 * Inputs may have the names of the parameters. Then the function takes each as a tensor of its own, and
 * nothing else fits: what is said of such an input is about the tensor of its name. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/relax/annotations.h"
#include "exec/relax/machine.h"
#include "format/format.h"

/* Functions, packed ones aside, times constants of programs that are checked: in less than a second. A name of each 64
 * bytes counts as one more. Others are told of a difference by the call, as of all that is not said. */
#define COMPARED_AT_MOST (1u << 25)

enum { NO_TENSOR = -1 };
enum { IS_TUPLE = 1, DIFFERS = 2, IS_TENSOR = 4, IS_UNTOLD = 8 }; /* an argument */

struct shape_search {
  const struct relax_executable *exec;
  const struct relax_function *model;     /* may be NULL */
  const struct mb_tensor *const *tensors; /* NULL: only their number matters */
  const struct mb_map *by_name;           /* to places in `tensors` */
  int64_t count;
  uint64_t compared;                     /* at most COMPARED_AT_MOST */
  const struct relax_function *f;        /* that is read */
  uint8_t *arguments;                    /* of `f` */
  const struct relax_function *refusing; /* what `text` is about */
  char text[640];
};

/* The argument is a tuple of something else. One text is kept: of the model rather than of other
 * functions, and there of its last tuple. */
MB_PRINTF(3, 4)
static void differ(struct shape_search *s, int64_t argument, const char *format, ...) {
  const struct relax_function *f = s->f;
  const bool is_known = (s->arguments[argument] & DIFFERS) != 0;
  s->arguments[argument] |= DIFFERS;
  if (is_known || (s->refusing && f != s->refusing && f != s->model)) return;
  s->refusing = f;
  int used = snprintf(s->text, sizeof(s->text), "function '%.80s', argument %d %.80s: ", f->name,
                      (int)argument, f->param_count ? f->params[argument] : "");
  va_list values;
  va_start(values, format);
  (void)vsnprintf(s->text + used, sizeof(s->text) - (size_t)used, format, values);
  va_end(values);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The tensor that has the name of an input, NO_TENSOR if there is none. */
static int64_t for_input(const struct mb_tensor *const *tensors, const struct mb_map *by_name,
                         const struct relax_function *f, int64_t input) {
  const struct mb_tensor *const *found = mb_map_get(by_name, f->params[input]);
  return found ? found - tensors : NO_TENSOR;
}

/* True if inputs of the function have names of tensors; *last: how many of the last ones. */
static bool takes_by_name(const struct mb_map *by_name, const struct relax_function *f,
                          int64_t *last) {
  bool found = false;
  *last = 0;
  if (f->kind == RELAX_PACKED || f->num_args <= 0 || f->param_count != (size_t)f->num_args)
    return false;
  for (int64_t i = f->num_args - 1; i >= 0; i--) {
    if (!mb_map_get(by_name, f->params[i])) continue;
    found = true;
    if (*last == f->num_args - 1 - i) ++*last;
  }
  return found;
}

/* Compare tensor `item` of the set; NO_TENSOR: it is none of them. */
static void look_at_tensor(struct shape_search *s, int64_t argument, int64_t item,
                           struct mb_slice text) {
  struct relax_expected expected;
  if (!s->tensors || item < 0 || item >= s->count) return;
  relax_annotation_tensor(text, &expected);
  const struct mb_tensor *tensor = s->tensors[item];
  const DLTensor *found = &tensor->view;
  const bool any_rank = expected.rank < 0 || expected.rank > MB_NDIM_LIMIT;
  bool same = true;
  char want[MB_SHAPE_TEXT], have[MB_SHAPE_TEXT];
  DLTensor shown = *found;
  shown.shape = expected.shape;
  if (expected.has_type && !relax_same_dtype(expected.dtype, found->dtype)) {
    differ(s, argument, "tensor '%.120s': " MB_TEXT_DTYPE, tensor->name,
           mb_dtype_text(expected.dtype, want), mb_dtype_text(found->dtype, have));
  } else if (!any_rank && expected.rank != found->ndim) {
    differ(s, argument, "tensor '%.120s': expected %d dimensions, found shape %s", tensor->name,
           (int)expected.rank, mb_shape_text(found, have));
  } else if (!any_rank) {
    for (int32_t i = 0; i < found->ndim; i++) {
      if (expected.shape[i] == RELAX_ANY) expected.shape[i] = found->shape[i];
      same &= expected.shape[i] == found->shape[i];
    }
    if (same) return;
    differ(s, argument, "tensor '%.120s': " MB_TEXT_SHAPE, tensor->name,
           mb_shape_text(&shown, want), mb_shape_text(found, have));
  }
}

/* ---- functions ------------------------------------------------------------------------------- */

static void look_at_tuple(struct shape_search *s, int64_t argument, struct mb_slice text) {
  struct mb_slice items = text, item;
  int64_t count = 0;
  while (relax_annotation_next(&items, &item)) count++;
  s->arguments[argument] |= IS_TUPLE;
  if (count != s->count)
    differ(s, argument, "expected %lld tensors, found %lld", (long long)count, (long long)s->count);
  for (count = 0; relax_annotation_next(&text, &item); count++)
    if (relax_annotation_kind(&item) == RELAX_ANNOTATED_TENSOR)
      look_at_tensor(s, argument, count, item);
}

/* Arguments that the function gives to kernels, or reshapes, are tensors. Other functions, which may take
 * tuples, have names with points. */
static void read_uses(struct shape_search *s) {
  const struct relax_function *f = s->f;
  for (size_t k = f->start; f->kind == RELAX_CODE && k < f->end; k++) {
    const struct relax_instruction *call = &s->exec->code[k];
    if (call->opcode != RELAX_CALL) continue;
    const struct relax_function *callee = &s->exec->functions[call->target];
    const char *point = strrchr(callee->name, '.');
    if (callee->kind != RELAX_PACKED || (point && strcmp(point, ".reshape") != 0)) continue;
    for (uint32_t i = 0; i < call->count; i++) {
      const uint64_t word = (uint64_t)call->operands[i]; /* that of a register is its number */
      if (word < (uint64_t)f->num_args && !s->arguments[word])
        s->arguments[word] = IS_TENSOR | IS_UNTOLD;
    }
  }
}

/* Read what is said about the arguments of the function. `by_name`: these are tensors of the set. */
static void read_arguments(struct shape_search *s, bool by_name) {
  const struct relax_function *f = s->f;
  struct mb_slice text;
  int64_t i = 0;
  memset(s->arguments, 0, (size_t)f->num_args);
  for (size_t k = 0; k < s->exec->constant_count; k++) {
    const struct relax_constant *constant = &s->exec->constants[k];
    if (constant->kind != RELAX_STRING ||
        !relax_annotation_find(constant->text, f->name, &i, &text) || i >= f->num_args)
      continue;
    const enum relax_annotated kind = relax_annotation_kind(&text);
    if (kind == RELAX_ANNOTATED_TUPLE && !by_name) look_at_tuple(s, i, text);
    if (kind == RELAX_ANNOTATED_OTHER) s->arguments[i] |= DIFFERS;
    if (kind != RELAX_ANNOTATED_TENSOR) continue;
    s->arguments[i] |= IS_TENSOR;
    look_at_tensor(s, i, by_name ? for_input(s->tensors, s->by_name, f, i) : NO_TENSOR, text);
  }
  read_uses(s);
}

static bool may_take(struct shape_search *s) {
  const struct relax_function *f = s->f;
  int64_t tensors = 0;
  bool may = takes_by_name(s->by_name, f, &tensors), has_place = false, fits = false;
  tensors = 0;
  read_arguments(s, false);
  for (int64_t i = f->num_args - 1; i >= 0; i--) {
    const uint8_t found = s->arguments[i];
    const bool is_tuple = (found & IS_TUPLE) != 0;
    if (is_tuple && f->param_count && strstr(f->params[i], "params")) {
      has_place = true;
      fits |= found == IS_TUPLE;
    }
    tensors += (found & IS_TENSOR) != 0;
    may |= found == IS_TUPLE || !found;
  }
  return has_place ? fits : may || (s->count > 0 && tensors >= s->count);
}

/* As many bytes as the longest function has arguments; false when memory is out (recorded). */
static bool make_arguments(struct shape_search *s) {
  size_t most = 1;
  for (size_t i = 0; i < s->exec->function_count; i++) {
    const struct relax_function *f = &s->exec->functions[i];
    if (f->kind == RELAX_PACKED) continue;
    if (f->registers > most) most = f->registers;
    s->compared += s->exec->constant_count * (1 + strlen(f->name) / 64) + f->end - f->start;
  }
  s->arguments = malloc(most);
  return s->arguments || !mb_fail_memory(most);
}

int relax_parameters_check(const struct relax_executable *exec, const struct relax_function *model,
                           const struct mb_tensor *const *tensors, size_t count, int64_t entry,
                           struct mb_map *by_name) {
  int64_t last = 0;
  struct shape_search s = {.exec = exec,
                           .model = model,
                           .tensors = tensors,
                           .by_name = by_name,
                           .count = (int64_t)count};
  for (size_t i = 0; i < count; i++)
    if (!mb_map_put(by_name, tensors[i]->name, (void *)(uintptr_t)&tensors[i]))
      return MBLOB_E_MEMORY;
  if (!make_arguments(&s)) return MBLOB_E_MEMORY;
  bool may = s.compared > COMPARED_AT_MOST;
  for (size_t i = 0; !may && !s.refusing && i < exec->function_count; i++) {
    s.f = &exec->functions[i];
    if (takes_by_name(by_name, s.f, &last)) read_arguments(&s, true);
  }
  const bool differs = s.refusing != NULL;
  if (!differs) (void)snprintf(s.text, sizeof(s.text), "no function takes %zu tensors", count);
  for (size_t i = 0; !may && !differs && i < exec->function_count; i++) {
    s.f = &exec->functions[i];
    if (s.f->kind != RELAX_PACKED && s.f->num_args > 0) may = may_take(&s);
  }
  free(s.arguments);
  if (may) return MBLOB_OK;
  return mb_fail_format("payload", MB_UNKNOWN, entry, "parameters: %s", s.text);
}

int relax_parameters_place(const struct relax_machine *m, const struct relax_function *f,
                           size_t *inputs, enum relax_place *place) {
  const size_t count = m->stored_count;
  int64_t last = 0;
  *inputs = 0;
  *place = RELAX_TUPLE;
  if (!count || f->num_args <= 0 || f->kind == RELAX_PACKED) return MBLOB_OK;
  if (takes_by_name(&m->stored_by_name, f, &last)) {
    *inputs = (size_t)last;
    *place = RELAX_BY_NAME;
    return MBLOB_OK;
  }
  struct shape_search s = {.exec = m->exec, .model = f, .f = f, .count = (int64_t)count};
  if (!make_arguments(&s)) return MBLOB_E_MEMORY;
  read_arguments(&s, false);
  const uint8_t *end = s.arguments + f->num_args;
  size_t tensors = 0; /* that are the last arguments, and checked in front of parameters */
  *inputs = !(end[-1] & ~IS_TUPLE);
  while (tensors < (size_t)f->num_args && end[-1 - (ptrdiff_t)tensors] & IS_TENSOR) tensors++;
  const bool each = tensors > count ? !(end[-1 - (ptrdiff_t)count] & IS_UNTOLD) : tensors == count;
  free(s.arguments);
  if (!each) return MBLOB_OK;
  *inputs = count;
  *place = RELAX_EACH;
  return MBLOB_OK;
}

size_t relax_parameter_named(const struct relax_machine *m, const struct relax_function *f,
                             size_t input) {
  return (size_t)for_input(m->stored, &m->stored_by_name, f, (int64_t)input);
}
