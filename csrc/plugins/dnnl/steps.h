/* steps.h - the lowest part of making a plan: buffers, memory objects, primitives. */
#ifndef DN_STEPS_H
#define DN_STEPS_H

#include "build.h"

#define DN_STEP_OPERANDS 12
struct dn_step_operands {
  size_t count;
  struct {
    int argument;
    struct dn_operand operand;
  } items[DN_STEP_OPERANDS];
  const char *kind;                 /* of the primitive */
  const struct dn_operand *sources; /* of a concatenation, beside the items */
  size_t source_count;
};

/* Another operand of a step; none is added where it has no descriptor. */
void dn_add_operand(struct dn_step_operands *list, int argument, const struct dn_operand *operand);

/* A buffer of the arena for operand->md; sets place and number. */
int dn_new_buffer(struct dn_build *build, struct dn_operand *operand);
/* A step that runs the primitive of `desc`, with scratch memory as it asks. */
int dn_add_step(struct dn_build *build, void *desc, const struct dn_step_operands *operands);
int dn_add_reorder(struct dn_build *build, const struct dn_operand *from,
                   const struct dn_operand *to);
/* Reorder a constant while the plan is made: to->md says the format, place and number are set. */
int dn_reorder_now(struct dn_build *build, const struct dn_operand *from, struct dn_operand *to);

#endif
