#include "view.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common.h"

struct dn_view dn_view_same(const struct dn_tensor *tensor) {
  struct dn_view view = {.rank = tensor->rank, .type = tensor->type, .how = DN_SAME};
  memcpy(view.dims, tensor->dims, sizeof(view.dims));
  return view;
}

struct dn_view dn_view_reshaped(const struct dn_tensor *tensor, int rank, const int64_t *dims) {
  struct dn_view view = {.rank = rank, .type = tensor->type, .how = DN_RESHAPED};
  memcpy(view.dims, dims, (size_t)rank * sizeof(*dims));
  if (rank == tensor->rank && !memcmp(dims, tensor->dims, (size_t)rank * sizeof(*dims)))
    view.how = DN_SAME;
  return view;
}

/* ---- layouts ---- */

struct layout {
  const char *name, *text; /* for errors */
  int rank, blocks;
  char axes[DN_MAX_RANK + 1]; /* capital letters in the order of the shape */
  char block_axes[DN_MAX_RANK];
  int64_t block_sizes[DN_MAX_RANK];
};

static int fail_layout(struct dn_build *build, const struct layout *layout, const char *why) {
  return dn_fail_build(build, MBLOB_E_FORMAT, "the attribute %s is `%s`: %s", layout->name,
                       layout->text, why);
}

static int parse(struct dn_build *build, struct layout *layout, const char *letters) {
  const char *p = layout->text;
  for (; isupper((unsigned char)*p); ++p) {
    if (layout->rank == DN_MAX_RANK) return fail_layout(build, layout, "more than 12 axes");
    if (strchr(layout->axes, *p)) return fail_layout(build, layout, "an axis twice");
    if (!strchr(letters, *p)) return fail_layout(build, layout, "a letter that names no axis here");
    layout->axes[layout->rank++] = *p;
  }
  while (*p) {
    int64_t size = 0;
    if (!isdigit((unsigned char)*p))
      return fail_layout(build, layout, "blocks are not innermost, as 16c in NCHW16c is");
    for (; isdigit((unsigned char)*p) && size < 65536; ++p) size = size * 10 + (*p - '0');
    char axis = (char)toupper((unsigned char)*p);
    if (!islower((unsigned char)*p) || !strchr(layout->axes, axis) || size < 1 || size > 65536)
      return fail_layout(build, layout,
                         "a block is a number up to 65536 and the small letter of an axis");
    if (layout->blocks == DN_MAX_RANK) return fail_layout(build, layout, "more than 12 blocks");
    layout->block_axes[layout->blocks] = axis;
    layout->block_sizes[layout->blocks++] = size;
    ++p;
  }
  return layout->rank ? MBLOB_OK : fail_layout(build, layout, "no axes");
}

/* oneDNN's number of an axis: its rank among those that the layout has, in the order of
 * `letters`. */
static int position(const struct layout *layout, const char *letters, char axis) {
  int number = 0;
  for (; *letters && *letters != axis; ++letters) number += strchr(layout->axes, *letters) != NULL;
  return number;
}

static int64_t block_of(const struct layout *layout, char axis) {
  int64_t size = 1;
  for (int i = 0; i < layout->blocks; ++i)
    if (layout->block_axes[i] == axis) size *= layout->block_sizes[i];
  return size;
}

/* oneDNN's name: axes are a, b, c ..., capital where they have blocks, which follow: aBcd16b. */
static int find_tag(struct dn_build *build, const struct layout *layout, const char *letters,
                    struct dn_view *out) {
  char name[DN_MAX_RANK * 8];
  size_t used = 0;
  for (int i = 0; i < layout->rank; ++i) {
    char letter = (char)('a' + position(layout, letters, layout->axes[i]));
    name[used++] = block_of(layout, layout->axes[i]) > 1 ? (char)toupper(letter) : letter;
  }
  for (int i = 0; i < layout->blocks && used < sizeof(name); ++i)
    used += (size_t)snprintf(name + used, sizeof(name) - used, "%lld%c",
                             (long long)layout->block_sizes[i],
                             'a' + position(layout, letters, layout->block_axes[i]));
  if (used < sizeof(name)) name[used] = '\0';
  out->tag = used < sizeof(name) ? dn_find_tag(build->library, name) : 0;
  if (!out->tag)
    return dn_fail_build(build, MBLOB_E_INCOMPATIBLE,
                         "the attribute %s is `%s`: oneDNN %d.%d.%d has no such format",
                         layout->name, layout->text, build->library->major, build->library->minor,
                         build->library->patch);
  return MBLOB_OK;
}

static int check_shape(struct dn_build *build, const struct layout *layout,
                       const struct dn_tensor *tensor) {
  char text[256];
  bool fits = tensor->rank == layout->rank + layout->blocks;
  for (int i = 0; i < layout->blocks && fits; ++i)
    fits = tensor->dims[layout->rank + i] == layout->block_sizes[i];
  if (fits) return MBLOB_OK;
  return dn_fail_build(build, MBLOB_E_FORMAT,
                       "the attribute %s is `%s`, which does not fit the shape of %s", layout->name,
                       layout->text, dn_tensor_text(tensor, text, sizeof(text)));
}

int dn_view_layout(struct dn_build *build, const char *name, const char *text, const char *letters,
                   const struct dn_tensor *tensor, const int64_t *wanted, struct dn_view *out) {
  struct layout layout = {.name = name, .text = text};
  *out = (struct dn_view){.type = tensor->type};
  int status = parse(build, &layout, letters);
  if (status || (status = check_shape(build, &layout, tensor))) return status;
  out->rank = layout.rank;
  for (int i = 0; i < layout.rank; ++i) {
    int axis = position(&layout, letters, layout.axes[i]);
    int64_t block = block_of(&layout, layout.axes[i]), whole = tensor->dims[i] * block;
    out->permutation[i] = axis;
    out->dims[axis] = wanted && wanted[axis] > 0 ? wanted[axis] : whole;
    if (out->dims[axis] > whole || whole - out->dims[axis] >= block)
      return dn_fail_build(
          build, MBLOB_E_FORMAT,
          "the attribute %s is `%s`: its shape makes axis %c %lld, and the other tensors make it %lld",
          name, text, layout.axes[i], (long long)whole, (long long)out->dims[axis]);
  }
  if (layout.blocks) {
    out->how = DN_TAGGED;
    return find_tag(build, &layout, letters, out);
  }
  out->how = DN_SAME;
  for (int i = 0; i < out->rank; ++i)
    if (out->permutation[i] != i) out->how = DN_PERMUTED;
  return MBLOB_OK;
}

/* ---- descriptors ---- */

static const dn_md *permuted(struct dn_build *build, const dn_md *from, const int *permutation) {
  dn_md *md;
  return dn_keep_md(build, build->library->version->md_permuted(from, permutation, &md), &md,
                    "permuted");
}

static const dn_md *tagged(struct dn_build *build, const struct dn_view *view) {
  dn_md *md;
  return dn_keep_md(
      build,
      build->library->version->md_tagged(view->rank, view->dims, (int)view->type, view->tag, &md),
      &md, "blocked");
}

const dn_md *dn_view_md(struct dn_build *build, const struct dn_view *view,
                        const struct dn_tensor *tensor) {
  if (view->how == DN_TAGGED) return tagged(build, view);
  if (view->how == DN_RESHAPED) return dn_plain_md(build, view->rank, view->dims, view->type);
  const dn_md *plain = dn_plain_md(build, tensor->rank, tensor->dims, tensor->type);
  return !plain || view->how == DN_SAME ? plain : permuted(build, plain, view->permutation);
}

/* oneDNN writes zeros where a format pads an axis: never into memory that is not ours. */
static int own_padded(struct dn_build *build, const struct dn_view *view,
                      struct dn_operand *operand) {
  struct dn_tensor exact = {.rank = view->rank, .type = view->type};
  const struct dn_tensor *tensor = &build->graph->tensors[operand->tensor];
  memcpy(exact.dims, view->dims, sizeof(exact.dims));
  if (dn_tensor_bytes(&exact) == tensor->bytes) return MBLOB_OK;
  if (operand->place != DN_CONSTANT)
    return dn_fail_build(build, MBLOB_E_KERNEL,
                         "a tensor that its layout rounds up must be a constant");
  size_t number = dn_plan_constant(build->plan, tensor->bytes);
  if (number == SIZE_MAX) return MBLOB_E_MEMORY;
  memcpy(build->plan->constants[number].data, build->plan->constants[operand->number].data,
         mb_size(tensor->bytes));
  operand->number = number;
  return MBLOB_OK;
}

int dn_view_apply(struct dn_build *build, const struct dn_view *view, struct dn_operand *operand) {
  if (view->how == DN_SAME) return MBLOB_OK;
  if (view->how == DN_PERMUTED) {
    operand->md = permuted(build, operand->md, view->permutation);
    return operand->md ? MBLOB_OK : MBLOB_E_KERNEL;
  }
  int status = dn_raw_operand(build, operand->tensor, operand);
  if (!status && view->how == DN_TAGGED) status = own_padded(build, view, operand);
  if (status) return status;
  operand->md = dn_view_md(build, view, &build->graph->tensors[operand->tensor]);
  return operand->md ? MBLOB_OK : MBLOB_E_KERNEL;
}

int dn_view_undo(struct dn_build *build, const struct dn_view *view, const dn_md *md,
                 const dn_md **out) {
  int back[DN_MAX_RANK] = {0};
  *out = view->how == DN_SAME ? md : NULL;
  if (view->how != DN_PERMUTED) return MBLOB_OK;
  for (int i = 0; i < view->rank; ++i) back[view->permutation[i]] = i;
  *out = permuted(build, md, back);
  return *out ? MBLOB_OK : MBLOB_E_KERNEL;
}
