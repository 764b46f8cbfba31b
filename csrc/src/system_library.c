#define _GNU_SOURCE
#include "system_library.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "error.h"
#include "map.h"

struct symbol {
  void *address;
  char name[];
};

static struct mb_map symbols; /* name -> struct symbol, for the life of the process */
static pthread_mutex_t symbols_lock = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. A name that is announced again gets the new address, as in TVM. */
static int announce(const char *name, void *address) {
  struct symbol *symbol = mb_map_get(&symbols, name);
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
  if (!name || !ptr) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "TVMBackendRegisterSystemLibSymbol: an argument is NULL");
    return -1;
  }
  pthread_mutex_lock(&symbols_lock);
  int rc = announce(name, ptr);
  pthread_mutex_unlock(&symbols_lock);
  return rc;
}

void *mb_system_symbol(const char *name) {
  pthread_mutex_lock(&symbols_lock);
  const struct symbol *symbol = mb_map_get(&symbols, name);
  void *address = symbol ? symbol->address : NULL;
  pthread_mutex_unlock(&symbols_lock);
  return address;
}
