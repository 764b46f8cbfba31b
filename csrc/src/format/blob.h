/* blob.h - what a blob says: the reader of docs/format.md, over a pointer and a size.
 *
 * Nothing here opens files, and nothing is copied but the tables that modules are made from.
 * Memory is bounded by a constant times the size of the blob. */
#ifndef MB_BLOB_H
#define MB_BLOB_H

#include <mblob.h>

#include "base/base.h"

/* The dialects, by release: how a blob is laid out, and how functions of a library are called. */
enum mb_dialect {
  MB_CLASSIC,     /* TVM up to 0.20 */
  MB_FFI_OF_0_21, /* the stream of before, with other payloads */
  MB_FFI          /* TVM 0.22 and later */
};

/* The key of the library, as a slice. */
#define MB_LIBRARY_SLICE {(const uint8_t *)MB_KEY_LIBRARY, sizeof(MB_KEY_LIBRARY) - 1}

enum { MB_DIGEST_NONE = 0, MB_DIGEST_CRC32 = 1, MB_DIGEST_SHA256 = 2, MB_DIGEST_COUNT };

struct mb_entry {
  struct mb_slice key;   /* in the blob; MB_KEY_LIBRARY for the library */
  uint64_t offset;       /* of the payload; 0 for a library */
  uint64_t size;         /* of the payload */
  uint64_t item_offset;  /* where its item starts in the stream, 0 if it has none */
  const uint8_t *digest; /* in the index, NULL without one */
  uint32_t alignment;
  bool library, data;
  bool bulk; /* the payload lies behind the stream, which holds only its key */
};

struct mb_blob {
  const uint8_t *bytes;
  uint64_t size; /* of the blob, length prefix included; at most the size of the symbol */
  enum mb_dialect dialect;
  uint64_t stream_size;
  uint64_t entry_count; /* see mb_blob_entry */
  struct mb_entry
      *entries; /* from the stream; NULL with an index, whose records are read where they are */
  uint64_t entry_capacity;
  const uint8_t *records, *names; /* of the index */
  /* entry_count + 1: imports of entry i are child[row_ptr[i]] .. child[row_ptr[i + 1] - 1] */
  const uint64_t *row_ptr, *child;
  uint64_t *row_memory, *child_memory; /* owned, where these two are not in the blob itself */
  uint64_t child_count;
  bool has_index;
  bool has_tree; /* the stream has an import tree (with an index) */
  uint64_t index_offset;
  uint32_t structure_crc;
  int digest_algorithm;
};

#define MB_LAYOUT_SIZE 256 /* bytes of the text of a layout, its NUL included */

/* Where payloads of a key without a grammar end, as its loader tells: `measure` if it is not NULL,
 * else `layout`, which is "rest" if the loader tells nothing. */
struct mb_measure {
  char layout[MB_LAYOUT_SIZE];
  int (*measure)(void *context, const void *bytes, size_t size, size_t *out);
  void *context;
};
/* Who knows loaders. */
struct mb_measures {
  /* false if nobody has one for the key */
  bool (*find)(const void *self, struct mb_slice key, struct mb_measure *out);
  /* Calls `measure` and moves the cursor behind the payload; what it throws is caught there. */
  bool (*run)(const struct mb_measure *measure, struct mb_cursor *c);
  const void *self;
};

/* Read the blob in `size` bytes at `bytes` (the symbol's st_size). `index_expected`: the
 * library's note says that there is an index. `verify` is a mblob_verify. On failure `out` is
 * empty. `measures` may be NULL. */
int mb_blob_read(const uint8_t *bytes, uint64_t size, enum mb_dialect dialect, bool index_expected,
                 int verify, const struct mb_measures *measures, struct mb_blob *out);
void mb_blob_free(struct mb_blob *blob);
/* Entry i of a blob that was read. */
struct mb_entry mb_blob_entry(const struct mb_blob *blob, uint64_t i);

/* Parts of the reader. */
int mb_stream_read(struct mb_blob *blob, const struct mb_measures *measures);
int mb_stream_compare(const struct mb_blob *blob);
/* The same two of MB_FFI. */
int mb_modules_read(struct mb_blob *blob);
int mb_modules_compare(const struct mb_blob *blob);
/* Hold each payload of MB_FFI against the grammar of its kind. */
int mb_modules_check(const struct mb_blob *blob);
int mb_index_find(struct mb_blob *blob, bool expected, bool check);
struct mb_entry mb_index_entry(const struct mb_blob *blob, uint64_t i);
int mb_index_check_payloads(const struct mb_blob *blob);
int mb_index_check_structure(const struct mb_blob *blob);
bool mb_index_is_small(const struct mb_blob *blob);
struct mb_tensors;
/* Move the cursor behind the payload of `key`. With `arrays`, which is empty, it gets the arrays that
 * have names, by name: parameters of graphs, constants; those of an unknown key are none. It is to
 * be freed after an error, too. */
int mb_payload_walk(struct mb_slice key, struct mb_cursor *c, enum mb_dialect dialect,
                    struct mb_tensors *arrays);
/* "unknown_key" where the cursor is. `why`: behind the reason, for those who have a loader. */
int mb_fail_unknown_key(struct mb_slice key, const struct mb_cursor *c, const char *why);
bool mb_payload_is_known(struct mb_slice key, enum mb_dialect dialect);
/* MBLOB_E_ARGUMENT if it is no layout (docs/format.md, section 3.4), or too long. */
int mb_layout_check(const char *layout);
/* Move the cursor behind what a layout that was checked says. `*rest`: all that is left, too. */
bool mb_layout_walk(const char *layout, struct mb_cursor *c, bool *rest);
/* For Python: how many bytes at the start of `bytes` a layout covers. */
MBLOB_API int mblob_layout_measure(const char *layout, const void *bytes, size_t size, size_t *out,
                                   int *rest);
/* A u64 count and that many u64, copied to the heap. The numbers are in the blob, so what is
 * allocated is no larger. */
bool mb_read_u64s(struct mb_cursor *c, uint64_t **out, uint64_t *count, const char *what);
int mb_tree_check(const uint64_t *row_ptr, uint64_t row_count, const uint64_t *child,
                  uint64_t child_count, uint64_t modules, int64_t offset);
struct mb_entry *mb_blob_add(struct mb_blob *blob);

#endif
