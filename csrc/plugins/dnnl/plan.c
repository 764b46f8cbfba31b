#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"

#define ALIGNMENT 64 /* a cache line, and the widest vector */

static const DLDevice processor = {kDLCPU, 0};

void *dn_plan_grow(void **items, size_t *count, size_t *capacity, size_t item) {
  if (*count == *capacity) {
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *fresh = realloc(*items, wanted * item);
    if (!fresh) {
      (void)mb_fail_memory(wanted * item);
      return NULL;
    }
    *items = fresh;
    *capacity = wanted;
  }
  void *place = (char *)*items + *count * item;
  memset(place, 0, item);
  ++*count;
  return place;
}

size_t dn_plan_constant(struct dn_plan *plan, uint64_t size) {
  struct dn_constant *constant = dn_plan_grow((void **)&plan->constants, &plan->constant_count,
                                              &plan->constant_capacity, sizeof(*constant));
  if (!constant) return SIZE_MAX;
  if (mb_plugin_host()->allocate(processor, size, ALIGNMENT, &constant->data)) {
    --plan->constant_count;
    return SIZE_MAX;
  }
  constant->size = size;
  constant->owned = true;
  return plan->constant_count - 1;
}

void dn_plan_drop(struct dn_plan *plan, size_t constant) {
  struct dn_constant *c = &plan->constants[constant];
  if (c->owned) (void)mb_plugin_host()->free(processor, c->data);
  *c = (struct dn_constant){0};
}

/* ---- the arena ---- */

/* Buffers by size, the largest first, so that small ones fill the gaps between them. */
static int compare_sizes(const void *a, const void *b) {
  const struct dn_buffer *const *x = a, *const *y = b;
  return (*x)->size<(*y)->size ? 1 : (*x)->size>(*y)->size ? -1 : *x < *y ? -1 : *x > *y;
}

static int compare_offsets(const void *a, const void *b) {
  const struct dn_buffer *const *x = a, *const *y = b;
  return (*x)->offset<(*y)->offset ? -1 : (*x)->offset>(*y)->offset;
}

/* The lowest offset at which `size` bytes fit between `placed`, those that live at the same
 * time, by offset. */
static uint64_t lowest_gap(struct dn_buffer **placed, size_t count, uint64_t size) {
  uint64_t offset = 0;
  for (size_t i = 0; i < count; ++i) {
    if (placed[i]->offset >= offset && placed[i]->offset - offset >= size) break;
    uint64_t end = placed[i]->offset + placed[i]->size;
    if (end > offset) offset = end;
  }
  return offset;
}

int dn_plan_arena(struct dn_plan *plan) {
  size_t count = plan->buffer_count;
  if (!count) return MBLOB_OK;
  struct dn_buffer **order = calloc(2 * count, sizeof(*order)), **beside = order + count;
  if (!order) return mb_fail_memory(2 * count * sizeof(*order));
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) {
    order[i] = &plan->buffers[i];
    if (order[i]->first > order[i]->last) order[i]->size = 0; /* nobody came to use it */
    if (order[i]->size > INT64_MAX - ALIGNMENT || total > INT64_MAX - ALIGNMENT - order[i]->size) {
      free(order);
      return mb_fail_memory(SIZE_MAX);
    }
    order[i]->size = (order[i]->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    total += order[i]->size; /* bounds every offset */
  }
  qsort(order, count, sizeof(*order), compare_sizes);
  for (size_t i = 0; i < count; ++i) {
    size_t found = 0;
    for (size_t k = 0; k < i; ++k)
      if (order[k]->first <= order[i]->last && order[i]->first <= order[k]->last)
        beside[found++] = order[k];
    qsort(beside, found, sizeof(*beside), compare_offsets);
    order[i]->offset = lowest_gap(beside, found, order[i]->size);
    if (order[i]->offset + order[i]->size > plan->arena_size)
      plan->arena_size = order[i]->offset + order[i]->size;
  }
  free(order);
  return MBLOB_OK;
}

void dn_plan_free(struct dn_plan *plan) {
  for (size_t i = 0; i < plan->step_count; ++i) {
    if (plan->steps[i].primitive) (void)plan->library->primitive_destroy(plan->steps[i].primitive);
    free(plan->steps[i].arguments);
    free(plan->steps[i].implementation);
  }
  for (size_t i = 0; i < plan->mds.count; ++i) plan->library->version->md_free(plan->mds.items[i]);
  for (size_t i = 0; i < plan->constant_count; ++i)
    if (plan->constants[i].owned) (void)mb_plugin_host()->free(processor, plan->constants[i].data);
  free(plan->mds.items);
  free(plan->slots);
  free(plan->steps);
  free(plan->buffers);
  free(plan->constants);
  *plan = (struct dn_plan){0};
}
