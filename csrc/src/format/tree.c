/* Rules of a stored import tree (docs/format.md, section 2). Iterative: a tree may be as deep as
 * its file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "format/blob.h"

struct walk {
  uint8_t *state;  /* per module: 0 new, 1 on the current path, 2 done */
  uint64_t *path;  /* modules from the start to here */
  uint64_t *nexts; /* per module of the path: next import to look at */
  uint64_t depth;
};

/* Describe the cycle at the end of the path that `child` closes. */
static int cycle_error(const struct walk *w, uint64_t child, int64_t offset) {
  char text[256];
  int used = 0;
  uint64_t i = 0;
  while (w->path[i] != child) i++;
  for (uint64_t shown = 0; i <= w->depth && shown < 12 && used >= 0; i++, shown++) {
    unsigned long long module = i < w->depth ? w->path[i] : child;
    used +=
        snprintf(text + used, sizeof(text) - (size_t)used, "%s%llu", shown ? " -> " : "", module);
  }
  return mb_fail_format("tree_cycle", offset, (int64_t)child,
                        "import tree: modules import each other: %s%s", text,
                        i <= w->depth ? " -> ..." : "");
}

static int walk_from(struct walk *w, uint64_t start, const uint64_t *row_ptr, const uint64_t *child,
                     int64_t offset) {
  w->depth = 1;
  w->path[0] = start;
  w->nexts[0] = row_ptr[start];
  w->state[start] = 1;
  while (w->depth) {
    uint64_t module = w->path[w->depth - 1];
    if (w->nexts[w->depth - 1] == row_ptr[module + 1]) {
      w->state[module] = 2;
      w->depth--;
      continue;
    }
    uint64_t next = child[w->nexts[w->depth - 1]++];
    if (w->state[next] == 1) return cycle_error(w, next, offset);
    if (w->state[next] == 2) continue;
    w->state[next] = 1;
    w->path[w->depth] = next;
    w->nexts[w->depth++] = row_ptr[next];
  }
  return MBLOB_OK;
}

static int check_cycles(const uint64_t *row_ptr, const uint64_t *child, uint64_t modules,
                        int64_t offset) {
  struct walk w = {calloc(mb_size(modules), 1), malloc(mb_size(modules * sizeof(uint64_t))),
                   malloc(mb_size(modules * sizeof(uint64_t))), 0};
  int status = MBLOB_OK;
  if (!w.state || !w.path || !w.nexts) status = mb_fail_memory(mb_size(modules * 17));
  for (uint64_t start = 0; !status && start < modules; start++)
    if (!w.state[start]) status = walk_from(&w, start, row_ptr, child, offset);
  free(w.state);
  free(w.path);
  free(w.nexts);
  return status;
}

int mb_tree_check(const uint64_t *row_ptr, uint64_t row_count, const uint64_t *child,
                  uint64_t child_count, uint64_t modules, int64_t offset) {
#define TREE_ERROR(code, entry, ...) \
  mb_fail_format(code, offset, entry, "import tree: " __VA_ARGS__)
  typedef unsigned long long ull;
  if (!modules) return TREE_ERROR("tree_empty", MB_UNKNOWN, "no modules, expected a root");
  if (row_count != modules + 1)
    return TREE_ERROR("tree_rows", MB_UNKNOWN, "%llu row pointers for %llu modules, expected %llu",
                      (ull)row_count, (ull)modules, (ull)modules + 1);
  if (row_ptr[0] != 0 || row_ptr[modules] != child_count)
    return TREE_ERROR("tree_rows", MB_UNKNOWN, "rows span %llu..%llu, expected 0..%llu",
                      (ull)row_ptr[0], (ull)row_ptr[modules], (ull)child_count);
  bool forward = true; /* every import stands behind its importer, as writers put them: no cycles */
  for (uint64_t i = 0; i < modules; i++) {
    if (row_ptr[i] > row_ptr[i + 1])
      return TREE_ERROR("tree_rows", (int64_t)i, "row pointer %llu is %llu, expected at least %llu",
                        (ull)i + 1, (ull)row_ptr[i + 1], (ull)row_ptr[i]);
    /* Rows rise only up to here; a later fall is found in its turn, so stay inside `child`. */
    for (uint64_t k = row_ptr[i]; k < row_ptr[i + 1] && k < child_count; k++) {
      forward &= child[k] > i;
      if (child[k] >= modules)
        return TREE_ERROR("tree_child", (int64_t)i, "module %llu imports %llu, expected below %llu",
                          (ull)i, (ull)child[k], (ull)modules);
    }
  }
#undef TREE_ERROR
  return forward ? MBLOB_OK : check_cycles(row_ptr, child, modules, offset);
}
