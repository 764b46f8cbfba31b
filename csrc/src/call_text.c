/* mblob_call: a call whose arguments are described by a text, for C programs that want one line. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "argument.h"
#include "dtype.h"
#include "error.h"
#include "workspace.h"

#define NDIM_LIMIT 32

/* One argument: a word before the bracket, and for arrays the text between the brackets. */
struct part {
  const char *word, *dims;
  size_t word_size, dims_size;
  bool is_array;
};

struct call {
  const char *name, *types;
  size_t count;
  TVMValue *values;
  int *codes;
  DLTensor *tensors; /* one per argument, used by arrays */
  int64_t *shapes;   /* NDIM_LIMIT per argument */
  void **originals;  /* where data was copied from, NULL if it is used in place */
  size_t *sizes;     /* bytes of each array */
};

static int wrong(const struct call *c, size_t i, const char *what) {
  return mb_fail(MBLOB_E_ARGUMENT, "%s: argument %zu of \"%s\": %s", c->name, i, c->types, what);
}

/* The argument at *text; moves behind its comma. */
static bool next_part(const char **text, struct part *out) {
  const char *p = *text;
  while (isspace((unsigned char)*p)) ++p;
  *out = (struct part){.word = p};
  while (isalnum((unsigned char)*p) || *p == '_') ++p;
  out->word_size = (size_t)(p - out->word);
  if (*p == '[') {
    out->is_array = true;
    out->dims = ++p;
    while (*p && *p != ']') ++p;
    if (!*p) return false;
    out->dims_size = (size_t)(p++ - out->dims);
  }
  while (isspace((unsigned char)*p)) ++p;
  if (*p && *p != ',') return false;
  *text = *p ? p + 1 : p;
  return out->word_size > 0;
}

static bool is(const struct part *part, const char *word) {
  return !part->is_array && strlen(word) == part->word_size && memcmp(part->word, word, part->word_size) == 0;
}

/* Fill shape and bytes of array `i`; `*` takes its extent from the arguments. */
static int read_dims(struct call *c, size_t i, const struct part *part, va_list *args) {
  DLTensor *t = &c->tensors[i];
  const char *p = part->dims, *end = p + part->dims_size;
  uint64_t size = ((uint64_t)t->dtype.lanes * t->dtype.bits + 7) / 8; /* of an element */
  bool comma = false;
  for (; p < end && isspace((unsigned char)*p); ++p) {
  }
  while (p < end || comma) {
    int64_t extent = 0;
    if (t->ndim == NDIM_LIMIT) return wrong(c, i, "more than 32 dimensions");
    if (p < end && *p == '*') {
      extent = va_arg(*args, int64_t);
      ++p;
    } else if (p < end && isdigit((unsigned char)*p)) {
      for (; p < end && isdigit((unsigned char)*p); ++p) {
        if (__builtin_mul_overflow(extent, 10, &extent) || __builtin_add_overflow(extent, *p - '0', &extent))
          return wrong(c, i, "a dimension above 2^63");
      }
    } else {
      return wrong(c, i, "a dimension is a number or *");
    }
    for (; p < end && isspace((unsigned char)*p); ++p) {
    }
    comma = p < end && *p == ',';
    if (comma) ++p;
    for (; p < end && isspace((unsigned char)*p); ++p) {
    }
    if (!comma && p < end) return wrong(c, i, "dimensions are separated by commas");
    if (extent < 0 || __builtin_mul_overflow(size, (uint64_t)extent, &size) || size > PTRDIFF_MAX)
      return wrong(c, i, "no array has these dimensions");
    t->shape[t->ndim++] = extent;
  }
  c->sizes[i] = (size_t)size;
  return MBLOB_OK;
}

static int read_array(struct call *c, size_t i, const struct part *part, va_list *args) {
  DLTensor *t = &c->tensors[i];
  t->device = (DLDevice){kDLCPU, 0};
  t->shape = &c->shapes[i * NDIM_LIMIT];
  if (!mb_dtype_parse(part->word, part->word_size, &t->dtype)) return wrong(c, i, "unknown element type");
  int status = read_dims(c, i, part, args);
  if (status != MBLOB_OK) return status;
  t->data = va_arg(*args, void *);
  if (!t->data && c->sizes[i]) return wrong(c, i, "the pointer is NULL");
  c->values[i].v_handle = t;
  c->codes[i] = kTVMDLTensorHandle;
  return MBLOB_OK;
}

static int read_scalar(struct call *c, size_t i, const struct part *part, va_list *args) {
  TVMValue *v = &c->values[i];
  if (is(part, "int") || is(part, "int64")) {
    c->codes[i] = kTVMArgInt;
    v->v_int64 = va_arg(*args, int64_t);
  } else if (is(part, "float64") || is(part, "double")) {
    c->codes[i] = kTVMArgFloat;
    v->v_float64 = va_arg(*args, double);
  } else if (is(part, "str") || is(part, "handle") || is(part, "tensor")) {
    v->v_handle = va_arg(*args, void *);
    c->codes[i] = is(part, "str") ? kTVMStr : is(part, "tensor") ? kTVMDLTensorHandle : kTVMOpaqueHandle;
    if (!v->v_handle && c->codes[i] != kTVMOpaqueHandle) return wrong(c, i, "the pointer is NULL");
  } else {
    return wrong(c, i, "expected int, double, str, handle, tensor, or DTYPE[dimensions]");
  }
  return MBLOB_OK;
}

static int read_arguments(struct call *c, va_list *args) {
  const char *text = c->types;
  for (size_t i = 0; i < c->count; ++i) {
    struct part part;
    if (!next_part(&text, &part)) return wrong(c, i, "cannot be read");
    int status = part.is_array ? read_array(c, i, &part, args) : read_scalar(c, i, &part, args);
    if (status != MBLOB_OK) return status;
  }
  return MBLOB_OK;
}

/* Copy data that is less aligned than the kernel needs; the same array is copied once. */
static int align_arrays(struct call *c, uint32_t alignment) {
  for (size_t i = 0; i < c->count; ++i) {
    DLTensor *t = &c->tensors[i];
    size_t needed = alignment ? alignment : (t->dtype.bits + 7u) / 8u;
    if (!t->shape || !c->sizes[i] || !needed || (uintptr_t)t->data % needed == 0) continue;
    void *original = t->data, *copy = NULL;
    for (size_t k = 0; k < i && !copy; ++k) {
      if (c->originals[k] == original && c->sizes[k] == c->sizes[i]) copy = c->tensors[k].data;
    }
    if (copy) { /* written back with the first one */
      t->data = copy;
      continue;
    }
    size_t place = needed > MB_TENSOR_ALIGNMENT ? needed : MB_TENSOR_ALIGNMENT;
    size_t room = (c->sizes[i] + place - 1) / place * place;
    copy = aligned_alloc(place, room);
    if (!copy) return mb_fail_memory(room);
    t->data = memcpy(copy, original, c->sizes[i]);
    c->originals[i] = original;
  }
  return MBLOB_OK;
}

/* What the kernel left unchanged is not written: it may be read-only, or overlap another argument. */
static void write_back(struct call *c) {
  for (size_t i = 0; i < c->count; ++i) {
    if (c->originals[i] && memcmp(c->originals[i], c->tensors[i].data, c->sizes[i]) != 0)
      memcpy(c->originals[i], c->tensors[i].data, c->sizes[i]);
  }
}

static size_t count_arguments(const char *types) {
  size_t count = 0, depth = 0;
  for (const char *p = types; *p; ++p) {
    if (!count && !isspace((unsigned char)*p)) count = 1;
    if (*p == '[') ++depth;
    if (*p == ']' && depth) --depth;
    if (*p == ',' && !depth) ++count;
  }
  return count;
}

static int run(struct call *c, mblob_function *function, va_list *args) {
  int status = read_arguments(c, args);
  if (status == MBLOB_OK) status = align_arrays(c, mblob_function_alignment(function));
  if (status != MBLOB_OK) return status;
  status = mblob_function_call(function, c->values, c->codes, (int)c->count, NULL, NULL);
  if (status == MBLOB_OK) write_back(c);
  return status;
}

int mblob_call(mblob_module *module, const char *name, const char *types, ...) {
  mblob_function *function;
  if (MB_NO_MODULE(module) || MB_IS_NULL(name) || MB_IS_NULL(types)) return MBLOB_E_ARGUMENT;
  int status = mblob_module_function(module, name, 1, &function);
  if (status != MBLOB_OK) return status;
  size_t n = count_arguments(types), room = n ? n : 1;
  struct call c = {.name = name,
                   .types = types,
                   .count = n,
                   .values = calloc(room, sizeof(*c.values)),
                   .codes = calloc(room, sizeof(*c.codes)),
                   .tensors = calloc(room, sizeof(*c.tensors)),
                   .shapes = calloc(room, NDIM_LIMIT * sizeof(*c.shapes)),
                   .originals = calloc(room, sizeof(*c.originals)),
                   .sizes = calloc(room, sizeof(*c.sizes))};
  if (!c.values || !c.codes || !c.tensors || !c.shapes || !c.originals || !c.sizes) {
    status = mb_fail_memory(room * sizeof(*c.tensors));
  } else {
    va_list args;
    va_start(args, types);
    status = run(&c, function, &args);
    va_end(args);
  }
  for (size_t i = 0; c.originals && i < n; ++i) {
    if (c.originals[i]) free(c.tensors[i].data);
  }
  free(c.values);
  free(c.codes);
  free(c.tensors);
  free(c.shapes);
  free(c.originals);
  free(c.sizes);
  mblob_function_release(function);
  return status;
}
