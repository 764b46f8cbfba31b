#define _GNU_SOURCE
#include "environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "builtins.h"
#include "c_api.h"
#include "calls.h"
#include "common.h"
#include "errors.h"

/* ---- functions by name ----------------------------------------------------------------------- */

/* The object of a function that the runtime keeps as long as the library that asked. Callers
 * borrow it and keep it for as long, so it is made once for each function and range of releases,
 * holds no reference, and is never freed: its function may go, and another come to its place,
 * which it then stands for. */
struct lent {
  void *object;
  char key[32];
};

static struct mb_lock lent_lock = MB_LOCK_INIT;
static struct mb_map all_lent;

static void *lend(enum mb_releases releases, mblob_function *function) {
  char key[sizeof(((struct lent *)0)->key)];
  (void)snprintf(key, sizeof(key), "%d %p", (int)releases, (void *)function);
  mb_lock(&lent_lock);
  struct lent *lent = mb_map_get(&all_lent, key);
  if (!lent && (lent = calloc(1, sizeof(*lent)))) {
    lent->object = mb_object_function(releases, function, false);
    (void)snprintf(lent->key, sizeof(lent->key), "%s", key);
    if (!lent->object || !mb_map_put(&all_lent, lent->key, lent)) {
      mb_ffi_object_release(releases, lent->object);
      free(lent);
      lent = NULL;
    }
  } else if (!lent) {
    (void)mb_fail_memory(sizeof(*lent));
  }
  if (lent) mb_builtin_prepare(releases, lent->object, function);
  mb_unlock(&lent_lock);
  return lent ? lent->object : NULL;
}

/* The kind that tvm_ffi's error has, and its full stop. */
static void tell_kind_of_missing(void) {
  const mblob_host *host = mb_plugin_host();
  char *text = host->last_status() == MBLOB_E_NOT_FOUND ? strdup(host->last_error()) : NULL;
  if (text) (void)mb_fail(MBLOB_E_NOT_FOUND, "RuntimeError: %s.", text);
  free(text);
}

int mb_find_function(enum mb_releases releases, void *library, const char *name, void **out) {
  union {
    void *address;
    int (*call)(void *library, const char *name, TVMFunctionHandle *out);
  } find = {mb_plugin_host()->symbol("TVMBackendGetFuncFromEnv")};
  TVMFunctionHandle function = NULL;
  if (!name || !out) return mb_error_null("TVMFFIEnvModLookupFromImports");
  *out = NULL;
  if (!find.address || find.call(library, name, &function))
    tell_kind_of_missing();
  else
    *out = lend(releases, function);
  return *out ? 0 : mb_error_raise_last();
}

/* ---- loops ----------------------------------------------------------------------------------- */

struct ffi_loop {
  FTVMParallelLambda task;
  void *data;
  struct mb_lock lock;
  void *error; /* of the first of the tasks that failed, `failed` */
  int failed;
};

/* A task leaves its error on its own thread. The loop fails with that of its first task, as it
 * would without threads. */
static void keep_task_error(struct ffi_loop *loop, int task_id, void *error) {
  void *other = error;
  mb_lock(&loop->lock);
  if (!loop->error || task_id < loop->failed) {
    other = loop->error;
    loop->error = error;
    loop->failed = task_id;
  }
  mb_unlock(&loop->lock);
  mb_ffi_object_release(MB_RELEASES_0_22, other);
}

static int run_task(int task_id, TVMParallelGroupEnv *env, void *data) {
  struct ffi_loop *loop = data;
  uint64_t before = mb_plugin_host()->error_count();
  mb_error_raise(NULL);
  MB_CATCHES;
  int rc = loop->task(task_id, env, loop->data);
  if (!rc) return 0;
  (void)mb_error_record("task of a parallel loop", rc, before);
  (void)mb_error_raise_last();
  keep_task_error(loop, task_id, mb_error_take());
  return rc;
}

int mb_ffi_parallel_launch(FTVMParallelLambda task, void *data, int count) {
  union {
    void *address;
    int (*call)(FTVMParallelLambda task, void *data, int count);
  } launch = {mb_plugin_host()->symbol("TVMBackendParallelLaunch")};
  struct ffi_loop loop = {task, data, MB_LOCK_INIT, NULL, 0};
  int rc = launch.address ? launch.call(run_task, &loop, count) : -1;
  if (rc && loop.error)
    mb_error_raise(loop.error);
  else if (rc)
    (void)mb_error_raise_last();
  mb_lock_destroy(&loop.lock);
  return rc ? -1 : 0;
}

/* ---- handles that are made once -------------------------------------------------------------- */

/* One lock for all: what is made here is made in the first moments. */
static struct mb_lock once_lock = MB_LOCK_INIT_UNCOUNTED;

/* What a function returned; an exception is left as an error. */
static int error_of_thrown(const char *function, int rc) {
  if (rc != MB_THROWN) return rc;
  (void)mb_error_record(function, rc, mb_plugin_host()->error_count());
  return mb_error_raise_last();
}

static __attribute__((noinline)) int init(void **handle, int (*make)(void **result)) {
  int rc = 0;
  mb_lock(&once_lock);
  if (!*handle) {
    void *made = NULL;
    MB_CATCHES; /* the lock is to be given back */
    rc = error_of_thrown("TVMFFIHandleInitOnce", make(&made));
    if (!rc && !made) {
      (void)mb_fail(MBLOB_E_KERNEL,
                    "TVMFFIHandleInitOnce: the function that makes the handle gave none");
      rc = mb_error_raise_last();
    }
    if (!rc) __atomic_store_n(handle, made, __ATOMIC_RELEASE);
  }
  mb_unlock(&once_lock);
  return rc;
}

int mb_init_once(void **handle, int (*make)(void **result)) {
  if (!handle || !make) return mb_error_null("TVMFFIHandleInitOnce");
  return __atomic_load_n(handle, __ATOMIC_ACQUIRE) ? 0 : init(handle, make);
}

int mb_deinit_once(void **handle, int (*deinit)(void *handle)) {
  if (!handle || !deinit) return mb_error_null("TVMFFIHandleDeinitOnce");
  mb_lock(&once_lock);
  void *old = __atomic_exchange_n(handle, NULL, __ATOMIC_ACQ_REL);
  MB_CATCHES;
  int rc = old ? error_of_thrown("TVMFFIHandleDeinitOnce", deinit(old)) : 0;
  mb_unlock(&once_lock);
  return rc;
}

/* ---- hooks of tvm_ffi's Python package --------------------------------------------------------- */

/* Of memory that allocate() gave: the pointer in front of an object, and what malloc() returned. */
struct before {
  void *memory;
  void (*free_object)(void *object);
};

static void free_object(void *object) { free(((struct before *)object)[-1].memory); }

static void *allocate(size_t size, size_t alignment, int32_t type, void *context) {
  (void)type, (void)context;
  const size_t step = alignment > sizeof(struct before) ? alignment : sizeof(struct before);
  char *memory = (alignment & (alignment - 1)) == 0 && size <= SIZE_MAX - 2 * step
                     ? malloc(size + 2 * step)
                     : NULL;
  if (!memory) {
    (void)mb_fail_memory(size);
    (void)mb_error_raise_last();
    return NULL;
  }
  char *object = memory + step + (step - (uintptr_t)memory % step) % step;
  ((struct before *)(void *)object)[-1] = (struct before){memory, free_object};
  return object;
}

struct mb_object_allocator *mb_get_allocator(void) {
  static struct mb_object_allocator standard = {allocate, NULL};
  return &standard;
}

static int has_none(const char *function, const char *why) {
  (void)mb_fail(MBLOB_E_KERNEL, "NotImplementedError: %s: %s", function, why);
  return mb_error_raise_last();
}

int mb_set_allocator(struct mb_object_allocator *allocator) {
  if (!allocator || allocator == mb_get_allocator()) return 0;
  return has_none("TVMFFISetCustomAllocator",
                  "mblob allocates its objects itself; leave the allocator that is there");
}

int mb_register_c_api(const char *name, void *symbol) {
  (void)name, (void)symbol;
  return has_none(
      "TVMFFIEnvRegisterCAPI",
      "mblob asks no functions of an interpreter; look at signals when the call is over");
}

int mb_register_context_symbol(const char *name, void *symbol) {
  if (!name || !symbol) return mb_error_null("TVMFFIEnvModRegisterContextSymbol");
  if (mb_ffi_symbol(MB_RELEASES_0_22, name) || mb_plugin_host()->symbol(name)) return 0;
  (void)mb_fail(MBLOB_E_KERNEL,
                "NotImplementedError: TVMFFIEnvModRegisterContextSymbol: mblob fills the variables"
                " \"__NAME\" of its own functions only, and has no \"%.200s\"; register it with"
                " TVMFFIFunctionSetGlobal",
                name);
  return mb_error_raise_last();
}
