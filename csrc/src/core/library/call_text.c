/* mblob_call: a call whose arguments are described by a text, for C programs that want one line. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "core/call/call.h"
#include "core/loaded/loaded.h"

#define NDIM_LIMIT 32

/* One argument: a word before the bracket, and for arrays the text between the brackets. */
struct part {
  const char *word, *dims;
  size_t word_size, dims_size;
  bool is_array;
};

struct call {
  const char *name, *types, *signature; /* `signature`: what the library recorded, "" if nothing */
  const struct mb_library *library;     /* of the module that was asked */
  bool is_ffi;
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
  return !part->is_array && strlen(word) == part->word_size &&
         memcmp(part->word, word, part->word_size) == 0;
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
        if (__builtin_mul_overflow(extent, 10, &extent) ||
            __builtin_add_overflow(extent, *p - '0', &extent))
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

/* The words for one number, and how it arrives: as C passes it where no prototype says its type. */
enum passed { AS_INT, AS_UNSIGNED, AS_INT64, AS_UINT64, AS_DOUBLE, AS_POINTER };

static const struct word {
  char name[MB_ARGUMENT_WORD_SIZE];
  uint8_t passed; /* enum passed */
  int8_t code;    /* type code of the argument */
  uint8_t bits;   /* of an integer, to check its range; 1: a flag */
} WORDS[] = {
    MB_ARGUMENT_WORDS,
};
enum { WORD_COUNT = sizeof(WORDS) / sizeof(*WORDS) };
static const char EXPECTED[] = MB_ARGUMENT_WORDS_TEXT;

/* Element types that are worth a guess, beside the words above. */
static const char ELEMENTS[][16] = {"int4",          "uint4",      "uint1",       "float16",
                                    "bfloat16",      "complex64",  "float8_e3m4", "float8_e4m3",
                                    "float8_e4m3fn", "float8_e5m2"};
enum { ELEMENT_COUNT = sizeof(ELEMENTS) / sizeof(*ELEMENTS) };

static int wrong_word(const struct call *c, size_t i, const struct part *part) {
  struct mb_near near = MB_NEAR(part->word, part->word_size);
  for (size_t k = 0; k < WORD_COUNT + (part->is_array ? ELEMENT_COUNT : 0); k++) {
    const char *word = k < WORD_COUNT ? WORDS[k].name : ELEMENTS[k - WORD_COUNT];
    DLDataType dtype;
    if (!part->is_array || mb_dtype_parse(word, strlen(word), &dtype)) mb_near_offer(&near, word);
  }
  int size = part->word_size > 40 ? 40 : (int)part->word_size;
  return mb_fail(
      MBLOB_E_ARGUMENT, "%s: argument %zu of \"%s\": %s '%.*s'; expected %s%s", c->name, i,
      c->types, part->is_array ? "unknown element type" : "unknown word", size, part->word,
      part->is_array
          ? "one such as float32, float16, bfloat16, int8 to int64, uint8 to uint64, bool, float8_e4m3fn or int8x4"
          : EXPECTED,
      near.text);
}

static int read_array(struct call *c, size_t i, const struct part *part, va_list *args) {
  DLTensor *t = &c->tensors[i];
  t->device = (DLDevice){kDLCPU, 0};
  t->shape = &c->shapes[i * NDIM_LIMIT];
  if (!mb_dtype_parse(part->word, part->word_size, &t->dtype)) return wrong_word(c, i, part);
  if (c->is_ffi) t->dtype = mb_dtype_for_ffi(t->dtype);
  int status = read_dims(c, i, part, args);
  if (status != MBLOB_OK) return status;
  t->data = va_arg(*args, void *);
  if (!t->data && c->sizes[i]) return wrong(c, i, "the pointer is NULL");
  c->values[i].v_handle = t;
  c->codes[i] = kTVMDLTensorHandle;
  return MBLOB_OK;
}

static int out_of_range(const struct call *c, size_t i, const struct word *word, long long value) {
  return mb_fail(MBLOB_E_ARGUMENT, "%s: argument %zu of \"%s\": %lld is no %s", c->name, i,
                 c->types, value, word->name);
}

/* A number narrower than the int that it arrives as. */
static bool fits(const struct word *word, int64_t value) {
  if (word->bits >= 32) return true;
  const int64_t values = INT64_C(1) << word->bits;
  return *word->name == 'i' ? value >= -values / 2 && value < values / 2
                            : value >= 0 && value < values;
}

/* Whether the words of a type are those of unsigned long, or of unsigned long long, in any order. */
static bool is_unsigned_long(const char *p, const char *end) {
  bool is_unsigned = false, is_long = false;
  while (p < end) {
    size_t size = strcspn(p, " ,");
    if (size == 8 && memcmp(p, "unsigned", 8) == 0)
      is_unsigned = true;
    else if (size == 4 && memcmp(p, "long", 4) == 0)
      is_long = true;
    else if (size != 3 || memcmp(p, "int", 3) != 0)
      return false;
    p += size + 1;
  }
  return is_unsigned && is_long;
}

/* The C type of parameter `i`, up to its comma or the end; NULL where the library recorded none. */
static const char *type_of(const struct call *c, size_t i) {
  const char *p = c->signature;
  while (i-- > 0 && p) p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL;
  while (p && *p == ' ') p++;
  return p;
}

/* Whether the signature says that parameter `i` is an integer of 64 bits without a sign. */
static bool takes_uint64(const struct call *c, size_t i) {
  static const struct {
    char name[MB_C_TYPE_OF_UINT64_SIZE];
    uint8_t bits;
  } types[] = {MB_C_TYPES_OF_UINT64};
  const char *p = type_of(c, i);
  if (!p) return false;
  size_t size = strcspn(p, ",");
  for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
    if (size == strlen(types[k].name) && strncmp(p, types[k].name, size) == 0)
      return types[k].bits == 64;
  return is_unsigned_long(p, p + size);
}

/* The packed convention has 64 bits with a sign. A function that is known to take 64 bits
 * without one gets them as they are; to others what is above INT64_MAX would be negative. */
static int read_uint64(struct call *c, size_t i, uint64_t value) {
  c->values[i].v_int64 = (int64_t)value;
  if (value <= INT64_MAX || takes_uint64(c, i)) return MBLOB_OK;
  return mb_fail(
      MBLOB_E_ARGUMENT,
      "%s: argument %zu of \"%s\": %llu is above INT64_MAX, and the library does not say that the function takes a "
      "uint64_t there: it would see a negative number",
      c->name, i, c->types, (unsigned long long)value);
}

static int read_scalar(struct call *c, size_t i, const struct part *part, va_list *args) {
  TVMValue *v = &c->values[i];
  const struct word *word = WORDS, *end = WORDS + WORD_COUNT;
  while (word < end && !is(part, word->name)) word++;
  if (word == end) return wrong_word(c, i, part);
  c->codes[i] = word->code == kTVMArgBool && !c->is_ffi ? kTVMArgInt : word->code;
  switch ((enum passed)word->passed) {
    case AS_INT: v->v_int64 = va_arg(*args, int); break;
    case AS_UNSIGNED: v->v_int64 = va_arg(*args, unsigned); break;
    case AS_INT64: v->v_int64 = va_arg(*args, int64_t); break;
    case AS_UINT64: return read_uint64(c, i, va_arg(*args, uint64_t));
    case AS_DOUBLE: v->v_float64 = va_arg(*args, double); return MBLOB_OK;
    case AS_POINTER:
      v->v_handle = va_arg(*args, void *);
      return v->v_handle || word->code == kTVMOpaqueHandle ? MBLOB_OK
                                                           : wrong(c, i, "the pointer is NULL");
  }
  if (!fits(word, v->v_int64)) return out_of_range(c, i, word, v->v_int64);
  if (v->v_int64 < 0 && takes_uint64(c, i))
    return mb_fail(MBLOB_E_ARGUMENT,
                   "%s: argument %zu of \"%s\": expected 0 or more for a uint64_t, found %lld",
                   c->name, i, c->types, (long long)v->v_int64);
  return MBLOB_OK;
}

/* Weights lie in memory that may not be written: a function that is known to write there would
 * end the process. */
static int check_writable(const struct call *c, size_t i) {
  const DLTensor *t = c->values[i].v_handle;
  if (c->codes[i] != kTVMDLTensorHandle || t->device.device_type != kDLCPU) return MBLOB_OK;
  const uint64_t data = (uintptr_t)t->data + t->byte_offset, blob = (uintptr_t)c->library->blob;
  if (!blob || data < blob || data - blob >= c->library->blob_size) return MBLOB_OK;
  const char *type = type_of(c, i);
  const size_t size = type ? strcspn(type, ",") : 0;
  if (!memchr(type, '*', size) || strncmp(type, "const ", 6) == 0) return MBLOB_OK;
  return wrong(c, i,
               "the function writes there, and the tensor is in the library, which is "
               "read-only; pass memory of your own");
}

static int read_arguments(struct call *c, va_list *args) {
  const char *text = c->types;
  for (size_t i = 0; i < c->count; ++i) {
    struct part part;
    if (!next_part(&text, &part))
      return mb_fail(
          MBLOB_E_ARGUMENT,
          "%s: argument %zu of \"%s\": cannot be read; expected %s, separated by commas%s", c->name,
          i, c->types, EXPECTED,
          part.is_array && !strchr(part.dims, ']') ? "; a ] is missing"
          : strstr(text, "][")                     ? "; a matrix is float32[3,4]"
                                                   : "");
    int status = part.is_array ? read_array(c, i, &part, args) : read_scalar(c, i, &part, args);
    if (status == MBLOB_OK) status = check_writable(c, i);
    if (status != MBLOB_OK) return status;
  }
  return MBLOB_OK;
}

/* Copy data that is less aligned than the kernel needs; the same array is copied once. */
static int align_arrays(struct call *c, uint32_t alignment) {
  for (size_t i = 0; i < c->count; ++i) {
    DLTensor *t = &c->tensors[i];
    size_t needed = alignment ? alignment : (t->dtype.bits + 7u) / 8u;
    if (!t->shape || !needed || (uintptr_t)t->data % needed == 0) continue;
    if (!c->sizes[i]) { /* nobody reads there, but kernels look at the address */
      t->data = (void *)((uintptr_t)t->data - (uintptr_t)t->data % needed);
      continue;
    }
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

/* What the kernel left unchanged is not written: it may be read-only, or overlap another
 * argument. */
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

/* Of a function whose parameters the library recorded. */
static int check_count(const struct call *c) {
  const char *types = c->signature;
  const size_t expected = strcmp(types, "void") == 0 ? 0 : count_arguments(types);
  if (!*types || *types == '?' || expected == c->count) return MBLOB_OK;
  return mb_fail_argument(MB_ARGUMENT_COUNT, "%s: " MB_TEXT_COUNT ": %s", c->name, "expected",
                          (int)expected, expected == 1 ? "" : "s", "", (int)c->count, types);
}

static int run(struct call *c, mblob_function *function, va_list *args) {
  int status = read_arguments(c, args);
  if (status == MBLOB_OK) status = check_count(c);
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
                   .signature = mblob_function_signature(function),
                   .library = module->library,
                   .is_ffi = mblob_function_is_ffi(function) != 0,
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
