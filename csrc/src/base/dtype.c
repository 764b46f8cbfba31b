#include "base/dtype.h"

#include <stdio.h>
#include <string.h>

#include "base/argument_types.h"
#include "base/error.h"

/* By their codes. */
static const char dtype_names[][8] = {MB_DTYPE_NAMES};

/* Small floats, whose names say their bits: TVM's two (0.15 to 0.19), then DLPack's. */
static const struct small {
  uint8_t code, bits;
  char name[20];
} SMALL[] = {MB_SMALL_FLOATS};
enum { SMALL_COUNT = sizeof(SMALL) / sizeof(*SMALL) };

static const struct small *small_of(int code) {
  for (size_t i = 0; i < SMALL_COUNT; ++i)
    if (SMALL[i].code == code) return &SMALL[i];
  return NULL;
}

/* "e4m3_float8" and the like; NULL of other types. Codes 6 and 7 are TVM's e4m3_float8 and
 * e5m2_float8 here, not DLPack's bool and float8_e3m4, which is MBLOB_FLOAT8_E3M4. */
static const char *small_float(DLDataType dtype) {
  const struct small *found = small_of(dtype.code);
  return found && found->bits == dtype.bits ? found->name : NULL;
}

/* TVM's codes of 8-bit floats and DLPack's mean the same two types. */
static uint8_t same_code(uint8_t code) {
  return code == MB_E4M3_FLOAT8 ? kDLFloat8_e4m3fn : code == MB_E5M2_FLOAT8 ? kDLFloat8_e5m2 : code;
}

DLDataType mb_dtype_stored_in_ffi(DLDataType dtype) {
  if (dtype.code == kDLBool && dtype.bits == 8) return (DLDataType){kDLUInt, 1, dtype.lanes};
  if (dtype.code == kDLFloat8_e3m4 && dtype.bits == 8) dtype.code = MBLOB_FLOAT8_E3M4;
  return dtype;
}

DLDataType mb_dtype_for_ffi(DLDataType dtype) {
  dtype.code = same_code(dtype.code);
  return dtype;
}

bool mb_dtype_takes(DLDataType expected, DLDataType given) {
  if (expected.bits != given.bits || expected.lanes != given.lanes) return false;
  if (expected.code == given.code) return true;
  if (expected.bits != 8 || !small_float(expected)) return false;
  return given.code == kDLUInt || same_code(expected.code) == same_code(given.code);
}

/* A decimal number of 1 to `limit` at *text; moves behind it. */
static bool number(const char **text, const char *end, unsigned limit, unsigned *out) {
  unsigned value = 0;
  const char *p = *text;
  for (; p < end && *p >= '0' && *p <= '9'; ++p) {
    value = value * 10 + (unsigned)(*p - '0');
    if (value > limit) return false;
  }
  *out = value;
  *text = p;
  return value > 0;
}

/* Widths that the field's types have; `stored`: integers of graphs have any. */
static bool is_width(uint8_t code, unsigned bits, bool stored) {
  switch (code) {
    case kDLInt:
    case kDLUInt: return bits <= 64 && (stored || (bits & (bits - 1)) == 0);
    case kDLFloat: return bits == 16 || bits == 32 || bits == 64;
    case kDLBfloat: return bits == 16;
    default: return bits == 64 || bits == 128;
  }
}

/* "x4", or nothing. */
static bool parse_lanes(const char *p, const char *end, uint16_t *out) {
  unsigned lanes = 1;
  if (p < end && *p == 'x' && (++p, !number(&p, end, UINT16_MAX, &lanes))) return false;
  *out = (uint16_t)lanes;
  return p == end;
}

static bool parse(const char *text, size_t size, bool stored, DLDataType *out) {
  const char *end = text + size;
  if (size == 4 && memcmp(text, "bool", 4) == 0) {
    *out = (DLDataType){kDLUInt, 1, 1};
    return true;
  }
  for (size_t i = 0; i < SMALL_COUNT; ++i) {
    size_t length = strlen(SMALL[i].name);
    *out = (DLDataType){SMALL[i].code, SMALL[i].bits, 1};
    if (size >= length && memcmp(text, SMALL[i].name, length) == 0 &&
        parse_lanes(text + length, end, &out->lanes))
      return true;
  }
  for (uint8_t code = 0; code < sizeof(dtype_names) / sizeof(*dtype_names); ++code) {
    size_t length = strlen(dtype_names[code]);
    if (code == kDLOpaqueHandle || size <= length || memcmp(text, dtype_names[code], length) != 0)
      continue;
    const char *p = text + length;
    unsigned bits;
    if (!number(&p, end, UINT8_MAX, &bits) || !is_width(code, bits, stored)) continue;
    *out = (DLDataType){code, (uint8_t)bits, 1};
    return parse_lanes(p, end, &out->lanes);
  }
  return false;
}

bool mb_dtype_parse(const char *text, size_t size, DLDataType *out) {
  return parse(text, size, false, out);
}

/* The widths of an element, in words; NULL if `bits` is one. Integers have any up to 64, users'
 * types any. */
static const char *other_widths(int code, int bits) {
  /* Where several are possible they are powers of two, whose sum is a set of them. */
  static const struct {
    uint8_t widths;
    char text[24];
  } known[] = {[kDLFloat] = {8 | 16 | 32 | 64 | 128, "8, 16, 32, 64 or 128"},
               [kDLOpaqueHandle] = {64, "64"},
               [kDLBfloat] = {16, "16"},
               [kDLComplex] = {32 | 64 | 128, "32, 64 or 128"},
               [kDLBool] = {8, "8"}};
  if (code <= kDLUInt) return bits <= 64 || bits == 128 ? NULL : "1 to 64 or 128";
  if (code <= kDLBool)
    return bits & known[code].widths && !(bits & (bits - 1)) ? NULL : known[code].text;
  static const char texts[][2] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
  const struct small *small = small_of(code);
  return small && bits != small->bits ? texts[small->bits] : NULL;
}

bool mb_dtype_check(int code, int bits, int lanes) {
  if (code < 0 || (code > MB_DTYPE_LAST && code < MBLOB_FLOAT8_E3M4) || code > UINT8_MAX)
    (void)mb_fail(MBLOB_E_ARGUMENT,
                  "dtype: no data type has the code %d, expected 0 to %d or %d to %d", code,
                  MB_DTYPE_LAST, MBLOB_FLOAT8_E3M4, UINT8_MAX);
  else if (bits < 1 || bits > UINT8_MAX)
    (void)mb_fail(MBLOB_E_ARGUMENT, "dtype: an element of %d bits, expected 1 to %d", bits,
                  UINT8_MAX);
  else if (other_widths(code, bits))
    (void)mb_fail(MBLOB_E_ARGUMENT, "dtype: code %d with elements of %d bits, expected %s", code,
                  bits, other_widths(code, bits));
  else if (lanes < 1 || lanes > UINT16_MAX)
    (void)mb_fail(MBLOB_E_ARGUMENT, "dtype: an element of %d lanes, expected 1 to %d", lanes,
                  UINT16_MAX);
  else
    return true;
  return false;
}

bool mb_dtype_parse_stored(const char *text, size_t size, DLDataType *out) {
  static const struct {
    char name[8];
    DLDataType dtype;
  } stored[] = {{"", {kDLOpaqueHandle, 0, 0}},        {"void", {kDLOpaqueHandle, 0, 0}},
                {"handle", {kDLOpaqueHandle, 64, 1}}, {"int", {kDLInt, 32, 1}},
                {"uint", {kDLUInt, 32, 1}},           {"float", {kDLFloat, 32, 1}}};
  for (size_t i = 0; i < sizeof(stored) / sizeof(*stored); ++i) {
    if (strlen(stored[i].name) != size || memcmp(stored[i].name, text, size) != 0) continue;
    *out = stored[i].dtype;
    return true;
  }
  return parse(text, size, true, out);
}

const char *mb_dtype_text(DLDataType dtype, char text[MB_DTYPE_TEXT]) {
  const char *small = small_float(dtype);
  if (dtype.code == kDLUInt && dtype.bits == 1 && dtype.lanes == 1) return "bool";
  if (dtype.code == kDLOpaqueHandle && (dtype.lanes == 1 || !dtype.bits))
    return dtype.bits ? "handle" : "void";
  int used;
  if (small)
    used = snprintf(text, MB_DTYPE_TEXT, "%s", small);
  else if (dtype.code < sizeof(dtype_names) / sizeof(*dtype_names))
    used = snprintf(text, MB_DTYPE_TEXT, "%s%d", dtype_names[dtype.code], dtype.bits);
  else
    used = snprintf(text, MB_DTYPE_TEXT, "custom[%d]%d", dtype.code, dtype.bits);
  if (dtype.lanes != 1)
    (void)snprintf(text + used, MB_DTYPE_TEXT - (size_t)used, "x%d", dtype.lanes);
  return text;
}

/* ---- types of arguments and results -------------------------------------------------------------- */

const char *mb_type_code_name(int code) {
  /* by TVM's type codes: TVMArgTypeCode, and kDLDevice at its place */
  static const char names[][12] = {"an integer", "an integer",  "a float",    "a handle",
                                   "None",       "a data type", "a device",   "a tensor",
                                   "an object",  "a module",    "a function", "a string",
                                   "bytes",      "an array",    "an object",  "a bool"};
  enum { OBJECT = 8, COUNT = sizeof(names) / sizeof(*names) };
  return names[code >= 0 && code < COUNT ? code : OBJECT];
}
