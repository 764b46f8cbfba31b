#include "shared.h"

#include <stdlib.h>

#include "common.h"

static const DLDevice processor = {kDLCPU, 0};

void dn_shared_begin(struct dn_shared *shared, const struct dn_library *library) {
  shared->library = library;
  mb_lock_init(&shared->lock);
}

void dn_shared_end(struct dn_shared *shared) {
  for (size_t i = 0; i < shared->count; ++i) {
    shared->library->version->md_free(shared->items[i].as);
    shared->library->version->md_free(shared->items[i].md);
    (void)mb_plugin_host()->free(processor, shared->items[i].data);
  }
  free(shared->items);
  mb_lock_destroy(&shared->lock);
}

/* Under the lock. */
static const struct dn_shared_item *find(const struct dn_shared *shared, const void *from,
                                         const dn_md *as, const dn_md *md) {
  const struct dn_library *lib = shared->library;
  for (size_t i = 0; i < shared->count; ++i) {
    const struct dn_shared_item *item = &shared->items[i];
    if (item->from == from && lib->md_equal(item->as, as) && lib->md_equal(item->md, md))
      return item;
  }
  return NULL;
}

const struct dn_constant *dn_shared_find(struct dn_shared *shared, const void *from,
                                         const dn_md *as, const dn_md *md,
                                         struct dn_constant *out) {
  mb_lock(&shared->lock);
  const struct dn_shared_item *item = find(shared, from, as, md);
  if (item) *out = (struct dn_constant){.data = item->data, .size = item->size, .lasting = true};
  mb_unlock(&shared->lock);
  return item ? out : NULL;
}

void dn_shared_add(struct dn_shared *shared, const void *from, const dn_md *as, const dn_md *md,
                   struct dn_constant *made) {
  const struct dn_version *version = shared->library->version;
  struct dn_shared_item fresh = {.from = from, .data = made->data, .size = made->size};
  if (version->md_copy(as, &fresh.as) || version->md_copy(md, &fresh.md)) {
    if (fresh.as) version->md_free(fresh.as);
    return;
  }
  mb_lock(&shared->lock);
  struct dn_shared_item *place = find(shared, from, as, md) /* another plan was first */
                                     ? NULL
                                     : dn_plan_grow((void **)&shared->items, &shared->count,
                                                    &shared->capacity, sizeof(*place));
  if (place) {
    *place = fresh;
    made->owned = false;
    made->lasting = true;
  }
  mb_unlock(&shared->lock);
  if (place) return;
  version->md_free(fresh.as);
  version->md_free(fresh.md);
}
