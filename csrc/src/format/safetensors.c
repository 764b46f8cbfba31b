#include "format/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "format/ndarray.h"

/* Every dtype of the format. A bool takes a byte; elements of 4 and 6 bits are packed without
 * gaps. */
static const struct {
  uint8_t code, bits;
  char name[12];
} names_of_types[] = {MB_DTYPES_OF_SAFETENSORS};

struct byte_range {
  uint64_t begin, end;
};

struct header_reader {
  struct mb_json json;
  const uint8_t *data; /* behind the header */
  uint64_t data_size;
  struct byte_range *ranges; /* of the tensors, in their order */
  struct mb_slice tensor;    /* name of the one being read, as it is escaped; for errors */
};

static bool read_header_type(struct mb_json *j, DLDataType *out) {
  struct mb_slice name;
  if (!mb_json_string(j, &name)) return false;
  for (size_t i = 0; i < sizeof(names_of_types) / sizeof(*names_of_types); ++i) {
    if (!mb_slice_is(name, names_of_types[i].name)) continue;
    *out = (DLDataType){names_of_types[i].code, names_of_types[i].bits, 1};
    return true;
  }
  return mb_json_fail(j, "a dtype that is not known");
}

static bool read_header_shape(struct mb_json *j, DLTensor *out) {
  int64_t shape[MB_NDIM_LIMIT];
  int32_t ndim = 0;
  if (!mb_json_begin_array(j)) return false;
  while (mb_json_next_element(j)) {
    uint64_t extent;
    if (ndim == MB_NDIM_LIMIT) return mb_json_fail(j, "shape: more than 64 dimensions");
    if (!mb_json_uint(j, &extent)) return false;
    if (extent > (uint64_t)INT64_MAX) return mb_json_fail(j, "shape: a dimension of 2^63 or more");
    shape[ndim++] = (int64_t)extent;
  }
  if (j->error) return false;
  out->shape = malloc(ndim ? (size_t)ndim * sizeof(*shape) : 1);
  if (!out->shape) return mb_json_fail(j, MB_TEXT_NO_MEMORY);
  memcpy(out->shape, shape, (size_t)ndim * sizeof(*shape));
  out->ndim = ndim;
  return true;
}

static bool read_range(struct mb_json *j, struct byte_range *out) {
  return mb_json_begin_array(j) && mb_json_next_element(j) && mb_json_uint(j, &out->begin) &&
         mb_json_next_element(j) && mb_json_uint(j, &out->end) &&
         (!mb_json_next_element(j) || mb_json_fail(j, "data_offsets: expected [begin, end]"));
}

/* True if dtype and shape need `bytes` bytes. */
static bool fits_bytes(const DLTensor *t, uint64_t bytes) {
  unsigned element = t->dtype.bits == 1 ? 8 : t->dtype.bits, item = (element + 7) / 8;
  uint64_t most, bits;
  if (!mb_is_addressable(t->shape, (uint32_t)t->ndim, item, &most)) return false;
  for (int32_t i = 0; i < t->ndim; ++i)
    if (!t->shape[i]) return bytes == 0;
  return !__builtin_mul_overflow(most / item, element, &bits) && bits % 8 == 0 && bits / 8 == bytes;
}

/* Elements of 4 and 6 bits have no address of their own: they are given as the bytes they are
 * packed in. */
static bool view_packed_as_bytes(struct mb_json *j, DLTensor *t, uint64_t bytes) {
  if (t->dtype.bits != 4 && t->dtype.bits != 6) return true;
  int64_t *shape = realloc(t->shape, sizeof(*shape));
  if (!shape) return mb_json_fail(j, MB_TEXT_NO_MEMORY);
  *shape = (int64_t)bytes;
  t->shape = shape;
  t->ndim = 1;
  t->dtype = (DLDataType){kDLUInt, 8, 1};
  return true;
}

static bool once(struct mb_json *j, bool *seen) {
  if (*seen) return mb_json_fail(j, "a key occurs twice");
  return *seen = true;
}

static bool read_fields(struct mb_json *j, DLTensor *view, struct byte_range *range) {
  struct mb_slice key;
  bool type = false, shape = false, place = false;
  if (!mb_json_begin_object(j)) return false;
  while (mb_json_next_key(j, &key)) {
    if (mb_json_is(key, "dtype"))
      (void)(once(j, &type) && read_header_type(j, &view->dtype));
    else if (mb_json_is(key, "shape"))
      (void)(once(j, &shape) && read_header_shape(j, view));
    else if (mb_json_is(key, "data_offsets"))
      (void)(once(j, &place) && read_range(j, range));
    else
      (void)mb_json_skip(j);
  }
  if (j->error) return false;
  return (type && shape && place) || mb_json_fail(j, "expected dtype, shape and data_offsets");
}

static bool read_tensor(struct header_reader *r, struct mb_tensor *t, struct byte_range *range) {
  struct mb_json *j = &r->json;
  if (!read_fields(j, &t->view, range)) return false;
  if (range->begin > range->end || range->end > r->data_size)
    return mb_json_fail(j, "data_offsets lie outside of the data");
  if (!fits_bytes(&t->view, range->end - range->begin))
    return mb_json_fail(j, "data_offsets do not fit dtype and shape");
  t->view.device = (DLDevice){kDLCPU, 0};
  t->view.data = (void *)(uintptr_t)(r->data + range->begin);
  return view_packed_as_bytes(j, &t->view, range->end - range->begin) &&
         (mb_view_in_host_order(&t->view, range->end - range->begin) == MBLOB_OK ||
          mb_json_fail(j, MB_TEXT_NO_MEMORY));
}

static bool read_metadata(struct mb_json *j, char **order) {
  struct mb_slice key, value;
  if (!mb_json_begin_object(j)) return false;
  while (mb_json_next_key(j, &key))
    if (mb_json_string(j, &value) && !*order && mb_json_is(key, MB_PARAMETERS) &&
        !(*order = mb_json_text(value)))
      return mb_json_fail(j, MB_TEXT_WRONG_ESCAPE);
  return !j->error;
}

static bool add_tensor(struct header_reader *r, struct mb_tensors *out) {
  if (out->count < out->capacity) return true;
  size_t capacity = out->capacity ? 2 * out->capacity : 16;
  struct mb_tensor *items = realloc(out->items, capacity * sizeof(*items));
  if (items) out->items = items;
  struct byte_range *ranges = items ? realloc(r->ranges, capacity * sizeof(*ranges)) : NULL;
  if (!ranges) return mb_json_fail(&r->json, MB_TEXT_NO_MEMORY);
  r->ranges = ranges;
  out->capacity = capacity;
  return true;
}

static bool read_safetensors_header(struct header_reader *r, struct mb_tensors *out) {
  struct mb_json *j = &r->json;
  struct mb_slice key;
  bool metadata = false;
  if (!mb_json_begin_object(j)) return false;
  while (mb_json_next_key(j, &key)) {
    if (mb_json_is(key, "__metadata__")) {
      if (!once(j, &metadata) || !read_metadata(j, &out->order)) return false;
      continue;
    }
    if (!add_tensor(r, out)) return false;
    struct mb_tensor *t = &out->items[out->count];
    *t = (struct mb_tensor){.name = mb_json_text(key)};
    out->count++; /* counted before it is complete, so that it is freed */
    if (!t->name) return mb_json_fail(j, MB_TEXT_WRONG_ESCAPE);
    r->tensor = key;
    if (!read_tensor(r, t, &r->ranges[out->count - 1])) return false;
    r->tensor = (struct mb_slice){0};
  }
  return mb_json_end(j);
}

static int by_place(const void *a, const void *b) {
  const struct byte_range *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* Sorted, each range must begin where the one before ends, and the last end with the data. */
static bool ranges_cover(struct header_reader *r, size_t count) {
  uint64_t at = 0;
  if (count) qsort(r->ranges, count, sizeof(*r->ranges), by_place);
  for (size_t i = 0; i < count; ++i) {
    if (r->ranges[i].begin != at) return false;
    at = r->ranges[i].end;
  }
  return at == r->data_size;
}

static int by_tensor_name(const void *a, const void *b) {
  return strcmp(((const struct mb_tensor *)a)->name, ((const struct mb_tensor *)b)->name);
}

static const char *check_all(struct header_reader *r, struct mb_tensors *out) {
  if (!ranges_cover(r, out->count)) return "the data has holes, overlaps, or a rest";
  if (out->count) qsort(out->items, out->count, sizeof(*out->items), by_tensor_name);
  for (size_t i = 1; i < out->count; ++i) {
    if (by_tensor_name(&out->items[i - 1], &out->items[i]) == 0) return "a name occurs twice";
  }
  return NULL;
}

int mb_safetensors_read(const uint8_t *bytes, uint64_t size, int64_t entry,
                        struct mb_tensors *out) {
  *out = (struct mb_tensors){0};
  if (size < 8) {
    return mb_fail_format("payload", 0, entry,
                          "safetensors: %llu bytes, its header's size alone has 8",
                          (unsigned long long)size);
  }
  uint64_t header = mb_u64_at(bytes);
  if (header > MB_SAFETENSORS_HEADER_LIMIT || header > size - 8) {
    return mb_fail_format(
        "payload", 0, entry, "safetensors: a header of %llu bytes, %llu are left and %u the limit",
        (unsigned long long)header, (unsigned long long)(size - 8), MB_SAFETENSORS_HEADER_LIMIT);
  }
  struct header_reader r = {.data = bytes + 8 + header, .data_size = size - 8 - header};
  mb_json_init(&r.json, bytes + 8, (size_t)header);
  const char *wrong = read_safetensors_header(&r, out) ? check_all(&r, out) : r.json.error;
  free(r.ranges);
  if (!wrong) return MBLOB_OK;
  mb_tensors_free(out);
  int64_t at = 8 + (r.json.pos - r.json.start);
  if (!r.tensor.data) return mb_fail_format("payload", at, entry, "safetensors: %s", wrong);
  return mb_fail_format("payload", at, entry, "safetensors: tensor '%.*s': %s",
                        (int)(r.tensor.size < 80 ? r.tensor.size : 80), (const char *)r.tensor.data,
                        wrong);
}

const struct mb_tensor *mb_tensors_find(const struct mb_tensors *tensors, const char *name) {
  if (!tensors->count) return NULL;
  struct mb_tensor key = {.name = (char *)(uintptr_t)name};
  return bsearch(&key, tensors->items, tensors->count, sizeof(*tensors->items), by_tensor_name);
}

void mb_tensors_free(struct mb_tensors *tensors) {
  for (size_t i = 0; i < tensors->count; ++i) {
    free(tensors->items[i].name);
    free(tensors->items[i].view.shape);
  }
  free(tensors->items);
  free(tensors->order);
  *tensors = (struct mb_tensors){0};
}
