/* The stream: what TVM's readers read (docs/format.md, section 2). */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "format/blob.h"

static const struct mb_slice classic_library_key = MB_LIBRARY_SLICE;

bool mb_read_u64s(struct mb_cursor *c, uint64_t **out, uint64_t *count, const char *what) {
  *out = NULL;
  if (!mb_read_count(c, count, 8, what)) return false;
  *out = malloc(mb_size(*count ? *count * sizeof(uint64_t) : 1));
  if (!*out) {
    (void)mb_fail_memory(mb_size(*count * sizeof(uint64_t)));
    return false;
  }
  for (uint64_t i = 0; i < *count; i++, c->pos += 8) (*out)[i] = mb_u64_at(c->data + c->pos);
  return true;
}

static int read_classic_tree(struct mb_blob *blob, struct mb_cursor *c) {
  int64_t start = (int64_t)c->pos;
  uint64_t row_count = 0;
  c->entry = MB_UNKNOWN;
  if (!mb_read_u64s(c, &blob->row_memory, &row_count, "import tree: row_ptr") ||
      !mb_read_u64s(c, &blob->child_memory, &blob->child_count, "import tree: child"))
    return mblob_last_error_info()->status;
  blob->row_ptr = blob->row_memory;
  blob->child = blob->child_memory;
  return mb_tree_check(blob->row_ptr, row_count, blob->child, blob->child_count, blob->entry_count,
                       start);
}

/* The first module imports all others in order. */
static int imply_tree(struct mb_blob *blob) {
  uint64_t items = blob->entry_count - 1;
  uint64_t *row_ptr = blob->row_memory = malloc(mb_size((items + 2) * sizeof(uint64_t)));
  uint64_t *child = blob->child_memory = malloc(mb_size((items + 1) * sizeof(uint64_t)));
  if (!row_ptr || !child) return mb_fail_memory(mb_size(items * 16));
  blob->row_ptr = row_ptr;
  blob->child = child;
  blob->child_count = items;
  row_ptr[0] = 0;
  for (uint64_t i = 0; i <= items; i++) {
    row_ptr[i + 1] = items;
    child[i] = i + 1; /* one more than is used, never read */
  }
  return MBLOB_OK;
}

/* TVM up to 0.6, or nothing packed: the library is the root and imports all items in order. */
static int imply_library(struct mb_blob *blob) {
  if (!mb_blob_add(blob)) return MBLOB_E_MEMORY;
  memmove(blob->entries + 1, blob->entries,
          mb_size((blob->entry_count - 1) * sizeof(*blob->entries)));
  blob->entries[0] = (struct mb_entry){.key = classic_library_key, .library = true, .alignment = 1};
  return imply_tree(blob);
}

/* Where the last of the items starts, if it is the import tree of `modules` modules and ends with
 * the blob; 0 if it does not. Read from the end: behind the key are two counted lists, of which
 * the first has modules + 1 numbers. There is one such place at most, for the numbers of a tree are
 * too small to hold the key. */
static uint64_t tree_at_end(const struct mb_cursor *c, uint64_t modules) {
  static const char key[] = MB_TREE_KEY;
  const size_t name = sizeof(key) - 1;
  const uint64_t rows = modules + 1, fixed = 8 + name + 8 + 8 * rows + 8;
  const uint8_t *end = c->data + c->end;
  const uint64_t room = mb_left(c) < fixed ? 0 : (mb_left(c) - fixed) / 8 + 1;
  for (uint64_t k = 0; k < room && k / modules <= modules; k++) {
    const uint8_t *at = end - fixed - 8 * k;
    if (mb_u64_at(at) == name && memcmp(at + 8, key, name) == 0 &&
        mb_u64_at(at + 8 + name) == rows && mb_u64_at(end - 8 * k - 8) == k)
      return (uint64_t)(at - c->data);
  }
  return 0;
}

/* The item before the cursor, if its end was measured by its loader. */
struct measured {
  struct mb_slice key; /* NULL if not */
  int64_t entry;
};

/* The last error, or `why`, as one about the loader that measured an item. */
static int layout_error(const struct measured *last, uint64_t at, const char *why) {
  const mblob_error_info *info = mblob_last_error_info();
  return mb_fail_format(
      "layout", why || info->offset < 0 ? (int64_t)at : info->offset, last->entry,
      "type key '%.*s': the layout or measure function of its loader does not fit: "
      "%s",
      (int)(last->key.size < 64 ? last->key.size : 64), (const char *)last->key.data,
      why ? why : info->message);
}

/* The payload of a key without a grammar. `following`: number of items behind it. */
static int take_measured(struct mb_cursor *c, const struct mb_measures *measures,
                         const struct mb_measure *measure, uint64_t modules, uint64_t following,
                         struct measured *last) {
  uint64_t start = c->pos, end = c->end;
  bool rest = false;
  if (measure->measure ? !measures->run(measure, c) : !mb_layout_walk(measure->layout, c, &rest))
    return layout_error(last, start, NULL);
  if (!rest) return MBLOB_OK;
  if (following) end = following == 1 ? tree_at_end(c, modules) : 0;
  if (!end) return mb_fail_unknown_key(last->key, c, ", and it is not the last module");
  c->pos = end;
  last->key.data = NULL;
  return MBLOB_OK;
}

/* `following`: number of items behind this one. */
static int read_item(struct mb_blob *blob, struct mb_cursor *c, struct mb_slice key, uint64_t item,
                     const struct mb_measures *measures, const struct mb_measure *measure,
                     uint64_t following, struct measured *last) {
  struct mb_entry *entry = mb_blob_add(blob);
  if (!entry) return MBLOB_E_MEMORY;
  entry->item_offset = item;
  if (mb_slice_is(key, MB_LIB_KEY)) {
    entry->key = classic_library_key;
    entry->library = true;
    return MBLOB_OK;
  }
  entry->key = key;
  entry->offset = c->pos;
  if (measure) *last = (struct measured){key, c->entry};
  int status = measure ? take_measured(c, measures, measure, blob->entry_count, following, last)
                       : mb_payload_walk(key, c, blob->dialect, NULL);
  entry->size = c->pos - entry->offset;
  return status;
}

/* A key, and the loader that measures its payload; *known: the format, or a grammar, does.
 * `last`: the item before. */
static int next_stream_key(struct mb_cursor *c, enum mb_dialect dialect,
                           const struct mb_measures *measures, const struct measured *last,
                           struct mb_slice *key, struct mb_measure *measure, bool *known) {
  uint64_t start = c->pos;
  char why[160] = "";
  if (!mb_read_key(c, key, "key"))
    return last->key.data ? layout_error(last, start, mblob_last_error_info()->message)
                          : MBLOB_E_FORMAT;
  *known = mb_slice_is(*key, MB_TREE_KEY) || mb_slice_is(*key, MB_LIB_KEY) ||
           mb_payload_is_known(*key, dialect);
  if (*known || (measures && measures->find(measures->self, *key, measure))) return MBLOB_OK;
  if (last->key.data)
    (void)snprintf(why, sizeof(why), " (or '%.*s' before it ends elsewhere)",
                   (int)(last->key.size < 64 ? last->key.size : 64), (const char *)last->key.data);
  return mb_fail_unknown_key(*key, c, why);
}

int mb_stream_read(struct mb_blob *blob, const struct mb_measures *measures) {
  struct mb_cursor c = {blob->bytes, 8, blob->size, MB_UNKNOWN};
  struct mb_measure measure;
  struct measured last = {0};
  uint64_t count = 0;
  if (!mb_read_count(&c, &count, 8, "blob.count")) return MBLOB_E_FORMAT;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t item = c.pos;
    struct mb_slice key;
    bool known = false;
    c.entry = (int64_t)i;
    int status = next_stream_key(&c, blob->dialect, measures, &last, &key, &measure, &known);
    if (status) return status;
    last.key.data = NULL;
    if (blob->row_ptr)
      return mb_fail_format("tree_last", (int64_t)item, (int64_t)i,
                            "item %llu ('%.*s') follows the import tree, which must be last",
                            (unsigned long long)i, (int)(key.size < 64 ? key.size : 64),
                            (const char *)key.data);
    status = mb_slice_is(key, MB_TREE_KEY)
                 ? read_classic_tree(blob, &c)
                 : read_item(blob, &c, key, item, measures, known ? NULL : &measure, count - 1 - i,
                             &last);
    if (status) return status;
  }
  if (last.key.data && mb_left(&c))
    return layout_error(&last, c.pos, "bytes are left behind it, and there is no further item");
  blob->stream_size = c.pos;
  return blob->row_ptr ? MBLOB_OK : imply_library(blob);
}

/* ---- stream against index -------------------------------------------------------------------- */

static int differs_in_classic(const struct mb_cursor *c, const char *what) {
  return mb_fail_format("index_damaged", (int64_t)c->pos, c->entry,
                        "the stream has %s, the index says otherwise", what);
}

static int compare_tree(const struct mb_blob *blob, struct mb_cursor *c, uint64_t listed) {
  uint64_t *row_ptr = NULL, *child = NULL, row_count = 0, child_count = 0;
  struct mb_slice key;
  int status = MBLOB_OK;
  if (!mb_read_key(c, &key, "key")) return MBLOB_E_FORMAT;
  if (!mb_slice_is(key, MB_TREE_KEY)) return differs_in_classic(c, "no import tree");
  if (!mb_read_u64s(c, &row_ptr, &row_count, "row_ptr") ||
      !mb_read_u64s(c, &child, &child_count, "child"))
    status = mblob_last_error_info()->status;
  if (!status)
    status = mb_tree_check(row_ptr, row_count, child, child_count, listed, (int64_t)c->pos);
  if (!status && (listed != blob->entry_count || child_count != blob->child_count ||
                  memcmp(row_ptr, blob->row_ptr, mb_size(row_count * sizeof(uint64_t))) != 0 ||
                  memcmp(child, blob->child, mb_size(child_count * sizeof(uint64_t))) != 0))
    status = differs_in_classic(c, "another import tree");
  free(row_ptr);
  free(child);
  return status;
}

/* Check that the stream, which TVM reads, says what the index says. */
int mb_stream_compare(const struct mb_blob *blob) {
  struct mb_cursor c = {blob->bytes, 8, blob->stream_size, MB_UNKNOWN};
  uint64_t count = 0, listed = 0;
  for (uint64_t i = 0; i < blob->entry_count; i++)
    listed += mb_blob_entry(blob, i).item_offset != 0;
  if (!mb_read_u64(&c, &count, "blob.count")) return MBLOB_E_FORMAT;
  if (count != listed && count != listed + 1)
    return differs_in_classic(&c, "another number of items");
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    const struct mb_entry entry = mb_blob_entry(blob, i), *e = &entry;
    struct mb_slice key;
    if (!e->item_offset) continue;
    c.entry = (int64_t)i;
    if (e->item_offset != c.pos) return differs_in_classic(&c, "this item elsewhere");
    if (!mb_read_key(&c, &key, "key")) return MBLOB_E_FORMAT;
    bool same = e->library ? mb_slice_is(key, MB_LIB_KEY)
                           : key.size == e->key.size &&
                                 memcmp(key.data, e->key.data, mb_size(key.size)) == 0;
    if (!same) return differs_in_classic(&c, "another key");
    if (e->bulk && e->offset < blob->stream_size)
      return differs_in_classic(&c, "a payload that the index places behind it");
    if (e->bulk || e->library) continue;
    if (e->offset != c.pos) return differs_in_classic(&c, "its payload here");
    if (!mb_skip(&c, e->size, "payload")) return MBLOB_E_FORMAT;
  }
  c.entry = MB_UNKNOWN;
  if ((count > listed) != blob->has_tree)
    return differs_in_classic(&c, count > listed ? "an import tree" : "no import tree");
  int status = count > listed ? compare_tree(blob, &c, listed) : MBLOB_OK;
  if (!status && mb_left(&c)) status = differs_in_classic(&c, "bytes after its last item");
  return status;
}
