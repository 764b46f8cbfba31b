#define _GNU_SOURCE
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

#include "error.h"

enum { SLOTS = 7, SHARED = 6 };

static const char *const tag_names[SLOTS] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                             "threadIdx.x", "threadIdx.y", "threadIdx.z",
                                             "tir.use_dyn_shared_memory"};

const char *mb_type_text(DLDataType type, char text[32]) {
  static const char *const names[] = {"int", "uint", "float", "handle", "bfloat", "complex"};
  const char *name = type.code < sizeof(names) / sizeof(*names) ? names[type.code] : "type of code ";
  char lanes[8] = "";
  if (type.lanes != 1) (void)snprintf(lanes, sizeof(lanes), "x%u", type.lanes);
  if (type.code < sizeof(names) / sizeof(*names))
    (void)snprintf(text, 32, "%s%u%s", name, type.bits, lanes);
  else
    (void)snprintf(text, 32, "type %u:%u%s", type.code, type.bits, lanes);
  return text;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static bool can_be_passed(DLDataType t) {
  if (t.lanes != 1) return false;
  if (t.code == kTVMOpaqueHandle) return true;
  if (t.code == kDLFloat) return t.bits == 32 || t.bits == 64;
  return (t.code == kDLInt || t.code == kDLUInt) && (t.bits == 8 || t.bits == 16 || t.bits == 32 || t.bits == 64);
}

static int read_types(struct mb_cursor *c, struct mb_kernel_info *k) {
  uint64_t count = 0;
  char text[32];
  if (!mb_read_count(c, &count, 4, "functions.arg_types")) return MBLOB_E_FORMAT;
  k->types = malloc((size_t)count * sizeof(*k->types) + 1);
  if (!k->types) return mb_fail_memory((size_t)count * sizeof(*k->types));
  for (; k->type_count < count; k->type_count++) {
    const uint8_t *p = c->data + c->pos;
    DLDataType type = {p[0], p[1], (uint16_t)(p[2] | p[3] << 8)};
    if (!can_be_passed(type))
      return mb_fail_format("payload", (int64_t)c->pos, MB_UNKNOWN,
                            "kernel '%s': argument %llu is declared %s; kernels take pointers, integers of 8 to 64 bits, "
                            "float32 and float64",
                            k->name, (unsigned long long)k->type_count, mb_type_text(type, text));
    k->types[k->type_count] = type;
    c->pos += 4;
  }
  return MBLOB_OK;
}

static int read_tag(struct mb_cursor *c, struct mb_kernel_info *k, bool last) {
  uint64_t at = c->pos;
  struct mb_slice tag;
  uint8_t slot = 0;
  if (!mb_read_string(c, &tag, "functions.launch_param_tags")) return MBLOB_E_FORMAT;
  while (slot < SLOTS && !mb_slice_is(tag, tag_names[slot])) slot++;
  if (slot == SLOTS)
    return mb_fail_format("payload", (int64_t)at, MB_UNKNOWN, "kernel '%s': unknown launch tag '%.*s'", k->name,
                          (int)(tag.size < 64 ? tag.size : 64), (const char *)tag.data);
  if (memchr(k->tags, slot, (size_t)k->tag_count))
    return mb_fail_format("payload", (int64_t)at, MB_UNKNOWN, "kernel '%s': launch tag '%s' comes twice", k->name,
                          tag_names[slot]);
  if (slot == SHARED && !last)
    return mb_fail_format("payload", (int64_t)at, MB_UNKNOWN, "kernel '%s': launch tag '%s' must be the last",
                          k->name, tag_names[slot]);
  k->tags[k->tag_count++] = slot;
  if (slot != SHARED && slot % 3 + 1u > k->dimensions) k->dimensions = slot % 3 + 1u;
  return MBLOB_OK;
}

static int read_tags(struct mb_cursor *c, struct mb_kernel_info *k) {
  uint64_t at = c->pos, count = 0;
  if (!mb_read_count(c, &count, 8, "functions.launch_param_tags")) return MBLOB_E_FORMAT;
  if (count > SLOTS)
    return mb_fail_format("payload", (int64_t)at, MB_UNKNOWN, "kernel '%s': %llu launch tags, there are %d", k->name,
                          (unsigned long long)count, SLOTS);
  k->tags = malloc(SLOTS);
  if (!k->tags) return mb_fail_memory(SLOTS);
  k->dimensions = 1;
  for (uint64_t i = 0; i < count; i++) {
    int status = read_tag(c, k, i + 1 == count);
    if (status) return status;
  }
  return MBLOB_OK;
}

static int read_kernel(struct mb_cursor *c, struct mb_kernels *all, struct mb_kernel_info *k) {
  uint64_t at = c->pos;
  struct mb_slice name, inner;
  if (!mb_read_key(c, &name, "functions.name")) return MBLOB_E_FORMAT;
  k->name = strndup((const char *)name.data, (size_t)name.size);
  if (!k->name) return mb_fail_memory((size_t)name.size);
  if (mb_map_get(&all->by_name, k->name))
    return mb_fail_format("payload", (int64_t)at, MB_UNKNOWN, "kernel '%s' is declared twice", k->name);
  if (!mb_map_put(&all->by_name, k->name, k)) return MBLOB_E_MEMORY;
  if (!mb_read_string(c, &inner, "functions.name")) return MBLOB_E_FORMAT; /* "" in what TVM writes */
  int status = read_types(c, k);
  return status ? status : read_tags(c, k);
}

int mb_kernels_read(struct mb_cursor *c, struct mb_kernels *out) {
  uint64_t count = 0;
  int status = MBLOB_OK;
  *out = (struct mb_kernels){0};
  if (!mb_read_count(c, &count, 32, "functions")) return MBLOB_E_FORMAT;
  out->items = calloc((size_t)count + 1, sizeof(*out->items));
  if (!out->items) return mb_fail_memory((size_t)count * sizeof(*out->items));
  while (!status && out->count < count) status = read_kernel(c, out, &out->items[out->count++]);
  return status;
}

void mb_kernels_free(struct mb_kernels *kernels) {
  for (uint64_t i = 0; i < kernels->count; i++) {
    free(kernels->items[i].name);
    free(kernels->items[i].types);
    free(kernels->items[i].tags);
  }
  mb_map_free(&kernels->by_name);
  free(kernels->items);
  *kernels = (struct mb_kernels){0};
}

struct mb_kernel_info *mb_kernels_find(const struct mb_kernels *kernels, const char *name) {
  return mb_map_get(&kernels->by_name, name);
}

/* ---- calls ------------------------------------------------------------------------------------ */

int mb_kernel_check_count(const struct mb_kernel_info *k, int count) {
  if (count >= 0 && (uint64_t)count == k->type_count + k->tag_count) return MBLOB_OK;
  char tags[256] = "";
  for (uint64_t i = 0, used = 0; i < k->tag_count && used < sizeof(tags); i++)
    used += (uint64_t)snprintf(tags + used, sizeof(tags) - used, "%s%s", i ? ", " : ": ", tag_names[k->tags[i]]);
  return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': %d arguments given, it takes %llu and %llu launch extents%s", k->name,
                 count, (unsigned long long)k->type_count, (unsigned long long)k->tag_count, tags);
}

static int wrong_code(const struct mb_kernel_info *k, uint64_t i, int code) {
  char text[32];
  return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': argument %llu is a %s and was given a value of type code %d", k->name,
                 (unsigned long long)i, mb_type_text(k->types[i], text), code);
}

static bool fits(DLDataType type, int64_t value) {
  if (type.bits == 64) return true;
  if (type.code == kDLUInt) return value >= 0 && value <= (int64_t)((UINT64_C(1) << type.bits) - 1);
  const int64_t end = INT64_C(1) << (type.bits - 1);
  return value >= -end && value < end;
}

static void store_integer(int64_t value, uint8_t bits, void *to) {
  const uint8_t v8 = (uint8_t)value;
  const uint16_t v16 = (uint16_t)value;
  const uint32_t v32 = (uint32_t)value;
  memcpy(to, bits == 8 ? (const void *)&v8 : bits == 16 ? (const void *)&v16 : bits == 32 ? (const void *)&v32 : &value,
         bits / 8u);
}

int mb_kernel_scalar(const struct mb_kernel_info *k, uint64_t i, TVMValue value, int code, struct mb_scalar *out) {
  const DLDataType type = k->types[i];
  const bool integer = code == kTVMArgInt || code == kTVMArgBool;
  char text[32];
  out->size = type.bits / 8u;
  if (type.code == kDLFloat) {
    if (!integer && code != kTVMArgFloat) return wrong_code(k, i, code);
    const double wide = integer ? (double)value.v_int64 : value.v_float64;
    const float narrow = (float)wide;
    memcpy(&out->bytes, type.bits == 32 ? (const void *)&narrow : (const void *)&wide, out->size);
    return MBLOB_OK;
  }
  if (!integer) return wrong_code(k, i, code);
  if (!fits(type, value.v_int64))
    return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': argument %llu: %lld does not fit %s", k->name,
                   (unsigned long long)i, (long long)value.v_int64, mb_type_text(type, text));
  store_integer(value.v_int64, type.bits, &out->bytes);
  return MBLOB_OK;
}

int mb_kernel_launch(const struct mb_kernel_info *k, const TVMValue *args, const int *codes, struct mb_launch *out) {
  uint64_t slots[SLOTS] = {1, 1, 1, 1, 1, 1, 0};
  for (uint64_t i = 0; i < k->tag_count; i++) {
    const uint64_t at = k->type_count + i;
    if ((codes[at] != kTVMArgInt && codes[at] != kTVMArgBool) || args[at].v_int64 < 0)
      return mb_fail(MBLOB_E_ARGUMENT, "kernel '%s': argument %llu, %s, must be an integer of at least 0", k->name,
                     (unsigned long long)at, tag_names[k->tags[i]]);
    if (args[at].v_int64) slots[k->tags[i]] = (uint64_t)args[at].v_int64;
  }
  for (int axis = 0; axis < 3; axis++) {
    out->grid[axis] = slots[axis];
    out->block[axis] = slots[3 + axis];
  }
  out->shared_bytes = slots[SHARED];
  return MBLOB_OK;
}
