/* Statically linked libraries: what is announced, what of it is believed. */
#include <stdbool.h>
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>

#include "../common/check.h"

typedef int (*kernel)(TVMValue *, int *, int, TVMValue *, int *, void *);

struct record {
  uint32_t version, flags;
  uint64_t blob_size;
};

static int give(TVMValue *ret, int *ret_code, int64_t value) {
  ret->v_int64 = value;
  *ret_code = kTVMArgInt;
  return 0;
}

static int seven(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  return give(ret, ret_code, 7);
}

static int eight(TVMValue *args, int *codes, int count, TVMValue *ret, int *ret_code,
                 void *resource) {
  (void)args, (void)codes, (void)count, (void)resource;
  return give(ret, ret_code, 8);
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
  CHECK(mblob_function_call(function, NULL, NULL, 0, &ret, &code) == MBLOB_OK &&
        code == kTVMArgInt);
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
  CHECK(mblob_system_lib("here_", &first) == MBLOB_OK &&
        mblob_system_lib("here_", &second) == MBLOB_OK);
  CHECK(first == second && result_of(first, "seven") == 7);
  CHECK(mblob_system_lib("", &all) == MBLOB_OK && all != first &&
        result_of(all, "here_seven") == 7);
  mblob_module_release(first);
  mblob_module_release(second);
  mblob_module_release(all);
}

static bool has(mblob_module *module, const char *name) {
  mblob_function *function;
  int status = mblob_module_function(module, name, 0, &function);
  CHECK(status == MBLOB_OK || status == MBLOB_E_NOT_FOUND);
  mblob_function_release(function);
  return status == MBLOB_OK;
}

/* What TVM's own function gives for a prefix. */
static mblob_module *as_tvm(const char *prefix) {
  mblob_function *get;
  TVMValue arg = {.v_str = prefix}, ret;
  int code = kTVMStr, ret_code;
  CHECK(mblob_get_global("runtime.SystemLib", &get) == MBLOB_OK);
  CHECK(mblob_function_call(get, &arg, &code, 1, &ret, &ret_code) == MBLOB_OK &&
        ret_code == kTVMModuleHandle);
  mblob_function_release(get);
  return ret.v_handle;
}

static void keep_libraries_apart(void) {
  static const struct record fine = {1, 0, 0};
  mblob_module *a, *inner, *none;
  announce("x___mblob_system_lib", &fine);
  announce_kernel("x_one", seven);
  announce_kernel("x_inner_one", eight);
  announce("x_inner___mblob_system_lib", &fine);
  CHECK(refused("")->status == MBLOB_E_NOT_FOUND && strstr(mblob_last_error(), "without a prefix"));
  CHECK(refused("x")->status == MBLOB_E_NOT_FOUND && refused("x_i")->status == MBLOB_E_NOT_FOUND);
  announce_kernel("x__low", eight);
  CHECK(refused("x__")->status == MBLOB_E_NOT_FOUND &&
        refused("x___")->status == MBLOB_E_NOT_FOUND);
  CHECK(mblob_system_lib("x_", &a) == MBLOB_OK && result_of(a, "_low") == 8);
  mblob_module_release(a);
  CHECK(mblob_system_lib("x_", &a) == MBLOB_OK && result_of(a, "one") == 7 &&
        result_of(a, "x_one") == 7);
  CHECK(!has(a, "inner_one") && !has(a, "x_inner_one"));
  announce("y___mblob_system_lib", &fine);
  announce_kernel("y_two", eight);
  CHECK(mblob_system_lib("x_inner_", &inner) == MBLOB_OK && result_of(inner, "one") == 8);
  CHECK(!has(inner, "x_one") && !has(inner, "two") && !has(inner, "y_two"));
  CHECK(!has(a, "y_two") && !has(a, "two"));
  announce_kernel("bare", seven);
  CHECK(mblob_system_lib("", &none) == MBLOB_OK && result_of(none, "bare") == 7);
  CHECK(!has(none, "x_one") && !has(none, "y_two") && !has(a, "bare"));
  mblob_module_release(a);
  mblob_module_release(inner);
  mblob_module_release(none);
}

/* With its prefix, else as it is; and a module for every prefix. */
static void find_names_as_tvm_where_tvm_is_asked(void) {
  static void *context;
  mblob_module *module = as_tvm("x_"), *none = as_tvm(""), *nobody = as_tvm("nobody_"), *own, *made;
  CHECK(result_of(module, "one") == 7 && result_of(module, "y_two") == 8 &&
        result_of(module, "bare") == 7);
  CHECK(result_of(none, "x_one") == 7 && result_of(none, "bare") == 7);
  CHECK(result_of(nobody, "bare") == 7 && !has(nobody, "one") && as_tvm("x_") == module);
  mblob_module_release(module);
  CHECK(mblob_system_lib("x_", &own) == MBLOB_OK && own != module && !has(own, "bare"));
  mblob_module_release(own);
  mblob_module_release(module);
  mblob_module_release(none);
  mblob_module_release(nobody);
  /* One context for both: kernels find what either module imports. */
  announce("z___tvm_module_ctx", &context);
  announce_kernel("z_three", seven);
  own = as_tvm("z_");
  const void *first = context;
  CHECK(mblob_system_lib("z_", &module) == MBLOB_OK && first && context == first);
  CHECK(mblob_system_lib("x_", &made) == MBLOB_OK && mblob_module_import(module, made) == MBLOB_OK);
  void *found = NULL;
  CHECK(TVMBackendGetFuncFromEnv(context, "one", &found) == 0 && found);
  mblob_module_release(made);
  mblob_module_release(own);
  mblob_module_release(module);
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
  static const char table[] =
      "mblob functions 1\nadd\tadd__plain\tplain\t0\tint, int\n"
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
  CHECK(strstr(mblob_last_error(), "nothing says how 'other' is called"));
  CHECK(mblob_module_function(module, "add__plain", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(mblob_module_function(module, "nope", 0, &function) == MBLOB_E_NOT_FOUND);
  CHECK(strstr(mblob_last_error(), "it has: add"));
  mblob_module_release(module);
  announce("lies___mblob_functions", "mblob functions 1\nadd\tadd\n");
  CHECK(strcmp(refused("lies_")->code, "function_table") == 0);
}

static void refuse_sizes_that_cannot_be(void) {
  static const uint8_t endless[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  static const uint8_t wraps[16] = {0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  static const uint8_t one_module[24] = {8, 0, 0, 0, 0, 0, 0, 0, 1};
  static const uint8_t nothing[16] = {8};
  static const struct record huge = {1, 0, 1u << 30}, old = {0, 0, 16}, with_index = {1, 1, 16},
                             with_table = {1, 2, 0}, small = {1, 0, 12}, right = {1, 0, 16};
  mblob_module *module;
  announce("endless___tvm_dev_mblob", endless);
  CHECK(strcmp(refused("endless_")->code, "size") == 0 &&
        strstr(mblob_last_error(), "length prefix"));
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
  CHECK(strcmp(refused("bare_")->code, "function_table_missing") == 0 &&
        strstr(mblob_last_error(), "record"));
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
  RUN(keep_libraries_apart); /* before anything without a prefix is announced */
  RUN(find_names_as_tvm_where_tvm_is_asked);
  RUN(refuse_what_is_not_there);
  RUN(give_the_same_module_each_time);
  RUN(follow_code_that_moved);
  RUN(tell_plain_functions_from_packed_ones);
  RUN(refuse_sizes_that_cannot_be);
  RUN(read_what_a_jit_made);
  return 0;
}
