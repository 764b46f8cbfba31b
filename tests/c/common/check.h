/* check.h - what the tests of the C runtime share. */
#ifndef CHECK_H
#define CHECK_H

#include <mblob.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check_tvm.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof(*(list))))

#define RUN(test, ...)       \
  do {                       \
    printf("  %s\n", #test); \
    test(__VA_ARGS__);       \
  } while (0)

/* Whether the machine is an emulated one (test_other_machines.py): qemu-user loses its own state
 * in a child that a process of several threads forks. */
static inline bool is_emulated(void) { return getenv("MBLOB_TEST_EMULATED") != NULL; }

/* ThreadSanitizer has no support for threads in children of threads, and AddressSanitizer before
 * gcc 14 and LLVM 18 does not keep the locks of its allocator free across a fork: a thread that
 * a child starts may wait for one forever, in libasan, before it comes to this code. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define FORKS_AMONG_THREADS false
#elif defined(__has_feature)
#define FORKS_AMONG_THREADS (!__has_feature(thread_sanitizer) && !__has_feature(address_sanitizer))
#else
#define FORKS_AMONG_THREADS true
#endif

/* Run a test in a process of its own: what it starts, and the environment it sets, ends with it. */
static inline void apart(const char *name, void (*test)(void)) {
  printf("  %s\n", name);
  (void)fflush(stdout);
  pid_t child = fork();
  int status = 1;
  CHECK(child >= 0);
  if (!child) {
    test();
    exit(0); /* with exit handlers: leaks are looked for */
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#define APART(test) apart(#test, test)

/* DIRECTORY/NAME in a static buffer. */
static inline const char *in(const char *directory, const char *name) {
  static char path[4096];
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  return path;
}

static inline mblob_module *open_ok(const char *directory, const char *name) {
  mblob_module *module = NULL;
  CHECK(mblob_open(in(directory, name), NULL, &module) == MBLOB_OK);
  return module;
}

/* ---- functions of one argument, imports included ---- */

static inline int call_one(mblob_module *module, const char *name, TVMValue argument, int code,
                           TVMValue *ret, int *ret_code) {
  mblob_function *function;
  CHECK(mblob_module_function(module, name, 1, &function) == MBLOB_OK);
  int status = mblob_function_call(function, &argument, &code, 1, ret, ret_code);
  mblob_function_release(function);
  return status;
}

static inline int call_status(mblob_module *module, const char *name, int64_t argument) {
  TVMValue value;
  value.v_int64 = argument;
  return call_one(module, name, value, kTVMArgInt, NULL, NULL);
}

static inline int64_t call_int(mblob_module *module, const char *name, int64_t argument) {
  TVMValue value, ret;
  int ret_code;
  value.v_int64 = argument;
  CHECK(call_one(module, name, value, kTVMArgInt, &ret, &ret_code) == MBLOB_OK &&
        ret_code == kTVMArgInt);
  return ret.v_int64;
}

/* ---- the global function "host.answer" ---- */

static inline int answer(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                         void *resource) {
  TVMValue value;
  int code = kTVMArgInt;
  (void)args, (void)codes, (void)count;
  value.v_int64 = resource ? *(int *)resource : 42;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

/* It gives `*number`, 42 if that is NULL. */
static inline void register_answer(int *number) {
  mblob_function *function;
  CHECK(mblob_function_create(answer, number, NULL, &function) == MBLOB_OK);
  CHECK(mblob_register_global("host.answer", function, 1) == MBLOB_OK);
  mblob_function_release(function);
}

/* Lines of this process's memory map that contain `name`. */
static inline long mapped_lines(const char *name) {
  char line[4096];
  long count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  while (fgets(line, sizeof(line), maps)) count += strstr(line, name) != NULL;
  fclose(maps);
  return count;
}

#endif
