/* shared.h - constants in the formats that primitives like, for all plans of a graph with open dimensions. */
#ifndef DN_SHARED_H
#define DN_SHARED_H

#include "base/base.h"
#include "plan.h"

struct dn_shared_item {
  const void *from; /* the constant */
  dn_md *as, *md;   /* how it was read, and the format */
  void *data;
  uint64_t size;
};
struct dn_shared {
  const struct dn_library *library;
  struct mb_lock lock;
  struct dn_shared_item *items;
  size_t count, capacity;
};

/* Bytes of a constant, read as `as`, in the format `md`; NULL: no plan made them. */
const struct dn_constant *dn_shared_find(struct dn_shared *shared, const void *from,
                                         const dn_md *as, const dn_md *md, struct dn_constant *out);
/* Take over bytes that a plan made, which goes on using them; where memory is out they stay the plan's. */
void dn_shared_add(struct dn_shared *shared, const void *from, const dn_md *as, const dn_md *md,
                   struct dn_constant *made);
void dn_shared_begin(struct dn_shared *shared, const struct dn_library *library);
void dn_shared_end(struct dn_shared *shared);

#endif
