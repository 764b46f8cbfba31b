/* The reader's entrance: the length prefix, then the index if there is one, else the stream. */
#include "format/blob.h"

#include <stdlib.h>

#include "base/base.h"

/* A new zeroed entry at the end; NULL when memory is out (recorded). Grows as entries are really
 * found, so a count in a file never decides how much is allocated. */
struct mb_entry *mb_blob_add(struct mb_blob *blob) {
  if (blob->entry_count == blob->entry_capacity) {
    uint64_t capacity = blob->entry_capacity ? 2 * blob->entry_capacity : 8;
    struct mb_entry *grown = realloc(blob->entries, mb_size(capacity * sizeof(*grown)));
    if (!grown) {
      (void)mb_fail_memory(mb_size(capacity * sizeof(*grown)));
      return NULL;
    }
    blob->entries = grown;
    blob->entry_capacity = capacity;
  }
  struct mb_entry *entry = &blob->entries[blob->entry_count++];
  *entry = (struct mb_entry){.alignment = 1};
  return entry;
}

struct mb_entry mb_blob_entry(const struct mb_blob *blob, uint64_t i) {
  return blob->has_index ? mb_index_entry(blob, i) : blob->entries[i];
}

static int read_any_blob(struct mb_blob *blob, uint64_t size, bool index_expected, int verify,
                         const struct mb_measures *measures) {
  if (size < 16)
    return mb_fail_format("truncated", 0, MB_UNKNOWN, "blob: %llu bytes, expected at least 16",
                          (unsigned long long)size);
  uint64_t follow = mb_u64_at(blob->bytes);
  if (follow > size - 8)
    return mb_fail_format("size", 0, MB_UNKNOWN, "blob: says %llu bytes follow, %llu do",
                          (unsigned long long)follow, (unsigned long long)(size - 8));
  blob->size = 8 + follow;
  int status = mb_index_find(blob, index_expected, verify != MBLOB_VERIFY_OFF);
  if (status) return status;
  if (!blob->has_index) {
    if (blob->dialect != MB_FFI) return mb_stream_read(blob, measures);
    status = mb_modules_read(blob);
    return status || verify != MBLOB_VERIFY_FULL ? status : mb_modules_check(blob);
  }
  if (verify == MBLOB_VERIFY_OFF) return MBLOB_OK;
  if (verify == MBLOB_VERIFY_HEADER && !mb_index_is_small(blob)) return MBLOB_OK;
  status = mb_index_check_payloads(blob);
  if (!status) status = mb_index_check_structure(blob);
  if (!status)
    status = blob->dialect == MB_FFI ? mb_modules_compare(blob) : mb_stream_compare(blob);
  return status || blob->dialect != MB_FFI || verify != MBLOB_VERIFY_FULL ? status
                                                                          : mb_modules_check(blob);
}

int mb_blob_read(const uint8_t *bytes, uint64_t size, enum mb_dialect dialect, bool index_expected,
                 int verify, const struct mb_measures *measures, struct mb_blob *out) {
  *out = (struct mb_blob){.bytes = bytes, .dialect = dialect};
  int status = read_any_blob(out, size, index_expected, verify, measures);
  if (status) mb_blob_free(out);
  return status;
}

void mb_blob_free(struct mb_blob *blob) {
  free(blob->entries);
  free(blob->row_memory);
  free(blob->child_memory);
  *blob = (struct mb_blob){0};
}
