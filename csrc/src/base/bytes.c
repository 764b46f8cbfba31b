#include "base/bytes.h"

#include <stdlib.h>

#include "base/error.h"

bool mb_skip(struct mb_cursor *c, uint64_t size, const char *what) {
  if (size > mb_left(c)) {
    (void)mb_fail_format("truncated", (int64_t)c->pos, c->entry,
                         "%s: needs %llu bytes, %llu are left", what, (unsigned long long)size,
                         (unsigned long long)mb_left(c));
    return false;
  }
  c->pos += size;
  return true;
}

bool mb_read_u64(struct mb_cursor *c, uint64_t *out, const char *what) {
  if (!mb_skip(c, 8, what)) return false;
  *out = mb_u64_at(c->data + c->pos - 8);
  return true;
}

bool mb_read_u32(struct mb_cursor *c, uint32_t *out, const char *what) {
  if (!mb_skip(c, 4, what)) return false;
  *out = mb_u32_at(c->data + c->pos - 4);
  return true;
}

bool mb_read_count(struct mb_cursor *c, uint64_t *out, uint64_t item_size, const char *what) {
  uint64_t start = c->pos;
  if (!mb_read_u64(c, out, what)) return false;
  if (*out > mb_left(c) / item_size) {
    (void)mb_fail_format("truncated", (int64_t)start, c->entry,
                         "%s: %llu items of at least %llu bytes, %llu bytes are left", what,
                         (unsigned long long)*out, (unsigned long long)item_size,
                         (unsigned long long)mb_left(c));
    return false;
  }
  return true;
}

void *mb_new_items(uint64_t count, size_t size) {
  void *items = calloc(mb_size(count ? count : 1), size);
  if (!items) (void)mb_fail_memory(mb_size(count * size));
  return items;
}

bool mb_read_string(struct mb_cursor *c, struct mb_slice *out, const char *what) {
  if (!mb_read_count(c, &out->size, 1, what)) return false;
  out->data = c->data + c->pos;
  c->pos += out->size;
  return true;
}

bool mb_read_key(struct mb_cursor *c, struct mb_slice *out, const char *what) {
  uint64_t start = c->pos;
  if (!mb_read_string(c, out, what)) return false;
  if (out->size < 1 || out->size > MB_KEY_LIMIT) {
    (void)mb_fail_format("key", (int64_t)start, c->entry, "%s: %llu bytes long, expected 1 to %d",
                         what, (unsigned long long)out->size, MB_KEY_LIMIT);
    return false;
  }
  if (memchr(out->data, 0, mb_size(out->size))) { /* C would take another key than what is shown */
    (void)mb_fail_format("key", (int64_t)start, c->entry, "%s: has a NUL byte", what);
    return false;
  }
  if (!mb_is_utf8(out->data, out->size)) {
    (void)mb_fail_format("key", (int64_t)start, c->entry, "%s: not UTF-8", what);
    return false;
  }
  return true;
}

/* Well-formed UTF-8 as the Unicode standard has it (table 3-7): shortest forms, no surrogates. */
bool mb_is_utf8(const uint8_t *text, uint64_t size) {
  uint64_t i = 0;
  while (i < size) {
    uint8_t first = text[i++];
    if (first < 0x80) continue;
    unsigned more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || more > size - i) return false;
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (; more; more--, low = 0x80, high = 0xBF, i++)
      if (text[i] < low || text[i] > high) return false;
  }
  return true;
}

bool mb_slice_is(struct mb_slice s, const char *text) {
  return s.size == strlen(text) && memcmp(s.data, text, mb_size(s.size)) == 0;
}
