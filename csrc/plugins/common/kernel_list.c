#define _GNU_SOURCE
#include "kernel_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

const char *const mb_launch_tag_names[MB_LAUNCH_TAGS] = {"blockIdx.x",
                                                         "blockIdx.y",
                                                         "blockIdx.z",
                                                         "threadIdx.x",
                                                         "threadIdx.y",
                                                         "threadIdx.z",
                                                         "tir.use_dyn_shared_memory"};

static char *copy_text(struct mb_slice s) {
  char *text = malloc((size_t)s.size + 1);
  if (!text) {
    (void)mb_fail_memory((size_t)s.size + 1);
    return NULL;
  }
  memcpy(text, s.data, (size_t)s.size);
  text[s.size] = 0;
  return text;
}

bool mb_kernel_takes_scalar(DLDataType t) {
  if (t.lanes != 1) return false;
  if (t.code == kDLFloat) return t.bits == 32 || t.bits == 64;
  if (t.bits == 1) return t.code == kDLUInt || t.code == kDLBool;
  return (t.code == kDLInt || t.code == kDLUInt || t.code == kDLBool) &&
         (t.bits == 8 || t.bits == 16 || t.bits == 32 || t.bits == 64);
}

static bool can_be_passed(DLDataType t) {
  return mb_kernel_takes_scalar(t) || (t.code == kDLOpaqueHandle && t.lanes == 1);
}

/* The first problem is kept. */
static void MB_PRINTF(3, 4) note(struct mb_kernel *kernel, uint64_t at, const char *format, ...) {
  va_list args;
  if (kernel->problem) return;
  va_start(args, format);
  if (vasprintf(&kernel->problem, format, args) < 0) kernel->problem = NULL;
  va_end(args);
  kernel->problem_at = (int64_t)at;
}

static bool read_types(struct mb_cursor *c, struct mb_kernel *kernel) {
  uint64_t count;
  if (!mb_read_count(c, &count, 4, "kernel: arg_types")) return false;
  kernel->types = calloc((size_t)count + 1, sizeof(*kernel->types));
  if (!kernel->types) return (void)mb_fail_memory((size_t)count * sizeof(*kernel->types)), false;
  kernel->type_count = (size_t)count;
  for (size_t i = 0; i < count; i++) {
    if (!mb_skip(c, 4, "kernel: arg_types")) return false;
    const uint8_t *raw = c->data + c->pos - 4;
    char text[32];
    kernel->types[i] = (DLDataType){raw[0], raw[1], (uint16_t)(raw[2] | raw[3] << 8)};
    if (!can_be_passed(kernel->types[i]))
      note(
          kernel, c->pos - 4,
          "argument %zu is declared %s; kernels take pointers, integers of 8 to 64 bits, float32 and float64",
          i, mb_kernel_type_text(kernel->types[i], text));
  }
  return true;
}

/* Tags of TVM 0.24 and later that are no argument of the launch. Launches here are ordered one
 * after the other and take blocks of any size, so there is nothing to do about these two. */
static bool is_hint(struct mb_slice tag) {
  return mb_slice_is(tag, "tirx.use_programtic_dependent_launch") ||
         mb_slice_is(tag, "tirx.use_required_block_dimension");
}

static unsigned tag_of(struct mb_slice text) {
  unsigned tag = 0;
  if (mb_slice_is(text, "tirx.use_dyn_shared_memory"))
    return MB_SHARED_BYTES; /* the name from TVM 0.24 on */
  while (tag < MB_LAUNCH_TAGS && !mb_slice_is(text, mb_launch_tag_names[tag])) tag++;
  return tag;
}

static const char *problem_of(unsigned tag, unsigned seen, bool is_last) {
  if (tag == MB_LAUNCH_TAGS) return "is not known";
  if (seen & 1u << tag) return "comes twice";
  return tag == MB_SHARED_BYTES && !is_last ? "must be the last" : NULL;
}

/* Of `count` tags where the cursor stands, which does not move. */
static bool only_hints_follow(const struct mb_cursor *c, uint64_t count) {
  struct mb_cursor ahead = *c;
  struct mb_slice text;
  while (count && mb_left(&ahead) >= 8 &&
         mb_u64_at(ahead.data + ahead.pos) <= mb_left(&ahead) - 8 &&
         mb_read_string(&ahead, &text, "") && is_hint(text))
    count--;
  return !count;
}

static bool read_tags(struct mb_cursor *c, struct mb_kernel *kernel) {
  uint64_t count;
  if (!mb_read_count(c, &count, 8, "kernel: launch_param_tags")) return false;
  unsigned seen = 0;
  for (uint64_t i = 0; i < count; i++) {
    struct mb_slice text;
    uint64_t start = c->pos;
    if (!mb_read_string(c, &text, "kernel: launch tag")) return false;
    if (is_hint(text)) continue;
    const unsigned tag = tag_of(text);
    const char *problem = problem_of(tag, seen, only_hints_follow(c, count - i - 1));
    if (problem)
      note(kernel, start,
           "launch tag '%.*s' %s; expected blockIdx.x, .y, .z, threadIdx.x, .y, .z, each once, and "
           "tir.use_dyn_shared_memory last",
           (int)(text.size < 64 ? text.size : 64), (const char *)text.data, problem);
    if (problem) continue;
    seen |= 1u << tag;
    kernel->tags[kernel->tag_count++] = (uint8_t)tag;
  }
  return true;
}

/* 1: the parameter is a descriptor of CUDA's tensor maps, which the host code would have to
 * make. */
static bool read_extra_tags(struct mb_cursor *c, struct mb_kernel *kernel) {
  uint64_t count;
  uint32_t extra;
  if (!mb_read_count(c, &count, 4, "kernel: arg_extra_tags")) return false;
  if (count && count != kernel->type_count)
    note(kernel, c->pos, "%llu extra tags for %zu parameters, expected as many or none",
         (unsigned long long)count, kernel->type_count);
  for (uint64_t i = 0; i < count; i++) {
    if (!mb_read_u32(c, &extra, "kernel: arg_extra_tags")) return false;
    if (extra)
      note(kernel, c->pos - 4,
           "parameter %llu has the extra tag %u (1: a tensor map), which cannot be passed here",
           (unsigned long long)i, extra);
  }
  return true;
}

static bool read_kernel(struct mb_cursor *c, bool ffi, struct mb_kernel *kernel) {
  struct mb_slice name, unused;
  if (!mb_read_key(c, &name, "kernel: name")) return false;
  kernel->name = copy_text(name);
  /* The name inside is empty in all releases; the key is the kernel's. */
  return kernel->name && mb_read_string(c, &unused, "kernel: inner name") &&
         read_types(c, kernel) && read_tags(c, kernel) && (!ffi || read_extra_tags(c, kernel));
}

int mb_kernel_list_read(struct mb_cursor *c, bool ffi, struct mb_kernel_list *out) {
  uint64_t count;
  *out = (struct mb_kernel_list){0};
  if (!mb_read_count(c, &count, ffi ? 40 : 32, "functions")) return MBLOB_E_FORMAT;
  out->items = calloc((size_t)count + 1, sizeof(*out->items));
  out->names = calloc((size_t)count + 1, sizeof(*out->names));
  if (!out->items || !out->names) {
    mb_kernel_list_free(out);
    return mb_fail_memory((size_t)count * sizeof(*out->items));
  }
  int status = MBLOB_OK;
  while (!status && out->count < count) {
    struct mb_kernel *kernel = &out->items[out->count];
    uint64_t start = c->pos;
    kernel->index = out->count++;
    if (!read_kernel(c, ffi, kernel))
      status = MBLOB_E_FORMAT;
    else if (mb_map_get(&out->by_name, kernel->name))
      status = mb_fail_format("payload", (int64_t)start, c->entry, "kernel '%s' is listed twice",
                              kernel->name);
    else if (!mb_map_put(&out->by_name, kernel->name, kernel))
      status = MBLOB_E_MEMORY;
    out->names[kernel->index] = kernel->name;
  }
  if (status) mb_kernel_list_free(out);
  return status;
}

void mb_kernel_list_free(struct mb_kernel_list *list) {
  mb_map_free(&list->by_name);
  for (size_t i = 0; i < list->count; i++) {
    free(list->items[i].name);
    free(list->items[i].types);
    free(list->items[i].problem);
  }
  free(list->items);
  free(list->names);
  *list = (struct mb_kernel_list){0};
}

int mb_kernel_check(const struct mb_kernel *kernel) {
  return kernel->problem ? mb_fail_format("payload", kernel->problem_at, MB_UNKNOWN,
                                          "kernel '%s': %s", kernel->name, kernel->problem)
                         : MBLOB_OK;
}
