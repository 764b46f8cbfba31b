/* op_slice.c - a part of a tensor: some elements of some axes.
 *
 * A part whose bytes lie side by side is the data, looked at from further on. Others are copied,
 * so that primitives get dense tensors. */
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "operators.h"

struct part {
  int64_t begin[DN_MAX_RANK], step[DN_MAX_RANK]; /* of each axis of the data */
};

static int fail_part(struct dn_build *build, const struct dn_tensor *data,
                     const struct dn_tensor *result) {
  char one[160], other[160];
  return dn_fail_build(
      build, MBLOB_E_FORMAT,
      "the data is %s, of which the attributes axes, begin and strides do not make %s",
      dn_tensor_text(data, one, sizeof(one)), dn_tensor_text(result, other, sizeof(other)));
}

/* The attributes axes, begin and strides, which is all 1 where it is missing. */
static int read_part(struct dn_build *build, const struct dn_tensor *data, struct part *part) {
  int64_t axes[DN_MAX_RANK], begin[DN_MAX_RANK], steps[DN_MAX_RANK];
  bool seen[DN_MAX_RANK] = {false};
  size_t count = dn_count_texts(build->node, "axes");
  if (count > (size_t)data->rank)
    return dn_fail_build(build, MBLOB_E_FORMAT, "the attribute axes names %zu axes of %d", count,
                         data->rank);
  for (size_t i = 0; i < DN_MAX_RANK; ++i) steps[i] = part->step[i] = 1;
  memset(part->begin, 0, sizeof(part->begin));
  int status = dn_get_ints(build->graph, build->node, "axes", count, 0, axes);
  if (!status) status = dn_get_ints(build->graph, build->node, "begin", count, 0, begin);
  if (!status && dn_has_attribute(build->node, "strides"))
    status = dn_get_ints(build->graph, build->node, "strides", count, 1, steps);
  for (size_t i = 0; i < count && !status; ++i) {
    if (axes[i] >= data->rank || seen[axes[i]])
      return dn_fail_build(build, MBLOB_E_FORMAT, "the attribute axes names axis %lld of %d %s",
                           (long long)axes[i], data->rank, axes[i] < data->rank ? "twice" : "axes");
    seen[axes[i]] = true;
    part->begin[axes[i]] = begin[i];
    part->step[axes[i]] = steps[i];
  }
  return status;
}

static bool lies_in(const struct part *part, const struct dn_tensor *data,
                    const struct dn_tensor *result) {
  if (data->rank != result->rank || data->type != result->type) return false;
  for (int i = 0; i < data->rank; ++i) {
    int64_t room = data->dims[i] - 1 - part->begin[i];
    if (room < 0 || result->dims[i] < 1 || (result->dims[i] - 1) > room / part->step[i])
      return false;
  }
  return true;
}

/* ---- side by side ---- */

/* The size of the blocks of axis 1 in which the operand has the tensor: 1 if it is row-major, 0 if
 * it is in another format. */
static int64_t blocks_of(struct dn_build *build, const struct dn_tensor *data,
                         const struct dn_operand *operand, int *tag) {
  static const int sizes[] = {16, 8, 4};
  *tag = 0;
  if (build->values[build->node->inputs[0]].raw) return 1;
  for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes) && data->rank > 1; ++k) {
    char name[DN_MAX_RANK + 8] = "";
    dn_md *md = NULL;
    for (int i = 0; i < data->rank; ++i) name[i] = (char)((i == 1 ? 'A' : 'a') + i);
    (void)snprintf(name + data->rank, 8, "%db", sizes[k]);
    *tag = dn_find_tag(build->library, name);
    if (!*tag ||
        build->library->version->md_tagged(data->rank, data->dims, (int)data->type, *tag, &md))
      continue;
    bool same = build->library->md_equal(md, operand->md);
    build->library->version->md_free(md);
    if (same) return sizes[k];
  }
  return 0;
}

/* Where the part begins, in elements, if its elements lie side by side as the format wants them;
 * else -1. */
static int64_t place_of(const struct part *part, const struct dn_tensor *data,
                        const struct dn_tensor *result, int64_t block) {
  int last = data->rank - 1; /* the last axis of which it is not all */
  while (last > 0 && data->dims[last] == result->dims[last]) --last;
  for (int i = 0; i < last; ++i)
    if (result->dims[i] != 1) return -1;
  if (part->step[last] != 1 && result->dims[last] != 1) return -1;
  if (block > 1) { /* zeros fill the last block */
    bool ends = part->begin[1] + result->dims[1] == data->dims[1];
    if (last > 1 || part->begin[1] % block || (result->dims[1] % block && !ends)) return -1;
  }
  int64_t place = 0, step = 1;
  for (int i = data->rank - 1; i >= 0; --i) {
    place += part->begin[i] * step;
    step *= i == 1 && block > 1 ? (data->dims[i] + block - 1) / block * block : data->dims[i];
  }
  return place;
}

/* ---- copies ---- */

static const dn_md *strided(struct dn_build *build, const struct part *part,
                            const struct dn_tensor *data, const struct dn_tensor *result,
                            int64_t *place) {
  int64_t strides[DN_MAX_RANK], step = 1;
  *place = 0;
  for (int i = data->rank - 1; i >= 0; --i) {
    *place += part->begin[i] * step;
    strides[i] = result->dims[i] == 1 ? step : step * part->step[i];
    step *= data->dims[i];
  }
  dn_md *md;
  int status = build->library->version->md_strided(result->rank, result->dims, (int)result->type,
                                                   strides, &md);
  return dn_keep_md(build, status, &md, "a part");
}

/* The part, row-major, in a buffer or where the call wants it. */
static int copy_out(struct dn_build *build, const struct part *part, const struct dn_tensor *data,
                    const struct dn_tensor *result) {
  struct dn_value *value = &build->values[build->node->first_tensor];
  struct dn_operand from,
      to = {.tensor = build->node->first_tensor, .place = DN_ARGUMENT, .number = value->argument};
  int64_t place;
  int status = dn_raw_operand(build, build->node->inputs[0], &from);
  if (status) return status;
  to.md = dn_plain_md(build, result->rank, result->dims, result->type);
  from.md = to.md ? strided(build, part, data, result, &place) : NULL;
  if (!from.md) return MBLOB_E_KERNEL;
  from.offset += (uint64_t)place * dn_type_size(data->type);
  if (from.place == DN_CONSTANT)
    status = dn_reorder_now(build, &from, &to);
  else if (value->argument == SIZE_MAX)
    status = dn_new_buffer(build, &to);
  if (!status && from.place != DN_CONSTANT) status = dn_add_reorder(build, &from, &to);
  value->at = to;
  value->raw = true;
  return status;
}

int dn_slice(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_value *value = &build->values[build->node->first_tensor];
  struct dn_operand operand;
  struct part part;
  int tag, status = dn_input(build, 0, &operand);
  if (status) return status;
  const struct dn_tensor *data = &build->graph->tensors[build->node->inputs[0]];
  if ((status = read_part(build, data, &part))) return status;
  if (!data->rank || !lies_in(&part, data, result)) return fail_part(build, data, result);
  int64_t block = blocks_of(build, data, &operand, &tag),
          place = block ? place_of(&part, data, result, block) : -1;
  if (place < 0 || operand.place == DN_CONSTANT) return copy_out(build, &part, data, result);
  if (block == 1) {
    operand.md = dn_plain_md(build, result->rank, result->dims, result->type);
  } else {
    dn_md *md;
    int error =
        build->library->version->md_tagged(result->rank, result->dims, (int)result->type, tag, &md);
    operand.md = dn_keep_md(build, error, &md, "a part of blocks");
  }
  if (!operand.md) return MBLOB_E_KERNEL;
  operand.offset += (uint64_t)place * dn_type_size(data->type);
  operand.tensor = build->node->first_tensor;
  value->at = operand;
  value->raw = block == 1;
  ++value->uses; /* nobody may write into the data */
  return MBLOB_OK;
}
