#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "json.h"

#define NDIM_LIMIT 64

static const struct {
  const char *name;
  DLDataType type;
} TYPES[] = {
    {"F64", {kDLFloat, 64, 1}},
    {"F32", {kDLFloat, 32, 1}},
    {"F16", {kDLFloat, 16, 1}},
    {"BF16", {kDLBfloat, 16, 1}},
    {"I64", {kDLInt, 64, 1}},
    {"I32", {kDLInt, 32, 1}},
    {"I16", {kDLInt, 16, 1}},
    {"I8", {kDLInt, 8, 1}},
    {"U64", {kDLUInt, 64, 1}},
    {"U32", {kDLUInt, 32, 1}},
    {"U16", {kDLUInt, 16, 1}},
    {"U8", {kDLUInt, 8, 1}},
    {"BOOL", {kDLUInt, 1, 1}},
    {"C64", {kDLComplex, 64, 1}},
    {"F8_E4M3", {kDLFloat8_e4m3fn, 8, 1}},
    {"F8_E5M2", {kDLFloat8_e5m2, 8, 1}},
};

struct range {
  uint64_t begin, end;
};

struct reader {
  struct mb_json json;
  const uint8_t *data; /* behind the header */
  uint64_t data_size;
  struct range *ranges; /* of the tensors, in their order */
};

static bool read_type(struct mb_json *j, DLDataType *out) {
  struct mb_slice name;
  if (!mb_json_string(j, &name)) return false;
  for (size_t i = 0; i < sizeof(TYPES) / sizeof(*TYPES); ++i) {
    if (!mb_slice_is(name, TYPES[i].name)) continue;
    *out = TYPES[i].type;
    return true;
  }
  return mb_json_fail(j, "an unknown dtype");
}

static bool read_shape(struct mb_json *j, DLTensor *out) {
  int64_t shape[NDIM_LIMIT];
  int32_t ndim = 0;
  if (!mb_json_begin_array(j)) return false;
  while (mb_json_next_element(j)) {
    uint64_t extent;
    if (ndim == NDIM_LIMIT) return mb_json_fail(j, "more than 64 dimensions");
    if (!mb_json_uint(j, &extent)) return false;
    if (extent > (uint64_t)INT64_MAX) return mb_json_fail(j, "a dimension above 2^63");
    shape[ndim++] = (int64_t)extent;
  }
  if (j->error) return false;
  free(out->shape); /* a second "shape" replaces the first */
  out->shape = malloc(ndim ? (size_t)ndim * sizeof(*shape) : 1);
  if (!out->shape) return mb_json_fail(j, "out of memory");
  memcpy(out->shape, shape, (size_t)ndim * sizeof(*shape));
  out->ndim = ndim;
  return true;
}

static bool read_range(struct mb_json *j, struct range *out) {
  return mb_json_begin_array(j) && mb_json_next_element(j) && mb_json_uint(j, &out->begin) &&
         mb_json_next_element(j) && mb_json_uint(j, &out->end) &&
         (!mb_json_next_element(j) || mb_json_fail(j, "expected two data offsets"));
}

/* Bytes that type and shape need; false if that is no number of 64 bits. */
static bool bytes_needed(const DLTensor *t, uint64_t *out) {
  uint64_t size = (t->dtype.bits + 7u) / 8u;
  for (int32_t i = 0; i < t->ndim; ++i) {
    if (__builtin_mul_overflow(size, (uint64_t)t->shape[i], &size)) return false;
  }
  *out = size;
  return true;
}

static bool read_tensor(struct reader *r, struct mb_tensor *t, struct range *range) {
  struct mb_json *j = &r->json;
  struct mb_slice key;
  bool type = false, shape = false, place = false;
  if (!mb_json_begin_object(j)) return false;
  while (mb_json_next_key(j, &key)) {
    if (mb_json_is(key, "dtype"))
      type = read_type(j, &t->view.dtype);
    else if (mb_json_is(key, "shape"))
      shape = read_shape(j, &t->view);
    else if (mb_json_is(key, "data_offsets"))
      place = read_range(j, range);
    else
      (void)mb_json_fail(j, "an unknown key of a tensor");
  }
  if (j->error) return false;
  if (!type || !shape || !place) return mb_json_fail(j, "a tensor needs dtype, shape and data_offsets");
  uint64_t needed;
  if (range->begin > range->end || range->end > r->data_size)
    return mb_json_fail(j, "data offsets outside of the data");
  if (!bytes_needed(&t->view, &needed) || needed != range->end - range->begin)
    return mb_json_fail(j, "data offsets that do not fit dtype and shape");
  t->view.device = (DLDevice){kDLCPU, 0};
  t->view.data = (void *)(uintptr_t)(r->data + range->begin);
  return true;
}

static bool add(struct reader *r, struct mb_tensors *out) {
  if (out->count < out->capacity) return true;
  size_t capacity = out->capacity ? 2 * out->capacity : 16;
  struct mb_tensor *items = realloc(out->items, capacity * sizeof(*items));
  if (items) out->items = items;
  struct range *ranges = items ? realloc(r->ranges, capacity * sizeof(*ranges)) : NULL;
  if (!ranges) return mb_json_fail(&r->json, "out of memory");
  r->ranges = ranges;
  out->capacity = capacity;
  return true;
}

static bool read_header(struct reader *r, struct mb_tensors *out) {
  struct mb_json *j = &r->json;
  struct mb_slice key;
  if (!mb_json_begin_object(j)) return false;
  while (mb_json_next_key(j, &key)) {
    if (mb_json_is(key, "__metadata__")) {
      if (!mb_json_skip(j)) return false;
      continue;
    }
    if (!add(r, out)) return false;
    struct mb_tensor *t = &out->items[out->count];
    *t = (struct mb_tensor){.name = mb_json_text(key)};
    out->count++; /* counted before it is complete, so that it is freed */
    if (!t->name) return mb_json_fail(j, "a wrong escape in a name");
    if (!read_tensor(r, t, &r->ranges[out->count - 1])) return false;
  }
  return mb_json_end(j);
}

static int by_place(const void *a, const void *b) {
  const struct range *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorted, each range must begin where the one before ends, and the last end with the data. */
static bool ranges_cover(struct reader *r, size_t count) {
  uint64_t at = 0;
  if (count) qsort(r->ranges, count, sizeof(*r->ranges), by_place);
  for (size_t i = 0; i < count; ++i) {
    if (r->ranges[i].begin != at) return false;
    at = r->ranges[i].end;
  }
  return at == r->data_size;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct mb_tensor *)a)->name, ((const struct mb_tensor *)b)->name);
}

static const char *check_all(struct reader *r, struct mb_tensors *out) {
  if (!ranges_cover(r, out->count)) return "the data has holes, overlaps, or a rest";
  if (out->count) qsort(out->items, out->count, sizeof(*out->items), by_name);
  for (size_t i = 1; i < out->count; ++i) {
    if (by_name(&out->items[i - 1], &out->items[i]) == 0) return "a name occurs twice";
  }
  return NULL;
}

int mb_safetensors_read(const uint8_t *bytes, uint64_t size, int64_t entry, struct mb_tensors *out) {
  *out = (struct mb_tensors){0};
  if (size < 8) {
    return mb_fail_format("payload", 0, entry, "safetensors: %llu bytes, its header's size alone has 8",
                          (unsigned long long)size);
  }
  uint64_t header = mb_u64_at(bytes);
  if (header > MB_SAFETENSORS_HEADER_LIMIT || header > size - 8) {
    return mb_fail_format(
        "payload", 0, entry, "safetensors: a header of %llu bytes, %llu are left and %u the limit",
        (unsigned long long)header, (unsigned long long)(size - 8), MB_SAFETENSORS_HEADER_LIMIT);
  }
  struct reader r = {.data = bytes + 8 + header, .data_size = size - 8 - header};
  mb_json_init(&r.json, bytes + 8, (size_t)header);
  const char *wrong = read_header(&r, out) ? check_all(&r, out) : r.json.error;
  free(r.ranges);
  if (!wrong) return MBLOB_OK;
  mb_tensors_free(out);
  return mb_fail_format("payload", 8 + (r.json.pos - r.json.start), entry, "safetensors: %s", wrong);
}

const struct mb_tensor *mb_tensors_find(const struct mb_tensors *tensors, const char *name) {
  if (!tensors->count) return NULL;
  struct mb_tensor key = {.name = (char *)(uintptr_t)name};
  return bsearch(&key, tensors->items, tensors->count, sizeof(*tensors->items), by_name);
}

void mb_tensors_free(struct mb_tensors *tensors) {
  for (size_t i = 0; i < tensors->count; ++i) {
    free(tensors->items[i].name);
    free(tensors->items[i].view.shape);
  }
  free(tensors->items);
  *tensors = (struct mb_tensors){0};
}
