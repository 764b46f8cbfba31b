/* bytes.h - bounds-checked little-endian reading: the only way from bytes of a file to numbers.
 *
 * A cursor never passes its end and knows where it is, so every error has an offset. Functions
 * return false after recording the error. */
#ifndef MB_BYTES_H
#define MB_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MB_KEY_LIMIT 4096 /* bytes of a type key; a longer one is damage, not a name */

struct mb_cursor {
  const uint8_t *data; /* start of the blob: offsets count from here */
  uint64_t pos;        /* offset of the next byte */
  uint64_t end;        /* offset behind the last byte that may be read */
  int64_t entry;       /* module being read, for errors; MB_UNKNOWN if none */
};

struct mb_slice {
  const uint8_t *data;
  uint64_t size;
};

/* A number as the memory functions take it; one that does not fit is none that there is memory
 * for. */
static inline size_t mb_size(uint64_t n) { return n == (size_t)n ? (size_t)n : SIZE_MAX; }

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define MB_SWAPPED(bits, x) (x)
#else
#define MB_SWAPPED(bits, x) __builtin_bswap##bits(x)
#endif

static inline uint32_t mb_u32_at(const uint8_t *p) {
  uint32_t x;
  memcpy(&x, p, sizeof(x));
  return MB_SWAPPED(32, x);
}

static inline uint64_t mb_u64_at(const uint8_t *p) {
  uint64_t x;
  memcpy(&x, p, sizeof(x));
  return MB_SWAPPED(64, x);
}

static inline uint64_t mb_left(const struct mb_cursor *c) { return c->end - c->pos; }

/* Pass over `size` bytes. */
bool mb_skip(struct mb_cursor *c, uint64_t size, const char *what);
bool mb_read_u64(struct mb_cursor *c, uint64_t *out, const char *what);
bool mb_read_u32(struct mb_cursor *c, uint32_t *out, const char *what);
/* A u64 count of items of at least `item_size` bytes each; refused if they cannot fit what is
 * left. */
bool mb_read_count(struct mb_cursor *c, uint64_t *out, uint64_t item_size, const char *what);
/* Zeroed memory for `count` items of `size` bytes, for a count that was checked; NULL after recording
 * the error. */
void *mb_new_items(uint64_t count, size_t size);
/* A u64 length and that many bytes, not copied. */
bool mb_read_string(struct mb_cursor *c, struct mb_slice *out, const char *what);
/* A type key: 1 to MB_KEY_LIMIT bytes of UTF-8. */
bool mb_read_key(struct mb_cursor *c, struct mb_slice *out, const char *what);

bool mb_is_utf8(const uint8_t *text, uint64_t size);
bool mb_slice_is(struct mb_slice s, const char *text);

/* ---- checksums of the format: CRC-32 (zlib's, IEEE 802.3) and SHA-256 (FIPS 180-4) ------------- */

/* Continue `crc` (0 to start) over `size` bytes. */
uint32_t mb_crc32(uint32_t crc, const uint8_t *data, uint64_t size);
/* 1 if this processor has instructions for it: the sum then takes a fraction of the time of a
 * copy. */
int mb_crc32_is_fast(void);
void mb_sha256(const uint8_t *data, uint64_t size, uint8_t digest[32]);

#endif
