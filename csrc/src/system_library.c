#define _GNU_SOURCE
#include "system_library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "runtime.h"

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

static void *address_of(const char *name) {
  pthread_mutex_lock(&symbols_lock);
  const struct symbol *symbol = mb_map_get(&symbols, name);
  void *address = symbol ? symbol->address : NULL;
  pthread_mutex_unlock(&symbols_lock);
  return address;
}

static void *prefixed(const char *prefix, const char *name) {
  char *text = NULL;
  if (asprintf(&text, "%s%s", prefix, name) < 0) return NULL;
  void *address = address_of(text);
  free(text);
  return address;
}

void *mb_system_symbol(const char *prefix, const char *name) {
  void *address = prefixed(prefix, name);
  return address || !*prefix ? address : address_of(name);
}

/* ---- modules ------------------------------------------------------------------------------------------- */

struct system_library {
  struct mb_library *library;
  mblob_module *root;
  char prefix[];
};

static struct mb_map libraries; /* prefix -> struct system_library, for the life of the process */
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;

/* The blob and the context variable of a library carry its prefix and are not shared with others. */
static int make_root(struct system_library *system) {
  static const mblob_open_options options = {.struct_size = sizeof(options), .missing = MBLOB_MISSING_STUB};
  int status = mb_library_new_system(system->prefix, &system->library);
  if (status) return status;
  system->library->blob = prefixed(system->prefix, "__tvm_dev_mblob");
  system->library->has_blob = system->library->blob != NULL;
  /* No symbol tells its size here, but it is part of this program. */
  if (system->library->has_blob) system->library->blob_size = 8 + mb_u64_at(system->library->blob);
  struct mb_context **context = prefixed(system->prefix, "__tvm_module_ctx");
  if (context) *context = &system->library->context;
  return mb_library_add_tree(system->library, &options, &system->root);
}

/* With the lock. */
static int find_or_make(const char *prefix, mblob_module **out) {
  struct system_library *system = mb_map_get(&libraries, prefix);
  if (!system) {
    size_t size = strlen(prefix) + 1;
    system = calloc(1, sizeof(*system) + size);
    if (!system) return mb_fail_memory(sizeof(*system) + size);
    memcpy(system->prefix, prefix, size);
    if (!mb_map_put(&libraries, system->prefix, system)) {
      free(system);
      return MBLOB_E_MEMORY;
    }
  }
  int status = system->root ? MBLOB_OK : make_root(system);
  *out = system->root;
  return status;
}

int mb_system_library_get(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  (void)resource;
  mblob_module *module = NULL;
  const char *prefix = count && codes[0] == kTVMStr ? args[0].v_str : "";
  pthread_mutex_lock(&symbols_lock);
  size_t known = symbols.count;
  pthread_mutex_unlock(&symbols_lock);
  if (!known)
    return mb_fail(MBLOB_E_NOT_FOUND, "no system library: no statically linked library announced itself");
  pthread_mutex_lock(&libraries_lock);
  int status = find_or_make(prefix, &module);
  pthread_mutex_unlock(&libraries_lock);
  if (status) return status;
  TVMValue value = {.v_handle = module};
  int code = kTVMModuleHandle;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}
