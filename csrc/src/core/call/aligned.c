#include "core/call/aligned.h"

#include "core/call/object.h"
#include "core/call/return_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"

struct mb_aligned_pair {
  const void *key;   /* the memory of a tensor, or a container */
  TVMValue from, to; /* both with a reference */
  int code;
  bool is_copy, changed; /* of a tensor */
};

/* ---- what was copied ------------------------------------------------------------------------- */

static size_t place_of_value(const struct mb_aligned *c, const void *key) {
  return ((uintptr_t)key >> 2) * (uintptr_t)0x9e3779b1u & (c->place_count - 1);
}

/* The pairs of that key: `*at` is 0 for the first, then the last answer. NULL: no more. */
static struct mb_aligned_pair *next_pair(const struct mb_aligned *c, const void *key, size_t *at) {
  if (!c->place_count) return NULL;
  size_t i = *at ? *at : place_of_value(c, key);
  for (; c->places[i & (c->place_count - 1)]; i++) {
    struct mb_aligned_pair *pair = &c->pairs[c->places[i & (c->place_count - 1)] - 1];
    *at = i + 1;
    if (pair->key == key) return pair;
  }
  return NULL;
}

static void put_place(struct mb_aligned *c, uint32_t pair) {
  size_t i = place_of_value(c, c->pairs[pair - 1].key);
  while (c->places[i]) i = (i + 1) & (c->place_count - 1);
  c->places[i] = pair;
}

/* Room for another pair; at most half of the places are taken. */
static int grow(struct mb_aligned *c) {
  if (c->count < c->room) return MBLOB_OK;
  const size_t room = c->room ? 2 * c->room : 8;
  struct mb_aligned_pair *pairs = realloc(c->pairs, room * sizeof(*pairs));
  uint32_t *places = pairs ? calloc(2 * room, sizeof(*places)) : NULL;
  if (pairs) c->pairs = pairs;
  if (!places || room > UINT32_MAX / 2) {
    free(places);
    return mb_fail_memory(room * sizeof(*pairs));
  }
  free(c->places);
  c->places = places;
  c->place_count = 2 * room;
  c->room = room;
  for (uint32_t i = 0; i < c->count; i++) put_place(c, i + 1);
  return MBLOB_OK;
}

/* Takes over the reference in `to`. */
static void add_copied(struct mb_aligned *c, const void *key, TVMValue from, TVMValue to, int code,
                       bool is_copy) {
  mb_value_retain(from, code);
  c->pairs[c->count++] = (struct mb_aligned_pair){key, from, to, code, is_copy, false};
  put_place(c, (uint32_t)c->count);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Another view of a copy. */
static int aligned_view_of(const DLTensor *like, DLTensor *copy, DLTensor **out) {
  DLTensor view = *like;
  view.data = copy->data;
  view.byte_offset = 0;
  int status = mb_array_view(&view, copy, mb_array_release_owner, out);
  if (!status) mb_array_retain(copy);
  return status;
}

/* The tensor's copy with a reference. What compiled code has to judge itself stays as it is:
 * memory of devices, and rows with gaps. */
static int align_tensor(struct mb_aligned *c, TVMValue *value) {
  DLTensor *t = value->v_handle, *copy = NULL;
  const char *data = (const char *)t->data + t->byte_offset;
  size_t size = 0, other = 0;
  int status = mb_tensor_size(t, &size);
  if (status) return status;
  struct mb_aligned_pair *pair;
  for (size_t at = 0; !copy && (pair = next_pair(c, data, &at));)
    if (pair->code == kTVMNDArrayHandle && pair->is_copy &&
        !mb_tensor_size(pair->from.v_handle, &other) && other == size)
      status = aligned_view_of(t, pair->to.v_handle, &copy);
  if (!status && !copy) {
    status = grow(c);
    const bool is_copy =
        mb_device_is_host((int)t->device.device_type) && mb_is_compact(t) && (t->data || !size);
    if (!status && is_copy) {
      status = mb_array_new(t->device, t->ndim, t->shape, t->dtype, &copy);
      if (!status && size) memcpy(copy->data, data, size);
    } else if (!status) {
      mb_array_retain(copy = t);
    }
    if (!status) {
      mb_array_retain(copy);
      add_copied(c, data, *value, (TVMValue){.v_handle = copy}, kTVMNDArrayHandle, is_copy);
    }
  }
  if (!status) value->v_handle = copy;
  return status;
}

/* The container's copy with a reference; what is in it is yet to be aligned. */
static int align_container(struct mb_aligned *c, TVMValue *value) {
  size_t at = 0;
  struct mb_object *copy = NULL;
  const struct mb_aligned_pair *pair = next_pair(c, value->v_handle, &at);
  while (pair && pair->code != kTVMObjectHandle) pair = next_pair(c, value->v_handle, &at);
  int status = pair ? MBLOB_OK : grow(c);
  if (pair)
    mb_object_retain(copy = pair->to.v_handle);
  else if (!status)
    status = mb_object_copy(value->v_handle, &copy);
  if (status) return status;
  if (!pair) {
    mb_object_retain(copy);
    add_copied(c, value->v_handle, *value, (TVMValue){.v_handle = copy}, kTVMObjectHandle, false);
  }
  value->v_handle = copy;
  return MBLOB_OK;
}

static int align_one(struct mb_aligned *c, TVMValue *value, int code) {
  return code == kTVMObjectHandle ? align_container(c, value) : align_tensor(c, value);
}

static int align_items(struct mb_aligned *c, struct mb_object *container) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < mb_object_count(container); i++) {
    const int code = mb_object_item(container, i)->code;
    TVMValue item = mb_object_value(container, i);
    if (mb_value_is_aligned(item, code)) continue;
    status = align_one(c, &item, code);
    if (status) break;
    status = mb_object_set_item(container, i, item, code);
    mblob_value_release(item, code);
  }
  return status;
}

/* Containers within containers, to any depth, wait in the list of pairs. */
int mb_value_align(struct mb_aligned *c, TVMValue *value, int code) {
  size_t at = c->count;
  TVMValue aligned = *value;
  int status = align_one(c, &aligned, code);
  if (status) return status;
  for (; !status && at < c->count; at++)
    if (c->pairs[at].code == kTVMObjectHandle) status = align_items(c, c->pairs[at].to.v_handle);
  if (status)
    mblob_value_release(aligned, code);
  else
    *value = aligned;
  return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* All are compared first: where tensors overlap, a copy that nobody changed must not undo what
 * was written through another. */
static void write_changes(struct mb_aligned *c) {
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < c->count; i++) {
      struct mb_aligned_pair *pair = &c->pairs[i];
      size_t size = 0;
      if (!pair->is_copy || mb_tensor_size(pair->from.v_handle, &size) || !size) continue;
      char *to = (char *)(uintptr_t)pair->key;
      const char *copy = ((const DLTensor *)pair->to.v_handle)->data;
      if (!pass)
        pair->changed = memcmp(to, copy, size) != 0;
      else if (pair->changed)
        memcpy(to, copy, size);
    }
}

void mb_aligned_end(struct mb_aligned *c, bool write_back) {
  if (write_back) write_changes(c);
  for (size_t i = 0; i < c->count; i++) {
    mblob_value_release(c->pairs[i].from, c->pairs[i].code);
    mblob_value_release(c->pairs[i].to, c->pairs[i].code);
  }
  free(c->pairs);
  free(c->places);
  *c = (struct mb_aligned){.count = 0};
}

int mb_value_keep_aligned(TVMValue *value, int code) {
  if (mb_value_is_aligned(*value, code)) return MBLOB_OK;
  struct mb_aligned copies = {.count = 0};
  const TVMValue given = *value;
  int status = mb_value_align(&copies, value, code);
  mb_aligned_end(&copies, false);
  mblob_value_release(given, code);
  return status;
}
