/* Reading the text that describes the arguments of a call. */
#include "core/library/call_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/call/call.h"

#define NDIM_LIMIT 32
#define NESTING_LIMIT 8 /* of tuples */

static const struct mb_word WORDS[] = {
    MB_ARGUMENT_WORDS,
};
enum { WORD_COUNT = sizeof(WORDS) / sizeof(*WORDS) };
static const char EXPECTED[] = MB_ARGUMENT_WORDS_TEXT;

int mb_call_wrong(const mblob_prepared *c, size_t i, const char *what) {
  return mb_fail(MBLOB_E_ARGUMENT, "%s: argument %zu of \"%s\": %s", c->name, i, c->types, what);
}

/* ---- reading the text ------------------------------------------------------------------------ */

/* A word before the bracket, and for arrays the text between the brackets. */
struct call_part {
  const char *word, *dims;
  size_t word_size;
  bool is_array;
};

static const char *skip_spaces(const char *p) {
  while (isspace((unsigned char)*p)) ++p;
  return p;
}

static bool ends_type(const char *p) { return !*p || (p[0] == '-' && p[1] == '>'); }

/* The word at *text, and moves behind it. */
static bool next_part(const char **text, struct call_part *out) {
  const char *p = *text;
  *out = (struct call_part){.word = p};
  while (isalnum((unsigned char)*p) || *p == '_') ++p;
  out->word_size = (size_t)(p - out->word);
  if (*p == '[') {
    out->is_array = true;
    out->dims = ++p;
    while (*p && *p != ']') ++p;
    if (!*p) return false;
    p++;
  }
  *text = p = skip_spaces(p);
  return out->word_size > 0 && (ends_type(p) || *p == ',' || *p == ')');
}

static bool is(const struct call_part *part, const char *word) {
  return strlen(word) == part->word_size && memcmp(part->word, word, part->word_size) == 0;
}

/* Element types that are worth a guess, beside the words above. */
static const char ELEMENTS[][16] = {"int4",          "uint4",      "uint1",       "float16",
                                    "bfloat16",      "complex64",  "float8_e3m4", "float8_e4m3",
                                    "float8_e4m3fn", "float8_e5m2"};
enum { ELEMENT_COUNT = sizeof(ELEMENTS) / sizeof(*ELEMENTS) };

static int wrong_word(const mblob_prepared *c, size_t i, const struct call_part *part) {
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

/* Extents that the text has, up to its bracket. */
static int read_dims(const mblob_prepared *c, struct mb_argument *a, const struct call_part *part) {
  const size_t i = a->number;
  const char *p = skip_spaces(part->dims);
  bool comma = false;
  while (*p != ']' || comma) {
    int64_t extent = 0;
    ptrdiff_t step = 0;
    if (a->tensor.ndim == NDIM_LIMIT) return mb_call_wrong(c, i, "more than 32 dimensions");
    if (*p == '*') {
      a->open |= UINT32_C(1) << a->tensor.ndim;
      ++p;
    } else if (isdigit((unsigned char)*p)) {
      for (; isdigit((unsigned char)*p); ++p) {
        if (__builtin_mul_overflow(extent, 10, &extent) ||
            __builtin_add_overflow(extent, *p - '0', &extent))
          return mb_call_wrong(c, i, "a dimension above 2^63");
      }
      a->step = extent && !__builtin_mul_overflow(a->step, extent, &step) ? step : 0;
    } else {
      return mb_call_wrong(c, i, "a dimension is a number or *");
    }
    p = skip_spaces(p);
    comma = *p == ',';
    if (comma) p = skip_spaces(p + 1);
    if (!comma && *p != ']') return mb_call_wrong(c, i, "dimensions are separated by commas");
    a->tensor.shape[a->tensor.ndim++] = extent;
  }
  return MBLOB_OK;
}

int mb_call_measure(const mblob_prepared *c, struct mb_argument *a) {
  return mb_tensor_size(&a->tensor, &a->size)
             ? mb_call_wrong(c, a->number, "no array has these dimensions")
             : MBLOB_OK;
}

static int read_array(mblob_prepared *c, struct mb_argument *a, const struct call_part *part,
                      int64_t **extents) {
  DLTensor *t = &a->tensor;
  a->passed = is(part, "shape") ? AS_SHAPE : AS_ARRAY;
  t->device = (DLDevice){kDLCPU, 0};
  if (a->passed == AS_ARRAY && !mb_dtype_parse(part->word, part->word_size, &t->dtype))
    return wrong_word(c, a->number, part);
  if (c->is_ffi) t->dtype = mb_dtype_for_ffi(t->dtype);
  a->step = (t->dtype.bits * t->dtype.lanes + 7) / 8;
  t->shape = *extents;
  int status = read_dims(c, a, part);
  if (status) return status;
  *extents += t->ndim;
  const uint32_t alignment = mblob_function_alignment(c->function);
  const size_t needed = alignment ? alignment : (t->dtype.bits + 7u) / 8u;
  a->misaligned = needed ? (needed & -needed) - 1 : 0;
  a->is_plain = a->passed == AS_ARRAY && !a->is_inner;
  return a->open ? MBLOB_OK : mb_call_measure(c, a);
}

/* True if the words of a type are those of unsigned long, or of unsigned long long, in any order. */
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

/* Where a C type ends: the comma behind it, or the end. Functions that it points to, and arguments of templates, have
 * commas, too. */
static const char *end_of_type(const char *p) {
  for (int depth = 0; *p && (*p != ',' || depth); p++)
    depth += (*p == '(' || *p == '<') - (*p == ')' || *p == '>');
  return p;
}

/* The C type of parameter `i`; NULL where the library recorded none. */
static const char *type_of_argument(const mblob_prepared *c, size_t i) {
  const char *p = c->signature;
  while (i-- > 0) {
    p = end_of_type(p);
    if (!*p++) return NULL;
  }
  while (*p == ' ') p++;
  return p;
}

/* What the signature says of the parameter. */
static void read_signature(const mblob_prepared *c, struct mb_argument *a) {
  static const struct {
    char name[MB_C_TYPE_OF_UINT64_SIZE];
    uint8_t bits;
  } types[] = {MB_C_TYPES_OF_UINT64};
  const char *p = a->is_inner ? NULL : type_of_argument(c, a->number);
  if (!p) return;
  const size_t size = (size_t)(end_of_type(p) - p);
  if (memchr(p, '*', size) && strncmp(p, "const ", 6) != 0) a->guarded = c->blob_size;
  a->takes_uint64 = is_unsigned_long(p, p + size);
  for (size_t k = 0; k < sizeof(types) / sizeof(*types); k++)
    if (size == strlen(types[k].name) && strncmp(p, types[k].name, size) == 0)
      a->takes_uint64 = types[k].bits == 64;
}

static int read_word(const mblob_prepared *c, struct mb_argument *a, const struct call_part *part) {
  const struct mb_word *word = WORDS, *end = WORDS + WORD_COUNT;
  while (word < end && !is(part, word->name)) word++;
  if (word == end) return wrong_word(c, a->number, part);
  const bool is_int = word->bits == 8 * sizeof(int) && *word->name == 'i';
  a->word = word;
  a->passed = word->passed;
  a->code = word->code == kTVMArgBool && !c->is_ffi ? kTVMArgInt : word->code;
  a->is_checked = word->passed == AS_INT && !is_int;
  return MBLOB_OK;
}

static int unreadable(const mblob_prepared *c, size_t i, const struct call_part *part,
                      const char *text) {
  return mb_fail(MBLOB_E_ARGUMENT,
                 "%s: argument %zu of \"%s\": cannot be read; expected %s, separated by commas%s",
                 c->name, i, c->types, EXPECTED,
                 part->is_array && !strchr(part->dims, ']') ? "; a ] is missing"
                 : strstr(text, "][")                       ? "; a matrix is float32[3,4]"
                                                            : "");
}

/* One word; moves behind it. */
static int read_text_part(mblob_prepared *c, const char **text, struct mb_argument *a,
                          int64_t **extents) {
  const char *start = *text;
  struct call_part part;
  if (!next_part(text, &part)) return unreadable(c, a->number, &part, start);
  int status = part.is_array ? read_array(c, a, &part, extents) : read_word(c, a, &part);
  if (status) return status;
  read_signature(c, a);
  a->is_checked |= a->takes_uint64;
  return MBLOB_OK;
}

/* The list of the arguments. */
static int read_types(mblob_prepared *c, int64_t *extents) {
  size_t opened[NESTING_LIMIT + 1] = {0}, depth = 0; /* items of each tuple around */
  const struct call_part none = {.word = ""};
  const char *p = skip_spaces(c->types);
  int status = MBLOB_OK;
  bool more = !ends_type(p);
  while (!status && more) {
    struct mb_argument *a = &c->arguments[c->count];
    a->number = opened[0];
    if (*p == '(' && depth < NESTING_LIMIT) {
      opened[++depth] = 0;
      p = skip_spaces(p + 1);
      if (*p != ')') continue;
    } else {
      a->is_inner = depth > 0;
      status = read_text_part(c, &p, a, &extents);
      c->count++;
      opened[depth]++;
    }
    while (!status && *p == ')' && depth) {
      a = &c->arguments[c->count++];
      a->passed = AS_TUPLE;
      a->number = opened[0];
      a->count = opened[depth--];
      opened[depth]++;
      p = skip_spaces(p + 1);
    }
    more = *p == ',';
    if (more) p = skip_spaces(p + 1);
    if (!status && !more && (!ends_type(p) || depth))
      status = unreadable(c, opened[0] - !depth, &none, p);
  }
  c->passed = opened[0];
  if (status || !*p) return status;
  c->has_result = true;
  c->result.number = c->passed;
  c->result.is_inner = true; /* no parameter */
  p = skip_spaces(p + 2);
  status = read_text_part(c, &p, &c->result, &extents);
  if (!status && (*p || c->result.passed == AS_SHAPE)) status = unreadable(c, c->passed, &none, p);
  return status;
}

/* Of a function whose parameters the library recorded. */
static int check_count(const mblob_prepared *c) {
  const char *types = c->signature;
  size_t expected = strcmp(types, "void") != 0;
  for (const char *p = end_of_type(types); *p; p = end_of_type(p + 1)) expected++;
  if (!*types || *types == '?' || expected == c->passed) return MBLOB_OK;
  return mb_fail_argument(MB_ARGUMENT_COUNT, "%s: " MB_TEXT_COUNT ": %s", c->name, "expected",
                          (int)expected, expected == 1 ? "" : "s", "", (int)c->passed, types);
}

/* A place for everything in one piece: no text has more arguments than separators, or more extents
 * than characters. */
static mblob_prepared *new_prepared(const char *name, const char *types, int64_t **extents) {
  const size_t name_size = strlen(name) + 1, types_size = strlen(types) + 1;
  size_t most = 1;
  for (const char *p = types; *p; ++p) most += *p == ',' || *p == '(' || *p == ')';
  const size_t size = sizeof(mblob_prepared) + types_size * sizeof(**extents) +
                      most * (sizeof(struct mb_argument) + sizeof(TVMValue) + sizeof(int)) +
                      name_size + types_size;
  mblob_prepared *c = calloc(1, size);
  if (!c) {
    (void)mb_fail_memory(size);
    return NULL;
  }
  c->arguments = (struct mb_argument *)(void *)(c + 1);
  *extents = (int64_t *)(void *)(c->arguments + most);
  c->values = (TVMValue *)(void *)(*extents + types_size);
  c->codes = (int *)(void *)(c->values + most);
  char *texts = (char *)(c->codes + most);
  c->name = memcpy(texts, name, name_size);
  c->types = memcpy(texts + name_size, types, types_size);
  return c;
}

int mb_call_read(mblob_module *module, mblob_function *function, const char *name,
                 const char *types, mblob_prepared **out) {
  int64_t *extents = NULL;
  mblob_prepared *c = new_prepared(name, types, &extents);
  if (!c) return MBLOB_E_MEMORY;
  c->function = function;
  c->signature = mblob_function_signature(function);
  c->blob = (uintptr_t)module->library->blob;
  c->blob_size = c->blob ? module->library->blob_size : 0;
  c->is_ffi = mblob_function_argument_mode(function) != MBLOB_ARGUMENTS_CLASSIC;
  int status = read_types(c, extents);
  if (!status) status = check_count(c);
  if (status)
    free(c);
  else
    *out = c;
  return status;
}
