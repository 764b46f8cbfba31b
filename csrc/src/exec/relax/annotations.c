/* Texts that TVM puts into programs for the errors of checks. They name the types of arguments, also those
 * of compiled functions, whose checks are machine code:
 *
 *   ErrorContext(fn=main, loc=param[1], param=w, annotation=T.Tuple(R.Tensor((n, 3), dtype="int8"), R.Any)) */
#define _GNU_SOURCE
#include <string.h>

#include "exec/relax/annotations.h"

enum { DIGITS = 18 }; /* of a number that fits in an int64_t */

bool relax_same_dtype(DLDataType a, DLDataType b) {
  a = mb_dtype_for_ffi(a);
  b = mb_dtype_for_ffi(b);
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static struct mb_slice behind_text(struct mb_slice text, uint64_t size) {
  return (struct mb_slice){text.data + size, text.size - size};
}

/* Pass over `word`, if the text starts with it. */
static bool skip(struct mb_slice *text, const char *word) {
  const size_t size = strlen(word);
  if (text->size < size || memcmp(text->data, word, size) != 0) return false;
  *text = behind_text(*text, size);
  return true;
}

/* Pass over digits; false if there are none, or too many. */
static bool skip_number(struct mb_slice *text, int64_t *out) {
  size_t i = 0;
  *out = 0;
  for (; i < text->size && i <= DIGITS && text->data[i] >= '0' && text->data[i] <= '9'; i++)
    if (i < DIGITS) *out = *out * 10 + text->data[i] - '0';
  *text = behind_text(*text, i);
  return i && i <= DIGITS;
}

bool relax_annotation_find(struct mb_slice text, const char *function, int64_t *argument,
                           struct mb_slice *out) {
  static const char mark[] = ", annotation=";
  if (!skip(&text, "ErrorContext(fn=") || !skip(&text, function) || !skip(&text, ", loc=param[") ||
      !skip_number(&text, argument) || !skip(&text, "], param="))
    return false;
  const uint8_t *found = memmem(text.data, (size_t)text.size, mark, sizeof(mark) - 1);
  if (!found) return false;
  *out = behind_text(text, (uint64_t)(found - text.data) + sizeof(mark) - 1);
  return true;
}

bool relax_annotation_next(struct mb_slice *list, struct mb_slice *item) {
  int depth = 0;
  uint64_t i = 0;
  while (list->size && (*list->data == ' ' || *list->data == '\n')) *list = behind_text(*list, 1);
  for (; i < list->size && depth >= 0; i++) {
    const char c = (char)list->data[i];
    if (c == ',' && !depth) break;
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
  }
  if (depth < 0) i--; /* the parenthesis that ends the list */
  *item = (struct mb_slice){list->data, i};
  const bool more = i < list->size && list->data[i] == ',';
  *list = more ? behind_text(*list, i + 1) : (struct mb_slice){list->data, 0};
  return item->size > 0;
}

/* A kind without brackets says no more. */
static bool skip_kind(struct mb_slice *text, const char *kind) {
  if (!skip(text, kind)) return false;
  if (!skip(text, "(")) text->size = 0;
  return true;
}

enum relax_annotated relax_annotation_kind(struct mb_slice *text) {
  if (skip_kind(text, "R.Tensor")) return RELAX_ANNOTATED_TENSOR;
  if (skip_kind(text, "T.Tuple") || skip_kind(text, "R.Tuple")) return RELAX_ANNOTATED_TUPLE;
  if (skip(text, "R.Any") || skip(text, "R.Object")) return RELAX_ANNOTATED_NOTHING;
  return RELAX_ANNOTATED_OTHER;
}

/* `32` or `T.int64(32)`; NONE for an expression. */
static int64_t extent_of(struct mb_slice text) {
  int64_t number = 0;
  const bool typed = skip(&text, "T.int64(");
  if (!skip_number(&text, &number) || (typed && !skip(&text, ")")) || text.size) return RELAX_ANY;
  return number;
}

void relax_annotation_tensor(struct mb_slice text, struct relax_expected *out) {
  struct mb_slice part, dim;
  *out = (struct relax_expected){.rank = RELAX_ANY};
  while (relax_annotation_next(&text, &part)) {
    if (skip(&part, "(")) {
      for (out->rank = 0; relax_annotation_next(&part, &dim); out->rank++)
        if (out->rank < MB_NDIM_LIMIT) out->shape[out->rank] = extent_of(dim);
    } else if (skip(&part, "dtype=\"") && part.size) {
      out->has_type = mb_dtype_parse((const char *)part.data, (size_t)part.size - 1, &out->dtype);
    } else if (skip(&part, "ndim=") && skip_number(&part, &out->rank)) {
      for (int i = 0; i < MB_NDIM_LIMIT; i++) out->shape[i] = RELAX_ANY;
    }
  }
}
