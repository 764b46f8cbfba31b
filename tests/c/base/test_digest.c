/* test_digest: the checksums, whichever way this machine takes them, against the definition of
 * the CRC and the examples of FIPS 180-4. */
#include "base/bytes.h"
#include "../common/check.h"

#define SIZE 4500

static uint8_t data[SIZE];

/* Bit by bit. */
static uint32_t defined(uint32_t crc, const uint8_t *p, uint64_t size) {
  for (crc = ~crc; size; size--) {
    crc ^= *p++;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1)));
  }
  return ~crc;
}

static void crc_of_any_size_and_place(void) {
  CHECK(mb_crc32(0, (const uint8_t *)"123456789", 9) == 0xCBF43926u);
  for (uint64_t size = 0; size <= 300; size++)
    for (uint32_t at = 0; at < 17; at++) {
      const uint32_t before = (uint32_t)size * 2654435761u;
      CHECK(mb_crc32(before, data + at, size) == defined(before, data + at, size));
    }
  for (uint64_t size = 301; size <= SIZE - 16; size += 97)
    CHECK(mb_crc32(1, data + size % 16, size) == defined(1, data + size % 16, size));
}

static void crc_in_pieces(void) {
  const uint32_t whole = mb_crc32(0, data, SIZE);
  for (uint64_t cut = 0; cut <= SIZE; cut += 61)
    CHECK(mb_crc32(mb_crc32(0, data, cut), data + cut, SIZE - cut) == whole);
}

static void sha_of_the_examples(void) {
  const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                         0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                         0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
  uint8_t digest[32];
  mb_sha256((const uint8_t *)"abc", 3, digest);
  CHECK(!memcmp(digest, abc, sizeof(abc)));
}

int main(void) {
  uint32_t state = 7;
  for (int i = 0; i < SIZE; i++)
    data[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
  RUN(crc_of_any_size_and_place);
  RUN(crc_in_pieces);
  RUN(sha_of_the_examples);
  return 0;
}
