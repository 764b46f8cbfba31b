/* relax.run.*: functions of Relax programs that TVM has in Python. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/contrib/contrib.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/contrib/elements.h"

static const DLDevice host = {kDLCPU, 0};
static const DLDataType int64_type = {kDLInt, 64, 1};

static int no_work_memory(size_t count) { return mb_fail_memory(count * sizeof(int64_t)); }

/* ---- unique ---------------------------------------------------------------------------------- */

/* Slices of a tensor along an axis, or its elements. */
struct slices {
  const DLTensor *t;
  size_t count, before, after; /* elements in front of and behind the axis */
  const char *data;
};

static int compare(const struct slices *s, size_t a, size_t b) {
  for (size_t i = 0; i < s->before; i++)
    for (size_t k = 0; k < s->after; k++) {
      const size_t at = i * s->count * s->after + k;
      const struct mb_number x = mb_element_read(s->data, at + a * s->after, s->t->dtype),
                             y = mb_element_read(s->data, at + b * s->after, s->t->dtype);
      if (mb_number_less(x, y)) return -1;
      if (mb_number_less(y, x)) return 1;
    }
  return 0;
}

static bool is_smaller(const void *context, size_t a, size_t b) {
  return compare(context, a, b) < 0;
}

/* The groups of equal slices: rows of as many numbers as there are slices, in one block. */
struct groups {
  size_t *order, *spare; /* slices in order */
  size_t *first, *size;  /* of each group: its first slice, how many */
  size_t *where;         /* of each slice: its group */
  size_t count;
};

#define ROWS 6 /* one more to sort in */

static bool later(const void *context, size_t a, size_t b) {
  const struct groups *g = context;
  return g->first[a] < g->first[b];
}

/* Order groups by their first appearance. */
static void reorder(struct groups *g, size_t slices) {
  mb_stable_sort(g->order, g->spare, g->count, later, g);
  size_t *old = g->spare, *place = g->where + slices;
  for (size_t i = 0; i < g->count; i++) place[g->order[i]] = i;
  for (size_t i = 0; i < slices; i++) g->where[i] = place[g->where[i]];
  memcpy(old, g->first, g->count * sizeof(*old));
  for (size_t i = 0; i < g->count; i++) g->first[i] = old[g->order[i]];
  memcpy(old, g->size, g->count * sizeof(*old));
  for (size_t i = 0; i < g->count; i++) g->size[i] = old[g->order[i]];
}

static int group(const struct slices *s, bool sorted, struct groups *g) {
  size_t *rows = s->count > SIZE_MAX / (2 * ROWS * sizeof(*rows))
                     ? NULL
                     : mb_workspace_alloc(host, ROWS * s->count * sizeof(*rows) + 1);
  if (!rows) return no_work_memory(s->count);
  *g = (struct groups){
      rows, rows + s->count, rows + 2 * s->count, rows + 3 * s->count, rows + 4 * s->count, 0};
  mb_stable_sort(g->order, g->spare, s->count, is_smaller, s);
  for (size_t i = 0; i < s->count; i++) {
    if (!i || compare(s, g->order[i - 1], g->order[i]) != 0) {
      g->first[g->count] = g->order[i];
      g->size[g->count++] = 0;
    }
    g->size[g->count - 1]++;
    g->where[g->order[i]] = g->count - 1;
  }
  if (!sorted) reorder(g, s->count);
  return MBLOB_OK;
}

static int of_numbers(const size_t *numbers, size_t count, DLTensor **out) {
  const int64_t extent = (int64_t)count;
  int status = vm_tensor_new(1, &extent, int64_type, out);
  for (size_t i = 0; !status && i < count; i++) ((int64_t *)(*out)->data)[i] = (int64_t)numbers[i];
  return status;
}

/* The slices that come first in their groups. */
static int of_slices(const struct slices *s, int64_t axis, const struct groups *g, DLTensor **out) {
  int64_t shape[MB_NDIM_LIMIT] = {(int64_t)g->count};
  const size_t size = mb_element_size(s->t->dtype);
  for (int i = 0; axis >= 0 && i < s->t->ndim; i++)
    shape[i] = i == axis ? (int64_t)g->count : s->t->shape[i];
  int status = vm_tensor_new(axis < 0 ? 1 : s->t->ndim, shape, s->t->dtype, out);
  for (size_t i = 0; !status && i < s->before; i++)
    for (size_t k = 0; k < g->count; k++)
      memcpy((char *)(*out)->data + (i * g->count + k) * s->after * size,
             s->data + (i * s->count + g->first[k]) * s->after * size, s->after * size);
  return status;
}

static int return_arrays(struct mb_call *call, DLTensor **arrays, int count) {
  TVMValue values[4];
  int codes[4] = {kTVMNDArrayHandle, kTVMNDArrayHandle, kTVMNDArrayHandle, kTVMNDArrayHandle};
  if (count == 1) {
    mb_call_return_array(call, arrays[0]);
    return MBLOB_OK;
  }
  for (int i = 0; i < count; i++) values[i].v_handle = arrays[i];
  struct mb_call inner = {call->method, values, codes, count, call->result};
  int status = mb_object_make_array(NULL, &inner);
  for (int i = 0; i < count; i++) mb_array_release(arrays[i]);
  return status;
}

static int make_unique(const struct slices *s, int64_t axis, const int64_t flags[4],
                       struct mb_call *call) {
  struct groups g = {.order = NULL};
  DLTensor *made[4] = {NULL};
  int count = 1;
  int status = group(s, flags[0] != 0, &g);
  if (!status) status = of_slices(s, axis, &g, &made[0]);
  const size_t *lists[3] = {g.first, g.where, g.size};
  const size_t sizes[3] = {g.count, s->count, g.count};
  for (int i = 0; !status && i < 3; i++) {
    if (!flags[i + 1]) continue;
    status = of_numbers(lists[i], sizes[i], &made[count]);
    if (!status) count++;
  }
  if (g.order) (void)mb_workspace_free(host, g.order);
  if (!status) return return_arrays(call, made, count);
  for (int i = 0; i < 4; i++)
    if (made[i]) mb_array_release(made[i]);
  return status;
}

/* (tensor, sorted, return_index, return_inverse, return_counts [, axis]), as numpy.unique */
static int unique(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *t = NULL;
  size_t size = 0;
  int64_t flags[4] = {1, 0, 0, 0}, axis = -1;
  int status = mb_call_expect(call, 5, 6);
  if (!status) status = mb_element_tensor(call, 0, &t, &size);
  for (int i = 0; !status && i < 4; i++) status = mb_call_int(call, 1 + i, &flags[i]);
  const bool has_axis = call->count == 6 && call->codes[5] != kTVMNullptr;
  if (!status && has_axis) status = mb_call_int(call, 5, &axis);
  if (!status && !mb_element_is_number(t->dtype))
    status = mb_fail(MBLOB_E_KERNEL, "TypeError: elements of that type cannot be compared");
  if (status) return status;
  struct slices s = {t, size, 1, 1, mb_element_data(t)};
  if (has_axis) {
    if (axis < 0) axis += t->ndim;
    if (axis < 0 || axis >= t->ndim)
      return mb_fail(MBLOB_E_KERNEL, "ValueError: axis is out of bounds for array of dimension %d",
                     (int)t->ndim);
    s.count = (size_t)t->shape[axis];
    for (int i = 0; i < t->ndim; i++)
      if (i != axis) *(i < axis ? &s.before : &s.after) *= (size_t)t->shape[i];
  }
  return make_unique(&s, has_axis ? axis : -1, flags, call);
}

/* ---- nonzero, shapes ------------------------------------------------------------------------- */

static bool is_zero(struct mb_number n) {
  if (n.kind == MB_REAL) return n.u.real == 0;
  return n.u.natural == 0;
}

/* (tensor) -> int64[rank, count]: where it is not 0. */
static int nonzero(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *t = NULL, *out = NULL;
  size_t size = 0, count = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_element_tensor(call, 0, &t, &size);
  if (!status && !mb_element_is_number(t->dtype))
    status = mb_fail(MBLOB_E_KERNEL, "TypeError: elements of that type are no numbers");
  if (status) return status;
  const char *data = mb_element_data(t);
  for (size_t i = 0; i < size; i++) count += !is_zero(mb_element_read(data, i, t->dtype));
  const int64_t one = 1, *shape = t->ndim ? t->shape : &one;
  const int rank = t->ndim ? t->ndim : 1; /* a single number is a row of one */
  const int64_t extents[2] = {rank, (int64_t)count};
  status = vm_tensor_new(2, extents, int64_type, &out);
  if (status) return status;
  int64_t *places = out->data;
  for (size_t i = 0, found = 0; i < size; i++) {
    if (is_zero(mb_element_read(data, i, t->dtype))) continue;
    size_t rest = i;
    for (int k = rank; k-- > 0; rest /= (size_t)shape[k])
      places[(size_t)k * count + found] = (int64_t)(rest % (size_t)shape[k]);
    found++;
  }
  mb_call_return_array(call, out);
  return MBLOB_OK;
}

static const struct mb_object *argument_shape_of(TVMValue value, int code) {
  const struct mb_object *object = code == kTVMObjectHandle ? value.v_handle : NULL;
  return object && mb_handle_is_object(object) && mb_object_type(object) == MB_SHAPE_TYPE ? object
                                                                                          : NULL;
}

/* (shape) -> int64[rank] */
static int shape_to_tensor(void *unused, struct mb_call *call) {
  (void)unused;
  DLTensor *out = NULL;
  int status = mb_call_expect(call, 1, 1);
  const struct mb_object *shape = status ? NULL : argument_shape_of(call->args[0], call->codes[0]);
  if (!status && !shape)
    status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_TYPE, "TypeError: argument 0 is no shape");
  if (status) return status;
  const int64_t count = (int64_t)mb_object_count(shape);
  status = vm_tensor_new(1, &count, int64_type, &out);
  for (int64_t i = 0; !status && i < count; i++)
    ((int64_t *)out->data)[i] = mb_object_item(shape, (size_t)i)->value.v_int64;
  if (!status) mb_call_return_array(call, out);
  return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A real number with as few digits as tell it from others, as numpy writes it. */
static void put_real(char text[48], double value, unsigned bits) {
  const int most = bits == 16 ? 5 : bits == 32 ? 9 : 17;
  for (int digits = 1; digits <= most; digits++) {
    (void)snprintf(text, 48, "%.*g", digits, value);
    const double read = strtod(text, NULL);
    if (bits == 64   ? read == value
        : bits == 32 ? (float)read == (float)value
                     : __gnu_f2h_ieee((float)read) == __gnu_f2h_ieee((float)value))
      break;
  }
  if (!strpbrk(text, ".en")) (void)strcat(text, "."); /* also of inf, nan */
}

static void put_element(char text[48], const char *data, size_t i, DLDataType dtype) {
  const struct mb_number n = mb_element_read(data, i, dtype);
  if (n.kind == MB_REAL)
    put_real(text, n.u.real, dtype.bits);
  else if (dtype.code == kDLUInt && dtype.bits == 1)
    (void)strcpy(text, n.u.natural ? "True" : "False");
  else if (n.kind == MB_WHOLE)
    (void)snprintf(text, 48, "%lld", (long long)n.u.whole);
  else
    (void)snprintf(text, 48, "%llu", (unsigned long long)n.u.natural);
}

/* Characters in front of the point, and behind it, of the widest elements. */
struct widths {
  int left, right;
};

static void measure(const char *text, bool real, struct widths *widest) {
  const char *point = real ? strchr(text, '.') : NULL;
  const int left = (int)(point ? point - text : (ptrdiff_t)strlen(text)),
            right = point ? (int)strlen(point) : 0;
  if (left > widest->left) widest->left = left;
  if (right > widest->right) widest->right = right;
}

static void put_rows(FILE *out, const DLTensor *t, const struct widths *w, int axis, size_t *at) {
  char text[48];
  if (axis == t->ndim) {
    put_element(text, mb_element_data(t), (*at)++, t->dtype);
    const char *point = t->dtype.code == kDLFloat ? strchr(text, '.') : NULL;
    const int left = (int)(point ? point - text : (ptrdiff_t)strlen(text)),
              right = point ? (int)strlen(point) : 0;
    (void)fprintf(out, "%*s%s%*s", t->ndim ? w->left - left : 0, "", text,
                  t->ndim ? w->right - right : 0, "");
    return;
  }
  (void)fputc('[', out);
  for (int64_t i = 0; i < t->shape[axis]; i++) {
    if (i && axis + 1 == t->ndim) (void)fputc(' ', out);
    if (i && axis + 1 < t->ndim)
      (void)fprintf(out, "%.*s%*s", t->ndim - axis - 1,
                    "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", axis + 1,
                    "");
    put_rows(out, t, w, axis + 1, at);
  }
  (void)fputc(']', out);
}

#define SHOWN_LIMIT 1000 /* elements */

static void put_tensor(FILE *out, const DLTensor *t) {
  struct widths widest = {0, 0};
  char text[48], shape[MB_SHAPE_TEXT];
  size_t size = 1, at = 0;
  for (int i = 0; i < t->ndim; i++) size *= (size_t)t->shape[i];
  if (size > SHOWN_LIMIT || t->ndim > 32 || !mb_element_is_number(t->dtype)) {
    (void)fprintf(out, "<%s%s>", mb_dtype_text(t->dtype, text), mb_shape_text(t, shape));
    return;
  }
  for (size_t i = 0; i < size; i++) {
    put_element(text, mb_element_data(t), i, t->dtype);
    measure(text, t->dtype.code == kDLFloat, &widest);
  }
  put_rows(out, t, &widest, 0, &at);
}

static void put_object(FILE *out, const struct mb_object *object);

static void put_scalar(FILE *out, TVMValue value, int code) {
  char text[MB_DTYPE_TEXT];
  switch (code) {
    case kTVMArgInt: (void)fprintf(out, "%lld", (long long)value.v_int64); break;
    case kTVMArgBool: (void)fputs(value.v_int64 ? "True" : "False", out); break;
    case kTVMArgFloat: (void)fprintf(out, "%.17g", value.v_float64); break;
    case kTVMStr: (void)fputs(value.v_str, out); break;
    case kTVMDataType: (void)fputs(mb_dtype_text(value.v_type, text), out); break;
    case kTVMDLTensorHandle:
    case kTVMNDArrayHandle: put_tensor(out, value.v_handle); break;
    case kTVMObjectHandle: put_object(out, value.v_handle); break;
    default: (void)fputs("None", out);
  }
}

static void put_object(FILE *out, const struct mb_object *object) {
  static __thread int depth;
  if (!object || !mb_handle_is_object(object)) return;
  const enum mb_object_type type = mb_object_type(object);
  if (type == MB_STRING_TYPE) {
    const TVMByteArray *bytes = &mb_object_item(object, 0)->bytes;
    (void)fwrite(bytes->data, 1, bytes->size, out);
    return;
  }
  (void)fputc(type == MB_SHAPE_TYPE ? '[' : '(', out);
  depth++;
  for (size_t i = 0; depth < 32 && i < mb_object_count(object); i++) {
    if (i) (void)fputs(", ", out);
    put_scalar(out, mb_object_value(object, i), mb_object_item(object, i)->code);
  }
  depth--;
  (void)fputc(type == MB_SHAPE_TYPE ? ']' : ')', out);
}

/* `format` with the arguments from `first` on in place of {} and {0}; without a format all of
 * them, with `between` between. */
static void put_format(FILE *out, const struct mb_call *call, const char *format, int first,
                       const char *between) {
  int next = first;
  for (int i = first; !*format && i < call->count; i++) {
    if (i > first) (void)fputs(between, out);
    put_scalar(out, call->args[i], call->codes[i]);
  }
  for (const char *p = format; *p; p++) {
    const char *end = *p == '{' ? strchr(p, '}') : NULL;
    if ((*p == '{' && p[1] == '{') || (*p == '}' && p[1] == '}')) {
      (void)fputc(*p++, out);
    } else if (end) {
      const int i = p + 1 == end ? next++ : first + atoi(p + 1);
      if (i >= first && i < call->count) put_scalar(out, call->args[i], call->codes[i]);
      p = end;
    } else {
      (void)fputc(*p, out);
    }
  }
}

/* A String or a text in argument `i`. */
static int format_argument(const struct mb_call *call, int i, const char **out) {
  const struct mb_object *object =
      i < call->count && call->codes[i] == kTVMObjectHandle ? call->args[i].v_handle : NULL;
  if (object && mb_handle_is_object(object) && mb_object_type(object) == MB_STRING_TYPE) {
    *out = mb_object_item(object, 0)->bytes.data;
    return MBLOB_OK;
  }
  return mb_call_text(call, i, out);
}

/* (format, values...) to the standard output */
static int print(void *unused, struct mb_call *call) {
  (void)unused;
  const char *format = NULL;
  int status = format_argument(call, 0, &format);
  if (status) return status;
  put_format(stdout, call, format, 1, " ");
  (void)fputc('\n', stdout);
  (void)fflush(stdout);
  return MBLOB_OK;
}

static int condition_of_call(const struct mb_call *call, bool *out) {
  const int code = call->count ? call->codes[0] : kTVMNullptr;
  *out = false;
  if (code == kTVMArgInt || code == kTVMArgBool) {
    *out = call->args[0].v_int64 != 0;
    return MBLOB_OK;
  }
  DLTensor *t = NULL;
  size_t size = 0;
  int status = mb_element_tensor(call, 0, &t, &size);
  if (status) return status;
  if (size != 1 || t->dtype.code != kDLUInt || t->dtype.bits != 1)
    return mb_fail(MBLOB_E_KERNEL,
                   "ValueError: the condition is no bool, and no tensor of one bool");
  *out = *mb_element_data(t) != 0;
  return MBLOB_OK;
}

/* (condition, format, values...) */
static int assert_op(void *unused, struct mb_call *call) {
  (void)unused;
  const char *format = NULL;
  bool holds = false;
  char *text = NULL;
  size_t size = 0;
  int status = condition_of_call(call, &holds);
  if (!status) status = format_argument(call, 1, &format);
  if (status || holds) return status;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  if (!*format) (void)fputs(call->count > 2 ? "Assertion Failed, " : "Assertion Failed", out);
  put_format(out, call, format, 2, ", ");
  status = fclose(out) || !text ? mb_fail_memory(size)
                                : mb_fail(MBLOB_E_KERNEL, "AssertionError: %s", text);
  free(text);
  return status;
}

const struct mb_method mb_run_functions[] = {{"relax.run.unique", unique},
                                             {"relax.run.nonzero", nonzero},
                                             {"relax.run.shape_to_tensor", shape_to_tensor},
                                             {"relax.run.print", print},
                                             {"relax.run.assert_op", assert_op},
                                             {"", NULL}};
