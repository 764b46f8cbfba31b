/* tvm.contrib.sort.*: what kernels of sort, argsort and topk call. */
#include <stdint.h>
#include <string.h>

#include "core/device/device.h"
#include "exec/contrib/contrib.h"
#include "exec/contrib/elements.h"

/* Lines of a tensor along an axis. */
struct lines {
  const DLTensor *t;
  size_t before, length, after; /* elements */
  bool ascending;
  const char *data;
  size_t offset; /* of the line at hand */
  size_t *positions, *spare;
};

static bool comes_before(const void *context, size_t a, size_t b) {
  const struct lines *lines = context;
  const struct mb_number x = mb_element_read(lines->data, lines->offset + a * lines->after,
                                             lines->t->dtype),
                         y = mb_element_read(lines->data, lines->offset + b * lines->after,
                                             lines->t->dtype);
  return lines->ascending ? mb_number_less(x, y) : mb_number_less(y, x);
}

static int unsupported(const char *what, DLDataType dtype) {
  char text[MB_DTYPE_TEXT];
  return mb_fail(MBLOB_E_KERNEL, "InternalError: Unsupported %s dtype: %s", what,
                 mb_dtype_text(dtype, text));
}

static bool is_key(DLDataType dtype) {
  return dtype.code != kDLBool && mb_element_is_number(dtype) &&
         (dtype.code == kDLFloat || dtype.bits == 32 || dtype.bits == 64 || dtype.bits == 8);
}

/* Bytes of positions and spare. */
static size_t places_of(const struct lines *lines) {
  return 2 * (lines->length + 1) * sizeof(*lines->positions);
}

static int begin_sort(const struct mb_call *call, int64_t axis, bool ascending, struct lines *out) {
  DLTensor *t = NULL;
  size_t size = 0;
  *out = (struct lines){.before = 1, .after = 1, .ascending = ascending};
  int status = mb_element_tensor(call, 0, &t, &size);
  if (status) return status;
  if (!is_key(t->dtype)) return unsupported("input", t->dtype);
  if (axis < 0) axis += t->ndim;
  if (axis < 0 || axis >= t->ndim)
    return mb_fail(MBLOB_E_KERNEL, "InternalError: Axis out of boundary for input ndim %d",
                   (int)t->ndim);
  for (int i = 0; i < t->ndim; i++)
    *(i < axis ? &out->before : &out->after) *= i == axis ? 1 : (size_t)t->shape[i];
  out->t = t;
  out->data = mb_element_data(t);
  out->length = (size_t)t->shape[axis];
  if (out->length > SIZE_MAX / 32) return mb_fail_memory(out->length);
  out->positions = mb_workspace_alloc((DLDevice){kDLCPU, 0}, places_of(out));
  if (!out->positions) return mb_fail_memory(places_of(out));
  out->spare = out->positions + out->length;
  return MBLOB_OK;
}

static void end_sort(struct lines *lines) {
  if (lines->positions) (void)mb_workspace_free((DLDevice){kDLCPU, 0}, lines->positions);
}

static void sort_line(struct lines *lines, size_t line, size_t count) {
  lines->offset = line / lines->after * lines->length * lines->after + line % lines->after;
  mb_stable_sort(lines->positions, lines->spare, count, comes_before, lines);
}

/* ---- results --------------------------------------------------------------------------------- */

/* A tensor that gets `count` elements a line. */
static int output(const struct mb_call *call, int i, const struct lines *lines, size_t count,
                  DLTensor **out) {
  size_t size = 0;
  int status = mb_element_tensor(call, i, out, &size);
  if (!status && size / (count ? count : 1) < lines->before * lines->after && count)
    status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_VALUE,
                           "InternalError: argument %d: the output is too small", i);
  return status;
}

static int index_output(const struct mb_call *call, int i, const struct lines *lines, size_t count,
                        DLTensor **out) {
  int status = output(call, i, lines, count, out);
  if (status) return status;
  const DLDataType dtype = (*out)->dtype;
  const bool fits = (dtype.code == kDLInt || dtype.code == kDLFloat) && dtype.lanes == 1 &&
                    (dtype.bits == 32 || dtype.bits == 64);
  return fits ? MBLOB_OK : unsupported("output", dtype);
}

static int value_output(const struct mb_call *call, int i, const struct lines *lines, size_t count,
                        DLTensor **out) {
  int status = output(call, i, lines, count, out);
  if (status) return status;
  const DLDataType dtype = (*out)->dtype, own = lines->t->dtype;
  return dtype.code == own.code && dtype.bits == own.bits && dtype.lanes == 1
             ? MBLOB_OK
             : unsupported("output", dtype);
}

static void put_index(const DLTensor *out, size_t at, size_t index) {
  char *data = mb_element_data(out);
  const bool is_real = out->dtype.code == kDLFloat;
  if (out->dtype.bits == 32) {
    const int32_t whole = (int32_t)index;
    const float real = (float)index;
    memcpy(data + 4 * at, is_real ? (const void *)&real : (const void *)&whole, 4);
  } else {
    const int64_t whole = (int64_t)index;
    const double real = (double)index;
    memcpy(data + 8 * at, is_real ? (const void *)&real : (const void *)&whole, 8);
  }
}

/* Where element `k` of a line goes, of `count` elements each. */
static size_t place_in_line(const struct lines *lines, size_t line, size_t count, size_t k) {
  return line / lines->after * count * lines->after + line % lines->after + k * lines->after;
}

static void put_sorted(const struct lines *lines, const DLTensor *out, size_t at, size_t position) {
  const size_t size = mb_element_size(lines->t->dtype);
  memcpy(mb_element_data(out) + at * size,
         lines->data + (lines->offset + position * lines->after) * size, size);
}

/* All lines, or `count` elements of each; either output may be NULL. */
static void sort_all(struct lines *lines, size_t count, const DLTensor *values,
                     const DLTensor *indices) {
  for (size_t line = 0; count && line < lines->before * lines->after; line++) {
    sort_line(lines, line, lines->length);
    for (size_t k = 0; k < count; k++) {
      const size_t at = place_in_line(lines, line, count, k);
      if (values) put_sorted(lines, values, at, lines->positions[k]);
      if (indices) put_index(indices, at, lines->positions[k]);
    }
  }
}

/* ---- the functions --------------------------------------------------------------------------- */

/* (data, out, axis, ascending) */
static int sort_or_argsort(const struct mb_call *call, bool gives_values) {
  int64_t axis = 0, ascending = 0;
  struct lines lines = {.positions = NULL};
  DLTensor *out = NULL;
  int status = mb_call_expect(call, 4, 4);
  if (!status) status = mb_call_int(call, 2, &axis);
  if (!status) status = mb_call_int(call, 3, &ascending);
  if (!status) status = begin_sort(call, axis, ascending != 0, &lines);
  if (!status)
    status = gives_values ? value_output(call, 1, &lines, lines.length, &out)
                          : index_output(call, 1, &lines, lines.length, &out);
  if (!status) sort_all(&lines, lines.length, gives_values ? out : NULL, gives_values ? NULL : out);
  end_sort(&lines);
  return status;
}

static int sort(void *unused, struct mb_call *call) {
  (void)unused;
  return sort_or_argsort(call, true);
}

static int argsort(void *unused, struct mb_call *call) {
  (void)unused;
  return sort_or_argsort(call, false);
}

static bool is_text_argument(const struct mb_call *call, int i, const char *text) {
  const char *found = NULL;
  return !mb_call_text(call, i, &found) && strcmp(found, text) == 0;
}

/* (data, values and/or indices, k, axis, "both" | "values" | "indices", ascending) */
static int topk(void *unused, struct mb_call *call) {
  (void)unused;
  const int n = call->count;
  int64_t k = 0, axis = 0, ascending = 0;
  struct lines lines = {.positions = NULL};
  DLTensor *values = NULL, *indices = NULL;
  int status = mb_call_expect(call, 6, 7);
  if (!status) status = mb_call_int(call, n - 4, &k);
  if (!status) status = mb_call_int(call, n - 3, &axis);
  if (!status) status = mb_call_int(call, n - 1, &ascending);
  const char *kind = NULL;
  if (!status) status = mb_call_text(call, n - 2, &kind);
  if (status) return status;
  const bool both = is_text_argument(call, n - 2, "both");
  if (n != (both ? 7 : 6) || (!both && strcmp(kind, "values") != 0 && strcmp(kind, "indices") != 0))
    return mb_fail(MBLOB_E_KERNEL, "InternalError: topk gives \"%s\" with %d arguments", kind, n);
  status = begin_sort(call, axis, ascending != 0, &lines);
  const size_t count = k < 1 || (uint64_t)k > lines.length ? lines.length : (size_t)k;
  if (!status && strcmp(kind, "indices") != 0)
    status = value_output(call, 1, &lines, count, &values);
  if (!status && strcmp(kind, "values") != 0)
    status = index_output(call, both ? 2 : 1, &lines, count, &indices);
  if (!status) sort_all(&lines, count, values, indices);
  end_sort(&lines);
  return status;
}

/* (data, how many elements of each line count, out, axis, ascending) */
static int argsort_nms(void *unused, struct mb_call *call) {
  (void)unused;
  int64_t axis = 0, ascending = 0;
  struct lines lines = {.positions = NULL};
  DLTensor *counts = NULL, *out = NULL;
  size_t count_size = 0;
  int status = mb_call_expect(call, 5, 5);
  if (!status) status = mb_call_int(call, 3, &axis);
  if (!status) status = mb_call_int(call, 4, &ascending);
  if (!status) status = begin_sort(call, axis, ascending != 0, &lines);
  if (!status) status = mb_element_tensor(call, 1, &counts, &count_size);
  if (!status && (counts->dtype.code != kDLInt || counts->dtype.bits != 32 ||
                  count_size < lines.before * lines.after))
    status = mb_fail_coded(MBLOB_E_KERNEL, MB_ARGUMENT_DTYPE,
                           "InternalError: argument 1: expected an int32 for each line");
  if (!status) status = index_output(call, 2, &lines, lines.length, &out);
  for (size_t line = 0; !status && lines.length && line < lines.before * lines.after; line++) {
    const int64_t found = mb_element_read(mb_element_data(counts), line, counts->dtype).u.whole;
    const size_t used = found < 0                        ? 0
                        : (uint64_t)found > lines.length ? lines.length
                                                         : (size_t)found;
    sort_line(&lines, line, used);
    for (size_t k = 0; k < lines.length; k++)
      put_index(out, place_in_line(&lines, line, lines.length, k),
                k < used ? lines.positions[k] : k);
  }
  end_sort(&lines);
  return status;
}

const struct mb_method mb_sort_functions[] = {{"tvm.contrib.sort.argsort", argsort},
                                              {"tvm.contrib.sort.argsort_nms", argsort_nms},
                                              {"tvm.contrib.sort.sort", sort},
                                              {"tvm.contrib.sort.topk", topk},
                                              {"", NULL}};
