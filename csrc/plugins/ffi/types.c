#include "types.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common.h"

#define FIRST_DYNAMIC 128
#define LIMIT 16384 /* classes */
#define KEY_LIMIT 4096
#define DEPTH_LIMIT 256

struct known_type {
  struct mb_type_info info;
  int32_t end, next; /* the numbers kept for children end there; the next one of them */
  bool may_overflow;
  char *text;
};

/* Never freed: C++ keeps numbers, and reads what is said of them without a lock. */
static _Atomic(struct known_type *) known_types[LIMIT];
static int32_t next_dynamic = FIRST_DYNAMIC;
static struct mb_lock types_lock = MB_LOCK_INIT;
static bool has_known;

static struct known_type *at(int32_t number) {
  return number >= 0 && number < LIMIT
             ? atomic_load_explicit(&known_types[number], memory_order_acquire)
             : NULL;
}

static bool is_type_key(const struct known_type *type, const struct mb_text *key) {
  return type && type->info.key.size == key->size &&
         memcmp(type->info.key.data, key->data, key->size) == 0;
}

/* With the lock. */
static struct known_type *add_type(const struct mb_text *key, int32_t number, int32_t slots,
                                   bool may_overflow, const struct known_type *parent) {
  const int32_t depth = parent ? parent->info.depth + 1 : 0;
  struct known_type *type = calloc(1, sizeof(*type));
  const struct mb_type_info **ancestors = calloc((size_t)depth + 1, sizeof(*ancestors));
  char *text = malloc(key->size + 1);
  if (!type || !ancestors || !text) {
    free(type);
    free(ancestors);
    free(text);
    return NULL;
  }
  memcpy(text, key->data, key->size);
  text[key->size] = 0;
  for (int32_t i = 0; i + 1 < depth; i++) ancestors[i] = parent->info.ancestors[i];
  if (parent) ancestors[depth - 1] = &parent->info;
  uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
  for (size_t i = 0; i < key->size; i++) hash = (hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
  *type = (struct known_type){.info = {.type = number,
                                       .depth = depth,
                                       .key = {text, key->size},
                                       .ancestors = ancestors,
                                       .hash = hash},
                              .end = number + slots + 1,
                              .next = number + 1,
                              .may_overflow = may_overflow,
                              .text = text};
  atomic_store_explicit(&known_types[number], type, memory_order_release);
  return type;
}

static struct mb_text key_text(const char *text) { return (struct mb_text){text, strlen(text)}; }

/* The classes and plain values that have fixed numbers, in the numbers' order; with the lock. */
static void add_known(void) {
  static const char *const plain[] = {"None",
                                      "int",
                                      "bool",
                                      "float",
                                      "void*",
                                      "DataType",
                                      "Device",
                                      "DLTensor*",
                                      "const char*",
                                      "TVMFFIByteArray*",
                                      "ObjectRValueRef",
                                      "ffi.SmallStr",
                                      "ffi.SmallBytes",
                                      "ffi.Unchanged"};
  static const char *const objects[] = {
      "ffi.Object",         "ffi.String", "ffi.Bytes", "ffi.Error", "ffi.Function",
      "ffi.Shape",          "ffi.Tensor", "ffi.Array", "ffi.Map",   "ffi.Module",
      "ffi.OpaquePyObject", "ffi.List",   "ffi.Dict"};
  const struct mb_text big_int = key_text("ffi.BigInt");
  if (has_known) return;
  has_known = true;
  for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
    const struct mb_text key = key_text(plain[i]);
    (void)add_type(&key, (int32_t)i, 0, false, NULL);
  }
  for (size_t i = 0; i < sizeof(objects) / sizeof(*objects); i++) {
    const struct mb_text key = key_text(objects[i]);
    (void)add_type(&key, MB_ANY_OBJECT + (int32_t)i, 0, true, i ? at(MB_ANY_OBJECT) : NULL);
  }
  (void)add_type(&big_int, MB_ANY_BIG_INT, 0, true, at(MB_ANY_OBJECT));
}

/* With the lock. */
static struct known_type *find_type(const struct mb_text *key) {
  for (int32_t i = 0; i < next_dynamic; i++)
    if (is_type_key(at(i), key)) return at(i);
  return NULL;
}

/* A number, and `slots` behind it; -1 if there are no more. With the lock. */
static int32_t take_numbers(struct known_type *parent, int32_t slots) {
  if (parent && parent->next < parent->end && slots < parent->end - parent->next) {
    const int32_t number = parent->next;
    parent->next += slots + 1;
    return number;
  }
  if ((parent && !parent->may_overflow) || slots >= LIMIT - next_dynamic) return -1;
  const int32_t number = next_dynamic;
  next_dynamic += slots + 1;
  return number;
}

static int32_t new_number(const struct mb_text *key, int32_t fixed, int32_t slots,
                          bool may_overflow, int32_t parent_number) {
  struct known_type *parent = at(parent_number);
  if (key->size > KEY_LIMIT || slots < 0 || slots >= LIMIT || fixed >= FIRST_DYNAMIC ||
      (parent && parent->info.depth >= DEPTH_LIMIT) || (fixed >= 0 && at(fixed)))
    return -1;
  const int32_t number = fixed >= 0 ? fixed : take_numbers(parent, slots);
  return number >= 0 && add_type(key, number, fixed >= 0 ? 0 : slots, may_overflow, parent) ? number
                                                                                            : -1;
}

int32_t mb_type_number(const struct mb_text *key, int32_t fixed, int32_t depth, int32_t slots,
                       int32_t may_overflow, int32_t parent) {
  (void)depth; /* is that of the parent, and one more */
  if (!key || (!key->data && key->size)) return -2;
  mb_lock(&types_lock);
  add_known();
  const struct known_type *known = find_type(key);
  const int32_t number = known          ? known->info.type
                         : parent == -2 ? -2
                                        : new_number(key, fixed, slots, may_overflow != 0, parent);
  mb_unlock(&types_lock);
  return number != -1 ? number : MB_ANY_OBJECT; /* no more numbers: any object */
}

int32_t mb_type_number_of(const struct mb_text *key) {
  mb_lock(&types_lock);
  add_known();
  const struct known_type *found = find_type(key);
  mb_unlock(&types_lock);
  return found ? found->info.type : -1;
}

struct mb_type_info *mb_type_known(int32_t type) {
  struct known_type *found = at(type);
  if (!found) {
    mb_lock(&types_lock);
    add_known();
    mb_unlock(&types_lock);
    found = at(type);
  }
  return found ? &found->info : NULL;
}

const struct mb_type_info *mb_type_get(int32_t type) {
  const struct mb_type_info *found = mb_type_known(type);
  return found ? found : mb_type_known(MB_ANY_OBJECT);
}

const struct mb_text *mb_type_backtrace(const char *file, int line, const char *function,
                                        int crosses) {
  static const struct mb_text none = {"", 0};
  (void)file, (void)line, (void)function, (void)crosses;
  return &none;
}
