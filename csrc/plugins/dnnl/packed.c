#define _GNU_SOURCE
#include "packed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"

#define ALIGNMENT 64
#define ROW 48 /* bytes */
static const char magic[8] = "mbdnnl1";

/* ---- digests ---- */

static uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

/* Of bytes that differ by accident, not by intent. */
static uint64_t digest(const void *data, size_t size, uint64_t seed) {
  static const uint64_t odd[2] = {0x9E3779B185EBCA87U, 0xC2B2AE3D27D4EB4FU};
  const uint8_t *at = data, *end = at + size;
  uint64_t lanes[4] = {seed, seed + 1, seed + 2, seed + 3};
  for (; end - at >= 32; at += 32)
    for (int i = 0; i < 4; ++i) {
      uint64_t word;
      memcpy(&word, at + 8 * i, 8);
      lanes[i] = turn(lanes[i] + word * odd[1], 31) * odd[0];
    }
  uint64_t found = size;
  for (int i = 0; i < 4; ++i) found = turn((found ^ lanes[i]) * odd[0], 27) + odd[1];
  for (; at < end; ++at) found = turn((found ^ *at) * odd[0], 11);
  found = (found ^ found >> 33) * odd[1];
  found = (found ^ found >> 29) * odd[0];
  return found ^ found >> 32;
}

/* Of two formats, 0 if one cannot be told. */
static uint64_t format_of(const struct dn_library *lib, const dn_md *from, const dn_md *to) {
  const dn_md *formats[2] = {from, to};
  uint64_t found = 1;
  for (int i = 0; i < 2; ++i) {
    unsigned char told[DN_TOLD_FORMAT] = {0};
    size_t size = lib->version->md_tell(formats[i], told);
    if (!size) return 0;
    found = digest(told, size, found);
  }
  return found ? found : 1;
}

static uint64_t source_of(struct dn_build *build, size_t constant) {
  const struct dn_constant *from = &build->plan->constants[constant];
  uint64_t *known = &build->packing->digests[constant];
  if (!*known) *known = digest(from->data, mb_size(from->size), 1) | 1;
  return *known;
}

/* ---- who packed ---- */

static void tell_library(const struct dn_library *lib, char *library, size_t size,
                         char *instructions, size_t room) {
  (void)snprintf(library, size, "oneDNN %d.%d.%d", lib->major, lib->minor, lib->patch);
  (void)snprintf(instructions, room, "0x%x", lib->instructions ? lib->instructions() : 0U);
}

const struct dn_packed *dn_packed_that_fits(const struct dn_packed *packed,
                                            const struct dn_library *lib) {
  char library[sizeof(packed->library)], instructions[sizeof(packed->instructions)];
  if (!packed || !lib->instructions) return NULL;
  tell_library(lib, library, sizeof(library), instructions, sizeof(instructions));
  return strcmp(library, packed->library) || strcmp(instructions, packed->instructions) ? NULL
                                                                                        : packed;
}

/* ---- reading ---- */

static int damaged(const char *what) {
  return mb_fail(MBLOB_E_FORMAT, DN_PACKED_KEY ": the payload is damaged: %s", what);
}

static bool read_name(struct mb_cursor *c, char *out, size_t room, const char *what) {
  struct mb_slice text;
  if (!mb_read_string(c, &text, what)) return false;
  if (text.size >= room || memchr(text.data, 0, mb_size(text.size))) {
    (void)damaged(what);
    return false;
  }
  memcpy(out, text.data, mb_size(text.size));
  out[text.size] = 0;
  return true;
}

static bool read_row(struct mb_cursor *c, struct dn_packed_row *row) {
  return mb_read_u64(c, &row->constant, "a row") && mb_read_u64(c, &row->source, "a row") &&
         mb_read_u64(c, &row->format, "a row") && mb_read_u64(c, &row->offset, "a row") &&
         mb_read_u64(c, &row->size, "a row") && mb_read_u64(c, &row->check, "a row");
}

static int read_rows(struct mb_cursor *c, struct dn_packed *packed, uint64_t count, uint64_t size) {
  for (; packed->count < count; ++packed->count) {
    struct dn_packed_row *row = &packed->rows[packed->count];
    if (!read_row(c, row)) return MBLOB_E_FORMAT;
    if (row->offset % ALIGNMENT || row->offset < c->end || row->offset > size ||
        row->size > size - row->offset)
      return damaged("a constant outside of it");
  }
  return mb_left(c) < ALIGNMENT ? MBLOB_OK : damaged("bytes behind the last row");
}

int dn_packed_read(const void *payload, uint64_t size, struct dn_packed **out) {
  struct mb_cursor c = {payload, 0, size, MB_UNKNOWN};
  uint64_t check, data, count;
  *out = NULL;
  if (!size)
    return damaged(
        "it is empty: a program that rewrote the library lost its aligned data; pack it again");
  if (size < sizeof(magic) || memcmp(payload, magic, sizeof(magic)))
    return damaged("it does not begin with mbdnnl1");
  c.pos = sizeof(magic);
  if (!mb_read_u64(&c, &check, "the digest") || !mb_read_u64(&c, &data, "the place of the data"))
    return MBLOB_E_FORMAT;
  if (data < c.pos || data > size) return damaged("the place of its data is outside of it");
  if (check != digest((const char *)payload + 16, mb_size(data) - 16, 1))
    return damaged("the digest of its rows is another one");
  c.end = data;
  struct dn_packed head = {.payload = payload};
  if (!read_name(&c, head.library, sizeof(head.library), "the library") ||
      !read_name(&c, head.instructions, sizeof(head.instructions), "the instructions") ||
      !mb_read_count(&c, &count, ROW, "the rows"))
    return MBLOB_E_FORMAT;
  struct dn_packed *packed = calloc(1, sizeof(head) + mb_size(count) * sizeof(*packed->rows));
  if (!packed) return mb_fail_memory(mb_size(count) * sizeof(*packed->rows));
  memcpy(packed, &head, sizeof(head));
  int status = read_rows(&c, packed, count, size);
  if (status)
    free(packed);
  else
    *out = packed;
  return status;
}

/* ---- while a plan is made ---- */

/* Constants that the caller gave: not what was made of them. */
static bool is_given(const struct dn_build *build, const struct dn_operand *from) {
  return build->packing && from->place == DN_CONSTANT && !from->offset &&
         from->number < build->graph->const_count;
}

bool dn_packing_use(struct dn_build *build, const struct dn_operand *from, struct dn_operand *to) {
  const struct dn_packed *packed = is_given(build, from) ? build->packing->packed : NULL;
  uint64_t format = packed ? format_of(build->library, from->md, to->md) : 0;
  for (uint64_t i = 0; format && i < packed->count; ++i) {
    const struct dn_packed_row *row = &packed->rows[i];
    if (row->constant != from->number || row->format != format ||
        row->size != build->library->md_size(to->md) ||
        row->source != source_of(build, from->number) ||
        row->check != digest(packed->payload + row->offset, mb_size(row->size), 1))
      continue;
    struct dn_plan *plan = build->plan;
    struct dn_constant *constant = dn_plan_grow((void **)&plan->constants, &plan->constant_count,
                                                &plan->constant_capacity, sizeof(*constant));
    if (!constant) return false;
    *constant = (struct dn_constant){.data = (void *)(uintptr_t)(packed->payload + row->offset),
                                     .size = row->size,
                                     .lasting = true};
    if ((uintptr_t)constant->data % ALIGNMENT) { /* of a library in memory */
      size_t number = dn_plan_constant(plan, row->size);
      if (number == SIZE_MAX) return false;
      memcpy(plan->constants[number].data, packed->payload + row->offset, mb_size(row->size));
    }
    to->place = DN_CONSTANT;
    to->number = plan->constant_count - 1;
    return true;
  }
  return false;
}

int dn_packing_note(struct dn_build *build, const struct dn_operand *from,
                    const struct dn_operand *to) {
  if (!is_given(build, from) || !build->packing->records) return MBLOB_OK;
  struct dn_packing *p = build->packing;
  uint64_t format = format_of(build->library, from->md, to->md);
  if (!format) return MBLOB_OK;
  struct dn_packed_row *row =
      dn_plan_grow((void **)&p->made, &p->made_count, &p->made_capacity, sizeof(*row));
  if (!row) return MBLOB_E_MEMORY;
  *row = (struct dn_packed_row){from->number, source_of(build, from->number),          format,
                                to->number,   build->plan->constants[to->number].size, 0};
  return MBLOB_OK;
}

/* ---- writing ---- */

static uint64_t up(uint64_t n) { return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void put_u64(FILE *out, uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = (uint8_t)(value >> 8 * i);
  (void)fwrite(bytes, 1, sizeof(bytes), out);
}

static void put_text(FILE *out, const char *text) {
  put_u64(out, strlen(text));
  (void)fputs(text, out);
}

static void fill(FILE *out, uint64_t from, uint64_t to) {
  for (; from < to; ++from) (void)fputc(0, out);
}

/* The rows of constants that the plan still has, and the data behind them. */
static void write_packing(const struct dn_packing *p, const struct dn_plan *plan, FILE *out) {
  const struct dn_constant *constants = plan->constants;
  char library[64], instructions[32];
  uint64_t count = 0;
  tell_library(plan->library, library, sizeof(library), instructions, sizeof(instructions));
  for (size_t i = 0; i < p->made_count; ++i) count += constants[p->made[i].offset].data != NULL;
  uint64_t head = 24 + 16 + strlen(library) + strlen(instructions) + 8 + count * ROW, at = up(head);
  (void)fwrite(magic, 1, sizeof(magic), out);
  put_u64(out, 0); /* the digest comes last */
  put_u64(out, at);
  put_text(out, library);
  put_text(out, instructions);
  put_u64(out, count);
  for (size_t i = 0; i < p->made_count; ++i) {
    const struct dn_packed_row *row = &p->made[i];
    if (!constants[row->offset].data) continue;
    put_u64(out, row->constant);
    put_u64(out, row->source);
    put_u64(out, row->format);
    put_u64(out, at);
    put_u64(out, row->size);
    put_u64(out, digest(constants[row->offset].data, mb_size(row->size), 1));
    at = up(at + row->size);
  }
  fill(out, head, up(head));
  for (size_t i = 0; i < p->made_count; ++i) {
    const struct dn_constant *constant = &constants[p->made[i].offset];
    if (!constant->data) continue;
    (void)fwrite(constant->data, 1, mb_size(constant->size), out);
    fill(out, constant->size, up(constant->size));
  }
}

int dn_packing_write(const struct dn_packing *packing, const struct dn_plan *plan, char **out,
                     size_t *size) {
  FILE *file = open_memstream(out, size);
  if (!file) return mb_fail_memory(1);
  write_packing(packing, plan, file);
  bool failed = ferror(file);
  if (fclose(file) || failed) {
    free(*out);
    *out = NULL;
    return mb_fail_memory(1);
  }
  struct mb_cursor c = {(const uint8_t *)*out, 16, *size, MB_UNKNOWN};
  uint64_t data, check;
  if (!mb_read_u64(&c, &data, "the place of the data")) return MBLOB_E_FORMAT;
  check = digest(*out + 16, mb_size(data) - 16, 1);
  for (int i = 0; i < 8; ++i) (*out)[8 + i] = (char)(check >> 8 * i);
  return MBLOB_OK;
}

void dn_packing_free(struct dn_packing *packing) {
  free(packing->made);
  free(packing->digests);
}
