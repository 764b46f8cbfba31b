/* build.c - operands, formats and places while a plan is made. */
#define _GNU_SOURCE
#include "build.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "threads.h"
#include "view.h"

int dn_fail_build(const struct dn_build *build, int status, const char *format, ...) {
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  const char *message = text ? text : MB_TEXT_NO_MEMORY;
  status = build->node ? dn_fail_node(build->graph, build->node, status, "%s", message)
                       : mb_fail(status, "dnnl_json %s: %s", build->graph->symbol, message);
  free(text);
  return status;
}

/* ---- descriptors ---- */

const dn_md *dn_keep_md(struct dn_build *build, int status, dn_md *const *md, const char *what) {
  struct dn_mds *mds = &build->plan->mds;
  if (status) {
    (void)dn_fail_build(build, status == DN_OUT_OF_MEMORY ? MBLOB_E_MEMORY : MBLOB_E_KERNEL,
                        "oneDNN %d.%d.%d refuses to describe a tensor (%s): %s",
                        build->library->major, build->library->minor, build->library->patch, what,
                        dn_status_text(status));
    return NULL;
  }
  dn_md **place = dn_plan_grow((void **)&mds->items, &mds->count, &mds->capacity, sizeof(*place));
  if (!place) {
    build->library->version->md_free(*md);
    return NULL;
  }
  return *place = *md;
}

const dn_md *dn_plain_md(struct dn_build *build, int rank, const int64_t *dims, enum dn_type type) {
  int64_t strides[DN_MAX_RANK], step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = step;
    step *= dims[i];
  }
  dn_md *md;
  return dn_keep_md(build, build->library->version->md_strided(rank, dims, (int)type, strides, &md),
                    &md, "plain");
}

const dn_md *dn_any_md(struct dn_build *build, int rank, const int64_t *dims, enum dn_type type) {
  dn_md *md;
  return dn_keep_md(build, build->library->version->md_strided(rank, dims, (int)type, NULL, &md),
                    &md, "any");
}

/* ---- threads ---- */

/* About a microsecond of one core: as long as threads take to meet, and less than they take to
 * wake up. */
#define SMALL_WORK 131072.0
#define WORK_OF_AN_ELEMENT 8.0 /* that is read, computed on alone, and written */

void dn_restore_threads(struct dn_build *build, int threads) {
  dn_threads_set(build->library, build->threads, threads);
  build->threads = threads;
}

int dn_choose_threads(struct dn_build *build, double work) {
  int before = build->threads, all = build->plan->threads;
  dn_restore_threads(build, all > 1 && work < SMALL_WORK ? 1 : all);
  return before;
}

static double elements(const struct dn_tensor *tensor) {
  return (double)(tensor->bytes / dn_type_size(tensor->type));
}

static double work_of(const struct dn_build *build, const struct dn_operation *op) {
  const struct dn_tensor *tensors = build->graph->tensors;
  double results = elements(&tensors[build->node->first_tensor]), most = results;
  double weights = op->weights.md ? elements(&tensors[op->weights.tensor]) : 0;
  switch (op->problem.kind) {
    case DN_CONVOLUTION:
    case DN_DECONVOLUTION:
    case DN_INNER_PRODUCT: return weights * results / (double)op->dst_view->dims[1];
    case DN_MATMUL:
      return results * (double)build->graph->tensors[op->src.tensor]
                           .dims[build->graph->tensors[op->src.tensor].rank - 1];
    default:
      if (op->src.md && elements(&tensors[op->src.tensor]) > most)
        most = elements(&tensors[op->src.tensor]);
      return WORK_OF_AN_ELEMENT * most;
  }
}

/* ---- operands ---- */

int dn_operand(struct dn_build *build, size_t tensor, struct dn_operand *out) {
  *out = build->values[tensor].at;
  if (out->md) return MBLOB_OK;
  const struct dn_tensor *t = &build->graph->tensors[tensor];
  const struct dn_node *from = &build->graph->nodes[t->node];
  return dn_fail_build(build, MBLOB_E_FORMAT,
                       "output %zu of node %zu `%s` is read, and never computed",
                       tensor - from->first_tensor, t->node, from->name);
}

int dn_input(struct dn_build *build, size_t index, struct dn_operand *out) {
  if (index >= build->node->input_count)
    return dn_fail_build(build, MBLOB_E_FORMAT, "it has %zu inputs, expected at least %zu",
                         build->node->input_count, index + 1);
  return dn_operand(build, build->node->inputs[index], out);
}

int dn_raw_operand(struct dn_build *build, size_t tensor, struct dn_operand *out) {
  const struct dn_tensor *t = &build->graph->tensors[tensor];
  int status = dn_operand(build, tensor, out);
  if (status || build->values[tensor].raw) return status;
  const dn_md *plain = dn_plain_md(build, t->rank, t->dims, t->type);
  return plain ? dn_reorder(build, out, plain) : MBLOB_E_KERNEL;
}

int dn_constant_floats(struct dn_build *build, size_t tensor, const char *what,
                       struct dn_operand *out, const float **floats, size_t *count) {
  const struct dn_tensor *t = &build->graph->tensors[tensor];
  const struct dn_value *value = &build->values[tensor];
  char text[256];
  *out = value->at;
  if (!out->md || out->place != DN_CONSTANT || !value->raw)
    return dn_fail_build(build, MBLOB_E_FORMAT, "%s is not a constant", what);
  if (t->type != DN_F32 && t->type != DN_S32)
    return dn_fail_build(build, MBLOB_E_FORMAT, "%s is %s, expected float32 or int32", what,
                         dn_tensor_text(t, text, sizeof(text)));
  *count = (size_t)(t->bytes / 4);
  if (t->type == DN_S32) {
    size_t number = dn_plan_constant(build->plan, t->bytes);
    if (number == SIZE_MAX) return MBLOB_E_MEMORY;
    float *fresh = build->plan->constants[number].data;
    for (size_t i = 0; i < *count; ++i) {
      int32_t whole;
      memcpy(&whole, (const char *)build->plan->constants[out->number].data + 4 * i, 4);
      fresh[i] = (float)whole;
    }
    out->number = number;
  }
  *floats = build->plan->constants[out->number].data;
  return MBLOB_OK;
}

/* ---- reorders ---- */

static bool same_bytes(const struct dn_operand *a, const struct dn_operand *b) {
  return a->place == b->place && a->number == b->number && a->offset == b->offset;
}

int dn_reorder(struct dn_build *build, struct dn_operand *operand, const dn_md *wanted) {
  const struct dn_library *lib = build->library;
  if (lib->md_equal(operand->md, wanted)) return MBLOB_OK;
  for (size_t i = 0; i < build->copy_count; ++i) {
    const struct dn_copy *copy = &build->copies[i];
    if (same_bytes(&copy->from, operand) && lib->md_equal(copy->from.md, operand->md) &&
        lib->md_equal(copy->to.md, wanted)) {
      *operand = copy->to;
      return MBLOB_OK;
    }
  }
  struct dn_operand to = {.tensor = operand->tensor, .md = wanted};
  int status = operand->place == DN_CONSTANT ? dn_reorder_now(build, operand, &to)
                                             : dn_new_buffer(build, &to);
  if (!status && to.place == DN_ARENA) status = dn_add_reorder(build, operand, &to);
  if (status) return status;
  struct dn_copy *copy = dn_plan_grow((void **)&build->copies, &build->copy_count,
                                      &build->copy_capacity, sizeof(*copy));
  if (!copy) return MBLOB_E_MEMORY;
  *copy = (struct dn_copy){*operand, to};
  *operand = to;
  return MBLOB_OK;
}

/* ---- results ---- */

/* Where the primitive writes, in the format that it chose; and where the tensor is when the node
 * is done. */
static int place_result(struct dn_build *build, const struct dn_operation *op, const dn_md *chosen,
                        struct dn_operand *written, struct dn_operand *result) {
  const struct dn_view *view = op->dst_view;
  size_t tensor = build->node->first_tensor;
  const struct dn_tensor *t = &build->graph->tensors[tensor];
  struct dn_value *value = &build->values[tensor];
  const dn_md *raw = dn_view_md(build, view, t), *kept = NULL;
  if (!raw) return MBLOB_E_KERNEL;
  bool direct = build->library->md_equal(raw, chosen),
       same_type = dn_type_in(op, t->type) == t->type;
  size_t argument = value->argument;
  *result =
      (struct dn_operand){.tensor = tensor, .place = DN_ARGUMENT, .number = argument, .md = raw};
  if (argument == SIZE_MAX) {
    int status = direct || !same_type ? MBLOB_OK : dn_view_undo(build, view, chosen, &kept);
    if (!status) *result = (struct dn_operand){.tensor = tensor, .md = kept ? chosen : raw};
    if (status || (status = dn_new_buffer(build, result))) return status;
  }
  value->at = *result;
  value->raw = !kept;
  value->at.md = kept ? kept : dn_plain_md(build, t->rank, t->dims, t->type);
  if (!value->at.md) return MBLOB_E_KERNEL;
  *written = *result;
  if (direct || kept) return MBLOB_OK;
  *written = (struct dn_operand){.tensor = tensor, .md = chosen};
  return dn_new_buffer(build, written);
}

/* A result that is added to what is there: begin with the other summand, in its own buffer if
 * nobody reads it later. */
static int begin_with_sum(struct dn_build *build, struct dn_operation *op,
                          struct dn_operand *written, struct dn_operand *result) {
  const struct dn_value *value = &build->values[op->sum.tensor];
  bool same = same_bytes(written, result),
       last = value->uses == 1 && value->last_node == (size_t)(build->node - build->graph->nodes);
  int status = dn_view_apply(build, op->sum_view, &op->sum);
  if (status) return status;
  if (last && written->place == DN_ARENA && op->sum.place == DN_ARENA &&
      same_bytes(&op->sum, &value->at) && build->library->md_equal(op->sum.md, written->md)) {
    struct dn_value *mine = &build->values[build->node->first_tensor];
    written->number = op->sum.number;
    if (same) result->number = mine->at.number = op->sum.number;
    return MBLOB_OK;
  }
  return dn_add_reorder(build, &op->sum, written);
}

/* ---- operations ---- */

static bool is_byte(enum dn_type type) { return type == DN_S8 || type == DN_U8; }

void dn_choose_floats(const struct dn_build *build, struct dn_operation *op, enum dn_type src,
                      enum dn_type weights) {
  op->in_floats = is_byte(src) && is_byte(weights) && !dn_sums_bytes(build->library);
  op->add_sum_apart |= op->in_floats; /* as floats, so that the result is rounded once */
}

enum dn_type dn_type_in(const struct dn_operation *op, enum dn_type type) {
  return op->in_floats ? DN_F32 : type;
}

static const dn_md *md_of(struct dn_build *build, void *desc, int what, int index) {
  const dn_md *known = build->library->query_md(desc, what, index);
  dn_md *md = NULL;
  int status = known ? build->library->version->md_copy(known, &md) : DN_INVALID_ARGUMENTS;
  return dn_keep_md(build, status, &md, "of a primitive");
}

static int want(struct dn_build *build, void *desc, int what, int index,
                struct dn_operand *operand) {
  if (!operand->md) return MBLOB_OK;
  const dn_md *md = md_of(build, desc, what, index);
  return md ? dn_reorder(build, operand, md) : MBLOB_E_KERNEL;
}

static bool second_source(const struct dn_operation *op) { return op->problem.kind == DN_BINARY; }

/* The primitive as it was described, its operands where it wants them, its step. */
static int submit(struct dn_build *build, struct dn_operation *op, void *desc) {
  struct dn_operand written, result;
  int sources = second_source(op) ? DN_SRC_MD : DN_WEIGHTS_MD;
  int status = want(build, desc, DN_SRC_MD, 0, &op->src);
  if (status || (status = want(build, desc, sources, second_source(op) ? 1 : 0, &op->weights)) ||
      (status = want(build, desc, DN_WEIGHTS_MD, 1, &op->bias)))
    return status;
  for (int i = 0; i < op->problem.source_count; ++i)
    if ((status = want(build, desc, DN_SRC_MD, i, &op->sources[i]))) return status;
  const dn_md *chosen = md_of(build, desc, DN_DST_MD, 0);
  if (!chosen || (status = place_result(build, op, chosen, &written, &result)))
    return chosen ? status : MBLOB_E_KERNEL;
  if (op->sum.md && (status = begin_with_sum(build, op, &written, &result))) return status;
  struct dn_step_operands list = {.kind = dn_kind_name(op->problem.kind),
                                  .sources = op->sources,
                                  .source_count = (size_t)op->problem.source_count};
  dn_add_operand(&list, DN_ARG_SRC, &op->src);
  dn_add_operand(&list, second_source(op) ? DN_ARG_SRC_1 : DN_ARG_WEIGHTS, &op->weights);
  dn_add_operand(&list, DN_ARG_BIAS, &op->bias);
  dn_add_operand(&list, DN_ARG_DST, &written);
  for (size_t i = 0; i < op->extra_count; ++i)
    dn_add_operand(&list, op->extra[i].argument, &op->extra[i].operand);
  if ((status = dn_add_step(build, desc, &list)) || same_bytes(&written, &result)) return status;
  return dn_add_reorder(build, &written, &result);
}

static int set_attributes(struct dn_build *build, struct dn_operation *op, void **attributes) {
  const struct dn_library *lib = build->library;
  int status = lib->attr_create(attributes);
  if (!status) status = lib->attr_set_scratchpad_mode(*attributes, DN_SCRATCHPAD_USER);
  if (!status && op->has_zero) status = lib->version->use_source_zero(*attributes);
  if (!status && op->post_op_count) status = lib->attr_set_post_ops(*attributes, op->post_ops);
  return status
             ? dn_fail_build(build, MBLOB_E_KERNEL, "oneDNN refuses what follows the operation: %s",
                             dn_status_text(status))
             : MBLOB_OK;
}

static int fail_primitive(struct dn_build *build, int status) {
  char text[512], one[160];
  size_t used = 0;
  const struct dn_node *node = build->node;
  for (size_t i = 0; i < node->input_count && i < 3 && used < sizeof(text); ++i)
    used +=
        (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
                         dn_tensor_text(&build->graph->tensors[node->inputs[i]], one, sizeof(one)));
  return dn_fail_build(
      build, status == DN_OUT_OF_MEMORY ? MBLOB_E_MEMORY : MBLOB_E_KERNEL,
      "oneDNN %d.%d.%d on this processor does not do this (%s), from %s to %s",
      build->library->major, build->library->minor, build->library->patch, dn_status_text(status),
      text, dn_tensor_text(&build->graph->tensors[node->first_tensor], one, sizeof(one)));
}

/* The problem with the formats of the operands, where it has no others. */
static struct dn_problem completed(const struct dn_operation *op) {
  struct dn_problem problem = op->problem;
  if (!problem.src) problem.src = op->src.md;
  if (!problem.weights) problem.weights = op->weights.md;
  if (!problem.bias) problem.bias = op->bias.md;
  return problem;
}

int dn_widen_source(struct dn_build *build, struct dn_operation *op) {
  struct dn_problem problem = completed(op);
  void *desc = NULL;
  int error = build->library->version->primitive_desc(&problem, build->library->engine, &desc);
  int status = error ? fail_primitive(build, error) : want(build, desc, DN_DST_MD, 0, &op->src);
  if (desc) (void)build->library->primitive_desc_destroy(desc);
  return status;
}

int dn_has_fast_loops(struct dn_build *build, struct dn_operation *op, bool *out) {
  const struct dn_library *lib = build->library;
  struct dn_problem problem = completed(op);
  void *attributes = NULL, *desc = NULL;
  const char *name = NULL;
  int status = set_attributes(build, op, &attributes);
  *out = true;
  if (!status) {
    problem.attributes = attributes;
    if (!lib->version->primitive_desc(&problem, lib->engine, &desc) &&
        !lib->query(desc, DN_IMPLEMENTATION, 0, (void *)&name) && name)
      *out = strncmp(name, "ref", 3) != 0;
  }
  if (desc) (void)lib->primitive_desc_destroy(desc);
  if (attributes) (void)lib->attr_destroy(attributes);
  return status;
}

int dn_build_operation(struct dn_build *build, struct dn_operation *op) {
  const struct dn_library *lib = build->library;
  struct dn_problem *problem = &op->problem;
  void *attributes = NULL, *desc = NULL;
  *problem = completed(op);
  int threads = dn_choose_threads(build, work_of(build, op)),
      status = set_attributes(build, op, &attributes);
  if (!status) {
    problem->attributes = attributes;
    int error = lib->version->primitive_desc(problem, lib->engine, &desc);
    status = error ? fail_primitive(build, error) : submit(build, op, desc);
  }
  if (desc) (void)lib->primitive_desc_destroy(desc);
  if (attributes) (void)lib->attr_destroy(attributes);
  dn_restore_threads(build, threads);
  return status;
}
