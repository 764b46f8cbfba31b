/* A program with two libraries of the same kernels linked in, of the prefixes one_ and two_.
 * Valid C++17 too. */
#include <stdint.h>

#include "../common/check.h"

#ifdef ARCHIVES
MBLOB_SYSTEM_LIB(one_);
MBLOB_SYSTEM_LIB(two_);
#endif

static int twice(TVMValue *args, int *codes, int count, TVMRetValueHandle ret, void *resource) {
  TVMValue value;
  int code = kTVMArgInt;
  (void)resource;
  if (count != 1 || codes[0] != kTVMArgInt)
    return mblob_set_error(MBLOB_E_ARGUMENT, "test.twice: one int");
  value.v_int64 = 2 * args[0].v_int64;
  return TVMCFuncSetReturn(ret, &value, &code, 1);
}

static int64_t call(mblob_module *module, const char *name, int64_t given) {
  mblob_function *function;
  TVMValue arg, ret;
  int code = kTVMArgInt, ret_code;
  arg.v_int64 = given;
  CHECK(mblob_module_function(module, name, 0, &function) == MBLOB_OK);
  CHECK(mblob_function_call(function, &arg, &code, 1, &ret, &ret_code) == MBLOB_OK &&
        ret_code == kTVMArgInt);
  mblob_function_release(function);
  return ret.v_int64;
}

static void use(const char *prefix, int bias, const char *failure, int times) {
  mblob_module *module;
  DLTensor weights;
  const void *payload;
  size_t size;
  float in[3] = {1, 2, 3}, out[3];
  CHECK(mblob_system_lib(prefix, &module) == MBLOB_OK);
  for (int i = 0; i < times; i++)
    CHECK(mblob_call(module, "shift", "float32[3],float32[3],int64", in, out, (int64_t)3) ==
          MBLOB_OK);
  CHECK(out[0] == (float)(1 + bias) && out[2] == (float)(3 + bias));
  CHECK(mblob_call(module, "shift", "float32[3],float32[2],int64", in, out, (int64_t)3) ==
        MBLOB_E_KERNEL);
  CHECK(strstr(mblob_last_error(), "shift"));
  CHECK(call(module, "how_often", 0) == times);
  CHECK(call(module, "sum", 0) == 63 * 64 / 2);
  CHECK(call(module, "ask", 21) == 42);
  CHECK(mblob_call(module, "fail", "") == MBLOB_E_KERNEL &&
        strcmp(mblob_last_error(), failure) == 0);
  CHECK(mblob_module_symbol(module, "shift") && !mblob_module_symbol(module, "calls"));
  CHECK(mblob_module_import_count(module) == 2);
  CHECK(mblob_module_tensor(module, "w", &weights) == MBLOB_OK && weights.ndim == 1 &&
        weights.shape[0] == 3);
  CHECK((uintptr_t)weights.data % 64 == 0 && ((const float *)weights.data)[2] == (float)(bias + 2));
  CHECK(mblob_module_payload(mblob_module_import_at(module, 1), &payload, &size) == MBLOB_OK);
  CHECK(size == 5 && memcmp(payload, "hello", 5) == 0);
  mblob_module_release(module);
}

int main(void) {
  mblob_function *function;
  mblob_module *module;
  CHECK(mblob_function_create(twice, NULL, NULL, &function) == MBLOB_OK);
  CHECK(mblob_register_global("test.twice", function, 0) == MBLOB_OK);
  mblob_function_release(function);
  use("one_", 0, "no 0", 2);
  use("two_", 105, "no 5", 3);
  CHECK(mblob_system_lib("three_", &module) == MBLOB_E_NOT_FOUND);
  puts("fine");
  return 0;
}
