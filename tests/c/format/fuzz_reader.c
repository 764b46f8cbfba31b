/* fuzz_reader ROUNDS FILE... : damages each blob ROUNDS times, in ways that files break, and
 * reads it at all levels. The numbers come from a fixed seed. Whatever is read must be readable:
 * sanitizers watch. */
#include "format/blob.h"
#include "../common/check.h"
#include "base/error.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next_number(void) { /* xorshift64 */
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static const uint64_t hostile[] = {0,          1,
                                   7,          8,
                                   0x7f,       0xff,
                                   0xffff,     0x10000,
                                   0x7fffffff, 0x80000000,
                                   0xffffffff, 0x100000000,
                                   INT64_MAX,  1ull << 63,
                                   UINT64_MAX, UINT64_MAX - 7,
                                   1ull << 61, (1ull << 61) + 1};

static size_t damage(uint8_t *bytes, size_t size) {
  for (uint64_t n = 1 + next_number() % 3; n && size; n--) {
    size_t at = next_number() % size;
    switch (next_number() % 5) {
      case 0: bytes[at] ^= (uint8_t)(1u << next_number() % 8); break;
      case 1: bytes[at] = (uint8_t)next_number(); break;
      case 2: size = at; break;
      case 3: {
        uint64_t value = hostile[next_number() % (sizeof(hostile) / sizeof(*hostile))];
        if (size - at >= 8) memcpy(bytes + at, &value, 8);
        break;
      }
      default: {
        size_t from = next_number() % size, length = next_number() % 16;
        if (length <= size - at && length <= size - from) memmove(bytes + at, bytes + from, length);
      }
    }
  }
  return size;
}

static void use(const struct mb_blob *blob) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    const struct mb_entry entry = mb_blob_entry(blob, i), *e = &entry;
    for (uint64_t k = 0; k < e->key.size; k++) sum += e->key.data[k];
    if (!e->library)
      for (uint64_t k = 0; k < e->size; k++) sum += blob->bytes[e->offset + k];
    for (uint64_t k = blob->row_ptr[i]; k < blob->row_ptr[i + 1]; k++)
      CHECK(blob->child[k] < blob->entry_count);
  }
  CHECK(sum != UINT64_MAX);
}

static void read_all_levels(const uint8_t *bytes, size_t size) {
  for (int i = 0; i < 9; i++) { /* each level of each dialect: damage makes one of the other */
    const int level = i / 3;
    struct mb_blob blob;
    int status =
        mb_blob_read(bytes, size, (enum mb_dialect)(i % 3), next_number() % 2, level, NULL, &blob);
    if (!status) use(&blob);
    if (status) CHECK(mblob_last_error_info()->status == status && *mblob_last_error());
    mb_blob_free(&blob);
  }
}

static void fuzz(const char *path, long rounds) {
  FILE *file = fopen(path, "rb");
  CHECK(file);
  static uint8_t whole[1 << 20];
  size_t size = fread(whole, 1, sizeof(whole), file);
  fclose(file);
  for (long i = 0; i < rounds; i++) {
    uint8_t *copy = malloc(size);
    CHECK(copy);
    memcpy(copy, whole, size);
    size_t left = damage(copy, size);
    /* The length often fits the damaged bytes, so that more of the reader is reached. */
    uint64_t follow = left >= 8 ? left - 8 : 0;
    if (left >= 8 && next_number() % 2) memcpy(copy, &follow, 8);
    uint8_t *exact = malloc(left ? left : 1);
    CHECK(exact);
    memcpy(exact, copy, left);
    read_all_levels(exact, left);
    free(exact);
    free(copy);
  }
}

int main(int argc, char **argv) {
  CHECK(argc > 2);
  for (int i = 2; i < argc; i++) fuzz(argv[i], atol(argv[1]));
  return 0;
}
