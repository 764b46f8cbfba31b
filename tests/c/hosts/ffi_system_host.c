/* A program with system libraries of both dialects linked in: own_ and classic_ of the same
 * functions, tvm_ of TVM if TVM_LIBRARY. */
#include <stdint.h>

#include "../common/check.h"

static int twice(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  TVMValue value = {.v_int64 = 2 * args[0].v_int64};
  int code = kTVMArgInt;
  (void)resource;
  if (count != 1 || codes[0] != kTVMArgInt)
    return mblob_set_error(MBLOB_E_ARGUMENT, "test.twice: one int");
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int call(mblob_module *module, const char *name, int64_t given, TVMValue *ret,
                int *ret_code) {
  mblob_function *function = NULL;
  const TVMValue arg = {.v_int64 = given};
  const int code = kTVMArgInt;
  int status = mblob_module_function(module, name, 0, &function);
  if (!status) status = mblob_function_call(function, &arg, &code, 1, ret, ret_code);
  if (function) mblob_function_release(function);
  return status;
}

static bool says(const char *text) { return strstr(mblob_last_error(), text) != NULL; }

static void use_own(const char *prefix, bool ffi) {
  mblob_module *module;
  mblob_function *function;
  TVMValue ret;
  const void *payload;
  size_t size;
  int code;
  CHECK(mblob_system_lib(prefix, &module) == MBLOB_OK);
  CHECK(mblob_module_import_count(module) == 1);
  CHECK(mblob_module_payload(mblob_module_import_at(module, 0), &payload, &size) == MBLOB_OK);
  CHECK(size == 5 && memcmp(payload, "hello", 5) == 0);
  CHECK(mblob_module_function(module, "half", 0, &function) == MBLOB_OK);
  CHECK(mblob_function_argument_mode(function) ==
            (ffi ? MBLOB_ARGUMENTS_FFI : MBLOB_ARGUMENTS_CLASSIC) &&
        strcmp(mblob_function_signature(function), "float") == 0);
  mblob_function_release(function);
  CHECK(call(module, "half", 5, &ret, &code) == MBLOB_OK && code == kTVMArgFloat &&
        ret.v_float64 == 2.5);
  CHECK(call(module, "odd", 5, &ret, &code) == MBLOB_OK && code == kTVMArgInt && ret.v_int64 == 1);
  CHECK(mblob_call(module, "odd", "str", "x") == MBLOB_E_KERNEL && says("odd"));
  CHECK(mblob_module_symbol(module, "half") && !mblob_module_symbol(module, "nobody"));
  CHECK(call(module, "nobody", 0, &ret, &code) == MBLOB_E_NOT_FOUND && says("it has: half, odd"));
  mblob_module_release(module);
}

#ifdef TVM_LIBRARY
static void use_tvms(void) {
  static _Alignas(64) float in[64], out[64];
  mblob_module *module;
  TVMValue ret;
  int code;
  CHECK(mblob_system_lib("tvm_", &module) == MBLOB_OK);
  for (int i = 0; i < 64; i++) in[i] = (float)i;
  for (int round = 0; round < 2; round++) {
    CHECK(call(module, "main", 5, &ret, &code) == MBLOB_OK && code == kTVMArgInt &&
          ret.v_int64 == 15);
    CHECK(call(module, "__tvm_main__", 6, &ret, &code) == MBLOB_OK && ret.v_int64 == 18);
    CHECK(call(module, "asks", 5, &ret, &code) == MBLOB_OK && ret.v_int64 == 11);
    CHECK(call(module, "above", 5, &ret, &code) == MBLOB_OK && code == kTVMArgBool &&
          ret.v_int64 == 1);
    CHECK(call(module, "prefixed", 5, &ret, &code) == MBLOB_OK && ret.v_int64 == 12);
    CHECK(mblob_call(module, "loop", "float32[64],float32[64]", in, out) == MBLOB_OK &&
          out[63] == 126);
    CHECK(mblob_call(module, "loop", "float32[64],float32[63]", in, out) == MBLOB_E_KERNEL);
    CHECK(says("ValueError: Invalid b.shape[0] on argument #1"));
    CHECK(call(module, "half", 5, &ret, &code) == MBLOB_E_NOT_FOUND);
    CHECK(mblob_call(module, "below", "float32[64],int", in, 64) == MBLOB_OK);
    CHECK(mblob_call(module, "below", "float32[64],int", in, 63) ==
          MBLOB_E_KERNEL); /* the last task */
    CHECK(says("ValueError: too large"));
  }
  mblob_module_release(module);
}
#endif

int main(void) {
  mblob_function *function;
  mblob_module *module;
  CHECK(mblob_function_create(twice, NULL, NULL, &function) == MBLOB_OK);
  CHECK(mblob_register_global("test.twice", function, 0) == MBLOB_OK);
  mblob_function_release(function);
  use_own("own_", true);
  use_own("classic_", false);
#ifdef TVM_LIBRARY
  use_tvms();
#endif
  CHECK(mblob_system_lib("other_", &module) == MBLOB_E_NOT_FOUND &&
        says("no system library with the prefix 'other_'"));
  printf("fine\n");
  return 0;
}
