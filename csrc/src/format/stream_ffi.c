/* The blob of TVM 0.22 and later (docs/format.md, section 11): the tree first, then modules,
 * each with its length. */
#include <stdlib.h>

#include "base/base.h"
#include "format/blob.h"

#define SMALLEST_MODULE 9 /* a kind's length and one letter */

typedef unsigned long long ull;

static const struct mb_slice ffi_library_key = MB_LIBRARY_SLICE;

/* The tree in front; the cursor ends behind it. */
static int read_ffi_tree(struct mb_blob *blob, struct mb_cursor *c, uint64_t *modules) {
  uint64_t rows = 0, start = c->pos;
  if (!mb_read_u64s(c, &blob->row_memory, &rows, "import tree: indptr") ||
      !mb_read_u64s(c, &blob->child_memory, &blob->child_count, "import tree: child"))
    return mblob_last_error_info()->status;
  blob->row_ptr = blob->row_memory;
  blob->child = blob->child_memory;
  if (rows < 2)
    return mb_fail_format("tree_empty", (int64_t)start, MB_UNKNOWN,
                          "import tree: %llu row pointers, expected at least 2", (ull)rows);
  *modules = rows - 1;
  if (*modules > mb_left(c) / SMALLEST_MODULE)
    return mb_fail_format("truncated", (int64_t)start, MB_UNKNOWN,
                          "%llu modules, %llu bytes are left for them", (ull)*modules,
                          (ull)mb_left(c));
  return mb_tree_check(blob->row_ptr, rows, blob->child, blob->child_count, *modules,
                       (int64_t)start);
}

/* One module; `payload` is empty for the library. */
static bool read_module(struct mb_cursor *c, struct mb_slice *key, bool *library,
                        struct mb_slice *payload) {
  *payload = (struct mb_slice){NULL, 0};
  if (!mb_read_key(c, key, "kind")) return false;
  *library = mb_slice_is(*key, MB_LIB_KEY);
  return *library || mb_read_string(c, payload, "payload");
}

int mb_modules_read(struct mb_blob *blob) {
  struct mb_cursor c = {blob->bytes, 8, blob->size, MB_UNKNOWN};
  uint64_t modules = 0, known = UINT64_MAX;
  int status = read_ffi_tree(blob, &c, &modules);
  for (uint64_t i = 0; !status && i < modules; i++) {
    struct mb_slice payload;
    struct mb_entry *entry = mb_blob_add(blob);
    if (!entry) return MBLOB_E_MEMORY;
    c.entry = (int64_t)i;
    entry->item_offset = c.pos;
    if (!read_module(&c, &entry->key, &entry->library, &payload))
      return mblob_last_error_info()->status;
    entry->size = payload.size;
    if (payload.data) entry->offset = (uint64_t)(payload.data - blob->bytes);
    if (!entry->library) continue;
    entry->key = ffi_library_key;
    if (known != UINT64_MAX)
      return mb_fail_format(
          "two_libraries", (int64_t)entry->item_offset, (int64_t)i,
          "entries %llu and %llu both stand for the library, expected at most one", (ull)known,
          (ull)i);
    known = i;
  }
  blob->stream_size = c.pos;
  return status;
}

int mb_modules_check(const struct mb_blob *blob) {
  int status = MBLOB_OK;
  for (uint64_t i = 0; !status && i < blob->entry_count; i++) {
    const struct mb_entry entry = mb_blob_entry(blob, i);
    struct mb_cursor c = {blob->bytes, entry.offset, entry.offset + entry.size, (int64_t)i};
    if (entry.library || entry.data || !mb_payload_is_known(entry.key, blob->dialect) ||
        mb_slice_is(entry.key, MB_KEY_RELAX_EXECUTABLE)) /* with a grammar of its own */
      continue;
    status = mb_payload_walk(entry.key, &c, blob->dialect, NULL);
    if (!status && mb_left(&c))
      status = mb_fail_format("payload", (int64_t)c.pos, (int64_t)i,
                              "%.*s: %llu bytes follow the payload", (int)entry.key.size,
                              (const char *)entry.key.data, (ull)mb_left(&c));
  }
  return status;
}

/* ---- against the index ----------------------------------------------------------------------- */

static int differs_in_ffi(const struct mb_cursor *c, const char *what) {
  return mb_fail_format("index_damaged", (int64_t)c->pos, c->entry,
                        "the modules have %s, the index says otherwise", what);
}

static bool same_tree(const struct mb_blob *a, const struct mb_blob *b, uint64_t modules) {
  return modules == b->entry_count && a->child_count == b->child_count &&
         memcmp(a->row_ptr, b->row_ptr, mb_size((modules + 1) * sizeof(uint64_t))) == 0 &&
         (!a->child_count ||
          memcmp(a->child, b->child, mb_size(a->child_count * sizeof(uint64_t))) == 0);
}

int mb_modules_compare(const struct mb_blob *blob) {
  struct mb_cursor c = {blob->bytes, 8, blob->stream_size, MB_UNKNOWN};
  struct mb_blob stream = {.bytes = blob->bytes, .size = blob->size};
  uint64_t modules = 0;
  int status = read_ffi_tree(&stream, &c, &modules);
  if (!status && !same_tree(&stream, blob, modules))
    status = differs_in_ffi(&c, "another import tree");
  for (uint64_t i = 0; !status && i < modules; i++) {
    const struct mb_entry e = mb_blob_entry(blob, i);
    struct mb_slice key, payload;
    bool library;
    c.entry = (int64_t)i;
    if (e.item_offset != c.pos)
      status = differs_in_ffi(&c, "this one elsewhere");
    else if (!read_module(&c, &key, &library, &payload))
      status = mblob_last_error_info()->status;
    else if (library != e.library ||
             (!library &&
              (key.size != e.key.size || memcmp(key.data, e.key.data, mb_size(key.size)) != 0)))
      status = differs_in_ffi(&c, "another kind");
    else if (!library && !e.bulk &&
             (payload.size != e.size || payload.data != blob->bytes + e.offset))
      status = differs_in_ffi(&c, "another payload");
  }
  c.entry = MB_UNKNOWN;
  if (!status && mb_left(&c)) status = differs_in_ffi(&c, "bytes behind the last one");
  mb_blob_free(&stream);
  return status;
}
