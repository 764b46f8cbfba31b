/* blob_dump [--level off|header|full] [--dialect classic|0.21|ffi] [--index-expected] FILE... :
 * what the C reader finds in each blob, one line of JSON per file, so that it can be compared
 * with the Python reader's. */
#include <stdlib.h>

#include "format/blob.h"
#include "../common/check.h"
#include "base/error.h"

static void print_string(struct mb_slice s) {
  putchar('"');
  for (uint64_t i = 0; i < s.size; i++) {
    unsigned char c = s.data[i];
    if (c == '"' || c == '\\' || c < 32)
      printf("\\u%04x", c);
    else
      putchar(c);
  }
  putchar('"');
}

static void print_blob(const struct mb_blob *blob) {
  printf("{\"entries\": [");
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    const struct mb_entry entry = mb_blob_entry(blob, i), *e = &entry;
    printf("%s{\"type_key\": ", i ? ", " : "");
    print_string(e->key);
    if (e->library)
      printf(", \"offset\": null");
    else
      printf(", \"offset\": %llu", (unsigned long long)e->offset);
    printf(", \"size\": %llu}", (unsigned long long)e->size);
  }
  printf("], \"imports\": [");
  for (uint64_t i = 0; i < blob->entry_count; i++) {
    printf("%s[", i ? ", " : "");
    for (uint64_t k = blob->row_ptr[i]; k < blob->row_ptr[i + 1]; k++)
      printf("%s%llu", k > blob->row_ptr[i] ? ", " : "", (unsigned long long)blob->child[k]);
    printf("]");
  }
  printf("]}\n");
}

static void print_error(void) {
  const mblob_error_info *info = mblob_last_error_info();
  printf("{\"code\": \"%s\", \"offset\": ", info->status == MBLOB_E_DIGEST ? "digest" : info->code);
  if (info->offset < 0)
    printf("null");
  else
    printf("%lld", (long long)info->offset);
  if (info->entry >= 0) printf(", \"entry\": %lld", (long long)info->entry);
  printf("}\n");
}

static void dump(const char *path, int level, bool expected, enum mb_dialect dialect) {
  FILE *file = fopen(path, "rb");
  CHECK(file);
  CHECK(fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  CHECK(size >= 0);
  rewind(file);
  uint8_t *bytes =
      malloc(size ? (size_t)size : 1); /* exactly as large: a reader beyond the end is caught */
  CHECK(bytes);
  CHECK(fread(bytes, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  struct mb_blob blob;
  if (mb_blob_read(bytes, (uint64_t)size, dialect, expected, level, NULL, &blob))
    print_error();
  else
    print_blob(&blob);
  mb_blob_free(&blob);
  free(bytes);
}

int main(int argc, char **argv) {
  int level = MBLOB_VERIFY_HEADER;
  bool expected = false;
  enum mb_dialect dialect = MB_CLASSIC;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--level") == 0 && i + 1 < argc) {
      i++;
      level = strcmp(argv[i], "off") == 0    ? MBLOB_VERIFY_OFF
              : strcmp(argv[i], "full") == 0 ? MBLOB_VERIFY_FULL
                                             : MBLOB_VERIFY_HEADER;
    } else if (strcmp(argv[i], "--dialect") == 0 && i + 1 < argc) {
      i++;
      dialect = strcmp(argv[i], "ffi") == 0    ? MB_FFI
                : strcmp(argv[i], "0.21") == 0 ? MB_FFI_OF_0_21
                                               : MB_CLASSIC;
    } else if (strcmp(argv[i], "--index-expected") == 0) {
      expected = true;
    } else {
      dump(argv[i], level, expected, dialect);
    }
  }
  return 0;
}
