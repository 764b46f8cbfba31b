/* Modules and trees: made from what a blob says, walked without recursion. */
#define _GNU_SOURCE

#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"
#include "format/format.h"

/* ---- making a tree --------------------------------------------------------------------------- */

/* The list grows when it has a power of two; there is room for the next one at the least. */
static size_t room_for(size_t count) {
  size_t room = 1;
  while (room < count) room *= 2;
  return room;
}

static bool add_import(mblob_module *module, mblob_module *child) {
  size_t count = module->import_count;
  if (!(count & (count - 1))) {
    size_t size = room_for(count + 1) * sizeof(*module->imports);
    mblob_module **grown = realloc(module->imports, size);
    if (!grown) {
      (void)mb_fail_memory(size);
      return false;
    }
    module->imports = grown;
  }
  module->imports[module->import_count++] = child;
  return true;
}

static int copy_loaders(struct mb_tree *tree, const mblob_open_options *options) {
  tree->loaders = calloc(options->loader_count ? options->loader_count : 1, sizeof(*tree->loaders));
  if (!tree->loaders) return mb_fail_memory(options->loader_count * sizeof(*tree->loaders));
  for (; tree->loader_count < options->loader_count; tree->loader_count++) {
    int status =
        mb_loader_copy(options->loaders[tree->loader_count], &tree->loaders[tree->loader_count]);
    if (status) return status;
  }
  return MBLOB_OK;
}

static struct mb_entry entry_at(const struct mb_blob *blob, size_t i) {
  const struct mb_entry bare = {.key = MB_LIBRARY_SLICE, .library = true};
  return blob ? mb_blob_entry(blob, i) : bare;
}

/* Keys are parts of a mapped file, so their sizes fit a size_t. */
static bool same_key(struct mb_slice a, struct mb_slice b) {
  return a.size == b.size && (a.data == b.data || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

/* Room for the texts of the type keys. One that the module before has too stands there once. */
static bool make_keys(struct mb_tree *tree, const struct mb_blob *blob) {
  struct mb_slice before = {NULL, 0};
  size_t size = 1;
  for (size_t i = 0; i < tree->count; i++) {
    struct mb_slice key = entry_at(blob, i).key;
    if (!same_key(key, before)) size += mb_size(key.size) + 1;
    before = key;
  }
  tree->keys = malloc(size);
  if (!tree->keys) (void)mb_fail_memory(size);
  return tree->keys != NULL;
}

static int fill_module(struct mb_tree *tree, size_t i, const struct mb_blob *blob,
                       const uint8_t *bytes, struct mb_slice *before, char **keys) {
  const struct mb_entry entry = entry_at(blob, i), *e = &entry;
  mblob_module *module = &tree->modules[i];
  if (same_key(e->key, *before)) {
    module->type_key = module[-1].type_key;
  } else {
    module->type_key = memcpy(*keys, e->key.data, mb_size(e->key.size));
    (*keys)[e->key.size] = 0;
    *keys += e->key.size + 1;
    *before = e->key;
  }
  module->is_library = e->library;
  module->is_data = e->data;
  if (!e->library) {
    module->payload = bytes + e->offset;
    module->payload_size = e->size;
  }
  size_t imports = blob ? (size_t)(blob->row_ptr[i + 1] - blob->row_ptr[i]) : 0;
  if (imports) {
    module->imports = malloc(room_for(imports) * sizeof(*module->imports));
    if (!module->imports) return mb_fail_memory(imports * sizeof(*module->imports));
    for (size_t k = 0; k < imports; k++)
      module->imports[k] = &tree->modules[blob->child[blob->row_ptr[i] + k]];
  }
  module->own_imports = module->import_count = imports;
  return MBLOB_OK;
}

enum { MAPPED = 32 << 10 }; /* bytes from which a table is mapped */

/* Zeroed memory; NULL when there is none (recorded). Pages of a large table cost nothing until
 * they are used. */
static void *table_new(size_t size) {
  void *memory = size >= MAPPED
                     ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                     : calloc(1, size ? size : 1);
  if (memory && memory != MAP_FAILED) return memory;
  (void)mb_fail_memory(size);
  return NULL;
}

static void table_free(void *memory, size_t size) {
  if (memory && size >= MAPPED)
    (void)munmap(memory, size);
  else
    free(memory);
}

/* Modules, all zero, and what they get when they are used. */
static bool make_modules(struct mb_tree *tree, size_t count) {
  tree->modules = calloc(count, sizeof(*tree->modules));
  if (!tree->modules) {
    (void)mb_fail_memory(count * sizeof(*tree->modules));
    return false;
  }
  tree->count = count;
  tree->use = table_new(count * sizeof(*tree->use));
  for (size_t i = 0; tree->use && i < count; i++) tree->modules[i].use = &tree->use[i];
  return tree->use != NULL;
}

static int fill_tree(struct mb_library *library, struct mb_tree *tree, const struct mb_blob *blob,
                     const uint8_t *bytes, const mblob_open_options *options) {
  int status = copy_loaders(tree, options);
  if (status) return status;
  size_t count = blob ? (size_t)blob->entry_count : 1;
  if (!make_modules(tree, count)) return MBLOB_E_MEMORY;
  for (size_t i = 0; i < count; i++) {
    mblob_module *module = &tree->modules[i];
    module->tag = MB_TAG_MODULE;
    module->library = library;
    module->tree = tree;
  }
  if (!make_keys(tree, blob)) return MBLOB_E_MEMORY;
  struct mb_slice before = {NULL, 0};
  char *keys = tree->keys;
  for (size_t i = 0; !status && i < count; i++)
    status = fill_module(tree, i, blob, bytes, &before, &keys);
  return status;
}

int mb_tree_new(struct mb_library *library, const struct mb_blob *blob, const uint8_t *bytes,
                const mblob_open_options *options, struct mb_tree **out) {
  struct mb_tree *tree = calloc(1, sizeof(*tree));
  if (!tree) return mb_fail_memory(sizeof(*tree));
  atomic_init(&tree->users, 1);
  tree->missing = options->missing;
  tree->assume = options->assume;
  int status = fill_tree(library, tree, blob, bytes, options);
  if (status)
    mb_tree_free(tree);
  else
    *out = tree;
  return status;
}

void mb_tree_move(struct mb_tree *tree, const uint8_t *from, const uint8_t *to) {
  for (size_t i = 0; i < tree->count; i++)
    if (tree->modules[i].payload) tree->modules[i].payload = to + (tree->modules[i].payload - from);
}

static bool same_loader(const mblob_loader *a, const mblob_loader *b) {
  return strcmp(a->type_key, b->type_key) == 0 && a->context == b->context && a->open == b->open &&
         a->function == b->function && a->close == b->close && a->measure == b->measure &&
         a->save == b->save && !a->layout == !b->layout &&
         (!a->layout || strcmp(a->layout, b->layout) == 0);
}

static bool has_options(const struct mb_tree *tree, const mblob_open_options *options) {
  if (tree->missing != options->missing || tree->assume != options->assume ||
      tree->loader_count != options->loader_count)
    return false;
  for (size_t i = 0; i < tree->loader_count; i++) {
    mblob_loader given;
    if (mb_loader_copy(options->loaders[i], &given)) return false;
    const bool same = same_loader(&tree->loaders[i], &given);
    mb_loader_free(&given);
    if (!same) return false;
  }
  return true;
}

bool mb_tree_take_over(struct mb_tree *tree, const mblob_open_options *options) {
  size_t nobody = 0;
  if (atomic_load(&tree->users) || !has_options(tree, options)) return false;
  for (size_t i = 0; i < tree->count; i++)
    if (tree->modules[i].import_count != tree->modules[i].own_imports) return false;
  if (!atomic_compare_exchange_strong(&tree->users, &nobody, 1)) return false;
  for (size_t i = 0; i < tree->count; i++)
    if (tree->modules[i].is_used &&
        tree->use[i].opening == MB_FAILED) { /* a new opening is a new attempt */
      mb_saved_error_free(&tree->use[i].failure);
      tree->use[i].opening = MB_UNOPENED;
    }
  return true;
}

int mb_tree_new_single(struct mb_library *library, const mblob_loader *loader, void *self,
                       struct mb_tree **out) {
  struct mb_tree *tree = calloc(1, sizeof(*tree));
  if (!tree) return mb_fail_memory(sizeof(*tree));
  atomic_init(&tree->users, 1);
  char *key = tree->keys = make_modules(tree, 1) ? strdup(loader->type_key) : NULL;
  if (!key) {
    mb_tree_free(tree);
    return mb_fail_memory(sizeof(*tree->modules));
  }
  mblob_loader opened = {0};
  memcpy(&opened, loader,
         loader->struct_size < sizeof(opened) ? loader->struct_size : sizeof(opened));
  opened.type_key = key;
  tree->modules[0] = (mblob_module){.tag = MB_TAG_MODULE,
                                    .is_created = true,
                                    .is_used = true,
                                    .library = library,
                                    .tree = tree,
                                    .type_key = key,
                                    .use = tree->use};
  tree->use[0] = (struct mb_module_use){.opening = MB_OPENED, .loader = opened, .self = self};
  *out = tree;
  return MBLOB_OK;
}

static void close_use(struct mb_module_use *use) {
  const struct mb_map_item *item;
  for (size_t k = 0; (item = mb_map_next(&use->functions, &k));) mb_function_free(item->value);
  mb_map_free(&use->functions);
  if (use->opening == MB_OPENED && use->loader.close) use->loader.close(use->self);
  use->opening = MB_UNOPENED;
  use->name_count = 0;
}

void mb_tree_close(struct mb_tree *tree) {
  for (size_t i = 0; i < tree->count; i++) {
    mblob_module *module = &tree->modules[i];
    if (module->is_used) close_use(module->use);
    for (size_t k = module->own_imports; k < module->import_count; k++)
      if (module->imports[k]->library != module->library) mblob_module_release(module->imports[k]);
    module->import_count = module->own_imports;
  }
}

void mb_tree_free(struct mb_tree *tree) {
  for (size_t i = 0; i < tree->count; i++) {
    mblob_module *module = &tree->modules[i];
    if (module->is_used) {
      mb_map_free(&module->use->functions);
      mb_saved_error_free(&module->use->failure);
      mb_tensors_free(&module->use->tensors);
    }
    free(module->imports);
  }
  for (size_t i = 0; i < tree->loader_count; i++) mb_loader_free(&tree->loaders[i]);
  free(tree->loaders);
  free(tree->keys);
  free(tree->modules);
  table_free(tree->use, tree->count * sizeof(*tree->use));
  free(tree);
}

/* ---- walking --------------------------------------------------------------------------------- */

struct stack {
  mblob_module **items;
  size_t count, capacity;
};

static bool push(struct stack *s, mblob_module *module) {
  if (s->count == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 16;
    mblob_module **grown = realloc(s->items, capacity * sizeof(*grown));
    if (!grown) {
      (void)mb_fail_memory(capacity * sizeof(*grown));
      return false;
    }
    s->items = grown;
    s->capacity = capacity;
  }
  s->items[s->count++] = module;
  return true;
}

int mb_module_walk(mblob_module *module, bool skip_first, mb_visitor visit, void *argument) {
  struct stack stack = {0};
  struct mb_set seen = {0};
  int result = push(&stack, module) ? 0 : MBLOB_E_MEMORY;
  while (!result && stack.count) {
    mblob_module *m = stack.items[--stack.count];
    int is_new =
        mb_set_add(&seen, m); /* pushed again by a later importer, visited through an earlier one */
    if (is_new < 0) result = MBLOB_E_MEMORY;
    if (is_new <= 0) continue;
    if (m != module || !skip_first) result = visit(m, argument);
    for (size_t i = m->import_count; !result && i-- > 0;)
      if (!push(&stack, m->imports[i])) result = MBLOB_E_MEMORY;
  }
  free(stack.items);
  mb_set_free(&seen);
  return result;
}

/* ---- the public functions -------------------------------------------------------------------- */

const char *mblob_module_type_key(const mblob_module *module) {
  return module ? module->type_key : "";
}

const char *mblob_module_dialect(const mblob_module *module) {
  if (!module || !module->library->has_blob) return "";
  return module->library->blob_dialect == MB_CLASSIC ? "classic" : "ffi";
}

size_t mblob_module_index(const mblob_module *module) {
  return module ? (size_t)(module - module->tree->modules) : 0;
}

const char *mblob_module_path(const mblob_module *module) {
  return module ? module->library->source.path : "";
}

const char *mblob_module_changes(const mblob_module *module) {
  return module && module->library->changes ? module->library->changes : "";
}

size_t mblob_module_import_count(const mblob_module *module) {
  return module ? module->import_count : 0;
}

mblob_module *mblob_module_import_at(const mblob_module *module, size_t i) {
  return module && i < module->import_count ? module->imports[i] : NULL;
}

int mblob_module_is_data(const mblob_module *module) { return module && module->is_data; }

int mblob_module_payload(const mblob_module *module, const void **data, size_t *size) {
  if (MB_NO_MODULE(module) || MB_IS_NULL(data) || MB_IS_NULL(size)) return MBLOB_E_ARGUMENT;
  *data = module->payload;
  *size = (size_t)module->payload_size;
  return MBLOB_OK;
}

static int is_module(mblob_module *module, void *wanted) { return module == wanted ? 1 : 0; }

int mblob_module_import(mblob_module *module, mblob_module *child) {
  if (MB_NO_MODULE(module) || MB_NO_MODULE(child)) return MBLOB_E_ARGUMENT;
  int found = mb_module_walk(child, false, is_module, module);
  if (found == MBLOB_E_MEMORY) return found;
  if (found)
    return mb_fail(MBLOB_E_ARGUMENT, "import: module '%s' already imports this '%s': a cycle",
                   child->type_key, module->type_key);
  if (!add_import(module, child)) return MBLOB_E_MEMORY;
  if (child->library == module->library) /* which would hold itself */
    atomic_fetch_add_explicit(&child->tree->users, 1, memory_order_relaxed);
  else
    (void)mblob_module_retain(child);
  return MBLOB_OK;
}

int mb_module_import_all(mblob_module *module, const mblob_module *other) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < other->import_count; i++)
    status = mblob_module_import(module, other->imports[i]);
  return status;
}
