/* Whether a program takes a set of parameters.
 *
 * Functions check their arguments first, by calls of builtins, and read the items of tuples by others. So
 * code says how many items a tuple has, and their types and shapes. It does not say which function the set
 * is for, and a tuple may be something else. So a set is refused only if functions take tuples, each of
 * these differs from it, and no function has an argument of which code says nothing, or as many tensors as
 * the set, which may be passed one by one. What code does not say is found when the function is called:
 * checks behind a branch, dimensions that have names, and compiled functions.
 *
 * Inputs may have the names of the parameters. Then the function takes each as a tensor of its own, and
 * nothing else fits: code that checks such an input is about the tensor of its name. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/relax/machine.h"
#include "format/format.h"

enum { NONE = -1 };
enum { EQUAL_TO_NUMBER = 0 };                      /* code of match_shape, as in shapes.c */
enum { IS_TUPLE = 1, DIFFERS = 2, IS_TENSOR = 4 }; /* an argument */
enum check { NO_CHECK, COUNT, ITEM, TENSOR, SHAPE };

/* What a register holds: argument NONE: something else. Item NONE: the argument itself. */
struct held {
  int32_t argument, item;
};

struct search {
  const struct relax_executable *exec;
  const struct relax_function *model;     /* may be NULL */
  const struct mb_tensor *const *tensors; /* NULL: only their number matters */
  int64_t count;
  bool by_name;                          /* arguments are the tensors of their names */
  const struct relax_function *f;        /* that is read */
  struct held *held;                     /* by register of `f` */
  uint8_t *arguments;                    /* of `f` */
  const struct relax_function *refusing; /* what `text` is about */
  char text[640];
};

static bool number_at(const struct relax_instruction *in, int64_t i, int64_t *out) {
  if (i >= in->count || relax_operand_kind(in->operands[i]) != RELAX_IMMEDIATE) return false;
  *out = relax_operand_value(in->operands[i]);
  return true;
}

static enum check check_of(const struct relax_function *target) {
  static const char *const names[] = {[COUNT] = "check_tuple_info",
                                      [ITEM] = "tuple_getitem",
                                      [TENSOR] = "check_tensor_info",
                                      [SHAPE] = "match_shape"};
  static const char start[] = "vm.builtin.";
  const size_t size = sizeof(start) - 1;
  if (target->kind != RELAX_PACKED || strncmp(target->name, start, size) != 0) return NO_CHECK;
  for (int i = COUNT; i <= SHAPE; i++)
    if (strcmp(target->name + size, names[i]) == 0) return (enum check)i;
  return NO_CHECK;
}

/* The argument is a tuple of something else. One text is kept: of the model rather than of other
 * functions, and there of its last tuple. */
MB_PRINTF(3, 4)
static void differ(struct search *s, int32_t argument, const char *format, ...) {
  const struct relax_function *f = s->f;
  const bool is_known = (s->arguments[argument] & DIFFERS) != 0;
  s->arguments[argument] |= DIFFERS;
  if (is_known || (s->refusing && f != s->model)) return;
  s->refusing = f;
  int used = snprintf(s->text, sizeof(s->text), "function '%.80s', argument %d %.80s: ", f->name,
                      (int)argument, f->param_count ? f->params[argument] : "");
  va_list values;
  va_start(values, format);
  (void)vsnprintf(s->text + used, sizeof(s->text) - (size_t)used, format, values);
  va_end(values);
}

/* ---- what a call demands --------------------------------------------------------------------- */

/* The result of a call about a tuple. */
static struct held look_at_tuple(struct search *s, int32_t argument, enum check check,
                                 const struct relax_instruction *in) {
  const struct held nothing = {NONE, NONE};
  int64_t number = 0;
  s->arguments[argument] |= IS_TUPLE;
  if (!number_at(in, 1, &number)) return nothing;
  if (check == COUNT && number != s->count)
    differ(s, argument, "expected %lld tensors, found %lld", (long long)number,
           (long long)s->count);
  if (check == COUNT) return nothing;
  if (number >= 0 && number < s->count) return (struct held){argument, (int32_t)number};
  differ(s, argument, "expected at least %lld tensors, found %lld", (long long)number + 1,
         (long long)s->count);
  return nothing;
}

/* What the call accepts instead of the tensor, which it is apart from dimensions that may vary; false:
 * another number of them, in `out->ndim`. */
static bool read_expected(const struct relax_executable *exec, enum check check,
                          const struct relax_instruction *in, DLTensor *out) {
  int64_t rank = NONE, code = 0, number = 0;
  const int32_t found = out->ndim;
  (void)number_at(in, check == SHAPE ? 2 : 1, &rank);
  if (check == TENSOR && in->count == 4 && relax_operand_kind(in->operands[2]) == RELAX_CONSTANT) {
    const struct relax_constant *type = &exec->constants[relax_operand_value(in->operands[2])];
    const bool is_any = type->value.v_type.code == kDLOpaqueHandle && !type->value.v_type.bits;
    if (type->kind == RELAX_DTYPE && !is_any) out->dtype = type->value.v_type;
  }
  if (rank < 0 || rank > MB_NDIM_LIMIT) return true;
  out->ndim = (int32_t)rank;
  for (int32_t i = 0; check == SHAPE && rank == found && i < found; i++)
    if (number_at(in, 3 + 2 * i, &code) && code == EQUAL_TO_NUMBER &&
        number_at(in, 4 + 2 * i, &number))
      out->shape[i] = number;
  return rank == found;
}

static void look_at_tensor(struct search *s, struct held at, enum check check,
                           const struct relax_instruction *in) {
  if (at.item == NONE || s->by_name) s->arguments[at.argument] |= IS_TENSOR;
  if (!s->tensors || at.item < 0 || at.item >= s->count) return;
  const struct mb_tensor *tensor = s->tensors[at.item];
  const DLTensor *found = &tensor->view;
  int64_t shape[MB_NDIM_LIMIT];
  char want[MB_SHAPE_TEXT], have[MB_SHAPE_TEXT];
  DLTensor expected = *found;
  const size_t size = (size_t)found->ndim * sizeof(*shape);
  if (size) memcpy(shape, found->shape, size);
  expected.shape = shape;
  const bool same_rank = read_expected(s->exec, check, in, &expected);
  const bool same_type = relax_same_dtype(expected.dtype, found->dtype);
  if (same_type && same_rank && (!size || memcmp(shape, found->shape, size) == 0)) return;
  if (!same_type)
    differ(s, at.argument, "tensor '%.120s': " MB_TEXT_DTYPE, tensor->name,
           mb_dtype_text(expected.dtype, want), mb_dtype_text(found->dtype, have));
  else if (!same_rank)
    differ(s, at.argument, "tensor '%.120s': expected %d dimensions, found shape %s", tensor->name,
           (int)expected.ndim, mb_shape_text(found, have));
  else
    differ(s, at.argument, "tensor '%.120s': " MB_TEXT_SHAPE, tensor->name,
           mb_shape_text(&expected, want), mb_shape_text(found, have));
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The tensor of a name, NONE if there is none. The search begins at `near`, where it mostly is. */
static int64_t of_name(const struct mb_tensor *const *tensors, int64_t count, const char *name,
                       int64_t near) {
  for (int64_t k = 0; k < count; k++) {
    const int64_t i = (near + k) % count;
    if (strcmp(tensors[i]->name, name) == 0) return i;
  }
  return NONE;
}

/* The tensor that has the name of an input, NONE if there is none. */
static int64_t for_input(const struct mb_tensor *const *tensors, int64_t count,
                         const struct relax_function *f, int64_t input) {
  const int64_t near = count - (f->num_args - input);
  return of_name(tensors, count, f->params[input], near < 0 ? 0 : near);
}

/* Whether inputs of the function have names of tensors; *last: how many of the last ones. */
static bool takes_by_name(const struct mb_tensor *const *tensors, int64_t count,
                          const struct relax_function *f, int64_t *last) {
  bool found = false;
  *last = 0;
  if (f->kind == RELAX_PACKED || f->num_args <= 0 || f->param_count != (size_t)f->num_args)
    return false;
  for (int64_t i = f->num_args - 1; i >= 0; i--) {
    if (for_input(tensors, count, f, i) == NONE) continue;
    found = true;
    if (*last == f->num_args - 1 - i) ++*last;
  }
  return found;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Follow the arguments through the calls that each run of the function makes. */
static void read_calls(struct search *s) {
  const struct relax_function *f = s->f;
  const struct relax_instruction *code = s->exec->code;
  for (size_t r = 0; r < f->registers; r++) {
    const bool is_argument = (int64_t)r < f->num_args;
    const int64_t item =
        is_argument && s->by_name ? for_input(s->tensors, s->count, f, (int64_t)r) : NONE;
    s->held[r] = (struct held){is_argument ? (int32_t)r : NONE, (int32_t)item};
  }
  for (size_t i = f->start; i < f->end && code[i].opcode == RELAX_CALL; i++) {
    const struct relax_instruction *in = &code[i];
    const enum check check = check_of(&s->exec->functions[in->target]);
    struct held at = {NONE, NONE}, made = at;
    if (check && in->count && relax_operand_kind(in->operands[0]) == RELAX_REGISTER &&
        relax_operand_value(in->operands[0]) < RELAX_VOID)
      at = s->held[relax_operand_value(in->operands[0])];
    if (at.argument != NONE && (check == TENSOR || check == SHAPE))
      look_at_tensor(s, at, check, in);
    else if (at.argument != NONE && at.item == NONE)
      made = look_at_tuple(s, at.argument, check, in);
    if (in->other < RELAX_VOID) s->held[in->other] = made;
  }
}

/* Whether the function may take the parameters; *tuples: whether it takes a tuple. */
static bool may_take(struct search *s, bool *tuples) {
  const int64_t count = s->f->num_args;
  int64_t tensors = 0;
  bool may = false;
  memset(s->arguments, 0, (size_t)count);
  read_calls(s);
  for (int64_t i = 0; i < count; i++) {
    tensors += s->arguments[i] == IS_TENSOR;
    *tuples |= (s->arguments[i] & IS_TUPLE) != 0;
    may |= s->arguments[i] == IS_TUPLE || !s->arguments[i];
  }
  return may || (s->count > 0 && tensors >= s->count);
}

static void end_search(const struct search *s) {
  free(s->held);
  free(s->arguments);
}

/* `registers`: as many as a function has that is read. */
static int begin_search(struct search *s, size_t registers) {
  s->held = calloc(registers + 1, sizeof(*s->held));
  s->arguments = calloc(registers + 1, 1);
  if (s->held && s->arguments) return MBLOB_OK;
  end_search(s);
  return mb_fail_memory(registers * sizeof(*s->held));
}

/* Read the functions whose inputs have names of parameters: `s->refusing` is one with another tensor. */
static void read_by_name(struct search *s) {
  int64_t last = 0;
  s->by_name = true;
  for (size_t i = 0; !s->refusing && i < s->exec->function_count; i++) {
    s->f = &s->exec->functions[i];
    if (s->f->kind != RELAX_CODE || !takes_by_name(s->tensors, s->count, s->f, &last)) continue;
    memset(s->arguments, 0, (size_t)s->f->num_args);
    read_calls(s);
  }
  s->by_name = false;
}

int relax_parameters_check(const struct relax_executable *exec, const struct relax_function *model,
                           const struct mb_tensor *const *tensors, size_t count, int64_t entry) {
  size_t registers = 0;
  bool may = false, tuples = false;
  for (size_t i = 0; i < exec->function_count; i++) {
    may |= exec->functions[i].kind == RELAX_COMPILED;
    if (exec->functions[i].registers > registers) registers = exec->functions[i].registers;
  }
  struct search s = {.exec = exec, .model = model, .tensors = tensors, .count = (int64_t)count};
  int status = begin_search(&s, registers);
  if (status) return status;
  read_by_name(&s);
  const bool differs = s.refusing != NULL;
  for (size_t i = 0; !may && !differs && i < exec->function_count; i++) {
    s.f = &exec->functions[i];
    if (s.f->kind == RELAX_CODE && s.f->num_args >= 0) may = may_take(&s, &tuples);
  }
  end_search(&s);
  if (!differs && (may || !tuples)) return MBLOB_OK;
  status = mb_fail_format("payload", MB_UNKNOWN, entry, "parameters: %s", s.text);
  mb_error_hint("replace them: mblob-pack add FILE --params PARAMS --replace");
  return status;
}

int relax_parameters_place(const struct relax_machine *m, const struct relax_function *f,
                           size_t *inputs, enum relax_place *place) {
  const size_t count = mb_object_count(m->params.value.v_handle);
  bool tuples = false, each = true;
  int64_t last = 0;
  *inputs = 0;
  *place = RELAX_TUPLE;
  if (!count || f->num_args <= 0 || f->kind == RELAX_PACKED) return MBLOB_OK;
  if (takes_by_name(m->stored, (int64_t)count, f, &last)) {
    *inputs = (size_t)last;
    *place = RELAX_BY_NAME;
    return MBLOB_OK;
  }
  *inputs = 1;
  if (f->kind != RELAX_CODE || count > (size_t)f->num_args) return MBLOB_OK;
  struct search s = {.exec = m->exec, .model = f, .f = f, .count = (int64_t)count};
  int status = begin_search(&s, f->registers);
  if (status) return status;
  (void)may_take(&s, &tuples);
  for (size_t i = 1; i <= count; i++) each &= s.arguments[f->num_args - (int64_t)i] == IS_TENSOR;
  end_search(&s);
  if (!each) return MBLOB_OK;
  *inputs = count;
  *place = RELAX_EACH;
  return MBLOB_OK;
}

size_t relax_parameter_named(const struct relax_machine *m, const struct relax_function *f,
                             size_t input) {
  const int64_t count = (int64_t)mb_object_count(m->params.value.v_handle);
  return (size_t)for_input(m->stored, count, f, (int64_t)input);
}
