/* The index behind the stream (docs/format.md, section 4): found from its end, checked before it is
 * believed. */
#include <stdlib.h>

#include "base/base.h"
#include "format/blob.h"

#define FOOTER_SIZE 64
#define HEADER_SIZE 64
#define RECORD_SIZE 80
#define INDEX_VERSION 1
#define SMALL \
  (256u << 10) /* bytes of payload up to which MBLOB_VERIFY_HEADER checks all that FULL does */

enum { NO_TREE = 1 };      /* flag of the header */
enum { DIGEST_ROOM = 32 }; /* in a record */
static const uint8_t DIGEST_SIZES[MB_DIGEST_COUNT] = {
    [MB_DIGEST_NONE] = 0, [MB_DIGEST_CRC32] = 4, [MB_DIGEST_SHA256] = 32};
enum { IS_LIBRARY = 1, IS_DATA = 2, IS_BULK = 4 }; /* flags of a record */

typedef unsigned long long ull;

/* Where the parts of the index lie; offsets count from its first byte. */
struct layout {
  const uint8_t *raw;
  uint64_t size, count, children, tree_at, strings_at, strings_size;
  uint64_t base; /* offset of the index in the blob */
};

#define damaged(l, entry, ...) \
  mb_fail_format("index_damaged", (int64_t)(l)->base, entry, "index: " __VA_ARGS__)

/* ---- footer ---------------------------------------------------------------------------------- */

static int footer_error(uint64_t at, const char *code, const char *text) {
  return mb_fail_format(code, (int64_t)at, MB_UNKNOWN, "index: %s", text);
}

/* Sets `*found`; the footer's numbers go to `l` and the blob. */
static int read_footer(struct mb_blob *blob, bool expected, struct layout *l, uint32_t *index_crc,
                       bool *found) {
  /* the same in all versions */
  static const char magic[] = "mblob index v1\r\n";
  uint64_t at = blob->size < FOOTER_SIZE ? 0 : blob->size - FOOTER_SIZE;
  const uint8_t *f = blob->bytes + at;
  *found = at >= 8 && memcmp(f + 48, magic, 16) == 0;
  if (!*found)
    return expected
               ? footer_error(at, "index_footer",
                              "its footer is missing or damaged; the file was written with one")
               : MBLOB_OK;
  if (mb_u32_at(f + 44) != mb_crc32(0, f, 44))
    return footer_error(at, "index_footer", "the checksum of its footer is wrong");
  if (mb_u32_at(f + 24) != INDEX_VERSION)
    return mb_fail_format("index_version", (int64_t)at, MB_UNKNOWN,
                          "index: version %u, this reader knows %d", mb_u32_at(f + 24),
                          INDEX_VERSION);
  if (mb_u32_at(f + 28) || mb_u32_at(f + 40))
    return footer_error(at, "index_footer",
                        "its footer has flags or reserved bytes that are not known");
  if (mb_u64_at(f + 16) != blob->size)
    return footer_error(at, "index_footer", "its footer tells another size of the blob");
  l->base = mb_u64_at(f);
  l->size = mb_u64_at(f + 8);
  if (l->base % 8 || l->base > at || l->size != at - l->base)
    return footer_error(at, "index_footer", "its footer points elsewhere");
  l->raw = blob->bytes + l->base;
  *index_crc = mb_u32_at(f + 32);
  blob->structure_crc = mb_u32_at(f + 36);
  blob->index_offset = l->base;
  blob->has_index = true;
  return MBLOB_OK;
}

/* ---- header and tables ----------------------------------------------------------------------- */

static int read_index_header(struct mb_blob *blob, struct layout *l) {
  if (l->size < HEADER_SIZE)
    return damaged(l, MB_UNKNOWN, "%llu bytes, its header alone has %d", (ull)l->size, HEADER_SIZE);
  const uint8_t *h = l->raw;
  uint32_t version = mb_u32_at(h), algorithm = mb_u32_at(h + 8);
  if (version != INDEX_VERSION || algorithm >= MB_DIGEST_COUNT ||
      mb_u32_at(h + 12) != DIGEST_SIZES[algorithm])
    return damaged(l, MB_UNKNOWN, "version %u with digests %u of %u bytes is not known", version,
                   algorithm, mb_u32_at(h + 12));
  if (mb_u32_at(h + 4) & ~(uint32_t)NO_TREE)
    return damaged(l, MB_UNKNOWN, "flags %#x are not known", mb_u32_at(h + 4));
  blob->has_tree = !(mb_u32_at(h + 4) & NO_TREE);
  blob->digest_algorithm = (int)algorithm;
  blob->stream_size = mb_u64_at(h + 16);
  l->count = mb_u64_at(h + 24);
  l->children = mb_u64_at(h + 32);
  l->strings_size = mb_u64_at(h + 40);
  /* Each limit is compared before the product that it bounds. */
  uint64_t left = l->size - HEADER_SIZE;
  if (l->count < 1 || l->count > left / RECORD_SIZE || l->children > left / 8)
    return damaged(l, MB_UNKNOWN, "%llu records and %llu imports do not fit %llu bytes",
                   (ull)l->count, (ull)l->children, (ull)left);
  l->tree_at = HEADER_SIZE + l->count * RECORD_SIZE;
  uint64_t tree_size = 8 * (l->count + 1) + 8 * l->children;
  if (tree_size > l->size - l->tree_at || l->strings_size != l->size - l->tree_at - tree_size)
    return damaged(l, MB_UNKNOWN,
                   "%llu records, %llu imports, %llu bytes of names make no %llu bytes",
                   (ull)l->count, (ull)l->children, (ull)l->strings_size, (ull)l->size);
  l->strings_at = l->tree_at + tree_size;
  if (blob->stream_size < 16 || blob->stream_size > l->base)
    return damaged(l, MB_UNKNOWN, "the stream has %llu bytes, expected 16 to %llu",
                   (ull)blob->stream_size, (ull)l->base);
  return MBLOB_OK;
}

static int read_index_tree(struct mb_blob *blob, const struct layout *l) {
  const uint8_t *p = l->raw + l->tree_at;
  const uint64_t count = l->count + 1 + l->children;
  if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && (uintptr_t)p % sizeof(uint64_t) == 0) {
    blob->row_ptr = (const uint64_t *)(const void *)p;
  } else {
    blob->row_ptr = blob->row_memory = malloc(mb_size(count * sizeof(uint64_t)));
    if (!blob->row_memory) return mb_fail_memory(mb_size(count * sizeof(uint64_t)));
    for (uint64_t i = 0; i < count; i++, p += 8) blob->row_memory[i] = mb_u64_at(p);
  }
  blob->child = blob->row_ptr + l->count + 1;
  blob->child_count = l->children;
  return mb_tree_check(blob->row_ptr, l->count + 1, blob->child, l->children, l->count,
                       (int64_t)(l->base + l->tree_at));
}

/* ---- records --------------------------------------------------------------------------------- */

static int read_key_name(const struct layout *l, const uint8_t *place, int64_t entry,
                         struct mb_slice *out) {
  uint64_t offset = mb_u32_at(place), size = mb_u32_at(place + 4);
  if (size > l->strings_size || offset > l->strings_size - size)
    return damaged(l, entry, "a name of %llu bytes at %llu lies outside %llu bytes of names",
                   (ull)size, (ull)offset, (ull)l->strings_size);
  *out = (struct mb_slice){l->raw + l->strings_at + offset, size};
  if (size && memchr(out->data, 0, mb_size(size)))
    return damaged(l, entry, "a name has a NUL byte");
  if (!mb_is_utf8(out->data, size)) return damaged(l, entry, "a name is not UTF-8");
  return MBLOB_OK;
}

/* True if a digest has bytes behind its own, or belongs to a library, which has none. */
static bool has_stray_digest(const struct mb_blob *blob, const struct mb_entry *e) {
  static const uint8_t nothing[DIGEST_ROOM];
  size_t size = e->library ? 0 : DIGEST_SIZES[blob->digest_algorithm];
  return memcmp(e->digest + size, nothing, sizeof(nothing) - size) != 0;
}

struct mb_entry mb_index_entry(const struct mb_blob *blob, uint64_t i) {
  const uint8_t *r = blob->records + i * RECORD_SIZE;
  uint32_t flags = mb_u32_at(r + 24);
  return (struct mb_entry){.key = {blob->names + mb_u32_at(r + 16), mb_u32_at(r + 20)},
                           .offset = mb_u64_at(r),
                           .size = mb_u64_at(r + 8),
                           .item_offset = mb_u64_at(r + 64),
                           .digest = r + 32,
                           .alignment = mb_u32_at(r + 28),
                           .library = flags & IS_LIBRARY,
                           .data = flags & IS_DATA,
                           .bulk = flags & IS_BULK};
}

static int check_record(const struct mb_blob *blob, const struct layout *l, uint64_t i,
                        bool *library) {
  const uint8_t *r = blob->records + i * RECORD_SIZE;
  uint32_t key_size = mb_u32_at(r + 20), flags = mb_u32_at(r + 24);
  int64_t entry = (int64_t)i;
  struct mb_slice key;
  if (key_size < 1 || key_size > MB_KEY_LIMIT)
    return damaged(l, entry, "a type key of %u bytes, expected 1 to %d", key_size, MB_KEY_LIMIT);
  int status = read_key_name(l, r + 16, entry, &key);
  if (status) return status;
  const struct mb_entry found = mb_index_entry(blob, i), *e = &found;
  *library = e->library;
  if (e->library != mb_slice_is(e->key, MB_KEY_LIBRARY) || (e->library && (e->offset || e->size)))
    return damaged(l, entry, "its type key, its flags %u and its %llu bytes at %llu do not agree",
                   flags, (ull)e->size, (ull)e->offset);
  if (!e->library && (e->offset < 16 || e->offset > l->base || e->size > l->base - e->offset))
    return damaged(l, entry, "a payload of %llu bytes at %llu lies outside 16..%llu", (ull)e->size,
                   (ull)e->offset, (ull)l->base);
  if (flags & ~(uint32_t)(IS_LIBRARY | IS_DATA | IS_BULK) || mb_u64_at(r + 72))
    return damaged(l, entry, "a record has flags %#x or reserved bytes that are not known", flags);
  if (has_stray_digest(blob, e))
    return damaged(l, entry, "a record has more digest than its algorithm gives");
  if (e->alignment < 1 || (e->alignment & (e->alignment - 1)))
    return damaged(l, entry, "alignment %u is no power of two", e->alignment);
  if (e->item_offset && (e->item_offset < 16 || e->item_offset > blob->stream_size))
    return damaged(l, entry, "its item at %llu lies outside the stream of %llu bytes",
                   (ull)e->item_offset, (ull)blob->stream_size);
  return MBLOB_OK;
}

static int check_records(struct mb_blob *blob, const struct layout *l) {
  uint64_t libraries = 0;
  struct mb_slice ignored;
  blob->records = l->raw + HEADER_SIZE;
  blob->names = l->raw + l->strings_at;
  blob->entry_count = l->count;
  for (uint64_t i = 0; i < l->count; i++) {
    bool library = false;
    int status = check_record(blob, l, i, &library);
    if (status) return status;
    libraries += library;
  }
  if (blob->has_tree && libraries > 1) return damaged(l, MB_UNKNOWN, "more than one library");
  int status = read_key_name(l, l->raw + 48, MB_UNKNOWN, &ignored);             /* target */
  return status ? status : read_key_name(l, l->raw + 56, MB_UNKNOWN, &ignored); /* producer */
}

/* Reads the index if there is one. `check`: its checksum as well, not only its bounds. */
int mb_index_find(struct mb_blob *blob, bool expected, bool check) {
  struct layout l = {0};
  uint32_t crc = 0;
  bool found = false;
  int status = read_footer(blob, expected, &l, &crc, &found);
  if (status || !found) return status;
  if (l.size > MB_SOURCE_ENDS) mb_source_prefetch(l.raw, mb_size(l.size));
  if (check && mb_crc32(0, l.raw, l.size) != crc)
    return damaged(&l, MB_UNKNOWN, "its checksum is wrong");
  status = read_index_header(blob, &l);
  if (!status) status = read_index_tree(blob, &l);
  return status ? status : check_records(blob, &l);
}

/* ---- digests --------------------------------------------------------------------------------- */

bool mb_index_is_small(const struct mb_blob *blob) {
  uint64_t left = SMALL;
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    uint64_t size = mb_index_entry(blob, i).size;
    if (size > left) return false;
    left -= size;
  }
  return true;
}

/* True if a payload has the digest of its record; of an algorithm without one it has. */
static bool has_digest(const uint8_t *payload, const struct mb_entry *e, int algorithm) {
  uint8_t digest[DIGEST_ROOM];
  switch (algorithm) {
    case MB_DIGEST_CRC32: return mb_crc32(0, payload, e->size) == mb_u32_at(e->digest);
    case MB_DIGEST_SHA256:
      mb_sha256(payload, e->size, digest);
      return memcmp(digest, e->digest, sizeof(digest)) == 0;
  }
  return algorithm == MB_DIGEST_NONE;
}

int mb_index_check_payloads(const struct mb_blob *blob) {
  if (blob->digest_algorithm == MB_DIGEST_NONE) return MBLOB_OK;
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    const struct mb_entry entry = mb_index_entry(blob, i), *e = &entry;
    if (e->library) continue;
    if (!has_digest(blob->bytes + e->offset, e, blob->digest_algorithm))
      return mb_fail_digest(
          (int64_t)i,
          "entry %llu (%.*s): %llu bytes at %llu differ from their digest: the file is damaged",
          (ull)i, (int)(e->key.size < 64 ? e->key.size : 64), (const char *)e->key.data,
          (ull)e->size, (ull)e->offset);
  }
  return MBLOB_OK;
}

struct piece {
  uint64_t offset, size, entry;
};

static int by_offset(const void *a, const void *b) {
  const struct piece *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static int check_pieces(const struct mb_blob *blob, const struct piece *sorted, uint64_t count) {
  uint64_t at = 0;
  uint32_t crc = 0;
  for (uint64_t i = 0; i < count; i++) {
    const struct piece *e = &sorted[i];
    if (e->offset < at)
      return mb_fail_format(
          "index_damaged", (int64_t)e->offset, (int64_t)e->entry,
          "index: the payload at %llu overlaps the one before it, which ends at %llu",
          (ull)e->offset, (ull)at);
    crc = mb_crc32(crc, blob->bytes + at, e->offset - at);
    at = e->offset + e->size;
  }
  crc = mb_crc32(crc, blob->bytes + at, blob->index_offset - at);
  if (crc == blob->structure_crc) return MBLOB_OK;
  return mb_fail_digest(
      MB_UNKNOWN, "structure: checksum %08x, expected %08x: keys or the import tree are damaged",
      crc, blob->structure_crc);
}

/* Compare the bytes outside payloads with their checksum. */
int mb_index_check_structure(const struct mb_blob *blob) {
  struct piece *sorted = malloc(mb_size(blob->entry_count * sizeof(*sorted)));
  if (!sorted) return mb_fail_memory(mb_size(blob->entry_count * sizeof(*sorted)));
  uint64_t count = 0;
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    struct mb_entry e = mb_index_entry(blob, i);
    if (!e.library && e.size) sorted[count++] = (struct piece){e.offset, e.size, i};
  }
  qsort(sorted, mb_size(count), sizeof(*sorted), by_offset);
  int status = check_pieces(blob, sorted, count);
  free(sorted);
  return status;
}
