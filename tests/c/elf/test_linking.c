/* test_linking DIRECTORY: what the dynamic linker makes difficult. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/check.h"

static void a_library_that_stays_in_memory_is_opened_again(const char *dir) {
  int first = 1, second = 2;
  register_answer(&first);
  mblob_module *module = open_ok(dir, "unique.so");
  CHECK(call_int(module, "asks", 0) == 1);
  CHECK(call_int(module, "counts", 0) == 1);
  mblob_module_release(module);
  register_answer(&second);
  module = open_ok(dir, "unique.so");
  CHECK(call_int(module, "counts", 0) == 2); /* the same code in memory */
  CHECK(call_int(module, "asks", 0) == 2);   /* through a handle from the first opening */
  mblob_module_release(module);
  CHECK(TVMFuncRemoveGlobal("host.answer") == 0);
}

static void another_holder_of_the_file_does_no_harm(const char *dir) {
  void *other = dlopen(in(dir, "keyed.so"), RTLD_NOW | RTLD_LOCAL);
  CHECK(other);
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  for (int round = 0; round < 3; round++) {
    mblob_module *keyed, *next;
    CHECK(mblob_open(in(dir, "keyed.so"), &stub, &keyed) == MBLOB_OK);
    CHECK(call_int(keyed, "which", 0) == 0);
    mblob_module_release(keyed);
    /* Its descriptor's number is free again, and the file is still loaded. */
    CHECK(mblob_open(in(dir, "other.so"), &stub, &next) == MBLOB_OK);
    CHECK(call_int(next, "which", 0) == 7);
    mblob_module_release(next);
  }
  dlclose(other);
}

static void global_symbols_of_others_are_not_taken(const char *dir) {
  void *global = dlopen(in(dir, "other.so"), RTLD_NOW | RTLD_GLOBAL);
  int value = 5;
  CHECK(global);
  register_answer(&value);
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  mblob_module *keyed;
  CHECK(mblob_open(in(dir, "keyed.so"), &stub, &keyed) == MBLOB_OK);
  mblob_function *function;
  CHECK(mblob_module_function(keyed, "calls_child", 0, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, NULL, NULL, 0, NULL, NULL) ==
        MBLOB_E_LOADER); /* its own slots, its own tree */
  mblob_function_release(function);
  mblob_module_release(keyed);
  dlclose(global);
  CHECK(TVMFuncRemoveGlobal("host.answer") == 0);
}

static void origin_is_the_folder_of_the_file(const char *dir) {
  mblob_module *module = open_ok(dir, "needs_neighbour.so");
  CHECK(call_int(module, "asks_neighbour", 0) == 11);
  mblob_module_release(module);
}

/* `mode` is that of fopen(): "r+b" writes in place, and the same bytes leave what is loaded
 * sound. */
static void copy_as(const char *from, const char *to, const char *mode) {
  static char bytes[1 << 20];
  FILE *in_file = fopen(from, "rb"), *out = fopen(to, mode);
  CHECK(in_file && out);
  size_t size = fread(bytes, 1, sizeof(bytes), in_file);
  CHECK(fwrite(bytes, 1, size, out) == size && fclose(out) == 0);
  fclose(in_file);
}

static void copy(const char *from, const char *to) { copy_as(from, to, "wb"); }

static void a_replaced_file_is_the_new_library(const char *dir) {
  char path[4096], part[4200];
  snprintf(path, sizeof(path), "%s/replaced.%d.so", dir, (int)getpid());
  snprintf(part, sizeof(part), "%s.part", path);
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  mblob_module *old, *new;
  copy(in(dir, "keyed.so"), path);
  CHECK(mblob_open(path, &stub, &old) == MBLOB_OK);
  copy(in(dir, "other.so"), part);
  CHECK(rename(part, path) == 0);
  CHECK(mblob_open(path, &stub, &new) == MBLOB_OK);
  CHECK(call_int(old, "which", 0) == 0);
  CHECK(call_int(new, "which", 0) == 7);
  mblob_module_release(old);
  mblob_module_release(new);
  CHECK(unlink(path) == 0);
}

static void a_file_written_in_place_is_not_taken_for_what_is_loaded(const char *dir) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/overwritten.%d.so", dir, (int)getpid());
  mblob_open_options stub = {sizeof(stub), MBLOB_VERIFY_HEADER, MBLOB_MISSING_STUB, 0, NULL, 0, 0};
  mblob_module *module, *again = NULL;
  copy(in(dir, "keyed.so"), path);
  CHECK(mblob_open(path, &stub, &module) == MBLOB_OK);
  const struct timespec earlier[2] = {{.tv_sec = 1000},
                                      {.tv_sec = 1000}}; /* clocks of files may be coarse */
  copy_as(in(dir, "keyed.so"), path, "r+b");
  CHECK(utimensat(AT_FDCWD, path, earlier, 0) == 0);
  CHECK(mblob_open(path, &stub, &again) == MBLOB_E_IO && !again);
  CHECK(strstr(mblob_last_error(), "overwritten in place") && strstr(mblob_last_error(), path));
  mblob_module_release(module);
  CHECK(mblob_open(path, &stub, &again) == MBLOB_OK); /* loaded anew */
  mblob_module_release(again);
  CHECK(unlink(path) == 0);
}

static void loops_run_in_a_child_after_fork(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(call_int(module, "parallel", 4) == 4);
  pid_t child = fork();
  if (!child) _exit(call_int(module, "parallel", 4) == 4 ? 0 : 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  mblob_module_release(module);
}

/* One processor, so that the limit is the same on every machine. The number is read at the first
 * loop. */
static void the_environment_asks_for_threads_within_reason(const char *dir) {
  cpu_set_t before, one;
  CPU_ZERO(&one);
  CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
  for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
  pid_t child = fork();
  if (!child) {
    CHECK(setenv("TVM_NUM_THREADS", "100000", 1) == 0);
    mblob_module *module = open_ok(dir, "plain.so");
    CHECK(call_int(module, "parallel", 0) == 64);
    mblob_module_release(module);
    _exit(0);
  }
  CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_released_library_leaves_the_process(const char *dir) {
  mblob_module *module = open_ok(dir, "plain.so");
  CHECK(mapped_lines("/plain.so") > 0);
  mblob_module_release(module);
  CHECK(mapped_lines("/plain.so") == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *dir = argv[1];
  RUN(the_environment_asks_for_threads_within_reason,
      dir); /* before the first loop of this process */
  RUN(a_library_that_stays_in_memory_is_opened_again, dir);
  RUN(another_holder_of_the_file_does_no_harm, dir);
  RUN(global_symbols_of_others_are_not_taken, dir);
  RUN(origin_is_the_folder_of_the_file, dir);
  RUN(a_replaced_file_is_the_new_library, dir);
  RUN(a_file_written_in_place_is_not_taken_for_what_is_loaded, dir);
  if (!is_emulated()) RUN(loops_run_in_a_child_after_fork, dir);
  RUN(a_released_library_leaves_the_process, dir);
  return 0;
}
