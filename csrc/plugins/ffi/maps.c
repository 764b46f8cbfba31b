#include "maps.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "containers.h"
#include "errors.h"
#include "reflection.h"

#define RELEASES MB_RELEASES_0_22

/* ---- how a Map lies in memory ---------------------------------------------------------------- */

/* Behind the header. The sign bit of `slots` tells a row, whose `data` are `size` pairs, from a table. */
struct map_cell {
  void *data;
  uint64_t size, slots;
  void (*delete_data)(void *data); /* NULL: a row that is part of the object */
  /* Of a table only. */
  uint32_t shift; /* a key's place is its hash times a constant, without so many low bits */
  uint64_t first, last;
};

struct pair {
  struct mb_any key, value;
};

/* Tables keep the order in which keys came, by places. */
struct item {
  struct pair pair;
  uint64_t before, after;
};

enum { BLOCK = 16, ROW_LIMIT = 4 };

/* The marks of sixteen places, then what is in them. */
struct map_block {
  uint8_t marks[BLOCK];
  struct item items[BLOCK];
};

_Static_assert(sizeof(struct map_block) == BLOCK * (1 + sizeof(struct item)), "no padding");

#define ROW (UINT64_C(1) << 63)
#define NO_ENTRY UINT64_MAX
/* Where C++ has the pairs of a row: behind the members that all Maps have. */
#define ROW_PLACE ((offsetof(struct map_cell, shift) + sizeof(void *) - 1) & ~(sizeof(void *) - 1))

/* Of a place. Keys with the place of their hash are a chain, which starts in that place; the low bits
 * of a mark number the distance to the next one in it. */
enum { HEAD = 0, TAIL = 0x80, DISTANCE = 0x7f, PROTECTED = 0xfe, EMPTY = 0xff };

/* By number: 1 to 15; triangular numbers from 21 on; larger ones by a list. 0: none. */
static uint64_t step_of(unsigned number) {
  enum { LISTED = 16, TRIANGULAR = 83, FIRST_TRIANGLE = 6 };
  static const uint64_t large[] = {UINT64_C(8515),       UINT64_C(19110),     UINT64_C(42778),
                                   UINT64_C(96141),      UINT64_C(216153),    UINT64_C(486591),
                                   UINT64_C(1092981),    UINT64_C(2458653),   UINT64_C(5532801),
                                   UINT64_C(12442566),   UINT64_C(27993903),  UINT64_C(62983476),
                                   UINT64_C(141717030),  UINT64_C(318844378), UINT64_C(717352503),
                                   UINT64_C(1614057336), UINT64_C(3631522476)};
  if (number < LISTED) return number;
  if (number < TRIANGULAR) {
    const uint64_t n = number - LISTED + FIRST_TRIANGLE;
    return n * (n + 1) / 2;
  }
  number -= TRIANGULAR;
  return number < sizeof(large) / sizeof(*large) ? large[number] : 0;
}

static struct item *item_at(const struct map_cell *cell, uint64_t place) {
  return &((struct map_block *)cell->data)[place / BLOCK].items[place % BLOCK];
}

static uint8_t *mark_at(const struct map_cell *cell, uint64_t place) {
  return &((struct map_block *)cell->data)[place / BLOCK].marks[place % BLOCK];
}

static uint64_t blocks_of(uint64_t slots) { return slots / BLOCK + (slots % BLOCK != 0); }

/* ---- hashes ---------------------------------------------------------------------------------- */

static uint64_t combine(uint64_t a, uint64_t b) {
  return a ^ (b + UINT64_C(0x9e3779b9) + (a << 6) + (a >> 2));
}

/* Words of eight bytes, the first byte the lowest. The last bytes of a text that are no whole word fill
 * one from its start. */
static uint64_t hash_of_text(const char *text, size_t size) {
  uint64_t hash = 0;
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < size; i++)
      word |= (uint64_t)(uint8_t)text[at + i] << 8 * i;
    hash = (hash * UINT64_C(1099511628211) + word) % UINT64_C(2147483647);
  }
  return hash;
}

static uint64_t bits_of(const struct mb_any *any) {
  uint64_t bits;
  memcpy(&bits, &any->u, sizeof(bits));
  return bits;
}

/* Of small texts, C++ hashes the value: on machines that store the highest byte first, its head. */
static uint64_t hash_of_small(const struct mb_any *any) {
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
             ? bits_of(any) % UINT64_C(2147483647)
             : hash_of_text((const char *)any, sizeof(uint64_t));
}

static int hash_of_object(const struct mb_any *key, uint64_t *out) {
  static const struct mb_text name = {"__any_hash__", 12}; /* classes may have one of their own */
  const struct mb_any *function = mb_class_attribute(&name, key->type);
  *out = combine((uint64_t)key->type, bits_of(key));
  if (!function) return MBLOB_OK;
  struct mb_any result = {.type = MB_ANY_NONE};
  if (function->type == MB_ANY_POINTER) {
    union {
      void *address;
      struct mb_any (*call)(const struct mb_any *key);
    } native = {function->u.pointer};
    result = native.call(key);
  } else if (function->type == MB_ANY_FUNCTION) {
    const struct mb_function_cell *cell = mb_object_cell(RELEASES, function->u.pointer);
    mb_error_forget();
    const uint64_t before = mb_plugin_host()->error_count();
    const int rc = cell->call(function->u.pointer, key, 1, &result);
    if (rc) return mb_error_record("the hash of a key of a Map", rc, before);
  }
  const bool is_hash = result.type == MB_ANY_INT;
  if (is_hash) *out = combine((uint64_t)key->type, (uint64_t)result.u.i64);
  mb_any_release(RELEASES, &result);
  return is_hash
             ? MBLOB_OK
             : mb_fail(MBLOB_E_KERNEL, "the function that hashes a key of a Map returned no int");
}

static int hash_of_any(const struct mb_any *key, uint64_t *out) {
  const struct mb_text *text;
  switch (key->type) {
    case MB_ANY_SMALL_STRING: *out = combine(MB_ANY_STRING, hash_of_small(key)); return MBLOB_OK;
    case MB_ANY_SMALL_BYTES: *out = combine(MB_ANY_BYTES, hash_of_small(key)); return MBLOB_OK;
    case MB_ANY_STRING:
    case MB_ANY_BYTES:
      text = mb_object_cell(RELEASES, key->u.pointer);
      *out = combine((uint64_t)key->type, hash_of_text(text->data, text->size));
      return MBLOB_OK;
    default: break;
  }
  if (key->type >= MB_ANY_OBJECT) return hash_of_object(key, out);
  *out = combine((uint64_t)key->type, bits_of(key));
  return MBLOB_OK;
}

/* ---- making one ------------------------------------------------------------------------------ */

static void free_table(void *data) { free(data); }

/* As C++ left it: its code may have changed a Map in place. */
static void release_map(void *object) {
  struct map_cell *cell = mb_object_cell(RELEASES, object);
  struct pair *row = cell->data;
  if (cell->slots & ROW) {
    for (uint64_t i = 0; i < cell->size; i++) {
      mb_any_release(RELEASES, &row[i].key);
      mb_any_release(RELEASES, &row[i].value);
    }
  } else {
    for (uint64_t i = 0; i < cell->slots; i++) {
      const uint8_t mark = *mark_at(cell, i);
      if (mark == EMPTY || mark == PROTECTED) continue;
      mb_any_release(RELEASES, &item_at(cell, i)->pair.key);
      mb_any_release(RELEASES, &item_at(cell, i)->pair.value);
    }
  }
  if (cell->delete_data) cell->delete_data(cell->data);
}

/* An object without entries; `room` bytes behind it. */
static void *new_map(size_t room) {
  void *object = mb_object_new(RELEASES, MB_ANY_MAP, sizeof(struct map_cell) + room);
  if (!object) return NULL;
  struct map_cell *cell = mb_object_cell(RELEASES, object);
  cell->data = (char *)cell + ROW_PLACE;
  cell->slots = ROW | ROW_LIMIT;
  mb_object_record(object)->owner = object;
  mb_object_record(object)->release = release_map;
  return object;
}

/* An empty place at one of the distances from `tail`; NO_ENTRY if there is none. */
static uint64_t next_empty(const struct map_cell *cell, uint64_t tail, uint8_t *number) {
  for (*number = 1; step_of(*number); ++*number) {
    const uint64_t place = (tail + step_of(*number)) % cell->slots;
    if (*mark_at(cell, place) == EMPTY) return place;
  }
  return NO_ENTRY;
}

static void put_map_item(struct map_cell *cell, uint64_t place, const struct pair *pair,
                         uint8_t mark) {
  *mark_at(cell, place) = mark;
  item_at(cell, place)->pair = *pair;
}

/* The places of all pairs, in an empty table: first those that are alone or start a chain. False if a
 * chain finds no place for its next key: the table is too small then. */
static bool place_pairs(struct map_cell *cell, const struct pair *pairs, const uint64_t *hashes,
                        uint64_t count, uint64_t *places) {
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t home = (UINT64_C(11400714819323198485) * hashes[i]) >> cell->shift;
    places[i] = *mark_at(cell, home) == EMPTY ? home : NO_ENTRY;
    if (places[i] != NO_ENTRY) put_map_item(cell, home, &pairs[i], HEAD);
  }
  for (uint64_t i = 0; i < count; i++) {
    if (places[i] != NO_ENTRY) continue;
    uint64_t tail = (UINT64_C(11400714819323198485) * hashes[i]) >> cell->shift;
    while (*mark_at(cell, tail) & DISTANCE)
      tail = (tail + step_of(*mark_at(cell, tail) & DISTANCE)) % cell->slots;
    uint8_t number;
    places[i] = next_empty(cell, tail, &number);
    if (places[i] == NO_ENTRY) return false;
    put_map_item(cell, places[i], &pairs[i], TAIL);
    *mark_at(cell, tail) |= number;
  }
  return true;
}

static void link_places(struct map_cell *cell, const uint64_t *places, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    item_at(cell, places[i])->before = i ? places[i - 1] : NO_ENTRY;
    item_at(cell, places[i])->after = i + 1 < count ? places[i + 1] : NO_ENTRY;
  }
  cell->first = places[0];
  cell->last = places[count - 1];
  cell->size = count;
}

/* Fill a table of 2^bits places; `full` if they are too few. */
static int fill_map_table(struct map_cell *cell, const struct pair *pairs, const uint64_t *hashes,
                          uint64_t count, unsigned bits, uint64_t *places, bool *full) {
  const uint64_t slots = UINT64_C(1) << bits;
  struct map_block *blocks = calloc((size_t)blocks_of(slots), sizeof(*blocks));
  if (!blocks) return mb_fail_memory((size_t)slots * sizeof(struct item));
  for (uint64_t i = 0; i < blocks_of(slots); i++) memset(blocks[i].marks, EMPTY, BLOCK);
  struct map_cell filled = {
      .data = blocks, .slots = slots, .delete_data = free_table, .shift = 64 - bits};
  *full = !place_pairs(&filled, pairs, hashes, count, places);
  if (*full) {
    free(blocks);
    return MBLOB_OK;
  }
  link_places(&filled, places, count);
  *cell = filled;
  return MBLOB_OK;
}

static int make_table(struct map_cell *cell, const struct pair *pairs, uint64_t count) {
  uint64_t *hashes = calloc(2 * (size_t)count, sizeof(*hashes));
  if (!hashes) return mb_fail_memory((size_t)count * 2 * sizeof(*hashes));
  int status = MBLOB_OK;
  for (uint64_t i = 0; !status && i < count; i++) status = hash_of_any(&pairs[i].key, &hashes[i]);
  unsigned bits = 1;
  while ((UINT64_C(1) << bits) < 2 * count) bits++;
  bool full = true;
  for (; !status && full; bits++)
    status = fill_map_table(cell, pairs, hashes, count, bits, hashes + count, &full);
  free(hashes);
  return status;
}

/* Takes over what the pairs own, but on failure. */
static int map_of_pairs(const struct pair *pairs, uint64_t count, struct mb_any *out) {
  const bool is_row = count <= ROW_LIMIT;
  void *object = new_map(ROW_LIMIT * sizeof(struct pair));
  if (!object) return MBLOB_E_MEMORY;
  struct map_cell *cell = mb_object_cell(RELEASES, object);
  int status = MBLOB_OK;
  if (is_row) {
    if (count) memcpy(cell->data, pairs, (size_t)count * sizeof(*pairs));
    cell->size = count;
  } else {
    status = make_table(cell, pairs, count);
  }
  if (status) mb_ffi_object_release(RELEASES, object);
  return status ? status : mb_any_set_object(RELEASES, out, MB_ANY_MAP, object);
}

/* ---- of the runtime's ------------------------------------------------------------------------ */

/* Keys and values in turn. */
static int any_of_items(TVMValue items, int64_t count, struct mb_any *out) {
  if (count > INT_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "a Map of %lld keys and values, at most %d can be passed",
                   (long long)count, INT_MAX);
  struct mb_any *anys = calloc((size_t)count + 1, sizeof(*anys));
  if (!anys) return mb_fail_memory((size_t)count * sizeof(*anys));
  int status = MBLOB_OK;
  int64_t made = 0;
  for (; !status && made < count; made++) {
    TVMValue item;
    int code;
    status = mb_ask_container("runtime.ArrayGetItem", items, made, 2, &item, &code);
    if (status) break;
    status = mb_any_of_value(RELEASES, item, code, false, &anys[made]);
    mb_plugin_host()->value_release(item, code);
  }
  if (!status)
    status = map_of_pairs((const struct pair *)(const void *)anys, (uint64_t)count / 2, out);
  while (status && made-- > 0) mb_any_release(RELEASES, &anys[made]);
  free(anys);
  return status;
}

int mb_any_of_map(TVMValue map, struct mb_any *out) {
  static __thread int depth;
  TVMValue items = {.v_handle = NULL}, count = {.v_int64 = 0};
  int code = kTVMNullptr, count_code;
  if (depth == MB_NESTING_LIMIT) return mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_NESTED);
  int status = mb_ask_container("runtime.MapItems", map, 0, 1, &items, &code);
  if (!status) status = mb_ask_container("runtime.ArraySize", items, 0, 1, &count, &count_code);
  depth++;
  if (!status) status = any_of_items(items, count.v_int64, out);
  depth--;
  if (code != kTVMNullptr) mb_plugin_host()->value_release(items, code);
  return status;
}

/* ---- to the runtime -------------------------------------------------------------------------- */

/* What the conversion of the keys and values in turn holds until the Map is made. */
struct entries {
  struct mb_place *places;
  TVMValue *values;
  int *codes;
  size_t count;
};

static int add_map_entry(struct entries *entries, const struct mb_any *any) {
  const size_t i = entries->count++;
  entries->codes[i] = kTVMNullptr;
  return mb_value_of_any(RELEASES, any, &entries->values[i], &entries->codes[i],
                         &entries->places[i]);
}

static int read_pairs(const struct map_cell *cell, struct entries *entries) {
  const struct pair *row = cell->data;
  const bool is_row = cell->slots & ROW;
  uint64_t place = is_row ? 0 : cell->first;
  int status = MBLOB_OK;
  for (uint64_t i = 0; !status && i < cell->size; i++) {
    if (!is_row && (place >= cell->slots || *mark_at(cell, place) >= PROTECTED))
      return mb_fail(MBLOB_E_KERNEL, "a Map has fewer entries than its size says");
    const struct pair *pair = is_row ? &row[i] : &item_at(cell, place)->pair;
    status = add_map_entry(entries, &pair->key);
    if (!status) status = add_map_entry(entries, &pair->value);
    if (!is_row) place = item_at(cell, place)->after;
  }
  return status;
}

static int map_of_cell(const struct map_cell *cell, TVMValue *value, int *code) {
  if (cell->size > INT_MAX / 2)
    return mb_fail(MBLOB_E_ARGUMENT, "a Map has more entries than can be passed");
  const size_t count = 2 * (size_t)cell->size;
  struct entries entries = {calloc(count + 1, sizeof(*entries.places)),
                            calloc(count + 1, sizeof(*entries.values)),
                            calloc(count + 1, sizeof(*entries.codes)), 0};
  int status = entries.places && entries.values && entries.codes
                   ? read_pairs(cell, &entries)
                   : mb_fail_memory(count * sizeof(*entries.places));
  if (!status)
    status = mb_call_global("runtime.Map", entries.values, entries.codes, (int)count, value, code);
  while (entries.count > 0) mb_place_release(&entries.places[--entries.count]);
  free(entries.places);
  free(entries.values);
  free(entries.codes);
  return status;
}

int mb_map_of_object(void *object, TVMValue *value, int *code) {
  static __thread int depth;
  if (depth == MB_NESTING_LIMIT) return mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_NESTED);
  depth++;
  const int status = map_of_cell(mb_object_cell(RELEASES, object), value, code);
  depth--;
  return status;
}
