/* hash_map.h - strings to pointers, and sets of pointers. Keys are borrowed: they live as long as the
 * map. */
#ifndef MB_HASH_MAP_H
#define MB_HASH_MAP_H

#include <stdbool.h>
#include <stddef.h>

struct mb_map_item {
  const char *key;
  void *value;
};

struct mb_map {
  struct mb_map_item *items; /* open addressing; a NULL key is a free place */
  size_t count, capacity;
};

void *mb_map_get(const struct mb_map *map, const char *key);
/* Add or replace; false when memory is out (recorded). */
bool mb_map_put(struct mb_map *map, const char *key, void *value);
/* The value that was there, or NULL. The key may be freed then. */
void *mb_map_remove(struct mb_map *map, const char *key);
void mb_map_free(struct mb_map *map);
/* Items in no order: for (i = 0; (item = mb_map_next(map, &i));) */
const struct mb_map_item *mb_map_next(const struct mb_map *map, size_t *i);

struct mb_set {
  const void **items;
  size_t count, capacity;
};

/* 1 if it is new, 0 if it was there, -1 when memory is out (recorded). */
int mb_set_add(struct mb_set *set, const void *item);
void mb_set_free(struct mb_set *set);

#endif
