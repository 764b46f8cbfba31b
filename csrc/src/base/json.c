#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/texts.h"

void mb_json_init(struct mb_json *j, const void *text, size_t size) {
  *j = (struct mb_json){.start = text, .pos = text, .end = (const char *)text + size};
}

bool mb_json_fail(struct mb_json *j, const char *what) {
  if (!j->error) j->error = what;
  return false;
}

char mb_json_peek(struct mb_json *j) {
  while (j->pos < j->end &&
         (*j->pos == ' ' || *j->pos == '\n' || *j->pos == '\r' || *j->pos == '\t'))
    ++j->pos;
  return j->pos < j->end && !j->error ? *j->pos : 0;
}

static bool expect_character(struct mb_json *j, char c, const char *what) {
  if (mb_json_peek(j) != c) return mb_json_fail(j, what);
  ++j->pos;
  return true;
}

static bool begin_group(struct mb_json *j, char open, const char *what) {
  if (!expect_character(j, open, what)) return false;
  if (j->depth == MB_NESTING_LIMIT) return mb_json_fail(j, "nested too deep");
  j->first[j->depth++] = true;
  return true;
}

bool mb_json_begin_object(struct mb_json *j) { return begin_group(j, '{', "expected an object"); }
bool mb_json_begin_array(struct mb_json *j) { return begin_group(j, '[', "expected an array"); }

/* True if another member follows in the innermost object or array; passes the comma, or the closing
 * bracket. */
static bool has_next_item(struct mb_json *j, char close) {
  if (j->error) return false;
  char c = mb_json_peek(j);
  bool first = j->first[j->depth - 1];
  if (c == close) {
    ++j->pos;
    --j->depth;
    return false;
  }
  if (!first) {
    if (c != ',')
      return mb_json_fail(j, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    ++j->pos;
  }
  j->first[j->depth - 1] = false;
  return true;
}

bool mb_json_next_key(struct mb_json *j, struct mb_slice *key) {
  return has_next_item(j, '}') && mb_json_string(j, key) &&
         expect_character(j, ':', "expected ':'");
}

bool mb_json_next_element(struct mb_json *j) { return has_next_item(j, ']'); }

static int hex4(const uint8_t *p) {
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    int c = p[i] | 32, digit = c >= 'a' && c <= 'f' ? c - 'a' + 10 : p[i] - '0';
    if (digit < 0 || digit > 15 || (digit > 9 && c < 'a')) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* Decode the escape at s, a backslash; a surrogate pair is one. Bytes used, 0 if it is wrong. */
static size_t decode_escape(const uint8_t *s, const uint8_t *end, uint32_t *out) {
  static const char codes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  const char *code = end - s > 1 && s[1] ? strchr(codes, s[1]) : NULL;
  if (code) {
    *out = (uint32_t)values[code - codes];
    return 2;
  }
  int high = end - s < 6 || s[1] != 'u' ? -1 : hex4(s + 2);
  if (high < 0 || (high >= 0xDC00 && high < 0xE000)) return 0;
  *out = (uint32_t)high;
  if (high < 0xD800 || high >= 0xDC00) return 6;
  int low = end - s < 12 || s[6] != '\\' || s[7] != 'u' ? -1 : hex4(s + 8);
  if (low < 0xDC00 || low >= 0xE000) return 0;
  *out = 0x10000 + (((uint32_t)high - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
  return 12;
}

bool mb_json_string(struct mb_json *j, struct mb_slice *out) {
  if (!expect_character(j, '"', "expected a string")) return false;
  const char *start = j->pos;
  int bits = 0; /* of all its bytes */
  while (j->pos < j->end && *j->pos != '"') {
    uint32_t ignored;
    size_t used = 1;
    if ((unsigned char)*j->pos < 0x20) return mb_json_fail(j, "a control character in a string");
    if (*j->pos == '\\')
      used = decode_escape((const uint8_t *)j->pos, (const uint8_t *)j->end, &ignored);
    if (!used) return mb_json_fail(j, MB_TEXT_WRONG_ESCAPE);
    bits |= *j->pos;
    j->pos += used;
  }
  if (j->pos == j->end) return mb_json_fail(j, "a string without an end");
  *out = (struct mb_slice){(const uint8_t *)start, (uint64_t)(j->pos - start)};
  if (bits & 0x80 && !mb_is_utf8(out->data, out->size))
    return mb_json_fail(j, "a string that is not UTF-8");
  ++j->pos;
  return true;
}

/* Pass over the digits that come next; whether there are any, and not too many. */
static bool skip_digits(struct mb_json *j) {
  const char *start = j->pos;
  while (j->pos < j->end && *j->pos >= '0' && *j->pos <= '9') ++j->pos;
  if (j->pos - start > MB_JSON_DIGITS) return mb_json_fail(j, "a number has too many digits");
  return j->pos > start || mb_json_fail(j, "expected a value");
}

/* Pass over one of two characters. */
static bool skip_one(struct mb_json *j, char one, char other) {
  if (j->pos == j->end || (*j->pos != one && *j->pos != other)) return false;
  ++j->pos;
  return true;
}

/* Digits that start with 0 only if they are 0. */
static bool skip_whole(struct mb_json *j) { return skip_one(j, '0', '0') || skip_digits(j); }

bool mb_json_uint(struct mb_json *j, uint64_t *out) {
  char c = mb_json_peek(j);
  if (c < '0' || c > '9') return mb_json_fail(j, "expected a whole number");
  const char *start = j->pos;
  uint64_t value = 0;
  if (!skip_whole(j)) return false;
  for (const char *p = start; p < j->pos; ++p) {
    unsigned digit = (unsigned)(*p - '0');
    if (value > (UINT64_MAX - digit) / 10) return mb_json_fail(j, "a number above 2^64");
    value = value * 10 + digit;
  }
  if (j->pos < j->end && (*j->pos == '.' || *j->pos == 'e' || *j->pos == 'E')) {
    j->pos = start;
    return mb_json_fail(j, "expected a whole number");
  }
  *out = value;
  return true;
}

/* A number or a literal; what it means does not matter here. */
static bool skip_json_word(struct mb_json *j) {
  for (const char *word = "true\0false\0null\0"; *word; word += strlen(word) + 1) {
    size_t size = strlen(word);
    if ((size_t)(j->end - j->pos) >= size && memcmp(j->pos, word, size) == 0) {
      j->pos += size;
      return true;
    }
  }
  const char *start = j->pos;
  (void)skip_one(j, '-', '-');
  if (skip_whole(j) && (!skip_one(j, '.', '.') || skip_digits(j)) &&
      (!skip_one(j, 'e', 'E') || (skip_one(j, '+', '-'), skip_digits(j))))
    return true;
  j->pos = start; /* the error shows what stands there */
  return false;
}

bool mb_json_skip(struct mb_json *j) {
  int outer = j->depth;
  char open[MB_NESTING_LIMIT];
  do {
    char c = mb_json_peek(j);
    struct mb_slice ignored;
    if (c == '{' || c == '[') {
      if (!begin_group(j, c, "expected a value")) return false;
      open[j->depth - 1] = c;
    } else if (c == '"' ? !mb_json_string(j, &ignored) : !skip_json_word(j)) {
      return false;
    }
    /* Go to the next member of the innermost open one; close those that are complete. */
    while (j->depth > outer &&
           !(open[j->depth - 1] == '{' ? mb_json_next_key(j, &ignored) : mb_json_next_element(j))) {
      if (j->error) return false;
    }
  } while (j->depth > outer);
  return true;
}

bool mb_json_end(struct mb_json *j) {
  if (mb_json_peek(j) || j->pos != j->end) return mb_json_fail(j, "something follows the end");
  return !j->error;
}

/* ---- strings --------------------------------------------------------------------------------- */

static char *put_utf8(char *to, uint32_t c) {
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* bytes behind the first */
  *to++ = (char)(more ? 0x780u >> more | c >> 6 * more : c);
  while (more--) *to++ = (char)(0x80 | (c >> 6 * more & 63));
  return to;
}

char *mb_json_text(struct mb_slice escaped) {
  char *text = malloc((size_t)escaped.size + 1), *to = text;
  const uint8_t *s = escaped.data, *end = s + escaped.size;
  while (text && s < end) {
    if (*s != '\\') {
      *to++ = (char)*s++;
      continue;
    }
    uint32_t c = 0;
    s += decode_escape(s, end, &c);
    if (!c) { /* a wrong one, or a NUL, which would end the C string */
      free(text);
      return NULL;
    }
    to = put_utf8(to, c); /* no longer than its escape */
  }
  if (text) *to = 0;
  return text;
}

bool mb_json_is(struct mb_slice escaped, const char *text) {
  if (!memchr(escaped.data, '\\', (size_t)escaped.size)) return mb_slice_is(escaped, text);
  char *decoded = mb_json_text(escaped);
  bool same = decoded && strcmp(decoded, text) == 0;
  free(decoded);
  return same;
}

/* ---- writing --------------------------------------------------------------------------------- */

void mb_json_put_text(FILE *out, const char *text) {
  (void)fputc('"', out);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') (void)fputc('\\', out);
    if (*p < 0x20)
      (void)fprintf(out, "\\u%04x", *p);
    else
      (void)fputc(*p, out);
  }
  (void)fputc('"', out);
}
