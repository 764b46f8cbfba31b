/* steps.c - buffers, memory objects and primitives of a plan that is built: the last part of build.h. */
#define _GNU_SOURCE
#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "packed.h"

void dn_add_operand(struct dn_step_operands *list, int argument, const struct dn_operand *operand) {
  if (!operand->md || list->count == DN_STEP_OPERANDS) return;
  list->items[list->count].argument = argument;
  list->items[list->count++].operand = *operand;
}

static int add_buffer(struct dn_build *build, uint64_t size, struct dn_operand *operand) {
  struct dn_plan *plan = build->plan;
  struct dn_buffer *buffer = dn_plan_grow((void **)&plan->buffers, &plan->buffer_count,
                                          &plan->buffer_capacity, sizeof(*buffer));
  if (!buffer) return MBLOB_E_MEMORY;
  *buffer = (struct dn_buffer){.size = size, .first = SIZE_MAX, .last = 0};
  operand->place = DN_ARENA;
  operand->number = plan->buffer_count - 1;
  return MBLOB_OK;
}

int dn_new_buffer(struct dn_build *build, struct dn_operand *operand) {
  return add_buffer(build, build->library->md_size(operand->md), operand);
}

/* The memory object of an operand: one for all steps that read the same bytes in the same
 * format. */
static size_t slot_of(struct dn_build *build, const struct dn_operand *operand) {
  struct dn_plan *plan = build->plan;
  for (size_t i = plan->slot_count; i-- > 0;) {
    const struct dn_slot *slot = &plan->slots[i];
    if (slot->place == operand->place && slot->number == operand->number &&
        slot->offset == operand->offset && build->library->md_equal(slot->md, operand->md))
      return i;
  }
  struct dn_slot *slot =
      dn_plan_grow((void **)&plan->slots, &plan->slot_count, &plan->slot_capacity, sizeof(*slot));
  if (!slot) return SIZE_MAX;
  *slot = (struct dn_slot){operand->place, operand->number, operand->md, operand->offset};
  return plan->slot_count - 1;
}

static int add_argument(struct dn_build *build, struct dn_step *step, size_t number, int argument,
                        const struct dn_operand *operand) {
  size_t slot = slot_of(build, operand);
  if (slot == SIZE_MAX) return MBLOB_E_MEMORY;
  if (operand->place == DN_ARENA) {
    struct dn_buffer *buffer = &build->plan->buffers[operand->number];
    if (buffer->first > number) buffer->first = number;
    if (buffer->last < number) buffer->last = number;
  }
  step->arguments[step->count++] = (struct dn_step_argument){argument, slot};
  return MBLOB_OK;
}

static int add_scratchpad(struct dn_build *build, void *desc, struct dn_step_operands *list) {
  const dn_md *known = build->library->query_md(desc, DN_SCRATCHPAD_MD, 0);
  struct dn_operand scratchpad = {0};
  size_t size = known ? build->library->md_size(known) : 0;
  dn_md *md;
  if (!size) return MBLOB_OK;
  int error = build->library->version->md_copy(known, &md);
  if (!(scratchpad.md = dn_keep_md(build, error, &md, "scratch memory"))) return MBLOB_E_MEMORY;
  int status = add_buffer(build, size, &scratchpad);
  dn_add_operand(list, DN_ARG_SCRATCHPAD, &scratchpad);
  return status;
}

static int name_implementation(struct dn_build *build, void *desc, struct dn_step *step) {
  const char *name = NULL;
  if (build->library->query(desc, DN_IMPLEMENTATION, 0, (void *)&name) || !name) name = "";
  step->implementation = strdup(name);
  return step->implementation ? MBLOB_OK : mb_fail_memory(strlen(name) + 1);
}

/* A step with these operands; what is taken, the plan frees with it. */
static int begin_step(struct dn_build *build, const struct dn_step_operands *list,
                      struct dn_step **out) {
  struct dn_plan *plan = build->plan;
  size_t number = plan->step_count, count = list->count + list->source_count;
  struct dn_step *step = *out =
      dn_plan_grow((void **)&plan->steps, &plan->step_count, &plan->step_capacity, sizeof(*step));
  if (!step) return MBLOB_E_MEMORY;
  step->node = build->node ? (size_t)(build->node - build->graph->nodes) : SIZE_MAX;
  step->threads = build->threads;
  step->kind = list->kind;
  step->arguments = calloc(count, sizeof(*step->arguments));
  if (!step->arguments) return mb_fail_memory(count * sizeof(*step->arguments));
  int status = MBLOB_OK;
  for (size_t i = 0; i < list->count && !status; ++i)
    status = add_argument(build, step, number, list->items[i].argument, &list->items[i].operand);
  for (size_t i = 0; i < list->source_count && !status; ++i)
    status = add_argument(build, step, number, DN_ARG_SOURCES + (int)i, &list->sources[i]);
  return status;
}

int dn_add_step(struct dn_build *build, void *desc, const struct dn_step_operands *operands) {
  struct dn_step_operands list = *operands;
  struct dn_step *step;
  int status = add_scratchpad(build, desc, &list);
  if (status || (status = begin_step(build, &list, &step)) ||
      (status = name_implementation(build, desc, step)))
    return status;
  int error = build->library->primitive_create(&step->primitive, desc);
  return error ? dn_fail_build(build, error == DN_OUT_OF_MEMORY ? MBLOB_E_MEMORY : MBLOB_E_KERNEL,
                               "oneDNN cannot make the primitive: %s", dn_status_text(error))
               : MBLOB_OK;
}

int dn_add_conversion(struct dn_build *build, const struct dn_operand *from, enum dn_type from_type,
                      const struct dn_operand *to, enum dn_type to_type) {
  const struct dn_tensor *tensor = &build->graph->tensors[from->tensor];
  struct dn_step_operands list = {.kind = "reorder"};
  struct dn_step *step;
  dn_add_operand(&list, DN_ARG_SRC, from);
  dn_add_operand(&list, DN_ARG_DST, to);
  int status = begin_step(build, &list, &step);
  if (status) return status;
  step->from = from_type;
  step->to = to_type;
  step->elements = tensor->bytes / dn_type_size(tensor->type);
  return asprintf(&step->implementation, "%s to %s", dn_type_name(from_type),
                  dn_type_name(to_type)) < 0
             ? mb_fail_memory(1)
             : MBLOB_OK;
}

/* ---- reorders ---- */

static int reorder_desc(struct dn_build *build, const dn_md *from, const dn_md *to,
                        void *attributes, void **desc) {
  const struct dn_library *lib = build->library;
  int error = lib->reorder_desc_create(desc, from, lib->engine, to, lib->engine, attributes);
  return error ? dn_fail_build(
                     build, MBLOB_E_KERNEL,
                     "oneDNN %d.%d.%d cannot bring a tensor into the format that is wanted: %s",
                     lib->major, lib->minor, lib->patch, dn_status_text(error))
               : MBLOB_OK;
}

int dn_add_reorder(struct dn_build *build, const struct dn_operand *from,
                   const struct dn_operand *to) {
  const struct dn_library *lib = build->library;
  struct dn_step_operands list = {.kind = "reorder"};
  void *attributes = NULL, *desc = NULL;
  int threads = dn_choose_threads(build, (double)lib->md_size(from->md));
  int error = lib->attr_create(&attributes);
  if (!error) error = lib->attr_set_scratchpad_mode(attributes, DN_SCRATCHPAD_USER);
  int status = error ? dn_fail_build(build, MBLOB_E_MEMORY, "oneDNN: %s", dn_status_text(error))
                     : reorder_desc(build, from->md, to->md, attributes, &desc);
  dn_add_operand(&list, DN_ARG_SRC, from);
  dn_add_operand(&list, DN_ARG_DST, to);
  if (!status) status = dn_add_step(build, desc, &list);
  if (desc) (void)lib->primitive_desc_destroy(desc);
  if (attributes) (void)lib->attr_destroy(attributes);
  dn_restore_threads(build, threads);
  return status;
}

static int run_now(struct dn_build *build, void *desc, const struct dn_operand *from,
                   void *from_data, const struct dn_operand *to, void *to_data) {
  const struct dn_library *lib = build->library;
  void *primitive = NULL, *memories[2] = {NULL, NULL};
  int error = lib->primitive_create(&primitive, desc);
  if (!error) error = lib->memory_create(&memories[0], from->md, lib->engine, from_data);
  if (!error) error = lib->memory_create(&memories[1], to->md, lib->engine, to_data);
  if (!error) {
    struct dn_exec_arg args[2] = {{DN_ARG_SRC, memories[0]}, {DN_ARG_DST, memories[1]}};
    error = lib->primitive_execute(primitive, build->stream, 2, args);
  }
  if (!error) error = lib->stream_wait(build->stream);
  for (int i = 0; i < 2; ++i)
    if (memories[i]) (void)lib->memory_destroy(memories[i]);
  if (primitive) (void)lib->primitive_destroy(primitive);
  return error ? dn_fail_build(build, MBLOB_E_KERNEL, "oneDNN cannot reorder a constant: %s",
                               dn_status_text(error))
               : MBLOB_OK;
}

int dn_reorder_now(struct dn_build *build, const struct dn_operand *from, struct dn_operand *to) {
  struct dn_plan *plan = build->plan;
  char *source = (char *)plan->constants[from->number].data + from->offset;
  bool shares = build->shared && plan->constants[from->number].lasting;
  struct dn_constant known;
  void *desc = NULL;
  if (dn_packing_use(build, from, to)) return MBLOB_OK;
  if (shares && dn_shared_find(build->shared, source, from->md, to->md, &known)) {
    struct dn_constant *place = dn_plan_grow((void **)&plan->constants, &plan->constant_count,
                                             &plan->constant_capacity, sizeof(*place));
    if (!place) return MBLOB_E_MEMORY;
    *place = known;
    to->place = DN_CONSTANT;
    to->number = plan->constant_count - 1;
    return MBLOB_OK;
  }
  int status = reorder_desc(build, from->md, to->md, NULL, &desc);
  if (!status) {
    to->place = DN_CONSTANT;
    to->number = dn_plan_constant(plan, build->library->md_size(to->md));
    status = to->number == SIZE_MAX
                 ? MBLOB_E_MEMORY
                 : run_now(build, desc, from, source, to, plan->constants[to->number].data);
    if (!status && shares)
      dn_shared_add(build->shared, source, from->md, to->md, &plan->constants[to->number]);
  }
  if (!status) status = dn_packing_note(build, from, to);
  if (desc) (void)build->library->primitive_desc_destroy(desc);
  return status;
}
