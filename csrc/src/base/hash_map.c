#include "base/hash_map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define FIRST_CAPACITY 8 /* places; always a power of two, at most three quarters used */

static size_t hash_of(const char *key) { /* FNV-1a */
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (; *key; key++) h = (h ^ (uint8_t)*key) * UINT64_C(0x100000001b3);
  return (size_t)(h ^ h >> 32);
}

/* Place of `key`, or the free place where it belongs. Needs capacity. */
static size_t place_of_key(const struct mb_map_item *items, size_t capacity, const char *key) {
  size_t i = hash_of(key) & (capacity - 1);
  while (items[i].key && strcmp(items[i].key, key) != 0) i = (i + 1) & (capacity - 1);
  return i;
}

void *mb_map_get(const struct mb_map *map, const char *key) {
  return map->capacity ? map->items[place_of_key(map->items, map->capacity, key)].value : NULL;
}

bool mb_map_put(struct mb_map *map, const char *key, void *value) {
  if (map->count + 1 > map->capacity / 4 * 3) {
    size_t capacity = map->capacity ? 2 * map->capacity : FIRST_CAPACITY;
    struct mb_map_item *items = calloc(capacity, sizeof(*items));
    if (!items) {
      (void)mb_fail_memory(capacity * sizeof(*items));
      return false;
    }
    for (size_t i = 0; i < map->capacity; i++)
      if (map->items[i].key)
        items[place_of_key(items, capacity, map->items[i].key)] = map->items[i];
    free(map->items);
    map->items = items;
    map->capacity = capacity;
  }
  struct mb_map_item *item = &map->items[place_of_key(map->items, map->capacity, key)];
  map->count += item->key == NULL;
  *item = (struct mb_map_item){key, value};
  return true;
}

void *mb_map_remove(struct mb_map *map, const char *key) {
  if (!map->capacity) return NULL;
  size_t mask = map->capacity - 1, hole = place_of_key(map->items, map->capacity, key);
  void *value = map->items[hole].value;
  if (!map->items[hole].key) return NULL;
  map->count--;
  /* Move up what was pushed past the hole. */
  for (size_t i = (hole + 1) & mask; map->items[i].key; i = (i + 1) & mask) {
    size_t home = hash_of(map->items[i].key) & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    map->items[hole] = map->items[i];
    hole = i;
  }
  map->items[hole] = (struct mb_map_item){NULL, NULL};
  return value;
}

void mb_map_free(struct mb_map *map) {
  free(map->items);
  *map = (struct mb_map){0};
}

const struct mb_map_item *mb_map_next(const struct mb_map *map, size_t *i) {
  while (*i < map->capacity)
    if (map->items[(*i)++].key) return &map->items[*i - 1];
  return NULL;
}

static size_t place_in_set(const void *const *items, size_t capacity, const void *item) {
  size_t i = (size_t)((uintptr_t)item >> 4) * 0x9E3779B1u & (capacity - 1);
  while (items[i] && items[i] != item) i = (i + 1) & (capacity - 1);
  return i;
}

int mb_set_add(struct mb_set *set, const void *item) {
  if (set->count + 1 > set->capacity / 4 * 3) {
    size_t capacity = set->capacity ? 2 * set->capacity : FIRST_CAPACITY;
    const void **items = calloc(capacity, sizeof(*items));
    if (!items) {
      (void)mb_fail_memory(capacity * sizeof(*items));
      return -1;
    }
    for (size_t i = 0; i < set->capacity; i++)
      if (set->items[i]) items[place_in_set(items, capacity, set->items[i])] = set->items[i];
    free(set->items);
    set->items = items;
    set->capacity = capacity;
  }
  size_t i = place_in_set(set->items, set->capacity, item);
  if (set->items[i]) return 0;
  set->items[i] = item;
  set->count++;
  return 1;
}

void mb_set_free(struct mb_set *set) {
  free(set->items);
  *set = (struct mb_set){0};
}
