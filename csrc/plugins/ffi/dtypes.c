#include "dtypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"
#include "errors.h"
#include "values.h"

#define RELEASES MB_RELEASES_0_22
enum { TEXT = 64 }; /* bytes of the longest name, and more */

/* ---- element types --------------------------------------------------------------------------- */

/* `bits` of 0: the width follows the name. The first row of a code has its name in texts. */
static const struct name {
  uint8_t code, bits;
  char name[20];
} NAMES[] = {MB_DTYPES_OF_DLPACK,
             MB_SMALL_FLOATS,
             {kDLOpaqueHandle, 64, "handle"},
             {kDLInt, 0, "int"},
             {kDLUInt, 0, "uint"},
             {kDLFloat, 0, "float"},
             {kDLBfloat, 0, "bfloat"},
             {kDLComplex, 0, "complex"},
             /* short ones */
             {kDLInt, 0, "i"},
             {kDLUInt, 0, "u"},
             {kDLFloat, 0, "f"},
             {kDLBfloat, 0, "bf"}};
enum { SHORT = 2 /* characters */ };

/* A name of TVM 0.15 to 0.19, or mblob's own code: the dialect has neither. */
static bool is_of_classic(const struct name *row) {
  return row->code == MBLOB_FLOAT8_E3M4 ||
         (row->name[0] == 'e' && (row->code == kDLBool || row->code == kDLFloat8_e3m4));
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* A number of 1 to `limit` at *text; moves behind it. */
static bool read_digits(const char **text, unsigned limit, unsigned *out) {
  unsigned value = 0;
  const char *at = *text;
  for (; is_digit(*at); at++) {
    value = value * 10 + (unsigned)(*at - '0');
    if (value > limit) return false;
  }
  *out = value;
  *text = at;
  return value > 0;
}

/* "x4", "xvscalex4" or nothing, up to the end. */
static bool lanes(const char *at, uint16_t *out) {
  const bool scaled = strncmp(at, "xvscale", 7) == 0;
  unsigned count = 1;
  if (scaled) at += 7;
  if (*at && (*at++ != 'x' || !read_digits(&at, scaled ? INT16_MAX + 1u : UINT16_MAX, &count)))
    return false;
  *out = (uint16_t)(scaled ? -(int)count : (int)count);
  return *at == 0;
}

/* Of a text with a NUL. Without a width, numbers have 32 bits and bfloat has 16. */
static bool parse_dtype(const char *text, DLDataType *out) {
  char whole[TEXT + 8];
  const bool is_short = strncmp(text, "fp", 2) == 0 && text[2] && text[3] == '_';
  if (is_short) {
    (void)snprintf(whole, sizeof(whole), "float%s", text + 2); /* fp8_e4m3 */
    text = whole;
  }
  if (!*text || strcmp(text, "void") == 0) {
    *out = (DLDataType){kDLOpaqueHandle, 0, 0};
    return true;
  }
  for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
    const size_t size = strlen(NAMES[i].name);
    if (is_of_classic(&NAMES[i]) || strncmp(text, NAMES[i].name, size) != 0) continue;
    const char *at = text + size;
    unsigned bits = NAMES[i].bits;
    if (size <= SHORT && !is_digit(*at)) continue;
    if (!bits && !is_digit(*at))
      bits = NAMES[i].code == kDLBfloat ? 16 : 32;
    else if (is_digit(*at) && NAMES[i].code <= kDLBool && !read_digits(&at, UINT8_MAX, &bits))
      continue;
    if (NAMES[i].code == kDLFloat4_e2m1fn && *at == '_') at++;
    *out = (DLDataType){NAMES[i].code, (uint8_t)bits, 1};
    if (lanes(at, &out->lanes)) return true;
  }
  return false;
}

int mb_dtype_from_text(const struct mb_text *text, DLDataType *out) {
  char copy[TEXT];
  if (!text || !out || (text->size && !text->data))
    return mb_error_null("TVMFFIDataTypeFromString");
  const size_t size = text->size < sizeof(copy) ? text->size : sizeof(copy) - 1;
  if (size) memcpy(copy, text->data, size);
  copy[size] = 0;
  if (size == text->size && strlen(copy) == size && parse_dtype(copy, out)) return 0;
  (void)mb_fail(MBLOB_E_ARGUMENT, "ValueError: unknown dtype `%s`", copy);
  return mb_error_raise_last();
}

int mb_dtype_to_text(const DLDataType *dtype, struct mb_any *out) {
  if (!dtype || !out) return mb_error_null("TVMFFIDataTypeToString");
  const struct name *known = NULL;
  for (size_t i = 0; !known && i < sizeof(NAMES) / sizeof(*NAMES); i++)
    if (NAMES[i].code == dtype->code && !is_of_classic(&NAMES[i])) known = &NAMES[i];
  *out = (struct mb_any){.type = MB_ANY_NONE};
  if (!known) {
    (void)mb_fail(MBLOB_E_ARGUMENT,
                  "ValueError: TVMFFIDataTypeToString: no element type has the code %d",
                  (int)dtype->code);
    return mb_error_raise_last();
  }
  char text[TEXT], width[8] = "", row[16] = "";
  const int count = (int16_t)dtype->lanes;
  const bool is_handle = dtype->code == kDLOpaqueHandle;
  if (!known->bits || (dtype->code == kDLBool && dtype->bits != 8))
    (void)snprintf(width, sizeof(width), "%d", (int)dtype->bits);
  if (count > 1)
    (void)snprintf(row, sizeof(row), "x%d", count);
  else if (count < -1)
    (void)snprintf(row, sizeof(row), "xvscalex%d", -count);
  const bool is_void = is_handle && !dtype->bits && !dtype->lanes;
  (void)snprintf(text, sizeof(text), "%s%s%s", is_void ? "" : known->name, is_handle ? "" : width,
                 is_handle ? "" : row);
  return mb_any_set_text(RELEASES, out, true, text, strlen(text)) ? mb_error_raise_last() : 0;
}

/* ---- integers -------------------------------------------------------------------------------- */

static int64_t big_word_at(const struct mb_text *words, size_t i) {
  int64_t word;
  memcpy(&word, words->data + i * sizeof(word), sizeof(word));
  return word;
}

int mb_big_int_from_words(const struct mb_text *words, struct mb_any *out) {
  if (!words || !out || (words->size && !words->data))
    return mb_error_null("TVMFFIBigIntFromByteArray");
  *out = (struct mb_any){.type = MB_ANY_NONE};
  size_t count = words->size / sizeof(int64_t);
  if (words->size % sizeof(int64_t)) {
    (void)mb_fail(MBLOB_E_ARGUMENT,
                  "ValueError: TVMFFIBigIntFromByteArray: %zu bytes, expected words of 8 bytes",
                  words->size);
    return mb_error_raise_last();
  }
  /* The highest word says nothing if it repeats the sign of the one below. */
  while (count > 1 && big_word_at(words, count - 1) == (big_word_at(words, count - 2) < 0 ? -1 : 0))
    count--;
  if (count < 2) {
    out->type = MB_ANY_INT;
    out->u.i64 = count ? big_word_at(words, 0) : 0;
    return 0;
  }
  const size_t room = 8; /* in front of the words: their number */
  void *object = mb_object_new(RELEASES, MB_ANY_BIG_INT, room + count * sizeof(int64_t));
  if (!object) return mb_error_raise_last();
  char *cell = mb_object_cell(RELEASES, object);
  memcpy(cell, &count, sizeof(count));
  memcpy(cell + room, words->data, count * sizeof(int64_t));
  out->type = MB_ANY_BIG_INT;
  out->u.pointer = object;
  return 0;
}

struct mb_text mb_big_int_words(const struct mb_any *value) {
  if (value && value->type == MB_ANY_INT)
    return (struct mb_text){(const char *)&value->u, sizeof(int64_t)};
  if (!value || value->type != MB_ANY_BIG_INT) return (struct mb_text){"", 0};
  const char *cell = mb_object_cell(RELEASES, value->u.pointer);
  size_t count;
  memcpy(&count, cell, sizeof(count));
  return (struct mb_text){cell + 8, count * sizeof(int64_t)};
}
