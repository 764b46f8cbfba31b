/* Statically linked libraries: what is announced, what of it is believed. */
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

#include "check.h"

typedef int (*kernel)(TVMValue *, int *, int, TVMValue *, int *, void *);

static int answer(TVMValue *ret, int *ret_code, int64_t value) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

static int seven(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  return answer(ret, ret_code, 7);
}

static int eight(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code, void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  return answer(ret, ret_code, 8);
}

static void announce(const char *name, const void *address) {
  CHECK(TVMBackendRegisterSystemLibSymbol(name, (void *)(uintptr_t)address) == 0);
}

static void announce_kernel(const char *name, kernel function) {
  union {
    kernel function;
    void *address;
  } code = {function};
  announce(name, code.address);
}

static int64_t result_of(mblob_module *module, const char *name) {
  mblob_function *function;
  TVMValue ret;
  int code;
  CHECK(mblob_module_function(module, name, 0, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, NULL, NULL, 0, &ret, &code) == MBLOB_OK && code == kTVMArgInt);
  mblob_function_release(function);
  return ret.v_int64;
}

/* The error of opening `prefix`. */
static const mblob_error_info *refused(const char *prefix) {
  mblob_module *module = (mblob_module *)&module;
  CHECK(mblob_system_lib(prefix, &module) != MBLOB_OK && !module);
  return mblob_last_error_info();
}

static void refuse_what_is_not_there(void) {
  CHECK(refused("")->status == MBLOB_E_NOT_FOUND);
  announce_kernel("here_seven", seven);
  const mblob_error_info *error = refused("there_");
  CHECK(error->status == MBLOB_E_NOT_FOUND && strstr(error->message, "'there_'"));
  CHECK(mblob_system_lib("here_", NULL) == MBLOB_E_ARGUMENT);
  CHECK(refused(NULL)->status == MBLOB_E_ARGUMENT);
  CHECK(TVMBackendRegisterSystemLibSymbol(NULL, announce) == -1);
  CHECK(TVMBackendRegisterSystemLibSymbol("here_nothing", NULL) == -1);
}

static void give_the_same_module_each_time(void) {
  mblob_module *first, *second, *all;
  CHECK(mblob_system_lib("here_", &first) == MBLOB_OK && mblob_system_lib("here_", &second) == MBLOB_OK);
  CHECK(first == second && result_of(first, "seven") == 7);
  CHECK(mblob_system_lib("", &all) == MBLOB_OK && all != first && result_of(all, "here_seven") == 7);
  mblob_module_release(first);
  mblob_module_release(second);
  mblob_module_release(all);
}

/* A shared library that is loaded again is elsewhere. */
static void follow_code_that_moved(void) {
  static void *before, *after;
  mblob_module *old, *new;
  announce_kernel("moved_answer", seven);
  announce("moved___tvm_module_ctx", &before);
  CHECK(mblob_system_lib("moved_", &old) == MBLOB_OK && result_of(old, "answer") == 7 && before);
  announce_kernel("moved_answer", eight);
  announce("moved___tvm_module_ctx", &after);
  CHECK(mblob_system_lib("moved_", &new) == MBLOB_OK && result_of(new, "answer") == 8 && after);
  CHECK(old != new && after != before && result_of(old, "answer") == 7);
  mblob_module_release(old);
  mblob_module_release(new);
}

/* The name of a function is announced for its packed form, the plain function under another one. */
static void tell_plain_functions_from_packed_ones(void) {
  static const char table[] = "mblob functions 1\nadd\tadd__plain\tplain\t0\tint, int\n"
                              "add\tadd\tpacked\t0\tint, int\nother\tother__plain\tplain\t0\t?\n";
  mblob_module *module;
  mblob_function *function;
  announce("told___mblob_functions", table);
  announce_kernel("told_add", seven);
  announce("told_add__plain", table);
  announce("told_other__plain", table + 1);
  CHECK(mblob_system_lib("told_", &module) == MBLOB_OK && result_of(module, "add") == 7);
  CHECK(mblob_module_symbol(module, "add") == (const void *)table);
  CHECK(mblob_module_symbol(module, "other") == (const void *)(table + 1));
  CHECK(mblob_module_function(module, "other", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "plain C function"));
  CHECK(mblob_module_function(module, "add__plain", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(mblob_module_function(module, "nope", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "it has: add"));
  mblob_module_release(module);
  announce("lies___mblob_functions", "mblob functions 1\nadd\tadd\n");
  CHECK(strcmp(refused("lies_")->code, "function_table") == 0);
}

struct record {
  uint32_t version, flags;
  uint64_t blob_size;
};

static void refuse_sizes_that_cannot_be(void) {
  static const uint8_t endless[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  static const uint8_t wraps[16] = {0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  static const uint8_t one_module[24] = {8, 0, 0, 0, 0, 0, 0, 0, 1};
  static const uint8_t nothing[16] = {8};
  static const struct record huge = {1, 0, 1u << 30}, old = {0, 0, 16}, with_index = {1, 1, 16},
                             with_table = {1, 2, 0}, small = {1, 0, 12}, right = {1, 0, 16};
  mblob_module *module;
  announce("endless___tvm_dev_mblob", endless);
  CHECK(strcmp(refused("endless_")->code, "size") == 0 && strstr(mblob_last_error(), "length prefix"));
  announce("wraps___tvm_dev_mblob", wraps);
  CHECK(strcmp(refused("wraps_")->code, "size") == 0);
  announce("cut___tvm_dev_mblob", one_module);
  CHECK(strcmp(refused("cut_")->code, "truncated") == 0);
  announce("huge___tvm_dev_mblob", nothing);
  announce("huge___mblob_system_lib", &huge);
  CHECK(strcmp(refused("huge_")->code, "size") == 0 && strstr(mblob_last_error(), "record"));
  announce("old___mblob_system_lib", &old);
  CHECK(strcmp(refused("old_")->code, "system_library") == 0);
  announce("lost___tvm_dev_mblob", nothing);
  announce("lost___mblob_system_lib", &with_index);
  CHECK(strcmp(refused("lost_")->code, "index_footer") == 0);
  announce("gone___mblob_system_lib", &with_index);
  CHECK(strcmp(refused("gone_")->code, "index_footer") == 0);
  announce("bare___mblob_system_lib", &with_table);
  CHECK(strcmp(refused("bare_")->code, "function_table_missing") == 0 && strstr(mblob_last_error(), "record"));
  announce("small___tvm_dev_mblob", nothing);
  announce("small___mblob_system_lib", &small);
  CHECK(strcmp(refused("small_")->code, "truncated") == 0);
  announce("right___tvm_dev_mblob", nothing);
  announce("right___mblob_system_lib", &right);
  CHECK(mblob_system_lib("right_", &module) == MBLOB_OK && mblob_module_import_count(module) == 0);
  mblob_module_release(module);
}

/* Memory of no program or library has no end that is known; the blob is checked all the same. */
static void read_what_a_jit_made(void) {
  mblob_module *module;
  uint8_t *blob = calloc(1, 16);
  CHECK(blob);
  blob[0] = 8;
  announce("jit___tvm_dev_mblob", blob);
  CHECK(mblob_system_lib("jit_", &module) == MBLOB_OK);
  CHECK(strcmp(mblob_module_type_key(module), "library") == 0 && !*mblob_module_path(module));
  mblob_module_release(module);
  blob[8] = 1;
  CHECK(mblob_system_lib("jit_", &module) == MBLOB_OK); /* it is open, and not read again */
  mblob_module_release(module);
}

int main(void) {
  RUN(refuse_what_is_not_there);
  RUN(give_the_same_module_each_time);
  RUN(follow_code_that_moved);
  RUN(tell_plain_functions_from_packed_ones);
  RUN(refuse_sizes_that_cannot_be);
  RUN(read_what_a_jit_made);
  return 0;
}
