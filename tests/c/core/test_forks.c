/* test_forks DIRECTORY: children of a process whose other threads are amid anything open, call,
 * launch loops and drop. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <tvm/runtime/c_backend_api.h>

#include "../common/check.h"

enum { THREADS = 4, FORKS = 40, SECONDS = 30 };

static const char *directory;
static atomic_bool ended;

/* ---- a loader that can be stopped ------------------------------------------------------------ */

static int stopped_in = -1; /* 0: in open, 1: in close */
static int ends[2];         /* of a socket: [1] is the loader's */

static void stop_in(int place) {
  char byte = 0;
  if (stopped_in != place) return;
  CHECK(write(ends[1], "", 1) == 1 && read(ends[1], &byte, 1) == 1);
}

static int keyed_open(void *context, const mblob_module_info *info, void **self) {
  (void)context;
  stop_in(0);
  *self = (void *)(uintptr_t)info->payload;
  return MBLOB_OK;
}

static int keyed_function(void *self, const char *name, mblob_function **out) {
  (void)self, (void)name;
  return mblob_function_create(answer, NULL, NULL, out);
}

static void keyed_close(void *self) {
  (void)self;
  stop_in(1);
}

/* ---- what threads and children do ------------------------------------------------------------ */

static int task(int id, TVMParallelGroupEnv *env, void *data) {
  (void)id, (void)env;
  atomic_fetch_add((atomic_int *)data, 1);
  return 0;
}

static int64_t number_of(mblob_module *module, const char *name) {
  TVMValue ret;
  int code;
  CHECK(call_one(module, name, (TVMValue){.v_int64 = 1}, kTVMArgInt, &ret, &code) == MBLOB_OK);
  return ret.v_int64;
}

static void use(const char *name) {
  char path[4096];
  mblob_module *module = NULL;
  snprintf(path, sizeof(path), "%s/%s", directory, name);
  CHECK(mblob_open(path, NULL, &module) == MBLOB_OK);
  if (strcmp(name, "plain.so") == 0)
    CHECK(number_of(module, "returns_int") == 1);
  else
    CHECK(number_of(module, "calls_child") == 42);
  mblob_module_release(module);
}

static void use_everything(bool loops) {
  mblob_function *function = NULL, *found = NULL;
  mblob_module *none = NULL;
  atomic_int ran = 0;
  use("plain.so");
  use("keyed.so");
  CHECK(mblob_function_create(answer, NULL, NULL, &function) == MBLOB_OK);
  CHECK(mblob_register_global("test.forks", function, 1) == MBLOB_OK);
  CHECK(mblob_get_global("test.forks", &found) == MBLOB_OK);
  mblob_function_release(found);
  mblob_function_release(function);
  CHECK(mblob_open("/nowhere/none.so", NULL, &none) == MBLOB_E_IO &&
        strstr(mblob_last_error(), "none.so"));
  void *block = TVMBackendAllocWorkspace(kDLCPU, 0, 1000, kDLFloat, 32);
  CHECK(block && TVMBackendFreeWorkspace(kDLCPU, 0, block) == 0);
  CHECK(TVMBackendRegisterSystemLibSymbol("test_forks_symbol", &ran) == 0);
  if (loops) CHECK(TVMBackendParallelLaunch(task, &ran, 3) == 0 && atomic_load(&ran) == 3);
}

static void *use_on(void *ignored) {
  while (!atomic_load(&ended)) use_everything(true);
  return ignored;
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void end_child(void) {
  alarm(SECONDS);
  use_everything(FORKS_AMONG_THREADS);
  _exit(0);
}

static void check_child(pid_t child) {
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void forks_once(void) {
  pid_t child = fork();
  if (!child) end_child();
  check_child(child);
}

static void children_work_amid_threads_that_open_call_and_drop(void) {
  pthread_t threads[THREADS];
  atomic_store(&ended, false);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, use_on, NULL) == 0);
  for (int i = 0; i < FORKS; i++) forks_once();
  atomic_store(&ended, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void *fork_on(void *ignored) {
  for (int i = 0; i < FORKS / 4; i++) forks_once();
  return ignored;
}

static void several_threads_fork_at_once(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, i % 2 ? fork_on : use_on, NULL) == 0);
  for (int i = 1; i < THREADS; i += 2) pthread_join(threads[i], NULL);
  atomic_store(&ended, true);
  for (int i = 0; i < THREADS; i += 2) pthread_join(threads[i], NULL);
}

/* ---- another thread is stopped amid something ------------------------------------------------ */

static void *open_forks(void *ignored) {
  mblob_module_release(open_ok(directory, "forks.so"));
  return ignored;
}

static mblob_module *shared;

static void *use_shared(void *ignored) {
  CHECK(number_of(shared, "calls_child") == 42);
  return ignored;
}

static void *use_keyed(void *ignored) {
  use("keyed.so");
  return ignored;
}

/* In the child nobody is stopped. */
static void forks_while(void *(*work)(void *), int place) {
  pthread_t thread;
  char byte = 0;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char constructor[16];
  snprintf(constructor, sizeof(constructor), "w%d", ends[1]);
  if (place < 0) setenv("MBLOB_TEST_CONSTRUCTOR", constructor, 1);
  stopped_in = place;
  CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
  CHECK(read(ends[0], &byte, 1) == 1);
  pid_t child = fork();
  if (!child) {
    stopped_in = -1;
    pid_t grandchild = fork();
    alarm(SECONDS);
    if (shared) use_shared(NULL);
    if (!grandchild) end_child();
    check_child(grandchild);
    end_child();
  }
  check_child(child);
  CHECK(write(ends[0], "", 1) == 1);
  pthread_join(thread, NULL);
  unsetenv("MBLOB_TEST_CONSTRUCTOR");
  stopped_in = -1;
  close(ends[0]);
  close(ends[1]);
  use_everything(true);
}

static void a_child_opens_a_module_that_a_thread_of_its_parent_is_opening(void) {
  shared = open_ok(directory, "keyed.so");
  forks_while(use_shared, 0);
  mblob_module_release(shared);
  shared = NULL;
}

static void a_child_opens_a_library_that_a_thread_of_its_parent_is_closing(void) {
  forks_while(use_keyed, 1);
}
static void a_child_opens_libraries_while_a_constructor_runs_in_its_parent(void) {
  forks_while(open_forks, -1);
}

/* ---- forks inside ---------------------------------------------------------------------------- */

static void a_constructor_may_fork(void) {
  pthread_t thread;
  setenv("MBLOB_TEST_CONSTRUCTOR", "f", 1);
  atomic_store(&ended, !FORKS_AMONG_THREADS);
  CHECK(pthread_create(&thread, NULL, use_on, NULL) == 0);
  mblob_module *module = open_ok(directory, "forks.so"); /* comes back twice */
  pid_t child = (pid_t)number_of(module, "child");
  CHECK(child >= 0);
  mblob_module_release(module);
  unsetenv("MBLOB_TEST_CONSTRUCTOR");
  if (!child) end_child();
  check_child(child);
  atomic_store(&ended, true);
  pthread_join(thread, NULL);
  use_everything(true);
}

static void a_constructor_may_start_programs(void) {
  setenv("MBLOB_TEST_CONSTRUCTOR", "s", 1);
  mblob_module_release(open_ok(directory, "forks.so"));
  unsetenv("MBLOB_TEST_CONSTRUCTOR");
}

static pid_t inner;

static int forking_open(void *context, const mblob_module_info *info, void **self) {
  (void)context;
  *self = (void *)(uintptr_t)info->payload;
  inner = fork();
  return MBLOB_OK;
}

static void a_loader_may_fork(void) {
  mblob_module *module = NULL;
  mblob_loader loader = {.struct_size = sizeof(loader),
                         .type_key = "my_key",
                         .open = forking_open,
                         .function = keyed_function};
  const mblob_loader *const loaders[] = {&loader};
  mblob_open_options options = {
      .struct_size = sizeof(options), .loaders = loaders, .loader_count = 1};
  CHECK(mblob_open(in(directory, "keyed.so"), &options, &module) == MBLOB_OK);
  CHECK(number_of(module, "calls_child") == 42);
  mblob_module_release(module);
  if (!inner) end_child();
  check_child(inner);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  directory = argv[1];
  mblob_loader loader = {.struct_size = sizeof(loader),
                         .type_key = "my_key",
                         .open = keyed_open,
                         .function = keyed_function,
                         .close = keyed_close};
  CHECK(mblob_register_loader(&loader) == MBLOB_OK);
  if (is_emulated()) return 0;
  alarm(4 * SECONDS);
  use_everything(true);
  RUN(a_child_opens_a_module_that_a_thread_of_its_parent_is_opening);
  RUN(a_child_opens_a_library_that_a_thread_of_its_parent_is_closing);
  RUN(a_child_opens_libraries_while_a_constructor_runs_in_its_parent);
  RUN(a_constructor_may_fork);
  RUN(a_constructor_may_start_programs);
  RUN(a_loader_may_fork);
  if (!FORKS_AMONG_THREADS) return 0;
  RUN(children_work_amid_threads_that_open_call_and_drop);
  RUN(several_threads_fork_at_once);
  return 0;
}
