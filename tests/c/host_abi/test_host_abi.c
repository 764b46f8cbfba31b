/* test_host_abi DIRECTORY: libraries that leave the runtime's functions undefined. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "../common/check.h"

static void every_reference_leads_to_this_runtime(const char *dir, const char *name) {
  mblob_module *module = open_ok(dir, name);
  CHECK(call_int(module, "constructor_ran", 0) == 1);
  CHECK(call_int(module, "address_of_call", 0) == (int64_t)(intptr_t)TVMFuncCall);
  CHECK(call_int(module, "weak_ones", 0) == 1);
  CHECK(call_int(module, "asks", 0) == 42);
  CHECK(call_int(module, "parallel", 3) == 3);
  float a[5] = {0, 1, 2, 3, 4}, out[5] = {0};
  CHECK(mblob_call(module, "two_stages", "float32[5],float32[5]", a, out) == MBLOB_OK);
  CHECK(out[0] == 2 && out[4] == 10);
  mblob_module_release(module);
}

static void texts_of_kernels_arrive_as_they_are(const char *dir) {
  enum { LONG = 1 << 20 };
  static char text[LONG + 64];
  mblob_module *module = open_ok(dir, "c_target.so");
  strcpy(text, "line 1\nline 2: \xC3\xA4\xE2\x82\xAC %s %n\n");
  CHECK(call_one(module, "fails_with", (TVMValue){.v_str = text}, kTVMStr, NULL, NULL) ==
        MBLOB_E_KERNEL);
  CHECK(strcmp(mblob_last_error(), text) == 0 && strcmp(TVMGetLastError(), text) == 0);
  memset(text, 'x', LONG);
  CHECK(call_one(module, "fails_with", (TVMValue){.v_str = text}, kTVMStr, NULL, NULL) ==
        MBLOB_E_KERNEL);
  CHECK(strcmp(mblob_last_error(), text) == 0);
  mblob_module_release(module);
}

enum { REPLACED = 2000 }; /* few, and a function of before is rarely caught */
static _Atomic bool enough;

static void *asks_for_ever(void *module) {
  while (!enough) {
    int64_t number = call_int(module, "asks", 0);
    CHECK(number >= 1 && number <= REPLACED);
  }
  return NULL;
}

/* The kernel keeps its handle in a static variable. */
static void a_replaced_global_function_is_replaced_for_kernels(const char *dir) {
  static int numbers[REPLACED + 1];
  pthread_t other;
  mblob_module *module = open_ok(dir, "c_target.so");
  CHECK(call_int(module, "asks", 0) == 42);
  CHECK(pthread_create(&other, NULL, asks_for_ever, module) == 0);
  for (int i = 1; i <= REPLACED; i++) {
    numbers[i] = i;
    register_answer(&numbers[i]);
    CHECK(call_int(module, "asks", 0) == i);
  }
  CHECK(TVMFuncRemoveGlobal("host.answer") == 0);
  CHECK(call_int(module, "asks", 0) == REPLACED); /* still there for who has it */
  enough = true;
  pthread_join(other, NULL);
  register_answer(NULL);
  CHECK(call_int(module, "asks", 0) == 42);
  mblob_module_release(module);
}

static void two_openings_are_one_library(const char *dir) {
  mblob_module *first = open_ok(dir, "c_target.so"), *second = open_ok(dir, "c_target.so");
  CHECK(mblob_module_symbol(first, "stored_in_data") ==
        mblob_module_symbol(second, "stored_in_data"));
  mblob_module_release(first);
  CHECK(call_int(second, "asks", 0) == 42);
  mblob_module_release(second);
}

static void the_copy_leaves_the_process_with_the_library(const char *dir) {
  mblob_module *module = open_ok(dir, "c_target.so");
  CHECK(mapped_lines("memfd:c_target.so") > 0);
  mblob_module_release(module);
  CHECK(mapped_lines("c_target.so") == 0);
}

static void code_is_mapped_from_the_file_itself(const char *dir) {
  char name[4096];
  Dl_info info;
  mblob_module *module = open_ok(dir, "c_target.so");
  void *code = mblob_module_symbol(module, "two_stages");
  unsigned long start, end;
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  CHECK(maps && code);
  char line[4200], flags[8];
  while (fgets(line, sizeof(line), maps))
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %4095s", &start, &end, flags, name) == 4 &&
        (unsigned long)(uintptr_t)code >= start && (unsigned long)(uintptr_t)code < end)
      found = strcmp(flags, "r-xp") == 0 && strstr(name, "/c_target.so") != NULL;
  fclose(maps);
  CHECK(found);
  CHECK(dladdr(code, &info) && strcmp(info.dli_sname, "two_stages") == 0);
  mblob_module_release(module);
}

static void a_copy_that_stays_in_memory_is_opened_again(const char *dir) {
  mblob_module *module = open_ok(dir, "c_target_unique.so");
  CHECK(call_int(module, "counts", 0) == 1 && call_int(module, "asks", 0) == 42);
  mblob_module_release(module);
  module = open_ok(dir, "c_target_unique.so");
  CHECK(call_int(module, "counts", 0) == 2); /* the same code in memory */
  CHECK(call_int(module, "asks", 0) == 42);
  mblob_module_release(module);
}

static void origin_is_the_folder_of_the_file(const char *dir) {
  mblob_module *module = open_ok(dir, "c_target_origin.so");
  CHECK(call_int(module, "asks_neighbour", 0) == 11);
  CHECK(call_int(module, "address_of_call", 0) == (int64_t)(intptr_t)TVMFuncCall);
  mblob_module_release(module);
}

static void what_a_constructor_announced_outlives_its_module(const char *dir) {
  mblob_module_release(open_ok(dir, "announces.so"));
  void *system_lib = NULL;
  TVMValue module, ret, none = {.v_handle = NULL};
  int code, null = kTVMNullptr;
  CHECK(TVMFuncGetGlobal("runtime.SystemLib", &system_lib) == 0 && system_lib);
  CHECK(TVMFuncCall(system_lib, &none, &null, 0, &module, &code) == 0 && code == kTVMModuleHandle);
  void *announced = NULL;
  CHECK(TVMModGetFunction(module.v_handle, "announced", 0, &announced) == 0 && announced);
  CHECK(TVMFuncCall(announced, &none, &null, 0, &ret, &code) == 0 && ret.v_int64 == 77);
  CHECK(TVMFuncFree(announced) == 0 && TVMModFree(module.v_handle) == 0 &&
        TVMFuncFree(system_lib) == 0);
}

static void another_runtime_in_the_process_is_not_called(const char *dir) {
  void *fake = dlopen(in(dir, "fake_runtime.so"), RTLD_NOW | RTLD_GLOBAL);
  CHECK(fake && dlsym(RTLD_DEFAULT, "TVMFuncCall") == dlsym(fake, "TVMFuncCall"));
  void *(*own_call)(void) = (void *(*)(void))dlsym(fake, "own_call");
  every_reference_leads_to_this_runtime(dir, "c_target.so");
  every_reference_leads_to_this_runtime(dir, "c_target_now.so");
  CHECK(own_call() == dlsym(fake, "TVMFuncCall")); /* nor does it see ours */
  dlclose(fake);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const char *dir = argv[1];
  register_answer(NULL);
  RUN(every_reference_leads_to_this_runtime, dir, "c_target.so");
  RUN(every_reference_leads_to_this_runtime, dir, "c_target_now.so");
  RUN(texts_of_kernels_arrive_as_they_are, dir);
  RUN(a_replaced_global_function_is_replaced_for_kernels, dir);
  RUN(two_openings_are_one_library, dir);
  RUN(the_copy_leaves_the_process_with_the_library, dir);
  RUN(code_is_mapped_from_the_file_itself, dir);
  RUN(a_copy_that_stays_in_memory_is_opened_again, dir);
  RUN(origin_is_the_folder_of_the_file, dir);
  RUN(what_a_constructor_announced_outlives_its_module, dir);
  RUN(another_runtime_in_the_process_is_not_called, dir);
  CHECK(TVMFuncRemoveGlobal("host.answer") == 0);
  return 0;
}
