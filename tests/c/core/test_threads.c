/* test_threads DIRECTORY: many threads open, look up, call, launch loops and release at the same
 * time. */
#include <pthread.h>
#include <unistd.h>

#include "../common/check.h"

enum { THREADS = 8, ROUNDS = 40 };

static const char *directory;
static mblob_module *shared;

static int keyed_open(void *context, const mblob_module_info *info, void **self) {
  (void)context;
  usleep(2000); /* others wait for it */
  *self = (void *)(uintptr_t)info->payload;
  return MBLOB_OK;
}

static int keyed_function(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name;
  return mblob_function_create(answer, NULL, NULL, out);
}

static int64_t call(mblob_module *module, const char *name, int64_t argument) {
  mblob_function *function;
  TVMValue arg = {.v_int64 = argument}, ret;
  int code = kTVMArgInt, ret_code;
  CHECK(mblob_module_function(module, name, 1, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, &arg, &code, 1, &ret, &ret_code) == MBLOB_OK);
  mblob_function_release(function);
  return ret.v_int64;
}

static void *work(void *argument) {
  char path[4096];
  int number = *(int *)argument;
  for (int round = 0; round < ROUNDS; round++) {
    mblob_module *module;
    snprintf(path, sizeof(path), "%s/%s", directory,
             (number + round) % 2 ? "plain.so" : "keyed.so");
    CHECK(mblob_open(path, NULL, &module) == MBLOB_OK);
    if ((number + round) % 2) {
      CHECK(call(module, "parallel", round % 4) >= 1);
      CHECK(call(module, "returns_int", 1) == 1);
    } else {
      CHECK(call(module, "calls_child", 1) == 42);
    }
    CHECK(call(shared, "calls_child", 1) == 42);
    CHECK(call(shared, "in_child", 1) == 42);
    mblob_function *none;
    CHECK(mblob_module_function(shared, "nothing of that name", 0, &none) == MBLOB_E_NOT_FOUND);
    CHECK(strstr(mblob_last_error(), "nothing of that name"));
    mblob_module_release(module);
  }
  return NULL;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  directory = argv[1];
  alarm(300); /* a thread that nobody wakes */
  mblob_loader loader = {.struct_size = sizeof(loader),
                         .type_key = "my_key",
                         .open = keyed_open,
                         .function = keyed_function};
  CHECK(mblob_register_loader(&loader) == MBLOB_OK);
  CHECK(mblob_open(in(directory, "keyed.so"), NULL, &shared) == MBLOB_OK);
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  mblob_module_release(shared);
  return 0;
}
