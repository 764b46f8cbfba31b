/* Symbols that constructors of statically linked libraries announced, and whose they are. */
#define _GNU_SOURCE
#include "core/link/system_symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/link/ffi_library.h"
#include "core/loaded/loaded.h"

struct system_symbol {
  void *address;
  char name[];
};

static struct mb_map symbols; /* name -> struct symbol, for the life of the process */
static struct mb_lock symbols_lock = MB_LOCK_INIT;

/* With the lock. A name that is announced again gets the new address, as in TVM. */
static int announce(const char *name, void *address) {
  struct system_symbol *symbol = mb_map_get(&symbols, name);
  if (symbol) {
    symbol->address = address;
    return 0;
  }
  size_t size = strlen(name) + 1;
  symbol = malloc(sizeof(*symbol) + size);
  if (!symbol) {
    (void)mb_fail_memory(sizeof(*symbol) + size);
    return -1;
  }
  symbol->address = address;
  memcpy(symbol->name, name, size);
  if (mb_map_put(&symbols, symbol->name, symbol)) return 0;
  free(symbol);
  return -1;
}

int TVMBackendRegisterSystemLibSymbol(const char *name, void *ptr) {
  if (MB_IS_NULL(name) || MB_IS_NULL(ptr)) return -1;
  mb_lock(&symbols_lock);
  int rc = announce(name, ptr);
  mb_unlock(&symbols_lock);
  return rc;
}

enum { PART_NAME_SIZE = 24 /* of the longest, with its end */ };
static const char part_names[MB_PARTS][PART_NAME_SIZE] = {
    [MB_PART_BLOB] = "__tvm_dev_mblob",
    [MB_PART_CONTEXT] = "__tvm_module_ctx",
    [MB_PART_TABLE] = MB_FUNCTION_TABLE_SYMBOL,
    [MB_PART_RECORD] = "__mblob_system_lib",
    [MB_PART_FFI_BLOB] = "__tvm_ffi__library_bin",
    [MB_PART_FFI_CONTEXT] = "__tvm_ffi__library_ctx"};

/* A name without what the ffi dialect puts before the prefix of a function. */
static const char *without_ffi(const char *name) {
  const char *rest = mb_ffi_function_name(name);
  return rest ? rest : name;
}

static bool has_part(char *prefix, size_t length) {
  for (size_t i = 0; i < MB_PARTS; i++) {
    memcpy(prefix + length, part_names[i], strlen(part_names[i]) + 1);
    if (mb_map_get(&symbols, prefix)) return true;
  }
  return false;
}

/* True if `name` is of a library whose prefix is longer than the first `own` characters of the
 * name. With the lock. */
static bool is_of_longer_prefix(const char *name, size_t own) {
  name = without_ffi(name);
  size_t length = strlen(name);
  char *prefix = malloc(length + PART_NAME_SIZE);
  bool found = false;
  for (size_t end = length; prefix && !found && end > own; end--) {
    memcpy(prefix, name, end);
    found = has_part(prefix, end);
  }
  free(prefix);
  return found;
}

static void *address_of(const char *name, size_t own, enum mb_system_names names) {
  mb_lock(&symbols_lock);
  const struct system_symbol *symbol = mb_map_get(&symbols, name);
  if (symbol && names == MB_NAMES_OF_PREFIX && is_of_longer_prefix(name, own)) symbol = NULL;
  void *address = symbol ? symbol->address : NULL;
  mb_unlock(&symbols_lock);
  return address;
}

/* `before`: what stands in front of the prefix. */
static void *prefixed(const char *before, const char *prefix, const char *name, size_t own,
                      enum mb_system_names names) {
  char *text = NULL;
  if (asprintf(&text, "%s%s%s", before, prefix, name) < 0) return NULL;
  void *address = address_of(text, own, names);
  free(text);
  return address;
}

void *mb_announced_part(const char *prefix, enum mb_part part) {
  return prefixed("", prefix, part_names[part], 0, MB_NAMES_AS_TVM);
}

void *mb_system_symbol(const char *prefix, const char *name, enum mb_system_names names,
                       unsigned char *dialect) {
  const size_t own = strlen(prefix);
  const bool has_prefix = strncmp(name, prefix, own) == 0;
  void *address = NULL;
  for (int ffi = 0; !address && ffi < 2; ffi++) {
    const char *before = ffi ? MB_FFI_PREFIX : "";
    *dialect = ffi ? MB_FFI : MB_CLASSIC;
    address = prefixed(before, prefix, name, own, names);
    /* TVM's libraries of the ffi dialect have functions without the prefix, too. */
    if (!address && own && (ffi || has_prefix || names == MB_NAMES_AS_TVM))
      address = prefixed(before, "", name, has_prefix ? own : 0, names);
  }
  return address;
}

/* Where no library is of just this prefix, a name that starts with it may be of one with a shorter
 * prefix: `a__f` is `_f` of the library `a_`. */
bool mb_is_announced(const char *prefix) {
  const struct mb_map_item *item = NULL;
  size_t length = strlen(prefix);
  mb_lock(&symbols_lock);
  bool found = length && is_of_longer_prefix(prefix, length - 1);
  for (size_t i = 0; !found && (item = mb_map_next(&symbols, &i));)
    found =
        strncmp(without_ffi(item->key), prefix, length) == 0 && !is_of_longer_prefix(item->key, 0);
  mb_unlock(&symbols_lock);
  return found;
}

int mb_all_announced(const char *prefix, struct mb_announced_symbol **out, size_t *count) {
  const struct mb_map_item *item = NULL;
  size_t length = strlen(prefix), at = 0;
  *count = 0;
  mb_lock(&symbols_lock);
  *out = calloc(symbols.count + 1, sizeof(**out));
  while (*out && (item = mb_map_next(&symbols, &at)))
    if (strncmp(item->key, prefix, length) == 0)
      (*out)[(*count)++] =
          (struct mb_announced_symbol){item->key, ((struct system_symbol *)item->value)->address};
  mb_unlock(&symbols_lock);
  return *out ? MBLOB_OK : mb_fail_memory(sizeof(**out));
}
