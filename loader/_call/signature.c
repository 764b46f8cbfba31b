/* signature.c - read the C argument types that a library recorded for a function ("const float
 * *, int64_t").
 *
 * Only what can be told for sure becomes a check; everything else is PARAM_ANY and left to the
 * function. */
#include "call.h"

#include <string.h>

typedef struct named_type {
  const char *name;
  uint8_t code, bits;
} named_type;

/* Those of libraries last: their bits are those of this process's C library. */
static const named_type types[] = {MB_C_TYPES, MB_C_TYPES_OF_LIBRARIES};
enum { SAME_EVERYWHERE = sizeof((const named_type[]){MB_C_TYPES}) / sizeof(named_type) };

/* What is larger is no struct, and no alignment; as of mblob/format/functions_table.py. */
enum { LARGEST_STRUCT = 1 << 30, LARGEST_ALIGNMENT = 4096 };

/* Words of one parameter, counted. */
typedef struct words {
  int long_, short_, unsigned_, signed_, int_, char_, complex_, unknown;
  const named_type *named;
} words;

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void add_word(words *w, const char *at, size_t size) {
#define IS(text) (size == sizeof(text) - 1 && memcmp(at, text, size) == 0)
  if (IS("restrict") || IS("__restrict") || IS("__restrict__") || IS("volatile") || IS("const") ||
      IS("struct"))
    return;
  if (IS("long"))
    ++w->long_;
  else if (IS("short"))
    ++w->short_;
  else if (IS("unsigned"))
    ++w->unsigned_;
  else if (IS("signed"))
    ++w->signed_;
  else if (IS("int"))
    ++w->int_;
  else if (IS("char"))
    ++w->char_;
  else if (IS("_Complex"))
    ++w->complex_;
  else {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
      if (strlen(types[i].name) == size && memcmp(types[i].name, at, size) == 0) {
        if (w->named == NULL && !w->unknown) w->named = &types[i];
        return;
      }
    }
    /* A parameter's own name may follow its type; before the type it is a type nobody knows. */
    if (w->named == NULL && !w->long_ && !w->short_ && !w->unsigned_ && !w->signed_ && !w->int_ &&
        !w->char_)
      ++w->unknown;
  }
#undef IS
}

static DLDataType base_type(const words *w) {
  DLDataType none = {0, 0, 1};
  if (w->char_ && w->signed_) return (DLDataType){kDLInt, 8, 1};
  if (w->char_ && w->unsigned_) return (DLDataType){kDLUInt, 8, 1};
  if (w->unknown || w->char_) return none; /* char data may be text, int8 or uint8 */
  if (w->named != NULL) {
    if (w->long_ || w->short_ || w->unsigned_ || w->signed_) return none; /* long double */
    DLDataType dtype = {w->named->code, w->named->bits, 1};
    if (w->complex_) { /* two of these */
      if (dtype.code != kDLFloat) return none;
      dtype.code = kDLComplex;
      dtype.bits = (uint8_t)(2 * dtype.bits);
    }
    return dtype;
  }
  if (!w->long_ && !w->short_ && !w->unsigned_ && !w->signed_ && !w->int_) return none;
  size_t size = w->long_ > 1 ? sizeof(long long)
                : w->long_   ? sizeof(long)
                : w->short_  ? sizeof(short)
                             : sizeof(int);
  DLDataType dtype = {w->unsigned_ ? kDLUInt : kDLInt, (uint8_t)(size * 8), 1};
  return dtype;
}

/* A number up to `largest`, and moves behind it; 0 of what is none. */
static size_t read_number(const char **at, const char *end, size_t largest) {
  size_t number = 0;
  for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
    if (number <= largest) number = 10 * number + (size_t)(**at - '0');
  return number <= largest ? number : 0;
}

static bool is_word_of_ours(const char *at, const char *end, const char *word) {
  return (size_t)(end - at) == strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* Words of ours about a pointer: of columns, of characters, of texts of Fortran, ":SIZE" or ":SIZE:ALIGNMENT". Others
 * say nothing. */
static void read_words(const char *at, const char *end, call_parameter *p) {
  while (end > at && end[-1] == ' ') --end;
  p->columns = is_word_of_ours(at, end, MB_WORD_COLUMNS);
  p->padded = is_word_of_ours(at, end, MB_WORD_TEXT);
  p->chars = p->padded || is_word_of_ours(at, end, MB_WORD_CHARS);
  ++at;
  const size_t size = read_number(&at, end, LARGEST_STRUCT);
  size_t alignment = 1;
  if (at < end && *at == ':') {
    ++at;
    alignment = read_number(&at, end, LARGEST_ALIGNMENT);
  }
  if (at != end || alignment == 0 || (alignment & (alignment - 1)) != 0) return;
  p->size = size;
  p->alignment = size != 0 ? alignment : 1;
}

static call_parameter parse_one(const char *at, const char *end) {
  call_parameter p = {.kind = PARAM_ANY, .alignment = 1, .dtype = {0, 0, 1}, .pointed = {0, 0, 1}};
  words w = {0, 0, 0, 0, 0, 0, 0, 0, NULL};
  while (at < end && *at == ' ') ++at;
  p.text = at;
  p.text_size = (size_t)(end - at);
  int stars = 0, of_function = 0; /* int (*)(float) has one, int (**)(float) two */
  bool is_const = false;
  while (at < end) {
    if (*at == '(') { /* pointers to arrays have their dimensions last */
      if (of_function == 0)
        for (const char *q = at + 1; q < end && *q != '(' && *q != ')'; ++q)
          of_function += *q == '*';
      p.function = true;
      ++at;
    } else if (*at == ':' && stars > 0) { /* a word of ours about the pointer */
      read_words(at, end, &p);
      break;
    } else if (*at == '*' || *at == '[') {
      ++stars;
      if (*at == '[') break; /* dimensions follow: an array parameter is a pointer */
      ++at;
    } else if (is_word(*at)) {
      const char *start = at;
      while (at < end && is_word(*at)) ++at;
      size_t size = (size_t)(at - start);
      if (size == 5 && memcmp(start, "const", 5) == 0)
        is_const |= stars == 0;
      else if (stars == 0)
        add_word(&w, start, size);
    } else {
      ++at;
    }
  }
  DLDataType base = base_type(&w);
  const bool is_text = w.char_ && !w.signed_ && !w.unsigned_;
  if (p.function) {
    p.kind = PARAM_POINTER;
    p.is_const = p.opaque = true;
    p.functions = p.indirect = of_function > 1;
    p.depth = of_function;
    p.function = !p.functions;
  } else if (stars > 0) {
    p.kind = PARAM_POINTER;
    p.is_const = is_const;
    p.opaque = w.unknown > 0;
    p.is_signed = base.code == kDLInt;
    p.bytes = stars == 1 && (p.chars || base.bits == 8);
    p.is_text = stars == 1 && is_text && !p.chars;
    p.padded |= p.is_text && !is_const;
    if (stars > 1) {
      p.is_const = p.indirect = true; /* pointers to pointers are nothing an array could be */
      p.depth = stars;
      if (!w.char_) p.pointed = base;
      p.pointed_const = is_const;
      p.pointed_char = is_text;
    } else if (w.named == NULL || w.named < types + SAME_EVERYWHERE)
      p.dtype = base; /* of the others the kernel knows the bits it was compiled with */
  } else if (base.bits != 0 && base.code != kDLComplex) {
    p.kind = base.code == kDLFloat || base.code == kDLBfloat ? PARAM_FLOAT : PARAM_INT;
    p.dtype = base;
  } else if (is_text && !w.unknown && !w.named) {
    p.kind = PARAM_INT; /* a char, whose sign the function knows */
    p.dtype = (DLDataType){kDLInt, 8, 1};
  }
  return p;
}

/* The type code of a number that a function returns: kTVMArgBool, kDLUInt for 64 bits without a sign, else
 * kTVMArgInt. */
int call_signature_result(const char *prototype) {
  if (strncmp(prototype, "bool ", 5) == 0) return kTVMArgBool;
  const call_parameter p = parse_one(prototype, prototype + strcspn(prototype, "("));
  const bool is_uint64 = p.kind == PARAM_INT && p.dtype.code == kDLUInt && p.dtype.bits == 64;
  return is_uint64 ? (int)kDLUInt : (int)kTVMArgInt;
}

/* How a character changes the number of brackets around what follows; commas inside part no parameters. */
static int nesting(char c) {
  return (c == '(' || c == '[' || c == '<') - (c == ')' || c == ']' || c == '>');
}

int call_signature_parse(const char *text, call_parameter **out) {
  *out = NULL;
  while (*text == ' ') ++text;
  if (*text == '\0' || *text == '?') return -1;
  if (strcmp(text, "void") == 0) return 0;
  int count = 1;
  int depth = 0;
  for (const char *p = text; *p; ++p) {
    depth += nesting(*p);
    if (*p == ',' && depth == 0) ++count;
  }
  call_parameter *parameters = PyMem_Calloc((size_t)count, sizeof *parameters);
  if (parameters == NULL) return -2;
  const char *start = text;
  int i = 0;
  depth = 0;
  for (const char *p = text;; ++p) {
    depth += nesting(*p);
    if (*p == '\0' || (*p == ',' && depth == 0)) {
      if (i < count) parameters[i++] = parse_one(start, p);
      start = p + 1;
      if (*p == '\0') break;
    }
  }
  *out = parameters;
  return count;
}
