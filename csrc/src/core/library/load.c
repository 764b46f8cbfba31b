/* The steps of opening a library: read its file, have it linked, and make its tree of modules. */
#define _GNU_SOURCE
#include "base/base.h"
#include "core/library/library.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

/* ---- reading the file ------------------------------------------------------------------------ */

/* Find the blob's bytes in the file; `out` is empty if there is no blob. */
static int find_file_blob(struct mb_library *library, struct mb_slice *out, ElfW(Sym) * symbol) {
  static const struct {
    const char *symbol;
    enum mb_dialect dialect;
  } blobs[] = {{"__tvm_dev_mblob", MB_CLASSIC},
               {"__tvm_ffi__library_bin", MB_FFI},
               {"__tvm_ffi_library_bin", MB_FFI_OF_0_21}};
  *out = (struct mb_slice){NULL, 0};
  library->index_expected = mb_elf_announced(&library->elf).flags & MB_NOTE_HAS_INDEX;
  library->has_blob = false;
  library->blob_symbol = NULL;
  for (size_t i = 0; i < sizeof(blobs) / sizeof(*blobs); i++) {
    if (!mb_elf_find(&library->elf, blobs[i].symbol, symbol)) continue;
    library->has_blob = true;
    library->blob_symbol = blobs[i].symbol;
    library->blob_dialect = blobs[i].dialect;
    return mb_elf_object(&library->elf, symbol, blobs[i].symbol, out);
  }
  if (library->index_expected)
    return mb_fail_format("index_footer", MB_UNKNOWN, MB_UNKNOWN,
                          "its note announces a blob with an index, but there is no symbol %s",
                          blobs[0].symbol);
  return MBLOB_OK;
}

static int read_function_table(struct mb_library *library) {
  ElfW(Sym) symbol;
  struct mb_slice bytes;
  struct mb_announced said = mb_elf_announced(&library->elf);
  const uint32_t *crc = said.flags & MB_NOTE_HAS_TABLE ? &said.table_crc : NULL;
  if (!mb_elf_find(&library->elf, MB_FUNCTION_TABLE_SYMBOL, &symbol))
    return crc ? mb_function_table_missing("note") : MBLOB_OK;
  int status = mb_elf_object(&library->elf, &symbol, MB_FUNCTION_TABLE_SYMBOL, &bytes);
  return status ? status : mb_function_table_read(bytes, crc, &library->table);
}

/* ---- one opening ----------------------------------------------------------------------------- */

/* One whose modules have the loaders that its opening asks for. */
static int make_tree(struct mb_library *library, const struct mb_blob *blob, const uint8_t *bytes,
                     const mblob_open_options *options, struct mb_tree **out) {
  struct mb_tree *tree = NULL;
  int status = mb_tree_new(library, blob, bytes, options, &tree);
  if (!status) status = mb_tree_check_loaders(tree);
  if (!status)
    *out = tree;
  else if (tree)
    mb_tree_free(tree);
  return status;
}

/* A tree that nobody holds and that serves an opening with these options; NULL if there is none. */
static struct mb_tree *idle_tree(struct mb_library *library, const mblob_open_options *options) {
  mb_lock(&library->lock);
  struct mb_tree *tree = library->trees;
  while (tree && !mb_tree_take_over(tree, options)) tree = tree->next;
  mb_unlock(&library->lock);
  return tree;
}

static void install_tree(struct mb_library *library, struct mb_tree *tree, mblob_module **out) {
  mb_lock(&library->lock);
  tree->next = library->trees;
  library->trees = tree;
  mb_unlock(&library->lock);
  *out = &tree->modules[0];
}

static int add_tree(struct mb_library *library, const struct mb_blob *blob,
                    const mblob_open_options *options, mblob_module **out) {
  struct mb_tree *tree = idle_tree(library, options);
  int status = MBLOB_OK;
  if (tree) {
    status = mb_tree_check_loaders(tree);
    if (status)
      atomic_fetch_sub(&tree->users, 1);
    else
      *out = &tree->modules[0];
    return status;
  }
  status = make_tree(library, blob, library->blob, options, &tree);
  if (!status) install_tree(library, tree, out);
  return status;
}

static int read_library_blob(struct mb_library *library, const uint8_t *bytes, uint64_t size,
                             const mblob_open_options *options, struct mb_blob *out) {
  const struct mb_opening_loaders loaders = {library, options};
  return mb_blob_read(bytes, size, library->blob_dialect, library->index_expected, options->verify,
                      &(struct mb_measures){mb_opening_measure, mb_run_measure, &loaders}, out);
}

/* `bytes` and `symbol`: of the blob, if there is one. */
static int read_library(struct mb_library *library, const mblob_open_options *options,
                        struct mb_slice *bytes, ElfW(Sym) * symbol, struct mb_tree **out) {
  struct mb_blob blob = {0};
  if (options->verify != MBLOB_VERIFY_FULL) mb_source_advise_random(&library->source);
  int status = mb_elf_read(library->source.bytes, library->source.size, &library->elf);
  if (!status) status = find_file_blob(library, bytes, symbol);
  if (!status) status = mb_carried_read(library);
  if (!status && library->has_blob)
    status = read_library_blob(library, bytes->data, bytes->size, options, &blob);
  if (!status) status = read_function_table(library);
  /* The tree is built on the file's mapping first: that tells of loaders that are missing before
   * any code runs. */
  if (!status)
    status = make_tree(library, library->has_blob ? &blob : NULL, bytes->data, options, out);
  mb_blob_free(&blob);
  if (!status) mb_ffi_recognize(library);
  return status;
}

int mb_library_read(struct mb_library *library, const mblob_open_options *options,
                    struct mb_tree **out) {
  struct mb_slice bytes;
  ElfW(Sym) symbol;
  return read_library(library, options, &bytes, &symbol, out);
}

int mb_library_load(struct mb_library *library, const mblob_open_options *options,
                    mblob_module **out) {
  struct mb_slice bytes;
  ElfW(Sym) symbol;
  struct mb_tree *tree = NULL;
  int status = read_library(library, options, &bytes, &symbol, &tree);
  if (!status && library->dialect != MB_CLASSIC)
    status = mb_plugin_convention(&library->convention);
  if (!status) status = mb_library_link(library, mb_open);
  if (status) {
    if (tree) mb_tree_free(tree);
    return status;
  }
  if (library->has_blob) {
    library->blob = (const uint8_t *)(library->base + symbol.st_value);
    library->blob_size = symbol.st_size;
    mb_tree_move(tree, bytes.data, library->blob);
  }
  install_tree(library, tree, out);
  (void)mb_plugin_carried_devices(library, 0); /* told when the device is asked for */
  return MBLOB_OK;
}

int mb_library_add_tree(struct mb_library *library, const mblob_open_options *options,
                        mblob_module **out) {
  struct mb_blob blob = {0};
  int status = library->has_blob
                   ? read_library_blob(library, library->blob, library->blob_size, options, &blob)
                   : MBLOB_OK;
  if (!status) status = add_tree(library, library->has_blob ? &blob : NULL, options, out);
  mb_blob_free(&blob);
  return status;
}
