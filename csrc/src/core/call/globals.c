/* Process-wide named functions. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"
#include "core/call/function.h"
#include "core/call/globals.h"
#include "core/call/method.h"

struct global {
  char *name;
  mblob_function *function; /* a reference */
};

static struct mb_map globals; /* name -> struct global */
static struct mb_lock globals_lock = MB_LOCK_INIT;
uint64_t mb_global_generation_now = 1;

uint64_t mb_global_generation(void) {
  return __atomic_load_n(&mb_global_generation_now, __ATOMIC_ACQUIRE);
}

static void free_global(struct global *g) {
  if (!g) return;
  mblob_function_release(g->function);
  free(g->name);
  free(g);
}

/* With the lock. `*old` is what was replaced. */
static int put_global(const char *name, mblob_function *function, bool replace,
                      struct global **old) {
  *old = mb_map_get(&globals, name);
  if (*old && !replace)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "global function '%s' is already registered; pass replace to replace it", name);
  struct global *g = calloc(1, sizeof(*g));
  if (g) g->name = strdup(name);
  if (!g || !g->name) {
    free(g);
    return mb_fail_memory(sizeof(*g));
  }
  if (!mb_map_put(&globals, g->name, g)) {
    free(g->name);
    free(g);
    return MBLOB_E_MEMORY;
  }
  g->function = mblob_function_retain(function);
  (void)__atomic_fetch_add(&mb_global_generation_now, 1, __ATOMIC_RELEASE);
  return MBLOB_OK;
}

static int add_global(const char *name, mblob_function *function, bool replace) {
  struct global *old = NULL;
  mb_lock(&globals_lock);
  int status = put_global(name, function, replace, &old);
  mb_unlock(&globals_lock);
  if (!status) free_global(old); /* may close a library: not with the lock */
  return status;
}

/* One that was made; its reference is taken over. */
static void register_made(const char *name, mblob_function *function) {
  (void)add_global(name, function, false);
  mblob_function_release(function);
}

static void register_all(void) {
  mblob_function *function = NULL;
  const struct mb_profile *profile = mb_profile_of_program();
  for (const struct mb_global *g = profile->globals; g->call; g++)
    if (!mblob_function_create(g->call, NULL, NULL, &function)) register_made(g->name, function);
  for (const struct mb_method *const *table = profile->methods; *table; table++)
    for (const struct mb_method *m = *table; m->call; m++)
      if (!mb_method_bind(m, NULL, &function)) register_made(m->name, function);
}

/* Register what the program's table has, before the registry is first read or changed. */
static void begin_globals(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static atomic_bool begun;
  if (atomic_load_explicit(&begun, memory_order_acquire) || !mb_profile_of_program()) return;
  (void)pthread_once(&once, register_all);
  atomic_store_explicit(&begun, true, memory_order_release);
}

int mb_global_register(const char *name, mblob_function *function, bool replace) {
  begin_globals();
  return add_global(name, function, replace);
}

int mb_global_get(const char *name, mblob_function **out) {
  begin_globals();
  mb_lock(&globals_lock);
  struct global *g = mb_map_get(&globals, name);
  *out = g ? mblob_function_retain(g->function) : NULL;
  mb_unlock(&globals_lock);
  return MBLOB_OK;
}

int mb_global_need(const char *name, mblob_function **out) {
  int status = mb_global_get(name, out);
  if (status || *out) return status;
  const char *where = mb_profile_hint(name, "");
  return mb_fail(MBLOB_E_NOT_FOUND, "no global function '%s' is registered%s%s", name,
                 where ? "; " : "", where ? where : "");
}

int mb_global_remove(const char *name) {
  begin_globals();
  mb_lock(&globals_lock);
  struct global *g = mb_map_remove(&globals, name);
  mb_unlock(&globals_lock);
  if (!g) return mb_fail(MBLOB_E_NOT_FOUND, "no global function '%s' is registered", name);
  free_global(g);
  return MBLOB_OK;
}

int mb_global_names(const char ***out, size_t *count) {
  begin_globals();
  const struct mb_map_item *item;
  mb_lock(&globals_lock);
  size_t size = globals.count * sizeof(char *) + 1;
  for (size_t i = 0; (item = mb_map_next(&globals, &i));) size += strlen(item->key) + 1;
  *out = malloc(size);
  *count = 0;
  char *text = *out ? (char *)(*out + globals.count) : NULL;
  for (size_t i = 0; text && (item = mb_map_next(&globals, &i));) {
    (*out)[(*count)++] = text;
    text = stpcpy(text, item->key) + 1;
  }
  mb_unlock(&globals_lock);
  return *out ? MBLOB_OK : mb_fail_memory(size);
}
